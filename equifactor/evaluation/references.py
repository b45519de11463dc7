"""The right answers that scores are measured by: from files, or computed by a solver; each says which."""

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

FILE = "file"  # the label of an answer that came with the model, and the name of that choice


@dataclass(frozen=True)
class Reference:
    """The right answer of one instance for one task."""

    label: str | None  # where it is from, or why there is none; None where nobody claims to know it
    value: Marginals | float | None = None  # marginals for MAR, ln Z for PR, the best log-score for MAP


def has_reference(instance: Instance, task: Task) -> bool:
    """Whether a right answer came with the model, so that an error can be computed."""
    if task is Task.MAR:
        return instance.marginals_path is not None
    return (instance.log_z if task is Task.PR else instance.map_log_score) is not None


def file_reference(instance: Instance, task: Task) -> Reference:
    """The answer that came with the model."""
    if not has_reference(instance, task):
        return Reference(None)
    if task is not Task.MAR:
        value = instance.log_z if task is Task.PR else instance.map_log_score
        if isinstance(value, (int, float)) and not math.isnan(value):
            return Reference(FILE, float(value))
        return Reference(f"none: the index says {value!r}")
    try:
        return Reference(FILE, instance.marginals())
    except EquifactorError as error:
        return Reference(f"none: {error}")


def computed_reference(task: Task, row: Row) -> Reference:
    """The answer in the row of a run; a run that did not end as its method promises is no reference.

    Args:
        task: what was asked.
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
