"""Random mixtures of all kinds against enumeration: scores, evidence, answers by tables, copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_factors import all_states, random_mixture, scores_from_tables

from equifactor import FactorGraph, plan, read_graph, solve, write_graph
from equifactor.solvers import lower

SEEDS = st.integers(0, 2**32 - 1)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """Return whether both are equal up to rounding, with the same zeros."""
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    np.testing.assert_allclose(found[~np.isneginf(found)], expected[~np.isneginf(expected)], atol=1e-9)


def log_sum(scores: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        top = max(scores.max(), -1e300)
        return float(top + np.log(np.exp(scores - top).sum()))


@given(SEEDS)
def test_scores_are_those_of_the_tables(seed: int) -> None:
    g = random_mixture(np.random.default_rng(seed))
    close(g.log_score(all_states(g)), scores_from_tables(g))


@given(SEEDS)
def test_evidence_keeps_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = random_mixture(rng)
    some = rng.permutation(g.num_vars)[: rng.integers(0, g.num_vars + 1)]
    evidence = {int(i): int(rng.integers(g.card[i])) for i in some}
    h = g.condition(evidence)
    states = all_states(g)
    fits = np.all([states[:, i] == x for i, x in evidence.items()], axis=0) if evidence else np.ones(len(states), bool)
    close(h.log_score(states), np.where(fits, g.log_score(states), -np.inf))
    assert not set(evidence) & set(h.structure.scope_vars.tolist())
    assert np.all((h.structure.arity > 1) | (h.structure.rows(h.log_phi).kind == 0))


@given(SEEDS)
def test_copies_are_equal(seed: int) -> None:
    g = random_mixture(np.random.default_rng(seed))
    again = [(g.structure.scope(a).tolist(), g.factor(a)) for a in range(g.num_factors)]
    close(FactorGraph(g.card, again, log=True).log_score(all_states(g)), g.log_score(all_states(g)))
    for h in (pickle.loads(pickle.dumps(g)), copy.copy(g), copy.deepcopy(g)):
        assert h == g
        assert not h.log_phi.flags.writeable
        assert h.structure.kinds is None or not h.structure.kinds.words.flags.writeable
    if g.structure.kinds is not None and len(g.structure.kinds.words):
        assert g != FactorGraph(g.card, [])


@pytest.mark.parametrize("block", range(4))
def test_exact_answers(block: int) -> None:
    for seed in range(15 * block, 15 * block + 15):
        check_answers(random_mixture(np.random.default_rng(seed)), "exact")


@pytest.mark.parametrize("solver", ["brute", "auto"])
def test_answers_of_other_solvers_that_are_exact_here(solver: str) -> None:
    for seed in range(100, 106):
        check_answers(random_mixture(np.random.default_rng(seed)), solver)


def check_answers(g: FactorGraph, solver: str) -> None:
    """Check ln Z, marginals and the best score by enumeration; impossible graphs must be reported as impossible."""
    states, scores = all_states(g), scores_from_tables(g)
    log_z = log_sum(scores)
    for task in ("PR", "MAR", "MAP"):
        found = solve(g, task, solver)
        if np.isneginf(scores).all():
            assert found.status == "zero-probability"
            continue
        if task == "PR":
            assert found.log_z == pytest.approx(log_z, abs=1e-8)
        elif task == "MAP":
            assert len(found.assignment) == g.num_vars
            assert found.log_score == pytest.approx(scores.max(), abs=1e-9)
            assert g.log_score(found.assignment) == pytest.approx(scores.max(), abs=1e-9)
        else:
            for i in range(g.num_vars):
                expected = np.bincount(states[:, i], np.exp(scores - log_z), g.card[i])
                np.testing.assert_allclose(found.marginals[i], expected, atol=1e-8)


@given(SEEDS)
def test_lowering_keeps_scores_and_sums(seed: int) -> None:
    g = random_mixture(np.random.default_rng(seed), num_vars=4)
    for semiring in ("sum", "max"):
        h = lower(g, semiring).graph
        assert h.structure.kinds is None
        assert h.num_vars >= g.num_vars
        np.testing.assert_array_equal(h.card[: g.num_vars], g.card)
    assert plan(g).num_lowered_entries == (0 if g.structure.kinds is None else lower(g).graph.structure.num_entries)


@pytest.mark.parametrize("suffix", ["uai", "lg", "fg", "wcsp"])
@given(seed=SEEDS)
def test_files_keep_the_scores(tmp_path_factory: pytest.TempPathFactory, suffix: str, seed: int) -> None:
    g = random_mixture(np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("mixture") / f"a.{suffix}"
    write_graph(g, path)
    found, expected = read_graph(path).log_score(all_states(g)), scores_from_tables(g)
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], atol=1e-4 if suffix == "wcsp" else 1e-9)
