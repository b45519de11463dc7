"""The problem that a decoder solves: the undecided bits, the checks between them, and what is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import picked, ptr_of, row_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.error_model import ErrorModel


@dataclass(frozen=True, eq=False)
class DecodingProblem:
    """V bits in M checks. A bit is an error that may or may not have happened and that flips some detector.

    Errors that flip the same detectors and observables are one bit. Errors of probability 0 or 1, and errors that flip
    no detector, are decided beforehand. A detector that no bit flips has a known value; a shot with another value
    cannot be explained.
    """

    model: ErrorModel
    error_of_bit: IntArray  # [V] the likeliest error of the model among those of a bit
    ratio: FloatArray  # [V] ln (1-p)/p
    detector_of_check: IntArray  # [M]
    check_ptr: IntArray  # [M+1]
    bit_of_edge: IntArray  # [E] ascending in every check
    observable_ptr: IntArray  # [L+1]
    observable_bits: IntArray
    certain: IntArray  # The errors that are known to have happened.
    certain_syndrome: BoolArray  # [D] the detectors that these errors flip
    certain_flips: BoolArray  # [L] the observables that these errors flip

    @classmethod
    def of(cls, model: ErrorModel, *, merge: bool = True) -> DecodingProblem:
        """Return the problem of a model; with `merge`, errors that flip the same targets become one bit."""
        one_each, original = model.merged() if merge else (model, np.arange(model.num_errors))
        seen = np.diff(one_each.detector_ptr) > 0
        p = one_each.priors
        is_open = seen & (p > 0.0) & (p < 1.0)
        happened = np.flatnonzero(~is_open & (p > 0.5))
        bits = np.flatnonzero(is_open)
        detector_ptr, edges = picked(one_each.detector_ptr, bits)
        check_ptr, bit_of_edge = transposed(detector_ptr, one_each.detectors[edges], model.num_detectors)
        sizes = np.diff(check_ptr)
        kept = np.flatnonzero(sizes)
        own_ptr, own = picked(one_each.observable_ptr, bits)
        flips = np.zeros((2, max(model.num_detectors, model.num_observables)), np.int64)
        for total, ptr, targets in (
            (flips[0], one_each.detector_ptr, one_each.detectors),
            (flips[1], one_each.observable_ptr, one_each.observables),
        ):
            np.add.at(total, targets[picked(ptr, happened)[1]], 1)
        return cls(
            model, original[bits], np.log1p(-p[bits]) - np.log(p[bits]),
            kept, ptr_of(sizes[kept]), bit_of_edge,
            *transposed(own_ptr, one_each.observables[own], model.num_observables),
            original[happened],
            flips[0, : model.num_detectors] % 2 == 1, flips[1, : model.num_observables] % 2 == 1,
        )  # fmt: skip

    @property
    def num_bits(self) -> int:
        """V, the number of bits."""
        return len(self.ratio)

    @property
    def num_checks(self) -> int:
        """M, the number of checks."""
        return len(self.detector_of_check)

    @property
    def degrees(self) -> NDArray[np.float32]:
        """[V] the number of checks of every bit."""
        return np.bincount(self.bit_of_edge, minlength=self.num_bits).astype(np.float32)

    def syndromes(self, shots: BoolArray) -> tuple[NDArray[np.uint8], BoolArray]:
        """Return the syndromes of shots [C, D], packed [C, ceil(M/8)], and [C] whether bits can explain the shot.

        They cannot if a detector has fired that no bit flips.
        """
        left = shots ^ self.certain_syndrome
        unseen = np.ones(self.model.num_detectors, bool)
        unseen[self.detector_of_check] = False
        packed = np.packbits(left[:, self.detector_of_check], axis=1, bitorder="little")
        return packed, np.asarray(~left[:, unseen].any(axis=1))

    def corrections(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return errors of the model [C, num_errors] from packed bits [C, ceil(V/8)]."""
        found = np.zeros((len(packed), self.model.num_errors), np.uint8)
        found[:, self.error_of_bit] = np.unpackbits(packed, axis=1, bitorder="little", count=self.num_bits)
        found[:, self.certain] = 1
        return found


def transposed(ptr: IntArray, columns: IntArray, num_columns: int) -> tuple[IntArray, IntArray]:
    """Return the rows of each column, ascending: pointer [num_columns+1] and rows."""
    order = np.argsort(columns, kind="stable")
    return ptr_of(np.bincount(columns, minlength=num_columns)), row_of(ptr)[order]
