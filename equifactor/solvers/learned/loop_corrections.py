"""Exact corrections of belief propagation around each short loop.

A loop c of pair factors, with the messages that reach it from outside, is a small model that can be solved exactly:

    q_{c->i}(x_i) = sum over the other corners of prod of c's tables times prod_{j in c, j != i} cavity_{j->c}(x_j),

where cavity_{j->c} is the product of all messages to j except those of the two factors of c at j. BP assumes instead
that the messages of these two factors a and b are independent. The difference is the correction

    delta_{c->i} = q_{c->i} - (m_{a->i} + m_{b->i})          (in the log),

which is zero where BP is right, for example on a loop that a strong field cuts open. Each factor gets half of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.factors import tensors
from equifactor.graph.flat_graph import FactorGroup
from equifactor.kernels.segments import finite, segment_max, segment_sum
from equifactor.solvers.learned.loop_places import find_loops, shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import IntArray
    from equifactor.solvers.learned.wiring import Flat, Wiring


@dataclass(eq=False)
class LoopIndex:
    """Index arrays of all loops of a batch; S_L states of loop corners, S2 edge states of `Wiring`."""

    groups: tuple[FactorGroup, ...]
    pairs: tensors.PairTables  # Tables of pair factors of other kinds; their entries come after log_phi.
    entries: tuple[tuple[Tensor, ...], ...]  # [N, d_k, d_{k+1}] in log_phi, for each group and side.
    state: Tensor  # [S_L] the variable state.
    corner: Tensor  # [S_L] the corner of a loop, from 0.
    num_corners: int
    inside: tuple[Tensor, Tensor]  # [S_L] the edge states of the loop's own two factors.
    share: Tensor  # [S2] the share that an edge state takes of the sum of its corrections.
    mean: Tensor  # [X] one over the number of loops of a variable state, 0 for a state without loops.


@dataclass(eq=False)
class Loops:
    """The loops of a batch and their joint tables."""

    index: LoopIndex
    tables: Tensor  # [T_L]

    def corrections(
        self, wiring: Wiring, msg_fv: Float[Tensor, " S2"], new: Float[Tensor, " S2"]
    ) -> tuple[Float[Tensor, " S2"], Float[Tensor, " X"]]:
        """Return half of each correction of the messages `new` that follow `msg_fv`, and the mean at variable states.

        Corrections of up to two loops per edge, as in a grid, add up. With more loops, twice their mean counts. A state
        that is possible by itself but not around the loop gets a very low but finite log value.
        """
        index = self.index
        a, b = index.inside
        unary, floor = wiring.unary, wiring.floor
        if wiring.has_zeros:
            msg_fv, new, unary = (t.clamp_min(floor) for t in (msg_fv, new, unary))
        belief = unary + segment_sum(msg_fv, wiring.state, wiring.num_states)
        cavity = belief.index_select(0, index.state) - msg_fv.index_select(0, a) - msg_fv.index_select(0, b)
        q = tensors.reduce_tables(index.groups, self.tables, cavity, wiring.semiring, zeros=False)
        said = new.index_select(0, a) + new.index_select(0, b)
        by_pairs = self._gauge(said + cavity)
        delta = self._gauge(q + cavity) - by_pairs
        if wiring.has_zeros:
            delta = torch.where(by_pairs > 0.5 * floor, delta.clamp_min(0.5 * floor), 0.0)
        count = len(wiring.state)
        total = segment_sum(delta, a, count) + segment_sum(delta, b, count)
        share, mean = index.share.to(delta.dtype), index.mean.to(delta.dtype)
        return 0.5 * share * total, mean * segment_sum(delta, index.state, wiring.num_states)

    def _gauge(self, values: Tensor) -> Tensor:
        """Return values minus the largest of their corner, so that the scale of tables does not matter."""
        top = segment_max(values.detach(), self.index.corner, self.index.num_corners)
        return values - top.index_select(0, self.index.corner)


def loops_of(wiring: Wiring) -> Loops | None:
    """Return the loops of a batch, or None if it has no loops; a structure is searched once for all its potentials.

    Also return None if the clock has stopped, because no step will follow that could use the loops.
    """
    flat = wiring.flat
    if "loops" not in flat.cache:
        with torch.inference_mode(False), torch.no_grad():  # A later run may need gradients through these tensors.
            found = _index(flat, wiring)
        if wiring.is_over():
            return None  # The search may be incomplete, so its result is not cached for later runs.
        flat.cache["loops"] = found
    index: LoopIndex | None = flat.cache["loops"]
    if index is None or wiring.is_over():
        return None
    log_phi = torch.cat((wiring.log_phi, index.pairs.values(wiring.kinds, wiring.log_phi)))
    joint = [_joint(wiring, log_phi, group, sides) for group, sides in zip(index.groups, index.entries, strict=True)]
    return Loops(index, torch.cat(joint))


def _joint(wiring: Wiring, log_phi: Tensor, group: FactorGroup, sides: tuple[Tensor, ...]) -> Tensor:
    """Return [N d_1 .. d_L] the sum of pair tables around each loop; tables with zeros get maximum 0 and a floor."""
    length = len(group.shape)
    total: Any = 0.0
    for k, entries in enumerate(sides):
        table = log_phi[entries]  # [N, d_k, d_{k+1}]
        if wiring.has_zeros:
            table = (table - finite(table.detach().amax((1, 2), keepdim=True))).clamp_min(wiring.floor)
        here, after = k, (k + 1) % length
        if after < here:
            table = table.transpose(1, 2)
        shape = [group.shape[n] if n in (here, after) else 1 for n in range(length)]
        total = total + table.reshape(-1, *shape)
    return total.reshape(-1)


def _index(flat: Flat, wiring: Wiring) -> LoopIndex | None:
    """Find the loops and lay out their corners, slot after slot as in a FlatGraph."""
    own = tensors.PairTables(wiring.kinds)
    rings = find_loops(flat, own.places, wiring.clock)
    if not rings or wiring.is_over():
        return None
    groups: list[FactorGroup] = []
    entries: list[tuple[Tensor, ...]] = []
    state: list[IntArray] = []
    before: list[IntArray] = []
    after: list[IntArray] = []
    corner = slot = entry = 0  # Where the next block starts.
    for ring in rings:
        number = ring.number
        slots, edges = [], []
        for k, d in enumerate(ring.shape):
            state.append(_spread(ring.states[k], d))
            before.append(_spread(ring.before[k] - wiring.first, d))
            after.append(_spread(ring.after[k] - wiring.first, d))
            slots.append(slice(slot, slot + number * d))
            edges.append(slice(corner, corner + number))
            slot, corner = slots[k].stop, edges[k].stop
        block = slice(entry, entry + number * math.prod(ring.shape))
        groups.append(FactorGroup(ring.shape, np.arange(number), block, tuple(slots), tuple(edges)))
        entries.append(tuple(_tensor(places, flat) for places in ring.entries))
        entry = block.stop
    states, a, b = (np.concatenate(parts) for parts in (state, before, after))
    share, mean = shares(states, a, b, flat.num_states, len(wiring.state))
    corners = [np.repeat(np.arange(e.start, e.stop), d) for g in groups for e, d in zip(g.edges, g.shape, strict=True)]
    return LoopIndex(
        groups=tuple(groups),
        pairs=own,
        entries=tuple(entries),
        state=_tensor(states, flat),
        corner=_tensor(np.concatenate(corners), flat),
        num_corners=corner,
        inside=(_tensor(a, flat), _tensor(b, flat)),
        share=_tensor(share, flat),
        mean=_tensor(mean, flat),
    )


def _spread(start: IntArray, count: int) -> IntArray:
    """Return the numbers start, start + 1, .., start + count - 1 for each start, one after the other."""
    return (start[:, None] + np.arange(count)).ravel()


def _tensor(values: NDArray[Any], flat: Flat) -> Tensor:
    return torch.tensor(values, device=flat.log_phi.device)
