"""Training of learned models: `train(kind, data, task)`, or `equifactor train`. Torch is imported when it runs.

sources.py    graphs from folders, files and generators          targets.py   their exact answers, cached
batches.py    batches on the device, one structure at a time     losses.py    what is minimised
loop.py       epochs, validation, early stopping, checkpoints    capture.py   a gradient step as one CUDA graph
processes.py  several processes by Lightning Fabric              settings.py  every knob
"""

from equifactor.training.run import Trained, train
from equifactor.training.settings import Settings

__all__ = ["Settings", "Trained", "train"]
