"""Elimination orders: which variable to sum out next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence


def greedy_order(log2_card: Sequence[float], scopes: Iterable[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Always eliminate the variable whose cluster is smallest (min-weight), fewest neighbours on ties.

    Args:
        log2_card: log2 of each variable's number of states.
        scopes: variables of each factor.

    Returns:
        the order, and for each variable in that order its neighbours when it is eliminated.

    Cost about O(V w^2) for cliques of w variables; a lazy heap holds the candidates.
    """
    neighbours: list[set[int]] = [set() for _ in log2_card]
    for scope in scopes:
        for i in scope:
            neighbours[i].update(scope)
    for i, around in enumerate(neighbours):
        around.discard(i)

    def cost(i: int) -> tuple[float, int, int]:
        return log2_card[i] + sum(log2_card[j] for j in neighbours[i]), len(neighbours[i]), i

    costs = [cost(i) for i in range(len(log2_card))]
    heap = list(costs)
    heapq.heapify(heap)
    done = [False] * len(log2_card)
    order: list[int] = []
    cliques: list[list[int]] = []
    while heap:
        entry = heapq.heappop(heap)
        i = entry[-1]
        if done[i] or entry != costs[i]:
            continue  # an older price of this variable
        done[i] = True
        around = neighbours[i]
        order.append(i)
        cliques.append(sorted(around))
        for j in around:
            neighbours[j] |= around
            neighbours[j] -= {i, j}
        for j in around:
            costs[j] = cost(j)
            heapq.heappush(heap, costs[j])
    return order, cliques
