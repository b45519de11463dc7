"""Training of learned models: `train(kind, data, task)`, or `equifactor train`. Torch is imported when it runs.

sources.py    graphs from folders, files and generators          targets.py   their exact answers, cached
batches.py    batches on the device, one structure at a time     losses.py    what is minimised
loop.py       epochs, validation, early stopping, checkpoints    capture.py   a gradient step as one CUDA graph
processes.py  several processes by Lightning Fabric              settings.py  every knob
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equifactor.training.training_settings import TrainingSettings

if TYPE_CHECKING:
    from equifactor.training.trainer import Trained, train

__all__ = ["Trained", "TrainingSettings", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equifactor.training' has no attribute {name!r}")
    from equifactor.training import trainer as run

    return getattr(run, name)
