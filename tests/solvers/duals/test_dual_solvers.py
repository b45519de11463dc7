"""mplp and srmp: bounds that hold and only fall, proofs that are right, hard zeros without NaN."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from equifactor import Count, FactorGraph, Status, read_graph, solve
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, random_graph, random_ksat
from equifactor.solvers import compile
from equifactor.solvers.duals import ascent as module
from equifactor.solvers.duals import dual_solvers
from equifactor.solvers.duals.ascent import Ascent, FactorAscent, VariableAscent
from equifactor.solvers.duals.cycle_ascent import CycleAscent

SPECS = ["mplp", "srmp", "srmp(cycles=true)"]
DATA = os.environ.get("EQUIFACTOR_DATA")


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*SPECS, "srmp(iterations=2)"])
@pytest.mark.parametrize("zeros", [0.0, 0.2, 0.45])
def test_bounds_hold_and_proofs_are_right(spec: str, zeros: float) -> None:
    for graph in random_graph(5, 8, arity=(1, 3), card=(2, 3), zeros=zeros, strength=2.0, count=120, seed=7):
        got, best = solve(graph, "MAP", spec), solve(graph, "MAP", "brute")
        if best.status is Status.ZERO_PROBABILITY:
            assert got.status is not Status.OPTIMAL
            continue
        assert got.status is not Status.ZERO_PROBABILITY
        assert got.lower_bound == got.log_score
        assert got.lower_bound <= best.log_score + 1e-9 <= got.upper_bound + 2e-9
        if got.status is Status.OPTIMAL:
            assert got.log_score == pytest.approx(best.log_score, abs=1e-6)


@pytest.mark.parametrize("kind", [FactorAscent, VariableAscent, CycleAscent])
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_the_bound_never_rises_and_is_that_of_the_messages(kind: type[Ascent], zeros: float) -> None:
    for graph in random_graph(12, 24, arity=(1, 3), card=(2, 4), zeros=zeros, count=10, seed=2):
        dual = kind(compile(graph))
        last = dual.bound
        for _ in range(30):
            swept = dual.sweep()
            if np.isneginf(swept):
                break
            assert swept <= last + 1e-9
            afresh = dual.bound  # lower if a state was excluded, or triplets were swept, after its part was summed
            assert afresh <= swept + 1e-9
            assert afresh == pytest.approx(swept, abs=1e-9) or zeros or kind is CycleAscent
            last = swept


def test_srmp_lowers_the_bound_faster_than_mplp() -> None:
    flat = compile(ising_grid(20, 20, seed=0))
    by_factor, by_variable = FactorAscent(flat), VariableAscent(flat)
    for _ in range(10):
        slow, fast = by_factor.sweep(), by_variable.sweep()
    assert fast < slow - 0.5


def test_cycles_prove_what_the_local_program_cannot() -> None:
    for seed in range(5):
        graph = ising_grid(8, 8, seed=seed)
        plain, tight = solve(graph, "MAP", "srmp"), solve(graph, "MAP", "srmp(cycles=true)", time_limit=600)
        assert tight.status is Status.OPTIMAL
        assert tight.upper_bound < plain.upper_bound - 0.5
        assert tight.log_score == pytest.approx(tight.upper_bound, rel=2e-7)


def test_triplets_tighten_a_grid_with_strong_couplings_in_few_sweeps() -> None:
    graph = ising_grid(12, 12, coupling_std=1.5, field_std=0.1, seed=1)
    best = solve(graph, "MAP", "exact").log_score
    dual = CycleAscent(compile(graph))
    bounds = [dual.sweep() for _ in range(250)]
    assert best - 1e-6 <= min(bounds) < best + 1e-3


def test_a_frustrated_triangle_is_closed_by_one_triplet() -> None:
    differ = np.array([[0.0, 1.0], [1.0, 0.0]])
    graph = FactorGraph([2] * 3, [([0, 1], differ), ([1, 2], differ), ([0, 2], differ)], log=True)
    assert solve(graph, "MAP", "srmp").upper_bound == pytest.approx(3.0)
    tight = solve(graph, "MAP", "srmp(cycles=true)")
    assert tight.status is Status.OPTIMAL
    assert tight.upper_bound == pytest.approx(2.0, abs=1e-5)


def test_triplets_change_no_score() -> None:
    graph = ising_grid(8, 8, seed=3)
    dual = CycleAscent(compile(graph))
    for _ in range(200):
        dual.sweep()
    assert len(dual.triplets) > 5
    rng = np.random.default_rng(0)
    for x in rng.integers(0, 2, (10, 64)):
        score = dual.unary[2 * np.arange(64) + x].sum()
        score += sum(
            dual.log_phi[at + 2 * x[i] + x[j]] for (i, j), at in zip(dual.pairs, dual.pair_entries, strict=True)
        )
        for triplet, at in zip(dual.triplets, dual.lam_ptr, strict=False):
            for n, (i, j) in enumerate(dual.scopes[a] for a in triplet):
                score -= dual.lam[at + 4 * n + 2 * x[i] + x[j]]
        assert score == pytest.approx(graph.log_score(x), abs=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_arc_consistency_proves_that_no_assignment_is_possible(spec: str) -> None:
    less = np.triu(np.ones((3, 3)), 1)  # x < y < z < w needs four states
    graph = FactorGraph([3] * 4, [([i, i + 1], less) for i in range(3)])
    assert solve(graph, "MAP", spec).status is Status.ZERO_PROBABILITY


@pytest.mark.parametrize("spec", SPECS)
def test_the_best_answer_so_far_at_the_deadline(spec: str, driven_time) -> None:
    driven_time.tick = 0.002
    graph = ising_grid(100, 100, seed=1)
    got = solve(graph, "MAP", spec, time_limit=0.02)
    assert got.status is Status.TIME_LIMIT
    assert got.lower_bound <= got.upper_bound


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="EQUIFACTOR_DATA is not set")
@pytest.mark.parametrize(
    ("name", "spec", "optimum"),
    [
        ("Segment/17_4_s.binary", "mplp", -97.2843),
        ("Segment/17_4_s.binary", "srmp", -97.2843),
        ("ObjDetect/ObjectDetection_42", "srmp", -182.2232),
        ("Protein/pdb2fdn", "srmp", -49.2033),
        ("Grids/grid10x10.f10", "srmp(cycles=true)", 695.8249),
    ],
)
def test_public_models_are_proven_optimal(name: str, spec: str, optimum: float) -> None:
    got = solve(read_graph(Path(str(DATA)) / f"{name}.uai.gz"), "MAP", spec, time_limit=600)
    assert got.status is Status.OPTIMAL
    assert got.log_score == pytest.approx(optimum, abs=1e-3)


@pytest.mark.parametrize("kind", ["tables", "clauses", "long"])
def test_single_moves_in_parts_reach_the_same_assignment(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = {
        "tables": lambda: random_graph(30, 60, arity=(1, 3), card=(2, 4), strength=2.0, seed=3),
        "clauses": lambda: random_ksat(40, 4.0, weight=1.0, seed=4),
        "long": lambda: FactorGraph([2] * 80, [(range(80), Count(0.1 * np.arange(81) % 0.7))]),
    }[kind]()
    dual = VariableAscent(compile(graph))
    start = np.random.default_rng(0).integers(0, graph.card)
    found = []
    for slots in (1, 10**9):
        monkeypatch.setattr(module, "_CALL_SLOTS", slots)
        found.append(dual.polished(start.copy(), Clock()))
        assert all(np.array_equal(a, b) for a, b in zip(dual.candidates(), dual.candidates(clock=Clock()), strict=True))
    assert np.array_equal(*found)
    best = graph.log_score(found[0])
    for i in range(graph.num_vars):
        for x in range(graph.card[i]):
            moved = found[0].copy()
            moved[i] = x
            assert graph.log_score(moved) <= best + 1e-9


def test_a_clock_that_has_stopped_leaves_one_assignment_as_it_is() -> None:
    dual = VariableAscent(compile(random_ksat(40, 4.0, seed=4)))
    assert len(list(dual.candidates(clock=Clock(0.0)))) == 1
    assert len(list(dual.candidates())) == 4


@pytest.mark.parametrize("name", ["srmp", "mplp"])
def test_without_time_for_messages_unary_tables_decide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FactorGraph([2, 2], [([0], [1.0, 2.0]), ([1], [2.0, 1.0]), ([0, 1], [[1.0, 1.0], [1.0, 9.0]])])
    assert solve(graph, "MAP", name, time_limit=0.0).upper_bound is not None
    monkeypatch.setattr(dual_solvers, "_FIRST_BOUND", 1e6)  # as on a model with very many edges
    got = solve(graph, "MAP", name, time_limit=0.0)
    assert got.status is Status.TIME_LIMIT
    assert list(got.assignment) == [1, 0]
    assert got.upper_bound is None
    assert "unary" in got.message
