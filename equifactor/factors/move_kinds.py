"""Factors of other kinds than tables for searches that change one variable at a time: running words and their values.

A factor keeps two running sums of whole numbers, its words. A state of a variable adds `weight * h` to them, where `h`
is the state itself, turned where its sign is negative, or its label. So a move changes the words of the factors around
it by a product each, whatever their kind and arity, without rounding; and the value of a factor follows from its words
alone:

| kind | first word | second word |
|---|---|---|
| parity | the number of ones | |
| count | the number of literals that hold | |
| noisy_or | the sum of the logs of leak and active inhibitors, in units | 2 per certain cause, 1 for the effect |
| sparse | the key of the configuration | |
| potts, truncated_linear | the label of the first variable | the label of the second |

Clauses are kept apart and small, since formulas have millions of them and searches wait for memory more than for
arithmetic. Their one word holds the number of literals that hold, and below `ONE_LITERAL` the exclusive or of their
names, which is the name of the only one. The name of a literal is the variable state in which it fails.

C clauses of c literals; N other factors, e edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.factor_rows import FactorRows, row_sums
from equifactor.graph.kinds import KINDS, kind_class
from equifactor.kernels.pointers import place_in_row, ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph

SPARSE, PARITY, CLAUSE, COUNT, NOISY_OR, POTTS, LINEAR = range(1, len(KINDS))
ONE_LITERAL = 1 << 40  # A literal more in the word of a clause; names of literals are smaller.
_UNITS = 2.0**61  # The words of a noisy-or stay below this.
_KEY_BITS = 62  # Configurations of so many bits have mixed radix numbers as keys; those of more have random ones.


class KindMoves(NamedTuple):
    """What the kernels know of the factors that are no tables; memory is linear in the edges.

    The words of `MoveState.at` are those of tables, then one of each clause, then two of each other factor.
    """

    clause_ptr: IntArray  # [V+1] The clauses around variable i are clauses[clause_ptr[i]:clause_ptr[i+1]].
    clauses: np.ndarray  # [c] int32. Twice the clause, and 1 more where its literal holds in state 0.
    literal_ptr: IntArray  # [C+1] The literals of clause p are literals[literal_ptr[p]:literal_ptr[p+1]].
    literals: np.ndarray  # [c] int32. Their names.
    clause_values: FloatArray  # [C] The log values of violating them, zeros as penalties.
    first_clause: int  # The place of the first word of clauses.
    own_ptr: IntArray  # [V+1] The other factors around variable i are the slots own[own_ptr[i]:own_ptr[i+1]].
    own: IntArray  # [e, 4] Factor, turn, and the weights in both words; a turn of 2 or more is 2 + its first label.
    member_ptr: IntArray  # [N+1] The variables of factor p are members[member_ptr[p]:member_ptr[p+1]].
    members: IntArray  # [e, 3] Variable, turn and slot.
    factors: IntArray  # [N+1, 3] Kind, first value, first key.
    base: IntArray  # [N, 2] The words before any state is added.
    values: FloatArray  # The log values of all factors, zeros as penalties.
    keys: IntArray  # The keys of all listed configurations, in increasing order within a factor.
    labels: IntArray  # The labels of Potts and truncated linear factors.
    zero_below: FloatArray  # [N] A value below this is a zero.
    first_word: int  # The place of the first word of these factors.
    var_of_state: np.ndarray  # [X] int32


@dataclass
class _Rows:
    """The factors of one kind as slots and words."""

    factors: FactorRows
    turn: IntArray  # [e]
    weight: IntArray  # [e, 2]
    base: IntArray  # [N, 2]
    values: FloatArray  # Those of factor n are values[value_ptr[n]:value_ptr[n+1]], -inf for a zero.
    value_ptr: IntArray  # [N+1]
    low: FloatArray  # [N] No value above zero is lower.
    high: FloatArray  # [N] No value is higher.
    can_vanish: bool  # Some factor may be zero.
    keys: IntArray | None = None  # one per value but the first of each factor


class StructuredMoves:
    """The factors of a compiled graph that are no tables, before the penalty of a zero is known.

    Attributes:
        low: [N] a bound on the values above zero of each factor, from below.
        high: [N] a bound on all of its values, from above.
        can_vanish: whether some factor may be zero.
    """

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        self._flat = flat
        self._parts: list[_Rows] = []
        self._labels: list[IntArray] = []
        num_labels = 0
        for group in flat.structured:
            rows = FactorRows(
                np.full(group.num_factors, group.kind),
                group.edge_ptr, flat.var_of_edge[group.edges],
                group.value_ptr, flat.log_phi[group.entries],
                group.word_ptr, group.words, group.card,
            )  # fmt: skip
            part = _PARTS[group.kind](rows)
            if group.kind in (POTTS, LINEAR):
                part.turn = part.turn + num_labels
                self._labels.append(group.words)
                num_labels += len(group.words)
            self._parts.append(part)
        self.low = np.concatenate([part.low for part in self._parts])
        self.high = np.concatenate([part.high for part in self._parts])
        self.can_vanish = any(part.can_vanish for part in self._parts)

    def finish(self, penalty: float, first_word: int) -> KindMoves:
        """The arrays, with `low - penalty` for a zero; words begin at `first_word`."""
        flat, num_vars = self._flat, self._flat.num_vars
        clauses = [part for part in self._parts if part.factors.kind[0] == CLAUSE]
        parts = [part for part in self._parts if part.factors.kind[0] != CLAUSE]
        num_clauses = sum(part.factors.num_factors for part in clauses)

        clause_var, clause_turn = _join([p.factors.scope_vars for p in clauses]), _join([p.turn for p in clauses])
        literal_ptr = ptr_of(_join([p.factors.arity for p in clauses]))
        violated = _join([p.values for p in clauses], float)
        around = np.argsort(clause_var, kind="stable")

        kind, variable = _join([p.factors.kind for p in parts]), _join([p.factors.scope_vars for p in parts])
        turn, weight = _join([p.turn for p in parts]), _join([p.weight for p in parts]).reshape(-1, 2)
        sizes, low = _join([np.diff(p.value_ptr) for p in parts]), _join([p.low for p in parts], float)
        values = _join([p.values for p in parts], float)
        member_ptr = ptr_of(_join([p.factors.arity for p in parts]))
        order = np.argsort(variable, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return KindMoves(
            clause_ptr=ptr_of(np.bincount(clause_var, minlength=num_vars)),
            clauses=(2 * row_of(literal_ptr) + clause_turn)[around].astype(np.int32),
            literal_ptr=literal_ptr,
            literals=(flat.var_ptr[clause_var] + clause_turn).astype(np.int32),
            clause_values=np.where(np.isneginf(violated), -penalty, violated),
            first_clause=first_word,
            own_ptr=ptr_of(np.bincount(variable, minlength=num_vars)),
            own=np.ascontiguousarray(np.column_stack((row_of(member_ptr), turn, weight))[order]),
            member_ptr=member_ptr,
            members=np.ascontiguousarray(np.column_stack((variable, turn, place))),
            factors=np.column_stack(
                (np.append(kind, 0), ptr_of(sizes), ptr_of(np.where(kind == SPARSE, sizes - 1, 0)))
            ),
            base=_join([p.base for p in parts]).reshape(-1, 2),
            values=np.where(np.isneginf(values), np.repeat(low, sizes) - penalty, values),
            keys=_join([p.keys for p in parts if p.keys is not None]),
            labels=_join(self._labels),
            zero_below=low - penalty / 2,
            first_word=first_word + num_clauses,
            var_of_state=flat.var_of_state.astype(np.int32),
        )


def _join(blocks: list[np.ndarray], dtype: type = np.int64) -> np.ndarray:
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype)


def _counted(rows: FactorRows, sign: IntArray, low: FloatArray, high: FloatArray) -> _Rows:
    """Factors whose first word counts the variables in the state `sign` [e]."""
    weight = np.zeros((len(sign), 2), np.int64)
    weight[:, 0] = 1
    base = np.zeros((rows.num_factors, 2), np.int64)
    zero = bool(np.isneginf(rows.log_values).any())
    return _Rows(rows, 1 - sign, weight, base, rows.log_values, rows.value_ptr, low, high, zero)


def _bounds(rows: FactorRows) -> tuple[FloatArray, FloatArray]:
    """[N] the lowest value above zero and the highest value of each factor, 0 where it has none."""
    starts = rows.value_ptr[:-1]
    low = np.minimum.reduceat(np.where(np.isneginf(rows.log_values), np.inf, rows.log_values), starts)
    high = np.maximum.reduceat(rows.log_values, starts)
    return np.where(np.isinf(low), 0.0, low), np.where(np.isinf(high), 0.0, high)


def _parities(rows: FactorRows) -> _Rows:
    return _counted(rows, np.ones(len(rows.card), np.int64), *_bounds(rows))


def _clauses(rows: FactorRows) -> _Rows:
    violated = np.where(np.isneginf(rows.log_values), 0.0, rows.log_values)
    return _counted(rows, rows.words, np.minimum(violated, 0.0), np.maximum(violated, 0.0))


def _counts(rows: FactorRows) -> _Rows:
    return _counted(rows, rows.words, *_bounds(rows))


def _noisy_ors(rows: FactorRows) -> _Rows:
    """Logs of probabilities as whole numbers of a unit, so that sums of them come back exactly.

    The unit makes the sum of all of them about 2^61: no word overflows, and rounding is that of floating point.
    """
    from equifactor.factors.noisy_or import ON, causes_of_edges

    sign, is_effect, inhibitor = causes_of_edges(rows)
    leak, known = rows.log_values[rows.value_ptr[:-1]], rows.words[rows.word_ptr[:-1]]
    certain_cause, certain_leak = np.isneginf(inhibitor), np.isneginf(leak)
    inhibitor, finite_leak = np.where(certain_cause, 0.0, inhibitor), np.where(certain_leak, 0.0, leak)
    total = -(finite_leak + rows.sum_of_edges(inhibitor))
    unit = np.where(total > 0.0, total, 1.0) / _UNITS

    def in_units(logs: FloatArray, unit: FloatArray) -> IntArray:
        whole = np.rint(logs / unit).astype(np.int64)
        return np.where(logs < 0.0, np.minimum(whole, -1), 0)

    weight = np.zeros((len(sign), 2), np.int64)
    weight[:, 0] = in_units(inhibitor, unit[rows.row_of_edge])
    weight[:, 1] = np.where(is_effect, 1, 2 * certain_cause)
    base = np.stack((in_units(finite_leak, unit), 2 * certain_leak + (known == ON)), axis=1)
    values = np.stack((unit, np.full(len(unit), -np.inf)), axis=1).ravel()
    count = rows.num_factors
    low = -kind_class(NOISY_OR).log_ranges(rows)
    return _Rows(rows, 1 - sign, weight, base, values, 2 * np.arange(count + 1), low, np.zeros(count), True)


def _sparse(rows: FactorRows) -> _Rows:
    """Configurations by keys: mixed radix numbers where they fit, else sums of random numbers modulo 2^64."""
    weight = np.zeros((len(rows.card), 2), np.int64)
    fits = (rows.sum_of_edges(np.log2(rows.card)) < _KEY_BITS) & (rows.arity <= _KEY_BITS)
    random = np.random.default_rng(0).integers(-(2**63), 2**63, len(rows.card), np.int64)
    weight[:, 0] = np.where(fits[rows.row_of_edge], _strides(rows, fits), random)

    owner = np.repeat(np.arange(rows.num_factors), np.diff(rows.value_ptr) - 1)  # the factor of each configuration
    word_ptr = ptr_of(rows.arity[owner])
    edge = np.repeat(rows.scope_ptr[owner], np.diff(word_ptr)) + place_in_row(word_ptr)
    keys = row_sums(weight[edge, 0] * rows.words, word_ptr)
    order = np.lexsort((keys, owner))
    is_head = np.zeros(len(rows.log_values), bool)
    is_head[rows.value_ptr[:-1]] = True
    values = rows.log_values.copy()
    values[~is_head] = rows.log_values[~is_head][order]
    low, high = _bounds(rows)
    turn, base = np.zeros(len(rows.card), np.int64), np.zeros((rows.num_factors, 2), np.int64)
    zero = bool(np.isneginf(values).any())
    return _Rows(rows, turn, weight, base, values, rows.value_ptr, low, high, zero, keys[order])


def _strides(rows: FactorRows, fits: BoolArray) -> IntArray:
    """[e] the product of the cardinalities of the later edges of the same factor, for the factors that fit [N]."""
    strides = np.ones(len(rows.card), np.int64)
    from_end = np.repeat(rows.scope_ptr[1:], rows.arity) - 1 - np.arange(len(rows.card))
    from_end[~fits[rows.row_of_edge]] = 0
    for n in range(1, int(from_end.max(initial=0)) + 1):
        edge = np.flatnonzero(from_end == n)
        strides[edge] = strides[edge + 1] * rows.card[edge + 1]
    return strides


def _labelled(rows: FactorRows) -> _Rows:
    """The words are the labels; the turn points to them."""
    count = rows.num_factors
    turn = 2 + ptr_of(rows.card)[:-1]
    weight = np.tile(np.eye(2, dtype=np.int64), (count, 1))
    base = np.zeros((count, 2), np.int64)
    low, high = _bounds(rows)
    zero = bool(np.isneginf(rows.log_values).any())
    return _Rows(rows, turn, weight, base, rows.log_values, rows.value_ptr, low, high, zero)


def _linear(rows: FactorRows) -> _Rows:
    """Where there is no limit, the largest distance gives one: the factor is never zero."""
    part = _labelled(rows)
    part.low, part.high = -kind_class(LINEAR).log_ranges(rows), np.zeros(rows.num_factors)
    part.values = np.stack((rows.log_values[::2], np.maximum(rows.log_values[1::2], part.low)), axis=1).ravel()
    part.can_vanish = False
    return part


_PARTS = {
    SPARSE: _sparse, PARITY: _parities, CLAUSE: _clauses, COUNT: _counts, NOISY_OR: _noisy_ors,
    POTTS: _labelled, LINEAR: _linear,
}  # fmt: skip
