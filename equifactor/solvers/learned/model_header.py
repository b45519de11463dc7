"""The header of a safetensors file: which tensors it declares, checked against the size of the file.

A safetensors file is 8 bytes with the length of the header, the header as JSON, and the tensors. No memory is allocated
for a stated size before that size is checked.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import PathLike, reason
from equifactor.base.sources import open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_HEADER = 10**8  # The largest header in bytes. This is the limit of the safetensors package.
# Bytes per number of each type of the safetensors format.
_BYTES_OF = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8,
}  # fmt: skip
_FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


@dataclass(frozen=True)
class Header:
    """The contents of a safetensors header: texts, and the type and shape of each tensor."""

    metadata: dict[str, str]
    tensors: dict[str, tuple[str, tuple[int, ...]]]
    places: dict[str, tuple[int, int]]  # The first byte of each tensor in the file, and the byte after its last.


def read_header(path: PathLike) -> Header:
    """Read the header of a complete file; raise `FormatError` for any other file."""
    where = os.fspath(path)
    try:
        with open_source(path, where) as file:
            return _read(file, where)
    except OSError as error:
        raise FormatError(f"{where}: the file cannot be read: {reason(error)}") from None


def read_tensors(path: PathLike, header: Header) -> dict[str, NDArray[np.float32]]:
    """Return the floating-point tensors of a file in single precision, by name."""
    where = os.fspath(path)
    try:
        with open_source(path, where) as file:
            content = file.read()
    except OSError as error:
        raise FormatError(f"{where}: the file cannot be read: {reason(error)}") from None
    found = {}
    for name, (dtype, shape) in header.tensors.items():
        start, end = header.places[name]
        if dtype == "BF16":  # The upper half of the bits of a single-precision number.
            bits = np.frombuffer(content[start:end], "<u2").astype(np.uint32) << 16
            found[name] = bits.view(np.float32).reshape(shape)
        elif dtype in _FLOATS:
            found[name] = np.frombuffer(content[start:end], _FLOATS[dtype]).astype(np.float32).reshape(shape)
    return found


def parse_object(text: str) -> dict[str, Any]:
    """Read a JSON object; raise `ValueError` for any other JSON value, a repeated key or very deep nesting."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
            raise ValueError(f"the key {shown(twice)} occurs twice")
        return found

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a valid number in JSON")

    try:
        found = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {shown(found)}")
    return found


def shown(value: Any) -> str:
    """Return a value of an untrusted file as error messages show it: short, and without control characters."""
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(file: BinaryIO, where: str) -> Header:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    text = file.read(length) if 2 <= length <= min(_MAX_HEADER, size - 8) else b""
    start = text[:1] or (file.read(1) if 2 <= length <= _MAX_HEADER else b"")
    if size < 8 or start != b"{":
        raise FormatError(
            f"{where}: this is not a model file. Expected the safetensors format that equifactor train writes."
        )
    if not text:
        raise FormatError(
            f"{where}: the file is truncated. It has {size:,} bytes, and its header alone needs {length + 8:,}."
        )
    try:
        given = parse_object(text.decode("utf-8"))
        metadata = given.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise ValueError("its metadata is not text")
        ends = {name: _end(name, entry) for name, entry in given.items()}
        _check_gaps([entry["data_offsets"] for entry in given.values()])
    except ValueError as error:  # This includes text that is not UTF-8.
        raise FormatError(f"{where}: this is not a model file: its safetensors header is damaged: {error}") from None
    whole = 8 + length + max(ends.values(), default=0)
    if size != whole:
        what = "is truncated" if size < whole else "has data after its end"
        raise FormatError(f"{where}: the file {what}. It has {size:,} bytes, and its header states {whole:,}.")
    return Header(
        metadata,
        {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in given.items()},
        {name: (8 + length + entry["data_offsets"][0], 8 + length + ends[name]) for name, entry in given.items()},
    )


def _end(name: str, entry: Any) -> int:
    """Return the end of a tensor, in bytes after the header; raise `ValueError` if its entry is invalid."""
    where = f"tensor {shown(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where} must have dtype, shape and data_offsets, found {shown(entry)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES_OF:
        raise ValueError(f"{where} has the type {shown(dtype)}, expected one of {', '.join(_BYTES_OF)}")
    if not _are_counts(shape) or len(shape) > 8:
        raise ValueError(f"{where} has the shape {shown(shape)}, expected a few whole numbers")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{where} has the offsets {shown(offsets)}, expected two whole numbers")
    needed = math.prod(shape) * _BYTES_OF[dtype]
    if offsets[1] - offsets[0] != needed:
        raise ValueError(f"{where} needs {needed:,} bytes, but its offsets leave {offsets[1] - offsets[0]:,}")
    return int(offsets[1])


def _check_gaps(offsets: list[list[int]]) -> None:
    """Raise `ValueError` unless each tensor begins where the one before it ends."""
    place = 0
    for start, end in sorted(offsets):
        if start != place:
            raise ValueError(f"a tensor begins at byte {start:,}, but the one before it ends at byte {place:,}")
        place = end


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)
