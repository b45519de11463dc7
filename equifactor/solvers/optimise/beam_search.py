"""Beam search over assignments, as in appendix E of the paper."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import compile
from equifactor.graph.search_model import SearchModel
from equifactor.result import Estimate, Status

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solver import SolveContext

_BURST_SECONDS = 0.02  # a call of the kernel aims to stay below


def beam_search(graph: FactorGraph, width: int, steps: int, count_zeros: bool, context: SolveContext) -> Estimate:
    """The best of all states visited, from one random state.

    Each step examines all single-variable neighbours of the `width` best states visited and keeps the best again; it
    ends when that changes nothing. Without `count_zeros` all impossible assignments tie, so a start among them goes
    nowhere unless a neighbour is possible. Cost of a step: at most width * X, plus the factors around each new move.
    """
    from equifactor.numerics.moves import rebuild
    from equifactor.solvers.optimise.beam_kernels import beam_steps

    flat = compile(graph)
    model = SearchModel(flat)
    rng = np.random.default_rng(context.seed)
    slots = 2 * width
    x = np.zeros((slots, flat.num_vars), np.int64)
    local = np.zeros((slots, flat.num_states))
    at = np.zeros((slots, len(model.arrays.factors) - 1), np.int64)
    score = np.zeros(slots)
    code = np.zeros(slots, np.uint64)
    keys = rng.integers(0, 2**64, flat.num_states, np.uint64)
    x[0] = model.random_assignment(rng)
    score[0] = rebuild(*model.arrays, x[0], local[0], at[0])
    code[0] = np.bitwise_xor.reduce(keys[flat.var_ptr[:-1] + x[0]]) if flat.num_vars else 0
    cache, size = np.zeros(width, np.int64), np.ones(1, np.int64)
    states = (x, local, at, score, code, np.zeros(slots, np.int64), np.zeros(slots, np.bool_), cache, size, keys)
    pool = np.zeros((width, 3), np.int64), np.zeros(width), np.zeros(width, np.uint64)
    possible = model.possible - model.constant

    done, burst, changed = 0, 1, True
    while changed and done < steps and not context.clock.stopped:
        start = time.perf_counter()
        count, changed = beam_steps(*model.arrays, *states, *pool, min(burst, steps - done), possible, not count_zeros)
        done += count
        context.report(done, steps, f"log score {score[cache[0]] + model.constant:.6g}")
        burst = max(1, min(2 * burst, int(burst * _BURST_SECONDS / max(time.perf_counter() - start, 1e-9))))
    unfinished = context.clock.status if done < steps else Status.ITERATION_LIMIT
    found = bool(score[cache[0]] >= possible)
    return Estimate(
        status=Status.CONVERGED if not changed else unfinished or Status.ITERATION_LIMIT,
        message="" if found else "No assignment of positive probability was met: use local-search, or count_zeros.",
        assignment=flat.assignments(x[cache[0]])[0],
        iterations=done,
    )
