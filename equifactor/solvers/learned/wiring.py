"""What a network sees of a batch: the edge states of its larger factors, and how they are connected.

A unary factor always sends the same message. Networks therefore work only on the edge states of factors with two or
more variables, S2 of the S, and the unary factors enter as one fixed number per variable state. The states of an edge
are contiguous. If all edges have d states, they are rows of `[E2, d]`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.base.typing import Semiring
from equifactor.factors import tensors
from equifactor.factors.table_ranges import message_floor
from equifactor.graph import FlatGraph
from equifactor.graph.flat_graph import FactorGroup
from equifactor.kernels.segments import logsumexp, segment_logsumexp, segment_max, segment_sum

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.solvers.learned.fused.fused_step import Fused
    from equifactor.solvers.learned.loop_corrections import Loops

Flat = FlatGraph[Tensor]


# Not frozen, because torch.compile would inspect every field of a frozen dataclass, FactorGraphs included.
@dataclass(eq=False)
class Wiring:
    """Index arrays and fixed numbers of one batch. `wire` makes it; do not change it."""

    flat: Flat
    semiring: Semiring
    groups: tuple[FactorGroup, ...]  # Tables of arity 2 or more; slots and edges are numbered from the first of them.
    card: int | None  # The number of states of every edge, None if it differs between edges.
    unary: Float[Tensor, " X"]  # The sum of the messages of unary factors.
    unary_seen: Float[Tensor, " S2"]  # The sum of the messages of unary factors, at each edge state.
    state: Tensor  # [S2] the variable state of each edge state.
    edge: Tensor  # [S2] the edge of each edge state, from 0.
    num_edges: int
    graph: Tensor  # [S2] the graph of each edge state.
    unary_messages: Tensor  # [S - S2] the messages of unary factors, which never change.
    log_phi: Tensor  # [T] of `flat`, like the fields up to `all_groups`.
    has_zeros: bool
    num_states: int
    num_vars: int
    num_graphs: int
    var_of_state: Tensor  # [X]
    var_of_edge: Tensor  # [E] the variable of all edges, unary factors included.
    all_groups: tuple[FactorGroup, ...]
    floor: Tensor  # [] the lowest log message, except for true zeros.
    kinds: tuple[tensors.StructuredTensors, ...] = ()  # The structured factors, whose edge states come last.
    first: int = 0  # The number of edge states of unary factors.
    loops: Loops | None = None  # Short loops, for networks that use them.
    clock: Clock | None = None  # The clock that may stop the run; None in training.
    fused: Fused | None = None  # What the fused kernels of FE-Net need, if they take this batch.

    def is_over(self) -> bool:
        """Return whether the run was stopped, so that no further step will follow."""
        return self.clock is not None and self.clock.stopped

    # ---- belief propagation -----------------------------------------------------------------------------

    def uniform_messages(self) -> Float[Tensor, " S2"]:
        """Return the messages before the first step."""
        return self.normalize(self.unary.new_zeros(len(self.state)))

    def outgoing(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " S2"]:
        """Return variable-to-factor messages (Eq. 2 of [Sun21]), not normalised."""
        if not self.has_zeros:
            return self.unary_seen + others(msg_fv, self.state, self.num_states)
        zero = torch.isneginf(msg_fv)
        finite = torch.where(zero, 0.0, msg_fv)
        count = others(zero.to(msg_fv.dtype), self.state, self.num_states)
        total = self.unary_seen + others(finite, self.state, self.num_states)
        return torch.where(count > 0.5, -torch.inf, total)

    def reduce(self, msg_vf: Float[Tensor, " S2 *H"], semiring: Semiring | None = None, log_phi: Any = None) -> Tensor:
        """Return factor-to-variable messages [S2, *H] (Eq. 3) of `log_phi` (default: that of the graph), unnormalised.

        Messages of structured factors are right up to a constant per edge, which is the same for both semirings.
        """
        tables, of = self.log_phi if log_phi is None else log_phi, semiring or self.semiring
        if not self.kinds:
            return tensors.reduce_tables(self.groups, tables, msg_vf, of, zeros=self.has_zeros)
        blocks = [kind.messages(tables, msg_vf, of, first=self.first, scaled_by=self.semiring) for kind in self.kinds]
        if self.groups:
            own = msg_vf[: self.kinds[0].group.states.start - self.first]
            blocks.insert(0, tensors.reduce_tables(self.groups, tables, own, of, zeros=self.has_zeros))
        return torch.cat(blocks)

    def normalize(self, log_values: Float[Tensor, " S2 *H"], semiring: Semiring | None = None) -> Tensor:
        """Return messages [S2, *H] whose states add up to 1 (sum) or have maximum 1 (max) on each edge and channel."""
        if self.card is not None and not self.has_zeros and (semiring or self.semiring) == "sum":
            return self._rows(log_values).log_softmax(1).reshape(log_values.shape)
        scale = self.log_total(log_values, semiring)
        if self.has_zeros:
            scale = torch.where(torch.isneginf(scale), 0.0, scale)
        return log_values - scale

    def log_total(self, log_values: Float[Tensor, " S2 *H"], semiring: Semiring | None = None) -> Tensor:
        """Return [S2, *H] ln of the sum (or the maximum) over the states of the same edge, repeated for each state."""
        maximum = (semiring or self.semiring) == "max"
        if self.card is None:
            reduce = segment_max if maximum else segment_logsumexp
            return reduce(log_values, self.edge, self.num_edges).index_select(0, self.edge)
        rows = self._rows(log_values)
        if maximum:
            total = rows.amax(1, keepdim=True)
        elif self.has_zeros:
            total = logsumexp(rows, 1).unsqueeze(1)
        else:
            total = rows.logsumexp(1, keepdim=True)
        return total.expand(rows.shape).reshape(log_values.shape)

    def damp(self, new: Float[Tensor, " S2"], old: Float[Tensor, " S2"], keep: Tensor) -> Float[Tensor, " S2"]:
        """Return damped messages `new + keep (old - new)` (Eq. 7); a true zero in either message stays a true zero."""
        if not self.has_zeros:
            return new + keep * (old - new)
        zero = torch.isneginf(new) | torch.isneginf(old)
        new, old = torch.where(zero, 0.0, new).clamp_min(self.floor), torch.where(zero, 0.0, old)
        return torch.where(zero, -torch.inf, (new + keep * (old - new)).clamp_min(self.floor))

    def log_beliefs(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " X"]:
        """Return the sum of all incoming messages, not normalised (Eq. 4)."""
        return self.unary + segment_sum(msg_fv, self.state, self.num_states)

    def messages(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " S"]:
        """Return all messages, those of unary factors included, in the order of the FlatGraph."""
        return torch.cat((self.unary_messages, msg_fv))

    # ---- hidden vectors ---------------------------------------------------------------------------------

    def sum_of_others(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Return, for each edge state, the sum over the other larger factors of the same variable state."""
        return others(hidden, self.state, self.num_states)

    def to_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "X H"]:
        """Return the sum over the larger factors of each variable state."""
        return segment_sum(hidden, self.state, self.num_states)

    def mean_over_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Return the mean over the states of the same edge, repeated for each state."""
        if self.card is not None:
            rows = self._rows(hidden)
            return rows.mean(1, keepdim=True).expand(rows.shape).reshape(hidden.shape)
        return _mean(hidden, self.edge, self.num_edges).index_select(0, self.edge)

    def with_mean(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 2*H"]:
        """Return each hidden vector followed by the mean over the states of its edge."""
        if self.card is None:
            return torch.cat((hidden, self.mean_over_states(hidden)), dim=1)
        rows = self._rows(hidden)
        return torch.cat((rows, rows.mean(1, keepdim=True).expand(rows.shape)), dim=2).reshape(len(hidden), -1)

    def centred(self, values: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Return values minus their mean over the states of the same edge."""
        if self.card is None:
            return values - self.mean_over_states(values)
        rows = self._rows(values)
        return (rows - rows.mean(1, keepdim=True)).reshape(values.shape)

    def mean_of_variable(self, hidden: Float[Tensor, "X H"]) -> Float[Tensor, "X H"]:
        """Return the mean over the states of the same variable, repeated for each state."""
        return _mean(hidden, self.var_of_state, self.num_vars).index_select(0, self.var_of_state)

    def max_over_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Return the maximum over the states of the same edge, repeated for each state."""
        return self.log_total(hidden, "max")

    def _rows(self, values: Tensor) -> Tensor:
        """Return values [S2, *H] as rows [E2, d, *H]."""
        assert self.card is not None
        return values.reshape(-1, self.card, *values.shape[1:])

    def mean_per_graph(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "G H"]:
        """Return the mean over all edge states of each graph; graphs of a batch never mix."""
        if self.num_graphs == 1:
            return hidden.sum(0, keepdim=True) / max(1, len(hidden))
        return _mean(hidden, self.graph, self.num_graphs)

    def of_graph(self, values: Float[Tensor, "G H"]) -> Tensor:
        """Return the row of its graph for each edge state; [1, H], to be broadcast, for a single graph."""
        return values if self.num_graphs == 1 else values.index_select(0, self.graph)

    def graph_statistics(self, hidden: Float[Tensor, "S2 H"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean and variance [G, H] over all edge states of each graph, and [S2, H] minus the mean."""
        mean = self.mean_per_graph(hidden)
        centred = hidden - self.of_graph(mean)
        return mean, self.mean_per_graph(centred.square()), centred


def wire(flat: Flat, semiring: Semiring, clock: Clock | None = None) -> Wiring:
    """Return the wiring of a compiled batch, which every step of a network uses."""
    if flat.structured:  # These may have zeros although no log value is -inf.
        flat = replace(flat, has_zeros=True)
    larger = [g for g in flat.groups if len(g.shape) >= 2]
    first = min(
        [g.slots[0].start for g in larger] + [g.states.start for g in flat.structured] or [flat.num_edge_states]
    )
    first_edge = min([g.edges[0].start for g in larger] + [g.edges.start for g in flat.structured] or [flat.num_edges])
    # Groups are sorted by arity, so the unary groups, which are left out, come first.
    groups = tuple(replace(g, slots=_shift(g.slots, first), edges=_shift(g.edges, first_edge)) for g in larger)
    unary_messages = tensors.first_messages(flat, semiring)[:first]
    cards = {d for g in larger for d in g.shape}.union(*(g.card.tolist() for g in flat.structured))
    unary = segment_sum(unary_messages, flat.state_of_edge_state[:first], flat.num_states)
    return Wiring(
        flat=flat,
        semiring=semiring,
        groups=groups,
        card=cards.pop() if len(cards) == 1 else None,
        unary=unary,
        unary_seen=unary.index_select(0, flat.state_of_edge_state[first:]),
        state=flat.state_of_edge_state[first:],
        edge=flat.edge_of_edge_state[first:] - first_edge,
        num_edges=flat.num_edges - first_edge,
        graph=flat.graph_of_var[flat.var_of_edge[flat.edge_of_edge_state[first:]]],
        unary_messages=unary_messages,
        log_phi=flat.log_phi,
        has_zeros=flat.has_zeros,
        num_states=flat.num_states,
        num_vars=flat.num_vars,
        num_graphs=flat.num_graphs,
        var_of_state=flat.var_of_state,
        var_of_edge=flat.var_of_edge,
        all_groups=flat.groups,
        floor=message_floor(flat) if flat.has_zeros else flat.log_phi.new_full((), -torch.inf),
        clock=clock,
        kinds=tensors.structured_of(flat),
        first=first,
    )


def _mean(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return [count, H] the mean of the rows with each index, 0 for an index without rows."""
    size = segment_sum(torch.ones_like(values[:, :1]), index, count)
    return segment_sum(values, index, count) / size.clamp_min(1.0)


def others(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Return leave-one-out sums: for each row [N] or [N, H] the sum over the other rows with the same index."""
    return _Others.apply(values, index, count)  # type: ignore[no-untyped-call]


class _Others(torch.autograd.Function):
    """Leave-one-out sums. The map is symmetric, so it is its own gradient and no values are stored."""

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
