"""Files of shots in two formats of Stim: `01` (a line of digits per shot) and `b8` (packed bits, little bit order)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import COMPRESSIONS, label, read_chunks, split_name
from equifactor.base.sources import open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.files import PathLike
    from equifactor.base.typing import BoolArray

SHOT_FORMATS = ("01", "b8")


def shot_format(path: PathLike, given: str | None) -> str:
    """Return the given format, or the format that the suffix of a file names."""
    name = given or split_name(path)[1].lstrip(".")
    if name not in SHOT_FORMATS:
        where = label(path)
        raise OptionError(
            f"{where}: the format of shots must be {' or '.join(SHOT_FORMATS)}. Name the format, or give the file its "
            "suffix."
        )
    return name


def read_shots(path: PathLike, width: int, format: str) -> NDArray[np.uint8]:
    """Read packed shots [N, ceil(width/8)] from a file; `-` is stdin."""
    where = label(path)
    content = _content(path, where)
    size = -(-width // 8)
    if format == "b8":
        if not size or len(content) % size:
            raise FormatError(
                f"{where}: a shot of {width} bits takes {size} bytes, and the file has {len(content)} bytes, which is "
                "not a whole number of shots."
            )
        packed = np.frombuffer(content, np.uint8).reshape(-1, size)
        beyond = packed[:, -1] >> (width - 8 * (size - 1)) if width % 8 else np.zeros(0, np.uint8)
        if beyond.any():
            raise FormatError(
                f"{where}: shot {int(np.argmax(beyond > 0))} has a bit set beyond its {width} bits. The file belongs "
                "to another code, or its shots hold more than detectors."
            )
        return packed
    lines = np.frombuffer(content.replace(b"\r", b"").strip(b"\n"), np.uint8)
    if not len(lines):
        return np.zeros((0, size), np.uint8)
    rows = np.append(lines, ord("\n"))
    if len(rows) % (width + 1) or (rows.reshape(-1, width + 1)[:, -1] != ord("\n")).any():
        raise FormatError(f"{where}: expected a line of {width} digits 0 and 1 for each shot.")
    digits = rows.reshape(-1, width + 1)[:, :-1] - ord("0")
    wrong = digits > 1
    if wrong.any():
        line = int(np.argmax(wrong.any(axis=1)))
        found = chr(rows.reshape(-1, width + 1)[:, :-1][wrong][0])
        raise FormatError(f"{where}:{line + 1}: expected the digits 0 and 1, found {found!r}.")
    return np.packbits(digits, axis=1, bitorder="little")


def format_shots(bits: BoolArray, format: str) -> bytes:
    """Return bits [N, width] as the content of a file."""
    if format == "b8":
        return np.packbits(bits, axis=1, bitorder="little").tobytes()
    text = np.full((bits.shape[0], bits.shape[1] + 1), ord("\n"), np.uint8)
    text[:, :-1] = bits + np.uint8(ord("0"))
    return text.tobytes()


def _content(path: PathLike, where: str) -> bytes:
    """Read all bytes. Only the name of a file tells whether it is compressed, because any bytes may be shots."""
    if str(path).lower().endswith(COMPRESSIONS):
        return b"".join(read_chunks(path, 2**24))
    try:
        with open_source(path, where) as raw:
            return raw.read()
    except OSError as error:
        raise FormatError(f"{where}: the file cannot be read: {error.strerror}.") from None
