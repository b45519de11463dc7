"""Bayesian networks from complete data: relative frequencies, with Dirichlet priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.options import option
from equifactor.base.status import Status
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.fitting.conditional_tables import ConditionalTables, dot
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.learning.fitting.table_codes import table_counts

if TYPE_CHECKING:
    from equifactor.learning.fitting.data_rows import DataRows

PRIOR_HELP = "equivalent sample size, spread evenly over each table (bdeu is 1); k2: one per entry; none or 0: no prior"


@dataclass(frozen=True, kw_only=True)
class CountsFit(FitMethod):
    """Tables of relative frequencies in complete rows: `(n(x, parents) + prior) / (n(parents) + prior of the row)`.

    With independent Dirichlet priors on the rows of all tables, these are the posterior means. Without a prior, they
    are the maximum-likelihood estimates. The cost is O(N E).
    """

    name: ClassVar[str] = "counts"
    summary: ClassVar[str] = "Bayesian networks from complete data, by counting"

    prior: float | Literal["k2", "bdeu", "none"] | None = option(1.0, PRIOR_HELP, low=0.0)

    def fit(self, graph: FactorGraph, data: DataRows, context: FitContext) -> Fitted:
        """Count the table entries in the rows, and divide by the sums over each distribution."""
        if not data.is_complete:
            row, variable = (int(k) for k in np.argwhere(data.is_missing)[0])
            raise ModelError(
                f"The method counts needs complete data, but row {row} has no value of "
                f"{graph.structure.variable_name(variable)}. Use the method em for data with missing values."
            )
        cpts = ConditionalTables.of(graph, context, self.name)
        seen = table_counts(graph.structure, cpts.free, data)
        prior = cpts.prior(self.prior)
        unseen = cpts.num_unseen_rows(cpts.shared(seen))
        log_phi = cpts.log_tables(cpts.shared(seen) + prior)
        fitted = FactorGraph.trusted(graph.structure, log_phi, None, graph.name)
        return Fitted(
            graph=fitted,
            method=self.name,
            status=Status.EXACT,
            message=" ".join(filter(None, (_about_unseen(unseen), cpts.about_kept(context.fixed)))),
            log_likelihood=(dot(seen, log_phi) + _fixed_score(cpts, data)) / float(data.weights.sum()),
            validation_log_likelihood=None if context.validation is None else _score(fitted, context.validation),
        )


def _about_unseen(rows: int) -> str:
    if not rows:
        return ""
    if rows == 1:
        return "One configuration of parents does not occur in the data; its distribution is uniform."
    return f"{rows:,} configurations of parents do not occur in the data; their distributions are uniform."


def _fixed_score(cpts: ConditionalTables, data: DataRows) -> float:
    """Return the log score of all rows in the factors that are not learned."""
    graph = cpts.graph
    if len(cpts.free) == graph.num_factors:
        return 0.0
    learned = np.where(cpts.is_free, 0.0, graph.log_phi)
    scores = FactorGraph.trusted(graph.structure, learned).log_score(data.states)
    return dot(data.weights, scores)


def _score(graph: FactorGraph, data: DataRows) -> float:
    from equifactor.learning.fitting.row_likelihood import mean_log_likelihood

    return mean_log_likelihood(graph, data)
