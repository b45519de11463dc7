"""FE-NBP for decoding: a small network chooses the memory of every bit, and may choose anew while messages go on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equifactor.base.errors import FormatError, OptionError

FEATURES = ("channel", "posterior", "prior", "unmet", "early", "draw", "leg")
SOFT = 4.0  # a log ratio x is seen as x / (SOFT + |x|)
LOW, HIGH = -1.0, 0.98  # at 1 a bit would never forget, and its posterior grow without end
SLOPE = 0.1  # of the hidden units below zero
SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, eq=False)
class MemoryNetwork:
    """gamma = d . x + sum_h o_h relu(w_h . x + b_h) + c for every bit, from what is known at the bit.

    x holds, with signs such that the channel's word is positive, the log ratios of the channel, of the posterior and of
    what stands for the channel, squashed; the share of the bit's checks that are not met; a number drawn for the bit
    from [-1, 1], divided by the number of the leg and as it is; and 1 / number of the leg. One network serves all bits,
    and every entry of x keeps its meaning when bits, checks or the two values of a bit change places: with any weights
    the decoder is equivariant, and runs on any code. gamma is FE-NBP's damping where all edges of a bit share it; it
    may be negative.

    Attributes:
        weights: [H+1, F+2] float32; row h is w_h, b_h, o_h and the last one d, c, 0.
        card: where the weights come from.
    """

    weights: NDArray[np.float32]
    card: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def untrained(cls, hidden: int = 8, *, low: float = -0.24, high: float = 0.66, seed: int = 0) -> MemoryNetwork:
        """Memories drawn from an interval as relay draws them; hidden units look around but are not heard yet."""
        weights = np.zeros((hidden + 1, len(FEATURES) + 2), np.float32)
        weights[:-1, :-1] = np.random.default_rng(seed).normal(size=(hidden, len(FEATURES) + 1))
        weights[-1, FEATURES.index("draw")] = (high - low) / 2
        weights[-1, -2] = (high + low) / 2
        return cls(weights)

    @classmethod
    def load(cls, name: str) -> MemoryNetwork:
        """The network of a file, or the shipped one of this name."""
        shipped = SHIPPED / f"{name}.json"
        path = shipped if shipped.is_file() else Path(name)
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.json")))
            raise OptionError(f"there are no weights {name!r} for decoding; shipped: {known}; or the path of a file")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            weights = np.array(content["weights"], np.float32)
            card = dict(content["card"])
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path}: expected weights of a decoder, as `train` writes them; found {error}") from None
        if weights.ndim != 2 or weights.shape[1] != len(FEATURES) + 2 or not np.isfinite(weights).all():
            raise FormatError(f"{path}: expected finite weights [H+1, {len(FEATURES) + 2}], found {weights.shape}")
        return cls(weights, card)

    def save(self, path: str | Path) -> None:
        """Write the weights and their card as JSON."""
        rows = [[float(f"{w:.6g}") for w in row] for row in self.weights.tolist()]
        Path(path).write_text(json.dumps({"card": self.card, "weights": rows}, indent=1) + "\n", encoding="utf-8")

    def __call__(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """gamma [..] of features [.., F]: the definition that the engines are held to."""
        inner, last = self.weights[:-1].astype(np.float64), self.weights[-1].astype(np.float64)
        hidden = features @ inner[:, :-2].T + inner[:, -2]
        heard = np.where(hidden > 0, hidden, SLOPE * hidden) @ inner[:, -1]
        return np.clip(features @ last[:-2] + last[-2] + heard, LOW, HIGH)
