"""Structured factors for searches that change one variable at a time: running words and their values.

A factor keeps two running sums of whole numbers, its words. A state of a variable adds `weight * h` to them, where `h`
is the state itself, flipped if its sign is negative, or its label. So a move changes each word of the factors around
the variable by one product, for any kind and arity, without rounding. The value of a factor follows from its words
alone; the `.._moves` module of each kind says what its words are.

Clauses are kept apart and small: see `clause_moves`. C clauses of c literals; N other factors, e edges.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.factors.kind_numbers import CLAUSE, SPARSE
from equifactor.factors.move_rows import MoveRows
from equifactor.graph.kind_checks import check_compiled
from equifactor.graph.kinds import kind_class
from equifactor.kernels.pointers import by_number, ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph


class KindMoves(NamedTuple):
    """What the kernels know of structured factors; memory is linear in the edges.

    The words of `MoveState.at` are those of tables, then one of each clause, then two of each other factor.
    """

    clause_ptr: IntArray  # [V+1] The clauses around variable i are clauses[clause_ptr[i]:clause_ptr[i+1]].
    clauses: np.ndarray  # [c] int32. Twice the clause, and 1 more where its literal holds in state 0.
    literal_ptr: IntArray  # [C+1] The literals of clause p are literals[literal_ptr[p]:literal_ptr[p+1]].
    literals: np.ndarray  # [c] int32. The names of the literals, see `clause_moves`.
    clause_values: FloatArray  # [C] The log value of violating each clause, zeros as penalties.
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


class StructuredMoves:
    """The structured factors of a compiled graph, before the penalty of a zero is known.

    Attributes:
        low: [N] a bound on the values above zero of each factor, from below.
        high: [N] a bound on all of its values, from above.
        can_vanish: whether some factor may be zero.
    """

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        self._flat = flat
        self._parts: list[MoveRows] = []
        self._labels: list[IntArray] = []
        num_labels = 0
        check_compiled(np.array([group.kind for group in flat.structured]))
        for group in flat.structured:
            rows = group.rows(flat.log_phi[group.entries], flat.var_of_edge[group.edges])
            module, _, name = kind_class(group.kind).moves.partition(":")
            moves: Any = getattr(importlib.import_module(module), name)
            part: MoveRows = moves(rows)
            if part.labels is not None:
                part.turn = part.turn + num_labels
                self._labels.append(part.labels)
                num_labels += len(part.labels)
            self._parts.append(part)
        self.low = np.concatenate([part.low for part in self._parts])
        self.high = np.concatenate([part.high for part in self._parts])
        self.can_vanish = any(part.can_vanish for part in self._parts)

    def finish(self, penalty: float, first_word: int) -> KindMoves:
        """Return the arrays, with `low - penalty` for a zero; words begin at `first_word`."""
        flat, num_vars = self._flat, self._flat.num_vars
        clauses = [part for part in self._parts if part.factors.kind[0] == CLAUSE]
        parts = [part for part in self._parts if part.factors.kind[0] != CLAUSE]
        num_clauses = sum(part.factors.num_factors for part in clauses)

        clause_var, clause_turn = _join([p.factors.scope_vars for p in clauses]), _join([p.turn for p in clauses])
        literal_ptr = ptr_of(_join([p.factors.arity for p in clauses]))
        violated = _join([p.values for p in clauses], float)
        around = by_number(clause_var)

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
