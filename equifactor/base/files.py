"""Reading and writing files: `-` is stdin or stdout, `.gz` and `.xz` are transparent, writing is all or nothing.

Everything that can go wrong with a file itself (missing, a directory, broken compression, a full disk)
becomes one `FormatError` sentence here, so that the format modules deal with content only.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

from equifactor.base.errors import FormatError
from equifactor.base.sources import file_limit, gibibytes, open_source

PathLike: TypeAlias = str | os.PathLike[str]

CHUNK = 2**20  # bytes of text that are handed out at a time
_PIECE = 2**17  # bytes that are compressed at a time, 0.1 s for xz: Ctrl-C and alarms are seen between two pieces
COMPRESSIONS = (".gz", ".xz")
_MAX_RATIO = 200  # the most that a file may grow when it is unpacked; model files compress 3 to 40 times
_DAMAGED = ("LZMAError", "error", "BadGzipFile")  # errors of lzma, zlib and gzip, which are imported only when needed
_SMALL = 2**26  # text below 64 MiB is harmless whatever its ratio
_PACKED = "; unpack it first (.gz and .xz are read directly)"
_FOREIGN = {
    b"PK\x03\x04": "a zip archive" + _PACKED,
    b"BZh": "a bzip2 file" + _PACKED,
    b"\x28\xb5\x2f\xfd": "a zstandard file" + _PACKED,
    codecs.BOM_UTF16_LE: "UTF-16 text; save it as UTF-8 or plain ASCII",
    codecs.BOM_UTF16_BE: "UTF-16 text; save it as UTF-8 or plain ASCII",
}


def label(path: PathLike) -> str:
    """The path as messages show it."""
    return "<stdin>" if os.fspath(path) == "-" else os.fspath(path)


def split_name(path: PathLike) -> tuple[str | None, str]:
    """The stem and the suffix in lower case, compression left out: `a/grid.uai.gz` gives `("grid", ".uai")`.

    The stem of `-` is None; a file without a suffix has the suffix `""`.
    """
    if os.fspath(path) == "-":
        return None, ""
    name = Path(path).name
    for compression in COMPRESSIONS:
        if name.lower().endswith(compression) and len(name) > len(compression):
            name = name[: -len(compression)]
    suffix = Path(name).suffix
    return name.removesuffix(suffix) or name, suffix.lower()


# ---- reading --------------------------------------------------------------------------------------------


def read_bytes(path: PathLike) -> bytes:
    """The whole text of a file, decompressed, without the mark that some editors put before UTF-8."""
    return b"".join(read_chunks(path, size=2**24)).removeprefix(codecs.BOM_UTF8)


def read_chunks(path: PathLike, size: int = CHUNK) -> Iterator[bytes]:
    """The text of a file, decompressed, in pieces of at most `size` bytes."""
    where = label(path)
    try:
        with open_source(path, where) as raw:
            head = raw.read(6)
            raw.seek(0)
            yield from _limited(_decompressor(raw, head, where), raw, size, where)
    except FormatError:
        raise
    except EOFError:
        raise FormatError(f"{where}: the compressed data end too early; the file is truncated") from None
    except MemoryError:
        raise FormatError(f"{where}: the file does not fit in memory") from None
    except Exception as error:
        if isinstance(error, OSError) and type(error).__name__ not in _DAMAGED:
            raise FormatError(f"{where}: cannot read it: {reason(error)}") from None
        if type(error).__name__ not in _DAMAGED:
            raise
        raise FormatError(f"{where}: the compressed data are damaged ({error})") from None


def _decompressor(raw: BinaryIO, head: bytes, where: str) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMAFile(raw, mode="rb")
    for magic, kind in _FOREIGN.items():
        if head.startswith(magic):
            raise FormatError(f"{where}: is {kind}")
    return raw


def _limited(text: IO[bytes], raw: BinaryIO, size: int, where: str) -> Iterator[bytes]:
    """Yield chunks of `text`; refuse a small file that unpacks without end, and what no memory can hold."""
    total, limit = 0, file_limit()
    while chunk := text.read(size):
        total += len(chunk)
        if total > limit:
            raise FormatError(f"{where}: has more than {gibibytes(limit)} of text, half of the memory of this machine")
        if text is not raw and total > _SMALL and total > _MAX_RATIO * raw.tell():
            raise FormatError(
                f"{where}: unpacks to more than {_MAX_RATIO} times its size; unpack it first if that is meant"
            )
        yield chunk


# ---- writing --------------------------------------------------------------------------------------------


def write_text(path: PathLike, chunks: str | Iterable[str]) -> None:
    """Write text to a file all at once or not at all; `-` is stdout, `.gz` and `.xz` compress.

    The text goes to a temporary file in the same folder that replaces the target at the end, so that on any
    failure (of the disk, or of whoever produces the chunks) an existing file stays as it was. Symbolic links
    are followed, the mode of an existing file is kept; pipes and devices are written directly.
    """
    chunks = (chunks,) if isinstance(chunks, str) else chunks
    if os.fspath(path) == "-":
        _write_stdout(chunks)
    else:
        write_bytes(path, (chunk.encode("utf-8") for chunk in chunks))


def write_bytes(path: PathLike, chunks: bytes | Iterable[bytes]) -> None:
    """Write bytes to a file as `write_text` writes text: all at once or not at all, compressed by suffix."""
    chunks = (chunks,) if isinstance(chunks, bytes) else chunks
    check_writable(path)
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with target.open("wb") as handle:
                _write_all(handle, chunks, target.suffix)
        else:
            _write_atomically(target, chunks, mode)
    except OSError as error:
        raise FormatError(f"{os.fspath(path)}: cannot write it: {reason(error)}") from None


def make_folder(path: PathLike) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{os.fspath(path)}: cannot make this folder: {reason(error)}") from None


def check_writable(path: PathLike) -> None:
    """Refuse a target that cannot be written; called before the work for it rather than after."""
    if os.fspath(path) == "-":
        return
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            why = "it is a directory"
        elif not target.parent.is_dir():
            why = f"there is no folder {target.parent}"
        elif target.exists():
            # Root may write anything, but a file without any write permission is meant to stay as it is.
            closed = not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK)
            why = "the existing file is read-only" if closed else ""
        else:
            why = "" if os.access(target.parent, os.W_OK) else "permission denied"
    except (OSError, ValueError) as error:  # a name that is too long, or holds a null byte
        why = reason(error) if isinstance(error, OSError) else str(error)
    if why:
        raise FormatError(f"{os.fspath(path)}: cannot write it: {why}")


def _write_atomically(target: Path, chunks: Iterable[bytes], mode: int | None) -> None:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        # os.open with 0o666 lets the umask decide, as for any new file; mkstemp would always give 0o600.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as handle:
            if mode is not None:
                temporary.chmod(stat.S_IMODE(mode))
            _write_all(handle, chunks, target.suffix)
        temporary.replace(target)
    except BaseException:
        try:
            _remove(temporary)
        finally:
            _remove(temporary)  # where a second Ctrl-C cut off the first attempt
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _write_all(raw: BinaryIO, chunks: Iterable[bytes], suffix: str) -> None:
    # Compressors rather than compressed files: closing such a file would compress what is left, for seconds, also after
    # Ctrl-C, an alarm or an error, when nobody wants it any more.
    packer = _compressor(suffix.lower())
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            piece = chunk if len(chunk) <= _PIECE else chunk[start : start + _PIECE]
            raw.write(packer.compress(piece) if packer else piece)
    if packer:
        raw.write(packer.flush())


def _compressor(suffix: str) -> Any:
    """The compressor that belongs to a suffix, or None; the same text always gives the same bytes."""
    if suffix == ".gz":
        import zlib

        return zlib.compressobj(level=6, wbits=zlib.MAX_WBITS | 16)  # with the header of gzip, without name and time
    if suffix == ".xz":
        import lzma

        return lzma.LZMACompressor()
    return None


def _write_stdout(chunks: Iterable[str]) -> None:
    try:
        for chunk in chunks:
            sys.stdout.write(chunk)
        sys.stdout.flush()  # a full disk or a closed pipe shows here, not at exit
    except OSError as error:
        raise FormatError(f"<stdout>: cannot write it: {reason(error)}") from None


def reason(error: OSError) -> str:
    """Why a file could not be read or written, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if isinstance(error, PermissionError):
        return "permission denied"
    return (error.strerror or str(error) or type(error).__name__).lower()
