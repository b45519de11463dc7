"""Upper bounds on MAP that hold for arbitrary messages (appendix C of the paper), for numpy and for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph import FactorGraph, FlatGraph, compile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from equifactor.base.typing import FloatArray


def map_upper_bound(graph: FactorGraph | Sequence[FactorGraph] | FlatGraph[Any], messages: Any) -> Any:
    """Upper bound on the best log score of each graph, from any factor-to-variable log messages.

    sum_a max_{x_a} (log f_a(x_a) - sum_i m_{a->i}(x_i)) + sum_i max_x sum_a m_{a->i}(x): what a message takes from its
    factor it adds to its variable, so no score changes, and a sum of maxima is at least the maximum of the sum.

    Args:
        graph: a graph, several, or what `compile` made of them; a FlatGraph of tensors takes messages in a tensor and
            gives a bound that is differentiable, on its device.
        messages: [S] in the order of the compiled graph, unary factors included; normalised or not. An entry of -inf
            must be a proof that no assignment of positive probability has this state, as every -inf of max-product
            from uniform messages is; the state is then left out of all terms.

    Returns:
        [G], -inf where the messages prove that every assignment has probability zero.

    Cost O(T). Raises ValueError for messages of another shape, and for numpy messages with NaN or +inf.
    """
    flat = graph if isinstance(graph, FlatGraph) else compile(graph)
    return upper_bound_of(flat, _checked(flat, messages))


def upper_bound_of(flat: FlatGraph[Any], messages: Any) -> Any:
    """`map_upper_bound` for callers that have compiled the graph and know their messages to be sound."""
    return _bound(flat, messages) if isinstance(flat.log_phi, np.ndarray) else _tensor_bound(flat, messages)


def _bound(flat: FlatGraph[np.ndarray], messages: FloatArray) -> FloatArray:
    """[G] the bound on numpy arrays."""
    from equifactor.factors.factor_messages import add_up
    from equifactor.factors.message_answers import reduce_tables
    from equifactor.factors.structured_kernels import kind_rows_of
    from equifactor.graph.layout import layout_of
    from equifactor.kernels.jit import plain

    layout = layout_of(flat)
    total, zeros = np.zeros(flat.num_states), np.zeros(flat.num_states, np.int64)
    add_up(layout.edges, messages, total, zeros)
    log_b_v = np.where(zeros > 0, -np.inf, total)
    given_back = np.where(np.isneginf(log_b_v)[flat.state_of_edge_state], -np.inf, -messages)
    best_a = reduce_tables(plain(layout), kind_rows_of(flat, True), flat.log_phi, given_back, True)
    best_i = np.maximum.reduceat(log_b_v, flat.var_ptr[:-1]) if flat.num_vars else np.zeros(0)
    return flat.sum_per_graph(layout.graph_of_factor, best_a) + flat.sum_per_graph(flat.graph_of_var, best_i)


def _tensor_bound(flat: FlatGraph[Tensor], messages: Tensor) -> Tensor:
    """[G] the bound on tensors."""
    import torch

    from equifactor.factors import tensors
    from equifactor.kernels.segments import segment_max, segment_sum

    log_b_v = tensors.variable_log_beliefs(flat, messages)
    bound = segment_sum(segment_max(log_b_v, flat.var_of_state, flat.num_vars), flat.graph_of_var, flat.num_graphs)
    given_back = torch.where(torch.isneginf(log_b_v)[flat.state_of_edge_state], -torch.inf, -messages)
    for group in flat.groups:
        best = tensors.with_messages(group, flat.log_phi, given_back).reshape(group.num_factors, -1).amax(-1)
        bound = bound + segment_sum(best, flat.graph_of_factor[group.factors], flat.num_graphs)
    for own in tensors.structured_of(flat):
        best = own.log_totals(flat.log_phi, given_back, "max")
        bound = bound + segment_sum(best, flat.graph_of_factor[own.group.factors], flat.num_graphs)
    return bound


def tighten(
    graph: FactorGraph | Sequence[FactorGraph] | FlatGraph[np.ndarray], messages: FloatArray, passes: int = 10
) -> tuple[FloatArray, FloatArray]:
    """Messages with a lower bound, by passes of sequential dual ascent (`srmp`) from any messages.

    Args:
        graph: as in `map_upper_bound`.
        messages: [S] as in `map_upper_bound`; those of unary factors are replaced by their tables.
        passes: over all variables, forward and back in turn.

    Returns:
        messages [S], and their `map_upper_bound` [G], which is never above that of the given ones up to rounding.

    Cost O(T (k - 1)) per pass for arity k.
    """
    from equifactor.solvers.optimise.ascent import VariableAscent

    flat = graph if isinstance(graph, FlatGraph) else compile(graph)
    ascent = VariableAscent(flat, _checked(flat, messages))
    for _ in range(passes):
        ascent.sweep()
    return ascent.messages, upper_bound_of(flat, ascent.messages)


def _checked(flat: FlatGraph[Any], messages: Any) -> Any:
    """Messages of the right shape; those of numpy as float64 without NaN and +inf, a look that tensors are spared."""
    messages = np.asarray(messages, np.float64) if isinstance(flat.log_phi, np.ndarray) else messages
    if tuple(messages.shape) != (flat.num_edge_states,):
        raise ValueError(f"messages need shape ({flat.num_edge_states},), found {tuple(messages.shape)}")
    if isinstance(messages, np.ndarray) and (np.isnan(messages).any() or np.isposinf(messages).any()):
        raise ValueError("messages must be natural logs: finite, or -inf for an impossible state; found NaN or +inf")
    return messages
