"""What a network sees of a batch: the edge states of its larger factors, and how they hang together.

A unary factor sends the same message for ever, so networks work on the edge states of the factors of two variables and
more only, S' of the S, and the unary factors enter as one fixed number per variable state. All states of an edge lie
side by side, and where all variables have d states the edges are simply rows of `[E', d]`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor import ops
from equifactor.graph import FlatGraph
from equifactor.graph.flat_graph import FactorGroup
from equifactor.ops.messages import Semiring
from equifactor.ops.segments import segment_logsumexp, segment_max, segment_sum

Flat = FlatGraph[Tensor]
_FLOOR = -1e4  # log messages below, true zeros aside, are held here: see `bp.engine.message_floor`


@dataclass(frozen=True, eq=False)
class Wiring:
    """Index arrays and fixed numbers of one batch; `wire` makes it."""

    flat: Flat
    semiring: Semiring
    groups: tuple[FactorGroup, ...]  # factors of arity >= 2; slots and edges counted from the first of them
    card: int | None  # states of every variable, None where they differ
    unary: Float[Tensor, " X"]  # sum of the messages of unary factors
    state: Tensor  # [S'] variable state of each edge state
    edge: Tensor  # [S'] edge of each edge state, from 0
    num_edges: int
    graph: Tensor  # [S'] graph of each edge state
    unary_messages: Tensor  # [S - S'] the messages left out

    # ---- belief propagation -----------------------------------------------------------------------------

    def uniform_messages(self) -> Float[Tensor, " S'"]:
        """Messages before the first step."""
        return self.normalize(self.unary.new_zeros(len(self.state)))

    def outgoing(self, msg_fv: Float[Tensor, " S'"]) -> Float[Tensor, " S'"]:
        """Variable-to-factor messages (Eq. 2 of the paper), not normalised."""
        if not self.flat.has_zeros:
            return self.unary[self.state] + others(msg_fv, self.state, self.flat.num_states)
        zero = torch.isneginf(msg_fv)
        finite = torch.where(zero, 0.0, msg_fv)
        count = others(zero.to(msg_fv.dtype), self.state, self.flat.num_states)
        total = self.unary[self.state] + others(finite, self.state, self.flat.num_states)
        return torch.where(count > 0.5, -torch.inf, total)

    def reduce(self, msg_vf: Float[Tensor, "S' *H"], semiring: Semiring | None = None, log_phi: Any = None) -> Tensor:
        """Factor-to-variable messages [S', *H] (Eq. 3) of `log_phi` (the tables of the graph), not normalised."""
        tables = self.flat.log_phi if log_phi is None else log_phi
        return ops.reduce_tables(self.groups, tables, msg_vf, semiring or self.semiring)

    def normalize(self, log_values: Float[Tensor, " S'"], semiring: Semiring | None = None) -> Float[Tensor, " S'"]:
        """Each edge's states add up to 1 (sum), or the largest is 1 (max)."""
        scale = self.log_total(log_values, semiring)
        if self.flat.has_zeros:
            scale = torch.where(torch.isneginf(scale), 0.0, scale)
        return log_values - scale

    def log_total(self, log_values: Float[Tensor, " S'"], semiring: Semiring | None = None) -> Float[Tensor, " S'"]:
        """ln of the sum (or the largest) over the states of the same edge, repeated for each of them."""
        maximum = (semiring or self.semiring) == "max"
        if self.card is None:
            reduce = segment_max if maximum else segment_logsumexp
            return reduce(log_values, self.edge, self.num_edges)[self.edge]
        rows = log_values.reshape(-1, self.card)
        if maximum:
            total = rows.amax(1, keepdim=True)
        elif self.flat.has_zeros:
            total = ops.segments.logsumexp(rows, 1).unsqueeze(1)
        else:
            total = rows.logsumexp(1, keepdim=True)
        return total.expand(rows.shape).reshape(-1)

    def damp(self, new: Float[Tensor, " S'"], old: Float[Tensor, " S'"], keep: Tensor) -> Float[Tensor, " S'"]:
        """Eq. 7 of the paper, `new + keep (old - new)`; a true zero in either stays one, whatever is kept."""
        if not self.flat.has_zeros:
            return new + keep * (old - new)
        zero = torch.isneginf(new) | torch.isneginf(old)
        new, old = torch.where(zero, 0.0, new), torch.where(zero, 0.0, old)
        return torch.where(zero, -torch.inf, (new + keep * (old - new)).clamp_min(_FLOOR))

    def log_beliefs(self, msg_fv: Float[Tensor, " S'"]) -> Float[Tensor, " X"]:
        """Sum of all incoming messages, not normalised (Eq. 4)."""
        return self.unary + segment_sum(msg_fv, self.state, self.flat.num_states)

    def messages(self, msg_fv: Float[Tensor, " S'"]) -> Float[Tensor, " S"]:
        """All messages, those of unary factors included, in the order of the FlatGraph."""
        return torch.cat((self.unary_messages, msg_fv))

    # ---- hidden vectors ---------------------------------------------------------------------------------

    def sum_of_others(self, hidden: Float[Tensor, "S' H"]) -> Float[Tensor, "S' H"]:
        """For each edge state the sum over the other larger factors of the same variable state."""
        return others(hidden, self.state, self.flat.num_states)

    def to_states(self, hidden: Float[Tensor, "S' H"]) -> Float[Tensor, "X H"]:
        """Sum over the larger factors of each variable state."""
        return segment_sum(hidden, self.state, self.flat.num_states)

    def mean_over_states(self, hidden: Float[Tensor, "N H"], of: str = "edges") -> Float[Tensor, "N H"]:
        """Mean over the states of the same edge (or variable), repeated for each of them."""
        if self.card is not None:
            rows = hidden.reshape(-1, self.card, hidden.shape[-1])
            return rows.mean(1, keepdim=True).expand(rows.shape).reshape(hidden.shape)
        index, count = (self.edge, self.num_edges) if of == "edges" else (self.flat.var_of_state, self.flat.num_vars)
        size = segment_sum(torch.ones_like(hidden[:, :1]), index, count)
        return (segment_sum(hidden, index, count) / size.clamp_min(1.0))[index]

    def max_over_states(self, hidden: Float[Tensor, "S' H"]) -> Float[Tensor, "S' H"]:
        """Largest over the states of the same edge, repeated for each of them."""
        if self.card is not None:
            rows = hidden.reshape(-1, self.card, hidden.shape[-1])
            return rows.amax(1, keepdim=True).expand(rows.shape).reshape(hidden.shape)
        index = self.edge[:, None].expand_as(hidden)
        top = hidden.new_full((self.num_edges, hidden.shape[-1]), -torch.inf).scatter_reduce(0, index, hidden, "amax")
        return top[self.edge]

    def graph_moments(self, hidden: Float[Tensor, "S' H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance [S', H] over all edge states of the same graph; graphs of a batch never mix."""
        count = self.flat.num_graphs
        size = segment_sum(torch.ones_like(hidden[:, :1]), self.graph, count).clamp_min(1.0)
        mean = (segment_sum(hidden, self.graph, count) / size)[self.graph]
        variance = (segment_sum((hidden - mean).square(), self.graph, count) / size)[self.graph]
        return mean, variance


def wire(flat: Flat, semiring: Semiring) -> Wiring:
    """Look at a compiled batch once; every step of a network uses the result."""
    larger = [g for g in flat.groups if len(g.shape) >= 2]
    first = larger[0].slots[0].start if larger else flat.num_edge_states
    first_edge = larger[0].edges[0].start if larger else flat.num_edges
    groups = tuple(
        replace(g, slots=_shift(g.slots, first), edges=_shift(g.edges, first_edge)) for g in larger
    )  # groups are in order of arity: what is left out is a prefix
    unary_messages = ops.first_messages(flat, semiring)[:first]
    cards = {d for g in flat.groups for d in g.shape}
    whole = len(cards) == 1 and flat.num_states == flat.num_vars * max(cards)
    return Wiring(
        flat=flat,
        semiring=semiring,
        groups=groups,
        card=cards.pop() if whole else None,
        unary=segment_sum(unary_messages, flat.state_of_edge_state[:first], flat.num_states),
        state=flat.state_of_edge_state[first:],
        edge=flat.edge_of_edge_state[first:] - first_edge,
        num_edges=flat.num_edges - first_edge,
        graph=flat.graph_of_var[flat.var_of_edge[flat.edge_of_edge_state[first:]]],
        unary_messages=unary_messages,
    )


def others(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Leave-one-out sums: for each row [N] or [N, H] the sum over the other rows with the same index."""
    return _Others.apply(values, index, count)  # type: ignore[no-untyped-call]


class _Others(torch.autograd.Function):
    """The map is symmetric (each row gets all others), so its gradient is the map itself and nothing is stored."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(index)
        ctx.count = count
        return segment_sum(values, index, count)[index] - values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return others(grads[0], index, ctx.count), None, None


def _shift(slices: tuple[slice, ...], by: int) -> tuple[slice, ...]:
    return tuple(slice(s.start - by, s.stop - by) for s in slices)
