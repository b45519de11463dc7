"""What is to be run: every instance with every solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation.contents import content_of
from equifactor.questions.solve import parse_task
from equifactor.solving.plugins import plugins_for, source_hash
from equifactor.solving.registry import parse_solver

if TYPE_CHECKING:
    from equifactor.solving.solver import Solver

MEMORY = 8.0  # GiB per process where nothing else is said, as in the competition
_SLACK_SHARE, _SLACK_SECONDS = 0.1, 1.0  # a solver may take this much longer than its limit


@dataclass(frozen=True)
class Job:
    """One instance to be solved by one solver for one task under limits of time and memory.

    It holds all that a worker needs, wherever that is, and nothing about the right answer: scores come later.
    """

    instance: Instance
    solver: str  # the solver as text, options in their order
    task: Task
    time_limit: float | None
    seed: int = 0
    files: str = ""  # `Solver.fingerprint`: a model file trained anew is another solver, and so is changed code
    memory_limit: float = MEMORY  # GiB, 0 for no limit
    content: str = ""  # `content_of` the instance; empty in a job that is only run, never kept
    plugins: tuple[str, ...] = ()  # what the worker loads first, where the solver is not of this package

    def key(self, code: str) -> str:
        """The text under which a finished run is found again; `code` names the version that ran it."""
        solver = f"{self.solver} {self.files}".strip()
        limits = f"{self.time_limit} s {self.memory_limit:g} GiB"
        return " | ".join((self.content, self.task, solver, limits, f"{self.seed}", code))

    def unversioned(self) -> str:
        """The key without the version of the code."""
        return self.key("").rpartition(" | ")[0]

    def overrun(self, seconds: float) -> float:
        """The seconds beyond the limit and its slack of 10 % and one second."""
        if self.time_limit is None:
            return 0.0
        return round(max(0.0, seconds - (1 + _SLACK_SHARE) * self.time_limit - _SLACK_SECONDS), 4)

    def to_dict(self) -> dict[str, Any]:
        """The job as plain values, for the worker process."""
        values = asdict(self)
        values["instance"] = {k: str(v) if isinstance(v, Path) else v for k, v in values["instance"].items()}
        return {**values, "task": self.task.value}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Job:
        """The job that `to_dict` wrote."""
        given = dict(values["instance"])
        for name in ("path", "evidence_path", "marginals_path"):
            given[name] = None if given[name] is None else Path(given[name])
        typed = {"instance": Instance(**given), "task": Task(values["task"]), "plugins": tuple(values["plugins"])}
        return cls(**{**values, **typed})


def make_jobs(
    instances: Sequence[Instance],
    task: str,
    solvers: Sequence[str],
    time_limit: float | None,
    seed: int = 0,
    memory_limit: float = MEMORY,
) -> list[Job]:
    """The jobs of every instance with every solver; those of one instance are neighbours. Model files are hashed."""
    wanted = parse_task(task)
    methods = [parse_solver(s) for s in solvers]
    for method in methods:
        method.check_task(wanted)
    different = {str(m): (_files(m), plugins_for(type(m))) for m in methods}
    return [
        Job(instance, name, wanted, time_limit, seed, files, memory_limit, content, plugins)
        for instance, content in [(i, content_of(i)) for i in instances]
        for name, (files, plugins) in different.items()
    ]


def _files(method: Solver) -> str:
    """Hashes of what the text of a solver leaves open: the files it reads, and code that is not of this package."""
    return " ".join(filter(None, (method.fingerprint(), source_hash(type(method)))))
