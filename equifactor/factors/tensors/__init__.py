"""Tensor operations on a FlatGraph, for torch: batched, differentiable, on any device.

Symbols: msg_fv [S] factor-to-variable and msg_vf [S] variable-to-factor log messages, log_b_v [X] log beliefs.
True zeros are -inf and stay so: leave-one-out sums count infinities instead of subtracting them.
"""

from equifactor.factors.tensors.structured_tensors import PairTables, StructuredTensors, structured_of
from equifactor.factors.tensors.tensor_beliefs import (
    bethe_log_z,
    count_empty,
    log_scores,
    max_states,
    probabilities,
    variable_log_beliefs,
)
from equifactor.factors.tensors.tensor_messages import (
    change_per_graph,
    damp,
    first_messages,
    hold_above,
    marginalize_tables,
    reduce_tables,
    sum_of_other_factors,
    with_messages,
)

__all__ = [
    "PairTables",
    "StructuredTensors",
    "bethe_log_z",
    "change_per_graph",
    "count_empty",
    "damp",
    "first_messages",
    "hold_above",
    "log_scores",
    "marginalize_tables",
    "max_states",
    "probabilities",
    "reduce_tables",
    "structured_of",
    "sum_of_other_factors",
    "variable_log_beliefs",
    "with_messages",
]
