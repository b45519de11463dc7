"""How far the answers of a method are from following the symmetries: measured, and held against what it claims."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.progress import bar
from equifactor.base.status import Task
from equifactor.graph.factor_graph import as_graphs
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import Progress, Solver, Symmetry
from equifactor.symmetry.comparable_answers import Dtype, GraphFunction, ask
from equifactor.symmetry.relabelled_graph import relabel
from equifactor.symmetry.relabelling import KINDS, Relabelling, check_kinds

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

TOLERANCE: dict[Dtype, float] = {"float64": 1e-8, "float32": 1e-3}  # above all rounding errors of an equivariant method
_CONTROLS = 3  # number of answers to slightly different tables that show what rounding alone does
_LAST_BITS = 8.0  # the most by which those tables differ, in units in the last place: enough to part equal values


@dataclass(frozen=True)
class Trials:
    """How a method is tried: the number of relabellings, the seed and the number type.

    Args:
        count: number of random relabellings per kind of symmetry, graph and task.
        seed: the seed of the relabellings, and of the solver, which gets the same one every time.
        dtype: the number type of a solver that runs in torch.
    """

    count: int = 3
    seed: int = 0
    dtype: Dtype = "float64"

    def __post_init__(self) -> None:
        if not isinstance(self.count, (int, np.integer)) or self.count < 1:
            raise OptionError(f"an audit needs 1 trial or more, found {self.count!r}")


DEFAULT_TRIALS = Trials()


@dataclass(frozen=True)
class Violation:
    """The largest difference found for one kind of symmetry, and where."""

    kind: Symmetry
    error: float = 0.0
    what: str = ""  # which answer differs most: marginals, ln Z, log score, a bound
    task: Task | None = None
    graph: str = ""
    trial: int = 0  # `Relabelling.random(graph, kind, seed + trial)` shows it

    @property
    def where(self) -> str:
        """What differs and on which graph, such as `marginals (MAR) of grid`."""
        if not self.what:
            return ""
        return self.what + (f" ({self.task})" if self.task else "") + (f" of {self.graph}" if self.graph else "")


def equivariance_error(
    solver: str | Solver | GraphFunction,
    graph: FactorGraph | Iterable[FactorGraph],
    kinds: Collection[Symmetry] | Symmetry = KINDS,
    trials: int = 3,
    seed: int = 0,
    *,
    tasks: Sequence[Task] | None = None,
    dtype: Dtype = "float64",
) -> dict[Symmetry, float]:
    """The largest difference, per kind of symmetry, between "relabel, then solve" and "solve, then relabel".

    Args:
        solver: a solver or its text form, or a function of a graph that returns marginals or a number (`read_answer`).
        graph: one graph or several.
        kinds: the symmetries to look at; each is tried alone.
        trials: number of random relabellings per kind, graph and task.
        seed: the seed of the relabellings, and of the solver, which gets the same one every time.
        tasks: what a solver is asked for, by default everything it can do; a function has no tasks.
        dtype: the number type of a solver that runs in torch, as for `solve`.

    Marginals are compared state by state, in probability; ln Z, the score of a MAP assignment and bounds relative to
    max(1, |value|). Assignments are compared by score, because equally good ones may be exchanged. A difference need
    not come from the method's design: ties that are broken at random and iterations that do not settle turn rounding
    into any error; `audit` and `assert_equivariant` tell the two apart.
    """
    method = _method(solver)
    setup = Trials(trials, seed, dtype)
    worst = dict.fromkeys(check_kinds(kinds), 0.0)
    for g, task in _cases(method, graph, tasks):
        for v in violations(method, g, task, tuple(worst), setup):
            worst[v.kind] = max(worst[v.kind], v.error)
    return worst


def violations(
    method: Solver | GraphFunction, graph: FactorGraph, task: Task | None, kinds: Sequence[Symmetry], trials: Trials
) -> list[Violation]:
    """The largest difference over the trials for each kind, for one graph and task (None for a function)."""
    answer = ask(method, graph, task, trials.seed, trials.dtype)
    found = []
    for kind in kinds:
        worst = Violation(kind, graph=_described(method, graph), task=task)
        for trial in range(trials.count):
            r = Relabelling.random(graph, kind, trials.seed + trial)
            other = ask(method, relabel(graph, r), task, trials.seed, trials.dtype)
            error, what = answer.relabelled(r).distance(other)
            if error > worst.error:
                worst = dataclasses.replace(worst, error=error, what=what, trial=trial)
        found.append(worst)
    return found


def _described(method: Solver | GraphFunction, graph: FactorGraph) -> str:
    """The name of the graph, and whether the solver sees it through auxiliary variables.

    These stand in a chain along a scope, so that a method of finitely many steps may break "local variable" by them.
    """
    name = graph.name or ""
    if graph.structure.kinds is None or not isinstance(method, Solver) or method.any_kind:
        return name
    return f"{name or 'a graph'} lowered to tables"


def rounding_error(method: Solver | GraphFunction, graph: FactorGraph, task: Task | None, trials: Trials) -> float:
    """The largest difference between the answers to the graph and to one whose log tables differ in the last bits.

    Where it is large, the answer hangs on a tie or on an iteration that does not settle, and a relabelling, which
    changes the order of sums, may change it too: the graph cannot tell whether the method respects a symmetry.
    """
    answer = ask(method, graph, task, trials.seed, trials.dtype)
    rng = np.random.default_rng(trials.seed)
    size = np.where(np.isneginf(graph.log_phi), 0.0, np.maximum(1.0, np.abs(graph.log_phi)))
    last_bits = _LAST_BITS * float(np.finfo(trials.dtype).eps) * size
    worst = 0.0
    for _ in range(_CONTROLS):
        log_phi = graph.log_phi + rng.uniform(-1.0, 1.0, size.shape) * last_bits
        if graph.structure.kinds is not None:  # some have logs of probabilities and minus costs, never above 0
            log_phi = np.where(graph.log_phi <= 0.0, np.minimum(log_phi, 0.0), log_phi)
        other = graph.with_potentials(log_phi, log=True)
        worst = max(worst, answer.distance(ask(method, other, task, trials.seed, trials.dtype))[0])
    return worst


@dataclass(frozen=True)
class Finding:
    """One row of an audit: what is claimed and what was measured."""

    violation: Violation  # the largest one that counts
    claimed: bool
    tolerance: float
    set_aside: tuple[Violation, ...] = ()  # they do not count, because rounding alone is above the tolerance there
    cases: int = 1  # number of pairs of a graph and a task that count

    @property
    def failed(self) -> bool:
        """Whether this is a claim that does not hold."""
        return self.claimed and self.violation.error > self.tolerance

    @property
    def verdict(self) -> str:
        """What was found, in a few words."""
        if self.violation.error > self.tolerance:
            return "CLAIM FAILS" if self.claimed else "not claimed"
        if not self.cases:
            return "undecided"
        return "holds" if self.claimed else "holds, not claimed"

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values for JSON; an infinite error is None."""
        v = self.violation
        return {
            "symmetry": v.kind,
            "claimed": self.claimed,
            "error": v.error if np.isfinite(v.error) else None,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "failed": self.failed,
            "where": v.where or None,
            "cases": self.cases,
            "set_aside": [s.where for s in self.set_aside],
        }


def audit(
    solver: str | Solver | GraphFunction,
    graphs: FactorGraph | Iterable[FactorGraph],
    kinds: Collection[Symmetry] | Symmetry = KINDS,
    *,
    trials: Trials = DEFAULT_TRIALS,
    claims: Collection[Symmetry] | Symmetry | None = None,
    tasks: Sequence[Task] | None = None,
    tolerance: float | None = None,
    progress: Progress | bool = False,
) -> list[Finding]:
    """Hold the claims of a solver against measurement, on all graphs together; one row per symmetry.

    Args:
        solver: a solver, its text form or a function, as for `equivariance_error`.
        graphs: one graph or several.
        kinds: the symmetries to look at.
        trials: the number of relabellings, their seed, and the number type of the solver.
        claims: the symmetries that should hold; by default those that a solver declares, and all for a function.
        tasks: what a solver is asked for, by default everything it can do.
        tolerance: the error up to which a claim holds, by default 1e-8 in float64 and 1e-3 in float32.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    A graph and task on which rounding alone moves the answer by more than the tolerance, before or after the
    relabelling (`rounding_error`; a tie, or an iteration that does not settle), decide nothing: the violation is set
    aside and listed as such.
    """
    method = _method(solver)
    limit = TOLERANCE[trials.dtype] if tolerance is None else tolerance
    wanted = check_kinds(kinds)
    if claims is None:
        claims = method.symmetries if isinstance(method, Solver) else KINDS
    claimed = check_kinds(claims)
    counted: dict[Symmetry, list[Violation]] = {kind: [] for kind in wanted}
    aside: dict[Symmetry, list[Violation]] = {kind: [] for kind in wanted}
    cases = list(_cases(method, graphs, tasks))
    with bar(progress, "auditing") as report:
        for n, (graph, task) in enumerate(cases):
            for v in violations(method, graph, task, wanted, trials):
                unstable = v.error > limit and any(
                    rounding_error(method, g, task, trials) > limit
                    for g in (graph, relabel(graph, Relabelling.random(graph, v.kind, trials.seed + v.trial)))
                )
                (aside if unstable else counted)[v.kind].append(v)
            if report is not None:
                report(n + 1, len(cases), "")
    return [
        Finding(
            max(counted[kind], key=lambda v: v.error, default=Violation(kind)),
            kind in claimed, limit, tuple(aside[kind]), len(counted[kind]),
        )
        for kind in wanted
    ]  # fmt: skip


def _method(solver: str | Solver | GraphFunction) -> Solver | GraphFunction:
    return solver if callable(solver) and not isinstance(solver, Solver) else parse_solver(solver)


def _cases(
    method: Solver | GraphFunction, graphs: FactorGraph | Iterable[FactorGraph], tasks: Sequence[Task] | None
) -> Iterator[tuple[FactorGraph, Task | None]]:
    """Every graph with every task; a function has the task None."""
    asked: Sequence[Task | None] = [None]
    if isinstance(method, Solver):
        asked = method.possible_tasks() if tasks is None else tasks
        for task in tasks or ():
            method.check_task(task)
    elif tasks is not None:
        raise OptionError("tasks are for solvers; a function of a graph answers what it answers")
    return itertools.product(as_graphs(graphs), asked)
