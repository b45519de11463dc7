"""Post-selection: the error rate of the shots that are left if the least certain shots are set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding.given_arrays import read_array
from equifactor.generators.argument_checks import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray

STEP, STEPS = 0.25, 80  # The width and the number of the intervals of gaps that `equifactor decode` counts.


@dataclass(frozen=True, eq=False)
class PostSelection:
    """A curve with a point for every smallest gap: shots with a smaller gap are set aside.

    Attributes:
        gap: [K] the smallest gap of the shots that are left, ascending; the first point sets no shot aside.
        shots: [K] the number of shots that are left.
        errors: [K] the number of these shots that were decoded wrongly.
    """

    gap: FloatArray
    shots: IntArray
    errors: IntArray

    @classmethod
    def of_shots(cls, gap: ArrayLike, wrong: ArrayLike) -> PostSelection:
        """Return the curve of shots.

        Args:
            gap: [N] as in `DecodingResult.gap`.
            wrong: [N] whether each shot was decoded wrongly, as `DecodingResult.errors` returns it.
        """
        gaps = read_array("gap", gap).astype(float)
        failed = read_array("wrong", wrong).astype(bool)
        if gaps.ndim != 1 or gaps.shape != failed.shape or np.isnan(gaps).any():
            raise ModelError(
                f"Expected one gap and one truth value for each shot, found arrays of shapes {gaps.shape} and "
                f"{failed.shape}."
            )
        levels, place = np.unique(gaps, return_inverse=True)
        return cls.of_counts(levels, np.bincount(place.ravel()), np.bincount(place.ravel(), failed).astype(int))

    @classmethod
    def of_counts(cls, gap: ArrayLike, shots: ArrayLike, errors: ArrayLike) -> PostSelection:
        """Return the curve of numbers of shots and errors [K] whose gaps are at least `gap` [K] and below the next."""
        gaps, count, failed = (read_array(n, a) for n, a in (("gap", gap), ("shots", shots), ("errors", errors)))
        if (
            gaps.ndim != 1
            or not gaps.shape == count.shape == failed.shape
            or {count.dtype.kind, failed.dtype.kind} - {*"biu"}
        ):
            raise ModelError("Expected lists of one length: gaps, and whole numbers of shots and errors.")
        return cls(gaps.astype(float), count[::-1].cumsum()[::-1], failed[::-1].cumsum()[::-1])

    @property
    def set_aside(self) -> FloatArray:
        """[K] the share of the shots that is set aside."""
        return 1.0 - self.shots / max(1, int(self.shots[:1].sum()))

    @property
    def rate(self) -> FloatArray:
        """[K] errors per shot that is left."""
        return self.errors / np.maximum(1, self.shots)

    @property
    def error(self) -> FloatArray:
        """[K] the binomial standard errors of the rates."""
        return np.sqrt(self.rate * (1.0 - self.rate) / np.maximum(1, self.shots))

    @checks_types("share")
    def at(self, share: float) -> tuple[int, int]:
        """Return the numbers of shots and errors that are left if at most this share of the shots is set aside."""
        if not 0.0 <= share <= 1.0:
            raise OptionError(f"The share to set aside must be from 0 to 1, found {share}.")
        if not len(self.shots):
            return 0, 0
        k = int(np.flatnonzero(self.set_aside <= share + 1e-12)[-1])
        return int(self.shots[k]), int(self.errors[k])

    def points(self, count: int = 16) -> list[tuple[float, int, int]]:
        """Return points (share set aside, shots, errors) for `ef.plot.plot_error_rates`, even on a log scale."""
        total = int(self.shots[:1].sum())
        shares = np.geomspace(max(1e-4, 2.0 / max(2, total)), 0.5, whole("count", count, 2, 1000) - 1)
        found = dict.fromkeys(self.at(float(share)) for share in (0.0, *shares))
        return [(1.0 - shots / total, shots, errors) for shots, errors in found if shots]

    @checks_types("title")
    def plot(self, title: str = "", *, ax: Axes | None = None) -> Axes:
        """Draw the rate against the share that is set aside, and return the axes. It needs matplotlib."""
        from equifactor.show.plot import plot_error_rates

        return plot_error_rates({title: self.points()}, x="share of the shots that is set aside", ax=ax)

    def to_csv(self) -> str:
        """Return the curve as text: a line with the gap, the share set aside, the shots, the errors and the rate."""
        rows = zip(self.gap, self.set_aside, self.shots, self.errors, self.rate, strict=True)
        lines = [f"{gap:.6g},{share:.6g},{shots},{errors},{rate:.6g}" for gap, share, shots, errors, rate in rows]
        return "\n".join(("gap,set_aside,shots,errors,rate", *lines)) + "\n"

    def __str__(self) -> str:
        from equifactor.decoding.error_sampling import binomial_text

        parts = [f"{100 * share:g} %: {binomial_text(errors, shots)}" for share in (0.001, 0.01, 0.1)
                 for shots, errors in [self.at(share)] if shots]  # fmt: skip
        return "rate with the least certain shots set aside: " + "; ".join(parts)


def counts_by_gap(gap: FloatArray, wrong: BoolArray) -> dict[str, list[int]]:
    """Return the numbers of shots and errors by intervals of the gap, which can be added up over runs."""
    place = np.minimum(gap / STEP, STEPS).astype(int)
    return {
        "shots": np.bincount(place, minlength=STEPS + 1).tolist(),
        "errors": np.bincount(place, wrong, minlength=STEPS + 1).astype(int).tolist(),
    }


def curve_of_counts(counts: dict[str, list[int]]) -> PostSelection:
    """Return the curve of the numbers that `counts_by_gap` returns."""
    shots, errors = np.asarray(counts["shots"]), np.asarray(counts["errors"])
    seen = shots > 0
    return PostSelection.of_counts(STEP * np.flatnonzero(seen), shots[seen], errors[seen])
