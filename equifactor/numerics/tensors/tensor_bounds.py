"""Bounds that hold for arbitrary messages (appendix C of the paper)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.graph import FlatGraph
from equifactor.numerics.tensors.segments import segment_max, segment_sum
from equifactor.numerics.tensors.tensor_beliefs import variable_log_beliefs

Flat = FlatGraph[Tensor]


def map_upper_bound(g: Flat, msg_fv: Float[Tensor, " S"]) -> Float[Tensor, " G"]:
    """Upper bound on the best log score of each graph, for any messages m_{a->i}.

    sum_a max_{x_a} (log f_a(x_a) - sum_i m_{a->i}(x_i)) + sum_i max_x sum_a m_{a->i}(x): moving a message from
    the factor's term to the variable's changes no score. States that a -inf message rules out are left out of both
    terms, which is valid because BP writes -inf only where no assignment of positive probability passes. Cost O(T).
    """
    log_b_v = variable_log_beliefs(g, msg_fv)
    bound = segment_sum(segment_max(log_b_v, g.var_of_state, g.num_vars), g.graph_of_var, g.num_graphs)
    ruled_out = torch.isneginf(log_b_v)[g.state_of_edge_state]
    given_back = torch.where(ruled_out, -torch.inf, -msg_fv)
    for group in g.groups:
        table = group.table(g.log_phi)
        for j in range(len(group.shape)):
            axes = [1] * j + [group.shape[j]] + [1] * (len(group.shape) - 1 - j)
            table = table + group.message(given_back, j).reshape(-1, *axes)
        best = table.reshape(group.num_factors, -1).amax(-1)
        graph = g.graph_of_factor[torch.as_tensor(group.factors, device=bound.device)]
        bound = bound + segment_sum(best, graph, g.num_graphs)
    return bound
