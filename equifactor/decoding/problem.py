"""The problem that a decoder solves: the undecided bits, their checks, and the errors that are known beforehand."""

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
    """V bits in M checks. A bit is a merged error that may or may not have happened and that flips some detector.

    A merged error is an odd number of the errors that flip the same detectors and observables. Merged errors of
    probability 0 or 1, and those that flip no detector, are decided beforehand. Sums over all errors need the latter as
    bits too. A detector that no bit flips has a known value; a shot with another value cannot be explained.
    """

    model: ErrorModel
    error_of_bit: IntArray  # [V] the error of a bit with the probability closest to 1/2: the cheapest error to change
    errors_without_bits: NDArray[np.uint8]  # [E] the likeliest errors if no bit is set
    ratio: FloatArray  # [V] ln (1-p)/p of the merged error
    detector_of_check: IntArray  # [M]
    check_ptr: IntArray  # [M+1]
    bit_of_edge: IntArray  # [E] ascending in every check
    observable_ptr: IntArray  # [L+1]
    observable_bits: IntArray
    certain_syndrome: BoolArray  # [D] the detectors flipped by the merged errors that are known to have happened
    certain_flips: BoolArray  # [L] the observables flipped by these errors
    num_links: int = 0  # the first checks are links, and the last bits are as many parts: see `linked_parts`

    @classmethod
    def of(cls, model: ErrorModel, *, merge: bool = True, unseen: bool = False) -> DecodingProblem:
        """Return the problem of a model.

        Args:
            model: the errors.
            merge: whether errors that flip the same targets become one bit.
            unseen: whether merged errors that flip no detector are bits, without checks.
        """
        one_each = model.merged()[0] if merge else model
        group = model.groups() if merge else np.arange(model.num_errors)
        seen = (np.diff(one_each.detector_ptr) > 0) | unseen
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
        errors, flexible = _likeliest_members(model.priors, group, happened, len(p))
        for total, ptr, targets in (
            (flips[0], one_each.detector_ptr, one_each.detectors),
            (flips[1], one_each.observable_ptr, one_each.observables),
        ):
            np.add.at(total, targets[picked(ptr, happened)[1]], 1)
        return cls(
            model, flexible[bits], errors, np.log1p(-p[bits]) - np.log(p[bits]),
            kept, ptr_of(sizes[kept]), bit_of_edge,
            *transposed(own_ptr, one_each.observables[own], model.num_observables),
            flips[0, : model.num_detectors] % 2 == 1, flips[1, : model.num_observables] % 2 == 1,
        )  # fmt: skip

    @property
    def num_bits(self) -> int:
        """V, the number of bits."""
        return len(self.ratio)

    @property
    def num_checks(self) -> int:
        """M, the number of checks."""
        return self.num_links + len(self.detector_of_check)

    @property
    def degrees(self) -> NDArray[np.float32]:
        """[V] the number of checks of every bit."""
        return np.bincount(self.bit_of_edge, minlength=self.num_bits).astype(np.float32)

    def num_free(self) -> int:
        """Return the number of bits less the rank of the checks."""
        pivots: dict[int, int] = {}  # rows as whole numbers, by their highest bits
        for begin, end in zip(self.check_ptr[:-1].tolist(), self.check_ptr[1:].tolist(), strict=True):
            row = sum(1 << bit for bit in self.bit_of_edge[begin:end].tolist())
            while row and (place := row.bit_length()) in pivots:
                row ^= pivots[place]
            if row:
                pivots[row.bit_length()] = row
        return self.num_bits - len(pivots)

    def observable_words(self) -> NDArray[np.uint64]:
        """Return [L] a word for every observable: a bit of its own, or a random word if there are over 64."""
        count = self.model.num_observables
        if count > 64:
            return np.random.default_rng(2).integers(1, 2**64, count, np.uint64)
        return np.uint64(1) << np.arange(count, dtype=np.uint64)

    def flip_keys(self) -> NDArray[np.uint64]:
        """Return [V] a word for the observables that every bit flips: the sum modulo 2 of `observable_words`."""
        keys = np.zeros(self.num_bits, np.uint64)
        np.bitwise_xor.at(keys, self.observable_bits, self.observable_words()[row_of(self.observable_ptr)])
        return keys

    def syndromes(self, shots: BoolArray) -> tuple[NDArray[np.uint8], BoolArray]:
        """Return the syndromes of shots [C, D], packed [C, ceil(M/8)], and [C] whether bits can explain the shot.

        Bits cannot explain a shot in which a detector that no bit flips has an unexpected value.
        """
        left = shots ^ self.certain_syndrome
        unseen = np.ones(self.model.num_detectors, bool)
        unseen[self.detector_of_check] = False
        bits = np.zeros((len(left), self.num_links + len(self.detector_of_check)), bool)
        bits[:, self.num_links :] = np.take(left, self.detector_of_check, axis=1)
        return np.packbits(bits, axis=1, bitorder="little"), np.asarray(~left[:, unseen].any(axis=1))

    def corrections(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the likeliest errors of the model [C, num_errors] that make up packed bits [C, ceil(V/8)]."""
        found = np.tile(self.errors_without_bits, (len(packed), 1))
        count = len(self.error_of_bit)
        found[:, self.error_of_bit] ^= np.unpackbits(packed, axis=1, bitorder="little", count=count)
        return found


def _likeliest_members(
    priors: FloatArray, group: IntArray, happened: IntArray, num_groups: int
) -> tuple[NDArray[np.uint8], IntArray]:
    """Return the likeliest errors [E] with an odd number in the groups `happened` and an even number in the others.

    Each error takes its likelier value. If the number of errors in a group then has the wrong parity, the error of the
    group with the probability closest to 1/2 changes its value. Return also this error of each group [groups].
    """
    order = np.lexsort((-np.minimum(priors, 1.0 - priors), group))
    flexible = order[ptr_of(np.bincount(group, minlength=num_groups))[:-1]] if num_groups else order
    errors = (priors > 0.5).astype(np.uint8)
    wanted = np.zeros(num_groups, np.uint8)
    wanted[happened] = 1
    parity = (np.bincount(group, errors, minlength=num_groups) % 2).astype(np.uint8)
    errors[flexible] ^= parity ^ wanted
    return errors, flexible


def transposed(ptr: IntArray, columns: IntArray, num_columns: int) -> tuple[IntArray, IntArray]:
    """Return the rows of each column in ascending order: pointers [num_columns+1] and rows."""
    order = np.argsort(columns, kind="stable")
    return ptr_of(np.bincount(columns, minlength=num_columns)), row_of(ptr)[order]
