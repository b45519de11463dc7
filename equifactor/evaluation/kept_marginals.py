"""Marginals as text that fits into a row of results, so that an answer can be scored again without solving again."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.marginals import Marginals
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph

# The fastest level of zlib: digits of probabilities hardly compress, and zeros and ones compress at any level.
_ZLIB_LEVEL = 1


class KeptMarginals(NamedTuple):
    """An answer for MAR and the trivial answer, which the score compares it to."""

    found: Marginals | None  # None if the solver gave no answer
    uniform: Marginals


def pack(graph: FactorGraph, found: Marginals | None) -> str:
    """Return the cardinalities, evidence and marginals of a graph as text, with all digits.

    The text has at most about 11 bytes per state: V, card [V], the observed states [V] (-1 if free), the values [X].
    """
    observed = np.full(graph.num_vars, -1) if graph.observed is None else graph.observed
    head = np.concatenate(([graph.num_vars], graph.card, observed)).astype("<i8").tobytes()
    values = b"" if found is None else found.values.astype("<f8").tobytes()
    return base64.b64encode(zlib.compress(head + values, _ZLIB_LEVEL)).decode("ascii")


def unpack(text: str) -> KeptMarginals:
    """Return the marginals that `pack` wrote, and the trivial ones."""
    data = zlib.decompress(base64.b64decode(text))
    num_vars = int(np.frombuffer(data, "<i8", 1)[0])
    card, observed = np.frombuffer(data, "<i8", 2 * num_vars, 8).reshape(2, num_vars)
    values = np.frombuffer(data, "<f8", offset=8 * (1 + 2 * num_vars))
    ptr = ptr_of(card)
    found = None if len(values) < ptr[-1] else Marginals(values, ptr)
    return KeptMarginals(found, uniform_marginals(card, observed))


def uniform_marginals(card: IntArray, observed: IntArray) -> Marginals:
    """Return marginals in which the states of a free variable are equally likely and observed states are certain."""
    ptr = ptr_of(card)
    seen = np.flatnonzero(observed >= 0)
    values = np.repeat(np.where(observed < 0, 1.0 / card, 0.0), card)
    values[ptr[:-1][seen] + observed[seen]] = 1.0
    return Marginals(values, ptr)
