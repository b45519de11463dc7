"""How wide tables are, and the floor of log messages that follows; for arrays of numpy and of torch alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.kinds import kind_class

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import FactorGroup, StructuredGroup

_LEAST_WIDTH = 10.0  # natural-log range that every model is granted
_TIMES_WIDTH = 1e3  # how far below 0 a log message may lie, in ranges of the widest table


def message_floor(flat: FlatGraph[Any]) -> Any:
    """Log messages below this, true zeros aside, are held here: a thousand times the widest table, at least -10^4.

    Around loops of hard constraints the message of an impossible state may double with every sweep. Left alone it takes
    all digits from the sums it enters, then overflows into a zero that no table states. Without zeros no message can
    run away, and there is no floor.

    Returns:
        a number, or a tensor [] where the graph is one of tensors: nothing waits for the device.
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
    """[F] of a group: the largest log entry of each table less the smallest one that is no true zero."""
    array = _functions_for(flat.log_phi)
    log_phi = flat.log_phi if array is np else flat.log_phi.detach()
    table = log_phi[group.entries].reshape(group.num_factors, -1)
    low = array.amin(array.where(array.isneginf(table), np.inf, table), 1)
    return array.amax(table, 1) - low


def structured_ranges(flat: FlatGraph[Any], group: StructuredGroup) -> FloatArray:
    """[N] of a group of factors that are no tables, the same, or more where only a bound is known."""
    log_phi: Any = flat.log_phi if isinstance(flat.log_phi, np.ndarray) else flat.log_phi.detach().cpu().numpy()
    return kind_class(group.kind).log_ranges(group.rows(log_phi[group.entries].astype(float)))


def _structured_width(flat: FlatGraph[Any], group: StructuredGroup) -> Any:
    """The widest range in a group of factors that are no tables: an array or a tensor []."""
    if isinstance(flat.log_phi, np.ndarray):
        return structured_ranges(flat, group).max()
    import torch

    if flat.log_phi.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        return flat.log_phi.new_tensor(float(structured_ranges(flat, group).max()))
    # While a CUDA graph is captured nobody can look at the values: the widest that factors of their size can be.
    values = flat.log_phi[group.entries].detach().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    longest = max(int(np.diff(group.edge_ptr).max()), int(group.words.max(initial=1)))
    return 2.0 * longest * values.abs().amax() + 100.0


def _functions_for(values: Any) -> Any:
    """The module, numpy or torch, whose functions take these values."""
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch
