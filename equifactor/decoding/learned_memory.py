"""The network of the method `learned-memory`, which chooses the memory of every bit at the beginning of each leg."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equifactor._version import __version__
from equifactor.base.argument_types import checks_fields, checks_types
from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.files import write_bytes
from equifactor.base.sources import is_file
from equifactor.generators.argument_checks import real, whole
from equifactor.solvers.learned.model_card import FORMAT, KEY
from equifactor.solvers.learned.model_header import parse_object, read_header, shown
from equifactor.solving.registry import MODEL_SUFFIX

FEATURES = ("channel", "posterior", "prior", "unmet", "early", "draw", "leg")
SOFT = 4.0  # The network sees a log ratio x as x / (SOFT + |x|). Chosen by hand.
LOW, HIGH = -1.0, 0.98  # The range of memories. At 1 the posterior of a bit would grow without limit.
SLOPE = 0.1  # The slope of the hidden units below zero. Chosen by hand.
SHIPPED = Path(__file__).parent / "weights"
_TENSOR = "weights"  # The name of the only tensor in a file.


@checks_fields("weights", "card")
@dataclass(frozen=True, eq=False)
class MemoryNetwork:
    """gamma = d . x + sum_h o_h relu(w_h . x + b_h) + c: the memory of a bit, from the features x [F] of the bit.

    The features are numbered as in `FEATURES`. Their signs are chosen so that the channel's log ratio is positive.

    channel, posterior, prior  the squashed log ratios of the channel, the posterior and the effective prior
    unmet                      the share of the bit's checks that are not met
    early, draw                a number drawn for the bit from [-1, 1], divided by the number of the leg, and undivided
    leg                        1 / number of the leg

    The relu is leaky. One network serves all bits, and every feature keeps its meaning if bits, checks or the two
    values of a bit are permuted. So the network is equivariant for any weights and runs on any code. The drawn numbers
    follow the numbers of the bits and break ties. The memory gamma corresponds to the damping of FE-NBP [Sun21], shared
    by all edges of a bit. It may be negative.

    Attributes:
        weights: [H+1, F+2] float32; row h is w_h, b_h, o_h, and the last row is d, c, 0.
        card: how the weights were trained.
    """

    weights: NDArray[np.float32]
    card: dict[str, Any] = field(default_factory=dict)

    @classmethod
    @checks_types("hidden", "low", "high", "seed")
    def untrained(cls, hidden: int = 8, *, low: float = -0.24, high: float = 0.66, seed: int = 0) -> MemoryNetwork:
        """Return a network that draws memories from an interval, as relay does; its hidden units have no effect yet."""
        whole("hidden", hidden, 0, 2**20)
        real("low", low, -math.inf)
        real("high", high, -math.inf)
        whole("seed", seed, 0)
        weights = np.zeros((hidden + 1, len(FEATURES) + 2), np.float32)
        weights[:-1, :-1] = np.random.default_rng(seed).normal(size=(hidden, len(FEATURES) + 1))
        weights[-1, FEATURES.index("draw")] = (high - low) / 2
        weights[-1, -2] = (high + low) / 2
        return cls(weights)

    @classmethod
    @checks_types("name")
    def load(cls, name: str) -> MemoryNetwork:
        """Read the network of a `.safetensors` file, or the shipped network of this name. Torch is not needed."""
        shipped = SHIPPED / f"{name}{MODEL_SUFFIX}"
        path = shipped if is_file(shipped) else Path(name)
        if not is_file(path):
            known = ", ".join(sorted(file.stem for file in SHIPPED.glob(f"*{MODEL_SUFFIX}")))
            raise OptionError(
                f"There are no weights {brief(name)} for decoding. Name a {MODEL_SUFFIX} file or shipped weights: "
                f"{known}."
            )
        if path.suffix.lower() == ".json":
            raise FormatError(
                f"{path}: weights for decoding are {MODEL_SUFFIX} files now. Train the network again, or convert the "
                "file: MemoryNetwork(numpy.float32(content['weights']), content['card']).save('new.safetensors'), "
                "where content = json.load(open(path))."
            )
        return _read_network(path)

    @checks_types("path")
    def save(self, path: str | Path) -> None:
        """Write the weights with their card as a `.safetensors` file."""
        rows = np.ascontiguousarray(self.weights, "<f4")
        card = {"format": FORMAT, "kind": "learned-memory", "task": "DECODE", "version": __version__, **self.card}
        header = {
            "__metadata__": {KEY: json.dumps(card)},
            _TENSOR: {"dtype": "F32", "shape": rows.shape, "data_offsets": [0, rows.nbytes]},
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # The tensor begins at a multiple of 8 bytes, as in all safetensors files.
        write_bytes(path, len(text).to_bytes(8, "little") + text + rows.tobytes())

    @checks_types("features")
    def __call__(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return gamma [..] of features [.., F]. This method is the definition; the engines are tested against it."""
        features = np.asarray(features, float)
        if features.shape[-1:] != (len(FEATURES),):
            raise OptionError(f"The features of bits must have shape [.., {len(FEATURES)}], found {features.shape}.")
        inner, last = self.weights[:-1].astype(np.float64), self.weights[-1].astype(np.float64)
        hidden = features @ inner[:, :-2].T + inner[:, -2]
        from_hidden = np.where(hidden > 0, hidden, SLOPE * hidden) @ inner[:, -1]
        return np.clip(features @ last[:-2] + last[-2] + from_hidden, LOW, HIGH)


def _read_network(path: Path) -> MemoryNetwork:
    """Read a safetensors file; raise `FormatError` unless it holds the weights of one network for decoding."""
    header = read_header(path)
    width = len(FEATURES) + 2
    dtype, shape = header.tensors.get(_TENSOR, ("", ()))
    if len(header.tensors) != 1 or dtype != "F32" or len(shape) != 2 or shape[0] < 1 or shape[1] != width:
        found = ", ".join(f"{shown(n)} {d} {list(s)}" for n, (d, s) in list(header.tensors.items())[:3])
        raise FormatError(
            f"{path}: does not hold weights for decoding. Expected one tensor {_TENSOR} F32 [H+1, {width}], found "
            f"{found or 'no tensor'}. Such files are written by `equifactor train learned-memory --task DECODE`."
        )
    try:
        card = parse_object(header.metadata.get(KEY, "{}"))
    except ValueError as error:
        raise FormatError(f"{path}: the card of the weights is damaged: {error}. Train the network again.") from None
    count = math.prod(shape)
    weights = np.frombuffer(path.read_bytes()[-4 * count :], "<f4").reshape(shape).astype(np.float32)
    if not np.isfinite(weights).all():
        raise FormatError(f"{path}: some weights are not finite. Train the network again.")
    return MemoryNetwork(weights, card)
