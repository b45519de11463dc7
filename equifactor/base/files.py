"""Reading and writing files. `-` is stdin or stdout, `.gz` and `.xz` files are (de)compressed, and writes are atomic.

Everything that can go wrong with the file itself becomes a `FormatError` here: it is missing or a directory, its
compression is damaged, the disk is full. So the format modules deal with content only.
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

from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.read_limits import limit_text, unchecked_text
from equifactor.base.sources import file_limit, gibibytes, open_source

PathLike: TypeAlias = str | os.PathLike[str]

CHUNK = 2**20  # Bytes of text that `read_chunks` yields at a time: 1 MiB.
# Bytes compressed at a time: xz needs 0.1 s for them, and Ctrl-C and alarms are handled between two pieces.
_COMPRESSED_AT_ONCE = 2**17
_MAX_PATH = 1_000  # Characters of a path that messages show at most. Chosen by hand.
COMPRESSIONS = (".gz", ".xz")
# How many times larger than its file a decompressed text may be. Model files are compressed 3 to 40 times.
_MAX_RATIO = 200
# Names of the errors that lzma, zlib and gzip raise for damaged data; these modules are imported only when needed.
_DECOMPRESSION_ERRORS = ("LZMAError", "error", "BadGzipFile")
_DECOMPRESS_FIRST = "Decompress it first; .gz and .xz files are read directly."
_SAVE_AS_UTF8 = "Save it as UTF-8 or plain ASCII."
# The first bytes of files that cannot be read: what the file is, and what to do.
_UNREADABLE = {
    b"PK\x03\x04": ("a zip archive", _DECOMPRESS_FIRST),
    b"BZh": ("a bzip2 file", _DECOMPRESS_FIRST),
    b"\x28\xb5\x2f\xfd": ("a zstandard file", _DECOMPRESS_FIRST),
    codecs.BOM_UTF16_LE: ("UTF-16 text", _SAVE_AS_UTF8),
    codecs.BOM_UTF16_BE: ("UTF-16 text", _SAVE_AS_UTF8),
}


def label(path: PathLike) -> str:
    """Return the path as messages show it; only the end of a path that is too long for any file system."""
    if not isinstance(path, (str, os.PathLike)):
        raise OptionError(f"Expected the path of a file, found {brief(path)}.")
    name = os.fspath(path)
    return "<stdin>" if name == "-" else name if len(name) <= _MAX_PATH else f"..{name[-_MAX_PATH:]}"


def split_name(path: PathLike) -> tuple[str | None, str]:
    """Return the stem and the lower-case suffix without compression: `a/grid.uai.gz` gives `("grid", ".uai")`.

    The stem of `-` is None. A file without a suffix has the suffix `""`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise OptionError(f"Expected the path of a file, found {brief(path)}.")
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
    """Return the whole text of a file, decompressed and without a UTF-8 byte order mark."""
    return b"".join(read_chunks(path, size=2**24)).removeprefix(codecs.BOM_UTF8)


def read_chunks(path: PathLike, size: int = CHUNK) -> Iterator[bytes]:
    """Yield the decompressed text of a file in pieces of at most `size` bytes."""
    where = label(path)
    try:
        with open_source(path, where) as raw:
            head = raw.read(6)
            raw.seek(0)
            yield from _limited(_decompressor(raw, head, where), raw, size, where)
    except FormatError:
        raise
    except EOFError:
        raise FormatError(f"{where}: the compressed data end too early. The file is truncated.") from None
    except MemoryError:
        raise FormatError(f"{where}: the file does not fit in memory.") from None
    except Exception as error:
        if isinstance(error, OSError) and type(error).__name__ not in _DECOMPRESSION_ERRORS:
            raise FormatError(f"{where}: cannot read this file: {reason(error)}.") from None
        if type(error).__name__ not in _DECOMPRESSION_ERRORS:
            raise
        raise FormatError(f"{where}: the compressed data are damaged ({error}).") from None


def _decompressor(raw: BinaryIO, head: bytes, where: str) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMAFile(raw, mode="rb")
    for magic, (content, advice) in _UNREADABLE.items():
        if head.startswith(magic):
            raise FormatError(f"{where}: this file is {content}. {advice}")
    return raw


def _limited(text: IO[bytes], raw: BinaryIO, size: int, where: str) -> Iterator[bytes]:
    """Yield chunks of `text`. Raise `FormatError` if it grows beyond memory, or too far beyond its compressed size."""
    total, limit, unchecked = 0, file_limit(), unchecked_text()
    while chunk := text.read(size):
        total += len(chunk)
        if total > limit:
            raise FormatError(
                f"{where}: the file has more than {gibibytes(limit)} of text, which is half of the memory of this "
                "machine."
            )
        if text is not raw and total > unchecked and total > _MAX_RATIO * raw.tell():
            raise FormatError(
                f"{where}: the decompressed text is more than {_MAX_RATIO} times larger than the file. Decompress the "
                f"file first if it really is this large. {limit_text()}"
            )
        yield chunk


# ---- writing --------------------------------------------------------------------------------------------


def write_text(path: PathLike, chunks: str | Iterable[str]) -> None:
    """Write text to a file, completely or not at all. `-` is stdout; `.gz` and `.xz` files are compressed.

    The text goes to a temporary file in the same folder, which replaces the target at the end. If the disk fails or
    `chunks` raises, an existing file stays as it was. Symbolic links are followed and the mode of an existing file
    is kept. Pipes and devices are written directly.
    """
    chunks = (chunks,) if isinstance(chunks, str) else chunks
    if os.fspath(path) == "-":
        _write_stdout(chunks)
    else:
        write_bytes(path, (chunk.encode("utf-8") for chunk in chunks))


def write_bytes(path: PathLike, chunks: bytes | Iterable[bytes]) -> None:
    """Write bytes to a file as `write_text` does: completely or not at all, compressed according to the suffix."""
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
        raise FormatError(f"{os.fspath(path)}: cannot write this file: {reason(error)}.") from None


def make_folder(path: PathLike) -> None:
    """Create a folder and its missing parents."""
    if not label(path):
        raise OptionError("'' is not the name of a folder.")
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a ValueError is about a zero byte in the name
        raise FormatError(f"{os.fspath(path)}: cannot create this folder: {reason(error)}.") from None


def check_writable(path: PathLike, read: Iterable[PathLike | None] = ()) -> None:
    """Raise an error if a file cannot be written, or is one of those that are read; called before the work for it."""
    label(path)  # It refuses what is not a path.
    if os.fspath(path) == "-":
        return
    try:
        target = Path(os.path.realpath(path))
        if os.fspath(target) in {
            os.path.realpath(own) for own in read if own is not None and "\0" not in os.fspath(own)
        }:
            raise OptionError(f"{os.fspath(path)}: the same command reads this file. Name another file to write.")
        if target.is_dir():
            why = "it is a directory"
        elif not target.parent.is_dir():
            why = f"there is no folder {target.parent}"
        elif target.exists():
            # Root may write any file, but a file without write permission for anyone should stay as it is.
            closed = not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK)
            why = "the existing file is read-only" if closed else ""
        else:
            why = "" if os.access(target.parent, os.W_OK) else "permission denied"
    except (OSError, ValueError) as error:  # a name that is too long or contains a null byte
        why = reason(error) if isinstance(error, OSError) else str(error)
    if why:
        raise FormatError(f"{os.fspath(path)}: cannot write this file: {why}.")


def check_new(path: PathLike, advice: str) -> None:
    """Raise `OptionError` if a file exists that took long to make; called before the work that would replace it."""
    if os.path.lexists(path):
        raise OptionError(f"{os.fspath(path)}: this file exists. {advice}")


def _write_atomically(target: Path, chunks: Iterable[bytes], mode: int | None) -> None:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        # os.open with 0o666 respects the umask, as for any new file; mkstemp would always give 0o600.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as handle:
            if mode is not None:
                temporary.chmod(stat.S_IMODE(mode))
            _write_all(handle, chunks, target.suffix)
        temporary.replace(target)
    except BaseException:
        try:
            _remove(temporary)
        finally:
            _remove(temporary)  # needed if a second Ctrl-C interrupted the first attempt
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _write_all(raw: BinaryIO, chunks: Iterable[bytes], suffix: str) -> None:
    # Compressor objects rather than compressed files: closing a compressed file compresses the rest of its data. That
    # takes seconds, and is useless after Ctrl-C, an alarm or an error.
    packer = _compressor(suffix.lower())
    for chunk in chunks:
        for start in range(0, len(chunk), _COMPRESSED_AT_ONCE):
            piece = chunk if len(chunk) <= _COMPRESSED_AT_ONCE else chunk[start : start + _COMPRESSED_AT_ONCE]
            raw.write(packer.compress(piece) if packer else piece)
    if packer:
        raw.write(packer.flush())


def _compressor(suffix: str) -> Any:
    """Return the compressor for a suffix, or None. The same text always gives the same bytes."""
    if suffix == ".gz":
        import zlib

        return zlib.compressobj(level=6, wbits=zlib.MAX_WBITS | 16)  # a gzip header without file name and time
    if suffix == ".xz":
        import lzma

        return lzma.LZMACompressor()
    return None


def _write_stdout(chunks: Iterable[str]) -> None:
    try:
        for chunk in chunks:
            sys.stdout.write(chunk)
        sys.stdout.flush()  # a full disk or a closed pipe raises here, not at exit
    except OSError as error:
        raise FormatError(f"<stdout>: cannot write: {reason(error)}.") from None


def reason(error: Exception) -> str:
    """Return why a file could not be read or written, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if isinstance(error, PermissionError):
        return "permission denied"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
