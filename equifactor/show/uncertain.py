"""The order in which variables are shown: the most uncertain first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.questions.result import Result


def shown_variables(result: Result) -> IntArray:
    """Return the unobserved variables that have marginals."""
    free = result.graph.free_vars
    return free[np.diff(result.marginals.ptr)[free] > 0]


def most_uncertain(result: Result) -> IntArray:
    """Return the variables to show, the most uncertain first; ties keep their order."""
    chosen = shown_variables(result)
    p, ptr = result.marginals.values, result.marginals.ptr
    terms = np.append(np.where(p > 0, -p * np.log(np.where(p > 0, p, 1.0)), 0.0), 0.0)
    entropies = np.add.reduceat(terms, ptr[:-1]) if len(chosen) else np.zeros(result.graph.num_vars)
    return chosen[np.argsort(-entropies[chosen].round(12), kind="stable")]
