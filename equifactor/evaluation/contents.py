"""What a run is known by: the content of the model and of its evidence, not the names of their files."""

from __future__ import annotations

import functools
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.base.errors import FormatError
from equifactor.base.files import read_chunks

if TYPE_CHECKING:
    from equifactor.data import Instance

PREFIX = "content"  # every key of a row begins with it; before, keys began with the name of the model
UNREADABLE = f"{PREFIX} unreadable"
_SETTLED = 2.0  # seconds; a younger file may be written again without a new time of change


def content_of(instance: Instance) -> str:
    """A hash of the model and its evidence, unpacked: `g.uai` and `g.uai.gz` with the same text are one model.

    A file that cannot be read has no content and stands for itself by its path. The cost is that of reading the files
    once, a small part of what parsing the model takes.
    """
    try:
        evidence = "none" if instance.evidence_path is None else file_content(instance.evidence_path)
        both = f"{file_content(instance.path)} {evidence}"
    except FormatError as error:
        return f"{UNREADABLE} {instance.path}: {error}"
    return f"{PREFIX} {hashlib.blake2b(both.encode(), digest_size=20).hexdigest()}"


def file_content(path: Path) -> str:
    """A hash of the text of a file, unpacked; a file that has not changed since is not read again."""
    try:
        state = path.stat()
    except OSError:
        return _hashed(path)  # its error says why
    if time.time() - state.st_mtime < _SETTLED:
        return _hashed(path)
    return _remembered(path.absolute(), (state.st_ino, state.st_size, state.st_mtime_ns))


@functools.lru_cache(maxsize=2**16)
def _remembered(path: Path, state: tuple[int, int, int]) -> str:
    return _hashed(path)


def _hashed(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()
