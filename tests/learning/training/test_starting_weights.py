"""Training that starts from trained weights: names, settings of the file, conflicts, defaults and resuming."""

from __future__ import annotations

import pytest
import torch

from equifactor import OptionError, train
from equifactor.base.status import Task
from equifactor.learned import load_model, read_card
from equifactor.learning.training import training_loop as loop
from equifactor.learning.training.starting_weights import FINE_TUNING, is_clear_gain, start_file
from equifactor.solvers.learned.model_card import WEIGHTS

TEN = "ising(3x3, n=10)"


@pytest.mark.parametrize(("kind", "task"), [("fe-net", "MAR"), ("fe-nbp", "MAP"), ("fe-gnn", "MAR")])
def test_ten_graphs_are_never_worse_than_the_shipped_weights(kind: str, task: str, tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    done = train(kind, TEN, task, out, start="shipped", epochs=2)
    measure = "kl" if task == "MAR" else "error"
    assert done.metrics[measure] <= done.history[0][measure]
    shipped = read_card(WEIGHTS / f"{kind}-{task.lower()}.safetensors")
    card = read_card(out)
    assert shipped.settings.items() <= card.settings.items()
    assert card.start == f"{kind}-{task.lower()} of equifactor {shipped.version}"
    assert "validation 0.2" in card.data


def test_epoch_0_has_the_shipped_weights() -> None:
    given, _ = load_model(WEIGHTS / "fe-nbp-mar.safetensors")
    done = train("fe-nbp", TEN, start="fe-nbp", epochs=1, lr=0.0)
    for p, q in zip(given.parameters(), done.network.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_names_of_starts_and_paths(tmp_path) -> None:
    for start in ("shipped", "fe-net", "fe-net-mar"):
        assert start_file("fe-net", Task.MAR, start).name == "fe-net-mar.safetensors"
    assert start_file("fe-net", Task.MAP, "shipped").name == "fe-net-map.safetensors"
    assert start_file("fe-gnn", Task.MAP, "fe-gnn-mar").name == "fe-gnn-mar.safetensors"
    path = tmp_path / "a.safetensors"
    assert start_file("fe-net", Task.MAP, path) == path


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"channels": 8}, "the file has channels=16, and channels=8 was asked for"),
        ({"damping": 0.9}, "the file has damping=0.5, and damping=0.9 was asked for"),
        ({"start": "fe-nbp"}, "holds a network of the kind fe-nbp, and fe-net was asked for"),
        ({"kind": "fe-gnn", "task": "MAP"}, "no weights named fe-gnn-map. It has fe-gnn-mar, "),
        ({"start": "nothing"}, "start=nothing: the package has no weights named nothing"),
        ({"kind": "ggnn"}, "no weights named ggnn-mar"),
    ],
)
def test_conflicts_are_one_sentence(call: dict, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        train(**{"kind": "fe-net", "data": TEN, "start": "shipped", **call})


def test_settings_of_the_file_are_used_and_steps_may_differ(tmp_path) -> None:
    own = {"epochs": 1, "hidden": 8, "damping": 0.7}
    train("fe-nbp", TEN, out=tmp_path / "a.safetensors", steps=3, **own)
    done = train("fe-nbp", TEN, out=tmp_path / "b.safetensors", start=tmp_path / "a.safetensors", steps=5, epochs=1)
    assert (done.network.config.hidden, done.network.config.damping, done.network.config.steps) == (8, 0.7, 5)
    assert read_card(tmp_path / "b.safetensors").start == "a.safetensors"
    assert read_card(tmp_path / "a.safetensors").start == ""


def test_defaults_of_a_start_hold_out_three_of_ten_graphs(monkeypatch) -> None:
    seen = []
    init = loop.Trainer.__init__

    def noted(self, network, split, task, settings, *args, **kwargs) -> None:
        seen.append((len(split.training), len(split.validation), settings))
        init(self, network, split, task, settings, *args, **kwargs)

    monkeypatch.setattr(loop.Trainer, "__init__", noted)
    train("fe-nbp", TEN, start="shipped", epochs=1)
    train("fe-nbp", TEN, start="shipped", epochs=1, lr=0.1, validation=0.1)
    (kept, held, settings), (_, one, other) = seen
    assert (kept, held, one) == (7, 3, 1)
    assert (settings.lr, settings.batch_size) == (FINE_TUNING["lr"], FINE_TUNING["batch_size"])
    assert other.lr == 0.1


def test_a_started_run_resumes_to_the_same_result(tmp_path, monkeypatch) -> None:
    call = {"kind": "fe-nbp", "data": TEN, "start": "shipped", "patience": 0, "epochs": 3}
    whole = train(**call, out=tmp_path / "a.safetensors")
    out = tmp_path / "b.safetensors"
    step, count = loop.Trainer._gradient_step, 0

    def stop_in_the_second_epoch(self, *args):
        nonlocal count
        count += 1
        self.clock.interrupted |= count == 2
        return step(self, *args)

    monkeypatch.setattr(loop.Trainer, "_gradient_step", stop_in_the_second_epoch)
    assert not train(**call, out=out).finished
    monkeypatch.setattr(loop.Trainer, "_gradient_step", step)
    again = train(**call, out=out, resume=True)
    assert [h["kl"] for h in again.history] == [h["kl"] for h in whole.history]
    with pytest.raises(OptionError, match=r"start was 'fe-nbp-mar of equifactor .* and is 'a.safetensors'"):
        train(**{**call, "start": tmp_path / "a.safetensors"}, out=out, resume=True)


def test_a_gain_must_be_clear_unless_validation_is_given(caplog) -> None:
    """A gain of a few percent on three graphs may be chance, so the starting weights stay."""
    call = {"kind": "fe-nbp", "data": TEN, "start": "shipped", "epochs": 2, "lr": 1e-5}
    kept, tuned = train(**call), train(**call, validation=0.3)
    assert tuned.metrics["epoch"] > 0
    assert tuned.metrics["kl"] < tuned.history[0]["kl"]
    assert kept.metrics["epoch"] == 0
    assert kept.metrics["kl"] == kept.history[0]["kl"]
    given, _ = load_model(WEIGHTS / "fe-nbp-mar.safetensors")
    for p, q in zip(given.parameters(), kept.network.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    assert "The starting weights are kept: on 3 held-out graphs kl fell" in caplog.text


def test_a_clear_gain_depends_on_the_number_of_graphs() -> None:
    assert not is_clear_gain(1.0, 0.65, 3)
    assert is_clear_gain(1.0, 0.55, 3)
    assert is_clear_gain(1.0, 0.8, 20)
