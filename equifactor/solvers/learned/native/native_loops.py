"""Exact corrections of belief propagation around each short loop, as in `loop_corrections.py`, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from equifactor.factors.structured_pairs import StructuredPairs
from equifactor.graph.kinds import kind_class
from equifactor.solvers.learned.loop_places import LoopPlaces, find_loops, shares
from equifactor.solvers.learned.native.native_tables import reduced
from equifactor.solvers.learned.native.native_wiring import Rows, Slot, finite

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.learned.native.native_wiring import NativeWiring

# The loops of single graphs, as long as their structures live: many questions are about one structure, and the runs of
# one question are about the same observed variables.
_KNOWN: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
_MOST_KNOWN = 4  # Sets of free variables whose loops one structure keeps; a set with evidence is rarely asked again.
_LEAST = 1e-280  # Linear sums above it have lost nothing to underflow.


class _Index(NamedTuple):
    """What follows from the structure alone: S_L states of the corners of all loops, as blocks [d, N]."""

    pairs: StructuredPairs
    loops: list[LoopPlaces]
    rows: list[Rows]  # Blocks [d, N] of corners with d states.
    corners: list[list[Slot]]  # For each shape the columns of each corner in a block.
    state: IntArray  # [S_L] the variable state.
    before: IntArray  # [S_L] the edge states of the loop's own two factors.
    after: IntArray
    share: FloatArray  # [S2]
    mean: FloatArray  # [X]


class NativeLoops:
    """The loops of a batch and their joint tables [d1, .., dL, N]."""

    def __init__(self, wiring: NativeWiring, index: _Index) -> None:
        self.wiring, self.index = wiring, index
        log_phi = np.concatenate((wiring.flat.log_phi, _pair_values(wiring, index.pairs)))
        self.tables = [_joint(wiring, log_phi, loop) for loop in index.loops]
        self.linear: list[Any] | None = None
        # Kernels take 8 loops at once.
        self.is_fast = wiring.compiled and all(loop.number >= 8 for loop in index.loops)
        if not wiring.is_max:
            axes = [tuple(range(t.ndim - 1)) for t in self.tables]
            self.linear = [np.exp(t - t.max(axis=a, keepdims=True)) for t, a in zip(self.tables, axes, strict=True)]

    def corrections(self, msg_fv: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return half of each correction [S2] of the messages `new` that follow `msg_fv`, and the mean [X] at states.

        Corrections of up to two loops per edge, as in a grid, add up. With more loops, twice their mean counts. A state
        that is possible by itself but not around the loop gets a very low but finite log value.
        """
        wiring, index, unary = self.wiring, self.index, self.wiring.unary
        a, b, floor = index.before, index.after, wiring.floor
        if wiring.has_zeros:
            msg_fv, new, unary = (np.maximum(values, floor) for values in (msg_fv, new, unary))
        num_states, num_edge_states = wiring.flat.num_states, len(wiring.state)
        belief = unary + np.bincount(wiring.state, msg_fv, num_states)
        cavity = belief[index.state] - msg_fv[a] - msg_fv[b]
        around = self._around(cavity)
        around += cavity
        by_pairs = new[a] + new[b] + cavity
        self._gauge(around)
        self._gauge(by_pairs)
        delta = around - by_pairs
        if wiring.has_zeros:
            delta = np.where(by_pairs > 0.5 * floor, np.maximum(delta, 0.5 * floor), 0.0)
        total = np.bincount(a, delta, num_edge_states) + np.bincount(b, delta, num_edge_states)
        return 0.5 * index.share * total, index.mean * np.bincount(index.state, delta, num_states)

    def _around(self, cavity: FloatArray) -> FloatArray:
        """Return [S_L] the messages of each loop to its corners, up to a constant per corner."""
        if self.linear is not None:
            given = cavity.copy()
            self._gauge(given)
            np.exp(given, out=given)
            found = self._linear(given) if self.is_fast else self._reduced(self.linear, given, "linear")
            if found.min() > _LEAST:
                return np.log(found, out=found)
        return self._reduced(self.tables, cavity, "max" if self.wiring.is_max else "sum")

    def _linear(self, given: FloatArray) -> FloatArray:
        """Return what `_reduced` does for linear numbers, by compiled loops."""
        from equifactor.solvers.learned.native.step_kernels import ring_sums

        assert self.linear is not None
        size = len(given)
        # A triangle has a fourth corner with one state, which sends 1.
        longest = max(loop.number for loop in self.index.loops)
        given = np.concatenate((given, np.ones(longest)))
        out = np.empty(len(given))
        for table, loop, corners in zip(self.linear, self.index.loops, self.index.corners, strict=True):
            places = [corner.place() for corner in corners] + [(size, 0, 1)] * (4 - len(corners))
            ring_sums(table.ravel(), loop.number, tuple(places), given, out)
        return out[:size]

    def _reduced(self, tables: list[Any], values: FloatArray, mode: Any) -> FloatArray:
        out = np.empty_like(values)
        for table, corners in zip(tables, self.index.corners, strict=True):
            sent = reduced(table, [corner.of(values) for corner in corners], mode)
            for corner, message in zip(corners, sent, strict=True):
                corner.of(out)[:] = message
        return out

    def _gauge(self, values: FloatArray) -> None:
        """Subtract the largest value of each corner, so that the scale of tables does not matter."""
        for rows in self.index.rows:
            own = rows.of(values)
            own -= own.max(axis=0)


def loops_of(wiring: NativeWiring) -> NativeLoops | None:
    """Return the loops of a batch, or None without loops, or if the clock has stopped; a structure is searched once."""
    graphs = wiring.flat.graphs
    cache: dict[Any, Any] = wiring.flat.cache
    key: Any = "native loops"
    if len(graphs) == 1:
        cache = _KNOWN.setdefault(graphs[0].structure, {})
        key = graphs[0].free_vars.tobytes()
    if key not in cache:
        found = _index(wiring)
        if wiring.is_over():
            return None  # The search may be incomplete, so its result is not cached for later runs.
        if len(graphs) == 1 and len(cache) >= _MOST_KNOWN:
            cache = _KNOWN[graphs[0].structure] = {}
        cache[key] = found
    index = cache[key]
    return None if index is None or wiring.is_over() else NativeLoops(wiring, index)


def _index(wiring: NativeWiring) -> _Index | None:
    flat = wiring.flat
    pairs = StructuredPairs(flat.structured)
    loops = find_loops(flat, pairs, wiring.clock)
    if not loops:
        return None
    rows, first = [], 0
    corners: list[list[Any]] = [[None] * len(loop.shape) for loop in loops]
    places: list[list[IntArray]] = [[], [], []]
    for d in sorted({d for loop in loops for d in loop.shape}):
        own = [(n, k) for n, loop in enumerate(loops) for k, states in enumerate(loop.shape) if states == d]
        ends = np.cumsum([0, *(loops[n].number for n, _ in own)]).tolist()
        rows.append(Rows(first, d, ends[-1]))
        for (n, k), start, end in zip(own, ends, ends[1:], strict=False):
            corners[n][k] = Slot(rows[-1], slice(start, end))
        for part, name in zip(places, ("states", "before", "after"), strict=True):
            columns = np.concatenate([getattr(loops[n], name)[k] for n, k in own])
            part.append((columns + np.arange(d)[:, None]).ravel())
        first += d * ends[-1]
    state, before, after = (np.concatenate(part) for part in places)
    before, after = wiring.where[before], wiring.where[after]
    share, mean = shares(state, before, after, flat.num_states, len(wiring.state))
    return _Index(pairs, loops, rows, corners, state, before, after, share, mean)


def _pair_values(wiring: NativeWiring, pairs: StructuredPairs) -> FloatArray:
    """Return the entries of the dense tables of structured factors over two variables."""
    found = [np.zeros(0)]
    for group, members in zip(wiring.flat.structured, pairs.members, strict=True):
        if members is not None:
            factors, states = members
            rows = group.rows(wiring.flat.log_phi[group.entries])
            found.append(kind_class(group.kind).log_scores(rows, states).T[factors].ravel())
    return np.concatenate(found)


def _joint(wiring: NativeWiring, log_phi: FloatArray, loop: LoopPlaces) -> FloatArray:
    """Return [d1, .., dL, N] the sum of pair tables around each loop; tables with zeros get maximum 0 and a floor."""
    length = len(loop.shape)
    total: Any = 0.0
    for k, entries in enumerate(loop.entries):
        table = np.moveaxis(log_phi[entries], 0, -1)  # [d_k, d_{k+1}, N]
        if wiring.has_zeros:
            table = np.maximum(table - finite(table.max(axis=(0, 1))), wiring.floor)
        after = (k + 1) % length
        if after < k:
            table = table.transpose(1, 0, 2)
        total = total + table.reshape(*[d if n in (k, after) else 1 for n, d in enumerate(loop.shape)], loop.number)
    return np.ascontiguousarray(total)
