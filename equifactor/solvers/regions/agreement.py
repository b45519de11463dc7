"""Rounds of messages between the clones of a relaxation, until they agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.solvers.elimination.eliminate import sum_out

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.regions.relaxation import Relaxation

# The change of messages, in probability, up to which an answer counts as settled. Halved or doubled: error within 15 %.
NEARLY_SETTLED = 0.05
# The least damping in the second half of the rounds, against oscillation. Halved or doubled: error within 15 %.
_LATE_DAMPING = 0.7


class Rounds(NamedTuple):
    """The limits and the damping of rounds of messages."""

    iterations: int = 100  # most rounds
    tolerance: float = 1e-3  # the largest change of an undamped message, in probability, that counts as settled
    damping: float = 0.3  # share of the old log message that is kept


class Agreement(NamedTuple):
    """The answer of a relaxation when its rounds have ended."""

    p: FloatArray  # [X] beliefs; empty if no assignment is possible
    log_z: float  # -inf if no assignment is possible
    change: float  # the largest change of a message in the last round
    rounds: int


def agree(
    relaxation: Relaxation,
    log_phi: FloatArray,
    possible: BoolArray,
    rounds: Rounds,
    clock: Clock,
    start: np.random.Generator | None = None,
) -> Agreement | None:
    """Run a relaxation until its clones agree; return None if the clock stopped it before the first answer.

    ln Z is the region free energy, ln Z of the relaxed graph + sum over split variables of
    ln sum_x prod_c m_c(x) - sum_c ln sum_x m_c(x) u_c(x). It is exact if nothing is split, and the Bethe free energy if
    every factor is alone. States that the relaxed graph excludes are also impossible in the original, and `possible`
    [X] is updated.

    The first messages are uniform, or random numbers from `start`. A model with symmetries has many fixed points, and
    from uniform messages all splittings may reach the same few.

    Cost: two passes over all tables of the relaxation per round.
    """
    from equifactor.solvers.regions import matching_kernels as kernels

    program, groups = relaxation.program, tuple(relaxation.groups)
    memory = program.tables(reuse=False), program.workspace(marginals=True)
    size = int((relaxation.groups.dim * np.diff(relaxation.groups.clone_ptr)).sum())
    full = np.concatenate((log_phi, np.zeros(size)))
    u, m = full[len(log_phi) :], np.zeros(size)
    if np.isneginf(log_phi).any():
        kernels.forbid(possible, groups, u)
        support = sum_out(program, full, clock, memory=memory)
        if support is None:
            return None
        if support.p is None:
            return Agreement(np.zeros(0), -math.inf, 0.0, 0)
        kernels.exclude_states(support.p, relaxation.state_of_clone_state, possible)
    kernels.forbid(possible, groups, u)
    if start is not None:
        u += start.standard_normal(size)
    best: Agreement | None = None
    for n in range(rounds.iterations):
        sums = sum_out(program, full, clock, memory=memory)
        if sums is None:
            return best
        if sums.p is None:
            return Agreement(np.zeros(0), -math.inf, 0.0, n)
        damping = rounds.damping if 2 * n < rounds.iterations else max(rounds.damping, _LATE_DAMPING)
        change, missing = kernels.match_clones(sums.p, possible, groups, damping if n else 0.0, m, u)
        settled = change <= rounds.tolerance
        if settled or n + 1 == rounds.iterations or clock.time_limit is not None:
            p = np.empty(len(possible))
            kernels.join_beliefs(
                sums.p, relaxation.structure.state_ptr, relaxation.var_of_clone, relaxation.original.state_ptr,
                possible, groups, m, p,
            )  # fmt: skip
            best = Agreement(p, sums.log_z + missing, change, n + 1)
        if settled:
            break
    return best


def last_move(reduced: ReducedGraph, error: FloatArray) -> tuple[dict[str, Any], str]:
    """Return how far the last step moved the marginals of each variable [v], as stats of the original and in words."""
    whole = np.zeros(num_vars := reduced.original.num_vars)
    whole[np.arange(num_vars) if reduced.variables is None else reduced.variables] = error
    mean, largest = float(whole.mean()), float(whole.max(initial=0.0))
    each = [round(e, 6) for e in whole.tolist()]
    stats = {"error_estimate": mean, "max_error_estimate": largest, "error_of_variable": each}
    return stats, f"moved a marginal by {mean:.2g} on average, {largest:.2g} at most."
