"""Hashes of the content of models and evidence, which identify a run whatever the names of its files."""

from __future__ import annotations

import functools
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.base.errors import FormatError
from equifactor.base.files import read_chunks, split_name

if TYPE_CHECKING:
    from equifactor.data import Instance

PREFIX = "content"  # The first word of every key of a row; before version 0.2 keys began with the name of the model.
UNREADABLE = f"{PREFIX} unreadable"  # Begins the content of an instance whose files cannot be read.
# Seconds since the last change of a file before its hash is remembered: a file may be written twice within the
# resolution of its modification time. Chosen by hand.
_SETTLED = 2.0


def content_of(instance: Instance) -> str:
    """Return a hash of the decompressed model, evidence and query: equal text in `g.uai` and `g.uai.gz` is one model.

    The text of another format is another model, because `.lg` files hold logarithms of what `.uai` files hold.
    A file that cannot be read is identified by its path and the error. The files are read once, which takes a small
    part of the time of parsing the model.
    """
    try:
        evidence = "none" if instance.evidence_path is None else file_content(instance.evidence_path)
        suffix = split_name(instance.path)[1].removeprefix(".uai")
        query = "" if instance.query_path is None else file_content(instance.query_path)
        both = " ".join(filter(None, (file_content(instance.path), evidence, suffix, query)))
    except FormatError as error:
        return f"{UNREADABLE} {instance.path}: {error}"
    return f"{PREFIX} {hashlib.blake2b(both.encode(), digest_size=20).hexdigest()}"


def file_content(path: Path) -> str:
    """Return a hash of the decompressed text of a file; a file that has not changed is not read again."""
    try:
        state = path.stat()
    except OSError:
        return _hashed(path)  # raises an error that explains the problem
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
