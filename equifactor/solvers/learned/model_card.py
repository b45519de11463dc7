"""The card of a model file, which describes the network. It is read without torch and without the weights.

The card is one JSON text in the metadata of a safetensors file, under the key `equifactor`. Every field is checked here
before it is used.
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
from equifactor.base.argument_types import checks_types, read_task
from equifactor.base.errors import FormatError
from equifactor.base.files import PathLike
from equifactor.base.status import Task
from equifactor.solvers.learned.model_header import parse_object, read_header, shown
from equifactor.solving.registry import is_solver

if TYPE_CHECKING:
    from equifactor.solvers.learned.network import Network

FORMAT = 1  # The version of the card format. Cards of a newer version raise an error.
KEY = "equifactor"  # The key of the card in the metadata of a safetensors file.
WEIGHTS = Path(__file__).parent / "weights"  # The folder of the trained models that come with the package.


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The kind, settings and history of a trained network."""

    kind: str  # The name of its solver, such as fe-nbp.
    settings: dict[str, Any]  # The settings of the network, by name.
    task: Task  # MAR (also used for PR) or MAP.
    parameters: int  # The number of learned weights.
    data: str = ""  # What it was trained on, as given to `train`.
    start: str = ""  # The weights that training started from; empty for random weights.
    metrics: dict[str, float | None] = field(default_factory=dict)
    seed: int | None = None
    updates: int | None = None  # The number of gradient steps.
    version: str = __version__

    @classmethod
    @checks_types("network")
    def of(cls, network: Network, task: Task | str, **history: Any) -> ModelCard:
        """Return the card of a network; `history` holds the fields data, start, metrics, seed and updates."""
        return cls(
            kind=network.kind,
            settings=dataclasses.asdict(network.config),
            task=read_task(task),
            parameters=sum(p.numel() for p in network.parameters()),
            **history,
        )

    def to_json(self) -> str:
        """Return the card as one line; numbers that are not finite become null."""
        metrics = {k: v if v is not None and math.isfinite(v) else None for k, v in self.metrics.items()}
        given = {"format": FORMAT, **vars(self), "metrics": metrics}
        if not self.start:  # Version 0.1 cannot read a card with this field.
            del given["start"]
        return json.dumps(given, allow_nan=False)

    @classmethod
    @checks_types("text", "where")
    def from_json(cls, text: str, where: str) -> ModelCard:
        """Read what `to_json` wrote; raise `FormatError` for a card that cannot be read."""
        try:
            given = parse_object(text)
            number = given.pop("format", None)
            if isinstance(number, int) and number > FORMAT:
                raise FormatError(
                    f"{where}: equifactor {shown(given.get('version'))} wrote this file in model format "
                    f"{shown(number)}. This is equifactor {__version__}, which reads format {FORMAT}. Install a newer "
                    "equifactor."
                )
            if type(number) is not int or number < 1:
                raise ValueError(f"format must be a whole number of at least 1, found {shown(number)}")
            if given.get("task") == "DECODE":
                raise FormatError(
                    f"{where}: this file holds weights for decoding. Use them with the decoding method "
                    f"{shown(given.get('kind'))}(weights={where})."
                )
            _check_fields(cls, given)
        except ValueError as error:
            raise FormatError(
                f"{where}: the card of this model file is damaged: {error}. Train the model again."
            ) from None
        return cls(**{**given, "task": Task(given["task"])})


def _check_fields(cls: type[ModelCard], given: dict[str, Any]) -> None:
    """Raise `ValueError` for the first field of a card that is missing, unknown or invalid."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in given:
        if name not in fields:
            raise ValueError(f"the field {shown(name)} is unknown")
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
    """Return whether the value is a number that a float can hold; true and false are not numbers."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, (bool, str, int)) or _is_number(value)


# For each field of a card: what it must be, in words and as a check.
_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "kind": ("a word", _is_word),
    "settings": (
        "one word, number, true or false for each setting",
        lambda v: isinstance(v, dict) and all(_is_word(k) and _is_setting(x) for k, x in v.items()),
    ),
    "task": ("MAR or MAP", lambda v: v in ("MAR", "MAP")),
    "parameters": ("a whole number of at least 0", _is_count),
    "data": ("text", lambda v: isinstance(v, str)),
    "start": ("text", lambda v: isinstance(v, str)),
    "metrics": (
        "a number or null for each measure",
        lambda v: isinstance(v, dict) and all(_is_word(k) and (x is None or _is_number(x)) for k, x in v.items()),
    ),
    "seed": ("a whole number or null", lambda v: v is None or type(v) is int),
    "updates": ("a whole number of at least 0, or null", lambda v: v is None or _is_count(v)),
    "version": ("a word", _is_word),
}


@checks_types("path")
def read_card(path: PathLike) -> ModelCard:
    """Read the card of a model file; raise `FormatError` for a missing or truncated file, or a file of another kind."""
    where = os.fspath(path)
    header = read_header(path)
    text = header.metadata.get(KEY)
    if text is None:
        raise FormatError(
            f"{where}: this safetensors file was written by another program. Expected a file written by equifactor "
            "train."
        )
    return ModelCard.from_json(text, where)


def card_of_file(path: PathLike) -> ModelCard:
    """Return the same as `read_card`, without reading again a file that has not changed."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path of any kind
    except (OSError, ValueError):
        return read_card(path)  # This raises the error.
    return _read_once(os.fspath(path), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read_once(path: str, changed: int, size: int) -> ModelCard:
    return read_card(path)


def model_kind(path: str) -> str:
    """Return the name of the solver that runs a model file."""
    card = card_of_file(path)
    if not is_solver(card.kind):
        raise FormatError(
            f"{path}: the file holds a model of the kind {card.kind!r}, made by equifactor {card.version}. Version "
            f"{__version__} does not have this kind. If it is your own network, pass its Python file with --plugin."
        )
    return card.kind
