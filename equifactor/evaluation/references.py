"""The right answers that scores are measured by: from files, or computed by a solver; each says which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.errors import EquifactorError
from equifactor.result import Task

if TYPE_CHECKING:
    from equifactor.data import Instance
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
