"""Triangles and chordless squares, against enumeration of all sets of three and four variables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor.graph import short_loops as loops
from equifactor.graph.short_loops import Pairs, find_rings


def pairs_of(edges: list[tuple[int, int]], card: list[int], graph: list[int] | None = None) -> Pairs:
    graph = graph or [0] * len(card)
    return Pairs(np.array(edges, np.int64).reshape(-1, 2), np.array(card), np.array(graph))


def found(pairs: Pairs) -> set[frozenset[int]]:
    """Return the corners of all loops; check that each loop is listed once, along its sides, with its states."""
    seen = []
    for ring in find_rings(pairs) or []:
        for corners, sides in zip(ring.corners.tolist(), ring.sides.tolist(), strict=True):
            assert tuple(pairs.card[corners].tolist()) == ring.shape
            for k, side in enumerate(sides):
                assert set(pairs.variables[side].tolist()) == {corners[k], corners[(k + 1) % len(corners)]}
            seen.append(frozenset(corners))
    assert len(seen) == len(set(seen))
    return set(seen)


def expected(edges: list[tuple[int, int]], count: int) -> set[frozenset[int]]:
    """Return the sets of three or four variables in which every variable has exactly two neighbours."""
    once = [e for e in map(frozenset, edges) if [frozenset(f) for f in edges].count(e) == 1]
    loops_ = set()
    for size in (3, 4):
        for group in itertools.combinations(range(count), size):
            inside = [e for e in once if e <= set(group)]
            if len(inside) == size and all(sum(v in e for e in inside) == 2 for v in group):
                loops_.add(frozenset(group))
    return loops_


@pytest.mark.parametrize("seed", range(8))
def test_all_loops_are_found_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 9
    edges = [e for e in itertools.permutations(range(count), 2) if rng.random() < 0.15 + 0.02 * seed]  # some doubled
    assert found(pairs_of(edges, rng.integers(2, 4, count).tolist())) == expected(edges, count)


def test_graphs_of_a_batch_are_judged_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    square, wide = [(0, 1), (1, 2), (2, 3), (3, 0)], [(4, 5), (5, 6), (6, 7), (7, 4)]
    pairs = pairs_of(square + wide, [2] * 4 + [9] * 4, [0] * 4 + [1] * 4)
    assert len(found(pairs)) == 2
    monkeypatch.setattr(loops, "MOST_ENTRIES", 1000)  # 9^4 is more, 2^4 is not
    monkeypatch.setattr(loops, "MORE_ENTRIES", 0)
    assert found(pairs) == {frozenset(range(4))}


def test_many_paths_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = list(itertools.combinations(range(8), 2))
    square = [(8, 9), (9, 10), (10, 11), (11, 8)]
    pairs = pairs_of(complete + square, [2] * 12, [0] * 8 + [1] * 4)
    assert len(found(pairs)) == 56 + 1
    monkeypatch.setattr(loops, "MOST_PATHS", 20)
    assert found(pairs) == {frozenset(range(8, 12))}


@pytest.mark.parametrize("edges", [[], [(0, 1)], [(0, 1), (1, 2)], [(0, 1), (0, 1)]])
def test_without_loops(edges: list[tuple[int, int]]) -> None:
    assert find_rings(pairs_of(edges, [2, 3, 2])) == []


def test_the_clock_stops_the_search() -> None:
    from equifactor.base.clock import Clock

    pairs = pairs_of([(0, 1), (1, 2), (0, 2)], [2, 2, 2])
    assert find_rings(pairs, Clock(0.0)) is None
    assert len(find_rings(pairs, Clock(60.0)) or []) == 1
