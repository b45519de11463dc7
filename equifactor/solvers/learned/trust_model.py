"""The fitted model of trust: from the features of a variable to the weights of several runs and the error of their mean.

It is a network of two hidden layers. `python -m experiments trust` fits it and writes its file beside the weights.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.learned.model_card import WEIGHTS
from equifactor.solvers.learned.model_header import read_header, read_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from equifactor.base.typing import FloatArray

FILE = WEIGHTS / "fe-net-trust.safetensors"
FURTHEST = 3.0  # Features are cut at this number of standard deviations: beyond it the model was not fitted.
ERROR_SCALE, ERROR_START = 3.0, -5.0  # The last output as a log error: its unit, and its value before fitting.
SHARE = 0.9  # The share of variables whose error is at most the predicted quantile.
NORMAL_QUANTILE = 1.645  # Standard errors of a normal distribution in 90 % intervals.


@dataclass(frozen=True)
class TrustModel:
    """The tensors of a file.

    Attributes:
        mean: [D] of the features.
        scale: [D] standard deviations of the features.
        layers: weights [out, in] and biases [out] of the three layers; the last has K + 1 outputs.
    """

    mean: FloatArray
    scale: FloatArray
    layers: tuple[tuple[FloatArray, FloatArray], ...]

    def __call__(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights [V, K] of the runs, and the standard errors [V] of their mean, from features [V, D]."""
        x = np.clip((features - self.mean) / self.scale, -FURTHEST, FURTHEST)
        *hidden, (last, bias) = self.layers
        for weight, shift in hidden:
            x = np.tanh(x @ weight.T + shift)
        found = x @ last.T + bias
        logit = found[:, :-1] - found[:, :-1].max(axis=1, keepdims=True, initial=-np.inf)
        share = np.exp(logit)
        error = np.exp(ERROR_SCALE * found[:, -1] + ERROR_START) / NORMAL_QUANTILE
        return share / share.sum(axis=1, keepdims=True), np.minimum(error, 1.0)


@functools.lru_cache(maxsize=4)
def load_trust(path: Path = FILE) -> TrustModel:
    """Read the model from its file, once per process."""
    tensors = {k: v.astype(np.float64) for k, v in read_tensors(path, read_header(path)).items()}
    layers = tuple((tensors[f"{name}.weight"], tensors[f"{name}.bias"]) for name in "abc")
    return TrustModel(tensors["mean"], tensors["scale"], layers)
