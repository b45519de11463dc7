"""Dual ascent beyond the local linear program: triplets of variables along frustrated cycles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import FactorGraph, FlatGraph, compile
from equifactor.graph.layout import ENTRY
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.duals import cycle_kernels as kernels
from equifactor.solvers.duals import dual_kernels as duals
from equifactor.solvers.duals.ascent import VariableAscent, best_states
from equifactor.solvers.duals.stall import Stall
from equifactor.solvers.elimination.program import read_only

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray


# Most variables of a cycle in the first searches: short cycles need the fewest triplets. Halved or doubled: gap within
# 50 %, CPU halved -12 %.
_FIRST_LENGTH = 4
_LAST_LENGTH = 24  # Most variables of a cycle in the last searches. Halved or doubled: gap within 75 %.
_VISITS = 4000  # Most nodes that one search for a cycle visits. Halved or doubled: gap within 50 %.
# Sweeps between two checks of the progress. Halved: gap -29 %, which other graphs did not confirm; doubled: within
# 50 %.
_CHECK = 10
# Cycles are searched for again when the progress between two checks is below this share of the progress since the last
# search. On four grids of 1,600 and 6,400 binary variables the gap after 8 to 16 s of CPU is 0.7 to 53 with 0.03, and 0
# to 50 with 0.1 and 0.2; with 0.3 it is larger again.
_SLOW = 0.2
# Sweeps over the triplets after each pass over the variables, which takes ten times as long as one sweep. With 1, two
# of three grids of 1,600 variables are not proven within 9 s of CPU; with 4 and `_SLOW`, all three are.
_TRIPLET_SWEEPS = 4


class CycleAscent:
    """SRMP on a graph that grows: every few sweeps, cycles whose pair tables contradict each other get triplets.

    A cycle is cut into triangles by chords, which are pair factors of ones. Each triangle becomes a triplet that makes
    its three pairs agree on one joint state [Sontag08, Sontag12]. Tables are reparametrised in place: score(x) is
    always the sum of `unary` and the tables, minus the messages `lam` of the triplets. The sum of their maxima is
    therefore a bound.
    """

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        """Start from the unary tables of one compiled graph."""
        self.flat = flat
        self.plain = VariableAscent(flat)
        self.sweeps = 0
        self.longest = _FIRST_LENGTH
        self.stall = Stall(_CHECK, share_of_gap=_SLOW)
        self.first_bound = np.inf  # the first bound after the last search
        self.last_bound = np.inf  # the bound after the last sweep
        self.sweeps_since = 0  # the number of sweeps since the last search
        self.card = np.diff(flat.var_ptr)
        self.scopes, log_phi, self.pair_of = _merged(flat)
        self.triplets = np.zeros((0, 3), np.int64)  # the pair factors (i, j), (j, k), (i, k) of i < j < k
        self.seen: set[tuple[int, int, int]] = set()
        self.lam = np.zeros(0)
        self._build(log_phi, self.plain.unary.copy())

    @property
    def bound(self) -> float:
        """The sum of the maxima of all parts, which bounds every log score."""
        top_i = duals.sum_of_maxima(self.flat.var_ptr, self.unary)
        starts = self.inner.layout.factors[:-1, ENTRY]
        top_a = np.maximum.reduceat(self.log_phi, starts).sum() if len(starts) else 0.0
        top_c = kernels.sum_of_triplet_maxima(self.shapes, self.lam_ptr, self.lam)
        return float(top_i + top_a + top_c) + self.plain.constant

    def sweep(self) -> float:
        """Sweep forward and back over the variables, then often over the triplets; if the bound stalls, add cycles."""
        if self.sweeps_since % _CHECK == 1 and self.stall.stalled(self.first_bound - self.last_bound):
            self._grow()
            self.stall.clear()
            self.sweeps_since = 0
        self.sweeps += 1
        inner = self.inner
        inner.stale = True
        if np.isneginf(inner.sweep()) or np.isneginf(bound := inner.sweep()):
            return -np.inf
        duals.spread_exclusions(inner.layout.edges, inner.back, inner.total)
        kernels.messages_into_tables(inner.layout.factors, inner.layout.slots, self.log_phi, inner.back, inner.at)
        self.unary[:] = inner.total
        upward = np.arange(len(self.triplets))
        for n in range(_TRIPLET_SWEEPS):
            order = upward[:: 1 if (self.sweeps + n) % 2 else -1].copy()
            kernels.sweep_triplets(order, self.entries, self.shapes, self.lam_ptr, self.lam, self.log_phi, self.scratch)
        self.first_bound = bound if self.sweeps_since == 0 else self.first_bound
        self.last_bound = bound
        self.sweeps_since += 1
        self.stall.add(bound)
        return bound + self.plain.constant

    def candidates(self, rng: np.random.Generator | None = None, clock: Clock | None = None) -> Iterator[IntArray]:
        """Yield assignments decoded from the tightened tables, improved on the original ones, until the clock stops."""
        self.inner.total[:] = self.unary
        for states in self.inner.decoded(rng, clock):
            yield self.plain.polished(states, clock)

    def _build(self, log_phi: FloatArray, unary: FloatArray) -> None:
        """Compile the grown graph, with log_phi [T] in the order of `scopes` and unary [X]."""
        ptr = ptr_of([len(scope) for scope in self.scopes])
        scope_vars = np.array([i for scope in self.scopes for i in scope], np.int64)
        structure = Structure.build(self.card, ptr, scope_vars)
        graph = FactorGraph.trusted(structure, log_phi)
        flat = compile(graph)
        self.inner = VariableAscent(flat)
        self.order = flat.entry_order
        self.log_phi = np.array(flat.log_phi)  # reparametrised in place from now on
        self.inner.log_phi = read_only(self.log_phi)  # its kernels are compiled for the potentials of graphs
        self.unary = self.inner.unary = unary
        self.inner.total[:] = unary
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        first = place[structure.table_ptr[:-1]] if len(place) else np.zeros(0, np.int64)
        self.pairs = np.array(list(self.pair_of), np.int64).reshape(-1, 2)
        self.pair_entries = first[list(self.pair_of.values())] if self.pair_of else np.zeros(0, np.int64)
        self.entries = first[self.triplets] if len(self.triplets) else self.triplets
        i, j, k = self._corners()
        self.shapes = np.stack([self.card[i], self.card[j], self.card[k]], axis=1)
        di, dj, dk = self.shapes.T
        sizes = di * dj + dj * dk + di * dk
        self.lam_ptr = ptr_of(sizes)
        self.lam = np.concatenate([self.lam, np.zeros(self.lam_ptr[-1] - len(self.lam))])
        self.scratch = np.empty(sizes.max(initial=0))

    def _corners(self) -> tuple[IntArray, IntArray, IntArray]:
        if not len(self.triplets):
            none = np.zeros(0, np.int64)
            return none, none, none
        ij = np.array([self.scopes[a] for a in self.triplets[:, 0]])
        jk = np.array([self.scopes[a] for a in self.triplets[:, 1]])
        return ij[:, 0], ij[:, 1], jk[:, 1]

    def _grow(self) -> None:
        """Find cycles, add their chords and triplets, and compile the graph again."""
        count = len(self.pairs)
        if not count:
            return
        states, _ = best_states(self.unary, self.flat.var_ptr)
        sign = kernels.pair_signs(self.pairs, self.pair_entries, self.flat.var_ptr, self.log_phi, states)
        pair_order = np.argsort(-np.abs(sign), kind="stable")
        owner = self.pairs.T.ravel()
        pair_ptr = ptr_of(np.bincount(owner, minlength=len(self.card)))
        pairs_of_var = np.argsort(owner, kind="stable") % count
        least = 1e-9 * max(1.0, abs(self.bound)) / len(self.card)
        cycles, found = kernels.frustrated_cycles(
            order=pair_order,
            pairs=self.pairs,
            sign=sign,
            pair_ptr=pair_ptr,
            pairs_of_var=pairs_of_var,
            least=least,
            longest=self.longest,
            visits=_VISITS,
            most=max(20, len(self.card) // 4),
        )
        graph_order = np.empty_like(self.log_phi)
        graph_order[self.order] = self.log_phi
        tables = [graph_order]
        new = []
        for cycle in cycles[:found]:
            new += self._triangles(cycle[cycle >= 0].tolist(), tables)
        if len(new) < max(3, len(self.card) // 50):
            self.longest = min(2 * self.longest, _LAST_LENGTH)
        if new:
            self.triplets = np.concatenate([self.triplets, np.array(new, np.int64)])
            self._build(np.concatenate(tables), self.unary.copy())

    def _triangles(self, cycle: list[int], tables: list[FloatArray]) -> list[tuple[int, int, int]]:
        """Return the triplets of one cycle that do not exist yet; append chords to `tables` where needed.

        The cycle is cut into a fan from the variable that needs the fewest new triplets, the first of equal ones.
        """
        fans = [_fan(cycle[n:] + cycle[:n]) for n in range(len(cycle))]
        missing = min(([corners for corners in fan if corners not in self.seen] for fan in fans), key=len)
        self.seen.update(missing)
        return [(self._pair(i, j, tables), self._pair(j, k, tables), self._pair(i, k, tables)) for i, j, k in missing]

    def _pair(self, i: int, j: int, tables: list[FloatArray]) -> int:
        if (i, j) not in self.pair_of:
            self.pair_of[i, j] = len(self.scopes)
            self.scopes.append((i, j))
            tables.append(np.zeros(int(self.card[i] * self.card[j])))
        return self.pair_of[i, j]


def _fan(cycle: list[int]) -> list[tuple[int, int, int]]:
    """Return the triangles from the first variable of a cycle, corners sorted."""
    triangles = []
    for b, c in itertools.pairwise(cycle[1:]):
        i, j, k = sorted((cycle[0], b, c))
        triangles.append((i, j, k))
    return triangles


def _merged(
    flat: FlatGraph[np.ndarray],
) -> tuple[list[tuple[int, ...]], FloatArray, dict[tuple[int, int], int]]:
    """Return scopes and tables of the factors of arity 2 and more, with one pair factor (i < j) per pair."""
    scopes: list[tuple[int, ...]] = []
    tables: list[FloatArray] = []
    pair_of: dict[tuple[int, int], int] = {}
    for group in flat.groups:
        if len(group.shape) < 2:
            continue
        scope = np.stack([flat.var_of_edge[edges] for edges in group.edges], axis=1)
        for variables, table in zip(scope.tolist(), group.table(flat.log_phi), strict=True):
            if len(variables) > 2:
                scopes.append(tuple(variables))
                tables.append(table.ravel())
                continue
            i, j = sorted(variables)
            table = (table if variables[0] == i else table.T).ravel()
            if (i, j) in pair_of:
                tables[pair_of[i, j]] = tables[pair_of[i, j]] + table
            else:
                pair_of[i, j] = len(scopes)
                scopes.append((i, j))
                tables.append(table)
    return scopes, np.concatenate(tables) if tables else np.zeros(0), pair_of
