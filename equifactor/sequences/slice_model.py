"""A dynamic network as arrays: which variables carry the state of a slice, and what observations say about them.

The *state* of a slice holds every variable on which the next slice depends, and those that depend on the slice before.
All other variables depend on the state of their own slice alone. They fall into separate *parts*, each with its own
small sum, which is computed once for every pattern of observations.

Symbols: Q state variables with S joint states, N sequences, T slices, U different patterns of observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from equifactor.sequences.chained_products import ChainedProduct, Factor, eliminated, product
from equifactor.sequences.observed_rows import distinct_rows

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

DENSE_STATES = 512  # Up to this number of joint states a step is one matrix, of at most 2 MB.


@dataclass(frozen=True, eq=False)
class Family:
    """The table of one variable. `scope` holds its parents and, last, itself: i one slice before, V + i otherwise."""

    scope: tuple[int, ...]
    table: FloatArray

    @property
    def factor(self) -> Factor:
        """The table as a factor."""
        return Factor(self.scope, self.table)


@dataclass(frozen=True, eq=False)
class SlicePart:
    """Variables that depend on the state of their slice alone, with the tables that hold any of them."""

    variables: tuple[int, ...]  # V + i
    scope: tuple[int, ...]  # the state variables in these tables
    families: tuple[tuple[int, ...], tuple[int, ...]]  # whose tables belong here: in the first slice, and later


@dataclass(frozen=True, eq=False)
class Patterns:
    """What one part says about the state: a row of logs for each pattern of observations."""

    part: SlicePart
    index: IntArray  # [N, T] the pattern in each slice
    log_rows: FloatArray  # [U, *cards of the part's scope]
    codes: IntArray  # [U, variables of the part] the observations of each pattern, as in `Sequences`
    later: bool  # whether it belongs to a later slice than the first


@dataclass(eq=False)
class SliceModel:
    """The parts of a dynamic network, and the step from slice to slice."""

    card: Mapping[int, int]  # of i and V + i
    first: Sequence[Family]  # [V] tables of the first slice
    then: Sequence[Family]  # [V] tables of all later slices
    evidence: Sequence[FloatArray]  # [V] the rows that observations stand for; see `Sequences.tables`
    interface: tuple[int, ...] = ()  # i, those with children in the next slice
    state: tuple[int, ...] = ()  # V + i, the state variables
    parts: list[SlicePart] = field(default_factory=list)
    _steps: dict[str, ChainedProduct] = field(default_factory=dict)

    def __post_init__(self) -> None:
        V = len(self.first)
        self.interface = tuple(sorted({v for f in self.then for v in f.scope if v < V}))
        root = list(range(V))

        def find(i: int) -> int:
            while root[i] != i:
                i = root[i]
            return i

        carried = set(self.interface)
        for f in (*self.first, *self.then):
            own = [v - V for v in f.scope if v >= V and v - V not in carried]
            for i in own[1:]:
                root[find(i)] = find(own[0])
        touching = {
            find(v - V)
            for f in self.then
            if any(v < V for v in f.scope)
            for v in f.scope
            if v >= V and v - V not in carried
        }
        self.state = tuple(V + i for i in range(V) if i in carried or find(i) in touching)
        members: dict[int, list[int]] = {}
        for i in range(V):
            if V + i not in self.state:
                members.setdefault(find(i), []).append(V + i)
        for variables in members.values():
            self.parts.append(self._part(tuple(variables)))
        self.parts.extend(SlicePart((), (v,), ((), ())) for v in self.state)  # observations of the state itself

    def _part(self, variables: tuple[int, ...]) -> SlicePart:
        chosen = set(variables)
        families = tuple(
            tuple(i for i, f in enumerate(tables) if chosen & {*f.scope}) for tables in (self.first, self.then)
        )
        scopes = (tables[i].scope for tables, own in zip((self.first, self.then), families, strict=True) for i in own)
        scope = sorted({v for s in scopes for v in s} - chosen)
        return SlicePart(variables, tuple(scope), (families[0], families[1]))

    # ---- the state --------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The cards of the state variables."""
        return tuple(self.card[v] for v in self.state)

    @property
    def num_states(self) -> float:
        """The number of joint states, as a float because it may be huge."""
        return float(np.prod(np.array(self.shape, np.float64)))

    @property
    def is_dense(self) -> bool:
        """Whether a step is one matrix."""
        return self.num_states <= DENSE_STATES

    def transitions(self) -> list[Factor]:
        """Return the tables of later slices that belong to no part."""
        return self._outside_parts(later=True)

    def prior(self) -> FloatArray:
        """Return the product of the tables of the first slice that belong to no part [*cards of the state]."""
        return product(self._outside_parts(later=False), self.state).table

    def _outside_parts(self, later: bool) -> list[Factor]:
        """Return the tables that belong to no part, and ones for state variables that they do not have."""
        taken = {i for part in self.parts for i in part.families[later]}
        found = [f.factor for i, f in enumerate(self.then if later else self.first) if i not in taken]
        left = {*self.state} - {v for f in found for v in f.scope}
        return found + [Factor((v,), np.ones(self.card[v])) for v in sorted(left)]

    def matrix(self) -> FloatArray:
        """Return the step as a matrix [S, S], rows by the slice before. Only for dense models."""
        V = len(self.first)
        before = tuple(v - V for v in self.state)
        spare = [Factor((i,), np.ones(self.card[i])) for i in before if i not in self.interface]
        S = int(self.num_states)
        return product([*self.transitions(), *spare], (*before, *self.state)).table.reshape(S, S)

    def step(self, kind: str) -> ChainedProduct:
        """Return a step: `forward`, `backward`, or `best`, which is forward with maxima of logs."""
        if kind not in self._steps:
            groups = self.transitions()
            if kind == "best":
                with np.errstate(divide="ignore"):
                    groups = [Factor(g.scope, np.log(g.table)) for g in groups]
            ends = (self.interface, self.state)
            start, end = ends[::-1] if kind == "backward" else ends
            self._steps[kind] = ChainedProduct(start, end, groups, self.card, logs=kind == "best")
        return self._steps[kind]

    def carried(self, state: FloatArray, best: bool = False) -> FloatArray:
        """Return states [N, *state] of one slice as [N, *interface] for the next."""
        V = len(self.first)
        gone = tuple(k + 1 for k, v in enumerate(self.state) if v - V not in self.interface)
        return (state.max(axis=gone) if best else state.sum(axis=gone)) if gone else state

    def spread(self, state: FloatArray) -> FloatArray:
        """Return an array [N, *interface] in a shape that broadcasts against [N, *state] of the slice before."""
        V = len(self.first)
        return state.reshape(len(state), *(self.card[v] if v - V in self.interface else 1 for v in self.state))

    # ---- observations -----------------------------------------------------------------------------------

    def patterns(self, part: SlicePart, codes: IntArray, later: bool, best: bool = False) -> Patterns:
        """Return what a part says about the state, for observations [N, T, V]; see `Sequences` for their codes."""
        V = len(self.first)
        seen = part.variables or part.scope
        found, index = distinct_rows(codes[:, :, [v - V for v in seen]].reshape(-1, len(seen)))
        with np.errstate(divide="ignore"):
            if part.variables:
                rows = eliminated(self.part_factors(part, found, later, best), (-1, *part.scope), best).table
                log_rows = rows if best else np.log(rows)
            else:
                log_rows = np.log(self.evidence[seen[0] - V][found[:, 0]])
        return Patterns(part, index.reshape(codes.shape[:2]), log_rows, found, later)

    def part_factors(self, part: SlicePart, codes: IntArray, later: bool, logs: bool = False) -> list[Factor]:
        """Return the tables of a part, and the evidence on each of its variables; axis -1 is patterns.

        Args:
            part: a part with variables.
            codes: [U, variables of the part] the observations of each pattern.
            later: whether the tables are those of later slices.
            logs: whether to return logs.
        """
        tables, V = self.then if later else self.first, len(self.first)
        factors = [tables[i].factor for i in part.families[later]]
        factors.append(Factor((-1,), np.ones(len(codes))))
        factors.extend(Factor((-1, v), self.evidence[v - V][x]) for v, x in zip(part.variables, codes.T, strict=True))
        factors.extend(Factor((v,), np.ones(self.card[v])) for v in part.scope)
        if logs:
            with np.errstate(divide="ignore"):
                factors = [Factor(f.scope, np.log(f.table)) for f in factors]
        return factors


def padded(matrix: FloatArray, value: float) -> FloatArray:
    """Return a matrix [P, P] from [S, S] with a value in further rows and columns, as state_kernels.py takes it."""
    S = len(matrix)
    found = np.full((-(-S // 8) * 8,) * 2, value)
    found[:S, :S] = matrix
    return found
