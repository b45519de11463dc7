"""Words under bursty noise: log ratios of receivers, batches of words, continued runs, rates and their errors."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from equifactor import solve
from equifactor.base.errors import OptionError
from equifactor.generators import BurstyChannel
from equifactor.solvers.learned.network import build
from experiments.bursty_comparison import BurstyComparison
from experiments.bursty_page import ErrorRate, bit_rate, joined, word_rate
from experiments.bursty_runs import network_runs, rate_runs
from experiments.bursty_words import count_errors, judged_words, sent_words, training_words
from experiments.experiment_commands import main
from experiments.experiment_config import load_bursty
from experiments.run_store import RunStore
from experiments.word_training import WordReader

EXPERIMENT = load_bursty("bursty")
SMALL = EXPERIMENT.quick()


def test_the_code_of_the_experiment_is_regular_without_4_cycles() -> None:
    parity = EXPERIMENT.code().parity.astype(int)
    assert set(parity.sum(axis=0)) == {3}
    assert set(parity.sum(axis=1)) == {6}
    shared = parity.T @ parity
    assert shared[~np.eye(len(shared), dtype=bool)].max() == 1
    assert EXPERIMENT.code().dimension == 48


def test_who_knows_more_of_the_noise_trusts_a_far_symbol_less() -> None:
    code, noise = SMALL.code(), SMALL.noise
    words = sent_words(code, noise.channel(4.0, 5.0), 50, np.random.default_rng(1))
    assert not (code.parity @ words.bits.T % 2).any()
    far = np.abs(words.received) > 4.0
    plain, bursts, strength = (np.abs(words.log_ratios(noise, k)[far]) for k in ("gaussian", "bursts", "strength"))
    assert (bursts < plain).all()
    assert (strength < plain).all()
    with pytest.raises(OptionError, match="knows must be gaussian"):
        words.log_ratios(noise, "all")


def test_words_are_the_same_again_and_differ_between_training_validation_and_test() -> None:
    code = SMALL.code()
    sets = [training_words(code, SMALL, 20, *place)[0] for place in ((0,), (1, 0, 0), (1, 0, 1), (1, 1, 0))]
    sets += [words.log_ratios(SMALL.noise) for one in judged_words(code, SMALL.noise) for words in one]
    rows = {row.tobytes() for ratios in sets for row in ratios}
    assert len(rows) == sum(map(len, sets))
    np.testing.assert_array_equal(training_words(code, SMALL, 20, 1, 0, 1)[0], sets[2])


@pytest.mark.slow
def test_an_untrained_network_reads_words_as_belief_propagation_does() -> None:
    code, channel = SMALL.code(), BurstyChannel(snr_db=2.0)
    words = sent_words(code, channel, 7, np.random.default_rng(3))
    network = build("fe-nbp", {"steps": 3, "bounded": False, "damping": 0.0}, seed=0)
    found, twice = WordReader(code, "cpu", 5).read(network, words.log_ratios(SMALL.noise), 2)
    for steps, bits in ((3, found), (6, twice)):
        solved = solve(code.graphs(words.received, channel), "MAR", f"bp(iterations={steps}, tolerance=0)")
        marginals = np.stack([r.marginals.values.reshape(-1, 2) for r in solved])
        np.testing.assert_array_equal(bits, marginals.argmax(axis=2))


def test_the_quick_form_runs_end_to_end_and_goes_on(tmp_path, capsys, monkeypatch) -> None:
    order = ["bursty", "--quick", "--methods", "sum-product, best clip, 10 iterations,FE-NBP", "--out", str(tmp_path)]
    assert main(order) == 0
    assert "FE-NBP" in capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    names = ["sum-product, best clip, 10 iterations", "FE-NBP"]
    assert [row["name"] for row in results["runs"]] == names * 2
    for row in results["runs"]:
        there = row.get("at") == "36 bits"
        assert [cell["words"] for cell in row["cells"]] == ([20] * 2 if there else [40] * 4)
    assert (tmp_path / "models.zip").is_file()
    store = RunStore(tmp_path)
    assert not store.working.exists()
    with monkeypatch.context() as patched:
        patched.setattr("experiments.bursty_runs.count_errors", None)  # No run is repeated.
        assert main([*order, "--jobs", "1"]) == 0
    # A trained model is judged without being trained again.
    (run,) = network_runs(SMALL.selected("FE-NBP"), store)
    trained = run.perform(tmp_path, "cpu", until=time.time() - 1)
    assert trained["updates"] == SMALL.training.updates
    assert [cell["words"] for cell in trained["cells"]] == [20] * 4  # One pass only, because the time is over.
    assert [cell["words"] for cell in trained["twice"]] == [20] * 4


def test_a_time_limit_gives_every_network_the_same_number_of_gradient_steps(tmp_path) -> None:
    chosen = EXPERIMENT.selected("FE-NBP,NEBP")
    comparison = BurstyComparison(chosen, tmp_path)
    # The time of a gradient step is not known yet.
    assert comparison.updates(chosen, time.time()) == EXPERIMENT.training.updates
    for run, each in zip(rate_runs(chosen), (0.02, 0.06), strict=True):
        comparison.store.add(run.key, {"lr": 1e-3, "each": each, "configuration": run.configuration})
    assert comparison.updates(chosen, None) == EXPERIMENT.training.updates
    assert comparison.updates(chosen, time.time() + 61) == 430  # 0.85 (61 - 20) / (2 seeds 0.04 s), whole tens
    assert {run.updates for run in network_runs(chosen, comparison.store, 430)} == {430}


def test_rates_and_their_errors() -> None:
    cell = {"words": 4, "word_errors": 2, "bit_errors": 9, "message_errors": 6, "message_squares": 20}
    assert word_rate(cell) == ErrorRate(0.5, 0.25)
    assert bit_rate(cell, 3).rate == pytest.approx(0.5)
    assert bit_rate(cell, 3).error == pytest.approx(np.sqrt((5.0 - 2.25) / 4) / 3)
    assert joined([ErrorRate(0.1, 0.03), ErrorRate(0.18, 0.03)]).error == pytest.approx(0.05)
    code, noise = SMALL.code(), SMALL.noise
    all_wrong = count_errors(code, noise, lambda words, number: [1 - w.bits for w in words], lambda: False)
    assert all_wrong[0]["bit_errors"] == 20 * code.n
    assert all_wrong[0]["message_errors"] == 20 * code.dimension
