"""The shots of one call of a decoder, in chunks, and their answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import GRACE
from equifactor.base.errors import ModelError
from equifactor.decoding.given_arrays import read_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.decoding.error_model import ErrorModel
    from equifactor.decoding.problem import DecodingProblem

CHUNK = 4096  # The number of shots that are unpacked at a time, which bounds memory. Chosen by hand.


# The share of the time limit, and the seconds in addition, that shots in flight get after the limit: half of what every
# call may be late.
_LATE_SHARE = 0.05


def no_time_to_finish(clock: Clock) -> bool:
    """Return whether the time limit was so long ago that shots in flight are left undecided."""
    return clock.late > GRACE + _LATE_SHARE * (clock.time_limit or 0.0)


class ShotStore:
    """N shots and their answers. Engines read `chunks` and fill the arrays."""

    def __init__(
        self,
        problem: DecodingProblem,
        source: Callable[[int, int], BoolArray],
        count: int,
        keep: bool,
        has_gap: bool = False,
    ) -> None:
        self.problem, self.source, self.count, self.keep = problem, source, count, keep
        self.ratios: NDArray[np.float32] | None = None  # [N, V] if every shot has its own log ratios
        self.correction = np.zeros((count if keep else 0, -(-problem.num_bits // 8)), np.uint8)
        self.flips = np.zeros((count, problem.model.num_observables), np.uint8)
        self.converged = np.zeros(count, bool)
        self.iterations = np.zeros(count, np.int32)
        self.weight = np.zeros(count)
        self.decoded = np.ones(count, bool)
        self.undecided = np.zeros(count, bool)  # [N] shots that had begun and were not finished in time
        self.explicable = np.ones(count, bool)
        self.proven: BoolArray | None = None
        self.gap = np.full(count if has_gap else 0, np.inf)  # [N] for methods that state it

    def chunks(self) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.float32], bool]]:
        """Yield the first shot, syndromes [C, ceil(M/8)], log ratios [C, V] or [1, V], and whether more follow."""
        common = self.problem.ratio.astype(np.float32)[None]
        for first in range(0, self.count, CHUNK):
            last = min(first + CHUNK, self.count)
            packed, self.explicable[first:last] = self.problem.syndromes(self.source(first, last))
            own = common if self.ratios is None else self.ratios[first:last]
            # The kernels would be compiled a second time for an array of another layout.
            yield first, np.ascontiguousarray(packed), own, last < self.count

    def abandon(self, shots: IntArray) -> None:
        """Leave shots undecided that have begun: the time to finish them is over."""
        self.decoded[shots] = False
        self.undecided[shots] = True

    def part(self, first: int, last: int) -> ShotStore:
        """Return the shots from first to last - 1 as a store of their own; answers are written to both stores."""
        own = copy.copy(self)
        own.source, own.count = lambda a, b: self.source(first + a, first + b), last - first
        for name in (
            "ratios",
            "correction",
            "flips",
            "converged",
            "iterations",
            "weight",
            "decoded",
            "undecided",
            "explicable",
            "proven",
            "gap",
        ):
            whole = getattr(self, name)
            setattr(own, name, None if whole is None else whole[first:last])
        return own


def shot_source(shots: ArrayLike, model: ErrorModel, packed: bool) -> tuple[Callable[[int, int], BoolArray], int]:
    """Return a function that unpacks shots a to b - 1 [b - a, D], and the number of shots.

    If the model keeps only some detectors, shots may hold all detectors. Raises `ModelError` if the array does not
    hold shots.
    """
    array = read_array("shots", shots)
    kept = model.kept_detectors
    counts = [model.num_detectors]
    if kept is not None and model.num_all_detectors not in (None, *counts):
        counts.append(model.num_all_detectors)  # type: ignore[arg-type]
    widths = [-(-count // 8) if packed else count for count in counts]
    if array.ndim != 2 or array.shape[1] not in widths or array.dtype.kind not in ("u" if packed else "buif"):
        form = "bytes of 8 detectors each (uint8)" if packed else "detectors (bool)"
        looks_packed = array.dtype == np.uint8 and array.shape[1:] in [(-(-count // 8),) for count in counts]
        hint = " The shots look packed: pass packed=True." if looks_packed and not packed else ""
        if array.ndim == 1:
            hint = " For one shot, pass [shot]."
        raise ModelError(
            f"shots must be an array {' or '.join(f'[N, {width}]' for width in widths)} of {form}, found "
            f"{array.dtype} {list(array.shape)}.{hint}"
        )
    if packed and array.dtype != np.uint8:
        raise ModelError(f"Packed shots must be bytes (uint8), found {array.dtype}.")
    if len(set(widths)) < len(widths):
        raise ModelError(
            f"Packed shots of {counts[0]} detectors and of all {counts[1]} detectors both take {widths[0]} bytes. "
            "Pass unpacked shots."
        )
    count = counts[widths.index(array.shape[1])]

    def take(first: int, last: int) -> BoolArray:
        rows = array[first:last]
        if packed:
            rows = np.unpackbits(rows, axis=1, bitorder="little", count=count).astype(bool)
        elif rows.dtype != bool and not ((rows == 0) | (rows == 1)).all():
            raise ModelError(f"Shots {first} to {last - 1} hold numbers other than 0 and 1.")
        return np.asarray(rows if kept is None or count == len(kept) else rows[:, kept], bool)

    return take, len(array)
