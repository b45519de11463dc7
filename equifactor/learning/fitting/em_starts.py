"""Where EM starts: counts of the rows that have the values, and noise where a hidden variable has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.learning.fitting.data_table import DataTable
from equifactor.learning.fitting.table_codes import table_counts

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.learning.fitting.network_tables import NetworkTables

_NOISE = 2.0  # shape of the gamma distribution by which counts are multiplied: 1 is exponential, large values are calm


def start_tables(tables: NetworkTables, table: DataTable, seed: int, run: int) -> FloatArray:
    """[T] the log tables at which run number `run` starts; every learned entry is above zero.

    A table without hidden variables starts at the counts of the rows in which its whole scope was seen. One with hidden
    variables starts at the counts over the rest of its scope, the same for all hidden states, times noise: without
    noise all hidden states would be equal, and EM would leave them so for ever. Runs after the first have noise in all
    tables that are not complete.
    """
    rng = np.random.default_rng([seed, 2, run])
    s = tables.graph.structure
    unseen = table.states.copy(order="F")
    unseen[:, table.hidden] = 0
    counts = table_counts(s, tables.free, DataTable(unseen, table.weights))
    for a in tables.free.tolist():
        scope = s.scope(a)
        if not table.has_gaps[scope].any():
            continue
        start, stop = s.table_ptr[a : a + 2]
        hidden = table.hidden[scope]
        if hidden.any():
            own = counts[start:stop].reshape(s.shape(a))
            first = own[tuple(slice(0, 1) if h else slice(None) for h in hidden)]
            counts[start:stop] = (np.broadcast_to(first, own.shape) + 1.0 / own.size).ravel()
        if run or hidden.any():
            counts[start:stop] *= rng.gamma(_NOISE, 1.0 / _NOISE, stop - start)
    log_phi = tables.log_tables(tables.shared(counts) + tables.prior(1.0))
    for noisy_or in tables.noisy_ors:
        scope = s.scope(noisy_or.factor)
        noise = rng.random(len(scope)) if run or table.hidden[scope].any() else None
        noisy_or.start(log_phi, noise)
    return log_phi
