"""The files of a training run beside its model file: the log, and the checkpoint that `--resume` reads.

Reading a checkpoint never unpickles code.
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
from equifactor.learning.training.training_settings import CHECKPOINT_SUFFIX


@dataclass
class TrainingProgress:
    """The state of a run, without the weights and the optimizer."""

    epoch: int = 0  # The number of finished epochs.
    best_epoch: int = 0
    best: float = float("inf")  # The validation measure of the best weights.
    history: list[dict[str, Any]] = field(default_factory=list)
    best_scores: list[float] = field(default_factory=list)  # MAP: the best log score found for each training graph.


@dataclass(frozen=True)
class RunFiles:
    """The files of a run: `model.safetensors`, and beside it `model.jsonl` and `model.checkpoint`."""

    model: Path
    identity: str  # The settings and data that must be the same when a run is resumed, as JSON.

    @property
    def log(self) -> Path:
        """The log, with one JSON line per epoch."""
        return self.model.with_suffix(".jsonl")

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, with the state of the run."""
        return self.model.with_suffix(CHECKPOINT_SUFFIX)

    def append(self, line: dict[str, Any]) -> None:
        """Add the line of an epoch to the log; epoch 0 starts a new log."""
        with self.log.open("w" if line["epoch"] == 0 else "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def rewrite_log(self, history: list[dict[str, Any]]) -> None:
        """Replace the log by the lines of these epochs."""
        self.log.write_text("".join(json.dumps(line) + "\n" for line in history), encoding="utf-8")

    def save(self, progress: TrainingProgress, tensors: dict[str, Any]) -> None:
        """Write the checkpoint; if writing is interrupted or the disk is full, the older checkpoint stays."""
        data = io.BytesIO()
        torch.save({"identity": self.identity, "progress": json.dumps(asdict(progress)), **tensors}, data)
        write_bytes(self.checkpoint, data.getvalue())

    def load(self, device: str) -> tuple[TrainingProgress, dict[str, Any]]:
        """Read the progress and the tensors of a checkpoint of the same run."""
        path = self.checkpoint
        try:
            found = torch.load(path, map_location=device, weights_only=True)
            progress = TrainingProgress(**json.loads(found.pop("progress")))
            other = dict(json.loads(found.pop("identity")))
            _check_progress(progress)
        except FileNotFoundError:
            raise OptionError(
                f"{path}: there is no checkpoint to resume from. Leave out resume to start a new run."
            ) from None
        except (Exception, RecursionError) as error:
            raise self.damaged(error) from None
        mine = json.loads(self.identity)
        changed = [k for k in mine if k in other and mine[k] != other[k]]
        if changed:
            what = ", ".join(f"{k} was {other[k]!r} and is {mine[k]!r}" for k in changed[:3])
            raise OptionError(
                f"{path}: the checkpoint belongs to another run: {what}. Use the same settings, or "
                "overwrite=True instead of resume to start a new run."
            )
        return progress, found

    def damaged(self, error: Exception) -> FormatError:
        """Return the error of a checkpoint that cannot be used."""
        return FormatError(
            f"{self.checkpoint}: this is not a readable checkpoint ({type(error).__name__}). Use overwrite=True "
            "instead of resume to start a new run."
        )


def _check_progress(progress: TrainingProgress) -> None:
    """Raise `ValueError` if the progress in a checkpoint is not possible."""
    p, names = progress, {"epoch", "loss", "best", "seconds", "graphs_per_second"}
    counts = (p.epoch, p.best_epoch, *(line.get("epoch") for line in p.history))
    numbers = [p.best, *p.best_scores, *(v for line in p.history for v in line.values() if v is not None)]
    if not (
        all(type(n) is int and n >= 0 for n in counts)
        and all(type(n) in (int, float) for n in numbers)
        and all(names < set(line) for line in p.history)
    ):
        raise ValueError("the progress in the checkpoint is not possible")
