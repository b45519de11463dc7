"""How the parameters of a structured factor are learned by EM.

`StructuredFactor.learning` names a class with these methods. Factors of a kind without one are not learned. EM sees a
learned factor as a dense table: the class reads the parameters off the table and writes them into it.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from equifactor.graph.kinds import kind_class

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray


class KindLearning(ABC):
    """The parameters of one factor, which is written as a dense table within the log tables [T] of a graph."""

    factor: int  # The number of the factor.

    @classmethod
    @abstractmethod
    def of(cls, number: int, first: int, factor: Any, arity: int) -> Self | None:
        """Return the parameters of a factor, or None if this factor cannot be learned.

        Args:
            number: the number of the factor.
            first: the entry of the whole graph at which its dense table starts.
            factor: the factor as a user writes it.
            arity: the number of its variables.
        """

    @abstractmethod
    def log_values(self, log_phi: FloatArray) -> FloatArray:
        """Return the log values that a row of this kind stores, read off the log tables [T]."""

    @abstractmethod
    def start(self, log_phi: FloatArray, noise: FloatArray | None) -> None:
        """Set the start of EM in the log tables [T]; `noise` [arity] from 0 to 1 makes it random."""

    @abstractmethod
    def maximise(self, counts: FloatArray, prior: float, before: FloatArray, log_phi: FloatArray) -> None:
        """Write the result of one maximisation step into log tables [T].

        Args:
            counts: [T] expected counts of all entries.
            prior: the count of each of the two outcomes of a hidden event before any data.
            before: [T] the log tables under which the counts were expected.
            log_phi: [T] the new log tables.
        """

    @abstractmethod
    def log_prior(self, prior: float, log_phi: FloatArray) -> float:
        """Return the log density of the parameters under the prior, up to a constant."""


def learning_of(number: int) -> type[KindLearning]:
    """Return the class that learns factors of a kind, which is given by its number and has the attribute `learning`."""
    module, _, name = kind_class(number).learning.partition(":")
    found: type[KindLearning] = getattr(importlib.import_module(module), name)
    return found
