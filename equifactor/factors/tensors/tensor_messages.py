"""One step of belief propagation, as tensor operations (Eq. 2 and 3 of [Sun21])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.base.typing import Semiring
from equifactor.factors.tensors.structured_tensors import StructuredTensors, structured_of
from equifactor.graph import FlatGraph
from equifactor.graph.flat_graph import FactorGroup
from equifactor.kernels.segments import logsumexp, segment_max, segment_sum

Flat = FlatGraph[Tensor]


def first_messages(g: Flat, semiring: Semiring = "sum") -> Float[Tensor, " S"]:
    """Return messages before the first iteration: unary factors send their normalised table, the others are uniform."""
    blocks = []
    for group in g.groups:
        for d in group.shape:
            table = group.table(g.log_phi) if len(group.shape) == 1 else g.log_phi.new_zeros(group.num_factors, d)
            blocks.append(_normalized(table, semiring).reshape(-1))
    for own in structured_of(g):
        blocks.append(own.normalized(g.log_phi.new_zeros(own.kind.num_states), semiring))
    return torch.cat(blocks) if blocks else g.log_phi.new_zeros(0)


def sum_of_other_factors(g: Flat, msg_fv: Float[Tensor, " S"]) -> Float[Tensor, " S"]:
    """Return variable-to-factor messages, m_{i->a}(x) = sum over the other factors c of i of m_{c->i}(x).

    Not normalised: together with `bethe_log_z` the constants matter. Cost O(S).
    """
    state = g.state_of_edge_state
    if not g.has_zeros and not g.structured:
        return segment_sum(msg_fv, state, g.num_states).index_select(0, state) - msg_fv
    zero = torch.isneginf(msg_fv)
    finite = torch.where(zero, 0.0, msg_fv)
    others = segment_sum(finite, state, g.num_states).index_select(0, state) - finite
    is_zero = zero.to(msg_fv.dtype)
    zeros_of_others = segment_sum(is_zero, state, g.num_states)[state] - is_zero
    return torch.where(zeros_of_others > 0.5, -torch.inf, others)


def marginalize_tables(
    g: Flat,
    msg_vf: Float[Tensor, " S"],
    semiring: Semiring = "sum",
    kinds: Sequence[StructuredTensors] | None = None,
) -> Float[Tensor, " S"]:
    """Return normalised factor-to-variable messages: `log_phi + sum_{j != i} m_{j->a}` reduced over the others' states.

    `kinds` is `structured_of(g)`, which callers with many steps compute once.
    """
    blocks = [_normalized(b, semiring).reshape(-1) for b in _reduced(g.groups, g.log_phi, msg_vf, semiring)]
    for own in structured_of(g) if kinds is None else kinds:
        blocks.append(own.normalized(own.messages(g.log_phi, msg_vf, semiring), semiring))
    return torch.cat(blocks) if blocks else msg_vf.new_zeros(0)


def reduce_tables(
    groups: Sequence[FactorGroup],
    log_phi: Float[Tensor, " T *H"],
    msg_vf: Float[Tensor, " S *H"],
    semiring: Semiring = "sum",
    *,
    zeros: bool = True,
) -> Float[Tensor, " S *H"]:
    """Return `marginalize_tables` before normalisation, for some of the groups and any number of channels.

    Without true zeros (`zeros=False`) it takes fewer and faster operations.
    """
    blocks = [b.reshape(-1, *msg_vf.shape[1:]) for b in _reduced(groups, log_phi, msg_vf, semiring, zeros)]
    return torch.cat(blocks) if blocks else torch.zeros_like(msg_vf)


def _reduced(
    groups: Sequence[FactorGroup], log_phi: Tensor, msg_vf: Tensor, semiring: Semiring, zeros: bool = True
) -> Iterator[Float[Tensor, " F D *H"]]:
    """Yield one block per group and slot.

    Slot after slot is absorbed into the table and reduced, so the first reduction touches T entries, the next T/d. All
    k messages of a factor take about 2T work instead of k T, and nothing is ever subtracted.
    """
    for group in groups:
        arity = len(group.shape)
        table = group.table(log_phi)  # [F, d_j, .., d_k, *H]: slots before j are already reduced
        messages = [group.message(msg_vf, j) for j in range(arity)]
        for j in range(arity):
            out = table
            for later in range(arity - 1, j, -1):  # the last axis first: it is contiguous
                out = _absorb(out, messages[later], later - j + 1, semiring, zeros)
            yield out
            if j + 1 < arity:
                table = _absorb(table, messages[j], 1, semiring, zeros)


def _absorb(table: Tensor, message: Tensor, axis: int, semiring: Semiring, zeros: bool) -> Tensor:
    """Add messages [F, d, *H] along one axis of tables [F, .., d, .., *H] and reduce it."""
    return _reduce(_plus(table, message, axis), axis, semiring, zeros)


def with_messages(
    group: FactorGroup, log_phi: Float[Tensor, " T"], messages: Float[Tensor, " S"]
) -> Float[Tensor, " F *D"]:
    """Return the tables [F, d1, .., dk] of a group plus the messages of all its slots."""
    table: Tensor = group.table(log_phi)
    for j in range(len(group.shape)):
        table = _plus(table, group.message(messages, j), j + 1)
    return table


def _plus(table: Tensor, message: Tensor, axis: int) -> Tensor:
    """Return tables [F, .., d, .., *H] plus messages [F, d, *H] along one axis."""
    channels = message.ndim - 2
    before, after = axis - 1, table.ndim - channels - axis - 1
    return table + message.reshape(message.shape[0], *[1] * before, message.shape[1], *[1] * after, *message.shape[2:])


def hold_above(msg: Float[Tensor, " S"], floor: float | Tensor) -> Float[Tensor, " S"]:
    """Return messages no lower than a floor, true zeros aside; see `table_ranges.message_floor`."""
    return torch.where(torch.isneginf(msg), msg, msg.clamp_min(floor))


def damp(new: Float[Tensor, " S"], old: Float[Tensor, " S"], damping: float) -> Float[Tensor, " S"]:
    """Return `new + damping (old - new)` in the log domain; safe at -inf, where a zero wins over any number."""
    if damping == 0.0:
        return new
    return (1.0 - damping) * new + damping * old


def change_per_graph(g: Flat, new: Float[Tensor, " S"], old: Float[Tensor, " S"]) -> Float[Tensor, " G"]:
    """Return the largest change of a message entry in probability, for each graph; well defined at -inf."""
    change = (new.exp() - old.exp()).abs()
    graph = g.graph_of_var[g.var_of_edge[g.edge_of_edge_state]]
    return segment_max(change, graph, g.num_graphs, empty=0.0)


def _reduce(values: Tensor, axis: int, semiring: Semiring, zeros: bool = True) -> Tensor:
    """Return the maximum along an axis, or ln sum exp; with `zeros`, an axis of -inf has gradient 0 and not NaN."""
    if semiring == "max":
        return values.amax(axis)
    if zeros:
        return logsumexp(values, axis)
    if values.shape[axis] == 2:  # one fused operation instead of seven
        return torch.logaddexp(values.select(axis, 0), values.select(axis, 1))
    return values.logsumexp(axis)


def _normalized(message: Tensor, semiring: Semiring) -> Tensor:
    """Return messages [.., d] with total (sum) or maximum (max) 1; one without any support stays -inf, not NaN."""
    scale = _reduce(message, -1, semiring).unsqueeze(-1)
    return message - torch.where(torch.isneginf(scale), 0.0, scale)
