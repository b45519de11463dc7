"""Which finding supports what: the posterior without each finding, and the conflict between findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.status import Status
from equifactor.graph.factor_graph import as_graph
from equifactor.graph.reading.observations import is_mapping
from equifactor.questions.asking import worst
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.frames import DataFrame
    from equifactor.solving.solver import Solver

_TITLES = ["finding", "without it", "change", "alone", "conflict"]


class FindingEffect(NamedTuple):
    """What one finding contributes."""

    variable: Any  # as in the evidence
    value: Any  # the state, or the weights of soft evidence
    without: float  # p(target = state) given all other findings
    change: float  # how much the finding adds to the probability
    alone: float  # p(target = state) given this finding alone
    conflict: float  # ln p(finding) p(others) / p(all): above 0 if the others make the finding less likely


@dataclass(frozen=True, eq=False, repr=False)
class Findings(Sequence[FindingEffect]):
    """The findings of one set of evidence, the one with the largest influence on p(target = state) first."""

    target: int | str
    state: int | str
    probability: float  # p(target = state) given all findings
    prior: float  # p(target = state) without findings
    conflict: float  # ln prod p(finding) / p(all): above 0 if the findings contradict each other
    status: Status
    rows: tuple[FindingEffect, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, n: Any) -> Any:
        return self.rows[n]

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row per finding."""
        from equifactor.questions.frames import data_frame

        return data_frame({name: [getattr(row, name) for row in self.rows] for name in FindingEffect._fields})

    def __repr__(self) -> str:
        return f"Findings(p({self.target} = {self.state}), {len(self)} findings, {self.status})"

    def __str__(self) -> str:
        return f"{self._heading()}\n{aligned([_TITLES, *self._cells()], right=[1, 2, 3, 4], rule=True)}"

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import rows_table

        return rows_table(self._heading(), _TITLES, self._cells(), count=len(self), right=[1, 2, 3, 4])

    def _heading(self) -> str:
        return (
            f"p({self.target} = {self.state}) = {self.probability:.6f}, {self.prior:.6f} without findings; "
            f"conflict {self.conflict:+.3f} ({self.status})"
        )

    def _cells(self) -> Iterator[list[str]]:
        for row in self.rows:
            value = row.value if isinstance(row.value, str) else brief(row.value)
            numbers = shown(row.without), f"{row.change:+.6f}", shown(row.alone), f"{row.conflict:+.3f}"
            yield [f"{row.variable} = {value}", *numbers]


def findings(
    graph: FactorGraph,
    target: Variable,
    state: int | str | None = None,
    *,
    evidence: Mapping[Any, Any],
    solver: str | Solver = "auto",
) -> Findings:
    """Return what each finding contributes to the posterior of a target: a table with one finding left out at a time.

    All sets of evidence are answered in one batch.

    Args:
        graph: the model.
        target: a variable that is not observed.
        state: the state whose probability is meant; by default the most probable one given all findings.
        evidence: a mapping from variable to state or weights; each of its items is one finding.
        solver: any solver for marginals. Conflicts are exact if its answers are.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"flu": ["no", "yes"], "fever": ["no", "yes"], "cough": ["no", "yes"]}, [
        ...     (["flu"], [0.9, 0.1]),
        ...     (["flu", "fever"], [[0.95, 0.05], [0.2, 0.8]]),
        ...     (["flu", "cough"], [[0.7, 0.3], [0.4, 0.6]]),
        ... ])
        >>> found = ef.findings(graph, "flu", "yes", evidence={"fever": "yes", "cough": "yes"})
        >>> found[0].variable, round(found[0].change, 3)
        ('fever', 0.599)
    """
    from equifactor.questions.solve import solve

    if not is_mapping(evidence) or not len(evidence):
        raise ModelError(f"findings needs evidence: a mapping from variable to state, found {brief(evidence)}.")
    t, items = as_graph(graph).variable(target), list(evidence.items())
    if t in [graph.variable(name) for name, _ in items]:
        raise ModelError(f"Variable {graph.structure.variable_name(t)} is a finding itself. Choose another target.")
    without = [dict(items[:n] + items[n + 1 :]) for n in range(len(items))]
    sets: list[dict[Any, Any]] = [dict(items), {}, *without, *({name: value} for name, value in items)]
    many = solve(graph, "MAR", solver, evidence=sets, targets=[t])
    log_z, p = many.log_z, many.marginals[t]
    if not np.isfinite(log_z[0]):
        possible = [str(name) for (name, _), z in zip(items, log_z[2:], strict=False) if np.isfinite(z)]
        more = f" Leave out one of these to make them possible: {', '.join(possible)}." if possible else ""
        raise SolveError(f"The findings together have probability zero.{more}")
    x = int(p[0].argmax()) if state is None else graph.state(t, state)
    count = len(items)
    rest, single = slice(2, 2 + count), slice(2 + count, 2 + 2 * count)
    conflicts = log_z[single] + log_z[rest] - log_z[0] - log_z[1]
    rows = [
        FindingEffect(
            name, value, float(p[2 + n][x]), float(p[0][x] - p[2 + n][x]), float(p[2 + count + n][x]), float(c)
        )
        for n, ((name, value), c) in enumerate(zip(items, conflicts, strict=True))
    ]
    rows.sort(key=lambda row: -abs(row.change))
    s = graph.structure
    return Findings(
        s.variable_names[t] if s.variable_names else t, s.states_of(t)[x], float(p[0][x]), float(p[1][x]),
        float(log_z[single].sum() - log_z[0] - (count - 1) * log_z[1]), worst(many.statuses), tuple(rows),
    )  # fmt: skip
