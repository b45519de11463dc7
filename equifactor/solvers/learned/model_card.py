"""What a model file says about itself: its card, read without torch and without the weights.

A model file is a safetensors file: 8 bytes with the length of the header, the header as JSON, the weights. The card is
one JSON text in the header's `__metadata__`, under the key `equifactor`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from equifactor._version import __version__
from equifactor.errors import FormatError
from equifactor.io.files import PathLike, reason
from equifactor.io.sources import open_source
from equifactor.registry import is_solver
from equifactor.result import Task

if TYPE_CHECKING:
    from equifactor.solvers.learned.network import Network

FORMAT = 1  # The version of the card; a reader refuses newer ones.
KEY = "equifactor"
_MAX_HEADER = 10**8  # The largest header in bytes, which is the limit of safetensors itself.


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
            given = json.loads(text)
            number, version = given.pop("format"), given.get("version")
            if number > FORMAT:
                raise FormatError(
                    f"{where}: was written by equifactor {version} (model format {number}); this is {__version__}, "
                    f"which reads format {FORMAT}: install a newer equifactor"
                )
            card = cls(**{**given, "task": Task(given["task"])})
            sound = isinstance(card.kind, str) and isinstance(card.settings, dict) and isinstance(card.metrics, dict)
        except (ValueError, TypeError, KeyError, AttributeError):
            sound = False
        if not sound:
            raise FormatError(f"{where}: is a model file whose card is damaged; train the model again")
        return card


def read_card(path: PathLike) -> ModelCard:
    """The card of a model file; raises `FormatError` with one sentence for a missing, foreign or truncated file."""
    where = os.fspath(path)
    try:
        with open_source(path, where) as file:
            header = _header(file, where)
    except OSError as error:
        raise FormatError(f"{where}: cannot read it: {reason(error)}") from None
    metadata = header.get("__metadata__")
    text = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
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


def _header(file: BinaryIO, where: str) -> dict[str, Any]:
    """The header of a file that is whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    start = file.read(min(length, _MAX_HEADER)) if 2 <= length <= _MAX_HEADER else b""
    if size < 8 or not start.startswith(b"{"):
        raise FormatError(f"{where}: is not a model file; expected the safetensors format, as equifactor train writes")
    if len(start) < length:
        raise FormatError(f"{where}: is truncated: it has {size:,} bytes and its header alone {length + 8:,}")
    try:
        header = json.loads(start)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        whole = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise FormatError(f"{where}: is not a model file: its safetensors header is damaged") from None
    if size != whole:
        what = "is truncated" if size < whole else "has data after its end"
        raise FormatError(f"{where}: {what}: it has {size:,} bytes where its header says {whole:,}")
    return dict(header)
