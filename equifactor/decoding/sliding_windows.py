"""Decoding in sliding windows: detectors come round by round, and flips of observables go out as they are decided.

A window covers some layers of detectors, such as the rounds of a memory. Errors that begin in its first layers, the
*commit region*, are decided. The others, in the *buffer region*, only make these decisions better, and are decoded
again by the next window. Errors that reach beyond the window are cut off there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding.code_files import read_code
from equifactor.decoding.decoder import Decoder
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.given_arrays import read_array
from equifactor.generators.argument_checks import whole
from equifactor.kernels.pointers import picked, row_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from equifactor.base.typing import BoolArray, IntArray

_MOST = 2**34  # Bytes for the detectors of the shots of one run. Chosen by hand.
_TIME = 2  # The place of the time among the coordinates of detectors that Stim generates: x, y, t.


@dataclass(frozen=True, eq=False)
class _Window:
    """The errors of one window, with the detectors that they flip in it."""

    decoder: Decoder
    detectors: IntArray  # the detectors of the window
    errors: IntArray  # the errors of the window
    committed: IntArray  # the places of those that this window decides


class WindowDecoder:
    """A decoder that sees only some layers of detectors at a time.

    Args:
        source: a model, a circuit or a file, as for `Decoder`.
        layers: [D] the layer of every detector, from 0. None takes the times from the coordinates of a circuit.
        window: the number of layers that are decoded together.
        commit: the number of layers by which the window moves. The rest of the window is the buffer region.
        method: as for `Decoder`.
        settings: further settings of the method.

    Windows that look the same share one decoder, so that memory does not grow with the number of equal rounds.
    """

    def __init__(
        self,
        source: Any,
        layers: ArrayLike | None = None,
        *,
        window: int,
        commit: int,
        method: str | None = None,
        **settings: Any,
    ) -> None:
        self.model = read_code(source) if not isinstance(source, ErrorModel) else source
        self.window, self.commit = whole("window", window, 1), whole("commit", commit, 1)
        if commit > window:
            raise OptionError(f"commit is {commit} and window is {window}. A window must hold the layers it decides.")
        self.layers = layers_of(source) if layers is None else read_array("layers", layers)
        if self.layers.shape != (self.model.num_detectors,) or self.layers.dtype.kind not in "iu":
            raise ModelError(
                f"layers must be a whole number for each of {self.model.num_detectors} detectors, found an array "
                f"{self.layers.dtype} {list(self.layers.shape)}."
            )
        if self.layers.min(initial=0) < 0:
            raise ModelError("layers must be at least 0.")
        self.num_layers = int(self.layers.max(initial=-1)) + 1
        self._decoders: dict[tuple[bytes, ...], Decoder] = {}
        self._settings = {"method": method, **settings}
        error = row_of(self.model.detector_ptr)
        first = np.full(self.model.num_errors, self.num_layers)
        np.minimum.at(first, error, self.layers[self.model.detectors])
        self._first_layer = first
        last_start = max(0, self.num_layers - self.window)
        starts = [*range(0, last_start, self.commit), -(-last_start // self.commit) * self.commit]
        self._windows = [self._window(start, start == starts[-1]) for start in starts]
        self._starts = starts

    @property
    def num_decoders(self) -> int:
        """The number of different windows."""
        return len(self._decoders)

    def _window(self, start: int, is_last: bool) -> _Window:
        end = self.num_layers if is_last else start + self.window
        m = self.model
        inside = np.flatnonzero((self.layers >= start) & (self.layers < end))
        errors = np.flatnonzero((self._first_layer >= start) & (self._first_layer < end))
        place = np.full(m.num_detectors, -1)
        place[inside] = np.arange(len(inside))
        ptr, edges = picked(m.detector_ptr, errors)
        own, seen = row_of(ptr), place[m.detectors[edges]]
        kept = seen >= 0
        observable_ptr, others = picked(m.observable_ptr, errors)
        part = ErrorModel.of_edges(
            (len(inside), m.num_observables), m.priors[errors], (own[kept], seen[kept]),
            (row_of(observable_ptr), m.observables[others]),
        )  # fmt: skip
        arrays = (part.detector_ptr, part.detectors, part.observable_ptr, part.observables, part.priors)
        key = tuple(array.tobytes() for array in arrays)
        if key not in self._decoders:
            self._decoders[key] = Decoder(part, **self._settings)
        decided = np.flatnonzero(self._first_layer[errors] < (self.num_layers if is_last else start + self.commit))
        return _Window(self._decoders[key], inside, errors, decided)

    def decode(self, shots: ArrayLike) -> BoolArray:
        """Return the flips [N, L] of the observables for shots [N, D] of all detectors."""
        array = read_array("shots", shots)
        if array.ndim != 2 or array.shape[1] != self.model.num_detectors:
            raise ModelError(f"shots must have the shape [N, {self.model.num_detectors}], found {list(array.shape)}.")
        run = self.begin(len(array))
        for layer in range(self.num_layers):
            run.push(array[:, self.layers == layer])
        return run.flips

    def begin(self, count: int) -> WindowRun:
        """Return a run that takes the layers of `count` shots one after the other."""
        return WindowRun(self, whole("count", count, 0, _MOST // max(1, self.model.num_detectors)))


class WindowRun:
    """Shots whose layers come one after the other.

    Attributes:
        flips: [N, L] the flips of the observables by the errors that are decided so far.
        layer: the next layer.
    """

    def __init__(self, decoder: WindowDecoder, count: int) -> None:
        self.decoder, self.count, self.layer = decoder, count, 0
        self.flips = np.zeros((count, decoder.model.num_observables), bool)
        self._held: dict[int, NDArray[np.bool_]] = {}  # the detectors of the layers that are not decided yet
        self._window = 0

    @property
    def held(self) -> int:
        """The number of detectors of every shot that are held for windows to come."""
        return sum(array.shape[1] for array in self._held.values())

    def push(self, detectors: ArrayLike) -> BoolArray:
        """Take the detectors [N, n] of the next layer, in ascending order, and return `flips`."""
        d = self.decoder
        if self.layer >= d.num_layers:
            raise ModelError(f"All {d.num_layers} layers have been given.")
        wanted = (self.count, int((d.layers == self.layer).sum()))
        array = read_array("detectors", detectors)
        if array.shape != wanted:
            raise ModelError(f"Layer {self.layer} must have the shape {list(wanted)}, found {list(array.shape)}.")
        if array.dtype != bool and not ((array == 0) | (array == 1)).all():
            raise ModelError(f"Layer {self.layer} holds numbers other than 0 and 1.")
        # A committed error may reach into this layer: its flips are waiting.
        self._held[self.layer] = array.astype(bool) ^ self._held.get(self.layer, np.zeros(wanted, bool))
        self.layer += 1
        is_last = self._window == len(d._windows) - 1
        if self.layer == (d.num_layers if is_last else d._starts[self._window] + d.window):
            self._decide(d._windows[self._window])
            self._window += 1
        return self.flips

    def _decide(self, window: _Window) -> None:
        """Decode a window, keep its decisions, and forget the layers that no later window sees."""
        d, m = self.decoder, self.decoder.model
        shots = np.zeros((self.count, len(window.detectors)), bool)
        for layer in np.unique(d.layers[window.detectors]).tolist():
            shots[:, d.layers[window.detectors] == layer] = self._held[layer]
        found = window.decoder.decode(shots, corrections=True).corrections
        assert found is not None
        chosen = found[:, window.committed].astype(bool)
        errors = window.errors[window.committed]
        ptr, edges = picked(m.detector_ptr, errors)
        seen = _odd(chosen, row_of(ptr), m.detectors[edges], m.num_detectors)
        ptr, edges = picked(m.observable_ptr, errors)
        self.flips = self.flips ^ _odd(chosen, row_of(ptr), m.observables[edges], m.num_observables)
        start = d._starts[self._window] + d.commit
        for layer in np.unique(d.layers[m.detectors[picked(m.detector_ptr, errors)[1]]]).tolist():
            if layer >= start:
                own = seen[:, d.layers == layer]
                self._held[layer] = self._held.get(layer, np.zeros(own.shape, bool)) ^ own
        for layer in [layer for layer in self._held if layer < start]:
            del self._held[layer]


def _odd(chosen: BoolArray, error: IntArray, target: IntArray, width: int) -> BoolArray:
    """Return [N, width] the targets that the chosen errors flip an odd number of times."""
    counts = np.zeros((width, len(chosen)), np.int64)
    np.add.at(counts, target, chosen.T[error].astype(np.int64))
    return np.asarray(counts.T % 2 == 1)


def layers_of(source: Any) -> IntArray:
    """Return the layer [D] of every detector of a circuit or error model of Stim, from its coordinates.

    The third coordinate is the time, or the last one if there are fewer.
    """
    from equifactor.decoding.stim_circuits import stim_module

    if not hasattr(source, "get_detector_coordinates"):
        stim = stim_module()
        text = "" if isinstance(source, ErrorModel) else str(source)
        if not text.endswith((".stim", ".dem")):
            raise OptionError("Only circuits and error models of Stim have times. Pass layers: one for each detector.")
        source = stim.Circuit.from_file(text) if text.endswith(".stim") else stim.DetectorErrorModel.from_file(text)
    found = source.get_detector_coordinates()
    if not found or not all(found.values()):
        raise ModelError("Some detectors have no coordinates. Pass layers: one for each detector.")
    times = [found[n][min(_TIME, len(found[n]) - 1)] for n in range(len(found))]
    _, layer = np.unique(times, return_inverse=True)
    return np.asarray(layer.ravel(), np.int64)
