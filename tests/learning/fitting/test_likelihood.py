"""Markov networks and conditional models by likelihood and pseudo-likelihood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fields import ALL, divergence, draw, log_probabilities, loop

import equifactor as ef
from equifactor import ModelError, OptionError, Status
from equifactor.base.clock import Clock
from equifactor.learning.fitting.data_rows import DataRows, read_data
from equifactor.learning.fitting.fit_method import FitContext
from equifactor.learning.fitting.gradient_quasi_newton import Evaluation, QuasiNewton
from equifactor.learning.fitting.learned_parameters import LearnedParameters
from equifactor.learning.fitting.likelihood import LikelihoodFit, _LikelihoodLoss
from equifactor.learning.fitting.likelihood_expectations import _BetheExpectation
from equifactor.learning.fitting.pseudo_likelihood import _PseudoLoss

METHODS = ["likelihood", "pseudo-likelihood"]
both = pytest.mark.parametrize("method", METHODS)


def assert_slopes(loss: Any, size: int) -> None:
    """Compare the gradient of a loss with finite differences."""
    theta = np.random.default_rng(1).normal(size=size)
    found = loss(theta).gradient
    for k in range(size):
        step = 1e-5 * np.eye(size)[k]
        want = (loss(theta + step).value - loss(theta - step).value) / 2e-5
        assert found[k] == pytest.approx(want, abs=1e-7)


@pytest.mark.parametrize("given", ["", "0,2"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_gradient_of_the_likelihood(given: str, missing: float) -> None:
    graph = loop()
    rows = draw(graph, 20)
    gone = np.random.default_rng(2).random(rows.shape) < missing
    gone[:, [0, 2]] &= not given
    table = read_data(graph, np.where(gone, -1, rows))
    context = FitContext(clock=Clock(), tied=((1, 2),), fixed=frozenset([3]))
    loss = _LikelihoodLoss(LikelihoodFit(given=given), graph, table, context)
    assert not loss.note
    assert_slopes(loss, loss.parameters.size)


def test_the_gradient_of_the_bethe_estimate() -> None:
    """Counts of belief propagation are the derivatives of its sum of ln Z, given some values in each row."""
    graph = loop()
    side = _BetheExpectation(graph, read_data(graph, np.array([[0, -1, -1, 1], [2, -1, 0, -1]])), "too large")
    log_phi = graph.log_phi + 0.0
    counts, _ = side.counts(log_phi, Clock())
    for k in (0, 4, 11):
        step = 1e-4 * np.eye(len(log_phi))[k]
        up, down = (side.counts(log_phi + sign * step, Clock())[1] for sign in (1, -1))
        assert counts[k] == pytest.approx((up - down) / 2e-4, abs=1e-4)
    assert "too large" in side.note


@pytest.mark.parametrize("given", [[], [0, 2]])
def test_the_gradient_of_the_pseudo_likelihood(given: list[int]) -> None:
    graph = ef.FactorGraph([3, 2, 2, 2], [*loop_factors(), ([1, 2, 3], ef.Count([0.5, 1.0, 2.0, 0.1]))], log=True)
    context = FitContext(clock=Clock(), tied=((1, 2),), fixed=frozenset([3]))
    parameters = LearnedParameters(graph, context)
    assert_slopes(_PseudoLoss(parameters, read_data(graph, draw(loop(), 30)), np.array(given, int)), parameters.size)


def loop_factors() -> list:
    graph = loop()
    return [(graph.structure.scope(a).tolist(), graph.log_table(a)) for a in range(graph.num_factors)]


@both
def test_the_distribution_is_recovered(method: str) -> None:
    truth = loop()
    rows = draw(truth, 20_000)
    found = ef.fit(truth, rows, method, l2=0.01)
    assert found.status is Status.CONVERGED
    assert divergence(truth, found.graph) < 0.002
    held_out = draw(truth, 5_000, seed=9)
    index = np.ravel_multi_index(held_out.T, (3, 2, 2, 2))
    want = log_probabilities(found.graph)[index].mean()
    assert found.score(held_out) == pytest.approx(want)
    assert found.score(held_out) > log_probabilities(truth)[index].mean() - 0.01


def test_expected_counts_are_those_of_the_data() -> None:
    """At the maximum, without regularisation, both sides of the gradient are equal."""
    rows = draw(loop(), 300)
    found = ef.fit(loop(), rows, "likelihood", l2=0.0, tolerance=1e-12)
    marginals = ef.solve(found.graph, "MAR", "brute").marginals
    for i in range(4):
        counts = np.bincount(rows[:, i], minlength=loop().card[i])
        np.testing.assert_allclose(marginals[i], counts / 300, atol=1e-4)


def test_conditional_models_explain_the_others_alone() -> None:
    """p(3 | 0, 2) is logistic regression, and factors of the given variables alone stay at 0."""
    truth = loop()
    rows = draw(truth, 20_000)
    found = ef.fit(truth, rows, "likelihood", given="0,2,1", l2=0.01)
    p, q = log_probabilities(truth).reshape(-1, 2), log_probabilities(found.graph).reshape(-1, 2)
    given = np.logaddexp.reduce(p, axis=1, keepdims=True)
    kl = np.exp(p) * ((p - given) - (q - np.logaddexp.reduce(q, axis=1, keepdims=True)))
    assert kl.sum() < 0.002
    for a in (0, 4):
        np.testing.assert_allclose(found.graph.log_table(a), 0.0, atol=1e-12)


def test_missing_values_are_summed_out() -> None:
    truth = loop()
    rows = draw(truth, 20_000)
    rows = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, -1, rows)
    found = ef.fit(truth, rows, "likelihood", validation=0.1)
    assert divergence(truth, found.graph) < 0.005
    assert found.validation_log_likelihood is not None


def test_beyond_memory_belief_propagation_is_said_to_be_used() -> None:
    truth = loop()
    found = ef.fit(truth, draw(truth, 5_000), "likelihood", memory_limit=1e-9)
    assert "Bethe estimates of belief propagation. The method pseudo" in found.message
    assert divergence(truth, found.graph) < 0.05


@both
def test_ties_and_fixed_factors(method: str) -> None:
    truth = loop()
    rows = draw(truth, 500)
    found = ef.fit(truth, rows, method, tied=[[1, 2, 3], [5, 6]], fixed=[4]).graph
    np.testing.assert_array_equal(found.log_table(1), found.log_table(3))
    np.testing.assert_array_equal(found.log_table(5), found.log_table(6))
    np.testing.assert_array_equal(found.log_table(4), truth.log_table(4))


def test_l1_makes_zeros() -> None:
    rows = draw(loop(), 500)
    many, few = (np.mean(ef.fit(loop(), rows, "likelihood", l1=x, l2=0.0).graph.log_phi == 0.0) for x in (5.0, 0.01))
    assert many > few + 0.3
    stuck = ef.fit(loop(), rows, "likelihood", l1=1e4)
    assert not stuck.graph.log_phi.any()


def test_quasi_newton_finds_the_minimum() -> None:
    """Minimise a quadratic with an L1 penalty, whose minimum is known coordinate by coordinate."""
    scale, centre = np.array([1.0, 10.0, 0.1, 3.0]), np.array([2.0, -1.0, 5.0, 0.1])

    def objective(x: np.ndarray) -> Evaluation:
        return Evaluation(float(0.5 * scale @ (x - centre) ** 2), scale * (x - centre))

    for l1 in (0.0, 0.4):
        state = QuasiNewton(np.zeros(4), l1)
        for _ in range(60):
            state.advance(objective)
        want = np.sign(centre) * np.maximum(np.abs(centre) - l1 / scale, 0.0)
        np.testing.assert_allclose(state.x, want, atol=1e-6)


@both
def test_a_run_goes_on_where_it_stopped(method: str, tmp_path: Path) -> None:
    rows = draw(loop(), 500)
    whole = ef.fit(loop(), rows, method, validation=0.2)
    part = ef.fit(loop(), rows, method, validation=0.2, time_limit=0.0, checkpoint=tmp_path / "fit.npz")
    assert part.status is Status.TIME_LIMIT
    assert part.iterations == 1
    rest = ef.fit(loop(), rows, method, validation=0.2, checkpoint=tmp_path / "fit.npz")
    assert rest.status is whole.status
    assert rest.iterations > 1
    np.testing.assert_allclose(rest.graph.log_phi, whole.graph.log_phi, atol=0.02)
    limited = ef.fit(loop(), rows, method, iterations=3)
    assert limited.status is Status.ITERATION_LIMIT
    assert "Raise iterations" in limited.message


def test_what_cannot_be_fitted_is_refused() -> None:
    graph, rows = loop(), draw(loop(), 10)
    gaps = rows.copy()
    gaps[3, 1] = -1
    for method in ("pseudo-likelihood", "max-margin"):
        with pytest.raises(ModelError, match="needs complete data, but row 3 has no value of 1"):
            ef.fit(graph, gaps, method)
    with pytest.raises(OptionError, match="nothing to learn"):
        ef.fit(graph, rows, "likelihood", fixed=range(8))
    with pytest.raises(OptionError, match="given names all variables"):
        ef.fit(graph, rows, "likelihood", given="0,1,2,3")
    hard = ef.FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], ef.Parity())])
    for method in METHODS:
        with pytest.raises(ModelError, match="is not learned excludes it"):
            ef.fit(hard, [[0, 1]], method)


def test_factors_of_other_kinds_stay_and_count() -> None:
    graph = ef.FactorGraph([2, 2, 2], [([0], [1, 1]), ([1], [1, 1]), ([0, 1, 2], ef.Parity())])
    rows = np.array([[0, 0, 0]] * 6 + [[1, 0, 1]] * 2 + [[1, 1, 0]] * 1)
    found = ef.fit(graph, rows, "likelihood", l2=0.0)
    np.testing.assert_allclose(ef.solve(found.graph, "MAR", "exact").marginals[0], [6 / 9, 3 / 9], atol=1e-3)
    pseudo = ef.fit(graph, rows, "pseudo-likelihood")
    assert pseudo.graph.factor(2) == ef.Parity()


def test_rows_count_by_their_weight() -> None:
    rows = draw(loop(), 50)
    table = DataRows(
        np.asfortranarray(ALL), np.bincount(np.ravel_multi_index(rows.T, (3, 2, 2, 2)), minlength=24) + 0.0
    )
    one, two = (ef.fit(loop(), data, "likelihood").graph.log_phi for data in (rows, table))
    np.testing.assert_allclose(one, two, atol=1e-6)
