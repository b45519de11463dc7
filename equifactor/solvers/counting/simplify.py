"""Smaller formulas with the same weighted count: units, equal variables, shorter clauses, defined variables.

Clauses are sets of literals as in `formula.py`. Everything is found by looking clauses up in a set, so that the cost is
near linear for clauses of a few literals.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.counting.formula import LitClause, WeightedFormula

if TYPE_CHECKING:
    from collections.abc import Iterable

    from equifactor.base.clock import Clock

_MOST_ROUNDS = 20  # Rounds of all simplifications; most formulas need three.
_SHORT = 7  # Clauses of at most this many literals are compared with all their subsets.
_MOST_CLAUSES = 24  # Clauses of a variable that may be eliminated.
_MOST_LITERALS = 12  # Literals of a clause that elimination may make.


def simplified(formula: WeightedFormula, clock: Clock, *, eliminate: bool) -> WeightedFormula:
    """Return an equal formula that is smaller, with variables renumbered.

    Args:
        formula: the formula.
        clock: if it stops, simplification ends early.
        eliminate: whether variables that the others define may be left out. Their marginals are then not available.
    """
    work = _Simplifier(formula, clock)
    for _ in range(_MOST_ROUNDS):
        before = work.clauses
        work.propagate()
        work.join_equal()
        work.shorten()
        if eliminate and not clock.stopped:
            work.eliminate_defined()
        if clock.stopped or frozenset() in work.clauses or work.clauses == before:
            break
    return work.result()


class _Simplifier:
    """A formula while it is simplified."""

    def __init__(self, formula: WeightedFormula, clock: Clock) -> None:
        self.formula = formula
        self.clock = clock
        self.clauses = set(formula.clauses)
        self.weights = formula.log_weights.tolist()
        self.constant = formula.constant
        self.same = list(range(2 * formula.num_vars))  # the literal that takes the place of each literal
        self.calls = 0
        self.gone: set[int] = set()  # variables that were eliminated

    def propagate(self) -> None:
        """Remove true clauses and false literals; the units themselves stay."""
        known = {x for clause in self.clauses if len(clause) == 1 for x in clause}
        while True:
            changed: set[LitClause] = set()
            for clause in self.clauses:
                if known.isdisjoint(clause) or len(clause) == 1:
                    rest = frozenset(x for x in clause if x ^ 1 not in known)
                    changed.add(rest)
            units = {x for clause in changed if len(clause) == 1 for x in clause} | known
            self.clauses = changed | {frozenset((x,)) for x in units}
            if len(units) == len(known):
                return
            known = units

    def join_equal(self) -> None:
        """Replace a variable by another one or its negation if two clauses state that they are equal."""
        found: dict[int, int] = {}
        for clause in self.clauses:
            if len(clause) == 2 and frozenset(x ^ 1 for x in clause) in self.clauses:
                kept, lost = sorted(clause)  # kept or lost, and not both: lost = not kept
                if kept >> 1 != lost >> 1 and kept >> 1 not in found and lost >> 1 not in found:
                    found[lost >> 1] = kept ^ 1 ^ (lost & 1)
                    found[kept >> 1] = -1  # this round leaves it alone
        found = {v: x for v, x in found.items() if x >= 0}
        if not found:
            return
        for v, x in found.items():
            for k in (0, 1):
                self.weights[x ^ k] += self.weights[2 * v + k]
                self.same[2 * v + k] = x ^ k
        clauses = (frozenset(found[x >> 1] ^ (x & 1) if x >> 1 in found else x for x in c) for c in self.clauses)
        self.clauses = {clause for clause in clauses if not _is_true(clause)}

    def shorten(self) -> None:
        """Remove clauses that contain another one, and literals that resolution with a smaller clause removes."""
        fresh: Iterable[LitClause] = list(self.clauses)
        size = max(map(len, self.clauses), default=0)
        while fresh:
            new: set[LitClause] = set()
            for clause in fresh:
                if clause not in self.clauses:
                    continue
                if self._late():
                    return
                shorter = self._shortened(clause, size)
                if shorter is None or shorter != clause:
                    self.clauses.discard(clause)
                if shorter is not None and shorter != clause:
                    self.clauses.add(shorter)
                    new.add(shorter)
            # A shorter clause may shorten others: those that share all its variables but one are found next round.
            fresh = new

    def _shortened(self, clause: LitClause, longest: int) -> LitClause | None:
        """Return the clause without superfluous literals, or None if another clause implies it."""
        literals = sorted(clause)
        while True:
            most = len(literals) - 1 if len(literals) <= _SHORT else 2
            for count in range(1, most + 1):
                if any(frozenset(part) in self.clauses for part in combinations(literals, count)):
                    return None
            for x in literals:
                rest = [y for y in literals if y != x]
                parts = (part for n in range(min(most, len(rest)) + 1) for part in combinations(rest, n))
                if any(frozenset((*part, x ^ 1)) in self.clauses for part in parts):
                    literals = rest
                    break
            else:
                return frozenset(literals)
            if frozenset(literals) in self.clauses:
                return None

    def eliminate_defined(self) -> None:
        """Eliminate variables with equal weights of both literals whose value the other variables decide."""
        around: defaultdict[int, set[LitClause]] = defaultdict(set)
        for clause in self.clauses:
            for x in clause:
                around[x].add(clause)
        variables = [v for v in {x >> 1 for x in around} if self.weights[2 * v] == self.weights[2 * v + 1]]
        for v in sorted(variables, key=lambda v: (len(around[2 * v]) * len(around[2 * v + 1]), v)):
            if self._late():
                return
            yes, no = around[2 * v], around[2 * v + 1]
            if not yes or not no or len(yes) + len(no) > _MOST_CLAUSES:
                continue
            made = _resolvents(yes, no, v, len(yes) + len(no))
            if made is None or not _decided([c - {2 * v, 2 * v + 1} for c in yes | no]):
                continue
            for clause in [*yes, *no]:
                for x in clause:
                    around[x].discard(clause)
                self.clauses.discard(clause)
            for clause in made:
                self.clauses.add(clause)
                for x in clause:
                    around[x].add(clause)
            self.gone.add(v)
            self.constant += self.weights[2 * v]

    def _late(self) -> bool:
        """Return whether the clock has stopped; it is read at every 64th call."""
        self.calls += 1
        return self.calls % 64 == 0 and self.clock.stopped

    def result(self) -> WeightedFormula:
        """Return the formula, with the variables that are left numbered again."""
        n = self.formula.num_vars
        same = np.array(self.same, np.int64)
        while not np.array_equal(same, same[same]):
            same = same[same]
        left = same[::2] >> 1 == np.arange(n)
        left[list(self.gone)] = False
        new = np.cumsum(left) - 1
        literals = 2 * new[same >> 1] + (same & 1)
        clauses = sorted(sorted(int(literals[x]) for x in clause) for clause in self.clauses)
        return replace(
            self.formula,
            num_vars=int(left.sum()),
            clauses=[*map(frozenset, clauses)],
            log_weights=np.array(self.weights)[np.repeat(left, 2)],
            constant=self.constant,
            state_literal=literals[self.formula.state_literal],
            is_value=self.formula.is_value[left],
        )


def _is_true(clause: LitClause) -> bool:
    return any(x ^ 1 in clause for x in clause)


def _resolvents(yes: set[LitClause], no: set[LitClause], v: int, most: int) -> list[LitClause] | None:
    """Return what the clauses say without variable v; None if that takes more than `most` clauses, or long ones."""
    made: set[LitClause] = set()
    for a in yes:
        for b in no:
            clause = (a - {2 * v}) | (b - {2 * v + 1})
            if _is_true(clause):
                continue
            if len(clause) > _MOST_LITERALS:
                return None
            made.add(clause)
            if len(made) > most:
                return None
    return [*made]


def _decided(parts: list[LitClause]) -> bool:
    """Return whether these clauses, the rests of all clauses of a variable, have no solution.

    Then the other variables always make one of its clauses a unit, and decide the variable. Only unit propagation and
    one level of case distinctions are tried.
    """
    if _refuted(parts, ()):
        return True
    literals = {x for part in parts for x in part}
    return any(_refuted(parts, (x,)) and _refuted(parts, (x ^ 1,)) for x in sorted(literals) if x & 1 == 0)


def _refuted(parts: list[LitClause], given: Iterable[int]) -> bool:
    """Return whether unit propagation from some literals ends in a contradiction."""
    true = set(given)
    while True:
        found = False
        for part in parts:
            if not true.isdisjoint(part):
                continue
            rest = [x for x in part if x ^ 1 not in true]
            if not rest:
                return True
            if len(rest) == 1:
                true.add(rest[0])
                found = True
        if not found:
            return False
