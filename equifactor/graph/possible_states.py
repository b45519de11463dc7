"""Which states the zeros of the tables leave possible: the search, on index arrays alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.equal_scopes import zeros_of_equal_scopes
from equifactor.graph.kinds import kinds_with
from equifactor.kernels.pointers import by_number, place_in_row, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.graph.structure import Structure


_MOST_SWEEPS = 1000  # Sweeps; what longer chains of implications exclude is left to the solver. Chosen by hand.
_FEW_STATES = 8  # Axes of at most this length are reduced slice by slice. Chosen by hand.
_MOST_ENTRIES = 2**24  # Tables of one shape are examined together, up to this many entries (16 MiB).


def possible_states(s: Structure, log_phi: FloatArray) -> BoolArray | None:
    """Return [X] states with support in every factor; None if a variable has no state left, or a constant is zero.

    Factors over the same variables are treated as one factor. The first sweep over all factors costs O(T log T). Later
    sweeps visit only the factors around states that were struck out, so long chains of implications are cheap.
    """
    possible = np.ones(int(s.state_ptr[-1]), bool)
    zero = np.isneginf(log_phi)
    if s.kinds is None and not zero.any():  # A structured factor may be zero although no value of it is.
        return possible
    is_table = s.is_table
    has_zero = np.logical_or.reduceat(zero, s.table_ptr[:-1]) & (np.diff(s.table_ptr) > 0)
    with_zeros = np.flatnonzero(has_zero & is_table)
    if np.any(s.arity[with_zeros] == 0):
        return None
    unary = s.arity[with_zeros] == 1
    alone, joint = zeros_of_equal_scopes(s, with_zeros[~unary], zero)
    alone = np.concatenate((with_zeros[unary], alone))
    groups: list[_ZerosOfShape | _StructuredZeros] = [_ZerosOfShape(s, scopes, ~zeros) for scopes, zeros in joint]
    for members in _by_shape(s, alone):
        shape = s.shape(int(members[0]))
        scopes = s.scope_vars[s.scope_ptr[members][:, None] + np.arange(len(shape))]
        groups.append(_ZerosOfShape(s, scopes, ~zero[_entries(s, members)].reshape(-1, *shape)))
    if s.kinds is not None:
        rows = s.rows(log_phi)
        kinds = np.unique(s.kinds.kind[~is_table]).tolist()
        groups += [_StructuredZeros(s, rows, np.flatnonzero(s.kinds.kind == kind), kind) for kind in kinds]
    near = list(enumerate(np.arange(group.num_factors) for group in groups))
    left = s.card.copy()
    around: _Around | None = None
    for _ in range(_MOST_SWEEPS if groups else 0):
        lost = np.unique(np.concatenate([groups[n].without_support(rows, possible) for n, rows in near]))
        if not len(lost):
            break
        possible[lost] = False  # All at once: the states struck out do not depend on the order of factors.
        variables = np.searchsorted(s.state_ptr, lost, side="right") - 1
        np.subtract.at(left, variables, 1)
        if not left[variables].all():
            return None
        around = around or _Around(s, groups)
        near = around.rows(np.unique(variables))
        if not near:
            break
    return possible


class _ZerosOfShape:
    """The zeros of factors of one shape; factors over the same variables count as one."""

    def __init__(self, s: Structure, variables: IntArray, allowed: BoolArray) -> None:
        self.shape = allowed.shape[1:]
        self.variables = variables  # [N, k]
        self.first = s.state_ptr[variables]  # [N, k] first state of each variable
        self.allowed = allowed  # [N, *shape]
        self.num_factors = len(variables)
        self.arity = np.full(len(variables), len(self.shape))

    def without_support(self, rows: IntArray, possible: BoolArray) -> IntArray:
        """Return the possible states that the factors of these rows exclude; a state may be listed more than once."""
        whole = len(rows) == self.num_factors
        allowed = self.allowed if whole else self.allowed[rows]
        if not possible.all():
            allowed = allowed & _all_possible(self.first[rows], self.shape, possible)
        lost = []
        for j, d in enumerate(self.shape):
            supported = _any_beside(allowed, j)  # [n, d]
            lost.append((self.first[rows, j][:, None] + np.arange(d))[~supported])
        states = np.concatenate(lost)
        return states[possible[states]]


def _any_beside(allowed: BoolArray, j: int) -> BoolArray:
    """Return [n, d] whether something is marked in `allowed` [n, *shape] at each state of axis j of the shape."""
    for axis in range(allowed.ndim - 1, 0, -1):
        if axis == j + 1:
            continue
        if allowed.shape[axis] > _FEW_STATES:
            allowed = np.asarray(allowed.any(axis=axis))
        else:  # NumPy reduces short axes slowly.
            parts = np.moveaxis(allowed, axis, 0)
            allowed = parts[0]
            for part in parts[1:]:
                allowed = allowed | part
    return allowed


class _StructuredZeros:
    """The zeros of the structured factors of one kind."""

    def __init__(self, s: Structure, rows: FactorRows, members: IntArray, kind: int) -> None:
        from equifactor.graph.kinds import kind_class

        self.cls, self.rows, self.state_ptr = kind_class(kind), rows.take(members), s.state_ptr
        self.num_factors, self.arity, self.variables = len(members), self.rows.arity, self.rows.scope_vars

    def without_support(self, rows: IntArray, possible: BoolArray) -> IntArray:
        """Return the possible states that the factors of these rows exclude; a state may be listed more than once."""
        some = self.rows if len(rows) == self.num_factors else self.rows.take(rows)
        first = np.repeat(self.state_ptr[some.scope_vars], some.card)
        states = first + place_in_row(ptr_of(some.card))
        here = possible[states]
        return states[self.cls.unsupported(some, here) & here]


class _Around:
    """The factors with zeros around each variable."""

    def __init__(self, s: Structure, groups: Sequence[_ZerosOfShape | _StructuredZeros]) -> None:
        self.start = ptr_of([group.num_factors for group in groups])  # The rows of all groups lie one after the other.
        variables = np.concatenate([group.variables.ravel() for group in groups])
        arity = np.concatenate([group.arity for group in groups])
        order = by_number(variables)
        self.row_of = np.repeat(np.arange(self.start[-1]), arity)[order]
        self.ptr = ptr_of(np.bincount(variables, minlength=s.num_vars))

    def rows(self, variables: IntArray) -> list[tuple[int, IntArray]]:
        """Return the number of each group with a factor over one of the variables, and the rows of these factors."""
        count = self.ptr[variables + 1] - self.ptr[variables]
        shift = np.repeat(self.ptr[variables] - ptr_of(count)[:-1], count)
        near = np.unique(self.row_of[shift + np.arange(len(shift))])
        cut = np.searchsorted(near, self.start)
        return [(n, near[cut[n] : cut[n + 1]] - self.start[n]) for n in np.flatnonzero(np.diff(cut)).tolist()]


def _all_possible(first: IntArray, shape: tuple[int, ...], possible: BoolArray) -> BoolArray:
    """Return [N, *shape] entries all of whose states are left; `first` [N, k] is the first state of each variable."""
    left = np.ones((len(first), *shape), bool)
    for j, d in enumerate(shape):
        own = possible[first[:, j][:, None] + np.arange(d)]
        left &= own.reshape(-1, *(d if k == j else 1 for k in range(len(shape))))
    return left


def kept_entries(s: Structure, possible: BoolArray) -> BoolArray:
    """Return [T] table entries all of whose states are left."""
    kept = np.ones(s.num_entries, bool)
    narrowed = state_counts(s, possible) < s.card
    touched = np.unique(s.factor_of_edge[narrowed[s.scope_vars]])
    for members in _by_shape(s, touched):
        shape = s.shape(int(members[0]))
        first = s.state_ptr[s.scope_vars[s.scope_ptr[members][:, None] + np.arange(len(shape))]]
        kept[_entries(s, members)] = _all_possible(first, shape, possible).reshape(len(members), -1)
    return kept


def _by_shape(s: Structure, factors: IntArray) -> Iterator[IntArray]:
    """Yield the factors in groups of one shape, large ones in parts: temporaries stay near 2^24 entries."""
    for arity in np.unique(s.arity[factors]).tolist():
        members = factors[s.arity[factors] == arity]
        shapes = s.card[s.scope_vars[s.scope_ptr[members][:, None] + np.arange(arity)]]
        group = np.zeros(len(members), np.int64)
        if not (shapes == shapes[0]).all():  # Sorting rows is slow.
            group = np.unique(shapes, axis=0, return_inverse=True)[1]
        order = np.argsort(group.ravel(), kind="stable")
        for same in np.split(members[order], np.flatnonzero(np.diff(group.ravel()[order])) + 1):
            part = max(1, _MOST_ENTRIES // int(s.table_ptr[same[0] + 1] - s.table_ptr[same[0]]))
            yield from (same[n : n + part] for n in range(0, len(same), part))


def _entries(s: Structure, members: IntArray) -> IntArray:
    """Return [N, size] entries of the tables of factors that have one shape."""
    return s.table_ptr[members][:, None] + np.arange(s.table_ptr[members[0] + 1] - s.table_ptr[members[0]])


def state_counts(s: Structure, marked: BoolArray) -> IntArray:
    """Return [V] how many states of each variable are marked."""
    return np.add.reduceat(marked, s.state_ptr[:-1], dtype=np.int64) if s.num_vars else np.zeros(0, np.int64)


def zeros_alone(graph: FactorGraph) -> FactorGraph:
    """Return a graph with the same possible assignments, all of which have the log score 0 as far as possible.

    Log values other than `-inf` become 0. Factors whose values are not linear in their log values keep them.
    """
    s = graph.structure
    keep = np.zeros(len(graph.log_phi), bool)
    if s.kinds is not None:
        keep = np.repeat(kinds_with("nonlinear_values", s.kinds.kind), np.diff(s.table_ptr))
    return graph.with_potentials(np.where(keep | np.isneginf(graph.log_phi), graph.log_phi, 0.0), log=True)
