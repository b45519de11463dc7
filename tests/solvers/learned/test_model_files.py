"""Model files: round trip, and a one-line error for every kind of invalid file."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from equifactor import FormatError, ModelError, Task, __version__
from equifactor.learned import ModelCard, load_model, read_card, save_model
from equifactor.solvers.learned.model_card import FORMAT, KEY
from equifactor.solvers.learned.network import build

KINDS = ["fe-nbp", "fe-gnn", "fe-net"]


@pytest.fixture
def model(tmp_path: Path, write_model) -> Path:
    return Path(write_model(tmp_path / "m.safetensors", hidden=8, norm=True, features="old+new"))


def edited(path: Path, change: Any) -> Path:
    """Change the card of a file by a function of the JSON object, and return the file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    card = json.loads(header["__metadata__"][KEY])
    header["__metadata__"][KEY] = json.dumps(change(card) or card)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: str, dtype: str, tmp_path: Path) -> None:
    network = build(kind, {"steps": 4}, seed=2).to(getattr(torch, dtype))
    history: dict[str, Any] = {"data": "ising(4x4)", "metrics": {"kl": 0.5, "bad": float("nan")}, "seed": 2}
    card = ModelCard.of(network, "MAP", **history, updates=11)
    save_model(tmp_path / "m.safetensors", network, card)
    again, read = load_model(tmp_path / "m.safetensors")
    assert again.config == network.config
    assert all(torch.equal(v, network.state_dict()[k]) for k, v in again.state_dict().items())
    assert all(p.requires_grad for p in again.parameters())
    assert {p.dtype for p in again.parameters()} == {getattr(torch, dtype)}
    assert read == read_card(tmp_path / "m.safetensors")
    assert (read.kind, read.task, read.version, read.updates) == (kind, Task.MAP, __version__, 11)
    assert read.metrics == {"kl": 0.5, "bad": None}
    assert read.parameters == sum(p.numel() for p in network.parameters())


def test_same_model_same_bytes_and_nothing_left_behind(tmp_path: Path, write_model) -> None:
    first = Path(write_model(tmp_path / "a.safetensors")).read_bytes()
    write_model(tmp_path / "a.safetensors")  # over an existing file
    assert (tmp_path / "a.safetensors").read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    network = build("fe-nbp")
    with torch.no_grad():
        network.last.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match=r"last\.bias of the fe-nbp are not finite"):
        save_model(tmp_path / "m.safetensors", network, ModelCard.of(network, "MAR"))
    assert not list(tmp_path.iterdir())


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    network = build("fe-nbp")
    with pytest.raises(FormatError, match="there is no folder"):
        save_model(tmp_path / "no" / "m.safetensors", network, ModelCard.of(network, "MAR"))


@pytest.mark.parametrize("read", [read_card, load_model])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a model file"),
        (b"1234567", "is not a model file"),
        (b"MARKOV\n3\n2 2 2\n1\n2 0 1\n4\n", "is not a model file"),
        (pickle.dumps({"a": 1}), "is not a model file"),
        (b"PK\x03\x04" + bytes(100), "is not a model file"),
        ((50).to_bytes(8, "little") + b"{", "is truncated. It has 9 bytes"),
        ((4).to_bytes(8, "little") + b"{no}", "header is damaged"),
        ((15).to_bytes(8, "little") + b'{"a": [1, 2, 3]', "header is damaged"),
        ((8).to_bytes(8, "little") + b'{"a": 1}', "header is damaged"),
        ((2).to_bytes(8, "little") + b"{}", "written by another program"),
        ((20).to_bytes(8, "little") + b'{"__metadata__": 5} ', "header is damaged: its metadata is not text"),
    ],
)
def test_foreign_files(read: Any, content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError) as error:
        read(path)
    assert words in str(error.value)
    assert str(error.value).startswith(str(path))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        read_card(tmp_path / "none.safetensors")
    with pytest.raises(FormatError, match="it is a directory"):
        read_card(tmp_path)


def test_every_truncation_is_one_sentence(model: Path) -> None:
    data = model.read_bytes()
    for size in (*range(0, 40, 3), *range(40, len(data), 97), len(data) - 1):
        model.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"truncated|not a model file"):
            load_model(model)
    model.write_bytes(data + b"x")
    with pytest.raises(FormatError, match="has data after its end"):
        load_model(model)


def test_file_of_another_program(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors", {"format": "pt"})
    with pytest.raises(FormatError, match=r"by another program\. Expected a file written by equifactor train"):
        load_model(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(format=FORMAT + 1, version="9.0"), "equifactor 9.0 wrote this file in model format 2"),
        (lambda c: c.update(kind="fe-abc"), "holds a model of the kind 'fe-abc'"),
        (lambda c: c["settings"].update(hidden=16), "first.weight has shape [8, 2], expected [16, 2]"),
        (lambda c: c["settings"].update(hidden=10**12), "the settings in this file are not valid for fe-nbp"),
        (lambda c: c["settings"].update(norm=False), "the network has no weights named norms.0.scale"),
        (lambda c: c["settings"].update(hidden=-1), "fe-nbp: hidden must be at least 1"),
        (lambda c: c["settings"].update(widgets=1), "fe-nbp has no option 'widgets'"),
        (lambda c: c.update(task="DANCE"), "card of this model file is damaged"),
        (lambda c: c.update(settings=3), "card of this model file is damaged"),
        (lambda c: c.pop("kind") and None, "card of this model file is damaged"),
        (lambda c: [1], "card of this model file is damaged"),
    ],
)
def test_cards_that_cannot_be(change: Any, words: str, model: Path) -> None:
    with pytest.raises(FormatError) as error:
        load_model(edited(model, change))
    assert words in str(error.value)


def test_missing_and_bad_weights(model: Path) -> None:
    card = {KEY: read_card(model).to_json()}
    weights = load_model(model)[0].state_dict()
    for name, tensor, words in (
        ("last.bias", None, "last.bias is missing"),
        ("last.bias", torch.full((1,), torch.inf), "last.bias are not finite"),
        ("last.bias", torch.zeros(1, dtype=torch.int64), "has the type I64, expected float32"),
    ):
        tensors = {**weights, name: tensor}
        save_file({k: v for k, v in tensors.items() if v is not None}, model, card)
        with pytest.raises(FormatError) as error:
            load_model(model)
        assert words in str(error.value)
