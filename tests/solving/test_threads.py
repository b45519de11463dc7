"""Threads share the work of a call: answers do not depend on their number, and every thread takes part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from equifactor import generators, solve
from equifactor.base import cores
from equifactor.base.clock import Clock
from equifactor.base.status import Status
from equifactor.solvers.elimination import evidence_rows, exact_batch, shared_clusters, side_by_side
from equifactor.solvers.messages.bp import BeliefPropagation
from equifactor.solvers.sampling import block_chains, gibbs


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Let threads share the smallest work, and return the numbers of the threads that had any."""
    seen: set[int] = set()
    for module in (gibbs, block_chains):
        monkeypatch.setattr(module, "_SHARED_SECONDS", 0.0)
    monkeypatch.setattr(BeliefPropagation, "batch_size", lambda *_: 50.0)
    monkeypatch.setattr(side_by_side, "_ENTRIES", 2**9)
    monkeypatch.setattr(exact_batch, "_CHUNK_WORK", 1.0)
    monkeypatch.setattr(evidence_rows, "_CHUNK_WORK", 1.0)
    monkeypatch.setattr(shared_clusters, "_SHARED", 2**12)
    monkeypatch.setattr(shared_clusters, "_PIECE", 1)
    monkeypatch.setattr(shared_clusters, "_LEAST", 1)
    run = cores.Crew.run

    def noted(self: cores.Crew, work: Callable[[int], object], stop: Callable[[], object]) -> None:
        def own(thread: int) -> None:
            seen.add(thread)
            work(thread)

        run(self, own, stop)

    monkeypatch.setattr(cores.Crew, "run", noted)
    return seen


def _rows(threads: int) -> list[np.ndarray]:
    graph = generators.ising_grid(3, 4, seed=1)
    states = np.random.default_rng(0).integers(-1, 2, (70, 12))
    found = solve(graph, evidence=states, threads=threads)
    return [found.log_z, found.marginals[0]]


def _lists(solver: str, count: int) -> Callable[[int], list[np.ndarray]]:
    def run(threads: int) -> list[np.ndarray]:
        graphs = generators.ising_grid(4, 4, count=count, seed=2)
        found = solve(graphs, solver=solver, threads=threads)
        return [r.marginals.values for r in found] + [np.array([r.log_z for r in found])]

    return run


def _best(threads: int) -> list[np.ndarray]:
    found = solve(generators.ising_grid(4, 4, count=5, seed=2), "MAP", "exact", threads=threads)
    return [r.assignment for r in found]


def _chains(solver: str) -> Callable[[int], list[np.ndarray]]:
    def run(threads: int) -> list[np.ndarray]:
        found: Any = solve(generators.ising_grid(4, 4, seed=3), solver=solver, threads=threads, seed=1)
        return [found.marginals.values, found.standard_errors.values, np.array([found.stats["jumped"]])]

    return run


def _wide(task: str, coupling: float) -> Callable[[int], list[np.ndarray]]:
    def run(threads: int) -> list[np.ndarray]:
        graph = generators.ising_grid(12, 12, coupling_std=coupling, seed=4)
        found: Any = solve(graph, task, "exact", threads=threads)
        return [
            {"MAR": lambda: found.marginals.values, "PR": lambda: found.log_z, "MAP": lambda: found.assignment}[task]()
        ]

    return run


@pytest.mark.parametrize(
    "answers",
    [_rows, _best, _lists("exact", 70), _lists("exact", 5), _lists("bp", 9),
     _chains("gibbs(samples=40, burn_in=5, chains=5)"),
     _chains("blocks(sweeps=30, chains=5, memory_limit=1e-7, enumerate=False)"), _wide("MAR", 1.0), _wide("PR", 1.0),
     _wide("MAP", 1.0), _wide("MAR", 200.0)],
    ids=["rows", "maxima", "exact", "exact one by one", "bp", "gibbs", "blocks", "MAR", "PR", "MAP", "logs"],
)  # fmt: skip
def test_answers_do_not_depend_on_the_number_of_threads(
    answers: Callable[[int], list[np.ndarray]], shared: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "0")
    alone = answers(1)
    assert shared <= {0}
    shared.clear()
    for threads in (2, 3):
        assert all(map(np.array_equal, alone, answers(threads)))
        assert shared == set(range(threads))
        shared.clear()
    assert threading.active_count() < 10


def test_shared_tables_give_the_sums_of_whole_ones(shared: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "0")
    graph = generators.ising_grid(12, 12, coupling_std=3.0, seed=5)
    own = [solve(graph, task, "exact", threads=2) for task in ("PR", "MAR", "MAP")]
    assert shared == {0, 1}
    monkeypatch.setattr(shared_clusters, "_SHARED", 2**60)
    whole = [solve(graph, task, "exact", threads=2) for task in ("PR", "MAR", "MAP")]
    assert own[0].log_z == whole[0].log_z
    assert np.abs(own[1].marginals.values - whole[1].marginals.values).max() < 1e-13
    assert np.array_equal(own[2].assignment, whole[2].assignment)


@pytest.mark.parametrize(
    ("solver", "count"),
    [("gibbs(samples=1000000)", None), ("blocks(sweeps=1000000, memory_limit=1e-7, enumerate=False)", None),
     ("exact", None), ("bp(iterations=2000, tolerance=0)", 9)],
)  # fmt: skip
def test_an_interrupt_ends_all_threads(
    solver: str, count: int | None, shared: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "0")
    size = 12 if solver == "exact" else 4
    graphs: Any = generators.ising_grid(size, size, count=count, seed=3)
    found = solve(graphs, solver=solver, threads=2, progress=lambda *_: Clock.interrupt_calls())
    last = found if count is None else found[-1]
    assert last.status is Status.INTERRUPTED


def test_work_without_a_stated_number_uses_free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cores.THREADS, raising=False)
    assert cores.crew_size(3, 2) == 2
    assert cores.crew_size(None, 1) == cores.crew_size(5, 0) == 1
    monkeypatch.setenv(cores.THREADS, "4")
    assert (cores.crew_size(None, 8), cores.crew_size(2, 8)) == (4, 2)
