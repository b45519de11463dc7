"""Training of learned models: `train(kind, data, task)`, or `equifactor train`. Torch is imported on the first call.

trainer.py            the function `train`                      training_settings.py  every setting of a run
data_sources.py       graphs from folders, files, generators    targets.py            the targets of the graphs
data_split.py         training and validation graphs            batches.py            batches on the device
compiled_batches.py   batches compiled once, filled often       objective.py          network and loss as one module
losses.py             the losses that are minimised             validate.py           measures on held-out graphs
training_loop.py      epochs, validation, early stopping        run_files.py          the log and the checkpoint
capture.py            a gradient step as one CUDA graph         processes.py          several processes
training_log.py       the record of a run, epoch by epoch       starting_weights.py   weights and settings of a start
evidence_sets.py      one model given many sets of evidence
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equifactor.learning.training.training_settings import TrainingSettings

if TYPE_CHECKING:
    from equifactor.learning.training.trainer import Trained, train

__all__ = ["Trained", "TrainingSettings", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equifactor.learning.training' has no attribute {name!r}")
    from equifactor.learning.training import trainer

    return getattr(trainer, name)
