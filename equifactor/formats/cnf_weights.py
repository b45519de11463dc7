"""Weights of literals in CNF files; they become unary factors."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from equifactor.formats.clause_rows import unary_rows
from equifactor.formats.words import shown

if TYPE_CHECKING:
    from equifactor.formats.words import Words
    from equifactor.graph.factor_rows import FactorRows

_RATIO = re.compile(r"[0-9]{1,300}/[0-9]{1,300}")


class LiteralWeights:
    """The weights in lines `c p weight LITERAL WEIGHT 0` (competition) and `w LITERAL WEIGHT` (Cachet).

    Args:
        max_variable: the largest variable a line may name.
    """

    def __init__(self, max_variable: int) -> None:
        self._max_variable = max_variable
        self._weight: dict[int, float] = {}
        self._line: dict[int, Words] = {}  # the line of each literal, for errors

    @property
    def largest(self) -> int:
        """The largest variable that has a weight, or 0 if no variable has a weight."""
        return max(map(abs, self._weight), default=0)

    def read(self, words: Words, *, cachet: bool) -> None:
        """Read one line from its word `weight` or `w` on."""
        words.word("weight or w")
        literal = words.integer("a literal with a weight", -self._max_variable, self._max_variable)
        if literal == 0:
            raise words.error("expected a literal with a weight, found '0'")
        if cachet and words.peek() in (b"-1", b"-1.0"):  # -1 means that the variable has no weights
            words.word("-1")
            weights = {literal: 1.0, -literal: 1.0}
        else:
            weights = {literal: _read_weight(words, literal)}
        if words.peek() is not None or not cachet:
            words.integer("0 after the weight", 0, 0)
        words.end()
        for x, weight in weights.items():
            if self._weight.setdefault(x, weight) != weight:
                raise words.error(f"literal {x} has two weights, {self._weight[x]:g} and {weight:g}. Keep one of them.")
            self._line[x] = words

    @property
    def one_sided(self) -> list[int]:
        """The variables with a weight for only one literal, in ascending order."""
        return sorted(abs(x) for x in self._weight if -x not in self._weight)

    def rows(self, num_vars: int) -> FactorRows:
        """Return one unary table per weighted variable. A missing weight is 1 minus the weight of the other literal."""
        variables = sorted({abs(x) for x in self._weight})
        log_weights = np.zeros((len(variables), 2))
        for n, variable in enumerate(variables):
            words = self._line[variable if variable in self._line else -variable]
            if variable > num_vars:
                raise words.error(f"expected a literal of variables 1 to {num_vars}, found {variable}")
            log_weights[n] = [_log(self._weight_of(x, words)) for x in (-variable, variable)]
        return unary_rows(np.array(variables, np.int64) - 1, log_weights)

    def _weight_of(self, literal: int, words: Words) -> float:
        if literal in self._weight:
            return self._weight[literal]
        other = self._weight[-literal]
        if other > 1:
            raise words.error(
                f"literal {literal} has no weight, and literal {-literal} has the weight {other:g}. A weight above 1 "
                f"needs a weight of the other literal: add a line for {literal}."
            )
        return 1 - other


def _read_weight(words: Words, literal: int) -> float:
    expected = f"the weight of literal {literal}"
    text = (words.peek() or b"").decode("latin-1")
    if "/" not in text:
        return words.number(expected, low=0)
    words.word(expected)
    if not _RATIO.fullmatch(text) or int(text.split("/")[1]) == 0:
        raise words.error(f"expected {expected}, found {shown(text.encode('latin-1'))}")
    above, below = map(int, text.split("/"))
    return above / below  # Python divides whole numbers with one rounding


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0 else -math.inf
