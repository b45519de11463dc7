"""The log ranges of tables, and the floor of log messages that follows from them; for numpy and for torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.kinds import kind_class

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import FactorGroup, StructuredGroup

_LEAST_WIDTH = 10.0  # The least log range, in nats, that is assumed of a model. Chosen by hand.
_TIMES_WIDTH = 1e3  # The floor of log messages in ranges of the widest table. Chosen by hand.


def message_floor(flat: FlatGraph[Any]) -> Any:
    """Return the floor of log messages that are not true zeros: -1000 times the range of the widest table.

    Around loops of hard constraints the log message of an impossible state may double with every sweep. Unbounded, it
    takes all digits from the sums that it enters, and then overflows into a zero that no table has. Without zeros no
    message can grow in this way, and the floor is -inf.

    Returns:
        a number, or a tensor [] for a graph of tensors, so that nothing waits for the device.
    """
    if not flat.has_zeros:
        return -math.inf
    array = _functions_for(flat.log_phi)
    widest = _LEAST_WIDTH
    for group in flat.groups:
        ranges = array.nan_to_num(table_ranges(flat, group), nan=0.0, posinf=0.0, neginf=0.0)
        widest = array.clip(array.amax(ranges), widest, None)
    for other in flat.structured:
        widest = array.clip(_structured_width(flat, other), widest, None)
    return -_TIMES_WIDTH * widest


def table_ranges(flat: FlatGraph[Any], group: FactorGroup) -> Any:
    """Return [F] of a group the largest log entry of each table less the smallest one that is not a true zero."""
    array = _functions_for(flat.log_phi)
    log_phi = flat.log_phi if array is np else flat.log_phi.detach()
    table = log_phi[group.entries].reshape(group.num_factors, -1)
    low = array.amin(array.where(array.isneginf(table), np.inf, table), 1)
    return array.amax(table, 1) - low


def structured_ranges(flat: FlatGraph[Any], group: StructuredGroup) -> FloatArray:
    """Return [N] the ranges of a group of structured factors, or upper bounds on them."""
    log_phi: Any = flat.log_phi if isinstance(flat.log_phi, np.ndarray) else flat.log_phi.detach().cpu().numpy()
    return kind_class(group.kind).log_ranges(group.rows(log_phi[group.entries].astype(float)))


def _structured_width(flat: FlatGraph[Any], group: StructuredGroup) -> Any:
    """Return the widest range in a group of structured factors: an array or a tensor []."""
    if isinstance(flat.log_phi, np.ndarray):
        return structured_ranges(flat, group).max()
    import torch

    if flat.log_phi.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        return flat.log_phi.new_tensor(float(structured_ranges(flat, group).max()))
    # While a CUDA graph is captured the values cannot be read: take an upper bound for factors of their size.
    values = flat.log_phi[group.entries].detach().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    longest = max(int(np.diff(group.edge_ptr).max()), int(group.words.max(initial=1)))
    return 2.0 * longest * values.abs().amax() + 100.0


def _functions_for(values: Any) -> Any:
    """Return the module, numpy or torch, whose functions take these values."""
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch
