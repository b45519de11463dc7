"""The parameters of tables that are learned by a gradient: one number per table entry, shared where tables are tied."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.kernels.pointers import row_of
from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.table_codes import table_codes, table_counts

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.learning.fitting.fit_method import FitContext


class LearnedTables:
    """Which log values of a graph are parameters. Factors that are no tables stay as they are, as those in `fixed`."""

    def __init__(self, graph: FactorGraph, context: FitContext) -> None:
        s = graph.structure
        self.graph = graph
        learned = s.is_table.copy()
        learned[list(context.fixed)] = False
        if not learned.any():
            raise OptionError("there is nothing to learn: all factors are fixed, or none is a table")
        self.factors: IntArray = np.flatnonzero(learned)
        parameter = np.where(learned[row_of(s.table_ptr)], np.arange(s.num_entries), -1)
        for group in context.tied:
            size = int(np.diff(s.table_ptr)[group[0]])
            for a in group[1:]:
                parameter[s.table_ptr[a] : s.table_ptr[a] + size] = parameter[s.table_ptr[group[0]] :][:size]
        used, compact = np.unique(parameter[parameter >= 0], return_inverse=True)
        self.entries: IntArray = np.flatnonzero(parameter >= 0)  # [t] the entries that are learned
        self.parameter: IntArray = compact.ravel()  # [t] the parameter of each
        self.size = len(used)  # P

    def log_phi(self, theta: FloatArray) -> FloatArray:
        """[T] all log values of the graph for parameters [P]."""
        values = self.graph.log_phi.copy()
        values[self.entries] = theta[self.parameter]
        return values

    def with_tables(self, theta: FloatArray) -> FactorGraph:
        """The graph for parameters [P]."""
        return FactorGraph.trusted(self.graph.structure, self.log_phi(theta), None, self.graph.name)

    def gathered(self, values: FloatArray) -> FloatArray:
        """[P] the sums of numbers [T] over all entries that share a parameter."""
        return np.bincount(self.parameter, values[self.entries], self.size).astype(float)

    def start(self, start: str) -> FloatArray:
        """[P] zeros, or the tables that the structure came with, where zeros must stay above -inf."""
        if start == "uniform":
            return np.zeros(self.size)
        theta = np.zeros(self.size)
        theta[self.parameter] = np.maximum(self.graph.log_phi[self.entries], -_LARGE)
        return theta

    def codes(self, states: IntArray) -> list[IntArray]:
        """The entry [N], among all T, that complete rows [N, V] name in each of the learned factors."""
        s = self.graph.structure
        rows = DataTable(states, np.ones(len(states)))
        return [s.table_ptr[a] + code for a, code, _ in table_codes(s, self.factors, rows)]

    def counts(self, states: IntArray, weights: FloatArray) -> FloatArray:
        """[P] how often complete rows [N, V], with weights [N], name each parameter."""
        return self.gathered(table_counts(self.graph.structure, self.factors, DataTable(states, weights)))

    @cached_property
    def others(self) -> FactorGraph | None:
        """The factors that stay as they are, as a graph; None where there are none."""
        rest = np.setdiff1d(np.arange(self.graph.num_factors), self.factors)
        if not len(rest):
            return None
        s = self.graph.structure
        factors: list[tuple[Any, Any]] = [
            (s.scope(a).tolist(), self.graph.log_table(a) if s.is_table[a] else self.graph.factor(a))
            for a in rest.tolist()
        ]
        return FactorGraph(s.card.tolist(), factors, log=True)


_LARGE = 30.0  # exp(-30) stands for a zero of the structure's tables as a start: parameters stay finite


def given_variables(graph: FactorGraph, given: str) -> IntArray:
    """The variables in `A, B`: what a conditional model is given."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    has_names = graph.structure.variable_names is not None
    wanted = [graph.variable(name if has_names or not name.isdecimal() else int(name)) for name in names]
    if len(set(wanted)) == graph.num_vars:
        raise OptionError("given names all variables, and none is left to be explained")
    return np.unique(np.array(wanted, np.int64))


def refuse_gaps(graph: FactorGraph, table: DataTable, method: str) -> None:
    """Refuse rows with missing values."""
    if not table.is_complete:
        row, variable = (int(k) for k in np.argwhere(table.is_missing)[0])
        raise ModelError(
            f"the method {method} needs complete data, and row {row} has no value of "
            f"{graph.structure.variable_name(variable)}; the method likelihood takes missing values"
        )
