"""The losses of training, per graph: cross-entropy on marginals, or the expected UAI error of appendix E."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.factors import tensors
from equifactor.kernels.segments import segment_logsumexp, segment_sum
from equifactor.solvers.learned.wiring import Flat

# The smallest divisor of a relative error. Errors are relative to the best log score, which constraints can make 0.
# Chosen by hand.
SMALLEST_SCORE = 1e-3
_LOWEST = -99.0  # Replaces ln 0 in an expectation, so that the gradient stays finite. Chosen by hand.


def kl_per_graph(flat: Flat, log_b: Float[Tensor, " X"], target: Float[Tensor, " X"]) -> Float[Tensor, " G"]:
    """Return the mean over the variables of each graph of KL(target || beliefs), the cross-entropy minus a constant."""
    scale = segment_logsumexp(log_b, flat.var_of_state, flat.num_vars)
    scale = torch.where(torch.isneginf(scale), 0.0, scale).index_select(0, flat.var_of_state)
    log_q = (log_b - scale).clamp_min(_LOWEST)
    wanted = target > 0
    terms = torch.where(wanted, target * (torch.where(wanted, target, 1.0).log() - log_q), 0.0)
    graph_of_state = flat.graph_of_var[flat.var_of_state]
    size = segment_sum(torch.ones_like(flat.graph_of_var, dtype=log_b.dtype), flat.graph_of_var, flat.num_graphs)
    return segment_sum(terms, graph_of_state, flat.num_graphs) / size.clamp_min(1.0)


def squared_error_per_graph(flat: Flat, log_b: Float[Tensor, " X"], target: Float[Tensor, " X"]) -> Tensor:
    """Return [G] the mean over the states of each graph of the squared error of the probability."""
    error = (tensors.probabilities(flat, log_b) - target).square()
    graph_of_state = flat.graph_of_var[flat.var_of_state]
    size = segment_sum(torch.ones_like(error), graph_of_state, flat.num_graphs)
    return segment_sum(error, graph_of_state, flat.num_graphs) / size.clamp_min(1.0)


def uai_per_graph(
    flat: Flat, log_b: Float[Tensor, " X"], best: Float[Tensor, " G"], power: float = 1.0
) -> Float[Tensor, " G"]:
    """Return [G] the relative error (s* - E[s]) / |s*|, where s* is the best known log score.

    E[s] is the expected log score of variables drawn from their beliefs to the power `power`. This is the loss of the
    paper with two differences. It can fall below 0 if beliefs are better than a best known score that is not optimal. A
    power above 1 brings the drawn assignments closer to the decoded assignment.
    """
    expected = expected_log_score(flat, tensors.probabilities(flat, power * log_b))
    return (best - expected) / best.abs().clamp_min(SMALLEST_SCORE)


def expected_log_score(flat: Flat, probabilities: Float[Tensor, " X"]) -> Float[Tensor, " G"]:
    """Return E[sum_a log f_a(x_a)] of independent variables: each table contracted with its beliefs; cost O(T)."""
    flat.require_tables("training for MAP")
    on_edges = probabilities.index_select(0, flat.state_of_edge_state)
    score = probabilities.new_zeros(flat.num_graphs)
    for group in flat.groups:
        table = group.table(flat.log_phi).clamp_min(_LOWEST)
        for j in range(len(group.shape) - 1, -1, -1):
            belief = group.message(on_edges, j)
            table = (table * belief.reshape(len(belief), *[1] * j, group.shape[j])).sum(-1)
        graph = flat.graph_of_factor[torch.as_tensor(group.factors, device=score.device)]
        score = score + segment_sum(table, graph, flat.num_graphs)
    return score
