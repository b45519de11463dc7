"""Leaks and inhibitors of noisy-or factors are learned by EM."""

from __future__ import annotations

import numpy as np
import pytest
from networks import draw

import equifactor as ef
from equifactor import FactorGraph, NoisyOr, Status
from equifactor.learning.fitting.learned_kinds import as_tables, with_learned

TRUTH = NoisyOr(0.1, [0.3, 0.7, 0.15])


def diagnosis(noisy_or: NoisyOr, scope: tuple[int, ...] = (3, 0, 1, 2)) -> FactorGraph:
    """Return a network of three causes and their effect, the last variable."""
    causes = [([i], [0.6, 0.4]) for i in range(3)]
    return FactorGraph([2] * 4, [*causes, (list(scope), noisy_or)])


def test_a_noisy_or_is_read_off_its_table_again() -> None:
    graph = FactorGraph(
        [2] * 4,
        [
            *(([i], [0.6, 0.4]) for i in range(3)),
            ([0, 3, 2, 1], NoisyOr(0.2, [0.5, 0.25, 0.75], signs=[True, False, False, True], place=1)),
        ],
    )
    dense, learned = as_tables(graph, frozenset())
    assert dense.structure.kinds is None
    assert np.exp(learned[0].log_values(dense.log_phi)) == pytest.approx([0.8, 0.5, 0.25, 0.75])
    again = dense.log_phi.copy()
    learned[0].write(learned[0].log_values(again), again)
    assert again == pytest.approx(dense.log_phi)
    assert with_learned(graph, dense, learned).log_phi == pytest.approx(graph.log_phi)
    assert as_tables(graph, frozenset([3]))[1] == ()
    assert as_tables(diagnosis(TRUTH), frozenset())[1][0].factor == 3


def test_probabilities_are_found_and_no_others_are_better() -> None:
    truth = diagnosis(TRUTH)
    rows = draw(truth, 5000)
    fitted = ef.fit(diagnosis(NoisyOr(0.5, [0.5] * 3)), rows, prior=0, tolerance=1e-9)
    assert fitted.method.startswith("em")
    assert fitted.status is Status.CONVERGED
    found = fitted.graph.factor(3)
    assert isinstance(found, NoisyOr)
    assert found.leak == pytest.approx(0.1, abs=0.03)
    assert found.inhibitors == pytest.approx(TRUTH.inhibitors, abs=0.05)
    best = np.mean(fitted.graph.log_score(rows))
    assert fitted.log_likelihood == pytest.approx(best)
    for k in range(4):
        for step in (-0.01, 0.01):
            moved = np.array([found.leak, *found.inhibitors]) + step * (np.arange(4) == k)
            other = fitted.graph.log_phi.copy()
            other[-4:] = np.log([1 - moved[0], *moved[1:]])
            assert np.mean(fitted.graph.with_potentials(other, log=True).log_score(rows)) < best


def test_gaps_priors_and_hidden_causes() -> None:
    truth = diagnosis(TRUTH)
    rows = draw(truth, 3000)
    gaps = np.where(np.random.default_rng(0).random(rows.shape) < 0.2, -1, rows)
    fitted = ef.fit(truth, gaps, prior="k2")
    found = fitted.graph.factor(3)
    assert isinstance(found, NoisyOr)
    assert found.inhibitors == pytest.approx(TRUTH.inhibitors, abs=0.08)
    assert np.all(np.diff([h["objective"] for h in fitted.history]) > -1e-9)
    gaps[:, 0] = -1
    fitted = ef.fit(truth, gaps, restarts=2, iterations=50)
    assert fitted.score(gaps) == pytest.approx(fitted.log_likelihood)
    seen = np.exp(ef.fit(truth, rows[:0:-1], "em", prior=3, iterations=5, tolerance=0).graph.log_phi)
    assert np.all((seen > 0) & (seen < 1))


def test_a_cause_that_is_never_active_keeps_its_inhibitor() -> None:
    rows = np.array([[0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    fitted = ef.fit(diagnosis(TRUTH), rows, "em", prior=0, iterations=20)
    found = fitted.graph.factor(3)
    assert isinstance(found, NoisyOr)
    assert found.inhibitors[0] == pytest.approx(0.3)


def test_a_noisy_or_that_is_too_wide_stays() -> None:
    graph = FactorGraph(
        [2] * 26, [*(([i], [0.9, 0.1]) for i in range(25)), ([25, *range(25)], NoisyOr(0.1, [0.5] * 25))]
    )
    rows = np.zeros((4, 26), int)
    rows[2, 3] = -1
    fitted = ef.fit(graph, rows)
    assert "Factor 25 is a structured factor (noisy_or) and is not learned." in fitted.message
