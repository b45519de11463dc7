"""Probabilities of errors that differ from shot to shot: soft readout, drifting noise and erasures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding.error_model import odd_probability
from equifactor.decoding.given_arrays import read_array
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_MOST = 2**31  # The largest number of log ratios of one call, 8 GiB. Chosen by hand.
_CHUNK = 256  # The number of shots whose log ratios are computed at a time. Chosen by hand.
# The log ratio of a bit that is certain in a shot. Other log ratios are below 745, since numbers are above 2^-1075.
CERTAIN = 1000.0


def shot_ratios(problem: DecodingProblem, count: int, priors: Any, erasures: Any) -> NDArray[np.float32] | None:
    """Return the log ratios [N, V] of the bits of every shot, or None if all shots have those of the model.

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
        raise OptionError(f"{count} shots with their own priors take too much memory. Decode them in several calls.")
    return _merged_ratios(problem, count, given, lost.astype(bool))


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


def _merged_ratios(problem: DecodingProblem, count: int, given: FloatArray, lost: Any) -> NDArray[np.float32]:
    """Return the log ratios of the bits: a bit is an odd number of the errors that flip the same targets."""
    group = problem.model.groups()
    order = np.argsort(group, kind="stable")
    begins = ptr_of(np.bincount(group))[:-1]
    own = group[problem.error_of_bit]
    ratios = np.zeros((count, problem.num_bits), np.float32)  # Those of parts stay 0.
    for first in range(0, count, _CHUNK):
        rows = slice(first, min(first + _CHUNK, count))
        p = np.where(lost[rows] if lost.ndim == 2 else lost, 0.5, given[rows] if given.ndim == 2 else given)
        p = np.broadcast_to(p, (rows.stop - first, problem.model.num_errors))
        odd = odd_probability(p[:, order], begins)[:, own]
        with np.errstate(divide="ignore"):  # of probabilities 0 and 1
            ratios[rows, : len(own)] = np.clip(np.log1p(-odd) - np.log(odd), -CERTAIN, CERTAIN)
    return ratios
