"""The fitted model of trust: from features of a variable to the weights of several runs and the error of their mean.

It is the mean of M small networks of two hidden layers, each fitted without some families of graphs. `python -m
experiments trust` fits them and writes their file.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.learned.model_card import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from equifactor.base.typing import FloatArray, IntArray

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
        """Return the weights [M, V, K] that each member gives the runs, and the error [V] of their mean.

        Args:
            features: [V, D] of each variable.
        """
        x = np.clip((features - self.mean) / self.scale, -FURTHEST, FURTHEST)
        *hidden, (last, bias) = self.layers
        for weight, shift in hidden:
            x = np.tanh(x @ weight.mT + shift[:, None])  # [M, V, units]
        found = x @ last.mT + bias[:, None]
        share = np.exp(found[..., :-1] - found[..., :-1].max(axis=-1, keepdims=True, initial=-np.inf))
        share /= share.sum(axis=-1, keepdims=True)
        return share, np.exp(ERROR_SCALE * found[..., -1].mean(axis=0) + ERROR_START)

    def combined(
        self, features: FloatArray, runs: Sequence[FloatArray], variable: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the mean [X] of the runs, its error [V], and the weights [V, K] of the runs.

        The error is larger where members disagree: by the largest distance of the mean of one member.

        Args:
            features: [V, D] of each variable.
            runs: the marginals [X] of each of the K runs.
            variable: [X] the variable of each state, ascending.
        """
        shares, error = self(features)
        values = np.asarray(runs)
        means = [(share.T[:, variable] * values).sum(axis=0) for share in shares]
        mean = np.asarray(np.mean(means, axis=0))
        apart = np.max([np.abs(own - mean) for own in means], axis=0, initial=0.0)
        largest = np.zeros(len(error))
        np.maximum.at(largest, variable, apart)
        return mean, np.minimum(error + largest, 1.0), shares.mean(axis=0)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the file."""
        layers = [{f"{n}.weight": w, f"{n}.bias": b} for n, (w, b) in zip("abc", self.layers, strict=True)]
        return {"mean": self.mean, "scale": self.scale, **layers[0], **layers[1], **layers[2]}


@functools.lru_cache(maxsize=4)
def load_trust(path: Path = FILE) -> TrustModel:
    """Read the model from its file, once per process."""
    with np.load(path, allow_pickle=False) as file:
        tensors = {name: file[name].astype(np.float64) for name in file.files}
    layers = tuple((tensors[f"{name}.weight"], tensors[f"{name}.bias"]) for name in "abc")
    return TrustModel(tensors["mean"], tensors["scale"], layers)
