"""The last check of an answer that an iteration gave: whether the model has a possible assignment at all.

On loops, messages and networks give numbers for a model whose zeros exclude every assignment, and may even settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.status import Status
from equifactor.graph.scores import batch_log_scores
from equifactor.solving.estimate import Estimate, LazyEstimates, impossible

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals

_MOST_ENTRIES = 2**12  # Table entries of a graph up to which it is decided by elimination, in milliseconds. By hand.
_MOST_PROOFS = 16  # Graphs of one call that are decided by elimination at most. Chosen by hand.
_UNPROVEN = (
    "No assignment of positive probability is known. If the zeros of the model exclude all of them, this answer means "
    "nothing. Use exact or auto to find out."
)


def with_possibility(estimates: Sequence[Estimate], graphs: list[FactorGraph], clock: Clock) -> Sequence[Estimate]:
    """Return the estimates, with status `zero-probability` or advice where the answer may mean nothing.

    An answer is checked if its graph has zeros and neither a bound nor a sampler shows that some assignment is
    possible. The likeliest state of every variable often is one. Otherwise a small graph is decided by elimination.
    """
    if isinstance(estimates, LazyEstimates):
        return estimates
    doubtful = [n for n, (e, g) in enumerate(zip(estimates, graphs, strict=True)) if _is_doubtful(e, g)]
    decoded = [(graphs[n], _likeliest(m)) for n in doubtful if (m := estimates[n].marginals) is not None]
    scores = iter(batch_log_scores(*zip(*decoded, strict=True)) if decoded else ())
    checked, proofs = list(estimates), 0
    for n in doubtful:
        if estimates[n].marginals is not None and next(scores) > -np.inf:
            continue
        if proofs < _MOST_PROOFS and graphs[n].structure.num_entries <= _MOST_ENTRIES:
            from equifactor.solvers.elimination.impossibility import is_possible

            proofs += 1
            found = is_possible(graphs[n], clock)
            if found is not None:
                checked[n] = checked[n] if found else impossible()
                continue
        checked[n] = replace(checked[n], message=f"{checked[n].message} {_UNPROVEN}".strip())
    return checked


def _is_doubtful(estimate: Estimate, graph: FactorGraph) -> bool:
    """Return whether an iteration has ended, and no possible assignment of its graph is known."""
    if estimate.status not in (Status.CONVERGED, Status.ITERATION_LIMIT) or estimate.assignment is not None:
        return False
    known = estimate.standard_errors is not None or estimate.log_z_error is not None
    known = known or (estimate.lower_bound is not None and estimate.lower_bound > -np.inf)
    return not known and bool(graph.log_phi.min(initial=0.0) == -np.inf)


def _likeliest(marginals: Marginals) -> np.ndarray:
    """[V] the likeliest state of each variable."""
    ptr = marginals.ptr
    if len(ptr) < 2:
        return np.zeros(0, np.int64)
    values = np.nan_to_num(marginals.values)
    at_top = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, ptr[:-1]), np.diff(ptr)))
    return at_top[np.searchsorted(at_top, ptr[:-1])] - ptr[:-1]
