"""Measured violations of the symmetries by the answers of a method, compared with the claims of the method."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import OptionError, brief
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.base.status import Task
from equifactor.graph.factor_graph import as_graphs
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import Progress, Solver, Symmetry
from equifactor.symmetry.comparable_answers import Dtype, GraphFunction, ask
from equifactor.symmetry.relabelled_graph import relabel
from equifactor.symmetry.relabelling import KINDS, Relabelling, check_kinds

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

# The largest error of a claim that holds, by number type. It exceeds the rounding errors of equivariant methods. Chosen
# by hand.
TOLERANCE: dict[Dtype, float] = {"float64": 1e-8, "float32": 1e-3}
# The default for solvers with messages in double precision and hidden vectors in single precision. Chosen by hand.
MIXED_TOLERANCE = 1e-5
_CONTROLS = 3  # The number of answers to slightly changed tables that show the effect of rounding. Chosen by hand.
# The largest change of a table entry that shows the effect of rounding, in units in the last place. It is enough to
# separate equal values. Chosen by hand.
_LAST_BITS = 8.0


@dataclass(frozen=True)
class Trials:
    """The settings of an audit: the number of relabellings, the seed and the number type.

    Args:
        count: number of random relabellings per kind of symmetry, graph and task.
        seed: the seed of the relabellings, and of the solver, which gets the same seed every time.
        dtype: the number type of a solver that runs in torch.
    """

    count: int = 3
    seed: int = 0
    dtype: Dtype = "float64"

    def __post_init__(self) -> None:
        if not isinstance(self.count, (int, np.integer)) or self.count < 1:
            raise OptionError(f"trials must be a whole number of at least 1, found {self.count!r}.")


DEFAULT_TRIALS = Trials()


@dataclass(frozen=True)
class Violation:
    """The largest difference found for one kind of symmetry, and the answer, task and graph that show it."""

    kind: Symmetry
    error: float = 0.0
    what: str = ""  # The answer that differs most: marginals, ln Z, log score, a bound.
    task: Task | None = None
    graph: str = ""
    trial: int = 0  # `Relabelling.random(graph, kind, seed + trial)` shows the difference.

    @property
    def where(self) -> str:
        """The answer that differs, with its task and graph, such as `marginals (MAR) of grid`."""
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
    """Return the largest difference, per kind of symmetry, between "relabel, then solve" and "solve, then relabel".

    Args:
        solver: a solver or its text form, or a function of a graph that returns marginals or a number (`read_answer`).
        graph: one graph or several.
        kinds: the symmetries to measure; each is tried alone.
        trials: number of random relabellings per kind, graph and task.
        seed: the seed of the relabellings, and of the solver, which gets the same seed every time.
        tasks: the tasks of a solver, by default all tasks it can do; a function has no tasks.
        dtype: the number type of a solver that runs in torch, as for `solve`.

    Marginals are compared state by state, in probability. For ln Z, the score of a MAP assignment and bounds, the
    difference is relative to max(1, |value|). Assignments are compared by score, because a method may return any of
    several best assignments. A difference may have other reasons than the design of the method. If ties are broken at
    random, or iterations do not settle, rounding alone can change answers. `audit` and `assert_equivariant` detect
    this.
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
    """Return the largest difference over the trials for each kind, for one graph and task (None for a function)."""
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
    """Return the name of the graph. Add a remark if the solver sees the graph lowered to tables.

    Auxiliary variables form a chain along a scope, so a method of finitely many steps may violate "local variable".
    """
    name = graph.name or ""
    if not isinstance(method, Solver) or method.takes_kinds_of(graph):
        return name
    return f"{name or 'a graph'} lowered to tables"


def rounding_error(method: Solver | GraphFunction, graph: FactorGraph, task: Task | None, trials: Trials) -> float:
    """Return the largest difference between the answers for the graph and for log tables changed in the last bits.

    If the difference is large, the answer depends on a tie or on an iteration that does not settle. A relabelling
    changes the order of sums and may then change the answer too. So the graph cannot show whether the method respects a
    symmetry.
    """
    answer = ask(method, graph, task, trials.seed, trials.dtype)
    rng = np.random.default_rng(trials.seed)
    size = np.where(np.isneginf(graph.log_phi), 0.0, np.maximum(1.0, np.abs(graph.log_phi)))
    last_bits = _LAST_BITS * float(np.finfo(trials.dtype).eps) * size
    worst = 0.0
    for _ in range(_CONTROLS):
        log_phi = graph.log_phi + rng.uniform(-1.0, 1.0, size.shape) * last_bits
        if graph.structure.kinds is not None:  # Log probabilities and negative costs must not become positive.
            log_phi = np.where(graph.log_phi <= 0.0, np.minimum(log_phi, 0.0), log_phi)
        other = graph.with_potentials(log_phi, log=True)
        worst = max(worst, answer.distance(ask(method, other, task, trials.seed, trials.dtype))[0])
    return worst


@dataclass(frozen=True)
class Finding:
    """One row of an audit: the claim and the measurement for one symmetry."""

    violation: Violation  # The largest violation that counts.
    claimed: bool
    tolerance: float
    set_aside: tuple[Violation, ...] = ()  # Violations that do not count, because rounding alone can explain them.
    cases: int = 1  # The number of pairs of a graph and a task that count.

    @property
    def failed(self) -> bool:
        """Whether the symmetry is claimed and does not hold."""
        return self.claimed and self.violation.error > self.tolerance

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if self.violation.error > self.tolerance:
            return "CLAIM FAILS" if self.claimed else "not claimed"
        if not self.cases:
            return "undecided"
        return "holds" if self.claimed else "holds, not claimed"

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values for JSON; an infinite error is None."""
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


@checks_types("tolerance")
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
    """Compare the claims of a solver with measurements on all graphs; return one row per symmetry.

    Args:
        solver: a solver, its text form or a function, as for `equivariance_error`.
        graphs: one graph or several.
        kinds: the symmetries to measure.
        trials: the number of relabellings, their seed, and the number type of the solver.
        claims: the symmetries that should hold; by default the symmetries that a solver declares, and all for a
            function.
        tasks: the tasks of a solver, by default all tasks it can do.
        tolerance: the error up to which a claim holds, by default 1e-8 in float64, 1e-3 in float32, and
            1e-5 for the networks that run in NumPy.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Because of a tie, or of an iteration that does not settle, rounding alone may move an answer by more than the
    tolerance, before or after the relabelling (`rounding_error`). A violation on such a graph and task does not count.
    It is listed under `set_aside`.
    """
    check_run(None, 0, progress)
    if not isinstance(trials, Trials):
        raise OptionError(f"trials must be a Trials, such as Trials(10), found {brief(trials)}.")
    method = _method(solver)
    limit = tolerance
    if limit is None:
        mixed = bool(getattr(method, "native_class", "")) and trials.dtype == "float64"
        limit = MIXED_TOLERANCE if mixed else TOLERANCE[trials.dtype]
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
    """Return every pair of a graph and a task; a function has the task None."""
    asked: Sequence[Task | None] = [None]
    if isinstance(method, Solver):
        asked = method.possible_tasks() if tasks is None else tasks
        if tasks is not None and (isinstance(tasks, str) or not isinstance(tasks, Sequence)):
            raise OptionError(f"tasks must be a list of tasks, found {brief(tasks)}.")
        for task in tasks or ():
            method.check_task(task)
    elif tasks is not None:
        raise OptionError("tasks can be given for a solver only; found a function. Leave out tasks.")
    return itertools.product(as_graphs(graphs), asked)
