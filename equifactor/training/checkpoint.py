"""Where a run stands, on disk: written beside the model, read by `--resume`; never unpickles code."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from equifactor.errors import FormatError, OptionError
from equifactor.io.files import write_bytes


@dataclass
class Progress:
    """All that changes during a run, besides weights and optimizer."""

    epoch: int = 0  # epochs done
    best_epoch: int = 0
    best: float = float("inf")  # validation measure of the best weights
    history: list[dict[str, Any]] = field(default_factory=list)
    best_scores: list[float] = field(default_factory=list)  # MAP: best log score found for each training graph


def checkpoint_path(out: Path) -> Path:
    """`model.safetensors` has `model.checkpoint` beside it."""
    return out.with_suffix(".checkpoint")


def save(path: Path, identity: str, progress: Progress, tensors: dict[str, Any]) -> None:
    """Atomically: a kill or a full disk while writing leaves the older checkpoint."""
    data = io.BytesIO()
    torch.save({"identity": identity, "progress": json.dumps(asdict(progress)), **tensors}, data)
    write_bytes(path, data.getvalue())


def load(path: Path, identity: str, device: str) -> tuple[Progress, dict[str, Any]]:
    """Progress and tensors of a checkpoint of the same run."""
    try:
        found = torch.load(path, map_location=device, weights_only=True)
        progress = Progress(**json.loads(found.pop("progress")))
    except FileNotFoundError:
        raise OptionError(f"{path}: there is no checkpoint to resume from; leave out --resume to start anew") from None
    except Exception as error:
        raise FormatError(f"{path}: not a readable checkpoint ({type(error).__name__}); start anew") from None
    other = json.loads(found.pop("identity"))
    mine = json.loads(identity)
    changed = [k for k in mine if k in other and mine[k] != other[k]]
    if changed:
        what = ", ".join(f"{k} was {other[k]!r} and is {mine[k]!r}" for k in changed[:3])
        raise OptionError(f"{path}: it belongs to another run: {what}; use the same settings, or start anew")
    return progress, found
