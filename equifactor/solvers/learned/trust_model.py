"""The fitted model of trust: from features of a variable to the weights of several runs and the error of their mean.

It is the mean of M small networks of two hidden layers. `python -m experiments trust` fits them and writes their file.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.learned.model_card import WEIGHTS

if TYPE_CHECKING:
    from pathlib import Path

    from equifactor.base.typing import FloatArray

FILE = WEIGHTS / "fe-net-trust.npz"
FURTHEST = 3.0  # Features are cut at this number of standard deviations: beyond it the model was not fitted.
ERROR_SCALE, ERROR_START = 3.0, -5.0  # The last output as a log error: its unit, and its value before fitting.
SHARE = 0.9  # The share of variables whose error is at most the predicted quantile.


@dataclass(frozen=True)
class TrustModel:
    """The tensors of a file.

    Attributes:
        mean: [D] of the features.
        scale: [D] standard deviations of the features.
        layers: weights [M, out, in] and biases [M, out] of the three layers; the last has K + 1 outputs.
    """

    mean: FloatArray
    scale: FloatArray
    layers: tuple[tuple[FloatArray, FloatArray], ...]

    def __call__(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights [V, K] of the runs, and the error [V] of their mean, from features [V, D]."""
        x = np.clip((features - self.mean) / self.scale, -FURTHEST, FURTHEST)
        *hidden, (last, bias) = self.layers
        for weight, shift in hidden:
            x = np.tanh(x @ weight.mT + shift[:, None])  # [M, V, units]
        found = x @ last.mT + bias[:, None]
        share = np.exp(found[..., :-1] - found[..., :-1].max(axis=-1, keepdims=True, initial=-np.inf))
        share /= share.sum(axis=-1, keepdims=True)
        error = np.exp(ERROR_SCALE * found[..., -1].mean(axis=0) + ERROR_START)
        return share.mean(axis=0), np.minimum(error, 1.0)


@functools.lru_cache(maxsize=4)
def load_trust(path: Path = FILE) -> TrustModel:
    """Read the model from its file, once per process."""
    with np.load(path, allow_pickle=False) as file:
        tensors = {name: file[name].astype(np.float64) for name in file.files}
    layers = tuple((tensors[f"{name}.weight"], tensors[f"{name}.bias"]) for name in "abc")
    return TrustModel(tensors["mean"], tensors["scale"], layers)
