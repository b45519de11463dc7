"""Upper bounds on MAP that hold for arbitrary messages (appendix C of [Sun21]), for numpy and for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, brief
from equifactor.graph import FactorGraph, FlatGraph, compile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from equifactor.base.typing import FloatArray


def map_upper_bound(graph: FactorGraph | Sequence[FactorGraph] | FlatGraph[Any], messages: Any) -> Any:
    """Return an upper bound on the best log score of each graph, from any factor-to-variable log messages.

    The bound is sum_a max_{x_a} (log f_a(x_a) - sum_i m_{a->i}(x_i)) + sum_i max_x sum_a m_{a->i}(x). A message is
    added to its variable and subtracted from its factor, so no score changes. A sum of maxima is at least the maximum
    of the sum.

    Args:
        graph: a graph, several graphs, or a compiled FlatGraph. A FlatGraph of tensors takes messages in a tensor
            and gives a bound that is differentiable, on its device.
        messages: [S] in the order of the compiled graph, unary factors included; normalised or not. An entry of
            -inf must be a proof that no assignment of positive probability has this state, as every -inf of max-product
            from uniform messages is. The state is then left out of all terms.

    Returns:
        [G], -inf where the messages prove that every assignment has probability zero.

    Cost O(T). Raises `ModelError` for messages of another shape, and for numpy messages with NaN or +inf.
    """
    flat = graph if isinstance(graph, FlatGraph) else compile(graph)
    return upper_bound_of(flat, _checked(flat, messages))


def upper_bound_of(flat: FlatGraph[Any], messages: Any) -> Any:
    """Return `map_upper_bound` of a compiled graph and messages that need no check."""
    return _bound(flat, messages) if isinstance(flat.log_phi, np.ndarray) else _tensor_bound(flat, messages)


def _bound(flat: FlatGraph[np.ndarray], messages: FloatArray) -> FloatArray:
    """Return the bound [G] on numpy arrays."""
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
    """Return the bound [G] on tensors."""
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


@checks_types("passes")
def tighten(
    graph: FactorGraph | Sequence[FactorGraph] | FlatGraph[np.ndarray], messages: FloatArray, passes: int = 10
) -> tuple[FloatArray, FloatArray]:
    """Lower the bound of any messages by passes of sequential dual ascent (`srmp`).

    Args:
        graph: as in `map_upper_bound`.
        messages: [S] as in `map_upper_bound`; those of unary factors are replaced by their tables.
        passes: number of passes over all variables, forward and back in turn.

    Returns:
        messages [S], and their `map_upper_bound` [G], which up to rounding is never above that of the given
            messages.

    Cost O(T (k - 1)) per pass for arity k.
    """
    from equifactor.solvers.duals.ascent import VariableAscent

    flat = graph if isinstance(graph, FlatGraph) else compile(graph)
    ascent = VariableAscent(flat, _checked(flat, messages))
    for _ in range(passes):
        ascent.sweep()
    return ascent.messages, upper_bound_of(flat, ascent.messages)


def _checked(flat: FlatGraph[Any], messages: Any) -> Any:
    """Return messages of the right shape; numpy messages become float64 and must not hold NaN or +inf."""
    try:
        messages = np.asarray(messages, np.float64) if isinstance(flat.log_phi, np.ndarray) else messages
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        raise ModelError(f"messages must be numbers, found {brief(messages)}.") from None
    if tuple(messages.shape) != (flat.num_edge_states,):
        raise ModelError(f"messages must have shape ({flat.num_edge_states},), but have shape {tuple(messages.shape)}.")
    if isinstance(messages, np.ndarray) and (np.isnan(messages).any() or np.isposinf(messages).any()):
        raise ModelError(
            "messages must be natural logs: finite, or -inf for an impossible state. They contain NaN or +inf."
        )
    return messages
