"""MAP by beam search over assignments, as in appendix E of [Sun21]; best-first search is a beam of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import Clock
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.factors.move_model import MoveModel, MoveState
from equifactor.graph import compile
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("beam")
@dataclass(frozen=True, kw_only=True)
class Beam(GraphSolver):
    """Keeps the best states visited and examines their single-variable neighbours until a step changes nothing."""

    tasks = (Task.MAP,)
    symmetries = frozenset()  # it starts from a random state
    any_kind = True

    width: int = option(10, "states kept", low=1, high=10**9)
    steps: int = option(100_000, "most steps", low=0)
    count_zeros: bool = option(False, "prefer impossible states with fewer zeros; otherwise all of them tie")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """See `beam_search`."""
        return beam_search(graph, self.width, self.steps, self.count_zeros, context)


@register("best-first")
@dataclass(frozen=True, kw_only=True)
class BestFirst(GraphSolver):
    """Moves to the best single-variable neighbour until no neighbour is better: beam search of width 1."""

    tasks = Beam.tasks
    symmetries = Beam.symmetries
    any_kind = True

    steps: int = option(100_000, "most steps", low=0)
    count_zeros: bool = option(False, "prefer impossible states with fewer zeros; otherwise all of them tie")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """See `beam_search`."""
        return beam_search(graph, 1, self.steps, self.count_zeros, context)


def beam_search(graph: FactorGraph, width: int, steps: int, count_zeros: bool, context: SolveContext) -> Estimate:
    """Search from one random state and return the best of all states visited.

    Each step examines all single-variable neighbours of the best states visited and keeps the best of all. The search
    ends when a step changes nothing. A step costs at most width * X, and the factors around each new move.

    Args:
        graph: the model.
        width: the number of states kept.
        steps: the most steps to make.
        count_zeros: whether impossible assignments with fewer zeros are better. If not, all of them tie, so that a
            search that starts at one stops there unless a neighbour is possible.
        context: the clock and the seed of the call.
    """
    from equifactor.factors.moves import rebuild
    from equifactor.kernels.jit import plain
    from equifactor.solvers.search.beam_kernels import BeamArrays, PoolArrays, beam_steps

    flat = compile(graph)
    model = MoveModel(flat)
    rng = np.random.default_rng(context.seed)
    places = 2 * width
    states = MoveState.zeros(model.arrays, places)
    beam = BeamArrays(
        score=np.zeros(places),
        code=np.zeros(places, np.uint64),
        depth=np.zeros(places, np.int64),
        expanded=np.zeros(places, np.bool_),
        cache=np.zeros(width, np.int64),
        size=np.ones(1, np.int64),
        keys=rng.integers(0, 2**64, flat.num_states, np.uint64),
    )
    pool = PoolArrays(np.zeros((width, 3), np.int64), np.zeros(width), np.zeros(width, np.uint64))
    x, possible = states.x, model.possible_score - model.constant
    x[0] = model.random_assignment(rng)
    beam.score[0] = rebuild(plain(model.arrays), plain(states.of(0)))
    beam.code[0] = np.bitwise_xor.reduce(beam.keys[flat.var_ptr[:-1] + x[0]]) if flat.num_vars else 0

    records = plain(model.arrays), plain(states), plain(beam), plain(pool)
    done, burst, changed = 0, 1, True
    while changed and done < steps and not context.clock.stopped:
        start = Clock.now()
        most = min(burst, steps - done)
        count, changed = beam_steps(*records, most, possible, not count_zeros)
        done += count
        context.report(done, steps, f"log score {beam.score[beam.cache[0]] + model.constant:.6g}")
        burst = max(1, min(2 * burst, int(burst * CALL_SECONDS / max(Clock.now() - start, 1e-9))))
    unfinished = context.clock.status if done < steps else Status.ITERATION_LIMIT
    found = bool(beam.score[beam.cache[0]] >= possible)
    return Estimate(
        status=Status.CONVERGED if not changed else unfinished or Status.ITERATION_LIMIT,
        message="" if found else "No assignment of positive probability was found. Use local-search, or count_zeros.",
        assignment=flat.assignments(x[beam.cache[0]])[0],
        iterations=done,
    )
