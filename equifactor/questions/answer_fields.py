"""Fields of results that hold an answer. Where the answer is missing, reading the field explains why."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload

from equifactor.base.errors import MissingAnswerError
from equifactor.base.status import Task

T = TypeVar("T")

# The answers by their fields: what they are called, and the task that gives them.
_ANSWERS = {
    "marginals": ("marginals", Task.MAR),
    "log_z": ("ln Z", Task.PR),
    "assignment": ("assignment", Task.MAP),
    "assignments": ("assignments", Task.MAP),
    "log_score": ("log score", Task.MAP),
    "log_scores": ("log scores", Task.MAP),
}


class AnswerField(Generic[T]):
    """A field of a dataclass that raises `MissingAnswerError` when it is read and its value is None.

    `hasattr(result, "log_z")` tells whether there is a value, and `getattr(result, "log_z", None)` returns None
    without one. `dataclasses.replace` and `dataclasses.asdict` read the field as None.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> None: ...
    @overload
    def __get__(self, owner: Any, kind: type | None = None) -> T: ...
    def __get__(self, owner: Any, kind: type | None = None) -> T | None:
        if owner is None:  # The dataclass asks for the default value.
            return None
        value: T | None = vars(owner).get(self.name)
        if value is None:
            if sys._getframe(1).f_globals.get("__name__") == "dataclasses":  # `replace` and `asdict` read every field.
                return value
            raise MissingAnswerError(_reason(owner, self.name))
        return value

    def __set__(self, owner: object, value: T | None) -> None:
        vars(owner)[self.name] = value


class HasAnswers:
    """A base of dataclasses with answers and the fields `task` and `solver`."""

    @property
    def answered(self) -> bool:
        """Whether the task has an answer, of any quality."""
        own: dict[str, Any] = vars(self)
        asked = Task.MAP if own["task"] is Task.MMAP else own["task"]
        name = {Task.MMAP: "assignment"}.get(own["task"])
        return any(own.get(n) is not None for n, (_, task) in _ANSWERS.items() if task is asked and name in (None, n))

    @property
    def unanswered(self) -> str:
        """Why the task has no answer, and what to do; empty if it has one."""
        own: dict[str, Any] = vars(self)
        if self.answered:
            return ""
        return f"The status is {own['status']}: {own.get('message') or own['status'].advice}"

    def __repr__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name, None)!r}" for f in fields(self) if f.repr]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def _reason(result: Any, name: str) -> str:
    """Return the sentences that say why a result lacks an answer and how to get it."""
    label, wanted = _ANSWERS[name]
    wanted = Task.MMAP if wanted is Task.MAP and result.task is Task.MMAP else wanted
    if result.task is not wanted and not (result.task is Task.MAR and wanted is Task.PR):
        asked = "was for" if result.unanswered else "answered"
        return f'This run {asked} {result.task}, so it has no {label}. Ask for task="{wanted}".'
    if result.unanswered:
        return f"This {result.task} result has no {label}. {result.unanswered}"
    use = "another solver" if result.task is wanted else f'task="{wanted}" or another solver'
    return f"The solver {result.solver} gives no {label} with task {result.task}. Use {use}."
