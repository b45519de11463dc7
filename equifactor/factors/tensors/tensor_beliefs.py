"""Beliefs and the Bethe estimate of ln Z from factor-to-variable messages."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError
from equifactor.factors.tensors.structured_tensors import structured_of, structured_scores
from equifactor.factors.tensors.tensor_messages import sum_of_other_factors, with_messages
from equifactor.graph import FlatGraph
from equifactor.kernels.segments import finite, logsumexp, segment_logsumexp, segment_max, segment_sum

Flat = FlatGraph[Tensor]


def variable_log_beliefs(g: Flat, msg_fv: Float[Tensor, " S"]) -> Float[Tensor, " X"]:
    """Return log b_i(x) = sum over the factors a of i of m_{a->i}(x), not normalised."""
    return segment_sum(msg_fv, g.state_of_edge_state, g.num_states)  # -inf plus a number is -inf: no NaN here


def probabilities(g: Flat, log_b_v: Float[Tensor, " X"]) -> Float[Tensor, " X"]:
    """Return normalised beliefs; all zero for a variable without any possible state.

    They are scaled outside the log: in single precision, a log of -10^5 has few digits left behind the point.
    """
    top = finite(segment_max(log_b_v.detach(), g.var_of_state, g.num_vars))
    weight = (log_b_v - top.index_select(0, g.var_of_state)).exp()
    total = segment_sum(weight, g.var_of_state, g.num_vars)
    return weight / torch.where(total > 0, total, 1.0).index_select(0, g.var_of_state)


def max_states(g: Flat, log_b_v: Float[Tensor, " X"]) -> Int[Tensor, " V"]:
    """Return the state of highest belief of each variable, the first on ties."""
    best = segment_max(log_b_v, g.var_of_state, g.num_vars)
    position = torch.arange(g.num_states, device=log_b_v.device)
    candidate = torch.where(log_b_v >= best[g.var_of_state], position, g.num_states)
    first = torch.full((g.num_vars,), g.num_states, device=log_b_v.device)
    first = first.scatter_reduce(0, g.var_of_state, candidate, "amin")
    return first - g.var_ptr[:-1]


@checks_types("g", "states")
def log_scores(g: Flat, states: Int[Tensor, " V"]) -> Float[Tensor, " G"]:
    """Return the log score of one assignment per graph: the table entries it picks, added up; cost O(E)."""
    if states.shape != (g.num_vars,) or states.is_floating_point() or states.is_complex():
        raise ModelError(f"states must hold {g.num_vars} whole numbers, found {states.dtype} {[*states.shape]}.")
    score = g.log_phi.new_zeros(g.num_graphs)
    for group in g.groups:
        picked = torch.zeros(group.num_factors, dtype=torch.int64, device=score.device)
        for j, d in enumerate(group.shape):
            picked = picked * d + states[g.var_of_edge[group.edges[j]]]
        table = group.table(g.log_phi).reshape(group.num_factors, -1)
        entries = table.gather(1, picked[:, None]).squeeze(1)
        score = score + segment_sum(entries, g.graph_of_factor[group.factors], g.num_graphs)
    for factors, values in structured_scores(g, states):
        score = score + segment_sum(values, g.graph_of_factor[factors], g.num_graphs)
    return score


def bethe_log_z(g: Flat, msg_fv: Float[Tensor, " S"]) -> Float[Tensor, " G"]:
    """Return the Bethe estimate ln Z = sum_a ln Z_a + sum_i (1 - d_i) ln Z_i for each graph; exact on forests.

    Z_a = sum_{x_a} f_a prod_i m_{i->a} and Z_i = sum_x prod_a m_{a->i}, d_i the number of factors of i. This
    form is stationary in the messages at a fixed point, so small message errors enter squared, and its gradient
    with respect to log_phi is the factor belief.
    """
    log_z_i = segment_logsumexp(variable_log_beliefs(g, msg_fv), g.var_of_state, g.num_vars)
    degree = segment_sum(torch.ones_like(g.var_of_edge), g.var_of_edge, g.num_vars)
    terms = torch.where(degree == 1, 0.0, (1 - degree) * log_z_i)  # 0 times -inf is meant as 0
    log_z = segment_sum(terms, g.graph_of_var, g.num_graphs)
    empty = count_empty(log_z_i, g.graph_of_var, g.num_graphs)

    msg_vf = sum_of_other_factors(g, msg_fv)
    for group in g.groups:
        belief = with_messages(group, g.log_phi, msg_vf)
        log_z_a = logsumexp(belief.reshape(group.num_factors, -1), -1)
        graph = g.graph_of_factor[group.factors]
        log_z = log_z + segment_sum(log_z_a, graph, g.num_graphs)
        empty = empty + count_empty(log_z_a, graph, g.num_graphs)
    for own in structured_of(g):
        log_z_a, graph = own.log_totals(g.log_phi, msg_vf, "sum"), g.graph_of_factor[own.group.factors]
        log_z = log_z + segment_sum(log_z_a, graph, g.num_graphs)
        empty = empty + count_empty(log_z_a, graph, g.num_graphs)
    # A factor without support makes Z zero; its variables then hold +inf from (1 - d_i) ln 0. NaN stays NaN.
    return torch.where(empty > 0, -torch.inf, log_z)


def count_empty(log_total: Float[Tensor, " N"], index: Int[Tensor, " N"], count: int) -> Float[Tensor, " G"]:
    """Return how many of the normalisers [N] of each graph are zero: nothing is left of their variable or factor."""
    return segment_sum(torch.isneginf(log_total).to(log_total.dtype), index, count)
