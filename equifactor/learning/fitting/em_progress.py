"""The state of a run of EM, which can be written to a file and continued from it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.fit_checkpoint import FitCheckpoint

_TABLES = ("log_phi", "leader", "best")


@dataclass
class EmProgress:
    """The state of a run. Each start is tried for a few iterations. The best start then continues."""

    start: int = 0  # The number of the present start.
    is_final: bool = False  # Whether the starts have been compared.
    iteration: int = 0  # The number of iterations that led to the present tables.
    objective: float = -math.inf  # The objective of the tables one iteration ago.
    log_phi: FloatArray | None = None  # [T] the present log tables; None before a start
    leader: FloatArray | None = None  # [T] the log tables with which the best start so far would continue
    leader_objective: float = -math.inf
    leader_iteration: int = 0
    best: FloatArray | None = None  # [T] the best log tables so far, by validation if there are validation rows
    best_objective: float = -math.inf
    best_log_likelihood: float | None = None  # per row
    best_validation: float | None = None  # per row
    stale: int = 0  # The number of iterations since the best tables.
    done: bool = False
    message: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)

    def save(self, checkpoint: FitCheckpoint) -> None:
        """Write the state to the file."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _TABLES}
        tables = {name: getattr(self, name) for name in _TABLES if getattr(self, name) is not None}
        checkpoint.save(values, tables)

    @classmethod
    def load(cls, checkpoint: FitCheckpoint | None) -> EmProgress:
        """Read the state from the file; return the initial state if the file does not exist."""
        found = checkpoint.load() if checkpoint is not None else None
        if found is None:
            return cls()
        values, tables = found
        return cls(**{**values, **tables})

    def end_start(self) -> None:
        """End a start. Its tables become the leader if its objective is the highest so far."""
        if self.objective > self.leader_objective:
            self.leader, self.leader_objective = self.log_phi, self.objective
            self.leader_iteration = self.iteration
        self.start += 1
        self.log_phi, self.objective, self.iteration = None, -math.inf, 0

    def go_on(self) -> None:
        """Continue with the leader until the end of the run."""
        self.is_final = True
        self.log_phi, self.objective, self.iteration = self.leader, self.leader_objective, self.leader_iteration
        self.stale = 0
