"""Branch and bound for MAP: hybrid best-first search over the dual bounds of `kernels.nodes`.

Open nodes wait in a heap, the highest bound first; a dive searches depth first below one of them for a few backtracks
and hands its own open nodes back [Allouche15]. So the bound over all open nodes falls, as in best-first search, and
assignments are found early, as in depth-first search.
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.layout import ENTRY, SLOT, VAR, layout_of
from equifactor.graph.pointers import ptr_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.solvers.optimise.ascent import Ascent
    from equifactor.typing import IntArray

    Decisions = NDArray[np.int32]  # [depth, 3] variable, state, LEFT or RIGHT
    Node = tuple[float, int, Decisions]  # minus its bound, serial number, the way to it

_BURST = 8e6  # table entries that a dive looks at before it comes back: about 20 ms
_LOOKS_OF_NODE = 8.0  # per factor and variable, renewals aside: a node is chosen from all of them
_LEAST_NODES = 32  # of a burst, however large the graph: less would be all replays
_SHARE = 0.1  # of a node's gap: smaller changes are not passed on
_RENEWALS = 10.0  # per factor and node, after which only new zeros are passed on
_BACKTRACKS = 128, 16384  # of a dive, least and most
_REPLAYS = 0.05, 0.1  # share of replayed nodes that is too little, and too much
_TRAIL = 2**21  # changes that a dive can take back
_SLACK = 0.01  # of the gap that counts as none: what an assignment must gain for a node to be searched
_MOST_OPEN = 2**24  # decisions of all open nodes (12 bytes each), above which the search goes on depth first


class BranchAndBound:
    """The search as bursts of work: `best` is always the best assignment so far, `bound` a proven upper bound.

    Args:
        ascent: messages of one graph, as good as they have become.
        states: [V] an assignment to begin with.
        score: its log score, -inf when impossible.
        gap: difference between bound and score, relative to the score, that counts as none.
    """

    def __init__(self, ascent: Ascent, states: IntArray, score: float, gap: float) -> None:
        from equifactor.solvers.optimise import branch_kernels as kernels

        self.flat = ascent.flat
        self.gap = gap
        self.best = states.copy()
        self._arrays(ascent)
        self.constant = ascent.constant + kernels.shift(*self._tables, self._root, self._first_msg)
        self._score = np.array([score - self.constant])
        self._limit = _BACKTRACKS[0]
        num = self.flat.num_vars
        self._path = np.zeros((num + int(np.diff(self.flat.var_ptr).sum()) + 1, 3), np.int32)
        self._marks, self._bounds = np.zeros(len(self._path), np.int64), np.zeros(len(self._path))
        start = float(self._root[self._first_top :].sum())
        self._open: list[Node] = [(-start, 0, self._path[:0].copy())]  # a heap
        self._stack: list[Node] = []  # nodes that have to be done before those of the heap
        self._serial = 0
        self._decisions = 0  # of all nodes in the heap

    @property
    def score(self) -> float:
        """Log score of `best`, up to rounding."""
        return float(self._score[0]) + self.constant

    @property
    def bound(self) -> float:
        """No assignment scores higher, up to the gap that counts as none."""
        above = [*self._open[:1], *self._stack]
        return max([self.score + self._slack, *(self.constant - node[0] for node in above)])

    @property
    def finished(self) -> bool:
        """`best` is optimal, or nothing is possible."""
        return not (self._open or self._stack)

    @property
    def nodes(self) -> int:
        """Nodes visited."""
        from equifactor.solvers.optimise.nodes import NODES

        return int(self._count[NODES])

    def offer(self, states: IntArray, score: float) -> bool:
        """Take over an assignment [V] from elsewhere when it is better."""
        if score <= self.score:
            return False
        self.best[:] = states
        self._score[0] = score - self.constant
        return True

    def work(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Dive for about so long; whether a better assignment was found."""
        end = time.perf_counter() + seconds
        before = self._score[0]
        while not self.finished and time.perf_counter() < end and not stopped():
            self._dive()
        return bool(self._score[0] > before)

    @property
    def _slack(self) -> float:
        """What an assignment must gain to be worth a search."""
        score = self.score
        return _SLACK * self.gap * max(1.0, abs(score)) if np.isfinite(score) else 0.0

    def _dive(self) -> None:
        from equifactor.solvers.optimise.branch_kernels import LEFT, RIGHT, dive
        from equifactor.solvers.optimise.nodes import NODES

        if self._stack:
            above, _, decisions = self._stack.pop()
        else:
            above, _, decisions = heapq.heappop(self._open)
            self._decisions -= len(decisions)
        if not -above > self._score[0] + self._slack:
            return
        depth = len(decisions)
        self._path[:depth] = decisions
        self._value[:] = self._root
        nodes = self._count[NODES]
        most = min(int(_RENEWALS * (len(self._tables[0]) - 1)) + 1, self._burst)
        first, last, is_open = dive(
            self._path, depth, self._limit, self._burst, self._per_node, self._slack, _SHARE, most, self._score,
            self.best, *self._graph, *self._state, self._marks, self._bounds,
        )  # fmt: skip
        for n in range(first, last):
            if self._path[n, 2] == LEFT:
                right = self._path[: n + 1].copy()
                right[n, 2] = RIGHT
                self._push(min(self._bounds[n], -above), right)
        if is_open:
            self._push(min(self._bounds[last], -above), self._path[:last].copy())
        self._adapt(self._count[NODES] - nodes)

    def _push(self, bound: float, decisions: Decisions) -> None:
        if bound > self._score[0] + self._slack:
            self._serial += 1
            node = -float(bound), self._serial, decisions
            if self._decisions > _MOST_OPEN:
                self._stack.append(node)
                return
            self._decisions += len(decisions)
            heapq.heappush(self._open, node)

    def _adapt(self, nodes: int) -> None:
        """Longer dives when much of the work is coming back to open nodes."""
        share = 1.0 / max(1, nodes)
        if share > _REPLAYS[1]:
            self._limit = min(2 * self._limit, _BACKTRACKS[1])
        elif share < _REPLAYS[0]:
            self._limit = max(self._limit // 2, _BACKTRACKS[0])

    def _arrays(self, ascent: Ascent) -> None:
        """Index arrays of the factors of two and more variables, and the messages of the root."""
        from equifactor.solvers.elimination.program_kernels import table_strides

        flat, layout = self.flat, layout_of(self.flat)
        arity = np.diff(layout.factors[:, SLOT])
        kept = np.flatnonzero(arity > 1)
        sizes = np.diff(layout.factors[:, ENTRY])[kept]
        slot_of = _runs(layout.factors[kept, SLOT], arity[kept])
        factors = np.stack([ptr_of(arity[kept]), ptr_of(sizes)], axis=1)
        var = layout.slots[slot_of, VAR]
        stride = table_strides(factors[:, 0].copy(), var, np.diff(flat.var_ptr))
        slots = np.concatenate([layout.slots[slot_of], stride[:, None]], axis=1)
        looks = 50.0 + 2.0 * arity[kept] * sizes  # per renewal; 50 for its fixed cost
        mean = looks.mean() if len(kept) else 50.0
        self._per_node = int(_LOOKS_OF_NODE * (len(kept) + flat.num_vars) / mean)
        self._burst = max(1, int(_BURST / mean), _LEAST_NODES * self._per_node)
        theta = np.array(flat.log_phi[_runs(layout.factors[kept, ENTRY], sizes)])
        ptr = np.asarray(flat.var_ptr)
        neighbour_ptr = ptr_of(np.bincount(var, minlength=flat.num_vars))
        factor_of_slot = np.repeat(np.arange(len(kept)), arity[kept])
        neighbours = factor_of_slot[np.argsort(var, kind="stable")]

        msg = np.where(np.isfinite(ascent.back), -ascent.back, 0.0)
        top = np.maximum.reduceat(ascent.total, ptr[:-1]) if flat.num_vars else np.zeros(0)
        self._root = np.concatenate((ascent.total, msg, top))
        self._first_msg, self._first_top = len(ascent.total), len(ascent.total) + len(msg)
        self._value = self._root.copy()
        self._tables = factors, slots, theta
        self._graph = ptr, factors, slots, neighbour_ptr, neighbours, theta
        length, num = len(self._value), len(kept)
        self._count = np.zeros(7, np.int64)
        joint, best = np.empty(int(sizes.max(initial=1))), np.empty(int(np.diff(ptr).max(initial=1)))
        moved = np.empty(int(arity.max(initial=1)))
        trail = max(_TRAIL, 8 * length)
        self._state = (
            self._value, self._first_msg, self._first_top, joint, best, moved, np.zeros(max(1, num), np.int64),
            np.zeros(num, bool), np.zeros(length, np.int64), np.empty(trail, np.int32), np.empty(trail), self._count,
            np.ones(num), np.zeros(flat.num_vars, np.int64), np.zeros(flat.num_vars),
        )  # fmt: skip


def _runs(starts: IntArray, lengths: IntArray) -> IntArray:
    """The numbers start, start + 1, .. of every run, one run after the other."""
    ptr = ptr_of(lengths)
    return np.repeat(starts - ptr[:-1], lengths) + np.arange(ptr[-1])
