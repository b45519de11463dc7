"""First runs of `auto`, where few kernels can be compiled before the deadline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equifactor import Status, solve
from equifactor.generators import ising_grid
from equifactor.solvers.auto import chooser, sum_ladder
from equifactor.solvers.search import block_search

GRAPH = ising_grid(6, 6, seed=1, coupling_std=1.5)
AUTO = "auto(memory_limit=1e-6)"  # Elimination does not fit.


def allow(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let only some solvers be compiled in time."""

    def can_compile(clock: Any, share: float, *families: str, **settings: Any) -> bool:
        return set(families) <= {*names, "fe-net", "block-search"}

    for module in (sum_ladder, chooser):
        monkeypatch.setattr(module, "can_compile", can_compile)


def error(solver: str) -> float:
    exact = solve(GRAPH, "MAR", "exact").marginals.values
    return float(np.abs(solve(GRAPH, "MAR", solver).marginals.values - exact).mean())


def test_marginals_come_from_the_sampler_that_is_compiled_the_soonest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_ladder, "_MOST_DRAWS", 5000)
    allow(monkeypatch, "gibbs")
    found = solve(GRAPH, "MAR", AUTO)
    assert [text.split()[0] for text in found.stats["ladder"]][-1] == "gibbs"
    assert "Not run, because their kernels were not ready in time: blocks, conditioning." in found.message
    assert found.standard_errors is not None
    assert error(AUTO) < 0.5 * error("bp(damping=0.5)")


def test_without_any_sampler_the_network_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch)
    found = solve(GRAPH, "MAR", AUTO)
    assert found.stats["chosen"] == "fe-net"
    assert "blocks, conditioning, gibbs, regions" in found.message
    assert error(AUTO) < error("bp(damping=0.5)")


def test_map_takes_the_best_of_the_solvers_that_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    best = solve(GRAPH, "MAP", "exact").log_score
    allow(monkeypatch)
    proven = solve(GRAPH, "MAP", AUTO)
    assert (proven.status, proven.stats["chosen"]) == (Status.OPTIMAL, "block-search")
    assert proven.log_score == pytest.approx(best)
    monkeypatch.setattr(block_search, "_MOST_STEPS", 1)
    monkeypatch.setattr(block_search, "_FIRST_BITS", 3.0)
    quick = solve(GRAPH, "MAP", AUTO)
    assert quick.log_score >= solve(GRAPH, "MAP", "bp(damping=0.5)").log_score
    assert "compiling the kernels of the search took" in quick.message
    allow(monkeypatch, "local-search")
    found = solve(GRAPH, "MAP", AUTO)
    assert quick.log_score <= found.log_score
    assert found.log_score == pytest.approx(best)
