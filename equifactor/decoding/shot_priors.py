"""Probabilities of errors that differ from shot to shot: soft readout, drifting noise and erasures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding.error_model import odd_probability
from equifactor.decoding.given_arrays import read_array
from equifactor.kernels.pointers import picked, ptr_of, row_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_MOST = 2**31  # The largest number of log ratios of one call, 8 GiB. Chosen by hand.
_CHUNK = 256  # The number of shots whose log ratios are computed at a time. Chosen by hand.
# The log ratio of a bit that is certain in a shot. Other log ratios are below 745, since numbers are above 2^-1075.
CERTAIN = 1000.0


@dataclass(frozen=True, eq=False)
class ShotPriors:
    """Probabilities of the errors of a model in each of N shots."""

    problem: DecodingProblem
    count: int  # N
    given: FloatArray  # [E] or [N, E] probabilities
    lost: BoolArray  # [E] or [N, E] whether the probability is 1/2 instead

    @classmethod
    def read(cls, problem: DecodingProblem, count: int, priors: Any, erasures: Any) -> ShotPriors | None:
        """Return what a user gave, or None if all shots have the probabilities of the model.

        Args:
            problem: the bits, which are errors of the model put together.
            count: N, the number of shots.
            priors: [E] or [N, E] probabilities of the errors of the model, or None for its own.
            erasures: [E] or [N, E] truth values, or None; an erased error has probability 1/2.
        """
        if priors is None and erasures is None:
            return None
        model = problem.model
        given = model.priors if priors is None else read_array("priors", priors).astype(float)
        lost = np.zeros(model.num_errors, bool) if erasures is None else read_array("erasures", erasures)
        for name, array in (("priors", given), ("erasures", lost)):
            if array.shape not in ((model.num_errors,), (count, model.num_errors)):
                raise ModelError(
                    f"{name} must have the shape [{model.num_errors}] or [{count}, {model.num_errors}], one column for "
                    f"each error, found {list(array.shape)}."
                )
        if lost.dtype != bool and not ((lost == 0) | (lost == 1)).all():
            raise ModelError("erasures must be truth values, or zeros and ones.")
        if not ((given >= 0.0) & (given <= 1.0)).all():
            raise ModelError("priors must be probabilities from 0 to 1.")
        certain = (model.priors == 0.0) | (model.priors == 1.0)
        changed = (given != model.priors) | lost.astype(bool)
        if (wrong := certain & changed.any(axis=0) if changed.ndim == 2 else certain & changed).any():
            n = int(np.argmax(wrong))
            raise ModelError(
                f"Error {n} has probability {model.priors[n]:g} in the model, so that it is left out. To change it for "
                "some shots, give it a probability between 0 and 1 in the model."
            )
        if count * problem.num_bits > _MOST:
            raise OptionError(
                f"{count} shots with their own priors take too much memory. Decode them in several calls."
            )
        return cls(problem, count, given, lost.astype(bool))

    def _chunks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some shots and the probabilities [C, E] of their errors, group by group."""
        for first in range(0, self.count, _CHUNK):
            rows = slice(first, min(first + _CHUNK, self.count))
            lost, given = (own[rows] if own.ndim == 2 else own for own in (self.lost, self.given))
            p = np.where(lost, 0.5, given)
            yield rows, np.broadcast_to(p, (rows.stop - first, p.shape[-1]))[:, self.order]

    @property
    def has_hidden(self) -> bool:
        """Whether some error flips observables but no detector."""
        model = self.problem.model
        return bool(((np.diff(model.detector_ptr) == 0) & (np.diff(model.observable_ptr) > 0)).any())

    @cached_property
    def group(self) -> IntArray:
        """[E] the merged error to which each error belongs."""
        return self.problem.model.groups()

    @cached_property
    def order(self) -> IntArray:
        """[E] the errors group by group."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def begins(self) -> IntArray:
        """[groups] where each group begins in `order`."""
        return ptr_of(np.bincount(self.group))[:-1]

    def ratios(self) -> NDArray[np.float32]:
        """Return the log ratios [N, V] of the bits: a bit is an odd number of the errors that flip the same targets."""
        own = self.group[self.problem.error_of_bit]
        ratios = np.zeros((self.count, self.problem.num_bits), np.float32)  # Those of parts stay 0.
        for rows, p in self._chunks():
            odd = odd_probability(p, self.begins)[:, own]
            with np.errstate(divide="ignore"):  # of probabilities 0 and 1
                ratios[rows, : len(own)] = np.clip(np.log1p(-odd) - np.log(odd), -CERTAIN, CERTAIN)
        return ratios

    def likeliest(self, corrections: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], BoolArray]:
        """Return the likeliest errors [N, E] of every shot that make up the same bits as some errors [N, E].

        Merged errors that flip no detector are not bits: they get their likelier value. Return also the observables
        [N, L] that flip less or more often by that.
        """
        model, order, begins = self.problem.model, self.order, self.begins
        place = np.arange(len(order))
        of_error = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(order)))
        is_hidden = np.diff(model.detector_ptr) == 0
        hidden = np.flatnonzero(is_hidden[order[begins]])
        found = np.empty_like(corrections)
        for rows, p in self._chunks():
            wanted = np.bitwise_xor.reduceat(corrections[rows][:, order], begins, axis=1)
            wanted[:, hidden] = odd_probability(p, begins)[:, hidden] > 0.5
            own = (p > 0.5).astype(np.uint8)
            doubt = np.minimum(p, 1.0 - p)
            is_first = doubt == np.maximum.reduceat(doubt, begins, axis=1)[:, of_error]
            flexible = np.minimum.reduceat(np.where(is_first, place, len(place)), begins, axis=1)
            wrong = np.bitwise_xor.reduceat(own, begins, axis=1) ^ wanted
            shot, group = np.nonzero(wrong)
            own[shot, flexible[shot, group]] ^= 1
            found[rows, order] = own
        errors = np.flatnonzero(is_hidden)
        ptr, edges = picked(model.observable_ptr, errors)
        flips = np.zeros((len(errors), model.num_observables), np.int64)
        flips[row_of(ptr), model.observables[edges]] = 1
        return found, (found ^ corrections)[:, errors] @ flips % 2 == 1


def weigh_certain(store: ShotStore) -> None:
    """Mark shots as inexplicable whose errors contradict a certain bit, and leave certain bits out of the weights.

    Shots that are explained have a decoded bit for each certain bit, since every other bit costs less.
    """
    assert store.ratios is not None
    for first in range(0, store.count, _CHUNK):
        rows = slice(first, first + _CHUNK)
        ratios = store.ratios[rows]
        bits = np.unpackbits(store.correction[rows], axis=1, bitorder="little", count=ratios.shape[1]).astype(bool)
        certain = np.abs(ratios) == CERTAIN
        store.explicable[rows] &= ~(certain & (bits != (ratios < 0.0))).any(axis=1)
        store.weight[rows] += CERTAIN * (certain & bits & (ratios < 0.0)).sum(axis=1)
