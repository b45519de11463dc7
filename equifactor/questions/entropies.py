"""The entropy of the distribution that a result describes: ln Z - E[log score]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status
from equifactor.factors.lowered_graph import lower
from equifactor.graph.kinds import kind_name, kinds_with
from equifactor.graph.structured_factor import small
from equifactor.questions import asking
from equifactor.questions.eliminated_tables import factor_tables
from equifactor.questions.joint import entropy_of
from equifactor.questions.result import Result

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph

Method = Literal["exact", "Bethe", "mean field"]


class Entropy(float):
    """A number of nats with the `method` that gave it and the `status` of the run."""

    method: Method
    status: Status

    def __new__(cls, nats: float, method: Method, status: Status) -> Entropy:
        """Return the number; it computes like any float."""
        new = super().__new__(cls, nats)
        new.method, new.status = method, status
        return new

    def __getnewargs__(self) -> tuple[float, Method, Status]:  # type: ignore[override]
        return float(self), self.method, self.status

    def __repr__(self) -> str:
        return f"{float(self):.6g} ({self.method})"


def entropy_of_result(result: Result) -> Entropy:
    """Return the entropy of `Result.entropy`."""
    from equifactor.solvers.messages.meanfield import MeanField

    asking.check_distribution(result, "entropy")
    if asking.is_exact(result):
        return Entropy(_exact(result), "exact", result.status)
    method = asking.asked_solver(result)
    if isinstance(method, MeanField) and hasattr(result, "marginals"):
        return Entropy(sum(map(entropy_of, result.marginals)), "mean field", result.status)
    tables = result.factor_marginals
    if not tables.is_bethe or not hasattr(result, "log_z"):
        raise SolveError(f"{method.name} gives no entropy. Solve with exact, bp, fe-nbp, fe-net or meanfield.")
    graph = result.graph
    expected = sum(_expectation(graph.log_table(a), tables[a]) for a in _open_factors(graph))
    return Entropy(result.log_z - expected, "Bethe", tables.status)


def _exact(result: Result) -> float:
    """Return the entropy from the marginals of all tables; auxiliary variables are functions of the others."""
    graph = result.graph
    _refuse_hidden_choices(graph)
    if not hasattr(result, "log_z"):
        raise SolveError(f"The entropy needs ln Z, which this result does not have. Solve with {result.solver} for PR.")
    lowered = lower(graph).graph
    tables = factor_tables(lowered, range(lowered.num_factors), asking.memory_limit_of(result))
    return max(0.0, result.log_z - sum(_expectation(lowered.log_table(a), p) for a, p in tables.items()))


def _expectation(log_table: FloatArray, p: FloatArray) -> float:
    """Return E[log f], leaving out entries of probability zero."""
    possible = p > 0
    return float(p[possible] @ log_table[possible])


def _open_factors(graph: FactorGraph) -> list[int]:
    """Return the factors that add to scores; a factor whose log values are all 0, or -inf if violated, adds nothing."""
    s = graph.structure
    if s.kinds is None:
        return list(range(s.num_factors))
    values = np.where(np.isneginf(graph.log_phi), 0.0, graph.log_phi)
    adds = np.add.reduceat(np.append(np.abs(values), 0.0), s.table_ptr[:-1]) > 0
    adds |= kinds_with("nonlinear_values", s.kinds.kind) | (np.diff(s.table_ptr) == 0)
    return np.flatnonzero(adds).tolist()


def _refuse_hidden_choices(graph: FactorGraph) -> None:
    """Raise `SolveError` for a large factor whose lowered form has random variables: these would have entropy."""
    kinds = graph.structure.kinds
    if kinds is None:
        return
    large = kinds_with("lowered_by_chance", kinds.kind) & ~small(graph.structure.rows(graph.log_phi))
    if large.any():
        a = int(np.argmax(large))
        raise SolveError(
            f"The exact entropy needs the table of factor {a}, a {kind_name(int(kinds.kind[a]))} over "
            f"{graph.structure.arity[a]} variables, which is too large. Use bp for the Bethe entropy, or observe "
            "some of its variables."
        )
