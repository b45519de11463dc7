"""Weighted constraint satisfaction problems in the format of toulbar2 (`.wcsp`).

    example 2 3 2 100     name, number of variables, largest domain, number of cost functions, top
    2 3                   domain sizes
    2 0 1 5 2             a cost function: arity, variables, default cost, number of tuples
    0 2 1                 a tuple of states and its cost
    1 0 100               a cost of top or more forbids the tuple
    0 7 0                 a constant

Costs are whole numbers whose sum is minimised, so log phi = -cost / scale. The scale is 1 unless the name of the
problem sets it: `write_wcsp` ends the name with `:scale=S`. It adds `:constant=C` if it moved positive log potentials
out of the tables, since costs must not be negative. To other programs both are parts of the name.
A function whose list of tuples is shorter than its table becomes a `SparseTable`.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.files import label, read_bytes, split_name
from equifactor.base.number_text import count_text
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.formats.dense_tables import DenseTables, ListedValues
from equifactor.formats.wcsp_writer import check_scale, write_wcsp
from equifactor.formats.words import Words, first_repeated, shown

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

__all__ = ["read_wcsp", "write_wcsp"]

_NAME = re.compile(r".*:scale=([0-9.e+-]+)(?::constant=([0-9.e+-]+))?")


def read_wcsp(path: PathLike, *, scale: float | None = None) -> FactorGraph:
    """Read a toulbar2 problem whose cost functions are lists of tuples.

    Args:
        path: the file.
        scale: log phi = -cost / scale; None takes the scale from the name of the problem, or 1.

    Raises `FormatError`, also for cost functions given by a keyword (`salldiff`, `knapsack`, ...).
    Time and memory are linear in the size of the file and of the dense tables.
    """
    check_scale(scale)
    where = label(path)
    data = read_bytes(path)
    reader = _WcspReader(Words(data, where), where, len(data))
    return reader.read(scale, name=split_name(path)[0])


class _WcspReader:
    """A reader that takes the words of a file in one pass."""

    def __init__(self, words: Words, where: str, num_bytes: int) -> None:
        self.words = words
        self.tables = DenseTables(where, num_bytes)
        self.max_states = most_numbers(num_bytes)
        self.card: list[int] = []
        self.top = 0
        self.shared: list[ListedValues] = []  # functions that later functions may reuse

    def read(self, scale: float | None, name: str | None) -> FactorGraph:
        words = self.words
        name_scale, constant = self._name()
        scale = scale or name_scale
        num_vars = words.integer("the number of variables", 0)
        max_card = words.integer("the largest domain size", 0)
        num_functions = words.integer("the number of cost functions", 0)
        self.top = words.integer("the cost of forbidden tuples (top)", 1)
        words.require(num_vars + 3 * num_functions, "words or more for the domains and cost functions")
        self.card = [words.integer(f"the domain size of variable {i}", 1, max_card) for i in range(num_vars)]
        if sum(self.card) > self.max_states:
            raise words.error(f"all domains together have {count_text(sum(self.card))} states. {limit_text()}")
        for a in range(num_functions):
            self._function(a, scale)
        words.end()
        if constant:
            self.tables.add(words, [], [], constant)
        return self.tables.graph(self.card, log=True, name=name)

    def _name(self) -> tuple[float, float]:
        """Read the name of the problem; return the scale and the constant that `write_wcsp` put into it."""
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
        words.require(arity + 2, f"words or more for cost function {a}")
        expected = f"a variable of cost function {a}"
        scope = [words.integer(expected, 0, len(self.card) - 1) for _ in range(arity)]
        if (twice := first_repeated(scope)) is not None:
            raise words.error(f"cost function {a} names variable {twice} more than once. Its variables must differ.")
        default = words.integer(f"the default cost of cost function {a}")
        next_word = words.peek() or b"0"
        if default == -1 and not next_word.lstrip(b"+-").isdigit():
            raise words.error(
                f"expected cost function {a} as a list of tuples, found the keyword {shown(next_word)}. "
                "Cost functions given by a keyword are not supported."
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
        words.require(num_tuples * (len(shape) + 1), f"words for the tuples of cost function {a}")
        costs: dict[int, float] = {}  # by the index in the flat table, a Python integer of any size
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
                raise words.error(f"cost function {a} lists the tuple {tuple(row)} twice, with different costs.")
        listed = np.array(states, np.int64).reshape(len(costs), len(shape))
        return ListedValues(shape, default, listed, list(costs), np.array(list(costs.values())))

    def _reuse(self, a: int, shape: tuple[int, ...], number: int) -> ListedValues:
        """Return the tuples of an earlier function, which a negative arity marked as shared."""
        if number > len(self.shared):
            raise self.words.error(
                f"expected the number of tuples of cost function {a}, or the negative number of a shared function "
                f"before it (there are {len(self.shared)}), found {-number}"
            )
        listed = self.shared[number - 1]
        if listed.shape != shape:
            raise self.words.error(
                f"cost function {a} reuses shared function {number}, whose variables have {listed.shape} states. "
                f"Its own variables have {shape} states."
            )
        return listed
