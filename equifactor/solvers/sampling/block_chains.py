"""Markov chains that draw large blocks exactly: their tables, their states, and their covers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Budget, Seconds
from equifactor.base.cores import Crew, crew_size
from equifactor.solvers.cutsets.block_program import BlockProgram, build_block, shared_memory
from equifactor.solvers.cutsets.cutset_choice import BlockLimits, cover, order_seconds
from equifactor.solvers.elimination.program import read_only
from equifactor.solvers.sampling.chain_driver import repair
from equifactor.solvers.sampling.jump_pool import JumpPool, share_of_jumps
from equifactor.solvers.search.local_search import START_PHASES, START_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.sampling.running_batches import RunningBatches

WARMING_SHARE = 0.15  # The share of the time for finding starts. Halved: within 20 %; doubled: error +23 %.
# The power of the scores at the beginning of the annealing to a start; it ends at 1. Halved or doubled: error within
# 15 %.
_HOTTEST = 0.1
# The log that replaces that of zero at the beginning and the end of annealing. Halved or doubled: error within 15 %.
_FLOORS = -3.0, -50.0
_LEAST_WARMING = 5  # Sweeps of annealing at least. Halved: within 10 %; doubled: error +22 %.
# States that each chain adds to the pool of jumps before annealing. Halved or doubled: error within 15 %.
_QUENCHES = 3
_QUENCH_SWEEPS = 2  # Sweeps from a random state to a state of the pool of jumps. Halved or doubled: error within 15 %.
# The share of the time for starts in which the pool of jumps is filled. Halved or doubled: error within 15 %.
_QUENCH_SHARE = 0.3
# The least share of an independent draw that a sweep of small blocks is worth. Halved or doubled: error within 20 %.
_LEAST_FRESH = 0.25
# Annealings of each chain, whose ends are all in the pool of jumps: three short ones find more modes than a long one.
# Chosen by `benchmarks.coverage`, tuning seeds: on rugged graphs the errors of `auto` are half as large.
_WALKS = 3
# Repetitions of annealing at most, if all chains end at states of probability zero. Halved or doubled: error within
# 15 %.
_MORE_WALKS = 4
# Nats by which log sums of a chain may stay below the best, beyond four times their noise. Halved or doubled: error
# within 15 %.
_POOR = 10.0
_SHARED_SECONDS = 1e-3  # Reference seconds to draw a block in all chains, from which threads share it. Chosen by hand.


class Cover(NamedTuple):
    """Blocks that together hold every variable."""

    blocks: list[BlockProgram]
    twins: list[list[BlockProgram]]  # of each block, with memory of their own for the other threads once they are used
    weight: FloatArray  # [X] one over the number of blocks that hold the variable of each state
    num_cut: int  # number of variables in the largest cutset
    entries: float  # entries of all cluster tables of all blocks


def cover_seconds(graph: FactorGraph, clock: Clock) -> float:
    """Return about how many seconds the choice of the first blocks takes, which together hold every variable."""
    least = 2.0 * order_seconds(graph.structure)  # There are two blocks at least.
    return Budget(clock).time_for(max(Seconds.BLOCK_COVER * graph.num_vars, least))


class BlockChains:
    """L chains at R temperatures each, on one graph without observed variables.

    Temperature 0 of a chain is the model itself; the others are replicas of it with flatter scores. The states of all
    L R replicas lie in one array, temperature after temperature of each chain.

    Args:
        graph: the model.
        betas: [R] the power of the scores at each temperature, 1 at the first.
        chains: L, the number of chains.
        limits: what one block may cost.
        seed: the seed of all draws and choices.
        threads: threads that share the chains, which have random numbers of their own; None for all free cores.
    """

    def __init__(
        self,
        graph: FactorGraph,
        betas: FloatArray,
        chains: int,
        limits: BlockLimits,
        seed: int,
        threads: int | None = 1,
    ) -> None:
        from equifactor.solvers.elimination.order_kernels import adjacency
        from equifactor.solvers.elimination.program_kernels import table_strides

        s = self.structure = graph.structure
        self._graph = graph
        self.limits = limits
        self.betas = betas
        self.log_phi = np.stack([_tempered(graph.log_phi, beta) for beta in betas])
        self.choices = np.random.default_rng(seed)
        count = chains * len(betas)
        self.x = self.choices.integers(0, s.card, (count, s.num_vars))
        self.rng = self.choices.integers(1, 2**64, (count, 1), np.uint64)
        self.model = (s.scope_ptr, s.scope_vars, table_strides(s.scope_ptr, s.scope_vars, s.card), s.table_ptr)
        self._used = np.zeros(s.num_vars)
        self._crew = Crew(crew_size(threads, chains))
        size = self._crew.size
        self._memory = [shared_memory(s, limits.kept) for _ in range(size)]  # of each thread, as what follows
        self._row, self._p = np.zeros((size, int(s.card.max(initial=1)))), np.zeros((size, int(s.state_ptr[-1])))
        links = adjacency(s.num_vars, s.scope_ptr, s.scope_vars)
        self._links, self._marks = links, np.zeros((size, 3, s.num_vars), np.int64)
        self.pool = JumpPool(s.num_vars)
        self._jumped = np.zeros((size, 2))
        self._log_sum = np.zeros(count)
        self._nothing = np.zeros((chains, 0))
        self.tried, self.taken = np.zeros(len(betas)), np.zeros(len(betas))
        self.covers: list[Cover] = []
        self.walked = 0  # the number of sweeps of annealing
        self.copies = 0  # the number of chains that were moved to the states of others

    @property
    def jumped(self) -> FloatArray:
        """[2] jumps that were tried and accepted."""
        return np.asarray(self._jumped.sum(axis=0))

    @property
    def fresh(self) -> float:
        """The share of an independent draw that a sweep is worth at most.

        Small blocks change little at once, and sweeps without accepted jumps hardly change the mode.
        """
        held = np.mean([len(block.slicing.cut) for cover in self.covers for block in cover.blocks])
        share = max(_LEAST_FRESH, 1.0 - float(held) / max(1, self.structure.num_vars))
        blocks = float(np.mean([len(cover.blocks) for cover in self.covers]))
        return share * share_of_jumps(self.jumped, len(self.x), blocks)

    def add_cover(self, haste: Callable[[], bool] | None = None, over: Callable[[], bool] | None = None) -> bool:
        """Choose blocks that differ from those so far; return False if there was no time.

        Args:
            haste: returns whether time is short.
            over: returns whether time is over.
        """
        s = self.structure
        cuts = cover(s, self.limits, self._used, self.choices, haste, over)
        if not cuts:
            return False
        times = np.sum([~cut.is_cut for cut in cuts], axis=0)
        self.covers.append(
            Cover(
                blocks=[build_block(s, cut, self._memory[0]) for cut in cuts],
                twins=[[] for _ in cuts],
                weight=np.repeat(1.0 / times, s.card),
                num_cut=max(int(cut.is_cut.sum()) for cut in cuts),
                entries=sum(cut.entries for cut in cuts),
            )
        )
        return True

    def find_starts(self, clock: Clock, sweeps: int, seconds: float = math.inf) -> bool:
        """Anneal all chains from random states to good ones; return whether some chain found a possible state.

        If there is time, chains are annealed several times. They start where the last annealing ends, and the pool of
        jumps gets the ends of all. A chain that finds no possible state starts where another chain does.

        Args:
            clock: after its deadline no block is drawn.
            sweeps: most sweeps of annealing.
            seconds: most seconds of annealing.
        """
        true, begin = self.log_phi, clock.seconds
        quenched = self._quench(clock, seconds)
        expected = min(sweeps, seconds * quenched / max(clock.seconds - begin, 1e-9))
        walks = max(1, min(_WALKS, int(expected) // (2 * _LEAST_WARMING)))
        for n in range(walks):
            if n:
                self.pool.add(self.cold)
                self.x[:] = self.choices.integers(0, self.structure.card, self.x.shape)
            self._walk(true, clock, max(sweeps // walks, _LEAST_WARMING), seconds / walks)
        for n in range(_MORE_WALKS):  # If all ended at probability zero, they are heated and annealed once more.
            if clock.stopped or self.possible(true).any():
                break
            self._walk(true, clock, max(sweeps, _LEAST_WARMING) // 2, seconds / 2, n + 1)
        self.log_phi = true
        # Local search helps chains that are not possible yet. It would lead the others to modes that are high but
        # narrow, which a chain leaves slowly.
        possible = self.possible(true)
        if not possible.all():
            possible = self._search(clock, ~possible)
        self.pool.add(self.cold)
        self._copy_states(np.flatnonzero(possible), np.flatnonzero(~possible))
        if possible.any():
            self._leave_poor_modes(clock, max(_LEAST_WARMING, self.walked // 4))
        return bool(possible.any())

    def _quench(self, clock: Clock, seconds: float) -> int:
        """Add states to the pool that a few sweeps reach from random states; return the number of sweeps."""
        begin, s, made = clock.seconds, self.structure, 0
        for n in range(_QUENCHES):
            for k in range(_QUENCH_SWEEPS):
                if clock.stopped or clock.seconds > begin + _QUENCH_SHARE * seconds:
                    break
                self.sweep(self.covers[(n + k) % len(self.covers)], clock=clock)
                made += 1
            else:
                self.pool.add(self.cold)
            self.x[:] = self.choices.integers(0, s.card, self.x.shape)
        return made

    def _copy_states(self, good: IntArray, bad: IntArray) -> None:
        """Move the chains `bad` to the states of chains in `good`."""
        for c in bad if len(good) else ():
            self.x[c] = self.x[good[c % len(good)]]
            self.copies += c % len(self.betas) == 0

    def _leave_poor_modes(self, clock: Clock, sweeps: int) -> None:
        """Move chains whose sums over blocks stay far below those of the best chain to the states of other chains."""
        seen: list[FloatArray] = []
        for n in range(sweeps):
            if clock.stopped:
                break
            self.sweep(
                self.covers[n % len(self.covers)], clock=clock, watch=lambda _, log_sum: seen.append(log_sum.copy())
            )
        if not seen:
            return
        sums = np.maximum(np.array(seen[len(seen) // 2 :]), -1e300)  # [N, L]
        behind = (sums.max(axis=1, keepdims=True) - sums).mean(axis=0)
        poor = np.flatnonzero(behind > behind.min() + _POOR + 4.0 * float(sums.std(axis=0).min()))
        replicas = len(self.betas)
        self._copy_states(np.setdiff1d(np.arange(sums.shape[1]), poor) * replicas, poor * replicas)

    def _walk(self, true: FloatArray, clock: Clock, sweeps: int, seconds: float, again: int = 0) -> None:
        """Sweep while the scores gain their weight: from the beginning, or from half of the way if `again` is not 0."""
        begin, n, share = clock.seconds, 0, 0.0
        while share < 1.0 and not clock.stopped:
            # The last sweep has the full scores, and there are a few sweeps even if time is short.
            by_time = min((clock.seconds - begin) / seconds, (n + 1) / _LEAST_WARMING)
            share = max(n / max(1, sweeps - 1), by_time)
            at = min(1.0, 0.5 + 0.5 * share if again else share)
            power = _HOTTEST * (1.0 / _HOTTEST) ** at
            floor = _FLOORS[0] * (_FLOORS[1] / _FLOORS[0]) ** at
            self.log_phi = np.maximum(np.minimum(1.0, power / self.betas)[:, None] * true, floor)
            self.sweep(self.covers[(n + again) % len(self.covers)], clock=clock)
            n += 1
        self.walked = n

    def _search(self, clock: Clock, wanted: BoolArray) -> BoolArray:
        """Move the wanted chains to possible assignments by local search; return which chains are possible then."""
        from equifactor.factors.move_model import MoveModel
        from equifactor.graph import compile

        brief = clock.part(START_SHARE)  # This limit holds as soon as there is a state to start from.
        others = bool((~wanted).any())

        def over(some: bool) -> bool:
            return clock.stopped or (brief.stopped and (some or others))

        return ~wanted | repair(MoveModel(compile(self._graph)), self.x, wanted, START_PHASES, 0, over)

    def possible(self, log_phi: FloatArray) -> BoolArray:
        """Return [L R] whether the states of each replica have positive probability."""
        from equifactor.solvers.sampling.chain_move_kernels import log_score

        scores = [log_score(log_phi[0], x, *self.model) for x in self.x]
        return np.isfinite(scores)

    @property
    def cold(self) -> IntArray:
        """[L, V] the states of the chains at the model itself."""
        return self.x[:: len(self.betas)]

    def sweep(
        self,
        blocks: Cover,
        sums: RunningBatches | None = None,
        clock: Clock | None = None,
        watch: Callable[[int, FloatArray], None] | None = None,
    ) -> bool:
        """Draw every block of a cover once in all chains, and offer exchanges; return whether all blocks were drawn.

        Args:
            blocks: the cover.
            sums: where conditional distributions are added; without it they are not computed.
            clock: after its deadline no further block is drawn.
            watch: called after each block with its number and [L] ln of the sums over it at temperature 0.
        """
        from equifactor.solvers.sampling.chain_move_kernels import exchange

        total, squares = (self._nothing, self._nothing) if sums is None else (sums.total, sums.squares)
        if sums is not None:
            self.pool.renew(self.cold, sums.sweeps)
        for n in range(len(blocks.blocks)):
            if clock is not None and clock.stopped:
                return False
            self._draw(n, blocks, total, squares)
            if watch is not None:
                watch(n, self._log_sum[:: len(self.betas)])
            for odd in range(2 if len(self.betas) > 1 else 0):
                exchange(self.log_phi, self.x, self.rng, odd, self.model, self.tried, self.taken)
        return True

    def _draw(self, n: int, blocks: Cover, total: FloatArray, squares: FloatArray) -> None:
        """Draw block n of a cover in all chains, which threads share if that takes long enough."""
        from equifactor.solvers.sampling.block_kernels import update_chains

        log_phi, replicas, chains = read_only(self.log_phi), len(self.betas), len(total)
        shared = Seconds.BLOCK_DRAW * len(self.x) * blocks.entries > _SHARED_SECONDS * len(blocks.blocks)
        twins = [blocks.blocks[n], *blocks.twins[n]]
        if shared and len(twins) < self._crew.size:
            blocks.twins[n][:] = [twins[0].twin(memory) for memory in self._memory[1:]]
            twins = [twins[0], *blocks.twins[n]]

        def work(thread: int, start: int, stop: int) -> None:
            own, states = slice(start, stop), slice(start * replicas, stop * replicas)
            update_chains(
                log_phi, self.x[states], self.rng[states], *twins[thread].records, self._row[thread], self._p[thread],
                blocks.weight, total[own], squares[own], self.pool.states, (*self._links, *self._marks[thread]),
                self._jumped[thread], self._log_sum[states],
            )  # fmt: skip

        self._crew.divide(chains, 1 if shared else chains, work)


def _tempered(log_phi: FloatArray, beta: float) -> FloatArray:
    return beta * log_phi
