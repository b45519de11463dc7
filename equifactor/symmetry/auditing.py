"""How far the answers of a method are from following the symmetries: measured, and held against what it claims."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import OptionError
from equifactor.graph.factor_graph import as_graphs
from equifactor.registry import parse_solver
from equifactor.result import Task
from equifactor.solver import Solver, Symmetry
from equifactor.symmetry.comparable_answers import Dtype, Model, ask
from equifactor.symmetry.relabelled_graph import relabel
from equifactor.symmetry.relabelling import KINDS, Relabelling, check_kinds

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

TOLERANCE: dict[Dtype, float] = {"float64": 1e-8, "float32": 1e-3}  # of an equivariant method, rounding considered
_CONTROLS = 3  # answers to slightly different tables, to learn what rounding alone does
_LAST_BITS = 8.0  # units in the last place by which they differ at most; enough for equal values to become different


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
        """`marginals (MAR) of grid`, for people."""
        if not self.what:
            return ""
        return self.what + (f" ({self.task})" if self.task else "") + (f" of {self.graph}" if self.graph else "")


def equivariance_error(
    solver: str | Solver | Model,
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
        solver: solver or its text form, or a function of a graph that returns marginals or a number (`read_answer`).
        graph: one graph or several.
        kinds: which symmetries; each is tried alone.
        trials: random relabellings per kind, graph and task.
        seed: of the relabellings, and of the solver, which gets the same one every time.
        tasks: of a solver, all it can do by default; a function has none.
        dtype: of a solver, as for `solve`.

    Marginals are compared state by state, in probability; ln Z, the score of a MAP assignment and bounds relative to
    max(1, |value|). Assignments are compared by score, because equally good ones may be exchanged. A difference need
    not come from the method's design: ties that are broken at random and iterations that do not settle turn rounding
    into any error; `audit` and `assert_equivariant` tell the two apart.
    """
    method = _method(solver)
    worst = dict.fromkeys(check_kinds(kinds), 0.0)
    for g, task in _cases(method, graph, tasks):
        for v in measure(method, g, task, tuple(worst), trials, seed, dtype):
            worst[v.kind] = max(worst[v.kind], v.error)
    return worst


def measure(
    method: Solver | Model,
    graph: FactorGraph,
    task: Task | None,
    kinds: Sequence[Symmetry],
    trials: int,
    seed: int,
    dtype: Dtype = "float64",
) -> list[Violation]:
    """The largest difference over the trials for each kind, for one graph and task (None for a function)."""
    if not isinstance(trials, (int, np.integer)) or trials < 1:
        raise OptionError(f"an audit needs 1 trial or more, found {trials!r}")
    answer = ask(method, graph, task, seed, dtype)
    found = []
    for kind in kinds:
        worst = Violation(kind, graph=graph.name or "", task=task)
        for trial in range(trials):
            r = Relabelling.random(graph, kind, seed + trial)
            error, what = answer.relabelled(r).distance(ask(method, relabel(graph, r), task, seed, dtype))
            if error > worst.error:
                worst = dataclasses.replace(worst, error=error, what=what, trial=trial)
        found.append(worst)
    return found


def rounding_error(
    method: Solver | Model, graph: FactorGraph, task: Task | None, seed: int, dtype: Dtype = "float64"
) -> float:
    """The largest difference between the answers to the graph and to one whose log tables differ in the last bits.

    Where it is large, the answer hangs on a tie or on an iteration that does not settle, and a relabelling, which
    changes the order of sums, may change it too: the graph cannot tell whether the method respects a symmetry.
    """
    answer = ask(method, graph, task, seed, dtype)
    rng = np.random.default_rng(seed)
    size = np.where(np.isneginf(graph.log_phi), 0.0, np.maximum(1.0, np.abs(graph.log_phi)))
    last_bits = _LAST_BITS * float(np.finfo(dtype).eps) * size
    worst = 0.0
    for _ in range(_CONTROLS):
        step = rng.uniform(-1.0, 1.0, size.shape) * last_bits
        other = graph.with_potentials(graph.log_phi + step, log=True)
        worst = max(worst, answer.distance(ask(method, other, task, seed, dtype))[0])
    return worst


@dataclass(frozen=True)
class Finding:
    """One row of an audit: what is claimed and what was measured."""

    violation: Violation  # the largest that counts
    claimed: bool
    tolerance: float
    set_aside: tuple[Violation, ...] = ()  # above the tolerance where rounding alone is, too: these do not count
    cases: int = 1  # graphs and tasks that count

    @property
    def failed(self) -> bool:
        """A claim that does not hold."""
        return self.claimed and self.violation.error > self.tolerance

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.violation.error > self.tolerance:
            return "CLAIM FAILS" if self.claimed else "not claimed"
        if not self.cases:
            return "undecided"
        return "holds" if self.claimed else "holds, not claimed"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite error is null."""
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
    solver: str | Solver | Model,
    graphs: FactorGraph | Iterable[FactorGraph],
    kinds: Collection[Symmetry] | Symmetry = KINDS,
    trials: int = 3,
    seed: int = 0,
    *,
    claims: Collection[Symmetry] | Symmetry | None = None,
    tasks: Sequence[Task] | None = None,
    dtype: Dtype = "float64",
    tolerance: float | None = None,
) -> list[Finding]:
    """Hold the claims of a solver against measurement, on all graphs together; one row per symmetry.

    Args:
        solver: solver, text form or function, as for `equivariance_error`.
        graphs: one graph or several.
        kinds: which symmetries to look at.
        trials: random relabellings per kind, graph and task.
        seed: of the relabellings and of the solver.
        tasks: of a solver, all it can do by default.
        dtype: of a solver, as for `solve`.
        claims: the symmetries that should hold; by default those a solver declares, and all for a function.
        tolerance: the error up to which a claim holds, by default 1e-8 in float64 and 1e-3 in float32.

    A graph and task on which rounding alone moves the answer by more than the tolerance, before or after the
    relabelling (`rounding_error`; a tie, or an iteration that does not settle), decide nothing: the violation is set
    aside and listed as such.
    """
    method = _method(solver)
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    wanted = check_kinds(kinds)
    if claims is None:
        claims = method.symmetries if isinstance(method, Solver) else KINDS
    claimed = check_kinds(claims)
    counted: dict[Symmetry, list[Violation]] = {kind: [] for kind in wanted}
    aside: dict[Symmetry, list[Violation]] = {kind: [] for kind in wanted}
    for graph, task in _cases(method, graphs, tasks):
        for v in measure(method, graph, task, wanted, trials, seed, dtype):
            unstable = v.error > limit and any(
                rounding_error(method, g, task, seed, dtype) > limit
                for g in (graph, relabel(graph, Relabelling.random(graph, v.kind, seed + v.trial)))
            )
            (aside if unstable else counted)[v.kind].append(v)
    return [
        Finding(
            max(counted[kind], key=lambda v: v.error, default=Violation(kind)),
            kind in claimed, limit, tuple(aside[kind]), len(counted[kind]),
        )
        for kind in wanted
    ]  # fmt: skip


def _method(solver: str | Solver | Model) -> Solver | Model:
    return solver if callable(solver) and not isinstance(solver, Solver) else parse_solver(solver)


def _cases(
    method: Solver | Model, graphs: FactorGraph | Iterable[FactorGraph], tasks: Sequence[Task] | None
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
