"""The parameters that gradient methods learn: one number per table entry, shared by tied tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.kernels.pointers import row_of
from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.table_codes import table_codes, table_counts

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.learning.fitting.fit_method import FitContext


class LearnedParameters:
    """The log values of a graph that are parameters. Structured factors and the factors in `fixed` are not learned."""

    def __init__(self, graph: FactorGraph, context: FitContext) -> None:
        s = graph.structure
        self.graph = graph
        learned = s.is_table.copy()
        learned[list(context.fixed)] = False
        if not learned.any():
            raise OptionError("There is nothing to learn: every factor is fixed or a structured factor.")
        self.factors: IntArray = np.flatnonzero(learned)
        parameter = np.where(learned[row_of(s.table_ptr)], np.arange(s.num_entries), -1)
        for group in context.tied:
            size = int(np.diff(s.table_ptr)[group[0]])
            for a in group[1:]:
                parameter[s.table_ptr[a] : s.table_ptr[a] + size] = parameter[s.table_ptr[group[0]] :][:size]
        used, compact = np.unique(parameter[parameter >= 0], return_inverse=True)
        self.entries: IntArray = np.flatnonzero(parameter >= 0)  # [t] the table entries that are learned
        self.parameter: IntArray = compact.ravel()  # [t] the parameter of each learned entry
        self.size = len(used)  # P

    def log_phi(self, theta: FloatArray) -> FloatArray:
        """Return all log values [T] of the graph for parameters [P]."""
        values = self.graph.log_phi.copy()
        values[self.entries] = theta[self.parameter]
        return values

    def with_tables(self, theta: FloatArray) -> FactorGraph:
        """Return the graph for parameters [P]."""
        return FactorGraph.trusted(self.graph.structure, self.log_phi(theta), None, self.graph.name)

    def gathered(self, values: FloatArray) -> FloatArray:
        """Return the sums [P] of numbers [T] over all entries that share a parameter."""
        return np.bincount(self.parameter, values[self.entries], self.size).astype(float)

    def start(self, start: str) -> FloatArray:
        """Return zeros [P], or the log tables of the structure with a finite number in place of `-inf`."""
        if start == "uniform":
            return np.zeros(self.size)
        theta = np.zeros(self.size)
        theta[self.parameter] = np.maximum(self.graph.log_phi[self.entries], -_LARGE)
        return theta

    def codes(self, states: IntArray) -> list[IntArray]:
        """Return for each learned factor the entries [N], counted over all T, of complete rows [N, V]."""
        s = self.graph.structure
        rows = DataRows(states, np.ones(len(states)))
        return [s.table_ptr[a] + code for a, code, _ in table_codes(s, self.factors, rows)]

    def counts(self, states: IntArray, weights: FloatArray) -> FloatArray:
        """Return how often [P] each parameter occurs in complete rows [N, V] with weights [N]."""
        return self.gathered(table_counts(self.graph.structure, self.factors, DataRows(states, weights)))

    @cached_property
    def others(self) -> FactorGraph | None:
        """A graph of the factors that are not learned; None if all are learned."""
        rest = np.setdiff1d(np.arange(self.graph.num_factors), self.factors)
        if not len(rest):
            return None
        s = self.graph.structure
        factors: list[tuple[Any, Any]] = [
            (s.scope(a).tolist(), self.graph.log_table(a) if s.is_table[a] else self.graph.factor(a))
            for a in rest.tolist()
        ]
        return FactorGraph(s.card.tolist(), factors, log=True)


# A zero in the tables of the structure starts at exp(-30), so that parameters are finite. Chosen by hand.
_LARGE = 30.0


def given_variables(graph: FactorGraph, given: str) -> IntArray:
    """Return the variables named in a text such as `A, B`, which a conditional model is given."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    has_names = graph.structure.variable_names is not None
    wanted = [graph.variable(name if has_names or not name.isdecimal() else int(name)) for name in names]
    if len(set(wanted)) == graph.num_vars:
        raise OptionError(
            "The setting given names all variables, so that no variable is left to explain. Leave out at least one."
        )
    return np.unique(np.array(wanted, np.int64))


def refuse_gaps(graph: FactorGraph, data: DataRows, method: str) -> None:
    """Raise `ModelError` if a row has a missing value."""
    if not data.is_complete:
        row, variable = (int(k) for k in np.argwhere(data.is_missing)[0])
        raise ModelError(
            f"The method {method} needs complete data, but row {row} has no value of "
            f"{graph.structure.variable_name(variable)}. Use the method likelihood for data with missing values."
        )
