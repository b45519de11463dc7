# mypy: ignore-errors
"""The loop over potentials of `FactorSums`."""

import math

from equifactor.numerics.jit import kernel
from equifactor.solvers.elimination.elimination_kernels import run_batch


@kernel
def run_with_factors(log_phi, p, log_z, entries, slots, entry_of_slot, groups, clusters, tables, work):
    """Eliminate each row of log_phi [N, t] and copy the separators' probabilities at `slots` into entries [N, t]."""
    arena = tables[2]
    for g in range(len(log_phi)):
        run_batch(log_phi[g : g + 1], True, p[g : g + 1], log_z[g : g + 1], groups, clusters, tables, work)
        if log_z[g] > -math.inf:
            for k in range(len(slots)):
                entries[g, entry_of_slot[k]] = arena[slots[k]]
