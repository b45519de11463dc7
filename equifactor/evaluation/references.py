"""The right answers for scores, from files or computed by a solver; each has a label with its origin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.base.errors import EquifactorError
from equifactor.base.status import Status, Task
from equifactor.evaluation.kept_marginals import unpack

if TYPE_CHECKING:
    from equifactor.data import Instance
    from equifactor.evaluation.row_store import Row
    from equifactor.graph.marginals import Marginals

FILE = "file"  # The label of an answer that came with the model, and the value of `reference` that asks for it.


@dataclass(frozen=True)
class Reference:
    """The right answer of one instance for one task."""

    label: str | None  # its origin, or why it is missing; None if the model came without an answer
    value: Marginals | float | None = None  # marginals for MAR, ln Z for PR, the best log-score for MAP and MMAP
    trivial: float | None = None  # for MMAP, the log-score of the trivial answer; None for the greedy one


def has_reference(instance: Instance, task: Task) -> bool:
    """Return whether a right answer came with the model, so that an error can be computed."""
    if task is Task.MAR:
        return instance.marginals_path is not None
    return _value(instance, task) is not None


def _value(instance: Instance, task: Task) -> object:
    if task is Task.MMAP:
        return instance.mmap_log_score
    return instance.log_z if task is Task.PR else instance.map_log_score


def file_reference(instance: Instance, task: Task) -> Reference:
    """Return the answer that came with the model."""
    if not has_reference(instance, task):
        return Reference(None)
    if task is not Task.MAR:
        value = _value(instance, task)
        if isinstance(value, (int, float)) and not math.isnan(value):
            return Reference(FILE, float(value), instance.mmap_trivial_log_score if task is Task.MMAP else None)
        return Reference(f"none: the index has {value!r} instead of a number")
    try:
        return Reference(FILE, instance.marginals())
    except EquifactorError as error:
        return Reference(f"none: {error}")


def computed_reference(task: Task, row: Row) -> Reference:
    """Return the answer in the row of a run; a run that was not solved does not give a reference.

    Args:
        task: the task of the run.
        row: a finished run with its answer.
    """
    solver, status = row["solver"], row["status"]
    if status not in tuple(Status) or not Status(status).solved:
        return Reference(f"none: {solver} ended {status}: {row['message']}")
    if task is Task.MAR:
        value: Marginals | float | None = unpack(row["answer"]).found
    else:
        value = row["log_z" if task is Task.PR else "log_score"]
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Reference(f"none: {solver} ended {status}, but without a finite answer")
    return Reference(f"{solver} (computed)", value)
