# mypy: ignore-errors
"""The compiled loop over the structured factors of a batch; networks on dense tables do not need it."""

from equifactor.factors.kind_rows import NUM_TABLES
from equifactor.factors.structured_kernels import structured_messages
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def all_structured_messages(factors, slots, log_phi, rows, q, out):
    """Fill `out` [S] at the slots of all structured factors with their log messages, not normalised."""
    for p in range(rows[NUM_TABLES], len(factors) - 1):
        structured_messages(factors, slots, log_phi, rows, p, q, out)
