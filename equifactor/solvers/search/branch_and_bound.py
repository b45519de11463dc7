"""Branch and bound for MAP: hybrid best-first search over the dual bounds of `node_kernels`.

Open nodes wait in a heap, the highest bound first. A dive searches depth first below one of them for a few backtracks
and puts its own open nodes into the heap [Allouche15]. The bound over all open nodes therefore falls, as in best-first
search, and assignments are found early, as in depth-first search.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import Clock
from equifactor.graph.layout import ENTRY, SLOT, VAR
from equifactor.kernels.pointers import by_number, ptr_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.duals.ascent import Ascent
    from equifactor.solvers.search.node_kernels import NodeGraph

    Decisions = NDArray[np.int32]  # [depth, 3] variable, state, LEFT or RIGHT
    Node = tuple[float, int, Decisions]  # minus the bound of a node, its serial number, and the path to it

_BURST = 8e6  # Table entries that a dive reads before it returns, which takes about 20 ms.
# The fixed cost of renewing a factor, in table entries read. Halved or doubled: gap within 5 %.
_LOOKS_PER_RENEWAL = 50.0
# The cost of choosing a variable, in table entries read per factor and variable. Halved or doubled: gap within 10 %.
_LOOKS_OF_NODE = 8.0
# Fewest nodes of a burst on any graph: with fewer, all work would be replays. Halved or doubled: gap within 5 %.
_LEAST_NODES = 32
_LEAST_CHANGE = 0.1  # Changes below this share of a node's gap are not passed on. Halved or doubled: gap within 5 %.
# After this many renewals per factor of the graph, a node passes on new zeros only. Halved or doubled: gap within 5 %.
_RENEWALS = 10.0
# Smallest and largest limit on the backtracks of a dive. Halved: gap -4 %; doubled: within 5 %.
_BACKTRACKS = 128, 16384
# Dives become shorter below the first share of replayed nodes, longer above the second. Halved or doubled: gap within
# 5 %.
_REPLAYS = 0.05, 0.1
_TRAIL = 2**21  # Most changes that a dive can undo: 24 MiB.
# A node is searched only if it can gain this share of the gap that counts as closed. Halved or doubled: gap within 5 %.
_SLACK = 0.01
# Most decisions in all open nodes (12 bytes each, 200 MB); beyond it the search continues depth first.
_MOST_OPEN = 2**24


class BranchAndBound:
    """The search in bursts of work: `best` is always the best assignment so far, `bound` a proven upper bound.

    Args:
        ascent: the messages of one graph, already improved.
        states: [V] an assignment to begin with.
        score: the log score of that assignment, -inf when it is impossible.
        gap: the difference between bound and score, relative to the score, that counts as closed.
    """

    def __init__(self, ascent: Ascent, states: IntArray, score: float, gap: float) -> None:
        from equifactor.solvers.search.branch_kernels import Incumbent, shift

        self.flat = ascent.flat
        self.gap = gap
        self._graph = _node_graph(ascent)
        self._root = _root_values(ascent)
        self._arrays()
        self.constant = ascent.constant + shift(self._graph, self._root)
        self._incumbent = Incumbent(np.array([score - self.constant]), np.array(states))
        self._limit = _BACKTRACKS[0]  # most backtracks of the present dive
        start = float(self._root[self._graph.first_top :].sum())
        self._open: list[Node] = [(-start, 0, self._path.decisions[:0].copy())]  # a heap
        self._stack: list[Node] = []  # nodes to search before those of the heap
        self._serial = 0  # nodes are numbered, so that the heap never compares their decisions
        self._decisions = 0  # number of decisions of all nodes in the heap

    @property
    def best(self) -> IntArray:
        """The best assignment [V] so far; not a copy."""
        return self._incumbent.x

    @property
    def score(self) -> float:
        """The log score of `best`, up to rounding."""
        return float(self._incumbent.score[0]) + self.constant

    @property
    def bound(self) -> float:
        """The upper bound on all scores, up to the gap that counts as closed."""
        above = [*self._open[:1], *self._stack]
        return max([self.score + self._slack, *(self.constant - node[0] for node in above)])

    @property
    def finished(self) -> bool:
        """Whether `best` is optimal, or no assignment is possible."""
        return not (self._open or self._stack)

    @property
    def nodes(self) -> int:
        """The number of nodes visited."""
        from equifactor.solvers.search.node_kernels import NODES

        return int(self._node.count[NODES])

    def offer(self, states: IntArray, score: float) -> bool:
        """Take over a given assignment [V] if it is better; return whether it was."""
        if score <= self.score:
            return False
        self.best[:] = states
        self._incumbent.score[0] = score - self.constant
        return True

    def work(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Dive for about `seconds`; return whether a better assignment was found.

        A dive ends by itself after about `CALL_SECONDS`, or after `seconds` if that is less.
        """
        end = Clock.now() + seconds
        share = min(1.0, seconds / CALL_SECONDS)
        before = float(self._incumbent.score[0])
        while not self.finished and Clock.now() < end and not stopped():
            self._dive(share)
        return bool(self._incumbent.score[0] > before)

    @property
    def _slack(self) -> float:
        """The score that an assignment must gain to be worth a search."""
        score = self.score
        return _SLACK * self.gap * max(1.0, abs(score)) if np.isfinite(score) else 0.0

    @property
    def _floor(self) -> float:
        """The bound up to which nodes are discarded; without the constant, like all bounds of nodes."""
        return float(self._incumbent.score[0]) + self._slack

    def _dive(self, share: float = 1.0) -> None:
        from equifactor.solvers.search.branch_kernels import LEFT, RIGHT, SIDE, DiveLimits, dive

        if self._stack:
            above, _, decisions = self._stack.pop()
        else:
            above, _, decisions = heapq.heappop(self._open)
            self._decisions -= len(decisions)
        if not -above > self._floor:
            return
        path, depth = self._path, len(decisions)
        path.decisions[:depth] = decisions
        self._node.value[:] = self._root
        nodes = self.nodes
        burst = max(int(share * self._burst), self._least_burst)
        limits = DiveLimits(
            backtracks=self._limit,
            updates=burst,
            per_node=self._per_node,
            renewals=min(int(_RENEWALS * (len(self._graph.factors) - 1)) + 1, burst),
            share=_LEAST_CHANGE,
            slack=self._slack,
        )
        first, last, is_open = dive(
            self._graph, self._node, self._queue, self._scratch, self._choice, path, depth, self._incumbent, limits
        )
        for n in range(first, last):
            if path.decisions[n, SIDE] == LEFT:
                right = path.decisions[: n + 1].copy()
                right[n, SIDE] = RIGHT
                self._push(min(path.bounds[n], -above), right)
        if is_open:
            self._push(min(path.bounds[last], -above), path.decisions[:last].copy())
        self._adapt(self.nodes - nodes)

    def _push(self, bound: float, decisions: Decisions) -> None:
        if bound > self._floor:
            self._serial += 1
            node = -float(bound), self._serial, decisions
            if self._decisions > _MOST_OPEN:
                self._stack.append(node)
                return
            self._decisions += len(decisions)
            heapq.heappush(self._open, node)

    def _adapt(self, nodes: int) -> None:
        """Make dives longer when many nodes are replayed, and shorter when few are."""
        share = 1.0 / max(1, nodes)
        if share > _REPLAYS[1]:
            self._limit = min(2 * self._limit, _BACKTRACKS[1])
        elif share < _REPLAYS[0]:
            self._limit = max(self._limit // 2, _BACKTRACKS[0])

    def _arrays(self) -> None:
        """Allocate the arrays that change during a dive, and set how much work a dive does."""
        from equifactor.solvers.search import branch_kernels, node_kernels

        graph, length = self._graph, len(self._root)
        arity, sizes = np.diff(graph.factors, axis=0).T
        card = np.diff(graph.var_ptr)
        num_vars, num_factors = len(card), len(arity)
        room = max(_TRAIL, 8 * length)
        self._node = node_kernels.NodeValues(
            value=self._root.copy(),
            stamp=np.zeros(length, np.int64),
            trail_at=np.empty(room, np.int32),
            trail_value=np.empty(room),
            count=np.zeros(5, np.int64),
        )
        self._queue = node_kernels.FactorQueue(
            np.zeros(max(1, num_factors), np.int64), np.zeros(num_factors, bool), np.zeros(2, np.int64)
        )
        self._scratch = node_kernels.NodeScratch(
            joint=np.empty(int(sizes.max(initial=1))),
            best=np.empty(int(card.max(initial=1))),
            moved=np.empty(int(arity.max(initial=1))),
        )
        self._choice = branch_kernels.ChoiceArrays(
            np.ones(num_factors), np.zeros(num_vars, np.int64), np.zeros(num_vars)
        )
        deepest = num_vars + int(card.sum()) + 1
        self._path = branch_kernels.PathArrays(
            np.zeros((deepest, 3), np.int32), np.zeros(deepest, np.int64), np.zeros(deepest)
        )
        looks = _LOOKS_PER_RENEWAL + 2.0 * arity * sizes
        mean = looks.mean() if num_factors else _LOOKS_PER_RENEWAL
        self._per_node = int(_LOOKS_OF_NODE * (num_factors + num_vars) / mean)
        self._least_burst = max(1, _LEAST_NODES * self._per_node)
        self._burst = max(int(_BURST / mean), self._least_burst)


def _node_graph(ascent: Ascent) -> NodeGraph:
    """Return the factors of two and more variables; the tables are copies."""
    from equifactor.solvers.elimination.program_kernels import table_strides
    from equifactor.solvers.search.node_kernels import NodeGraph

    flat, layout = ascent.flat, ascent.layout
    arity = np.diff(layout.factors[:, SLOT])
    kept = np.flatnonzero(arity > 1)
    sizes = np.diff(layout.factors[:, ENTRY])[kept]
    slot_of = _runs(layout.factors[kept, SLOT], arity[kept])
    factors = np.stack([ptr_of(arity[kept]), ptr_of(sizes)], axis=1)
    var = layout.slots[slot_of, VAR]
    stride = table_strides(factors[:, 0].copy(), var, np.diff(flat.var_ptr))
    factor_of_slot = np.repeat(np.arange(len(kept)), arity[kept])
    return NodeGraph(
        var_ptr=np.asarray(flat.var_ptr),
        factors=factors,
        slots=np.concatenate([layout.slots[slot_of], stride[:, None]], axis=1),
        neighbour_ptr=ptr_of(np.bincount(var, minlength=flat.num_vars)),
        neighbours=factor_of_slot[by_number(var)],
        theta=np.array(flat.log_phi[_runs(layout.factors[kept, ENTRY], sizes)]),
        first_msg=len(ascent.total),
        first_top=len(ascent.total) + len(ascent.back),
    )


def _root_values(ascent: Ascent) -> FloatArray:
    """Return the values [X + S + V] of the root: totals, messages and maxima."""
    msg = np.where(np.isfinite(ascent.back), -ascent.back, 0.0)
    ptr = np.asarray(ascent.flat.var_ptr)
    top = np.maximum.reduceat(ascent.total, ptr[:-1]) if len(ptr) > 1 else np.zeros(0)
    return np.concatenate((ascent.total, msg, top))


def _runs(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers start, start + 1, .. of every run, one run after another."""
    ptr = ptr_of(lengths)
    return np.repeat(starts - ptr[:-1], lengths) + np.arange(ptr[-1])
