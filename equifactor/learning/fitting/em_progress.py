"""All that changes during a run of EM, so that it can be kept in a file and gone on from."""

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
    """Where a run stands. Starts are tried one after the other for a few iterations; then the leader goes on."""

    start: int = 0  # the start that is being tried
    is_final: bool = False  # whether the starts have been compared
    iteration: int = 0  # how many iterations the present tables have behind them
    objective: float = -math.inf  # of the tables one iteration ago
    log_phi: FloatArray | None = None  # [T] the tables to look at next; None before a start
    leader: FloatArray | None = None  # [T] the tables with which the best start would go on
    leader_objective: float = -math.inf
    leader_iteration: int = 0
    best: FloatArray | None = None  # [T] the best tables so far, by validation where there is one
    best_objective: float = -math.inf
    best_log_likelihood: float | None = None  # per row
    best_validation: float | None = None  # per row
    stale: int = 0  # iterations since the best tables
    done: bool = False
    message: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)

    def save(self, checkpoint: FitCheckpoint) -> None:
        """Keep it in the file."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _TABLES}
        tables = {name: getattr(self, name) for name in _TABLES if getattr(self, name) is not None}
        checkpoint.save(values, tables)

    @classmethod
    def load(cls, checkpoint: FitCheckpoint | None) -> EmProgress:
        """What the file holds, or the beginning where there is none."""
        found = checkpoint.load() if checkpoint is not None else None
        if found is None:
            return cls()
        values, tables = found
        return cls(**{**values, **tables})

    def end_start(self) -> None:
        """Leave a start: its tables lead where its objective is the highest so far."""
        if self.objective > self.leader_objective:
            self.leader, self.leader_objective = self.log_phi, self.objective
            self.leader_iteration = self.iteration
        self.start += 1
        self.log_phi, self.objective, self.iteration = None, -math.inf, 0

    def go_on(self) -> None:
        """Go on with the leader, to the end."""
        self.is_final = True
        self.log_phi, self.objective, self.iteration = self.leader, self.leader_objective, self.leader_iteration
        self.stale = 0
