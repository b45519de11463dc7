"""The numbers that a pass over rows of evidence works on, and room for its answers; see `row_kernels.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from equifactor.solvers.elimination.program import Program


class RowLanes(NamedTuple):
    """Memory of a pass. L lanes lie side by side: entry t of a message is at (start + t) * L."""

    start: IntArray  # [v] first entry of each message
    up: FloatArray  # [M L] messages
    down: FloatArray  # [M L] probabilities of the separators
    low: FloatArray  # [v L] smallest positive entry of each message that is linear
    ln_z: FloatArray  # [L]
    weight: FloatArray  # [L] weight of each row in the expected factors
    buffer: FloatArray  # [d L] one row of a cluster
    mask: FloatArray  # [d L] evidence on the variable of a cluster
    p: FloatArray  # [d L] probabilities of the variable of a cluster
    top: FloatArray  # [2 L]
    row: FloatArray  # [d] the part of one row that all lanes share
    seen: IntArray  # [v L] evidence, -1 where free
    observed: BoolArray  # [v] whether some lane has evidence on the variable
    touched: BoolArray  # [v] whether some lane has evidence below the message
    is_log: BoolArray  # [v] touched messages that are in the log domain
    mode: IntArray  # [v] how each touched cluster is computed
    base: IntArray  # [operands of a cluster] place of the present row in each operand
    digit: IntArray  # [axes of a cluster] states of the separator


class RowAnswers(NamedTuple):
    """Room for the answers. An array without entries was not asked for."""

    log_z: FloatArray  # [B]
    needed: BoolArray  # [v] clusters that the downward pass visits
    p_start: IntArray  # [v] column of the probabilities of each cluster's variable, -1 where they are not wanted
    p: FloatArray  # [B, columns]
    weight: FloatArray  # [B] or []
    expected: FloatArray  # [entries of all groups] or []


def row_lanes(program: Program, lanes: int) -> RowLanes:
    """Return memory for a pass of this program."""
    sizes, dim = program.message_sizes, program.clusters.dim
    count, most = len(dim), int(dim.max(initial=1))
    messages = int(sizes.sum()) * lanes
    return RowLanes(
        start=np.cumsum(sizes) - sizes, up=np.empty(messages), down=np.empty(messages), low=np.empty(count * lanes),
        ln_z=np.empty(lanes), weight=np.empty(lanes), buffer=np.empty(most * lanes), mask=np.empty(most * lanes),
        p=np.empty(most * lanes), top=np.empty(2 * lanes), row=np.empty(most),
        seen=np.empty(count * lanes, np.int64), observed=np.zeros(count, bool), touched=np.zeros(count, bool),
        is_log=np.zeros(count, bool), mode=np.zeros(count, np.int64),
        base=np.empty(int(np.diff(program.clusters.in_ptr).max(initial=1)), np.int64),
        digit=np.empty(int(np.diff(program.clusters.sep_ptr).max(initial=1)) + 1, np.int64),
    )  # fmt: skip
