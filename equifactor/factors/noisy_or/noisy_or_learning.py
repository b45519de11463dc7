"""Leaks and inhibitors of noisy-or factors, learned by EM.

The failure of an active cause is a hidden event, and so is the failure of the leak. If the effect is absent, all of
them have failed. If it is present, cause i has fired with probability `(1 - q_i) / (1 - P(absent | causes))`. Expected
counts over the whole scope determine these numbers, so the factor takes part in EM as a dense table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Self

import numpy as np

from equifactor.factors.kind_learning import KindLearning
from equifactor.factors.noisy_or import log1mexp

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.factors.noisy_or import NoisyOr

_CERTAIN = 1e-12  # The least distance of a probability from 0 and 1, so that a table determines it. Chosen by hand.
_UNKNOWN = 0.05  # The least distance of a start from 0 and 1. Chosen by hand.


@dataclass(frozen=True, eq=False)
class NoisyOrLearning(KindLearning):
    """A noisy-or of k causes, written as a dense table of n = 2^k pairs of entries."""

    factor: int
    active: FloatArray  # [n, 1 + k] ones for the leak, and whether each cause is active
    absent: IntArray  # [n] the entry of each configuration of causes without the effect
    present: IntArray  # [n] the entry of each configuration of causes with the effect
    singles: IntArray  # [1 + k] the configurations with no active cause, and with one active cause

    @classmethod
    def of(cls, number: int, first: int, factor: NoisyOr, arity: int) -> Self | None:
        """Return the table of one factor, or None if its effect is not in its scope."""
        if factor.effect is not None:
            return None
        signs = np.ones(arity, np.int64) if factor.signs is None else np.asarray(factor.signs, np.int64)
        states = np.array(list(product((0, 1), repeat=arity)), np.int64)  # the states of the entries, in C order
        on = states == signs
        effect, causes = on[:, factor.place], np.delete(on, factor.place, axis=1)
        rank = causes @ (1 << np.arange(arity - 1))
        absent, present = (np.flatnonzero(effect == e)[np.argsort(rank[effect == e])] for e in (False, True))
        active = np.hstack((np.ones((len(absent), 1)), causes[absent]))
        singles = np.concatenate(([0], 1 << np.arange(arity - 1)))
        return cls(number, active, first + absent, first + present, singles)

    def log_values(self, log_phi: FloatArray) -> FloatArray:
        """Return ln(1 - leak) and the logs of the inhibitors [1 + k], from log tables [T]."""
        found = log_phi[self.absent[self.singles]]
        return np.concatenate((found[:1], found[1:] - found[0]))

    def write(self, log_failures: FloatArray, log_phi: FloatArray) -> None:
        """Set the entries of this factor in log tables [T]."""
        fail = np.clip(np.exp(log_failures), _CERTAIN, 1.0 - _CERTAIN)
        log_absent = self.active @ np.log(fail)
        log_phi[self.absent] = log_absent
        log_phi[self.present] = log1mexp(log_absent)

    def start(self, log_phi: FloatArray, noise: FloatArray | None) -> None:
        """Set the start of EM: the present values, moved away from 0 and 1, or noise [1 + k] if it is given."""
        fail = np.clip(np.exp(self.log_values(log_phi)), _UNKNOWN, 1.0 - _UNKNOWN)
        self.write(np.log(fail if noise is None else _UNKNOWN + (1.0 - 2 * _UNKNOWN) * noise), log_phi)

    def maximise(self, counts: FloatArray, prior: float, before: FloatArray, log_phi: FloatArray) -> None:
        """Write the result of one maximisation step into log tables [T].

        Args:
            counts: [T] expected counts of all entries.
            prior: the count of failures, and of firings, of each cause before any data.
            before: [T] the log tables under which the counts were expected.
            log_phi: [T] the new log tables.
        """
        absent, present = counts[self.absent], counts[self.present]
        log_fail = self.log_values(before)
        fired = np.exp(log1mexp(log_fail) - before[self.present][:, None]) * self.active  # given the effect
        tries = self.active.T @ (absent + present) + 2.0 * prior
        failed = self.active.T @ absent + ((self.active - fired).T @ present) + prior
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(tries > 0.0, np.log(failed / tries), log_fail)
        self.write(found, log_phi)

    def log_prior(self, prior: float, log_phi: FloatArray) -> float:
        """Return the log density of leak and inhibitors under the prior, up to a constant."""
        log_fail = self.log_values(log_phi)
        return prior * float((log_fail + log1mexp(log_fail)).sum()) if prior else 0.0
