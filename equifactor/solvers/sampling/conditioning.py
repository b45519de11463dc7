"""Exact inference in little memory: a few variables are held fixed in all their states, the others eliminated."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Status, Task, impossible
from equifactor.solver import GraphSolver, SolveContext
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.plan import format_bytes
from equifactor.solvers.sampling.block_program import build_block, shared_memory
from equifactor.solvers.sampling.cutsets import Budget, Cut, cut_to_fit

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

SECONDS_PER_ENTRY = {Task.MAR: 1.2e-8, Task.PR: 5e-9}  # These were measured on one core at 2.8 GHz.
_SECONDS_PER_STATE = 2e-5  # Each state of the cutset takes this long apart from its tables.
_PLANNING_PER_VARIABLE = 5e-5  # An order takes about this many seconds per variable.
_HASTE, _OVER = 0.1, 0.2  # Shares of the time after which a cutset is looked for in haste, and no longer.
_TRIES = 4  # This many cutsets are compared.
_GOOD = 0.1  # A cutset that takes no more seconds is good enough,
_HOPELESS = 16.0  # and one that takes so many times the time allowed is hopeless.
_HOPE = 2.0  # A sum is begun although its estimate is this many times the time left: the estimate may be off.
_TRIAL_SHARE = 0.08  # The pace of this part of the time decides whether a sum goes on.
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
        cut = best_cutset(reduced.graph, self.memory_limit, task, context.seed, _HOPE * context.clock.left)
        seconds = seconds_of(cut, reduced.graph, task)
        if seconds > _HOPE * context.clock.left or math.isinf(seconds):
            return Estimate(
                status=Status.TOO_LARGE if math.isinf(seconds) else Status.TIME_LIMIT,
                message=f"a cutset of {int(cut.is_cut.sum())} variables has 2^{bits_of_cutset(cut, reduced.graph):.0f} "
                f"states, about {seconds:.2g} s in {format_bytes(8 * cut.kept)} each: raise memory_limit or the time "
                "limit, or use blocks",
                stats=_stats(cut, reduced.graph),
            )
        found = sum_all(reduced, cut, task, context)
        assert found is not None  # Only with a limit of its own it gives up.
        return found


def memory_budget(gib: float) -> float:
    """Message entries that fit this many GiB with scratch memory for the way down; tables of the model are extra."""
    return max(1.0, gib * 2**27 / 1.3)


def best_cutset(graph: FactorGraph, gib: float, task: Task, seed: int, most_seconds: float = 1e4) -> Cut:
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
    most_bits = math.log2(_HOPELESS * max(most_seconds, 1.0) / _SECONDS_PER_STATE) if most_seconds < math.inf else 62.0
    for n in range(_TRIES):
        noise = np.exp2(rng.random(graph.num_vars) if n else np.zeros(graph.num_vars))
        cut = cut_to_fit(
            graph.structure, Budget(math.inf, kept), noise, seed=seed + n, most_bits=most_bits,
            haste=lambda: late(_HASTE), over=lambda: late(_OVER),
        )  # fmt: skip
        seconds = seconds_of(cut, graph, task)
        if best is None or seconds < least:
            best, least = cut, seconds
        if not cut.is_cut.any() or seconds < _GOOD or seconds > _HOPELESS * most_seconds or late(_HASTE):
            break
    assert best is not None
    return best


def bits_of_cutset(cut: Cut, graph: FactorGraph) -> float:
    """log2 of the number of states of the cutset."""
    return float(np.log2(graph.card[cut.is_cut]).sum())


def seconds_of(cut: Cut, graph: FactorGraph, task: Task) -> float:
    """The time to sum over all states of the cutset on one core, within a factor of two or three."""
    states = 2.0 ** min(bits_of_cutset(cut, graph), 1000.0)
    each = cut.entries * SECONDS_PER_ENTRY[task] + _SECONDS_PER_STATE + 2e-8 * graph.structure.num_entries
    possible = states < 2**62 and (cut.fits or len(cut.variables) <= 1)
    return states * each if possible else math.inf


def sum_all(
    reduced: ReducedGraph, cut: Cut, task: Task, context: SolveContext, within: float = math.inf
) -> Estimate | None:
    """Sum over the states of the cutset; where the clock stops it, what was summed is a lower bound.

    Zeros make many states impossible at once, and no estimate knows how many. So the pace of the first part decides
    whether the sum will end in time; None where it will not.

    Args:
        reduced: the graph without observed variables, and the way back.
        cut: the cutset.
        task: MAR, or PR, for which the way down is left out.
        context: the clock.
        within: seconds that the whole sum may take.
    """
    from equifactor.solvers.sampling.cutset_kernels import sum_over_cutset

    graph = reduced.graph
    s = graph.structure
    block = build_block(s, cut, shared_memory(s, cut.kept))
    cut_vars = np.flatnonzero(cut.is_cut)
    x, p = np.zeros(s.num_vars, np.int64), np.zeros(int(s.state_ptr[-1]))
    sums = np.zeros(3 + len(p))
    sums[0] = -math.inf
    states = math.prod(s.card[cut_vars].tolist())
    since, visited, steps, done = context.clock.seconds, 0, 1, False
    while not done and not (context.clock.stopped and visited):
        begin = time.perf_counter()
        done = sum_over_cutset(
            graph.log_phi, x, steps, s.card, s.state_ptr, cut_vars, *block.records, p, sums, task is Task.MAR
        )
        visited = min(states, visited + steps)
        steps = max(1, int(steps * min(8.0, _BURST_SECONDS / max(1e-9, time.perf_counter() - begin))))
        context.report(visited, states)
        spent = context.clock.seconds - since
        if not done and spent > _TRIAL_SHARE * within and spent * states > within * visited:
            return None
    stats = {**_stats(cut, graph), "cutset_states_visited": visited}
    if sums[1] == 0.0:
        if done:
            return zero_by_exclusion(reduced.original)
        return Estimate(status=context.clock.status or Status.TIME_LIMIT, stats=stats)
    log_z = float(sums[0] + math.log(sums[1]))
    values = sums[3:] / sums[1]
    return Estimate(
        status=Status.EXACT if done else context.clock.status or Status.TIME_LIMIT,
        message="" if done else f"{visited:,} of {states:,} states of the cutset were summed: a lower bound on ln Z.",
        marginals=reduced.marginals(_normalised(values, s.state_ptr)) if task is Task.MAR else None,
        log_z=log_z,
        lower_bound=log_z,
        upper_bound=log_z if done else None,
        iterations=visited,
        stats=stats,
    )


def _normalised(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """[X] the same with a sum of exactly 1 for each variable."""
    if not len(values):
        return values
    return values / np.repeat(np.add.reduceat(values, ptr[:-1]), np.diff(ptr))


def _stats(cut: Cut, graph: FactorGraph) -> dict[str, float]:
    return {
        "cutset": int(cut.is_cut.sum()),
        "log2_cutset_states": round(bits_of_cutset(cut, graph), 2),
        "width": int(np.diff(cut.order.sep_ptr).max(initial=0)),
    }
