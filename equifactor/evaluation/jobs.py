"""The runs of an evaluation: every instance with every solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError, brief
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation.contents import content_of
from equifactor.questions.solve import parse_task
from equifactor.solving.plugins import plugins_for, source_hash
from equifactor.solving.registry import parse_solver

if TYPE_CHECKING:
    from equifactor.solving.solver import Solver

MEMORY = 8.0  # GiB per process by default, the limit of the UAI competition.
# GiB that a process needs before it reads a model. Measured: with 0.2 GiB, NumPy and torch end the process on import.
_LEAST_MEMORY = 0.3
# A run may exceed its time limit by this share of the limit and these seconds before it counts as an overrun. Chosen
# by hand.
_SLACK_SHARE, _SLACK_SECONDS = 0.1, 1.0


@dataclass(frozen=True)
class Job:
    """One instance for one solver and task under limits of time and memory.

    A job holds everything that a worker needs, on any machine. It does not hold the right answer: scores are computed
    later.
    """

    instance: Instance
    solver: str  # the text form of the solver, with its options in their order
    task: Task
    time_limit: float | None
    seed: int = 0
    files: str = ""  # hashes of the files and the code of the solver: changed weights or code make another solver
    memory_limit: float = MEMORY  # in GiB; 0 means no limit
    content: str = ""  # `content_of` the instance; empty if the row of the job is not saved
    plugins: tuple[str, ...] = ()  # what the worker must load first if the solver is not part of this package

    def key(self, code: str) -> str:
        """Return the text that identifies a finished run; `code` is the version of the code that ran it."""
        solver = f"{self.solver} {self.files}".strip()
        limits = f"{self.time_limit} s {self.memory_limit:g} GiB"
        return " | ".join((self.content, self.task, solver, limits, f"{self.seed}", code))

    def unversioned(self) -> str:
        """Return the key without the version of the code."""
        return self.key("").rpartition(" | ")[0]

    def overrun(self, seconds: float) -> float:
        """Return the seconds beyond the time limit and its slack of 10 % and one second."""
        if self.time_limit is None:
            return 0.0
        return round(max(0.0, seconds - (1 + _SLACK_SHARE) * self.time_limit - _SLACK_SECONDS), 4)

    def to_dict(self) -> dict[str, Any]:
        """Return the job as plain values, for the worker process."""
        values = asdict(self)
        values["instance"] = {k: str(v) if isinstance(v, Path) else v for k, v in values["instance"].items()}
        return {**values, "task": self.task.value}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Job:
        """Return the job that `to_dict` wrote."""
        given = dict(values["instance"])
        for name in ("path", "evidence_path", "marginals_path", "query_path"):
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
    """Return a job for every instance and solver, with the jobs of one instance together. Model files are hashed."""
    if not (memory_limit == 0 or memory_limit >= _LEAST_MEMORY):
        raise OptionError(
            f"The memory limit of a run must be 0, for no limit, or at least {_LEAST_MEMORY} GiB, which the process "
            f"itself needs; found {brief(memory_limit)}. The option memory_limit of a solver limits its tables."
        )
    wanted = parse_task(task, with_query=True)
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
    """Return hashes of what the text of a solver does not show: the files it reads, and code outside this package."""
    return " ".join(filter(None, (method.fingerprint(), source_hash(type(method)))))
