"""The solver `gibbs`: chains that draw one variable at a time, with factors of any kind as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import CALL_SECONDS, GRACE, Budget
from equifactor.base.clock import Clock
from equifactor.base.cores import Crew, crew_size
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.move_model import MoveModel, MoveState
from equifactor.graph import compile
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.sampling.chain_driver import RunLimits, no_start, repair, run_chains, sampled_estimate
from equifactor.solvers.sampling.jump_pool import RECENT, JumpPool, share_of_jumps
from equifactor.solvers.sampling.running_batches import RunningBatches
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph

_FIRST_BATCHES = 64  # The first batches hold 1/64 of all draws. Halved or doubled: error within 15 %.
_LONGEST_BATCH = 4  # Draws in each of the first batches at most, because short runs need several batches, too.
# Phases of local search to repair a start of probability zero. Halved or doubled: error within 10 %.
_REPAIR_PHASES = 400
# Sweeps after which the scores of all chains are recomputed. Halved or doubled: error within 15 %.
_REBUILD_EVERY = 2**10
_BURN_IN_SHARE = 0.25  # The share of the time limit for burn-in at most. Halved or doubled: error within 20 %.
_JUMPING = 16  # Chains at most whose states are in the pool of jumps. Halved or doubled: error within 5 % (250 graphs).
_POOL_MEMORY = 2**23  # Numbers in the pool of jumps at most: 64 MiB. In larger models chains do not jump.
_QUENCHES = 3  # States that each of these chains adds to the pool before burn-in, as in `blocks`.
_QUENCH_SWEEPS = 2  # Sweeps from a random state to one of them, as in `blocks`.
# Variables that a jump moves at most: this many, or this share of all. A jump then costs less than a sweep of a large
# model. Halved or doubled: mean log error within 3 %, CPU -14 and +7 % (10 models of 120 to 144 variables).
_MOST_MOVED = 32, 0.0625
# Reference seconds for an edge or a state, to start a chain, sweep it once and diagnose it: a chain of 10^6 variables.
_FIRST_SWEEP = 6e-8
_LEFT_OUT = 8  # A continued run leaves out the first 1/8 of its draws, as `blocks` does.
_FRESH = 0.25  # The share of an independent draw that a sweep is worth at most, as for the smallest blocks.
_SHARED_SECONDS = 1e-3  # Seconds of a call from which threads share its chains: their start takes 0.1 ms.
_PIECES = 4  # Parts of the chains for each thread, so that a thread that other work holds up takes fewer.


@register("gibbs")
@dataclass(frozen=True, kw_only=True)
class Gibbs(GraphSolver):
    """Several Gibbs chains on factors of any kind; averages of exact conditional distributions."""

    tasks = (Task.MAR,)
    symmetries = frozenset()  # Its draws are random.
    any_kind = True

    chains: int = option(16, "independent chains", low=1, high=10**6)
    burn_in: int = option(250, "sweeps dropped at the start, for at most a quarter of the time limit", low=0)
    samples: int = option(1000, "draws of each chain after burn-in", low=1)
    thin: int = option(1, "sweeps from one draw to the next", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Find starts of positive probability, burn in, draw, and diagnose."""
        begun = self._begin(graph, context)
        return begun if isinstance(begun, Estimate) else begun.draw(self.samples, self.chains, context)

    def _begin(self, graph: FactorGraph, context: SolveContext) -> SingleRun | Estimate:
        """Return chains after burn-in; without a start, the answer that tells so."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        model = MoveModel(compile(reduced.graph))
        chains = self._chains_in_time(model, context.clock)
        starts = find_starts(model, chains, context)
        if starts is None:
            return no_start(reduced, context.clock)
        moves = SingleMoves(model, starts.x, self.thin, context)
        moves.fill_pool()
        moves.burn_in(self.burn_in)
        length = max(1, min(self.samples // _FIRST_BATCHES, _LONGEST_BATCH))
        sums = RunningBatches(chains, len(model.arrays.unary), length=length, dropped=0)
        return SingleRun(reduced, moves, sums, starts.copies)

    def _chains_in_time(self, model: MoveModel, clock: Clock) -> int:
        """Return the number of chains whose first sweep ends in time: at least two, if there are as many."""
        flat = model.flat
        budget, each = Budget(clock), _FIRST_SWEEP * (flat.num_edges + flat.num_states)
        if budget.ends_in_time(each * self.chains):
            return self.chains
        return min(self.chains, max(2, int((clock.left + GRACE) / budget.time_for(each))))


class LongGibbs(Gibbs):
    """The same chains in several runs on one graph: a run continues where the last one ended.

    The first run has too little time for a long burn-in. So later runs leave out the first draws.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_run", None)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Begin, or draw more; the graph must be the same in all runs."""
        kept: SingleRun | None = vars(self)["_run"]
        if kept is not None:
            kept.sums.dropped = _LEFT_OUT
            return kept.draw(self.samples, self.chains, context)
        begun = self._begin(graph, context)
        if isinstance(begun, Estimate):
            return begun
        object.__setattr__(self, "_run", begun)
        return begun.draw(self.samples, self.chains, context)


@dataclass
class SingleRun:
    """Chains that have burnt in, and the sums over their draws.

    Args:
        reduced: the graph of the chains.
        moves: the chains.
        sums: what they have drawn.
        copies: the number of chains that started where another chain did.
    """

    reduced: ReducedGraph
    moves: SingleMoves
    sums: RunningBatches
    copies: int

    def draw(self, samples: int, wanted: int, context: SolveContext) -> Estimate:
        """Draw until each chain has this many samples, or the time is up; return the answer from all draws.

        Args:
            samples: draws of each chain.
            wanted: the number of chains that there should be.
            context: the clock of these draws.
        """
        moves, sums, model = self.moves, self.sums, self.moves.model
        moves.context = context
        run_chains(moves, sums, RunLimits(sweeps=samples), context)
        sums.fresh = moves.fresh
        found = sums.findings()
        estimate = sampled_estimate(self.reduced, found, moves.sweeps, self.copies, context)
        jumped = round(float(moves.jumped[1] / max(1.0, moves.jumped[0])), 3)
        estimate = replace(estimate, stats={**estimate.stats, "jumped": jumped})
        if sums.chains < wanted:
            short = f"There was time for {sums.chains} of {wanted} chains only."
            estimate = replace(estimate, message=f"{estimate.message} {short}")
        stuck = _num_stuck(model, found.mean)
        if not stuck:
            return estimate
        return replace(
            estimate,
            status=context.clock.status or Status.ITERATION_LIMIT,
            message=f"{estimate.message} {stuck:,} of {len(model.card):,} variables never changed their state: moves "
            "of single variables may be unable to reach other possible assignments. Use exact or bp.",
        )


def _num_stuck(model: MoveModel, marginals: FloatArray) -> int:
    """Return how many variables of structured factors never changed their state in any chain.

    Such a variable may have only one possible state, or its factors may require several variables to move together;
    the chains cannot tell. For dense tables R-hat alone is the diagnostic.
    """
    if not model.num_structured or not model.has_zeros:
        return 0
    around = np.zeros(len(model.card), bool)
    for group in model.flat.structured:
        around[model.flat.var_of_edge[group.edges]] = True
    certain = np.maximum.reduceat(marginals, model.flat.var_ptr[:-1]) >= 1.0 - 1e-12
    return int(np.sum(certain & around & (model.card > 1)))


class Starts(NamedTuple):
    """Where chains start."""

    x: IntArray  # [C, V] a possible assignment for each chain
    copies: int  # the number of chains that start where another chain does


def find_starts(model: MoveModel, chains: int, context: SolveContext) -> Starts | None:
    """Return a possible assignment for each chain, as different as possible; None if no search found one.

    The starts are random if the model has no zeros. Otherwise local search repairs random starts, and a chain whose
    repair fails starts where another chain does.
    """
    rng = np.random.default_rng(context.seed)
    starts = np.stack([model.random_assignment(rng) for _ in range(chains)])
    if not model.has_zeros:
        return Starts(starts, 0)
    everyone = np.ones(chains, bool)
    possible = repair(model, starts, everyone, _REPAIR_PHASES, context.seed, lambda _: context.clock.stopped)
    found = np.flatnonzero(possible)
    return Starts(starts[found[np.arange(chains) % len(found)]], chains - len(found)) if len(found) else None


class SingleMoves:
    """C chains on one graph that draw one variable at a time; see `ChainMoves`.

    Args:
        model: the compiled graph.
        starts: [C, V] assignments of positive probability.
        thin: sweeps from one recorded draw to the next.
        context: the clock, and the seed of the draws.
    """

    def __init__(self, model: MoveModel, starts: IntArray, thin: int, context: SolveContext) -> None:
        self.model, self.thin, self.context = model, thin, context
        self.sweeps = 0  # the sweeps since burn-in
        self.state = MoveState.zeros(model.arrays, len(starts))
        self.state.x[:] = starts
        self.rng = np.random.default_rng(context.seed).integers(1, 2**64, (len(starts), 1), np.uint64)
        self._crew = Crew(crew_size(context.threads, len(starts)))
        self._p = np.zeros((self._crew.size, len(model.arrays.unary)))
        self._cost = 0.0  # the measured seconds of a sweep of all chains
        self._until_rebuild = 0  # sweeps until the scores are recomputed
        num_vars = len(model.card)
        self.pool = JumpPool(num_vars)
        self._marks = np.zeros((self._crew.size, 2, num_vars), np.int64)
        arrays = model.arrays
        self._links = np.arange(num_vars), arrays.arc_ptr, np.ascontiguousarray(arrays.arcs[:, 0])
        self._most_moved = max(_MOST_MOVED[0], int(_MOST_MOVED[1] * num_vars))
        self._jumped = np.zeros((self._crew.size, 2))

    @property
    def jumped(self) -> FloatArray:
        """[2] jumps that were tried and accepted."""
        return np.asarray(self._jumped.sum(axis=0))

    @property
    def fresh(self) -> float:
        """The share of an independent draw that a sweep is worth at most; see `BlockChains.fresh`."""
        return _FRESH * share_of_jumps(self.jumped, len(self.rng), 1.0)

    def fill_pool(self) -> None:
        """Add states to the pool of jumps that a few sweeps reach from random states: they are as different as modes.

        A pool that would be too large stays empty. Then the chains do not jump.
        """
        states = (_QUENCHES + 1 + RECENT) * min(_JUMPING, len(self.rng))
        if states * len(self.model.card) > _POOL_MEMORY:
            return
        x, none = self.state.x.copy(), np.zeros((len(self.rng), 0))
        choices = np.random.default_rng(self.rng[:, 0])
        for _ in range(_QUENCHES):
            if self.context.clock.stopped:
                break
            self.state.x[:] = choices.integers(0, self.model.card, x.shape)
            self._until_rebuild = 0
            self._sweep(_QUENCH_SWEEPS, 0, none, none)
            self.pool.add(self.state.x[:_JUMPING])
        self.state.x[:] = x
        self._until_rebuild = 0
        self._jumped[:] = 0.0

    def sweep_into(self, sums: RunningBatches, most: int, clock: Clock | None) -> int:
        """Make the draws of one call of the kernel, or one draw in several calls; return the number of draws.

        If the clock stops the first draw, the sweep that follows is recorded, so that there is an answer.
        """
        # The draws of a call depend on the clock, and batches do not.
        if len(self.pool.states) and sums.room == sums.length:
            self.pool.renew(self.state.x[:_JUMPING], sums.sweeps)
        count = min(most, self._draws_per_call(self.thin))
        if count:
            self._sweep(count * self.thin, self.thin, sums.total, sums.squares)
            self.sweeps += count * self.thin
            return count
        skipped = self._skip(self.thin - 1)
        if skipped < self.thin - 1 and clock is not None:
            return 0
        self._sweep(1, 1, sums.total, sums.squares)
        self.sweeps += skipped + 1
        return 1

    def burn_in(self, sweeps: int) -> None:
        """Make sweeps that are not recorded, in a share of the time left."""
        clock = self.context.clock
        until = np.inf if clock.time_limit is None else clock.seconds + _BURN_IN_SHARE * clock.left
        self._skip(sweeps, until, "burn-in")
        if len(self.pool.states):
            self.pool.add(self.state.x[:_JUMPING])

    def _skip(self, sweeps: int, until: float = np.inf, note: str = "") -> int:
        """Make sweeps that are not recorded until a time on the clock; return their number."""
        none, clock = np.zeros((len(self.rng), 0)), self.context.clock
        done = 0
        while done < sweeps and not clock.stopped and clock.seconds < until:
            count = max(1, min(self._draws_per_call(1, until - clock.seconds), sweeps - done))
            self._sweep(count, 0, none, none)
            done += count
            if note:
                self.context.report(done, sweeps, note)
        return done

    def _sweep(self, sweeps: int, thin: int, total: FloatArray, squares: FloatArray) -> None:
        """Sweep all chains, which threads share; see `gibbs_sweeps`.

        Scores are recomputed after a fixed number of sweeps, so that rounding does not add up. The number must not
        depend on the clock: a score that differs in its last digit can change a draw.
        """
        from equifactor.factors.moves import rebuild
        from equifactor.kernels.jit import plain
        from equifactor.solvers.sampling.gibbs_kernels import gibbs_sweeps

        begin, arrays, renewed = Clock.now(), plain(self.model.arrays), self._until_rebuild <= 0

        def work(thread: int, start: int, stop: int) -> None:
            own = slice(start, stop)
            for c in range(start, stop if renewed else start):
                rebuild(arrays, plain(self.state.of(c)))
            gibbs_sweeps(
                arrays, tuple(array[own] for array in self.state), self.rng[own], self._p[thread], sweeps, thin,
                total[own], squares[own], self.pool.states, self._most_moved, (*self._links, *self._marks[thread]),
                self._jumped[thread],
            )  # fmt: skip

        self._until_rebuild = (_REBUILD_EVERY if renewed else self._until_rebuild) - sweeps
        chains, parts = len(self.rng), _PIECES * self._crew.size
        # The first call is short, and compiles the kernels.
        shared = self._crew.size > 1 and self._cost * sweeps > _SHARED_SECONDS
        self._crew.divide(chains, -(-chains // parts) if shared else chains, work)
        self._cost = (Clock.now() - begin) / sweeps

    def _draws_per_call(self, thin: int, seconds: float = CALL_SECONDS) -> int:
        """Return how many draws, `thin` sweeps apart, one call of the kernel should make; 0 if a draw takes longer.

        A call ends with the time that is left, or after `seconds` if they are fewer.
        """
        seconds = min(seconds, CALL_SECONDS, self.context.clock.left)
        wanted = int(seconds / max(self._cost * thin, 1e-9)) if self._cost else 0
        return min(wanted, (self._until_rebuild if self._until_rebuild > 0 else _REBUILD_EVERY) // thin)
