"""Exact inference in little memory: a few variables are held fixed in all their states, the others eliminated."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.plan import format_bytes
from equifactor.solvers.sampling.block_program import build_block, shared_memory
from equifactor.solvers.sampling.cutset_levels import Nest, choose_states, level_arrays, nest
from equifactor.solvers.sampling.cutsets import Budget, cut_to_fit
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

_SECONDS_PER_ENTRY = 2e-9  # A pass upwards takes this long per table entry; measured on one core at 2.8 GHz.
_SECONDS_PER_STATE = 2e-5  # Each state of the cutset takes this long apart from its tables.
_WAY_BACK = 3.3  # For marginals, a state takes this many times as long again.
_PLANNING_PER_VARIABLE = 5e-5  # An order takes about this many seconds per variable.
_HASTE, _OVER = 0.1, 0.2  # Shares of the time after which a cutset is looked for in haste, and no longer.
_TRIES = 64  # This many cutsets are compared, unless looking for them takes
_SHARE_OF_BEST = 0.08  # more than this share of the time that the best one takes.
_NOISE = 0.3  # log2 of the largest factor by which the worth of variables is changed to make cutsets differ.
_LEAST_TRIES, _HOPELESS = 3, 16.0  # If the first few take so many times the time allowed, all are hopeless.
_MOST_STATES = 2**22  # A cutset with more states is hopeless, too: the sum at each is kept.
_HOPE = 2.0  # A sum is begun although its estimate is this many times the time left: the estimate may be off.
_SUMS_SHARE = 0.75  # All sums must be made in this share of the time where marginals are to follow.
_TRIAL_SHARE = 0.08  # The pace of this part of the time decides whether a sum goes on.
_SCRATCH = 1.3  # The way down takes this many times the memory of the messages.
_LEAST_WAITING = 2**16  # So many numbers may always wait between levels.
_FEWEST_STATES = 8  # Marginals are from this many states, however short the time.
_BURST_SECONDS = 0.05  # A call of the kernel aims to stay below this time.


@register("conditioning")
@dataclass(frozen=True, kw_only=True)
class Conditioning(GraphSolver):
    """Exact in little memory: sums over all states of a cutset whose complement has a plan within the memory limit."""

    tasks = (Task.MAR, Task.PR)
    exact_on = "all"

    memory_limit: float = option(2.0**-6, "GiB of tables for the elimination given the cutset", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Choose a cutset, check the time, sum."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        if context.clock.stopped:
            return Estimate(status=context.clock.status or Status.TIME_LIMIT)
        nested = best_cutset(reduced.graph, self.memory_limit, task, context.seed, _HOPE * context.clock.left)
        seconds = seconds_of(nested, task)
        if seconds > _HOPE * context.clock.left or math.isinf(seconds):
            return Estimate(
                status=Status.TOO_LARGE if math.isinf(seconds) else Status.TIME_LIMIT,
                message=f"a cutset of {len(nested.variables)} variables has 2^{nested.log2_states:.0f} states, about "
                f"{seconds:.2g} s in {format_bytes(8 * nested.cut.kept)}: raise memory_limit or the time limit, or use "
                "blocks",
                stats=_stats(nested),
            )
        found = sum_all(reduced, nested, task, context)
        assert found is not None  # Only with a limit of its own it gives up.
        return found


def memory_budget(gib: float) -> float:
    """Message entries that fit this many GiB with scratch memory for the way down; tables of the model are extra."""
    return max(1.0, gib * 2**27 / _SCRATCH)


def best_cutset(graph: FactorGraph, gib: float, task: Task, seed: int, most_seconds: float = 1e4) -> Nest:
    """The cutset that is summed over in the shortest time, of a few that leave an elimination within `gib` GiB.

    Where the first would take many times `most_seconds`, no others are looked for; nor is any looked for much longer
    than a fifth of that.
    """
    begin = time.perf_counter()

    def late(share: float) -> bool:
        return time.perf_counter() - begin + _PLANNING_PER_VARIABLE * graph.num_vars > share * most_seconds

    kept = memory_budget(gib)
    rng = np.random.default_rng(seed)
    best, least = None, math.inf
    for n in range(_TRIES):
        noise = np.exp2(_NOISE * rng.random(graph.num_vars) if n else np.zeros(graph.num_vars))
        cut = cut_to_fit(
            graph.structure, Budget(math.inf, kept), noise, seed=seed + n, most_bits=math.log2(_MOST_STATES),
            haste=lambda: late(_HASTE), over=lambda: late(_OVER),
        )  # fmt: skip
        # On the way down, numbers wait twice, beside messages and scratch memory.
        spare = max(_LEAST_WAITING, (gib * 2**27 - _SCRATCH * cut.kept) / 2) if task is Task.MAR else math.inf
        nested = nest(graph.structure, cut, spare)
        seconds = seconds_of(nested, task)
        if best is None or seconds < least:
            best, least = nested, seconds
        spent = time.perf_counter() - begin
        hopeless = n >= _LEAST_TRIES and least > _HOPELESS * most_seconds
        if not cut.is_cut.any() or spent > _SHARE_OF_BEST * least or hopeless or late(_HASTE):
            break
    assert best is not None
    return best


def seconds_of(nested: Nest, task: Task) -> float:
    """The time to sum over all states of the cutset on one core, within a factor of two or three."""
    cut, states = nested.cut, float(nested.states[-1])
    if states > _MOST_STATES or not (cut.fits or len(cut.variables) <= 1):
        return math.inf
    once = nested.entries * _SECONDS_PER_ENTRY + states * _SECONDS_PER_STATE
    return once * (1.0 + _WAY_BACK if task is Task.MAR else 1.0)


def sum_all(
    reduced: ReducedGraph, nested: Nest, task: Task, context: SolveContext, within: float = math.inf
) -> Estimate | None:
    """Sum over the states of the cutset; where the clock stops it, what was summed is a lower bound on ln Z.

    Zeros make many states impossible at once, and no estimate knows how many. So the pace of the first part decides
    whether the sum will end in time; None where it will not. With all sums the probability of every state of the
    cutset is known. Marginals follow from the states that matter or, where time is short, from a draw of them.

    Args:
        reduced: the graph without observed variables, and the way back.
        nested: the cutset.
        task: MAR, or PR, for which the sums are enough.
        context: the clock.
        within: seconds that all may take.
    """
    total = CutsetSums(reduced.graph, nested)
    end = context.clock.seconds + min(within, context.clock.left)
    share = _SUMS_SHARE if task is Task.MAR else 1.0
    if not total.make_sums(context, share * min(within, context.clock.left), gives_up=within < math.inf):
        return None
    stats: dict[str, float] = {**_stats(nested), "cutset_states_visited": total.visited}
    done = total.visited == len(total.log_sum)
    if total.log_z == -math.inf:
        if done:
            return zero_by_exclusion(reduced.original)
        return Estimate(status=context.clock.status or Status.TIME_LIMIT, stats=stats)
    said = f"{total.visited:,} of {len(total.log_sum):,} states of the cutset were summed: a lower bound on ln Z."
    estimate = Estimate(
        status=Status.EXACT if done else context.clock.status or Status.TIME_LIMIT,
        message="" if done else said,
        log_z=total.log_z,
        lower_bound=total.log_z,
        upper_bound=total.log_z if done else None,
        iterations=total.visited,
        stats=stats,
    )
    if task is Task.PR:
        return estimate
    values, error = total.marginals(context, end)
    estimate = replace(estimate, marginals=reduced.marginals(_normalised(values, reduced.graph.structure.state_ptr)))
    if error == 0.0 or not done:
        return estimate
    errors = np.where((values > 0.0) & (values < 1.0), error, 0.0)
    return replace(
        estimate,
        status=context.clock.status or Status.CONVERGED,
        standard_errors=reduced.errors(errors),
        message=f"ln Z is exact. Marginals are from {total.chosen:,} of {len(total.log_sum):,} states of the cutset, "
        f"drawn by their exact probabilities: their standard error is at most {error:.2g}.",
        stats={**stats, "max_standard_error": error},
    )


class CutsetSums:
    """The sums over the block at all states of a cutset, and what follows from them.

    Args:
        graph: the model, without observed variables.
        nested: the cutset.
    """

    def __init__(self, graph: FactorGraph, nested: Nest) -> None:
        s = self._structure = graph.structure
        self._log_phi, self._nested = graph.log_phi, nested
        self._block = build_block(s, nested.cut, shared_memory(s, nested.cut.kept))
        self._levels = level_arrays(nested, self._block)
        self._x = np.zeros(s.num_vars, np.int64)
        self._seconds = 0.0  # This is the time of all sums that were made.
        self.log_sum = np.full(int(nested.states[-1]), -np.inf)
        self.visited = 0
        self.chosen = 0  # the number of states that marginals are from

    @property
    def log_z(self) -> float:
        """ln of what was summed."""
        top = float(self.log_sum.max())
        return top + math.log(np.exp(self.log_sum - top).sum()) if top > -math.inf else top

    def make_sums(self, context: SolveContext, within: float, gives_up: bool) -> bool:
        """Make all sums, or those that the time allows; False where the pace says that this is in vain."""
        from equifactor.solvers.sampling.cutset_kernels import sum_over_cutset

        since, steps, stale = context.clock.seconds, 1, np.zeros(1, np.int64)
        count = len(self.log_sum)
        while self.visited < count and not (self.visited and context.clock.stopped):
            begin = time.perf_counter()
            self.visited = sum_over_cutset(
                self._log_phi, self._x, self.visited, steps, tuple(self._levels), *self._block.records, self.log_sum,
                stale,
            )  # fmt: skip
            steps = max(1, int(steps * min(8.0, _BURST_SECONDS / max(1e-9, time.perf_counter() - begin))))
            context.report(self.visited, count)
            self._seconds = context.clock.seconds - since
            if self._seconds > within and not gives_up:
                break
            if gives_up and self._seconds > _TRIAL_SHARE * within and self._seconds * count > within * self.visited:
                return False
        return True

    def marginals(self, context: SolveContext, end: float) -> tuple[FloatArray, float]:
        """[X] the probabilities of all states, and their standard error where time allows a draw of states only."""
        from equifactor.solvers.sampling.cutset_kernels import marginals_over_cutset

        s, levels, clock = self._structure, self._levels, context.clock
        weight = np.exp(self.log_sum - self.log_z)
        weight /= weight.sum()
        chosen, chosen_weight, error = self._choose(weight, end - clock.seconds, context.seed)
        planned = len(chosen)
        p, total = np.zeros(int(s.state_ptr[-1])), np.zeros(int(s.state_ptr[-1]))
        mass, waiting = np.zeros(len(levels.states)), np.zeros((2, int(levels.place[-1])))
        n, steps = 0, 1
        while True:
            begin, stop = time.perf_counter(), min(n + steps, len(chosen))
            marginals_over_cutset(
                self._log_phi, self._x, chosen, chosen_weight, n, stop, tuple(levels), *self._block.records, p, total,
                mass, waiting,
            )  # fmt: skip
            if n == stop:
                break
            n = stop
            if clock.stopped:  # The next call adds what is waiting.
                chosen = chosen[:n]
            steps = max(1, int(steps * min(8.0, _BURST_SECONDS / max(1e-9, time.perf_counter() - begin))))
        self.chosen = n
        missing = max(0.0, 1.0 - float(chosen_weight[:n].sum())) if n < planned else 0.0
        for k, i in enumerate(levels.cut.tolist()):
            inner = len(weight) // int(levels.states[k + 1])
            by_state = weight.reshape(-1, int(s.card[i]), inner).sum(axis=(0, 2))
            total[s.state_ptr[i] : s.state_ptr[i + 1]] = by_state
        return total, max(error, missing)

    def _choose(self, weight: FloatArray, seconds: float, seed: int) -> tuple[IntArray, FloatArray, float]:
        """States for marginals, as many as the time allows."""
        rng = np.random.default_rng(seed)
        each = _WAY_BACK * self._seconds / max(1.0, self._nested.entries * self.visited / len(weight))
        most = len(weight)
        while True:
            chosen, chosen_weight, error = choose_states(weight, most, rng)
            prefixes = chosen[:, None] // (len(weight) // self._levels.states)
            made = 1.0 + np.count_nonzero(np.diff(prefixes, axis=0), axis=0)
            cost = each * float(made @ self._nested.sizes)
            if cost <= seconds or most <= _FEWEST_STATES:
                return chosen, chosen_weight, error
            most = max(_FEWEST_STATES, int(min(most, len(chosen)) * min(0.9, seconds / cost)))


def _normalised(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """[X] the same with a sum of exactly 1 for each variable."""
    if not len(values):
        return values
    return values / np.repeat(np.add.reduceat(values, ptr[:-1]), np.diff(ptr))


def _stats(nested: Nest) -> dict[str, float]:
    return {
        "cutset": len(nested.variables),
        "log2_cutset_states": round(nested.log2_states, 2),
        "width": int(np.diff(nested.cut.order.sep_ptr).max(initial=0)),
    }
