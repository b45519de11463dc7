"""Parts that all samplers share: starts by repair, one loop over sweeps, and the answer with its diagnostics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from equifactor.base.status import Status
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solvers.sampling.diagnostics import R_HAT_LIMIT
from equifactor.solving.estimate import Estimate, impossible

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.factors.move_model import MoveModel
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.sampling.running_batches import BatchStatistics, RunningBatches
    from equifactor.solving.solver import SolveContext

# Independent draws that chains must be worth before they count as mixed. Halved or doubled: error within 20 %.
_LEAST_EFFECTIVE = 50
_LEAST_BATCHES = 12  # Batches before errors decide when to stop. Halved or doubled: error within 15 %.


class ChainMoves(Protocol):
    """Several chains and a way to draw all their variables: one by one, or in blocks."""

    def sweep_into(self, sums: RunningBatches, most: int, clock: Clock | None) -> int:
        """Make one to `most` sweeps of all chains; return their number, 0 if the clock stopped the first one.

        The conditional distributions of each sweep are added to `sums.total`, their squares to `sums.squares`.
        """


class RunLimits(NamedTuple):
    """The limits at which a run ends, beside the clock of the call."""

    sweeps: int | None = None  # most sweeps
    end: float = math.inf  # the seconds on the clock at which it ends
    tolerance: float = 0.0  # the run ends when no standard error is larger and the chains agree; 0 for never


def run_chains(moves: ChainMoves, sums: RunningBatches, limits: RunLimits, context: SolveContext) -> None:
    """Sweep until a limit is reached; at least one sweep is always made."""
    clock = context.clock
    next_look = 2 * _LEAST_BATCHES
    while limits.sweeps is None or sums.sweeps < limits.sweeps:
        if sums.sweeps and (clock.stopped or clock.seconds > limits.end):
            break
        most = sums.room if limits.sweeps is None else min(sums.room, limits.sweeps - sums.sweeps)
        made = moves.sweep_into(sums, most, clock if sums.sweeps else None)
        if not made:
            break
        sums.end_sweeps(made)
        context.report(sums.sweeps, limits.sweeps)
        if limits.tolerance and sums.sweeps >= next_look:
            next_look += max(8, sums.sweeps // 8)
            found = sums.findings()
            if found.error.max() < limits.tolerance and found.r_hat.max() < R_HAT_LIMIT and sums.chains > 1:
                break


def repair(
    model: MoveModel, x: IntArray, wanted: BoolArray, phases: int, seed: int, over: Callable[[bool], bool]
) -> BoolArray:
    """Move chains to possible assignments by local search; return [C] which of the wanted chains are possible then.

    Args:
        model: the graph.
        x: [C, V] the states of all chains, changed in place.
        wanted: [C] the chains to move.
        phases: phases of local search for each chain.
        seed: the seed of the searches.
        over: returns whether time is over, given whether some chain is possible.
    """
    from equifactor.solvers.search.local_search import LocalSearch

    possible = np.zeros(len(x), bool)
    searches = {int(c): LocalSearch(model, x[c].copy(), seed=seed + int(c)) for c in np.flatnonzero(wanted)}
    for c, search in searches.items():
        for _ in range(phases):
            if search.possible or over(bool(possible.any())):
                break
            search.step()
        possible[c] = search.possible
        if search.possible:
            x[c] = search.best
    return possible


def no_start(reduced: ReducedGraph, clock: Clock) -> Estimate:
    """Return the answer if no chain found an assignment to start from."""
    if proven_impossible(reduced.original, clock):
        return impossible()
    return Estimate(
        status=clock.status or Status.ITERATION_LIMIT,
        message="No assignment of positive probability was found as a start. Use exact or bp.",
    )


def sampled_estimate(
    reduced: ReducedGraph, found: BatchStatistics, sweeps: int, copies: int, context: SolveContext
) -> Estimate:
    """Return marginals with standard errors, R-hat and effective sample sizes, over the original graph.

    Args:
        reduced: the graph of the chains.
        found: the averages of the chains.
        sweeps: the sweeps of each chain.
        copies: the number of chains that started where another chain did.
        context: the clock of the call.
    """
    r_hat, effective = float(found.r_hat.max(initial=1.0)), float(found.effective.min(initial=np.inf))
    error = float(found.error.max(initial=0.0))
    doubt = _doubt(r_hat, effective, copies, found.chains)
    said = (
        f"largest standard error {error:.2g}, largest R-hat {r_hat:.3f}, smallest effective sample size {effective:.0f}"
    )
    ptr = reduced.graph.structure.state_ptr
    mass = np.repeat(np.add.reduceat(found.mean, ptr[:-1]), np.diff(ptr)) if len(found.mean) else found.mean
    status = Status.CONVERGED if not doubt and not context.clock.stopped else context.clock.status
    return Estimate(
        status=status or Status.ITERATION_LIMIT,
        message=f"{doubt}: {said}. Draw more samples." if doubt else f"The chains agree: {said}.",
        marginals=reduced.marginals(found.mean / np.where(mass > 0.0, mass, 1.0)),
        standard_errors=reduced.errors(found.error),
        iterations=sweeps,
        stats={
            "max_r_hat": r_hat, "min_effective_samples": effective, "max_standard_error": error,
            "likely_share": found.likely,
        },
    )  # fmt: skip


def _doubt(r_hat: float, effective: float, copies: int, chains: int) -> str:
    """Return why the chains may be wrong together; empty if there is no reason to doubt them."""
    if r_hat >= R_HAT_LIMIT:
        return "The chains have not mixed"
    if effective < _LEAST_EFFECTIVE:
        return "The chains agree so far, but they are too short to have mixed"
    if 2 * copies > chains:
        return f"The chains agree, but {copies} of {chains} started where another chain did and may share its mode"
    return ""
