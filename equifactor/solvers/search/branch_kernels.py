# mypy: ignore-errors
"""Depth-first branch and bound; a node, its values and its bound are those of `node_kernels`."""

from typing import NamedTuple

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.kernels.fastmath import NEG_INF, copy_into
from equifactor.kernels.jit import fast_kernel
from equifactor.solvers.search.node_kernels import (
    CULPRIT,
    LEVEL,
    NODES,
    STRIDE,
    TRAIL,
    UPDATES,
    decide,
    propagate,
    sum_of_tops,
)

WIDE = 100.0  # Nats: stands for the gap while there is no incumbent. Chosen by hand.
VARIABLE, CHOSEN, SIDE = 0, 1, 2  # columns of PathArrays.decisions
LEFT, RIGHT = 0, 1  # the left child of a decision assigns a state, the right child rules it out


class ChoiceArrays(NamedTuple):
    """The arrays on which the choice of the next variable is based."""

    weight: np.ndarray  # [F] one, and one more for each node that ended at the factor
    x: np.ndarray  # [V] the best state of each variable by itself
    merit: np.ndarray  # [V] how much a decision on each variable can gain


class PathArrays(NamedTuple):
    """The path from the root to the present node."""

    decisions: np.ndarray  # [depth, 3] VARIABLE, CHOSEN (its state) and SIDE, which is LEFT or RIGHT
    marks: np.ndarray  # [depth] the length of the trail before each decision
    bounds: np.ndarray  # [depth] the bound of the open rest below each decision


class Incumbent(NamedTuple):
    """The best assignment so far."""

    score: np.ndarray  # [1] its log score without the constant
    x: np.ndarray  # [V] its states


class DiveLimits(NamedTuple):
    """The limits of a dive, and of the work per node."""

    backtracks: int  # most backtracks of a dive
    updates: int  # most renewals of factors of a dive
    per_node: int  # every node counts as this many renewals
    renewals: int  # after this many renewals below one decision, only new zeros are passed on
    share: float  # changes below this share of the gap are not passed on
    slack: float  # a node is discarded when its bound exceeds the best score by at most this


@fast_kernel
def choose(graph, node, choice, bound, floor):
    """Decode choice.x, the best state of each variable by itself, and choose the variable to branch on.

    Bound and score differ by the losses of the factors: their best score minus their score at x. The merit of a
    variable is the loss of its factors, times their weight. Returns the log score of x relative to the bound (at most
    0), and the variable, -1 when no variable is left.
    """
    var_ptr, factors, slots, value = graph.var_ptr, graph.factors, graph.slots, node.value
    x, merit = choice.x, choice.merit
    gap = min(bound - floor, WIDE)
    for i in range(len(var_ptr) - 1):
        pick = var_ptr[i]
        for y in range(var_ptr[i] + 1, var_ptr[i + 1]):
            if value[y] > value[pick]:
                pick = y
        x[i] = pick - var_ptr[i]
        merit[i] = 0.0
    lost = 0.0
    for p in range(len(factors) - 1):
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        entry = factors[p, ENTRY]
        sent = 0.0
        for s in range(first, last):
            here = x[slots[s, VAR]]
            entry += here * slots[s, STRIDE]
            sent += value[graph.first_msg + slots[s, MSG] + here]
        loss = sent - graph.theta[entry]
        lost += loss
        if loss > 1e-12:
            gain = min(loss, gap) * choice.weight[p]
            for s in range(first, last):
                merit[slots[s, VAR]] += gain
    chosen = -1
    for i in range(len(var_ptr) - 1):
        alive = 0
        for y in range(var_ptr[i], var_ptr[i + 1]):
            alive += value[y] > NEG_INF
        if alive > 1 and (chosen < 0 or merit[i] > merit[chosen]):
            chosen = i
    return -lost, chosen


@fast_kernel
def shift(graph, value):
    """Shift every reparametrised table so that its largest live entry is 0, in place; return the sum of the shifts."""
    factors, slots, theta = graph.factors, graph.slots, graph.theta
    taken = 0.0
    for p in range(len(factors) - 1):
        top = NEG_INF
        entry = factors[p, ENTRY]
        for t in range(factors[p + 1, ENTRY] - entry):
            v = theta[entry + t]
            for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
                x = (t // slots[s, STRIDE]) % slots[s, CARD]
                v -= value[graph.first_msg + slots[s, MSG] + x]
                if value[slots[s, STATE] + x] == NEG_INF:
                    v = NEG_INF
            top = max(top, v)
        taken += top
        if top > NEG_INF:
            for t in range(entry, factors[p + 1, ENTRY]):
                theta[t] -= top
    return taken


@fast_kernel
def dive(graph, node, queue, scratch, choice, path, depth, incumbent, limits):
    """Search below the first `depth` decisions of the path, best states first.

    node.value is that of the root and is overwritten. The dive ends when the subtree is exhausted or a limit is
    reached. Returns the rows `first` and `last` of the path below which nodes are open, and whether the node after the
    first `last` decisions is open, with path.bounds[last]. Of the rows `first <= n < last`, those with LEFT have their
    right child open, with path.bounds[n].
    """
    decisions, marks, bounds, x = path.decisions, path.marks, path.bounds, choice.x
    var_ptr, value, count = graph.var_ptr, node.value, node.count
    count[LEVEL] += 1
    count[TRAIL] = 0
    room = len(value)
    bound = sum_of_tops(graph, node)
    floor = incumbent.score[0] + limits.slack
    for n in range(depth):
        bound += decide(graph, node, queue, decisions[n, VARIABLE], decisions[n, CHOSEN], decisions[n, SIDE] == LEFT)
    fine = max(limits.share * min(bound - floor, WIDE), 1e-9)
    bound = propagate(graph, node, queue, scratch, bound, floor, fine, limits.renewals)
    first = depth
    stop_at = count[UPDATES] + limits.updates
    backtracks = 0
    while True:
        count[NODES] += 1
        count[UPDATES] += limits.per_node
        chosen = -1
        if bound > NEG_INF:
            gain, chosen = choose(graph, node, choice, bound, floor)
            if bound + gain > incumbent.score[0]:
                incumbent.score[0] = bound + gain
                copy_into(incumbent.x, x)
                floor = incumbent.score[0] + limits.slack
            if not bound > floor:
                chosen = -1
        if chosen < 0:
            if bound == NEG_INF and count[CULPRIT] >= 0:
                choice.weight[count[CULPRIT]] += 1.0
            depth -= 1
            while depth >= first and decisions[depth, SIDE] == RIGHT:
                depth -= 1
            if depth < first:
                return first, first, False
            backtracks += 1
            while count[TRAIL] > marks[depth]:
                count[TRAIL] -= 1
                value[node.trail_at[count[TRAIL]]] = node.trail_value[count[TRAIL]]
            decisions[depth, SIDE] = RIGHT
            bound = sum_of_tops(graph, node)
        else:
            bounds[depth] = bound
            full = count[TRAIL] + 2 * room > len(node.trail_at)
            if backtracks >= limits.backtracks or count[UPDATES] >= stop_at or full:
                return first, depth, True
            decisions[depth, VARIABLE], decisions[depth, CHOSEN], decisions[depth, SIDE] = chosen, x[chosen], LEFT
            second = NEG_INF
            for y in range(var_ptr[chosen], var_ptr[chosen + 1]):
                if y - var_ptr[chosen] != x[chosen]:
                    second = max(second, value[y])
            bounds[depth] += second - value[graph.first_top + chosen]
            marks[depth] = count[TRAIL]
        count[LEVEL] += 1
        bound += decide(
            graph, node, queue, decisions[depth, VARIABLE], decisions[depth, CHOSEN], decisions[depth, SIDE] == LEFT
        )
        depth += 1
        fine = max(limits.share * min(bound - floor, WIDE), 1e-9)
        bound = propagate(graph, node, queue, scratch, bound, floor, fine, limits.renewals)
