"""Start values of EM: counts of the rows that have all values of a scope, and noise for hidden variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.learning.fitting.data_rows import DataRows
from equifactor.learning.fitting.table_codes import table_counts

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.conditional_tables import ConditionalTables

# The shape of the gamma distribution by which counts are multiplied; larger values mean less noise. Chosen by hand.
_NOISE = 2.0


def start_tables(cpts: ConditionalTables, data: DataRows, seed: int, run: int) -> FloatArray:
    """Return the log tables [T] at which run number `run` starts; every learned entry is above zero.

    A table without hidden variables starts at the counts of the rows in which its whole scope was seen. A table with
    hidden variables starts at the counts over the rest of its scope, the same for all hidden states, times noise.
    Without noise, all hidden states would be equal, and EM would never tell them apart. Runs after the first also have
    noise in all other tables with missing values.
    """
    rng = np.random.default_rng([seed, 2, run])
    s = cpts.graph.structure
    states = data.states.copy(order="F")
    states[:, data.hidden] = 0
    counts = table_counts(s, cpts.free, DataRows(states, data.weights))
    for a in cpts.free.tolist():
        scope = s.scope(a)
        if not data.has_gaps[scope].any():
            continue
        start, stop = s.table_ptr[a : a + 2]
        hidden = data.hidden[scope]
        if hidden.any():
            own = counts[start:stop].reshape(s.shape(a))
            first = own[tuple(slice(0, 1) if h else slice(None) for h in hidden)]
            counts[start:stop] = (np.broadcast_to(first, own.shape) + 1.0 / own.size).ravel()
        if run or hidden.any():
            counts[start:stop] *= rng.gamma(_NOISE, 1.0 / _NOISE, stop - start)
    log_phi = cpts.log_tables(cpts.shared(counts) + cpts.prior(1.0))
    for part in cpts.structured:
        scope = s.scope(part.factor)
        noise = rng.random(len(scope)) if run or data.hidden[scope].any() else None
        part.start(log_phi, noise)
    return log_phi
