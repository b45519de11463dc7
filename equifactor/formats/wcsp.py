"""Weighted constraint satisfaction problems as toulbar2 reads them (`.wcsp`).

    example 2 3 2 100     name, number of variables, largest domain, number of cost functions, top
    2 3                   domain sizes
    2 0 1 5 2             a cost function: arity, variables, default cost, number of tuples
    0 2 1                 a tuple of states and its cost
    1 0 100               a cost of top or more forbids the tuple
    0 7 0                 a constant

Costs are whole numbers to be added up and minimised, so log phi = -cost / scale. The scale is 1 unless the
name says otherwise: `write_wcsp` ends it with `:scale=S`, and `:constant=C` where positive log potentials
had to be taken out of the tables, since costs must not be negative. Other programs see a mere name.
A function whose list of tuples is shorter than its table becomes a `SparseTable`.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.files import label, read_bytes, split_name
from equifactor.formats.dense_tables import MAX_ENTRIES, DenseTables, ListedValues
from equifactor.formats.wcsp_writer import write_wcsp
from equifactor.formats.words import Words, shown

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

__all__ = ["read_wcsp", "write_wcsp"]

_NAME = re.compile(r".*:scale=([0-9.e+-]+)(?::constant=([0-9.e+-]+))?")


def read_wcsp(path: PathLike, *, scale: float | None = None) -> FactorGraph:
    """Read a toulbar2 problem with its cost functions given by tuples.

    Args:
        path: the file.
        scale: log phi = -cost / scale; None takes the scale from the problem's name, or 1.

    Cost functions given by a keyword (`salldiff`, `knapsack`, ...) raise `FormatError`, as all other faults.
    Time and memory are linear in the size of the file and the tables, of which a short list of tuples makes none.
    """
    if scale is not None and not 0 < scale < math.inf:
        raise OptionError(f"scale must be a number above 0, found {scale!r}")
    where = label(path)
    reader = _WcspReader(Words(read_bytes(path), where), where)
    return reader.read(scale, name=split_name(path)[0])


class _WcspReader:
    """Reads the words of a file in one pass."""

    def __init__(self, words: Words, where: str) -> None:
        self.words = words
        self.tables = DenseTables(where)
        self.card: list[int] = []
        self.top = 0
        self.shared: list[ListedValues] = []  # functions to reuse

    def read(self, scale: float | None, name: str | None) -> FactorGraph:
        words = self.words
        name_scale, constant = self._name()
        scale = scale or name_scale
        num_vars = words.integer("the number of variables", 0)
        max_card = words.integer("the largest domain size", 0)
        num_functions = words.integer("the number of cost functions", 0)
        self.top = words.integer("the cost of forbidden tuples (top)", 1)
        words.room(num_vars + 3 * num_functions, "words or more for the domains and cost functions")
        self.card = [words.integer(f"the domain size of variable {i}", 1, max_card) for i in range(num_vars)]
        if sum(self.card) > MAX_ENTRIES:
            raise words.error(f"expected at most {MAX_ENTRIES} states in all domains, found {sum(self.card)}")
        for a in range(num_functions):
            self._function(a, scale)
        words.end()
        if constant:
            self.tables.add(words, [], [], constant)
        return self.tables.graph(self.card, log=True, name=name)

    def _name(self) -> tuple[float, float]:
        """The scale and the constant that `write_wcsp` has put into the problem's name."""
        found = _NAME.fullmatch(self.words.word("the name of the problem"))
        if found is None:
            return 1.0, 0.0
        try:
            scale, constant = float(found[1]), float(found[2] or 0.0)
        except ValueError:
            scale = constant = math.nan
        if not (0 < scale < math.inf and abs(constant) < math.inf):
            raise self.words.error(f"expected a name that ends with :scale=NUMBER, found {shown(found[0].encode())}")
        return scale, constant

    def _function(self, a: int, scale: float) -> None:
        words = self.words
        arity = words.integer(f"the arity of cost function {a}")
        is_shared, arity = arity < 0, abs(arity)
        words.room(arity + 2, f"words or more for cost function {a}")
        expected = f"a variable of cost function {a}"
        scope = [words.integer(expected, 0, len(self.card) - 1) for _ in range(arity)]
        if len(set(scope)) < arity:
            twice = next(i for i in scope if scope.count(i) > 1)
            raise words.error(f"expected different variables in cost function {a}, found {twice} more than once")
        default = words.integer(f"the default cost of cost function {a}")
        next_word = words.peek() or b"0"
        if default == -1 and not next_word.lstrip(b"+-").isdigit():
            raise words.error(
                f"expected cost function {a} as a list of tuples, found the keyword {shown(next_word)}; "
                "cost functions given by keyword are not supported"
            )
        num_tuples = words.integer(f"the number of tuples of cost function {a}")
        shape = tuple(self.card[i] for i in scope)
        if num_tuples < 0:
            listed = self._reuse(a, shape, -num_tuples)
        else:
            listed = self._tuples(a, shape, num_tuples, self._cost(default))
        if is_shared:
            self.shared.append(listed)
        rest, logs = float(self._log(listed.default, scale)), self._log(listed.values, scale)
        self.tables.add_listed(words, scope, replace(listed, default=rest, values=logs))

    def _cost(self, cost: int) -> float:
        return math.inf if cost >= self.top else float(cost)

    @staticmethod
    def _log(costs: FloatArray | float, scale: float) -> FloatArray:
        return np.asarray(0.0 - np.divide(costs, scale))  # a cost of 0 must not give -0

    def _tuples(self, a: int, shape: tuple[int, ...], num_tuples: int, default: float) -> ListedValues:
        words = self.words
        words.room(num_tuples * (len(shape) + 1), f"words for the tuples of cost function {a}")
        costs: dict[int, float] = {}  # by the place in the table, a Python number of any size
        states = array("q")
        for _ in range(num_tuples):
            entry = 0
            row = [words.integer(f"a state in a tuple of cost function {a}", 0, d - 1) for d in shape]
            for d, x in zip(shape, row, strict=True):
                entry = entry * d + x
            cost = self._cost(words.integer(f"the cost of a tuple of cost function {a}"))
            if entry not in costs:
                states.extend(row)
            if costs.setdefault(entry, cost) != cost:
                raise words.error(f"expected each tuple of cost function {a} once, found one again with another cost")
        listed = np.array(states, np.int64).reshape(len(costs), len(shape))
        return ListedValues(shape, default, listed, list(costs), np.array(list(costs.values())))

    def _reuse(self, a: int, shape: tuple[int, ...], number: int) -> ListedValues:
        """The tuples of an earlier function that a negative arity has marked as shared."""
        if number > len(self.shared):
            raise self.words.error(
                f"expected the number of tuples of cost function {a}, or minus the number of one of the "
                f"{len(self.shared)} shared functions before it, found {-number}"
            )
        listed = self.shared[number - 1]
        if listed.shape != shape:
            raise self.words.error(
                f"expected variables with domains {listed.shape} as in shared function {number}, found {shape}"
            )
        return listed
