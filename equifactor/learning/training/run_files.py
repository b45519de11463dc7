"""The files of a training run beside its model file: the log, and the checkpoint that `--resume` reads.

A checkpoint is read without ever unpickling code.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import write_bytes


@dataclass
class TrainingProgress:
    """All that changes during a run, besides weights and optimizer."""

    epoch: int = 0  # How many epochs are done.
    best_epoch: int = 0
    best: float = float("inf")  # The validation measure of the best weights.
    history: list[dict[str, Any]] = field(default_factory=list)
    best_scores: list[float] = field(default_factory=list)  # MAP: the best log score found for each training graph.


@dataclass(frozen=True)
class RunFiles:
    """`model.safetensors` has `model.jsonl` and `model.checkpoint` beside it."""

    model: Path
    identity: str  # What must be the same for a run to be resumed, as JSON.

    @property
    def log(self) -> Path:
        """One JSON line per epoch."""
        return self.model.with_suffix(".jsonl")

    @property
    def checkpoint(self) -> Path:
        """Where the run stands."""
        return self.model.with_suffix(".checkpoint")

    def append(self, line: dict[str, Any]) -> None:
        """Add the line of an epoch to the log; epoch 0 begins a new one."""
        with self.log.open("w" if line["epoch"] == 0 else "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def rewrite_log(self, history: list[dict[str, Any]]) -> None:
        """Let the log hold these epochs and no others."""
        self.log.write_text("".join(json.dumps(line) + "\n" for line in history), encoding="utf-8")

    def save(self, progress: TrainingProgress, tensors: dict[str, Any]) -> None:
        """Write the checkpoint; a kill or a full disk while writing leaves the older one."""
        data = io.BytesIO()
        torch.save({"identity": self.identity, "progress": json.dumps(asdict(progress)), **tensors}, data)
        write_bytes(self.checkpoint, data.getvalue())

    def load(self, device: str) -> tuple[TrainingProgress, dict[str, Any]]:
        """The progress and the tensors of a checkpoint of the same run."""
        path = self.checkpoint
        try:
            found = torch.load(path, map_location=device, weights_only=True)
            progress = TrainingProgress(**json.loads(found.pop("progress")))
            other = dict(json.loads(found.pop("identity")))
            _check_progress(progress)
        except FileNotFoundError:
            raise OptionError(
                f"{path}: there is no checkpoint to resume from; leave out --resume to start anew"
            ) from None
        except (Exception, RecursionError) as error:
            raise self.damaged(error) from None
        mine = json.loads(self.identity)
        changed = [k for k in mine if k in other and mine[k] != other[k]]
        if changed:
            what = ", ".join(f"{k} was {other[k]!r} and is {mine[k]!r}" for k in changed[:3])
            raise OptionError(f"{path}: it belongs to another run: {what}; use the same settings, or start anew")
        return progress, found

    def damaged(self, error: Exception) -> FormatError:
        """The error of a checkpoint that cannot be used."""
        return FormatError(f"{self.checkpoint}: not a readable checkpoint ({type(error).__name__}); start anew")


def _check_progress(progress: TrainingProgress) -> None:
    """Raise `ValueError` where a checkpoint says what no run could have written."""
    p, names = progress, {"epoch", "loss", "best", "seconds", "graphs_per_second"}
    counts = (p.epoch, p.best_epoch, *(line.get("epoch") for line in p.history))
    numbers = [p.best, *p.best_scores, *(v for line in p.history for v in line.values() if v is not None)]
    if not (
        all(type(n) is int and n >= 0 for n in counts)
        and all(type(n) in (int, float) for n in numbers)
        and all(names < set(line) for line in p.history)
    ):
        raise ValueError("its progress cannot be")
