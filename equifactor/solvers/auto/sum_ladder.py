"""Marginals and ln Z if elimination does not fit: solvers from quick to slow, until the time is up.

Each solver gets a share of the time left; `ladder_answers.py` makes one answer of all.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import ACCEPTED_OVERRUN, Budget, Refusal, Seconds
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.status import Status, Task
from equifactor.kernels.compile_costs import COMPILE_SHARE, LAST_COMPILE_SHARE, can_compile, seconds_to_compile
from equifactor.solvers.auto.crude_bounds import log_range, with_bounds, with_error
from equifactor.solvers.auto.ladder_answers import STUCK, LadderAnswer, best_log_z, best_marginals
from equifactor.solvers.auto.table_forms import run_any_kind
from equifactor.solving.estimate import Estimate
from equifactor.solving.ladder import Ladder, Step, Steps

if TYPE_CHECKING:
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.sampling.gibbs import Gibbs
    from equifactor.solving.solver import SolveContext, Solver

# The standard error of marginals below which nothing else is run. Halved or doubled: error within 10 %.
_GOOD_ERROR = 5e-4
# The share of the time left for regions: the sampler after them gains more from time. Halved or doubled: error within
# 10 %.
_REGION_SHARE = 0.15
_MOST_TABLES = 2.0**-6  # GiB of tables for solvers after the cutset: with more, they get slower and not better.
_SPLITTINGS = 4.0  # Splittings that regions should have time for, on a model that nothing else answers. By hand.
# The share of the time left for bounds on ln Z; without dense tables, for the lower one. Halved or doubled: error
# within 10 %, of ln Z within 20 %; halved on public models: +84 %.
_BOUND_SHARE = 0.5
# The share of the time left for an upper bound without dense tables. Halved or doubled: error of ln Z within 30 %.
_TREE_SHARE = 0.9
# A solver is not started with less time than this. Halved or doubled: error within 10 % with 0.3 s; doubled with 0.1 s:
# error +290 %.
_LEAST_SECONDS = 0.05
# Single-variable sampling of a model with zeros is not started with less time than this: its starts take up to 20 ms.
# After a network a shorter run tells nothing.
_LEAST_GIBBS = 0.01
# The share of the time left for single-variable sampling before that of blocks. With 0.1 s it errs ten times less on
# graphs of 24 variables with all pairs; with 1 s and strong couplings blocks err thirty times less.
_GIBBS_SHARE = 0.25
# The share of the time left for a first look by single-variable sampling, the sweeps of each chain that must fit into
# it, and the R-hat that chains must promise to have at the end. All by `benchmarks.front`, even places.
_LOOK = 0.12, 16, 1.5
# The same if little time is left: R-hat of short chains is too large. If the network would take more than the rest, the
# look has all the time, provided that many sweeps of each chain fit or that the network does not.
_SHORT = 0.05
_SHORT_LOOK = 0.4, 96, 2.0
_ALONE_SWEEPS = 150
# The standard error of marginals, expected at the end of the time, below which neither networks nor regions are better
# than a sampler: they err by 0.01 to 0.1 on models on which single-variable sampling mixes.
_PROMISING = 0.01
# The share of the time left up to which the network is worth its time after such a look: if the chains may mix; if not,
# and blocks have the time to start instead; and if they do not, when fewer steps are good too. A deep belief network
# with 0.3 s has a KL of 0.33 with the network and 0.07 without. With 0.75 for the last, grids of 600 spins have a KL of
# .018 with 0.1 s, and now .008. With 1.25 for the second, small graphs with zeros have errors twice as large.
_NETWORK_SHARES = 0.25, 0.75, 1.25
# The same on models full of zeros. On linkage with 1 s regions have a KL of .003 alone, and the network did not end.
_RIGID_SHARE = 0.25
_TRIAL_SHARE = 0.15  # The share of the time left for a first run of blocks if single-variable sampling may be better.
_COVERS = 2.0  # Chains that are stuck give way to blocks if there is time for this many covers. Chosen by hand.
_LEAST_BLOCKS = 0.02  # Sampling in blocks is not started with less time than this. It may still refuse a large model.
_MOST_DRAWS = 10**5  # Draws of each chain of single-variable sampling at most: the time ends first.
# Reference seconds of quick bounds on ln Z for a table entry: 1.5 s on a formula of 656,000 clauses.
_CRUDE_ENTRY = 3e-7
_UNNOTICED = 0.02  # Seconds that quick bounds may take even if the time is up. Chosen by hand.
_STREAM = 7919  # The distance of the seeds of samplers that run side by side: a prime, so that seeds do not meet.


@dataclass(frozen=True)
class LadderLimits:
    """What a ladder may use beside time."""

    memory: float  # GiB of tables
    cores: int = 1  # threads


@dataclass
class SumLadder:
    """The ladder of solvers for one graph.

    Args:
        graph: the model, with factors of any kind.
        form: the model with dense tables alone, or why that is not possible.
        task: MAR or PR.
        context: its clock is the whole time for this graph.
        limits: what may be used beside time.
        answers: the answers so far, at first those of message passing or a network.
        unready: the solvers whose kernels could not be compiled in time.
        looked: the answer of a short run of single-variable sampling, if there was one.
        mixes: whether its chains should agree at the end of the time.
        promises: whether a sampler should then be better than networks and regions.
        searched: what a search that was cut short has found; its bounds on ln Z count.
    """

    graph: FactorGraph
    form: LoweredGraph | Refusal
    task: Task
    context: SolveContext
    limits: LadderLimits
    answers: list[LadderAnswer] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    looked: LadderAnswer | None = None
    mixes: bool = False
    promises: bool = False
    searched: Estimate | None = None

    def run(self) -> Estimate:
        """Run the solvers and return the best answer, with a message about how it was found."""
        clock, budget = self.context.clock, Budget(self.context.clock)
        cores = 1 if isinstance(self.form, Refusal) else self.limits.cores
        if cores > 1:  # The samplers themselves run side by side.
            self.context = replace(self.context, threads=1)
        with ThreadPoolExecutor(cores) as threads:
            others = [
                threads.submit(self._run_solver, self._sampler(), 1.0, stream)
                for stream in range(1, cores)
                if budget.worth_starting(_LEAST_SECONDS)
            ]
            Ladder(self._steps(), budget).run()
            self.answers += [other.result() for other in others]
        if not isinstance(self.form, Refusal):
            for answer in self.answers:
                if answer.estimate.status in (Status.EXACT, Status.ZERO_PROBABILITY):
                    return self._described(answer.estimate, str(answer.solver), "")
        if self.task is Task.MAR:
            scale = math.inf if isinstance(self.form, Refusal) else log_range(self.form.graph)
            estimate, chosen, error = best_marginals(self.answers, scale)
        else:
            estimate, chosen, error = best_log_z(self.answers)
        estimate = replace(with_bounds(estimate, self.searched), status=clock.status or estimate.status)
        return self._described(estimate, chosen, error)

    def by_cutset(self) -> Estimate | None:
        """Return the answer of a sum over a cutset if it is exact, or nearly so, in the time.

        A worse answer is added to the answers of the ladder.
        """
        from equifactor.graph.reduction import to_free_part
        from equifactor.solvers.cutsets.conditioning import CUTSET_SHARE, Conditioning

        clock, budget = self.context.clock, Budget(self.context.clock)
        if isinstance(self.form, Refusal) or not budget.worth_starting(_LEAST_SECONDS):
            return None
        if not can_compile(clock, CUTSET_SHARE, Conditioning.name):
            self.unready.append(Conditioning.name)
            return None
        reduced = to_free_part(self.form.graph)
        if reduced is None:
            return None
        try:
            return self._sum_over_cutset(reduced)
        except NotCompiledError:
            self.unready.append(Conditioning.name)
            return None

    def _sum_over_cutset(self, reduced: ReducedGraph) -> Estimate | None:
        from equifactor.solvers.cutsets.conditioning import CUTSET_SHARE, Conditioning, best_cutset, seconds_of, sum_all
        from equifactor.solvers.cutsets.cutset_choice import order_seconds

        assert not isinstance(self.form, Refusal)
        clock, budget = self.context.clock, Budget(self.context.clock)
        if not budget.worth_starting(order_seconds(reduced.graph.structure), CUTSET_SHARE):
            return None
        begin, within = clock.seconds, CUTSET_SHARE * clock.left
        cut = best_cutset(reduced.graph, self.limits.memory, self.task, self.context.seed, within)
        if budget.time_for(seconds_of(cut, self.task)) > ACCEPTED_OVERRUN * within:
            return None
        found = sum_all(reduced, cut, self.task, self.context, within)
        if isinstance(found, Refusal):
            return None
        found = self.form.estimate(found)
        solver = Conditioning(memory_limit=self.limits.memory)
        if found.status is Status.EXACT or float(found.stats.get("max_standard_error", math.inf)) < _GOOD_ERROR:
            return self._described(found, str(solver), "")
        if found.standard_errors is not None:
            self.answers.append(LadderAnswer(solver, found, clock.seconds - begin))
        return None

    def _steps(self) -> Steps[LadderAnswer]:
        """Offer bounds, regions, and a sampler for the rest of the time.

        A graph that cannot have dense tables gets bounds on ln Z alone.
        """
        from equifactor.solvers.bounds.mini_buckets import WeightedMiniBuckets
        from equifactor.solvers.messages.meanfield import MeanField
        from equifactor.solvers.messages.trw import TreeReweighted
        from equifactor.solvers.regions.bounded_regions import Regions

        if isinstance(self.form, Refusal):
            if self.task is Task.PR:
                yield self._step(MeanField(), _BOUND_SHARE)
                yield self._step(TreeReweighted(), _TREE_SHARE)
            return
        if self.task is Task.PR:
            yield self._step(WeightedMiniBuckets(memory_limit=self._tables), _BOUND_SHARE)
        regions = Regions(memory_limit=self._tables, check=0.0)  # The sampler below judges it.
        # Blocks do not start without a cover. Single-variable sampling alone is stuck on a rigid model.
        alone = self.is_rigid and not Budget(self.context.clock).worth_starting(
            Seconds.BLOCK_COVER * self.graph.num_vars
        )
        if not self.promises:
            least = min(_LEAST_SECONDS, _SPLITTINGS * Seconds.SPLITTING * self.graph.structure.num_edges)
            found = yield self._step(regions, 1.0 if alone else _REGION_SHARE, least=least if alone else _LEAST_SECONDS)
            if isinstance(found, LadderAnswer) and found.estimate.status is Status.EXACT:
                return
        gibbs, quick = self._singles, self.looked
        in_time = Budget(self.context.clock).ends_in_time(Seconds.GIBBS_START * self.graph.structure.num_edges)
        if self.task is Task.MAR and quick is None and not self.is_rigid and in_time:
            share = 1.0 if self.context.clock.left < _LEAST_BLOCKS else _GIBBS_SHARE
            waits = self._has_zeros or any(answer.solver.name == "fe-net" for answer in self.answers)
            found = yield self._step(gibbs, share, least=_LEAST_GIBBS if waits else 0.0)
            quick = None if isinstance(found, Refusal) else found
        if quick is not None and not quick.is_empty and self._prefers_singles(quick):
            trial = yield self._step(self._sampler(), _TRIAL_SHARE, least=_LEAST_BLOCKS)
            if not (isinstance(trial, LadderAnswer) and trial.merit < quick.merit):
                yield from self._longer(gibbs, quick)
                return
        sampled = yield self._step(self._sampler(), 1.0, least=_LEAST_BLOCKS)
        if quick is not None and self._sampler().name in self.unready:
            yield from self._longer(gibbs, quick)  # It is the sampler that is compiled the soonest.
        if (isinstance(sampled, Refusal) or sampled.is_empty) and not alone:
            yield self._step(regions, 1.0)  # The sampler had too little time, or found nothing to start from.

    def _prefers_singles(self, quick: LadderAnswer) -> bool:
        """Return whether a longer run of single-variable sampling may be better than one of blocks."""
        return self.mixes or quick.r_hat_after(self.context.clock.left) < STUCK or not self._blocks_can_start()

    def _blocks_can_start(self) -> bool:
        """Return whether the time left is enough to choose blocks and to draw them."""
        covers = _COVERS * Seconds.BLOCK_COVER * self.graph.num_vars
        return Budget(self.context.clock).worth_starting(covers)

    def look(self) -> None:
        """Sample single variables for a small part of the time if that shows something."""
        from equifactor.solvers.auto.sum_portfolio import network_fits

        clock, solver, s = self.context.clock, self._singles, self.graph.structure
        if self.task is not Task.MAR or isinstance(self.form, Refusal) or self.is_rigid:
            return
        sweep = solver.chains * Seconds.GIBBS_STATE * float(s.card[s.scope_vars].sum())
        short = clock.left < _SHORT
        share, sweeps, most = _SHORT_LOOK if short else _LOOK
        if short and not network_fits([self.graph], self.context, 1.0 - share):
            if network_fits([self.graph], self.context) and not Budget(clock).worth_starting(_ALONE_SWEEPS * sweep):
                return
            share, sweeps = 1.0, _LOOK[1]
        if not Budget(clock).worth_starting(sweeps * sweep, share):
            return
        found = self._step(solver, share).run()
        if isinstance(found, Refusal) or found.is_empty:
            return
        self.looked, left = found, max(clock.left, 1e-9)
        self.mixes = found.r_hat_after(left) < most
        error = float(np.sqrt(np.mean(found.squares) * found.seconds / left))
        self.promises = self.mixes and (short or error < _PROMISING)

    def needs_no_network(self, clock: Clock, quick: LadderAnswer) -> bool:
        """Return whether a sampler needs the time of the network more, or the network would be cut short.

        On a model full of zeros a network that has not compared itself with BP is worse than BP, and regions are better
        than both where BP has settled.
        """
        from equifactor.solvers.auto.sum_portfolio import network_seconds

        if self.is_rigid and self.task is Task.MAR:
            settled = quick.estimate.status is Status.CONVERGED
            return settled or network_seconds([self.graph], clock) > _RIGID_SHARE * self.context.clock.left
        if self.promises or self.looked is None or self.context.clock.left < _SHORT:
            return self.promises
        share = _NETWORK_SHARES[0 if self.mixes else 1 if self._blocks_can_start() else 2]
        return network_seconds([self.graph], clock) > share * self.context.clock.left

    @cached_property
    def is_rigid(self) -> bool:
        """Whether the model is full of zeros, so that chains which move single variables do not mix."""
        from equifactor.solvers.auto.by_search import is_full_of_zeros

        return is_full_of_zeros(self.graph, self.form)

    def worth_keeping(self, found: list[LadderAnswer]) -> list[LadderAnswer]:
        """Return the answers without that of a network which has not compared itself with BP on a rigid model."""
        kept = (a for a in found if a.solver.name != "fe-net" or a.estimate.marginal_errors is not None)
        return list(kept) if self.is_rigid else found

    def _longer(self, sampler: Solver, quick: LadderAnswer | Refusal) -> Steps[LadderAnswer]:
        """Offer more draws of a sampler for the rest of the time; its answer is then from all draws."""
        longer = yield self._step(sampler, 1.0, least=0.0, compile_share=LAST_COMPILE_SHARE)
        if isinstance(quick, LadderAnswer) and isinstance(longer, LadderAnswer) and not longer.is_empty:
            self.answers = [answer for answer in self.answers if answer is not quick]

    @cached_property
    def _singles(self) -> Gibbs:
        """The sampler of single variables, whose runs continue its chains."""
        from equifactor.solvers.sampling.gibbs import LongGibbs

        return LongGibbs(samples=_MOST_DRAWS)

    @property
    def _has_zeros(self) -> bool:
        return bool(np.isneginf(self.graph.log_phi).any())

    @property
    def _tables(self) -> float:
        """GiB of tables for one solver."""
        return min(self.limits.memory / self.limits.cores, _MOST_TABLES)

    def _sampler(self) -> Solver:
        from equifactor.solvers.sampling.blocks import BlockSampling

        return BlockSampling(memory_limit=self._tables, enumerate=False)

    def _step(
        self,
        solver: Solver,
        share: float,
        *,
        least: float = _LEAST_SECONDS,
        compile_share: float = COMPILE_SHARE,
    ) -> Step[LadderAnswer]:
        def run() -> LadderAnswer | Refusal:
            if not can_compile(self.context.clock, share, solver.name, compile_share=compile_share):
                self.unready.append(solver.name)
                return Refusal("its kernels are not compiled, and compiling them would take too long")
            answer = self._run_solver(solver, share)
            self.answers.append(answer)
            return answer

        return Step(run=run, work=least, share=share)

    def _run_solver(self, solver: Solver, share: float, stream: int = 0) -> LadderAnswer:
        """Run a solver in a share of the time left. Samplers side by side have different streams of random numbers."""
        clock = self.context.clock
        begin = clock.seconds
        part = replace(
            self.context, clock=clock if share == 1.0 else clock.part(share), seed=self.context.seed + _STREAM * stream
        )
        try:
            estimate = run_any_kind(solver, [self.graph], self.task, part)[0]
        except NotCompiledError:
            self.unready.append(solver.name)
            estimate = Estimate(status=Status.TIME_LIMIT)
        return LadderAnswer(solver, estimate, clock.seconds - begin)

    def _described(self, estimate: Estimate, chosen: str, error: str) -> Estimate:
        """Return the estimate with a message on its error and the solvers run; ln Z always gets an error or bounds."""
        form = self.form
        if not isinstance(form, Refusal):
            cost = _CRUDE_ENTRY * form.graph.structure.num_entries
            timely = cost < _UNNOTICED or Budget(self.context.clock).ends_in_time(cost)
            form = form if timely else Refusal("there was no time for bounds")
        estimate, added = with_error(estimate, form)
        # A run that was cut off because a kernel was missing has no answer, but another run of its solver may have one.
        complete = [a for a in self.answers if a.solver.name not in self.unready or not a.is_empty]
        unready = set(self.unready) - {answer.solver.name for answer in complete}
        run = [str(answer) for answer in complete]
        ran = f"Solvers run: {', '.join(run)}." if run else ""
        if unready:
            seconds = seconds_to_compile(*unready)
            ran += f" Not run, because their kernels were not ready in time: {', '.join(sorted(unready))}."
            if seconds >= 1.0:  # Some may have been compiled since.
                ran += f" Compiling them takes about {seconds:.0f} s; `equifactor doctor --warm` compiles all kernels."
        message = " ".join(filter(None, (error, added, ran.strip(), estimate.message)))
        stats = {**estimate.stats, "ladder": run, "chosen": chosen}
        return replace(estimate, message=message, stats=stats)


def share_of_time(context: SolveContext, graphs_left: int, end: float) -> SolveContext:
    """Return the context for the next of some graphs that share the time until `end` on the clock of the call."""
    clock = context.clock
    left = min(clock.left, end - clock.seconds)
    return replace(context, clock=Clock(max(0.0, left) / graphs_left, whole=clock))
