"""Solutions put together cluster by cluster, parts of errors, gaps and post-selection."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from equifactor.base.errors import ModelError, OptionError
from equifactor.cli.app import app
from equifactor.decoding import (
    Decoder,
    ErrorModel,
    PostSelection,
    ShotSampler,
    bicycle_code,
    linked_parts,
    surface_code,
)
from equifactor.decoding.iteration_spread import (
    added_counts,
    counts_by_iterations,
    spread_of_counts,
    spread_of_shots,
)
from equifactor.decoding.linked_parts import linked, sides_of
from equifactor.decoding.post_selection import counts_by_gap, curve_of_counts
from equifactor.decoding.problem import DecodingProblem


def depolarized(distance: int, prior: float) -> ErrorModel:
    """Return a surface code with X and Z checks, in which each pair of neighbours has one of 15 errors."""
    one = surface_code(distance, 0.1)
    checks = one.num_detectors
    H, L = matrices(one)
    turned = np.arange(one.num_errors).reshape(distance, distance).T.ravel()  # The other side is turned by 90 degrees.
    columns = []
    for a, b in itertools.pairwise(range(one.num_errors)):
        for x in itertools.product((0, 1), repeat=4):
            own = [x[0] * H[:, a] + x[1] * H[:, b], x[2] * H[:, turned[a]] + x[3] * H[:, turned[b]]]
            flips = [x[0] * L[:, a] + x[1] * L[:, b], x[2] * L[:, turned[a]] + x[3] * L[:, turned[b]]]
            columns.append(np.concatenate((*own, *flips)) % 2)
    both = np.array(columns).T[:, [n % 16 > 0 for n in range(len(columns))]]
    priors = prior / 15 * np.random.default_rng(distance).uniform(0.5, 1.5, both.shape[1])
    return ErrorModel.of_matrices(both[: 2 * checks], priors, both[2 * checks :]).merged()[0]


def matrices(model: ErrorModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the check matrix [D, E] and the observable matrix [L, E]."""
    H = np.zeros((model.num_detectors, model.num_errors), int)
    L = np.zeros((model.num_observables, model.num_errors), int)
    H[model.detectors, np.repeat(np.arange(model.num_errors), np.diff(model.detector_ptr))] = 1
    L[model.observables, np.repeat(np.arange(model.num_errors), np.diff(model.observable_ptr))] = 1
    return H, L


@pytest.fixture(scope="module")
def model() -> ErrorModel:
    return depolarized(3, 0.05)


def test_sides_are_those_of_errors_that_are_not_made_up_of_others() -> None:
    assert len(set(sides_of([(0, 1), (1,), (2, 3), (3,), (1, 3), (0, 1, 2, 3)], 4))) == 2
    assert len(set(sides_of([(0, 1), (2, 3), (1, 2)], 4))) == 1
    assert sides_of([], 0) == []


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are used however many edges they save."""
    monkeypatch.setattr(linked_parts, "_FEWER", 9.0)


@pytest.mark.usefixtures("links")
def test_a_linked_problem_has_the_same_solutions() -> None:
    problem = DecodingProblem.of(depolarized(5, 0.04))
    parts = linked(problem)
    assert parts.num_links > 0
    assert parts.num_checks == problem.num_checks + parts.num_links
    assert parts.num_bits == problem.num_bits + parts.num_links
    H = dense(problem)
    wide = dense(parts)
    for seed in range(5):
        errors = np.random.default_rng(seed).integers(2, size=problem.num_bits)
        set_parts = wide[: parts.num_links, : problem.num_bits] @ errors % 2
        met = wide @ np.concatenate((errors, set_parts)) % 2
        np.testing.assert_array_equal(met[: parts.num_links], 0)
        np.testing.assert_array_equal(met[parts.num_links :], H @ errors % 2)
    one_side = DecodingProblem.of(surface_code(5, 0.1))
    assert linked(one_side) is one_side


def dense(problem: DecodingProblem) -> np.ndarray:
    H = np.zeros((problem.num_checks, problem.num_bits), int)
    H[np.repeat(np.arange(problem.num_checks), np.diff(problem.check_ptr)), problem.bit_of_edge] = 1
    return H


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("method", ["relay", "pooled", "pooled(schedule=serial)"])
def test_corrections_explain_shots_of_both_sides(method: str) -> None:
    model = depolarized(5, 0.03)
    shots, flips = ShotSampler(model, 3).sample(0, 300)
    result = Decoder(model, method).decode(shots, corrections=True)
    assert result.corrections is not None
    assert result.converged.mean() > 0.97
    seen = result.converged
    H, L = matrices(model)
    np.testing.assert_array_equal((result.corrections @ H.T % 2)[seen], shots[seen])
    np.testing.assert_array_equal((result.corrections @ L.T % 2)[seen], result.flips[seen])
    weights = result.corrections @ (np.log1p(-model.priors) - np.log(model.priors))
    np.testing.assert_allclose(weights[seen], result.weight[seen], rtol=1e-4)
    assert result.errors(flips).mean() < 0.1


def test_pooled_finds_the_best_errors_and_the_gap_that_enumeration_finds() -> None:
    rng = np.random.default_rng(7)
    H = (rng.random((6, 14)) < 0.35).astype(int)
    H[0] |= H.sum(axis=0) == 0
    L = rng.integers(2, size=(2, 14))
    p = rng.uniform(0.02, 0.2, 14)
    errors = np.array(list(itertools.product((0, 1), repeat=14)))
    weights, shots_of, flips_of = errors @ np.log((1 - p) / p), errors @ H.T % 2, errors @ L.T % 2
    shots = np.unique(shots_of, axis=0)
    result = Decoder(H, p, L, method="pooled(solutions=60, patience=60)").decode(shots)
    assert result.gap is not None
    best = gaps = 0
    for n, shot in enumerate(shots):
        same = (shots_of == shot).all(axis=1)
        least = weights[same].min()
        other = weights[same & (flips_of != result.flips[n]).any(axis=1)].min()
        assert result.weight[n] > least - 1e-4
        if result.weight[n] < least + 1e-4:
            best += 1
            assert result.gap[n] > other - least - 1e-4  # The gap is that of errors that were found.
            gaps += result.gap[n] < other - least + 1e-4
    assert best > 0.9 * len(shots)
    assert gaps > 0.6 * len(shots)


def test_the_same_solutions_put_together_are_never_heavier() -> None:
    big = depolarized(7, 0.4)
    shots = ShotSampler(big, 5).sample(0, 200)[0]
    relay = Decoder(big, "relay(solutions=6)").decode(shots)
    same = "pooled(solutions=6, patience=300, penalty=0, part_memory=0.15, part_low=-0.24, part_high=0.66)"
    pooled = Decoder(big, same).decode(shots)
    assert (pooled.weight <= relay.weight * (1 + 1e-5)).all()
    assert pooled.weight.sum() < 0.998 * relay.weight.sum()


def test_hard_shots_go_on_until_several_legs_have_met_the_syndrome() -> None:
    model = bicycle_code("bb144", 0.07)
    shots = ShotSampler(model, 5).sample(0, 60)[0]
    settings = "patience=1, penalty=0, legs=60"
    short, full = (Decoder(model, f"pooled({settings}, least={n})").decode(shots) for n in (1, 10))
    assert short.converged.tolist() == full.converged.tolist()
    assert (full.weight <= short.weight + 1e-3).all()
    assert full.weight.sum() < short.weight.sum() - 1.0


def test_the_default_is_a_search_where_belief_propagation_often_fails() -> None:
    H = np.array([[n in own for own in itertools.combinations(range(9), 3)] for n in range(9)], int)
    dense = ErrorModel.of_matrices(H, 0.01, [H[0] & H[1]])
    assert str(Decoder(dense).method) == "search(schedule=serial)"
    assert str(Decoder(dense, schedule="parallel").method) == "search"
    for model in (depolarized(3, 0.05), bicycle_code("bb72", 0.05)):
        assert str(Decoder(model).method) == "pooled"


def test_shots_that_are_not_explained_have_gap_0() -> None:
    result = Decoder([[1, 0, 0], [0, 0, 0]], 0.1, [[1, 0, 1]], method="pooled").decode([[1, 0], [0, 1]])
    assert result.gap is not None
    assert result.converged.tolist() == [True, False]
    assert result.gap.tolist() == [math.inf, 0.0]


def test_the_budget_of_a_shot_ends_it(model: ErrorModel) -> None:
    shots = ShotSampler(model, 3).sample(0, 100)[0]
    result = Decoder(model, "pooled", budget=30).decode(shots)
    assert result.iterations.max() == 30


def test_post_selection_counts_the_shots_that_are_left() -> None:
    curve = PostSelection.of_shots([3.0, 0.5, math.inf, 0.5], [False, True, False, False])
    assert curve.gap.tolist() == [0.5, 3.0, math.inf]
    assert curve.shots.tolist() == [4, 2, 1]
    assert curve.errors.tolist() == [1, 0, 0]
    assert curve.set_aside.tolist() == [0.0, 0.5, 0.75]
    assert curve.rate.tolist() == [0.25, 0.0, 0.0]
    assert curve.at(0.4) == (4, 1)
    assert curve.at(0.5) == (2, 0)
    assert curve.points()[0] == (0.0, 4, 1)
    with pytest.raises(ModelError, match="one gap"):
        PostSelection.of_shots([1.0], [True, False])
    with pytest.raises(OptionError, match="from 0 to 1"):
        curve.at(1.5)
    gap, wrong = np.array([0.1, 0.2, 7.0, math.inf]), np.array([True, False, True, False])
    curve = curve_of_counts(counts_by_gap(gap, wrong))
    assert (curve.gap.tolist(), curve.shots.tolist(), curve.errors.tolist()) == ([0.0, 7.0, 20.0], [4, 2, 1], [2, 1, 0])


def test_shots_set_aside_lower_the_rate(model: ErrorModel) -> None:
    found = Decoder(depolarized(5, 0.05), "pooled").logical_error_rate(1000, seed=2)
    curve = found.post_selection
    shots, errors = curve.at(0.1)
    assert errors / shots < 0.5 * found.rate
    assert curve.errors[0] == found.errors
    truth = ShotSampler(depolarized(5, 0.05), 2).sample(0, 1000)[1]
    np.testing.assert_array_equal(found.result.post_selection(truth).errors, curve.errors)
    with pytest.raises(OptionError, match="Use the method pooled"):
        _ = Decoder(model, "relay").logical_error_rate(10).post_selection


def test_stated_failures_are_observed() -> None:
    found = Decoder(depolarized(5, 0.04)).logical_error_rate(4000, seed=3)  # The default method states gaps.
    stated, gap = found.result.failure, found.result.stated_gaps()
    assert found.wrong is not None
    inside = stated >= 0.1
    assert 0.1 < found.wrong[inside].mean() < 0.6
    assert found.wrong[~inside].mean() < 0.03
    by_gap = np.argsort(gap)
    assert (np.diff(stated[by_gap]) <= 1e-9).all()
    np.testing.assert_allclose(stated[gap == 0.0], 0.5)


def test_the_command_writes_curves_and_gaps(tmp_path: Path) -> None:
    run = CliRunner().invoke
    sample = ["decode", "bb72", "--prior", "0.06", "--sample", "200", "--method", "pooled"]
    curve, rate = tmp_path / "curve.csv", tmp_path / "rate.json"
    done = run(app, [*sample, "--curve", str(curve)])
    assert done.exit_code == 0
    assert "set aside: 0.1 %: " in done.output
    assert curve.read_text().startswith("gap,set_aside,shots,errors,rate\n0,0,200,")
    assert run(app, [*sample, "-o", str(rate)]).exit_code == 0
    sample[5] = "300"
    assert run(app, [*sample, "-o", str(rate), "--resume", "--curve", str(curve)]).exit_code == 0
    assert curve.read_text().split("\n")[1].startswith("0,0,300,")
    assert run(app, [*sample[:-1], "relay", "--curve", str(curve)]).exit_code != 0
    shots = tmp_path / "shots.01"
    shots.write_text("".join("".join(map(str, row)) + "\n" for row in np.eye(3, 36, dtype=int)))
    gaps = tmp_path / "gaps.txt"
    decode = ["decode", "bb72", str(shots), "--prior", "0.05", "-o", str(tmp_path / "flips.01"), "--gaps", str(gaps)]
    assert run(app, [*decode, "--method", "pooled"]).exit_code == 0
    assert len(gaps.read_text().split()) == 3


def test_reports_hold_quantiles_and_advice() -> None:
    run = CliRunner().invoke
    sample = ["decode", "bb72", "--prior", "0.06", "--sample", "300", "--method"]
    done = run(app, [*sample, "min-sum(iterations=2)"])
    assert "The decoder explains only" in done.output
    assert "In " in done.output
    assert "the true errors are likelier than those found" in done.output
    done = run(app, [*sample, "pooled"])
    assert "iterations per shot (p50 " in done.output
    assert "p99.9 " in done.output
    assert "likelier than those found" not in done.output
    found = Decoder(bicycle_code("bb72", 0.06), "relay").logical_error_rate(300)
    assert "ms per shot (p50 " in str(found.result)


def test_counts_of_iterations_give_the_quantiles() -> None:
    iterations = np.random.default_rng(1).geometric(0.01, 5000)
    counts = added_counts(counts_by_iterations(iterations[:2000]), counts_by_iterations(iterations[2000:]))
    found, wanted = spread_of_counts(counts), spread_of_shots(iterations)
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=0.03)
    assert set(spread_of_shots(iterations[:0]).values()) == {0.0}


def test_missed_shots_are_those_with_likelier_true_errors() -> None:
    model = ErrorModel.of_matrices([[1, 1, 0]], [0.1, 0.01, 1.0], [[1, 0, 1]])  # The third error is certain.
    found = Decoder(model, "min-sum").logical_error_rate(20000, seed=1)
    assert found.errors > 0  # The second error has happened, and the first one explains the shot.
    assert found.missed == 0


def test_an_osd_order_larger_than_the_code_allows_is_an_error() -> None:
    H = [[1, 1, 0, 0, 1], [0, 1, 1, 0, 1], [1, 0, 1, 1, 1]]
    with pytest.raises(OptionError, match="Use at most osd_order=2"):
        Decoder(H, 0.1, method="bp-osd(osd_order=3)")
    Decoder(H, 0.1, method="bp-osd(osd_order=2)")
    Decoder(H, 0.1, method="bp-osd")
