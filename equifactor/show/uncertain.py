"""The order in which variables are shown: the most uncertain first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.questions.result import Result


def entropies(result: Result) -> FloatArray:
    """Return the entropy [V] of each marginal in nats."""
    p = result.marginals.values
    terms = np.where(p > 0, -p * np.log(np.where(p > 0, p, 1.0)), 0.0)
    return np.add.reduceat(terms, result.marginals.ptr[:-1]) if len(result.marginals) else np.zeros(0)


def most_uncertain(result: Result) -> IntArray:
    """Return all unobserved variables, the most uncertain first; ties keep their order."""
    free = result.graph.free_vars
    return free[np.argsort(-entropies(result)[free].round(12), kind="stable")]
