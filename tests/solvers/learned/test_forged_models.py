"""Forged model files: every invalid field of the card and of the header gives a one-line error and status 3."""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equifactor.cli import main
from equifactor.cli.exit_status import guarded
from equifactor.cli.model_command import model
from equifactor.solvers.learned.learned_solver import WEIGHTS
from equifactor.solvers.learned.model_card import KEY, card_of_file
from equifactor.solvers.learned.model_header import parse_object

SHIPPED = sorted(path.name for path in WEIGHTS.glob("*.safetensors"))
DEEP = "[" * 10_000 + "]" * 10_000
# Texts of JSON rather than values, because an encoder would not write some of them.
WRONG = [
    "null", "true", "-1", "0.5", "1e400", "NaN", "-Infinity", "1" + "0" * 12, "1" + "0" * 400, "1" + "0" * 5000, '""',
    '"\\ud800"', '"\\u001b[2J"', '"x\\ny"', "[]", "[1, 2]", '["a"]', "{}", '{"a": {"b": []}}', '{"a": 1, "a": 2}', DEEP,
]  # fmt: skip
# Texts that are valid for some fields, or that cannot be distinguished from valid ones.
ALLOWED = {
    "data": {'""', '"\\ud800"', '"\\u001b[2J"', '"x\\ny"'},
    "start": {'""', '"\\ud800"', '"\\u001b[2J"', '"x\\ny"'},
    "metrics": {"{}"},
    "seed": {"null", "-1", "1" + "0" * 12, "1" + "0" * 400},
    "updates": {"null", "1" + "0" * 12, "1" + "0" * 400},
    "version": {'"x"'},
    "settings.steps": {"1" + "0" * 12, "1" + "0" * 400},
    "settings.settle": {"0.5", "1" + "0" * 12, "1" + "0" * 400},
    "settings.features": {"null"},  # This text means the word `none` of fe-gnn.
    "settings.damping": {"0.5"},
    "settings.context": {"true"},
    "settings.norm": {"true"},
    "settings.bounded": {"true"},
    "settings.temper": {"true"},
    "settings.loops": {"true"},
}


class Forged:
    """The parts of a model file: its header as an object, the text of its card, its weights."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        self.header: dict[str, Any] = json.loads(data[8 : 8 + length])
        self.card: dict[str, Any] = json.loads(self.header["__metadata__"][KEY])
        self.weights = data[8 + length :]

    def with_card(self, text: str) -> bytes:
        """Return the file with another text of its card."""
        return self.with_header(json.dumps({**self.header, "__metadata__": {KEY: text}}))

    def with_header(self, text: str | bytes) -> bytes:
        """Return the file with another text of its header."""
        raw = text if isinstance(text, bytes) else text.encode()
        return len(raw).to_bytes(8, "little") + raw + self.weights


def texts_with(values: dict[str, Any], name: str, text: str) -> str:
    """Return JSON of the values with the text of one value replaced."""
    return "{" + ", ".join(f"{json.dumps(k)}: {text if k == name else json.dumps(v)}" for k, v in values.items()) + "}"


def forged_cards(file: Forged) -> Iterator[tuple[str, str, str]]:
    """Yield each field, a wrong text for it, and the card with this text."""
    for name in file.card:
        for text in WRONG:
            yield name, text, texts_with(file.card, name, text)
    for inner in ("settings", "metrics"):
        for name in file.card[inner]:
            for text in WRONG:
                yield f"{inner}.{name}", text, texts_with(file.card, inner, texts_with(file.card[inner], name, text))


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Make large allocations fail, so that code that allocates by a stated size fails on any machine."""
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (8 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Return `refused(data, "model")`, which fails unless the command ends with one line that names the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n 1 2 3 4\n")

    def check(data: bytes, *args: str, statuses: tuple[int, ...] = (3,)) -> None:
        Path("f.safetensors").write_bytes(data)
        card_of_file.__globals__["_read_once"].cache_clear()
        status = _described() if args == MODEL else main(list(args))
        said = capsys.readouterr().err
        assert status in statuses, (status, said)
        if status == 3:
            assert said.startswith("equifactor: f.safetensors: "), said
            assert said.count("\n") == 1
            assert len(said) < 500
            assert said.strip().isprintable()

    return check


def _described() -> int:
    """Run `equifactor model f.safetensors` without the 25 ms that declaring the arguments of all commands takes."""

    def run(args: list[str]) -> int:
        model(args)
        return 0

    return guarded(run, ["f.safetensors"])


MODEL = ("model", "f.safetensors")


@pytest.mark.parametrize(
    "name", [name if "mar" in name else pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED]
)
def test_every_field_of_the_card(name: str, refused: Callable[..., None]) -> None:
    file = Forged(WEIGHTS / name)
    for field, text, card in forged_cards(file):
        numbers = field.startswith("metrics.") and text in {"null", "-1", "0.5", "1" + "0" * 12}
        right = numbers or text in ALLOWED.get(field, ())
        refused(file.with_card(card), *MODEL, statuses=(0, 3) if right else (3,))
    for field in ("kind", "settings", "task", "parameters", "format"):
        refused(file.with_card(json.dumps({k: v for k, v in file.card.items() if k != field})), *MODEL)
    for card in ("", "[]", "null", "{", '{"a": 1}', DEEP, json.dumps(file.card)[:-1] + ', "kind": "fe-net"}'):
        refused(file.with_card(card), *MODEL)
    for other in ({"kind": "bp"}, {"kind": "brute"}, {"task": "PR"}, {"parameters": 10**9}, {"more": 1}):
        refused(file.with_card(json.dumps({**file.card, **other})), *MODEL)
    for kind in {"fe-nbp", "fe-gnn", "fe-net", "fgnn", "ggnn", "nebp", "bpnn"} - {file.card["kind"]}:
        refused(file.with_card(json.dumps({**file.card, "kind": kind})), *MODEL)
    for size in (10**9, 10**12, 10**18, 10**30):
        settings = {"card": size, "arity": 32, "widths": "5"}
        for kind, wide in (("fgnn", settings), ("fgnn", {"arity": size}), ("ggnn", {"graph": "bipartite", **settings})):
            wide = {k: v for k, v in wide.items() if kind == "fgnn" or k != "widths"}
            refused(file.with_card(json.dumps({**file.card, "kind": kind, "settings": wide})), *MODEL)


def test_every_field_of_the_header(refused: Callable[..., None]) -> None:
    file = Forged(WEIGHTS / "fe-nbp-mar.safetensors")
    first, second = [name for name in file.header if name != "__metadata__"][:2]
    for field in ("dtype", "shape", "data_offsets"):
        for text in WRONG:
            entry = texts_with(file.header[first], field, text)
            refused(file.with_header(texts_with(file.header, first, entry)), *MODEL)
        entry = {k: v for k, v in file.header[first].items() if k != field}
        refused(file.with_header(json.dumps({**file.header, first: entry})), *MODEL)
    for text in WRONG:
        refused(file.with_header(texts_with(file.header, first, text)), *MODEL)
        refused(file.with_header(texts_with(file.header, "__metadata__", text)), *MODEL)
        refused(file.with_header(texts_with(file.header, "__metadata__", f'{{"{KEY}": {text}}}')), *MODEL)
    old = file.header[first]
    start, end = old["data_offsets"]
    for change in (
        {"dtype": "F64"}, {"dtype": "F16"}, {"dtype": "I32"}, {"dtype": "F8_E4M3"}, {"dtype": "f32"}, {"dtype": "C64"},
        {"shape": [*old["shape"], 1]}, {"shape": [1, *old["shape"]]}, {"shape": [*old["shape"][::-1], 1]},
        {"shape": [10**12, 10**12]}, {"shape": [2**62, 4]}, {"shape": [0, 10**18]}, {"shape": [1] * 99},
        {"data_offsets": [start + 4, end + 4]}, {"data_offsets": [end, start]}, {"data_offsets": [start, end, end]},
        {"data_offsets": [start, 10**15]}, {"data_offsets": file.header[second]["data_offsets"]}, {"more": 1},
    ):  # fmt: skip
        refused(file.with_header(json.dumps({**file.header, first: {**old, **change}})), *MODEL)
    renamed = {("other" if k == first else k): v for k, v in file.header.items()}
    refused(file.with_header(json.dumps(renamed)), *MODEL)
    refused(file.with_header(json.dumps({**renamed, "\x1b[2J": renamed.pop("other")})), *MODEL)
    refused(file.with_header(json.dumps(file.header)[:-1] + f', "{first}": {json.dumps(old)}}}'), *MODEL)
    refused(file.with_header(json.dumps(file.header).encode("utf-16")), *MODEL)
    refused(file.with_header(json.dumps(file.header).encode().replace(b"kind", b"k\xffnd")), *MODEL)


@pytest.mark.slow
def test_wherever_a_model_file_is_named(refused: Callable[..., None]) -> None:
    file = Forged(WEIGHTS / "fe-nbp-mar.safetensors")
    train = ("train", "fe-nbp", "--data", "ising(3x3, n=4)", "-o", "new.safetensors", "--epochs", "1")
    cards = [card for field, text, card in forged_cards(file) if text in ("[1, 2]", "1" + "0" * 12)]
    for card in cards:
        for args in (
            ("solve", "m.uai", "--solver", "f.safetensors"),
            ("solve", "m.uai", "--solver", "fe-nbp(weights=f.safetensors)"),
            (*train, "--start", "f.safetensors"),
        ):
            refused(file.with_card(card), *args, statuses=(0, 2, 3))  # 2: it is right, but of another task or size


@pytest.mark.slow
def test_forged_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    start = [
        "train",
        "fe-nbp",
        "--data",
        "ising(3x3, n=6)",
        "--epochs",
        "1",
        "--set",
        "hidden=4",
        "-o",
        "a.safetensors",
    ]
    assert main(start) == 0
    good = torch.load("a.checkpoint", weights_only=True)
    progress = json.loads(good["progress"])
    forged: list[Any] = [3, [], {}, {"progress": "{}"}]
    forged += [{**good, name: value} for name in good for value in (None, 5, "x", [], {}, {"state": 1}, DEEP)]
    forged += [{k: v for k, v in good.items() if k != name} for name in good]
    for name in progress:
        for value in (None, -1, "x", [1], {"a": 1}, [{}], [{"epoch": 0}]):
            forged.append({**good, "progress": json.dumps({**progress, name: value})})
    moments = {n: {**m, "exp_avg": torch.zeros(3)} for n, m in good["optimizer"]["state"].items()}
    forged.append({**good, "optimizer": {**good["optimizer"], "state": moments}})
    capsys.readouterr()
    for wrong in forged:
        torch.save(wrong, "a.checkpoint")
        status = main([*start[:-4], "--set", "hidden=4", "-o", "a.safetensors", "--resume"])
        said = capsys.readouterr().err
        # An empty list of scores, or of moments before the first step, is what a run may have written.
        assert (status, "not a readable checkpoint" in said) in ((3, True), (0, False)), (wrong, said)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return data with some bytes changed, most of them in the header, and sometimes truncated or repeated."""
    out = bytearray(data)
    header = 8 + int.from_bytes(data[:8], "little")
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(header if rng.random() < 0.9 else len(out))
        out[place] = rng.choice((rng.randrange(256), ord(rng.choice('0123456789[]{}",:-.eE \\u'))))
    if rng.random() < 0.1:
        del out[rng.randrange(len(out)) :]
    return bytes(out)


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.slow)])
def test_mutated_files(count: int, refused: Callable[..., None]) -> None:
    rng = random.Random(1)
    files = [(WEIGHTS / name).read_bytes() for name in SHIPPED]
    for n in range(count):
        solve = ("solve", "m.uai", "--solver", "f.safetensors", "--time-limit", "1")
        refused(mutated(files[n % len(files)], rng), *(MODEL if n % 4 else solve), statuses=(0, 2, 3))


def test_json_is_read_strictly() -> None:
    assert parse_object('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    for text, words in (("[1]", "expected a JSON object"), ('{"a": 1, "a": 2}', "key a occurs twice"), ("{", "JSON")):
        with pytest.raises(ValueError, match=words):
            parse_object(text)
