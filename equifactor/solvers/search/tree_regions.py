# mypy: ignore-errors
"""Annealing of one region at a time by block moves, keeping only changes that improve the score.

`arrays`, `state` and `work` are the records `MoveArrays`, `MoveState` and `RegionArrays`.
"""

from typing import NamedTuple

import numpy as np

from equifactor.factors.kind_block_kernels import free_factors, reach_members, spread_region
from equifactor.factors.kind_moves import look
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import TO, move
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.randomness import random_below, random_unit
from equifactor.solvers.search.tree_blocks import RegionArrays, grow_forest, solve_forest


class RegionPlan(NamedTuple):
    """How many regions are annealed, how large they are, and how many forests of each are solved."""

    regions: int
    smallest: int  # fewest variables of a region; sizes are drawn log-uniformly
    largest: int  # most variables of a region
    blocks: int  # number of random forests of each region that are solved


@inlined
def grow_region(arrays, work, rng, size):
    """Fill work.region [size] breadth first from a random variable, and mark its variables in work.inside.

    If a component ends before the region is full, the region continues in another component.
    """
    arc_ptr, arcs, region, inside = arrays.arc_ptr, arrays.arcs, work.region, work.inside
    num_vars = len(inside)
    offset = random_below(rng, num_vars)
    seed = 0
    count = 0
    n = 0
    while count < size:
        if n == count:
            i = (seed + offset) % num_vars
            seed += 1
            if inside[i] == 0:
                inside[i] = 1
                region[count] = i
                count += 1
            continue
        i = region[n]
        n += 1
        start = arc_ptr[i]
        degree = arc_ptr[i + 1] - start
        turn = random_below(rng, degree) if degree > 0 else 0
        for r in range(degree):  # a random first neighbour, so that the ball is not always cut short on the same side
            j = arcs[start + (r + turn) % degree, TO]
            if inside[j] == 0 and count < size:
                inside[j] = 1
                region[count] = j
                count += 1
        count = spread_region(arrays.kinds, work, i, count, size)


@inlined
def change_to(arrays, state, i, b):
    """Put variable i into state b; return the gain of the score."""
    look(arrays, state, i)
    first, local = arrays.var_ptr[i], state.local
    gained = local[first + b] - local[first + state.x[i]]
    move(arrays, state, i, b)
    return gained


@fast_kernel
def judge(arrays, state, work, size, least):
    """Undo the parts of a change that lower the score; return the gain of the score.

    The change is the difference between the assignment and work.before, the earlier states of the `size` variables of
    the region. Parts of it that share no factor are judged one by one, each by a gain of more than `least`.
    """
    arc_ptr, arcs, x = arrays.arc_ptr, arrays.arcs, state.x
    region, before, inside = work.region, work.before, work.inside
    changed, queue, other = work.links, work.queue, work.wanted
    gained = 0.0
    for n in range(size):
        i = region[n]
        other[i] = before[n]
        changed[i] = 1 if x[i] != before[n] else 0
    for n in range(size):
        if changed[region[n]] == 0:
            continue
        queue[0] = region[n]
        changed[region[n]] = 0
        count = 1
        done = 0
        while done < count:
            i = queue[done]
            done += 1
            for r in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arcs[r, TO]
                if inside[j] == 1 and changed[j] == 1:
                    changed[j] = 0
                    queue[count] = j
                    count += 1
            count = reach_members(arrays.kinds, work, i, count)
        undo = 0.0
        for _ in range(2):  # undo the part, and redo it unless that was better
            for m in range(count):
                i = queue[m]
                b = other[i]
                other[i] = x[i]
                undo += change_to(arrays, state, i, b)
            if undo > least:
                break
        gained += undo
    free_factors(arrays.kinds, work.held, region, size)
    return gained


@fast_kernel
def anneal_regions(arrays, state, work, rng, plan, heat, least):
    """Heat and cool random regions by block moves, keeping improved parts; return the gain of the score.

    A region gets plan.blocks forests, with noise that falls from a random part of `heat` to zero.
    """
    arrays, state, work, plan = MoveArrays(*arrays), MoveState(*state), RegionArrays(*work), RegionPlan(*plan)
    x, region, before, inside = state.x, work.region, work.before, work.inside
    block, wanted = work.block, work.wanted
    risen = 0.0
    for _ in range(plan.regions):
        size = np.int64(plan.smallest * (plan.largest / plan.smallest) ** random_unit(rng) + 0.5)
        grow_region(arrays, work, rng, size)
        for n in range(size):
            before[n] = x[region[n]]
        top = heat * random_unit(rng)
        for turn in range(plan.blocks):
            now = top * (1.0 - (turn + 1.0) / plan.blocks)
            count = grow_forest(arrays, work, rng, size)
            solve_forest(arrays, state, work, rng, count, now)
            for n in range(count):
                i = block[n]
                if wanted[i] != x[i]:
                    risen += change_to(arrays, state, i, wanted[i])
        risen += judge(arrays, state, work, size, least)
        for n in range(size):
            inside[region[n]] = 0
    return risen


@fast_kernel
def recombine(arrays, state, work, mate, least):
    """Take over every part of another assignment `mate` [V] that improves the score; return the gain.

    The result is at least as good as both assignments.
    """
    arrays, state, work = MoveArrays(*arrays), MoveState(*state), RegionArrays(*work)
    x = state.x
    risen = 0.0
    for i in range(len(x)):
        work.region[i] = i
        work.before[i] = x[i]
        work.inside[i] = 1
    for i in range(len(x)):
        if mate[i] != x[i]:
            risen += change_to(arrays, state, i, mate[i])
    risen += judge(arrays, state, work, len(x), least)
    work.inside[:] = 0
    return risen
