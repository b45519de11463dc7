"""What a model file says about itself: its card, read without torch and without the weights.

The card is one JSON text in the metadata of a safetensors file, under the key `equifactor`. Whatever it says is checked
here, field by field, before anything is made of it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor._version import __version__
from equifactor.base.errors import FormatError
from equifactor.base.files import PathLike
from equifactor.base.status import Task
from equifactor.solvers.learned.model_header import parse_object, read_header, shown
from equifactor.solving.registry import is_solver

if TYPE_CHECKING:
    from equifactor.solvers.learned.network import Network

FORMAT = 1  # The version of the card; a reader refuses newer ones.
KEY = "equifactor"
WEIGHTS = Path(__file__).parent / "weights"  # The trained models that come with the package are in this folder.


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Kind, settings and history of a trained network."""

    kind: str  # The name of its solver, such as fe-nbp.
    settings: dict[str, Any]  # The settings of the network, by name.
    task: Task  # MAR (also used for PR) or MAP.
    parameters: int  # How many numbers were learned.
    data: str = ""  # What it was trained on, as given to `train`.
    metrics: dict[str, float | None] = field(default_factory=dict)
    seed: int | None = None
    updates: int | None = None  # How many gradient steps were taken.
    version: str = __version__

    @classmethod
    def of(cls, network: Network, task: Task | str, **history: Any) -> ModelCard:
        """The card of a network; `history` holds the fields data, metrics, seed and updates."""
        return cls(
            kind=network.kind,
            settings=dataclasses.asdict(network.config),
            task=Task(task),
            parameters=sum(p.numel() for p in network.parameters()),
            **history,
        )

    def to_json(self) -> str:
        """The card as one line; numbers that are not finite become null."""
        metrics = {k: v if v is not None and math.isfinite(v) else None for k, v in self.metrics.items()}
        return json.dumps({"format": FORMAT, **vars(self), "metrics": metrics}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, where: str) -> ModelCard:
        """The inverse of `to_json`; raises `FormatError` with one sentence for a card that cannot be read."""
        try:
            given = parse_object(text)
            number = given.pop("format", None)
            if isinstance(number, int) and number > FORMAT:
                raise FormatError(
                    f"{where}: was written by equifactor {shown(given.get('version'))} (model format "
                    f"{shown(number)}); this is {__version__}, which reads format {FORMAT}: install a newer equifactor"
                )
            if type(number) is not int or number < 1:
                raise ValueError(f"format must be a whole number of at least 1, found {shown(number)}")
            if given.get("task") == "DECODE":
                raise FormatError(
                    f"{where}: holds weights for decoding. Use them by the decoding method {given.get('kind')}"
                    f"(weights={where})."
                )
            _check_fields(cls, given)
        except ValueError as error:
            raise FormatError(
                f"{where}: is a model file whose card is damaged: {error}; train the model again"
            ) from None
        return cls(**{**given, "task": Task(given["task"])})


def _check_fields(cls: type[ModelCard], given: dict[str, Any]) -> None:
    """Raise `ValueError` for the first field of a card that is missing, unknown or not what it should be."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in given:
        if name not in fields:
            raise ValueError(f"there is no field {shown(name)}")
    for name, known in fields.items():
        if name not in given:
            if known.default is dataclasses.MISSING and known.default_factory is dataclasses.MISSING:
                raise ValueError(f"{name} is missing")
            continue
        wanted, fits = _FIELDS[name]
        if not fits(given[name]):
            raise ValueError(f"{name} must be {wanted}, found {shown(given[name])}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable()


def _is_number(value: Any) -> bool:
    """A number that a float can hold; true and false are none."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, (bool, str, int)) or _is_number(value)


# What each field of a card must be, in words and as a check.
_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "kind": ("a word", _is_word),
    "settings": (
        "one word, number, true or false for each setting",
        lambda v: isinstance(v, dict) and all(_is_word(k) and _is_setting(x) for k, x in v.items()),
    ),
    "task": ("MAR or MAP", lambda v: v in ("MAR", "MAP")),
    "parameters": ("a whole number of at least 0", _is_count),
    "data": ("text", lambda v: isinstance(v, str)),
    "metrics": (
        "a number or null for each measure",
        lambda v: isinstance(v, dict) and all(_is_word(k) and (x is None or _is_number(x)) for k, x in v.items()),
    ),
    "seed": ("a whole number or null", lambda v: v is None or type(v) is int),
    "updates": ("a whole number of at least 0, or null", lambda v: v is None or _is_count(v)),
    "version": ("a word", _is_word),
}


def read_card(path: PathLike) -> ModelCard:
    """The card of a model file; raises `FormatError` with one sentence for a missing, foreign or truncated file."""
    where = os.fspath(path)
    header = read_header(path)
    text = header.metadata.get(KEY)
    if text is None:
        raise FormatError(
            f"{where}: is a safetensors file of another program; expected one that equifactor train wrote"
        )
    return ModelCard.from_json(text, where)


def card_of_file(path: PathLike) -> ModelCard:
    """The same as `read_card`, but a file that did not change since is not read again."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path of any kind
    except (OSError, ValueError):
        return read_card(path)  # It says what is wrong.
    return _read_once(os.fspath(path), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read_once(path: str, changed: int, size: int) -> ModelCard:
    return read_card(path)


def model_kind(path: str) -> str:
    """The name of the solver that runs a model file."""
    card = card_of_file(path)
    if not is_solver(card.kind):
        raise FormatError(
            f"{path}: holds a model of the kind {card.kind!r}, made by equifactor {card.version}, which version "
            f"{__version__} does not have; where it is a network of your own, name its file with --plugin"
        )
    return card.kind
