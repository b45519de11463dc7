"""The errors of a code: independent errors, and the detectors and observables that each error flips."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_fields
from equifactor.base.errors import ModelError, brief
from equifactor.decoding.given_arrays import read_array
from equifactor.generators.argument_checks import whole
from equifactor.kernels.pointers import picked, ptr_of, row_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray


@checks_fields(
    "num_detectors",
    "num_observables",
    "detector_ptr",
    "detectors",
    "observable_ptr",
    "observables",
    "priors",
    "kept_detectors",
    "num_all_detectors",
)
@dataclass(frozen=True, eq=False)
class ErrorModel:
    """E independent errors. Error e happens with probability `priors[e]` and flips its detectors and observables.

    A shot is the sum of its errors modulo 2: a detector that two errors flip does not fire.
    """

    num_detectors: int
    num_observables: int
    detector_ptr: IntArray  # [E+1] detectors of error e are detectors[detector_ptr[e]:detector_ptr[e+1]]
    detectors: IntArray  # ascending within every error
    observable_ptr: IntArray  # [E+1]
    observables: IntArray
    priors: FloatArray  # [E]
    kept_detectors: IntArray | None = None  # [D] the numbers that the detectors had before `with_detectors`
    num_all_detectors: int | None = None  # the number of detectors before `with_detectors`

    def __post_init__(self) -> None:
        for name in ("detector_ptr", "detectors", "observable_ptr", "observables", "priors"):
            object.__setattr__(self, name, np.atleast_1d(getattr(self, name)))
        whole("The number of detectors", self.num_detectors, 0, 2**31)
        whole("The number of observables", self.num_observables, 0, 2**31)
        for ptr, targets, count, name in (
            (self.detector_ptr, self.detectors, self.num_detectors, "detector"),
            (self.observable_ptr, self.observables, self.num_observables, "observable"),
        ):
            fits = self.priors.ndim == 1 and ptr.shape == (len(self.priors) + 1,) and targets.ndim == 1
            fits = fits and ptr[0] == 0 and ptr[-1] == len(targets) and bool(np.all(np.diff(ptr) >= 0))
            if not fits or not np.all((targets >= 0) & (targets < count)):
                raise ModelError(
                    f"{name}_ptr must have one entry for each of {len(self.priors)} errors and one more, and {name}s "
                    f"must be numbers below {count}. ErrorModel.of_edges makes both from pairs."
                )

    @classmethod
    def of_edges(
        cls,
        sizes: tuple[int, int],
        priors: ArrayLike,
        detector_edges: tuple[ArrayLike, ArrayLike],
        observable_edges: tuple[ArrayLike, ArrayLike],
    ) -> ErrorModel:
        """Return the model with these pairs of (error, detector) and (error, observable); a pair given twice cancels.

        Args:
            sizes: the numbers of detectors and of observables.
            priors: [E] probabilities.
            detector_edges: errors [n] and detectors [n].
            observable_edges: errors [n] and observables [n].
        """
        p = _read_priors(priors)
        if p.ndim != 1 or not isinstance(sizes, (tuple, list)) or len(sizes) != 2:
            raise ModelError(
                "Expected the numbers of detectors and observables as a pair, and a list of priors; found "
                f"{brief(sizes)} and priors of shape {p.shape}."
            )
        num_detectors, num_observables = (whole("The number of detectors or observables", n, 0) for n in sizes)
        seen = _odd_rows("detector", detector_edges, len(p), num_detectors)
        flipped = _odd_rows("observable", observable_edges, len(p), num_observables)
        return cls(num_detectors, num_observables, *seen, *flipped, p)

    @classmethod
    def of_matrices(cls, checks: Any, priors: ArrayLike, observables: Any = None) -> ErrorModel:
        """Return the model of a check matrix [D, E] and an observable matrix [L, E] of zeros and ones, dense or sparse.

        `priors` is one probability for all errors, or one for each error [E].
        """
        if checks is None:
            raise ModelError("A check matrix is needed, found None. Pass zeros and ones [detectors, errors].")
        row, error, (num_detectors, num_errors) = _read_matrix("check matrix", checks)
        own, other, (num_observables, width) = _read_matrix("observable matrix", observables, num_errors)
        if width != num_errors:
            raise ModelError(
                f"The check matrix has {num_errors} columns and the observable matrix {width}. "
                "Both need one column per error."
            )
        given = read_array("priors", priors).astype(float)
        if given.ndim > 1 or (given.ndim == 1 and len(given) != num_errors):
            raise ModelError(
                f"priors must be one probability or one for each of {num_errors} columns, found an array of shape "
                f"{given.shape}."
            )
        p = np.broadcast_to(given, num_errors)
        return cls.of_edges((num_detectors, num_observables), p, (error, row), (other, own))

    @property
    def num_errors(self) -> int:
        """The number of errors."""
        return len(self.priors)

    def __repr__(self) -> str:
        return (
            f"ErrorModel({self.num_errors} errors, {self.num_detectors} detectors, "
            f"{self.num_observables} observables, {len(self.detectors)} edges)"
        )

    def with_detectors(self, kept: ArrayLike) -> ErrorModel:
        """Return the same errors with only some of the detectors, in the given order.

        `kept_detectors` of the new model are the numbers that its detectors have in this model.
        """
        kept = read_array("The detectors to keep", kept)
        if kept.dtype == bool and kept.shape == (self.num_detectors,):
            kept = np.flatnonzero(kept)
        inside = (kept >= 0) & (kept < self.num_detectors)
        if kept.ndim != 1 or kept.dtype.kind not in "iu" or not inside.all():
            raise ModelError(
                f"The detectors to keep must be numbers from 0 to {self.num_detectors - 1}, found {kept!r:.60}."
            )
        place = np.full(self.num_detectors, -1)
        place[kept] = np.arange(len(kept))
        if len(np.unique(kept)) != len(kept):
            raise ModelError("A detector to keep is given twice. Give each detector once.")
        error = row_of(self.detector_ptr)
        seen = place[self.detectors] >= 0
        model = ErrorModel.of_edges(
            (len(kept), self.num_observables), self.priors,
            (error[seen], place[self.detectors[seen]]), (row_of(self.observable_ptr), self.observables),
        )  # fmt: skip
        if self.kept_detectors is not None:
            return replace(model, kept_detectors=self.kept_detectors[kept], num_all_detectors=self.num_all_detectors)
        return replace(model, kept_detectors=kept.astype(np.int64), num_all_detectors=self.num_detectors)

    def merged(self) -> tuple[ErrorModel, IntArray]:
        """Merge errors that flip the same detectors and observables; a merged error is an odd number of originals.

        Returns:
            The model, with errors in the order in which they first appear, and [E'] the likeliest original of each.
        """
        group = self.groups()
        members = np.lexsort((-self.priors, group))
        begins = ptr_of(np.bincount(group))[:-1]
        likeliest = members[begins]
        detector_ptr, edges = picked(self.detector_ptr, likeliest)
        observable_ptr, others = picked(self.observable_ptr, likeliest)
        model = replace(
            self, detector_ptr=detector_ptr, detectors=self.detectors[edges], observable_ptr=observable_ptr,
            observables=self.observables[others], priors=odd_probability(self.priors[members], begins),
        )  # fmt: skip
        return model, likeliest

    def groups(self) -> IntArray:
        """Return [E] the number of the merged error to which each error belongs, in the order of `merged`."""
        keys = np.random.default_rng(1).integers(0, 2**63, (2, self.num_detectors + self.num_observables))
        error = np.concatenate((row_of(self.detector_ptr), row_of(self.observable_ptr)))
        place = np.concatenate((self.detectors, self.num_detectors + self.observables))
        # Sums of random numbers identify the sets of targets: two different sets agree with probability 2^-126.
        sums = np.zeros((2, self.num_errors), np.int64)
        for own, key in zip(sums, keys, strict=True):
            np.add.at(own, error, key[place])
        _, first, group = np.unique(sums, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)
        return np.asarray(rank[group.ravel()])


def odd_probability(priors: FloatArray, begins: IntArray) -> FloatArray:
    """Return the probability p of an odd number of errors in each group, which begins at an entry of `begins`.

    Groups are along the last axis. 1 - 2 p is the product of 1 - 2 p_i. The result is accurate even if all errors are
    rare.
    """
    if not priors.shape[-1]:
        return np.zeros(priors.shape)
    likely = priors > 0.5
    with np.errstate(divide="ignore"):  # an error of probability 1/2 makes the product 0
        log_size = np.add.reduceat(np.log1p(-2.0 * np.minimum(priors, 1.0 - priors)), begins, axis=-1)
    rare = -0.5 * np.expm1(log_size)
    return np.where(np.bitwise_xor.reduceat(likely, begins, axis=-1), 1.0 - rare, rare)


def _odd_rows(name: str, edges: Any, num_rows: int, num_columns: int) -> tuple[IntArray, IntArray]:
    """Return the pairs that are given an odd number of times, row by row: pointers [rows + 1] and columns."""
    if not isinstance(edges, (tuple, list)) or len(edges) != 2:
        raise ModelError(f"The edges of {name}s must be a pair: errors [n] and {name}s [n], found {brief(edges)}.")
    row, column = (read_array(f"The edges of {name}s", side) for side in edges)
    for side, size in ((row, num_rows), (column, num_columns)):
        whole_numbers = side.dtype.kind in "iu" or not side.size
        if side.ndim != 1 or len(side) != len(row) or not whole_numbers or not ((side >= 0) & (side < size)).all():
            raise ModelError(
                f"The edges of {name}s must be numbers from 0 to {size - 1}, found {brief(side.tolist())}."
            )
    key, count = np.unique(row.astype(np.int64) * max(num_columns, 1) + column.astype(np.int64), return_counts=True)
    key = key[count % 2 == 1]
    return ptr_of(np.bincount(key // max(num_columns, 1), minlength=num_rows)), key % max(num_columns, 1)


def _read_priors(priors: ArrayLike) -> FloatArray:
    p = read_array("priors", priors).astype(float)
    wrong = ~((p >= 0.0) & (p <= 1.0))
    if wrong.any():
        n = int(np.argmax(wrong))
        raise ModelError(f"The prior of error {n} is {p.flat[n]}. A probability must be from 0 to 1.")
    return p


def _read_matrix(name: str, matrix: Any, width: int = 0) -> tuple[IntArray, IntArray, tuple[int, int]]:
    """Return the rows and columns of the ones, and the shape. None stands for a matrix without rows."""
    if matrix is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), (0, width)
    if hasattr(matrix, "tocoo"):  # A sparse matrix of scipy, which is not imported here.
        found = matrix.tocoo()
        if hasattr(found, "sum_duplicates"):  # Entries at one place are added, as scipy does; two ones do not cancel.
            found = found.copy()
            found.sum_duplicates()
        row, column, values, shape = found.row, found.col, found.data, found.shape
    else:
        array = read_array(f"The {name}", matrix)
        if array.ndim != 2:
            raise ModelError(
                f"The {name} must have two axes and hold zeros and ones, found {array.dtype} {array.shape}."
            )
        row, column = np.nonzero(array)
        values, shape = array[row, column], array.shape
    wrong: BoolArray = (values != 0) & (values != 1)
    if wrong.any():
        n = int(np.argmax(wrong))
        raise ModelError(f"The {name} holds {values[n]} in row {row[n]} and column {column[n]}. Expected 0 or 1.")
    used = values == 1
    return row[used].astype(np.int64), column[used].astype(np.int64), (int(shape[0]), int(shape[1]))
