"""EM: expected counts by enumeration, a likelihood that rises, hidden states that differ, stops and restarts."""

from __future__ import annotations

import signal
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from networks import draw, lawn, mixture

import equifactor as ef
from equifactor import FactorGraph, FormatError, ModelError, NoisyOr, OptionError, Parity, SolveError, Status
from equifactor.base.typing import FloatArray, IntArray
from equifactor.learning.fitting import expected_blocks
from equifactor.learning.fitting.data_rows import read_data
from equifactor.learning.fitting.expected_blocks import BlockExpectation


def with_gaps(rows: IntArray, share: float, seed: int = 9) -> IntArray:
    """Return the rows with a share of their values missing."""
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, -1, rows)


def enumerated(graph: FactorGraph, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return expected counts [T] of a graph of tables, and ln p of each row, by enumerating every completion."""
    s = graph.structure
    counts, log_p = np.zeros(s.num_entries), []
    for row in rows:
        ways = [range(d) if x < 0 else [x] for x, d in zip(row.tolist(), s.card.tolist(), strict=True)]
        full = np.array(list(product(*ways)))
        scores = np.exp(graph.log_score(full))
        log_p.append(np.log(scores.sum()))
        for a in range(s.num_factors):
            code = np.ravel_multi_index(tuple(full[:, s.scope(a)].T), s.shape(a))
            np.add.at(counts, s.table_ptr[a] + code, scores / scores.sum())
    return counts, np.array(log_p)


@pytest.mark.parametrize(("few", "many"), [(0, 0), (0, 3), (1000, 1000)])
def test_expected_counts_are_those_of_enumeration(monkeypatch: pytest.MonkeyPatch, few: int, many: int) -> None:
    """Test all three cases: all rows, some rows or no rows are eliminated."""
    monkeypatch.setattr(expected_blocks, "_FEW", few)
    monkeypatch.setattr(expected_blocks, "_MANY", many)
    rows = with_gaps(draw(lawn(), 30), 0.4)
    found = BlockExpectation(lawn(), read_data(lawn(), rows), 1.0).counts(lawn().log_phi)
    assert found is not None
    counts, log_p = enumerated(lawn(), rows)
    assert found[0] == pytest.approx(counts)
    assert found[1] == pytest.approx(log_p.sum())


def test_blocks_between_variables_without_gaps() -> None:
    rng = np.random.default_rng(1)
    graph = FactorGraph([2, 3, 2, 2, 3, 2, 2], [
        ([0], rng.random(2)), ([0, 1], rng.random((2, 3))), ([1, 2], rng.random((3, 2))), ([2, 3], rng.random((2, 2))),
        ([3, 4], rng.random((2, 3))), ([4, 5, 6], rng.random((3, 2, 2))), ([3], rng.random(2)),
    ])  # fmt: skip
    rows = rng.integers(0, 2, (40, 7))
    rows[:, [0, 1]] = -1  # hidden, and two blocks more: variable 4, and variable 6 that shares a factor with it
    rows[::3, 4] = rows[1::2, 6] = -1
    found = BlockExpectation(graph, read_data(graph, rows), 1.0)
    assert [block.part.variables.tolist() for block in found._blocks] == [[0, 1, 2], [3, 4, 5, 6]]
    assert found._blocks[0].rows.num_rows == 2
    expected = found.counts(graph.log_phi)
    assert expected is not None
    counts, log_p = enumerated(graph, rows)
    assert expected[0] == pytest.approx(counts)
    assert expected[1] == pytest.approx(log_p.sum())
    assert found.mean_log_score(graph.log_phi) == pytest.approx(log_p.mean())
    log_z = ef.solve(graph, "PR", "brute").log_z
    fitted = ef.answers.Fitted(graph=graph, method="", status=Status.EXACT)
    assert fitted.score(rows) == pytest.approx(log_p.mean() - log_z)


def test_an_iteration_is_expect_and_divide() -> None:
    rows = with_gaps(draw(lawn(), 40), 0.3)
    fitted = ef.fit(lawn(), rows, "em", start="structure", iterations=2, tolerance=0, prior=12)
    counts, log_p = enumerated(lawn(), rows)
    table = counts[:12].reshape(3, 2, 2) + 1.0
    assert np.exp(fitted.graph.log_table(0)) == pytest.approx(table / table.sum(axis=0))
    assert fitted.history[0]["log_likelihood"] == pytest.approx(np.mean(log_p))
    assert fitted.log_likelihood == pytest.approx(np.mean(enumerated(fitted.graph, rows)[1]))
    assert fitted.score(rows) == pytest.approx(fitted.log_likelihood)
    assert (fitted.status, fitted.iterations) == (Status.ITERATION_LIMIT, 2)


def test_complete_data_give_the_counts() -> None:
    rows = draw(lawn(), 200)
    by_em = ef.fit(lawn(), rows, "em", prior=3)
    assert by_em.graph.log_phi == pytest.approx(ef.fit(lawn(), rows, "counts", prior=3).graph.log_phi)
    assert by_em.log_likelihood == pytest.approx(np.mean(by_em.graph.log_score(rows)))


@pytest.mark.parametrize("prior", [0, 1.0, "k2"])
@pytest.mark.parametrize("hidden", [[], [1]])
def test_the_objective_never_falls(prior: float | str, hidden: list[int]) -> None:
    rows = with_gaps(draw(lawn(), 300), 0.3)
    rows[:, hidden] = -1
    fitted = ef.fit(lawn(), rows, prior=prior, restarts=2, iterations=40, tolerance=0)
    for start in range(2):
        objective = [h["objective"] for h in fitted.history if h["start"] == start]
        assert len(objective) >= 10
        assert np.all(np.diff(objective) >= -1e-9)


def test_missing_values_cost_little() -> None:
    rows, held_out = draw(lawn(), 4000), draw(lawn(), 4000, seed=1)
    fitted = ef.fit(lawn(), with_gaps(rows, 0.2))
    assert fitted.status is Status.CONVERGED
    assert fitted.score(held_out) == pytest.approx(np.mean(lawn().log_score(held_out)), rel=0.01)


def test_hidden_states_do_not_stay_equal() -> None:
    """pgmpy 1542 and 1692: with equal starts every hidden state keeps probability 1/3."""
    truth = mixture()
    rows, held_out = draw(truth, 2000), draw(truth, 2000, seed=1)
    fitted = ef.fit(truth, {f"c{i}": rows[:, i + 1] for i in range(6)}, seed=4)
    assert "class has no values and is hidden" in fitted.message
    assert np.sort(np.exp(fitted.graph.log_table(0))) == pytest.approx([0.2, 0.3, 0.5], abs=0.05)
    seen = held_out.copy()
    seen[:, 0] = -1
    true_score = ef.answers.Fitted(graph=truth, method="", status=Status.EXACT).score(seen)
    assert fitted.score(seen) == pytest.approx(true_score, rel=0.01)
    again = ef.fit(truth, {f"c{i}": rows[:, i + 1] for i in range(6)}, seed=4, hidden=["class"])
    assert np.array_equal(again.graph.log_phi, fitted.graph.log_phi)
    assert again.message == ""


def test_a_hidden_state_that_is_not_needed_keeps_what_the_prior_gives() -> None:
    graph = FactorGraph({"h": 2, "x": ["a", "b", "never"]}, [(["h"], [1, 1]), (["h", "x"], [1] * 6)])
    fitted = ef.fit(graph, {"x": ["a", "b", None, "a"]}, prior="k2")
    assert np.all(np.isfinite(fitted.graph.log_phi))
    without = ef.fit(graph, {"x": ["a", "b", None, "a"]}, prior=0)
    assert not np.any(np.isnan(without.graph.log_phi))
    assert np.exp(without.graph.log_table(1))[:, 2] == pytest.approx(0.0, abs=1e-3)


def test_ties_and_sentences() -> None:
    hmm = FactorGraph(
        {"h0": 2, "h1": 2, "h2": 2, "x0": 2, "x1": 2, "x2": 2},
        [
            (["h0"], [1, 1]),
            *(([f"h{i}", f"h{i + 1}"], [1] * 4) for i in range(2)),
            *(([f"h{i}", f"x{i}"], [1] * 4) for i in range(3)),
        ],
    )
    rows = np.random.default_rng(0).integers(0, 2, (60, 3))
    fitted = ef.fit(hmm, {f"x{i}": rows[:, i] for i in range(3)}, tied=[[1, 2], [3, 4, 5]], iterations=30)
    assert np.array_equal(fitted.graph.log_table(1), fitted.graph.log_table(2))
    assert np.array_equal(fitted.graph.log_table(3), fitted.graph.log_table(5))
    noisy = FactorGraph(
        [2] * 4, [([0], [1, 1]), ([1], [3, 1]), ([2, 0, 1], NoisyOr(0.1, [0.2, 0.3])), ([0, 2, 3], Parity())]
    )
    full = np.array([[0, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]] * 10)
    fitted = ef.fit(noisy, with_gaps(full, 0.2), prior=2, fixed=[2])
    assert fitted.graph.factor(2) == pytest.approx(noisy.factor(2))
    assert "Factor 3 is a structured factor (parity) and is not learned." in fitted.message
    assert fitted.score(with_gaps(full, 0.2)) == pytest.approx(fitted.log_likelihood)


def test_sampling_where_exact_sums_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, held_out = draw(lawn(), 3000), draw(lawn(), 3000, seed=1)
    gaps = with_gaps(rows, 0.2)
    exact = ef.fit(lawn(), gaps, memory_limit=0)  # few completions need no elimination
    assert exact.status is Status.CONVERGED
    monkeypatch.setattr(expected_blocks, "_FEW", 0)
    assert ef.fit(lawn(), gaps, memory_limit=0).log_likelihood == pytest.approx(exact.log_likelihood)
    monkeypatch.setattr(expected_blocks, "_MANY", 0)
    fitted = ef.fit(lawn(), gaps, memory_limit=0, checkpoint=tmp_path / "run.npz")
    assert fitted.status is Status.ITERATION_LIMIT
    assert fitted.log_likelihood is None
    assert fitted.message.startswith("Exact sums over missing values do not fit: ")
    assert "were sampled in 120 iterations" in fitted.message
    assert np.exp(fitted.graph.log_phi) == pytest.approx(np.exp(exact.graph.log_phi), abs=0.03)
    assert fitted.score(held_out) == pytest.approx(exact.score(held_out), rel=0.002)
    again = ef.fit(lawn(), gaps, memory_limit=0, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(again.graph.log_phi, fitted.graph.log_phi)
    with pytest.raises(SolveError, match="the limit of 0 bytes"):
        ef.fit(lawn(), gaps, memory_limit=0, inference="exact")
    with pytest.raises(SolveError, match="in dense tables only"):
        ef.fit(FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], Parity())]), np.array([[0, -1]]), inference="gibbs")
    fixed = ef.fit(lawn(), gaps[:50], inference="gibbs", fixed=[0], prior=0, time_limit=0)
    assert fixed.status is Status.TIME_LIMIT
    assert np.array_equal(fixed.graph.log_table(0), lawn().log_table(0))


def test_a_row_that_cannot_be() -> None:
    graph = FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], [[1.0, 0.0], [0.0, 1.0]])])
    with pytest.raises(ModelError, match="row 2: the row has probability zero for all learned tables"):
        ef.fit(graph, np.array([[0, 0], [1, -1], [0, 1], [1, 1]]), "em", fixed=[1])
    parity = FactorGraph([2] * 3, [([0], [1, 1]), ([0, 1], Parity()), ([2], [1, 1])])
    with pytest.raises(ModelError, match="row 1: the row has probability zero"):
        ef.fit(parity, np.array([[0, 0, 1], [0, 1, -1]]))
    with pytest.raises(ModelError, match="row 1: the row has probability zero"):
        ef.fit(FactorGraph([2, 2], [([0], [1.0, 0.0]), ([1], [1, 1])]), np.array([[0, 0], [1, -1]]), start="structure")


# ---- limits, validation, checkpoints --------------------------------------------------------------------


def test_early_stopping_keeps_the_best() -> None:
    rows = with_gaps(draw(mixture(), 60), 0.3)
    rows[:, 0] = -1
    fitted = ef.fit(mixture(), rows, prior=0, validation=0.5, tolerance=0, restarts=1, patience=3, seed=1)
    best = max(h["validation"] for h in fitted.history)
    assert fitted.validation_log_likelihood == best
    assert fitted.history[-4]["validation"] == best
    assert "stopped early" in fitted.message
    assert fitted.status is Status.CONVERGED


def test_no_time_gives_the_start() -> None:
    fitted = ef.fit(lawn(), with_gaps(draw(lawn(), 50), 0.3), time_limit=0)
    assert fitted.status is Status.TIME_LIMIT
    assert np.all(np.isfinite(fitted.graph.log_phi))
    assert fitted.log_likelihood is not None


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = draw(mixture(), 200)
    data = {f"c{i}": rows[:, i + 1] for i in range(6)}
    settings = {"restarts": 3, "iterations": 30, "tolerance": 0.0}
    whole = ef.fit(mixture(), data, **settings)
    path, reports, parts = tmp_path / "run.npz", 0, []

    def stop_often(done: int, total: int | None, note: str) -> None:
        nonlocal reports
        reports += 1
        if reports % 7 == 0:
            signal.raise_signal(signal.SIGINT)

    while not parts or parts[-1].status is Status.INTERRUPTED:
        parts.append(ef.fit(mixture(), data, checkpoint=path, progress=stop_often, **settings))
    assert len(parts) == len(whole.history) // 7 + 1
    part = parts[-1]
    assert np.array_equal(part.graph.log_phi, whole.graph.log_phi)
    assert part.history == whole.history
    done = ef.fit(mixture(), data, checkpoint=path, **settings)
    assert np.array_equal(done.graph.log_phi, whole.graph.log_phi)
    settings["iterations"] = 40
    more = ef.fit(mixture(), data, checkpoint=path, **settings)
    assert more.iterations == whole.iterations + 10
    assert more.history[-1]["objective"] >= whole.history[-1]["objective"]
    with pytest.raises(OptionError, match="belongs to a fit with another structure"):
        ef.fit(mixture(), data, checkpoint=path, seed=7, **settings)
    path.write_text("no checkpoint")
    with pytest.raises(FormatError, match="not a readable checkpoint"):
        ef.fit(mixture(), data, checkpoint=path, **settings)


def test_progress_is_reported() -> None:
    notes: list[str] = []
    ef.fit(lawn(), with_gaps(draw(lawn(), 50), 0.3), restarts=2, progress=lambda done, total, note: notes.append(note))
    assert notes[0].startswith("start 1 of 2, log-likelihood -")
    assert notes[-1].startswith("log-likelihood -")
