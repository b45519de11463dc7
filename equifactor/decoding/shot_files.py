"""Files of shots in formats of Stim: `01` (a line of digits per shot), `b8` (packed bits, little bit order) and `dets`.

A line of `dets` is `shot D1 D5 L0`. These files are read and not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.files import COMPRESSIONS, label, read_chunks, split_name
from equifactor.base.sources import open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.files import PathLike
    from equifactor.base.typing import BoolArray

SHOT_FORMATS = ("01", "b8")  # read and written
READ_ONLY = ("dets",)


def shot_format(path: PathLike, given: str | None, reads: bool = False) -> str:
    """Return the given format, or the format that the suffix of a file names."""
    name = given or split_name(path)[1].lstrip(".")
    known = (*SHOT_FORMATS, *READ_ONLY) if reads else SHOT_FORMATS
    if name not in known:
        where = label(path)
        raise OptionError(
            f"{where}: the format must be {' or '.join(known)}, found {brief(name) if name else 'no suffix'}. Give the "
            f"file such a suffix, or pass --{'in' if reads else 'out'}-format."
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
    if format == "dets":
        return _read_events(content, width, where)
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


def _read_events(content: bytes, width: int, where: str) -> NDArray[np.uint8]:
    """Read packed shots [N, ceil(width/8)] from lines such as `shot D1 D5 L0`. Flips of observables are left out."""
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        words = line.split()
        if not words:
            continue
        bits = np.zeros(width, bool)
        for word in words[1:]:
            digits = word[1:]
            known = word[:1] in (b"D", b"L") and digits.isdigit() and len(digits) < 19
            if not known or (word[:1] == b"D" and int(digits) >= width):
                found = brief(word.decode("latin-1"))
                raise FormatError(f"{where}:{number}: expected detectors from D0 to D{width - 1}, found {found}.")
            if word[:1] == b"D":
                bits[int(digits)] ^= True
        if words[0] != b"shot":
            found = brief(line.decode("latin-1"))
            raise FormatError(f"{where}:{number}: expected a line such as shot D1 D5 L0, found {found}.")
        rows.append(np.packbits(bits, bitorder="little"))
    return np.array(rows, np.uint8).reshape(len(rows), -(-width // 8))


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
