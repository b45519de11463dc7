"""From what a solver returns to what a user gets: scores, messages, and no NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status, Task
from equifactor.graph.marginals import Marginals
from equifactor.graph.scores import batch_log_scores
from equifactor.questions.result import Result

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.solving.estimate import Estimate

ASKED = {
    Task.MAR: "marginals",
    Task.PR: "ln Z",
    Task.MAP: "the most probable assignment",
    Task.MMAP: "the most probable states of the query variables",
}
_NO_ANSWER = {
    Status.TIME_LIMIT: "Time ran out before the solver found {}. Raise the time limit or use another solver.",
    Status.INTERRUPTED: "The run was interrupted before the solver found {}.",
}
_NO_ERROR = "The error of ln Z is not known. Use auto for an error, or mini-buckets for bounds."
_COMPILING_TO_MENTION = 1.0  # Seconds of compiling kernels from which a message reports them. Chosen by hand.
_NO_SUPPORT = "The assignment has probability zero. No possible assignment was found, and there may not be one."


def results_of(estimates: Sequence[Estimate], graphs: list[FactorGraph], *, task: Task, **common: Any) -> list[Result]:
    """Return a result for each estimate, with its graph, its score and the fields that all of them share."""
    found = (
        []
        if task is Task.MMAP
        else [(g, e.assignment) for g, e in zip(graphs, estimates, strict=True) if e.assignment is not None]
    )
    scores = iter(batch_log_scores(*zip(*found, strict=True)) if found else ())
    results = []
    for estimate, graph in zip(estimates, graphs, strict=True):
        fields = {**vars(estimate), **common, "graph": graph, "task": task}
        for name in (
            ("marginals", "standard_errors", "marginal_errors") if graph.structure.variable_names is not None else ()
        ):
            if fields.get(name) is not None:
                fields[name] = Marginals(fields[name].values, fields[name].ptr, graph.structure)
        if estimate.assignment is not None and task is not Task.MMAP:
            score = fields["log_score"] = next(scores)
            if task is Task.MAP and score == -math.inf:
                fields["message"] = f"{estimate.message} {_NO_SUPPORT}".strip()
                if estimate.status.solved:  # The method has ended, and has not found what it promises.
                    fields["status"] = Status.ITERATION_LIMIT
            elif task is Task.MAP and estimate.lower_bound is None:
                fields["lower_bound"] = score  # any assignment bounds the best one from below
        result = Result.of(fields)
        if not result.answered and not result.message and result.status in _NO_ANSWER:
            result = Result.of({**fields, "message": _NO_ANSWER[result.status].format(ASKED[task])})
        elif result.unjudged:
            result = Result.of({**fields, "message": f"{result.message or result.status.advice} {_NO_ERROR}"})
        results.append(result)
    return results


def with_compile_time(estimate: Estimate, clock: Clock) -> Estimate:
    """Return the estimate with the seconds of compiling kernels."""
    stats = {**estimate.stats, "compile_seconds": round(clock.compiling, 3)}
    if clock.time_limit is None or clock.compiling < _COMPILING_TO_MENTION:
        return replace(estimate, stats=stats)
    message = f"{clock.compiling:.0f} s went into compiling kernels, which are cached for later runs."
    return replace(estimate, stats=stats, message=f"{estimate.message} {message}".strip())


def without_nan(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Replace NaN by None and set the status to `non-finite`; all marginals of a batch are checked at once."""
    found = [e.marginals.values for e in estimates if e.marginals is not None]
    all_finite = not found or math.isfinite(np.concatenate(found).sum())
    checked = []
    for estimate in estimates:
        bad: dict[str, Any] = {}
        for name in ("log_z", "lower_bound", "upper_bound"):
            value = getattr(estimate, name)
            if value != value:  # Only NaN differs from itself.
                bad[name] = None
        if not (all_finite or estimate.marginals is None or math.isfinite(estimate.marginals.values.sum())):
            bad["marginals"] = None
        checked.append(replace(estimate, **bad, status=Status.NON_FINITE) if bad else estimate)
    return checked
