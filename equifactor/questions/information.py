"""Evidence impact: how much information each variable has about a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.run_context import check_time_limit
from equifactor.base.status import Status
from equifactor.graph.factor_graph import as_graph
from equifactor.graph.reading.inputs import as_list, variable_number
from equifactor.graph.reading.observations import is_mapping, named
from equifactor.questions import asking
from equifactor.questions.conditioned_joints import solve_given
from equifactor.questions.joint import entropy_of
from equifactor.questions.result import Result
from equifactor.show.text_tables import aligned

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.reading.inputs import Evidence, Variable
    from equifactor.questions.frames import DataFrame
    from equifactor.solving.solver import Solver

_SHOWN_ROWS = 40  # Most rows of a printed table, which has the most informative variables. Chosen by hand.
_TITLES = ["variable", "nats", "share"]


@dataclass(frozen=True, eq=False, repr=False)
class Information(Mapping[Any, float]):
    """The mutual information in nats between a target and every other variable, largest first.

    `info["rain"]` is at most `info.entropy`, the entropy of the target, and 0 for a variable that is independent of it.
    A mapping from name, or number without names, to nats. `info.expected_entropy("rain")` is the entropy of the target
    that is expected after rain has been observed.
    """

    target: int | str
    entropy: float  # entropy of the target, in nats
    nats: FloatArray  # [V] by number of the variable; the number for the target is its entropy
    variables: tuple[int | str, ...]  # [V] by name, or by number if they have no names
    status: Status  # status of the runs that gave it
    candidates: tuple[int, ...] | None = None  # the numbers of the variables that are ranked; None for all others

    def __getitem__(self, variable: Variable) -> float:
        names = {name: i for i, name in enumerate(self.variables) if isinstance(name, str)}
        return float(self.nats[variable_number(variable, names, len(self.variables))])

    def __iter__(self) -> Iterator[int | str]:
        order = np.argsort(-self.nats, kind="stable").tolist()
        chosen = range(len(self.variables)) if self.candidates is None else self.candidates
        return (self.variables[i] for i in order if i in chosen and self.variables[i] != self.target)

    def __len__(self) -> int:
        return len(self.variables) - 1 if self.candidates is None else len(self.candidates)

    @property
    def best(self) -> int | str | None:
        """The variable to observe next: the one with the most information; None if there is no candidate."""
        return next(iter(self), None)

    def expected_entropy(self, variable: Variable) -> float:
        """Return the entropy of the target, in nats, that is expected after a variable has been observed."""
        return max(0.0, self.entropy - self[variable])

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with the columns `variable` and `information`, largest first."""
        from equifactor.questions.frames import data_frame

        return data_frame({"variable": list(self), "information": [self[v] for v in self]})

    def __repr__(self) -> str:
        return f"Information(about {self.target}, {len(self)} variables, {self.status})"

    def __str__(self) -> str:
        more = len(self) - _SHOWN_ROWS
        table = aligned([_TITLES, *self._cells(_SHOWN_ROWS)], right=[1, 2], rule=True)
        return "\n".join([self._heading(), table, *([f".. and {more:,} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        return rows_table(self._heading(), _TITLES, self._cells(MOST_ROWS), count=len(self), right=[1, 2])

    def _heading(self) -> str:
        return f"about {self.target}, entropy {self.entropy:.6f} nats ({self.status})"

    def _cells(self, most: int) -> list[list[str]]:
        shares = ((v, self[v], self[v] / self.entropy if self.entropy else 0.0) for v in list(self)[:most])
        return [[str(variable), f"{nats:.6f}", f"{share:.1%}"] for variable, nats, share in shares]


def most_informative(
    graph: FactorGraph,
    target: Variable,
    candidates: Sequence[Variable] | None = None,
    *,
    evidence: Evidence | None = None,
    solver: str | Solver = "auto",
    time_limit: float = asking.TIME_LIMIT,
) -> Information:
    """Return how much each candidate would tell about a target, given the evidence so far: what to observe next.

    The solver runs once for each state of the target, in one batch.

    Args:
        graph: the model.
        target: the variable to find out about.
        candidates: the variables that could be observed; by default all that are not observed yet.
        evidence: states or weights by variable, as `FactorGraph.condition` takes them.
        solver: any solver for marginals.
        time_limit: seconds that the estimated cost may not exceed.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"flu": ["no", "yes"], "fever": ["no", "yes"]}, [
        ...     (["flu"], [0.9, 0.1]),
        ...     (["flu", "fever"], [[0.95, 0.05], [0.2, 0.8]]),
        ... ])
        >>> ef.most_informative(graph, "flu").best
        'fever'
    """
    from equifactor.questions.solve import solve

    if evidence is not None and not is_mapping(evidence):
        raise ModelError(f"most_informative takes one set of evidence, a mapping, found {brief(evidence)}.")
    result = solve(as_graph(graph), "MAR", solver, evidence=evidence)
    found = information_about(result, target, time_limit)
    t = graph.variable(target)
    if candidates is None:
        numbers = [i for i in result.graph.free_vars.tolist() if i != t]
    else:
        listed = as_list(candidates)
        if listed is None:
            raise ModelError(f"candidates must be a list of variables, found {brief(candidates)}.")
        numbers = [graph.variable(v) for v in listed]
        if t in numbers:
            raise ModelError(f"The target {graph.structure.variable_name(t)} is among the candidates. Leave it out.")
    return replace(found, candidates=tuple(dict.fromkeys(numbers)))


def information_about(result: Result, target: Variable, time_limit: float = asking.TIME_LIMIT) -> Information:
    """Return the mutual information I(T; X) = sum_t p(t) KL(p(x | t) || sum_t p(t) p(x | t)) with every variable."""
    asking.check_distribution(result, "information")
    graph = result.graph
    s = graph.structure
    t = named(s, target)
    if graph.observed is not None and graph.observed[t] >= 0:
        raise SolveError(
            f"Variable {s.variable_name(t)} is observed, so there is no information about it. Choose another target."
        )
    check_time_limit(time_limit)
    p_t = asking.marginals_of(result)[t]
    possible = np.flatnonzero(p_t > 0)
    seconds = len(possible) * result.seconds
    if seconds > time_limit:
        raise SolveError(
            f"Information about {s.variable_name(t)} takes {len(possible)} runs of {result.how.method().name}, about "
            f"{seconds:.2g} s, with a limit of {time_limit:g} s. Raise time_limit, or use a faster solver."
        )
    runs = solve_given(graph, [t], possible[:, None], result.how)
    weight = np.array([0.0 if run is None else p_t[x] for x, run in zip(possible.tolist(), runs, strict=True)])
    weight /= weight.sum()
    given = np.stack([np.zeros(s.state_ptr[-1]) if r is None else r.marginals.values for r in runs])
    mixed = weight @ given
    counts = (given > 0) & (mixed > 0)  # a product with a tiny weight may underflow
    terms = np.where(counts, given * np.log(np.where(counts, given, 1.0) / np.where(counts, mixed, 1.0)), 0.0)
    nats = np.maximum(np.add.reduceat(weight @ terms, s.state_ptr[:-1]), 0.0)
    status = asking.worst([result.status, *(run.status for run in runs if run is not None)])
    names: tuple[int | str, ...] = s.variable_names or tuple(range(s.num_vars))
    return Information(names[t], entropy_of(p_t), nats, names, status)
