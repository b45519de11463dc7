"""Samples from a model that is too large for elimination: the states of chains that draw large blocks at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.status import Status
from equifactor.kernels.pointers import place_in_row
from equifactor.solvers.cutsets.cutset_choice import BlockLimits
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solvers.sampling.block_chains import WARMING_SHARE, BlockChains, cover_seconds
from equifactor.solvers.sampling.blocks import BlockSampling
from equifactor.solvers.sampling.diagnostics import R_HAT_LIMIT
from equifactor.solvers.sampling.running_batches import RunningBatches

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solving.solver import SolveContext

_ENTRIES = 2.0**14  # Table entries of a block, which is drawn in 0.2 ms.
_KEPT = 2.0**21  # Message entries of a block at most: 16 MiB.
# Covers, so that the blocks differ from sweep to sweep. Halved or doubled: error within 15 %, CPU within 10 %.
_COVERS = 3
_WARMING = 100  # Sweeps for finding starts at most. Halved: CPU -30 %; doubled: CPU +59 %; error within 20 %.
_LEAST_SWEEPS = 24  # Sweeps at least, to tell whether the chains have mixed. Halved or doubled: error within 15 %.


class BlockDraws(NamedTuple):
    """The states of all chains after each sweep, and how good they are."""

    states: IntArray  # [n, V] states of the original graph
    status: Status
    message: str


def block_draws(reduced: ReducedGraph, count: int, method: BlockSampling, context: SolveContext) -> BlockDraws:
    """Return draws from the original of a reduced graph, one from each chain after every sweep.

    The draws follow the model once the chains have mixed. Neighbouring draws of a chain are not independent; the
    message says how many independent draws all of them are worth.
    """
    graph, clock = reduced.graph, context.clock
    said = f"There was not enough time to choose blocks of {graph.num_vars:,} variables. Raise the time limit."
    nothing = np.zeros((0, graph.num_vars), np.int64)
    if clock.left < cover_seconds(graph, clock):
        return BlockDraws(_onto_all(reduced, nothing), clock.status or Status.TIME_LIMIT, said)
    chains = BlockChains(graph, np.ones(1), method.chains, BlockLimits(_ENTRIES, _KEPT), context.seed, context.threads)
    for _ in range(_COVERS):
        if not chains.covers or not clock.stopped:
            chains.add_cover(lambda: clock.stopped, lambda: clock.stopped)
    if not chains.covers:
        return BlockDraws(_onto_all(reduced, nothing), clock.status or Status.TIME_LIMIT, said)
    if not chains.find_starts(clock, _WARMING, WARMING_SHARE * clock.left):
        if proven_impossible(reduced.original, clock):
            return BlockDraws(_onto_all(reduced, chains.cold[:0]), Status.ZERO_PROBABILITY, "")
        said = "No assignment of positive probability was found as a start."
        return BlockDraws(_onto_all(reduced, chains.cold[:0]), clock.status or Status.ITERATION_LIMIT, said)
    sums = RunningBatches(method.chains, int(graph.structure.state_ptr[-1]), fresh=chains.fresh)
    sweeps = max(_LEAST_SWEEPS, math.ceil(count / method.chains))
    drawn: list[IntArray] = []
    for n in range(sweeps):
        whole = chains.sweep(chains.covers[n % len(chains.covers)], sums, clock if drawn else None)
        if not whole:
            break
        sums.end_sweeps()
        drawn.append(chains.cold.copy())
        context.report(min(count, len(drawn) * method.chains), count)
    # The last sweeps are kept: the first sweeps of a short run still depend on the starts.
    states = _onto_all(reduced, np.concatenate(drawn)[-count:] if count else chains.cold[:0])
    found = sums.findings()
    r_hat = float(found.r_hat.max(initial=1.0))
    worth = min(float(found.effective.min(initial=math.inf)), float(len(states)))
    mixed = r_hat < R_HAT_LIMIT and method.chains > 1 and 2 * chains.copies <= method.chains
    said = f"the largest R-hat is {r_hat:.3f}, and the slowest variable has about {worth:.0f} independent draws"
    message = f"The chains agree: {said}." if mixed else f"The chains have not mixed: {said}. Draw more samples."
    complete = len(states) == count
    status = Status.CONVERGED if mixed and complete else clock.status or Status.ITERATION_LIMIT
    return BlockDraws(states, status, message)


def _onto_all(reduced: ReducedGraph, states: IntArray) -> IntArray:
    """Return [n, V] states of all variables from those of the reduced graph [n, v]."""
    s, original = reduced.graph.structure, reduced.original.structure
    full = np.zeros((len(states), original.num_vars), np.int64)
    if reduced.fixed is not None:
        full[:] = reduced.fixed
    state_of = place_in_row(original.state_ptr)
    if reduced.kept_states is not None:
        state_of = state_of[reduced.kept_states]
    full[:, slice(None) if reduced.variables is None else reduced.variables] = state_of[s.state_ptr[:-1] + states]
    return full
