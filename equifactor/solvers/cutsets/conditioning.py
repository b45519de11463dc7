"""The solver `conditioning`: a sum over all states of a few variables, with the other variables eliminated exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import ACCEPTED_OVERRUN, CALL_SECONDS, FLOAT_BYTES, GIB, Budget, Refusal, Seconds
from equifactor.base.clock import Clock
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.cutsets.block_program import build_block, shared_memory
from equifactor.solvers.cutsets.cutset_choice import BlockLimits, cut_to_fit, order_seconds
from equifactor.solvers.cutsets.cutset_levels import Nest, choose_states, cluster_work, level_arrays, nest
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.plan import format_bytes
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

# The time of the pass down, for marginals, over that of the pass up: 1.3 to 2.0 on twelve random graphs of four kinds,
# with a median of 1.84.
_WAY_DOWN = 1.9
# The share of the time after which the choice of a cutset ends. After half of it, orders are fewer. Halved or doubled:
# the same answers, CPU within 10 %.
_CHOICE_SHARE = 0.2
_TRIES = 64  # Cutsets that are compared at most. Halved or doubled: the same answers, CPU within 15 %.
# log2 of the largest factor that changes the price of a variable, to make cutsets differ. Halved or doubled: the same
# answers, CPU within 20 %.
_NOISE = 0.3
# Cutsets after which the choice may end early because all take too long. Halved or doubled: the same answers, CPU
# within 15 %.
_LEAST_TRIES = 3
# The choice ends early if the best cutset takes this many times the time allowed. Halved or doubled: the same answers,
# CPU within 20 %.
_TOO_LONG = 16.0
_MOST_STATES = 2**22  # States of a cutset, at most: the sum at each state is kept, 32 MiB.
# The share of the time for all sums, if marginals follow. Halved or doubled: the same answers, CPU within 15 %.
_SUMS_SHARE = 0.75
# The same if another solver can answer. With 0.75, sums of 0.3 s on a deep belief network left no time for marginals.
_GIVES_UP_SHARE = 0.5
# The share of the time of `auto` and `blocks` in which a sum must end by its pace at the beginning. Halved or doubled:
# error of both within 15 %.
CUTSET_SHARE = 0.8
# Cutsets are compared for at most this share of the time that the best one takes, and after this share of its time the
# pace of a sum decides whether it goes on. Halved or doubled: the same answers, CPU within 15 %.
_TRIAL_SHARE = 0.08
# The memory of the pass down over that of the messages. Halved or doubled: the same answers, CPU within 20 %.
_SCRATCH = 1.3
_LEAST_WAITING = 2**16  # Numbers that may always wait between levels: 512 KiB.
_FIRST_EFFORT = 2**18  # Table entries of the first call of the kernel, which takes about a millisecond.
# Seconds that the sum at the first state may take after the deadline. Halved or doubled: the same answers, CPU within
# 15 %.
_FIRST_PASS = 0.5
# States that marginals are made from, however short the time. Halved or doubled: the same answers, CPU within 15 %.
_FEWEST_STATES = 8
# The growth of the work from one call of the kernel to the next, at most: the first calls are too short to be timed
# well.
_MOST_GROWTH = 8.0


@register("conditioning")
@dataclass(frozen=True, kw_only=True)
class Conditioning(GraphSolver):
    """Exact in little memory: a sum over all states of a cutset, with the rest eliminated within the memory limit."""

    tasks = (Task.MAR, Task.PR)
    exact_on = "all"

    memory_limit: float = option(2.0**-6, "GiB of tables for the elimination given the cutset", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Choose a cutset, check the time, and sum."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        budget = Budget(context.clock)
        if context.clock.stopped or not budget.ends_in_time(order_seconds(reduced.graph.structure)):
            said = "There is not enough time to choose a cutset. Raise the time limit, or use bp."
            return Estimate(status=context.clock.status or Status.TIME_LIMIT, message=said)
        nested = best_cutset(reduced.graph, self.memory_limit, task, context.seed, context.clock.left)
        seconds = seconds_of(nested, task)
        if math.isinf(seconds):
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"No cutset of at most {_MOST_STATES:,} states was found that leaves tables within "
                f"{format_bytes(self.memory_limit * GIB)}. Raise memory_limit or the time limit, or use blocks.",
                stats=_stats(nested),
            )
        if not budget.worth_starting(seconds, ACCEPTED_OVERRUN):
            return Estimate(
                status=Status.TIME_LIMIT,
                message=f"A cutset of {len(nested.variables)} variables has 2^{nested.log2_states:.0f} states, and the "
                f"sum over them would take about {seconds:.2g} s. Raise memory_limit or the time limit, or use blocks.",
                stats=_stats(nested),
            )
        found = sum_all(reduced, nested, task, context)
        assert not isinstance(found, Refusal)  # Without a limit of its own, the sum is never refused.
        return found


def memory_budget(gib: float) -> float:
    """Return the message entries that fit this many GiB with the memory of a pass down, without the model's tables."""
    return max(1.0, gib * GIB / FLOAT_BYTES / _SCRATCH)


def best_cutset(graph: FactorGraph, gib: float, task: Task, seed: int, most_seconds: float = 1e4) -> Nest:
    """Return the cutset that is summed over in the shortest time, of several that leave tables within `gib` GiB.

    If the first ones would take many times `most_seconds`, no others are tried. The choice ends after about a fifth of
    `most_seconds`.
    """
    clock, once = Clock(), order_seconds(graph.structure)

    def late(share: float) -> bool:
        return clock.seconds + once > share * most_seconds

    kept = memory_budget(gib)
    rng = np.random.default_rng(seed)
    best, least = None, math.inf
    for n in range(_TRIES):
        noise = np.exp2(_NOISE * rng.random(graph.num_vars) if n else np.zeros(graph.num_vars))
        cut = cut_to_fit(
            graph.structure, BlockLimits(math.inf, kept), noise, seed=seed + n, most_bits=math.log2(_MOST_STATES),
            haste=lambda: late(_CHOICE_SHARE / 2), over=lambda: late(_CHOICE_SHARE),
        )  # fmt: skip
        # On the way down, numbers wait in two arrays, beside messages and scratch memory.
        spare = (
            max(_LEAST_WAITING, (gib * GIB / FLOAT_BYTES - _SCRATCH * cut.kept) / 2) if task is Task.MAR else math.inf
        )
        nested = nest(graph.structure, cut, spare)
        seconds = seconds_of(nested, task)
        if best is None or seconds < least:
            best, least = nested, seconds
        too_long = n >= _LEAST_TRIES and least > _TOO_LONG * most_seconds
        if not cut.is_cut.any() or clock.seconds > _TRIAL_SHARE * least or too_long or late(_CHOICE_SHARE / 2):
            break
    assert best is not None
    return best


def seconds_of(nested: Nest, task: Task) -> float:
    """Return the reference seconds to sum over all states of the cutset, within a factor of two or three."""
    cut, states = nested.cut, float(nested.states[-1])
    if states > _MOST_STATES or not (cut.fits or len(cut.variables) <= 1):
        return math.inf
    once = nested.entries * Seconds.CUTSET_UP + states * Seconds.CUTSET_STATE
    return once * (1.0 + _WAY_DOWN if task is Task.MAR else 1.0)


def sum_all(
    reduced: ReducedGraph, nested: Nest, task: Task, context: SolveContext, within: float = math.inf
) -> Estimate | Refusal:
    """Sum over the states of the cutset; if the clock stops it, the sum so far is a lower bound on ln Z.

    Zeros make many states impossible at once, and no estimate knows how many. So the pace of the first part decides
    whether the sum will end in time; otherwise the sum is refused. With all sums the probability of every state of the
    cutset is known. Marginals follow from the states that matter or, if time is short, from a draw of them.

    Args:
        reduced: the graph without observed variables, and the way back to the original.
        nested: the cutset.
        task: MAR; or PR, which needs the sums alone.
        context: the clock.
        within: the seconds that all of it may take.
    """
    total = CutsetSums(reduced.graph, nested)
    end = context.clock.seconds + min(within, context.clock.left)
    gives_up = within < math.inf
    share = 1.0 if task is not Task.MAR else _GIVES_UP_SHARE if gives_up else _SUMS_SHARE
    if not total.make_sums(context, share * min(within, context.clock.left), gives_up):
        return Refusal("the pace of the first sums is too slow for the time")
    stats: dict[str, float] = {**_stats(nested), "cutset_states_visited": total.visited}
    done = total.visited == len(total.log_sum)
    if total.log_z == -math.inf:
        if done:
            return zero_by_exclusion(reduced.original)
        return Estimate(status=context.clock.status or Status.TIME_LIMIT, stats=stats)
    said = f"The sum over {total.visited:,} of {len(total.log_sum):,} states of the cutset is a lower bound on ln Z."
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
    errors = np.full_like(values, error)  # Drawn states that agree do not make a variable certain.
    return replace(
        estimate,
        status=context.clock.status or Status.CONVERGED,
        standard_errors=reduced.errors(errors),
        message=f"ln Z is exact. The marginals come from {total.chosen:,} of {len(total.log_sum):,} states of the "
        f"cutset, drawn by their exact probabilities. Their standard error is at most {error:.2g}.",
        stats={**stats, "max_standard_error": error},
    )


class CutsetSums:
    """The sums over the block at all states of a cutset, and the answers from them.

    Args:
        graph: the model, without observed variables.
        nested: the cutset.
    """

    def __init__(self, graph: FactorGraph, nested: Nest) -> None:
        s = self._structure = graph.structure
        self._log_phi, self._nested = graph.log_phi, nested
        self._block = build_block(s, nested.cut, shared_memory(s, nested.cut.kept))
        self._levels = level_arrays(nested, self._block)
        self._work = cluster_work(self._block)
        self._x = np.zeros(s.num_vars, np.int64)
        self._seconds = 0.0  # the time that all sums took
        self.log_sum = np.full(int(nested.states[-1]), -np.inf)
        self.visited = 0
        self.chosen = 0  # the number of states that marginals are from

    @property
    def log_z(self) -> float:
        """ln of the sum so far."""
        top = float(self.log_sum.max())
        return top + math.log(np.exp(self.log_sum - top).sum()) if top > -math.inf else top

    def make_sums(self, context: SolveContext, within: float, gives_up: bool) -> bool:
        """Make all sums, or those that the time allows; return False if the pace is too slow to make all."""
        from equifactor.solvers.cutsets.cutset_kernels import PAUSED, sum_over_cutset

        clock, count, effort = context.clock, len(self.log_sum), _FIRST_EFFORT
        since, kept, score = clock.seconds, np.zeros(4, np.int64), np.zeros(1)
        while self.visited < count:
            if clock.stopped and (self.visited or clock.seconds - since > _FIRST_PASS):
                break
            begin = Clock.now()
            self.visited = sum_over_cutset(
                self._log_phi, self._x, self.visited, effort, tuple(self._levels), *self._block.records, self.log_sum,
                kept, score,
            )  # fmt: skip
            effort = _next_effort(effort, Clock.now() - begin)
            context.report(self.visited, count)
            self._seconds = clock.seconds - since
            if self._seconds > within and not gives_up:
                break
            done = self.visited + (self._work[kept[PAUSED] - 1] / self._work[-1] if kept[PAUSED] else 0.0)
            if gives_up and self._seconds > _TRIAL_SHARE * within and self._seconds * count > within * done:
                return False
        return True

    def marginals(self, context: SolveContext, end: float) -> tuple[FloatArray, float]:
        """Return [X] the probabilities of all states, and their standard error if time allows only a draw of states."""
        from equifactor.solvers.cutsets.cutset_kernels import marginals_over_cutset

        s, levels, clock = self._structure, self._levels, context.clock
        weight = np.exp(self.log_sum - self.log_z)
        weight /= weight.sum()
        chosen, chosen_weight, error = self._choose(weight, end - clock.seconds, context.seed)
        planned = len(chosen)
        p, total = np.zeros(int(s.state_ptr[-1])), np.zeros(int(s.state_ptr[-1]))
        mass, waiting = np.zeros(len(levels.states)), np.zeros((2, int(levels.place[-1])))
        n, steps = 0, 1
        while True:
            begin, stop = Clock.now(), min(n + steps, len(chosen))
            marginals_over_cutset(
                self._log_phi, self._x, chosen, chosen_weight, n, stop, tuple(levels), *self._block.records, p, total,
                mass, waiting,
            )  # fmt: skip
            if n == stop:
                break
            n = stop
            if clock.stopped:  # The next call adds the numbers that wait.
                chosen = chosen[:n]
            steps = _next_effort(steps, Clock.now() - begin)
        self.chosen = n
        missing = max(0.0, 1.0 - float(chosen_weight[:n].sum())) if n < planned else 0.0
        for k, i in enumerate(levels.cut.tolist()):
            inner = len(weight) // int(levels.states[k + 1])
            by_state = weight.reshape(-1, int(s.card[i]), inner).sum(axis=(0, 2))
            total[s.state_ptr[i] : s.state_ptr[i + 1]] = by_state
        return total, max(error, missing)

    def _choose(self, weight: FloatArray, seconds: float, seed: int) -> tuple[IntArray, FloatArray, float]:
        """Return states for marginals, as many as the time allows, their weights and the standard error."""
        rng = np.random.default_rng(seed)
        each = _WAY_DOWN * self._seconds / max(1.0, self._nested.entries * self.visited / len(weight))
        most = len(weight)
        while True:
            chosen, chosen_weight, error = choose_states(weight, most, rng)
            prefixes = chosen[:, None] // (len(weight) // self._levels.states)
            made = 1.0 + np.count_nonzero(np.diff(prefixes, axis=0), axis=0)
            cost = each * float(made @ self._nested.sizes)
            if cost <= seconds or most <= _FEWEST_STATES:
                return chosen, chosen_weight, error
            most = max(_FEWEST_STATES, int(min(most, len(chosen)) * min(0.9, seconds / cost)))


def _next_effort(effort: int, seconds: float) -> int:
    """Return the steps or table entries for the next call of a kernel, from the time that the last call took."""
    return max(1, int(effort * min(_MOST_GROWTH, CALL_SECONDS / max(1e-9, seconds))))


def _normalised(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Return [X] the values, rescaled to a sum of 1 for each variable."""
    if not len(values):
        return values
    return values / np.repeat(np.add.reduceat(values, ptr[:-1]), np.diff(ptr))


def _stats(nested: Nest) -> dict[str, float]:
    return {
        "cutset": len(nested.variables),
        "log2_cutset_states": round(nested.log2_states, 2),
        "width": int(np.diff(nested.cut.order.sep_ptr).max(initial=0)),
    }
