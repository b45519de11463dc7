"""What a network sees of a batch: the edge states of its larger factors, and how they hang together.

A unary factor sends the same message for ever, so networks work on the edge states of the factors of two variables and
more only, S2 of the S, and the unary factors enter as one fixed number per variable state. All states of an edge lie
side by side, and where all edges have d states they are simply rows of `[E2, d]`.
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
    from equifactor.solvers.learned.loop_corrections import Loops

Flat = FlatGraph[Tensor]


# It is not frozen, because torch.compile would look into every field of a frozen one, FactorGraphs included.
@dataclass(eq=False)
class Wiring:
    """Index arrays and fixed numbers of one batch; `wire` makes it, nobody changes it."""

    flat: Flat
    semiring: Semiring
    groups: tuple[FactorGroup, ...]  # Tables of arity 2 and more; slots and edges count from the first of them.
    card: int | None  # The number of states of every edge, None where they differ.
    unary: Float[Tensor, " X"]  # The sum of the messages of unary factors.
    unary_seen: Float[Tensor, " S2"]  # The sum of the messages of unary factors, at each edge state.
    state: Tensor  # [S2] the variable state of each edge state.
    edge: Tensor  # [S2] the edge of each edge state, from 0.
    num_edges: int
    graph: Tensor  # [S2] the graph of each edge state.
    unary_messages: Tensor  # [S - S2] the messages of unary factors, which never change.
    log_phi: Tensor  # [T] this and the following are those of `flat`.
    has_zeros: bool
    num_states: int
    num_vars: int
    num_graphs: int
    var_of_state: Tensor  # [X]
    var_of_edge: Tensor  # [E] the variable of all edges, unary factors included.
    all_groups: tuple[FactorGroup, ...]
    floor: Tensor  # [] log messages are held above it, true zeros aside.
    kinds: tuple[tensors.StructuredTensors, ...] = ()  # The factors that are no tables; their edge states come last.
    first: int = 0  # How many edge states belong to unary factors.
    loops: Loops | None = None  # Short loops, for networks that look at them.
    clock: Clock | None = None  # What may stop the run; None in training.

    def is_over(self) -> bool:
        """Whether the run was stopped, so that nothing needs to be prepared for its next step."""
        return self.clock is not None and self.clock.stopped

    # ---- belief propagation -----------------------------------------------------------------------------

    def uniform_messages(self) -> Float[Tensor, " S2"]:
        """The messages before the first step."""
        return self.normalize(self.unary.new_zeros(len(self.state)))

    def outgoing(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " S2"]:
        """Variable-to-factor messages (Eq. 2 of the paper), not normalised."""
        if not self.has_zeros:
            return self.unary_seen + others(msg_fv, self.state, self.num_states)
        zero = torch.isneginf(msg_fv)
        finite = torch.where(zero, 0.0, msg_fv)
        count = others(zero.to(msg_fv.dtype), self.state, self.num_states)
        total = self.unary_seen + others(finite, self.state, self.num_states)
        return torch.where(count > 0.5, -torch.inf, total)

    def reduce(self, msg_vf: Float[Tensor, " S2 *H"], semiring: Semiring | None = None, log_phi: Any = None) -> Tensor:
        """Factor-to-variable messages [S2, *H] (Eq. 3) of `log_phi` (the tables of the graph), not normalised.

        Those of factors that are no tables are right up to a constant per edge, the same for both semirings.
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
        """Messages [S2, *H] whose states add up to 1 (sum) or have largest 1 (max) on each edge, channel by channel."""
        if self.card is not None and not self.has_zeros and (semiring or self.semiring) == "sum":
            return self._rows(log_values).log_softmax(1).reshape(log_values.shape)
        scale = self.log_total(log_values, semiring)
        if self.has_zeros:
            scale = torch.where(torch.isneginf(scale), 0.0, scale)
        return log_values - scale

    def log_total(self, log_values: Float[Tensor, " S2 *H"], semiring: Semiring | None = None) -> Tensor:
        """[S2, *H] ln of the sum (or the largest) over the states of the same edge, repeated for each of them."""
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
        """Damped messages `new + keep (old - new)` (Eq. 7); a true zero in either stays one, whatever is kept."""
        if not self.has_zeros:
            return new + keep * (old - new)
        zero = torch.isneginf(new) | torch.isneginf(old)
        new, old = torch.where(zero, 0.0, new).clamp_min(self.floor), torch.where(zero, 0.0, old)
        return torch.where(zero, -torch.inf, (new + keep * (old - new)).clamp_min(self.floor))

    def log_beliefs(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " X"]:
        """Sum of all incoming messages, not normalised (Eq. 4)."""
        return self.unary + segment_sum(msg_fv, self.state, self.num_states)

    def messages(self, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " S"]:
        """All messages, those of unary factors included, in the order of the FlatGraph."""
        return torch.cat((self.unary_messages, msg_fv))

    # ---- hidden vectors ---------------------------------------------------------------------------------

    def sum_of_others(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """For each edge state the sum over the other larger factors of the same variable state."""
        return others(hidden, self.state, self.num_states)

    def to_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "X H"]:
        """Sum over the larger factors of each variable state."""
        return segment_sum(hidden, self.state, self.num_states)

    def mean_over_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Mean over the states of the same edge, repeated for each of them."""
        if self.card is not None:
            rows = self._rows(hidden)
            return rows.mean(1, keepdim=True).expand(rows.shape).reshape(hidden.shape)
        return _mean(hidden, self.edge, self.num_edges).index_select(0, self.edge)

    def with_mean(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 2*H"]:
        """Each hidden vector followed by the mean over the states of its edge."""
        if self.card is None:
            return torch.cat((hidden, self.mean_over_states(hidden)), dim=1)
        rows = self._rows(hidden)
        return torch.cat((rows, rows.mean(1, keepdim=True).expand(rows.shape)), dim=2).reshape(len(hidden), -1)

    def centred(self, values: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Values less their mean over the states of the same edge."""
        if self.card is None:
            return values - self.mean_over_states(values)
        rows = self._rows(values)
        return (rows - rows.mean(1, keepdim=True)).reshape(values.shape)

    def mean_of_variable(self, hidden: Float[Tensor, "X H"]) -> Float[Tensor, "X H"]:
        """Mean over the states of the same variable, repeated for each of them."""
        return _mean(hidden, self.var_of_state, self.num_vars).index_select(0, self.var_of_state)

    def max_over_states(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "S2 H"]:
        """Largest over the states of the same edge, repeated for each of them."""
        return self.log_total(hidden, "max")

    def _rows(self, values: Tensor) -> Tensor:
        """Values [S2, *H] as rows [E2, d, *H]."""
        assert self.card is not None
        return values.reshape(-1, self.card, *values.shape[1:])

    def mean_per_graph(self, hidden: Float[Tensor, "S2 H"]) -> Float[Tensor, "G H"]:
        """Mean over all edge states of each graph; graphs of a batch never mix."""
        if self.num_graphs == 1:
            return hidden.sum(0, keepdim=True) / max(1, len(hidden))
        return _mean(hidden, self.graph, self.num_graphs)

    def of_graph(self, values: Float[Tensor, "G H"]) -> Tensor:
        """The row of its graph for each edge state; [1, H], to be broadcast, where there is only one."""
        return values if self.num_graphs == 1 else values.index_select(0, self.graph)

    def graph_statistics(self, hidden: Float[Tensor, "S2 H"]) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance [G, H] over all edge states of each graph, and [S2, H] less the mean."""
        mean = self.mean_per_graph(hidden)
        centred = hidden - self.of_graph(mean)
        return mean, self.mean_per_graph(centred.square()), centred


def wire(flat: Flat, semiring: Semiring, clock: Clock | None = None) -> Wiring:
    """Look at a compiled batch once; every step of a network uses the result."""
    if flat.structured:  # These may have zeros that no log value shows, such as a noisy-or without a leak.
        flat = replace(flat, has_zeros=True)
    larger = [g for g in flat.groups if len(g.shape) >= 2]
    first = min(
        [g.slots[0].start for g in larger] + [g.states.start for g in flat.structured] or [flat.num_edge_states]
    )
    first_edge = min([g.edges[0].start for g in larger] + [g.edges.start for g in flat.structured] or [flat.num_edges])
    # Groups are in the order of their arity, so what is left out is a prefix.
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
    """[count, H] the mean of the rows with each index, 0 where there are none."""
    size = segment_sum(torch.ones_like(values[:, :1]), index, count)
    return segment_sum(values, index, count) / size.clamp_min(1.0)


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
