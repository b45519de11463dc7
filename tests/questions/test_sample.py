"""Samples follow the model: chi-square tests against exact joints, names, statuses and seeds."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError, OptionError
from equifactor.generators import ising_grid, random_graph


def chi_square_is_fair(graph: ef.FactorGraph, drawn: ef.answers.Samples) -> None:
    """Compare the counts of all joint assignments with their exact probabilities, including observed variables."""
    every = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
    scores = np.exp(graph.log_score(every))
    p = scores / scores.sum()
    counts = np.bincount(np.ravel_multi_index(tuple(drawn.states.T), tuple(graph.card)), minlength=len(p))
    assert not counts[p == 0].any()
    often = len(drawn) * p > 5
    chi2 = ((counts - len(drawn) * p)[often] ** 2 / (len(drawn) * p)[often]).sum()
    freedom = often.sum() - 1
    assert freedom > 3
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("evidence", [{}, {1: 0}])
def test_exact_samples_have_the_joint_distribution(zeros: float, evidence: dict[int, int]) -> None:
    graph = random_graph(7, 9, arity=(1, 3), card=(2, 3), zeros=zeros, seed=4)
    drawn = ef.sample(graph, 40_000, evidence=evidence, seed=1)
    assert drawn.status is ef.Status.EXACT
    chi_square_is_fair(graph.condition(evidence), drawn)


def test_chains_have_the_joint_distribution_too() -> None:
    graph = random_graph(7, 9, arity=(1, 3), card=(2, 3), seed=4).condition({2: 0})
    drawn = ef.sample(graph, 8000, solver="blocks", seed=2)
    assert drawn.status is ef.Status.CONVERGED
    assert drawn.message.startswith("The chains agree")
    assert len(drawn) == 8000
    chi_square_is_fair(graph, drawn)


def test_kinds_of_factors_lose_their_auxiliary_variables() -> None:
    graph = ef.FactorGraph([2] * 6, [(range(5), ef.Parity()), ([0, 5], [[0.9, 0.1], [0.3, 0.7]])])
    drawn = ef.sample(graph, 20_000)
    assert drawn.states.shape == (20_000, 6)
    assert not (drawn.states[:, :5].sum(axis=1) % 2).any()
    chi_square_is_fair(graph, drawn)


def test_large_logs_do_not_bend_the_draws() -> None:
    graph = ef.FactorGraph(
        [2, 2, 2], [([0, 1], [[0, -900.0], [-900.0, -1.0]]), ([1, 2], [[0, -1.0], [0, -800]])], log=True
    )
    chi_square_is_fair_two = ef.sample(graph, 10_000, seed=3).states
    assert (chi_square_is_fair_two[:, 0] == chi_square_is_fair_two[:, 1]).all()
    p = np.exp(-1.0) / (1.0 + 2.0 * np.exp(-1.0))
    assert chi_square_is_fair_two[:, 0].mean() == pytest.approx(p, abs=0.02)


def test_the_same_seed_gives_the_same_samples() -> None:
    graph = ising_grid(4, 4, seed=1)
    first, same, other = (ef.sample(graph, 50, seed=seed).states for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    longer = ef.sample(graph, 80, seed=7).states
    np.testing.assert_array_equal(longer[:50], first)


def test_names_in_csv_and_frame() -> None:
    graph = ef.FactorGraph({"rain": ["no", "yes"], "gr,ass": 3}, [(["rain", "gr,ass"], np.ones((2, 3)))])
    drawn = ef.sample(graph, 3, evidence={"rain": "yes"}, seed=1)
    lines = "".join(drawn.csv_lines()).splitlines()
    assert lines[0] == 'rain,"gr,ass"'
    assert lines[1:] == [f"yes,{x}" for x in drawn.states[:, 1]]
    pd = pytest.importorskip("pandas")
    frame = drawn.to_frame()
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"rain": ["yes"] * 3, "gr,ass": drawn.states[:, 1]}))


def test_impossible_too_large_and_out_of_time() -> None:
    never = ef.FactorGraph([2, 2], [([0], [1.0, 0.0]), ([0, 1], [[0.0, 0.0], [1.0, 1.0]])])
    drawn = ef.sample(never, 5)
    assert (drawn.status, drawn.states.shape) == (ef.Status.ZERO_PROBABILITY, (0, 2))
    assert ef.sample(never, 5, solver="blocks").status is ef.Status.ZERO_PROBABILITY
    graph = ising_grid(8, 8, seed=1)
    refused = ef.sample(graph, 5, solver="exact(memory_limit=1e-6)")
    assert (refused.status, len(refused)) == (ef.Status.TOO_LARGE, 0)
    assert "Raise memory_limit or use auto" in refused.message
    by_chains = ef.sample(graph, 40, solver="auto(memory_limit=1e-6)")
    assert by_chains.solver == "blocks"
    assert by_chains.states.shape == (40, 64)
    assert "R-hat" in by_chains.message
    assert len(ef.sample(graph, 0)) == 0


def test_what_is_wrong_is_said() -> None:
    graph = ising_grid(2, 2, seed=1)
    with pytest.raises(OptionError, match="whole number >= 0, found -1"):
        ef.sample(graph, -1)
    with pytest.raises(OptionError, match="bp does not draw samples"):
        ef.sample(graph, 1, solver="bp")
    with pytest.raises(ModelError, match="takes one FactorGraph"):
        ef.sample([graph], 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "names",
    [
        {"a": 2, "b": 3},
        {"a": ["x,y", 'say "no"', ""], "b": ["", "\u00e4\u20ac", "line\nbreak"]},
        {"a": ["", "yes"]},
        {"a": 12},
        {"a": ["00", "11"], "b": ["22", "33"]},
    ],
)
def test_lines_are_those_of_the_csv_module(names: dict) -> None:
    drawn = ef.sample(ef.FactorGraph(names, []), 40, seed=1)
    piece = io.StringIO()
    csv.writer(piece, lineterminator="\n").writerows([drawn.names, *zip(*drawn.named_columns(), strict=True)])
    assert "".join(drawn.csv_lines()) == piece.getvalue()
