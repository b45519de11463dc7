"""The solver `blocks`: sampling in blocks that are as large as time and memory allow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import ACCEPTED_OVERRUN, Budget, Refusal, Seconds
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.cutsets.conditioning import CUTSET_SHARE, best_cutset, memory_budget, seconds_of, sum_all
from equifactor.solvers.cutsets.cutset_choice import BlockLimits, order_seconds
from equifactor.solvers.sampling.block_chains import WARMING_SHARE, BlockChains, cover_seconds
from equifactor.solvers.sampling.chain_driver import RunLimits, no_start, run_chains, sampled_estimate
from equifactor.solvers.sampling.cutset_log_z import CutsetLogZ, combined
from equifactor.solvers.sampling.running_batches import RunningBatches
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.sampling.cutset_log_z import LogZ
    from equifactor.solvers.sampling.running_batches import BatchStatistics

_UPDATES = 1500  # Blocks are sized so that this many can be drawn in the time. Halved or doubled: error within 15 %.
# In a large graph this many are enough, so that blocks are not too small. Halved or doubled: error within 10 %.
_LEAST_UPDATES = 300
# Entries per variable up to which fewer draws are accepted for larger blocks. Halved or doubled: error within 15 %.
_FAIR_ENTRIES = 256.0
_LEAST_ENTRIES = 64.0  # Entries of a block, at least. Halved or doubled: error within 15 %.
_COVERS = 6  # Covers at most: more make moves more varied, but take time to find. Halved or doubled: error within 15 %.
_SWEEPS_OF_COVER = 16  # Sweeps of each cover at least, of which four fifths are draws for ln Z; it needs twelve.
_PLANNING_SHARE = 0.1  # The share of the time for choosing covers. Halved or doubled: error within 30 %.
# The share of the time that the first cover may take, as no draw is possible without it. Halved or doubled: error
# within 15 %.
_FIRST_SHARE = 0.25
_MOST_WARMING = 200  # Sweeps for finding starts at most. Halved or doubled: error within 15 %.
# The share of the time in which a probable state of a cutset is chosen, for ln Z. Halved or doubled: error within 15 %.
_CHOICE_SHARE = 0.2
_NO_LOG_Z = (
    "There were too few sweeps, or the chains never came near the chosen state of the cutset. Raise sweeps, seconds or "
    "memory_limit, or use auto or mini-buckets."
)


@register("blocks")
@dataclass(frozen=True, kw_only=True)
class BlockSampling(GraphSolver):
    """Chains that draw most variables at once; averages of exact conditional distributions, with standard errors."""

    tasks = (Task.MAR, Task.PR)
    symmetries = frozenset()  # Its draws are random.

    seconds: float = option(10.0, "time to use if there is no time limit", low=0.0)
    sweeps: int | None = option(None, "number of sweeps instead of a time, for the same answer on any machine", low=1)
    memory_limit: float = option(2.0**-6, "GiB of tables of a block", low=0.0)
    chains: int = option(8, "independent chains", low=1, high=10**6)
    temperatures: int = option(1, "temperatures of each chain, 1 for no tempering", low=1)
    hottest: float = option(0.3, "power of the scores at the highest temperature", low=0.0, high=1.0)
    tolerance: float = option(5e-4, "stop when no marginal has a larger standard error", low=0.0)
    enumerate: bool = option(True, "sum over the cutset, which is exact, if the time allows; not with sweeps")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Sum over a cutset if that fits the time, which is exact; otherwise run chains until the time is up."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        time = min(context.clock.left, self.seconds if context.clock.time_limit is None else math.inf)
        budget = Budget(context.clock)
        tries = self.enumerate and self.sweeps is None and budget.ends_in_time(order_seconds(reduced.graph.structure))
        if tries or not reduced.graph.num_vars:
            cut = best_cutset(reduced.graph, self.memory_limit, task, context.seed, time)
            if budget.time_for(seconds_of(cut, task)) < ACCEPTED_OVERRUN * time:
                found = sum_all(reduced, cut, task, context, CUTSET_SHARE * time)
                if not isinstance(found, Refusal):
                    return found
                time = min(time, context.clock.left)
        return self._sample(reduced, task, time, context)

    def _sample(self, reduced: ReducedGraph, task: Task, time: float, context: SolveContext) -> Estimate:
        graph, clock = reduced.graph, context.clock
        said = f"{time:.2g} s is not enough time to choose blocks of {graph.num_vars:,} variables. Use bp."
        if self.sweeps is None and time < cover_seconds(graph, clock):
            return Estimate(status=clock.status or Status.TIME_LIMIT, message=said)
        end = clock.seconds + time
        chains = BlockChains(
            graph, self._betas(), self.chains, self._limits(graph, time, context), context.seed, context.threads
        )
        self._add_covers(chains, task, time, context)
        if not chains.covers:
            return Estimate(status=clock.status or Status.TIME_LIMIT, message=said)
        if not chains.covers[0].num_cut:  # One block holds every variable: its sums are exact, and nothing is drawn.
            found = sum_all(reduced, best_cutset(graph, self.memory_limit, task, context.seed, time), task, context)
            assert not isinstance(found, Refusal)  # Without a limit of its own, the sum is never refused.
            return found
        by_time = self.sweeps is None
        warming = _MOST_WARMING if by_time else min(_MOST_WARMING, int(WARMING_SHARE * (self.sweeps or 0)))
        if not chains.find_starts(clock, warming, WARMING_SHARE * time if by_time else math.inf):
            return no_start(reduced, clock)
        sums = RunningBatches(self.chains, int(graph.structure.state_ptr[-1]), fresh=chains.fresh)
        chosen = clock.seconds + _CHOICE_SHARE * (end - clock.seconds)
        moves = BlockMoves(chains, task, self.sweeps, lambda: clock.seconds > chosen)
        limits = RunLimits(self.sweeps, end if by_time else math.inf, self.tolerance if by_time else 0.0)
        run_chains(moves, sums, limits, context)
        sums.fresh = chains.fresh
        findings = sums.findings()
        estimate = sampled_estimate(reduced, findings, sums.sweeps, chains.copies, context)
        estimate = replace(estimate, stats={**estimate.stats, **_stats(chains)})
        log_z = moves.log_z(findings)
        if log_z is not None:
            return replace(estimate, log_z=log_z.value, log_z_error=log_z.error)
        if task is Task.MAR:
            return estimate
        return replace(
            estimate,
            status=clock.status or Status.ITERATION_LIMIT,
            message=f"There is no estimate of ln Z. {_NO_LOG_Z} {estimate.message}",
            lower_bound=moves.lower_bound,
        )

    def _betas(self) -> np.ndarray:
        return np.geomspace(1.0, max(self.hottest, 1e-3), self.temperatures)

    def _limits(self, graph: FactorGraph, time: float, context: SolveContext) -> BlockLimits:
        """Return the size of blocks: as large as memory allows, and small enough for many updates in the time.

        In a large graph fewer updates are made, so that the tables around each variable are not too small.
        """
        kept = memory_budget(self.memory_limit)
        if self.sweeps is not None:
            return BlockLimits(math.inf, kept)
        all_entries = time * Budget(context.clock).speed / Seconds.BLOCK_DRAW / self.temperatures
        fair = _FAIR_ENTRIES * graph.num_vars
        entries = max(_LEAST_ENTRIES, all_entries / _UPDATES, min(fair, all_entries / _LEAST_UPDATES))
        return BlockLimits(entries, kept)

    def _add_covers(self, chains: BlockChains, task: Task, time: float, context: SolveContext) -> None:
        """Add covers while they take a small part of the time, and for ln Z, not more than get enough sweeps each."""
        begin = context.clock.seconds
        most = _COVERS if task is Task.MAR or self.sweeps is None else self.sweeps // _SWEEPS_OF_COVER

        def late() -> bool:
            share = _PLANNING_SHARE if chains.covers else _FIRST_SHARE
            return self.sweeps is None and context.clock.seconds > begin + share * time

        def over() -> bool:
            return self.sweeps is None and context.clock.stopped

        if chains.add_cover(late, over):
            while len(chains.covers) < min(most, _COVERS) and not late():
                chains.add_cover(late, over)


class BlockMoves:
    """Sweeps over the covers of some chains in turn, with an estimate of ln Z as a by-product; see `ChainMoves`.

    Args:
        chains: the chains, with starts and covers.
        task: for PR each cover gives an estimate of ln Z; for MAR only the first cover does.
        sweeps: the number of sweeps; None if time decides.
        late: if time decides, returns whether the choice of a probable state of the cutset should end.
    """

    def __init__(self, chains: BlockChains, task: Task, sweeps: int | None, late: Callable[[], bool]) -> None:
        self._chains, self._sweeps, self._late = chains, sweeps, late
        watched = [CutsetLogZ(chains, c) if len(c.blocks) > 1 else None for c in chains.covers]
        self._watched = watched if task is Task.PR else watched[:1]

    def sweep_into(self, sums: RunningBatches, most: int, clock: Clock | None) -> int:
        """Make one sweep, over the blocks of the next cover."""
        n = sums.sweeps
        k = n % len(self._chains.covers)
        ready = self._late() if self._sweeps is None else n > _CHOICE_SHARE * self._sweeps
        watch = _watching(self._watched[k] if k < len(self._watched) else None, ready)
        return int(self._chains.sweep(self._chains.covers[k], sums, clock, watch))

    @property
    def lower_bound(self) -> float:
        """The largest sum over a block, of the chosen states of cutsets: a lower bound on ln Z, or -inf."""
        return max((w.best for w in self._watched if w is not None), default=-math.inf)

    def log_z(self, found: BatchStatistics) -> LogZ | None:
        """Return ln Z from all covers together, given the averages of the chains; None if there is no estimate."""
        return combined([w.estimate(found) for w in self._watched if w is not None])


def _stats(chains: BlockChains) -> dict[str, object]:
    first = chains.covers[0]
    return {
        "cutset": first.num_cut, "blocks": len(first.blocks), "covers": len(chains.covers),
        "jumped": round(float(chains.jumped[1] / max(1.0, chains.jumped[0])), 3),
        "exchanged": [round(float(v), 2) for v in chains.taken[:-1] / np.maximum(1.0, chains.tried[:-1])],
    }  # fmt: skip


def _watching(log_z: CutsetLogZ | None, ready: bool) -> Callable[[int, FloatArray], None] | None:
    """Return what a sweep calls after each block: it uses the first block until a state is chosen, then the second."""
    if log_z is None:
        return None
    if not ready:
        return lambda n, log_sum: log_z.choose(log_sum) if n == 0 else None
    return lambda n, log_sum: log_z.record(log_sum) if n == 1 else None
