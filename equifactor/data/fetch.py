"""Fetching files of public repositories over https or from a local copy; archives are unpacked once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import make_folder, write_bytes

_TRIES = 3  # Attempts to fetch a file. Chosen by hand.
_TIMEOUT = 60.0  # Seconds without a byte before an attempt is stopped. Chosen by hand.
_MAX_BYTES = 2**30  # The largest size of a file; all archives are far smaller.
_ARCHIVES = (".tgz", ".tar.gz", ".zip")
_WANTED = (".uai", ".evid")  # Suffixes of the members of an archive that are unpacked.


class Fetcher:
    """A fetcher of files by names of the form `owner/name: path` or `owner/name: archive:member`.

    Args:
        source: an https address with the fields {repository} and {path}, or a local folder that holds
            `owner/name/path`.
        cache: the folder for unpacked archives.
    """

    def __init__(self, source: str | Path, cache: Path) -> None:
        self.remote = isinstance(source, str) and "{path}" in source
        self.source = source
        self.cache = cache
        if isinstance(source, str) and ("://" in source or self.remote) and not source.startswith("https://"):
            raise OptionError(
                "The source must be an https:// address with the fields {repository} and {path}, or a folder; "
                f"found {source!r}."
            )

    def text(self, name: str) -> bytes:
        """Return the content of a file or of a member of an archive."""
        repository, path, member = _parts(name)
        return self._get(repository, path) if member is None else self._member(repository, path, member)

    def evidence(self, model: str) -> bytes:
        """Return the evidence of a model: the file beside it, or in the folder `evid` beside the folder `uai`."""
        repository, path, member = _parts(model)
        if member is not None:
            return self._member(repository, path, f"{member}.evid")
        try:
            return self._get(repository, f"{path}.evid")
        except FormatError:
            if "/uai/" not in path:
                raise
            return self._get(repository, f"{path}.evid".replace("/uai/", "/evid/"))

    def clear(self) -> None:
        """Delete the unpacked archives."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def _member(self, repository: str, path: str, member: str) -> bytes:
        """Return one member by its name without folders: archives put models and evidence into different folders."""
        folder = self.cache / hashlib.sha256(f"{repository}/{path}".encode()).hexdigest()[:16]
        if not (folder / "complete").is_file():
            _unpack(self._get(repository, path), path, folder)
        file = folder / Path(member).name
        if not file.is_file():
            raise FormatError(f"{path}: the archive has no member {file.name}.")
        return file.read_bytes()

    def _get(self, repository: str, path: str) -> bytes:
        if self.remote:
            data = _get_https(str(self.source).format(repository=repository, path=urllib.parse.quote(path)))
        else:
            file = Path(self.source) / repository / path
            if not file.is_file():
                raise FormatError(f"{file}: there is no such file.")
            data = file.read_bytes()
        if data.startswith(b"version https://git-lfs"):
            raise FormatError(f"{path}: the repository returned a pointer to large-file storage instead of the file.")
        return data


@contextlib.contextmanager
def temporary_file(target: Path, data: bytes) -> Iterator[Path]:
    """Yield the path of a temporary file with this content beside the target, for a reader that needs a path."""
    path = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    make_folder(target.parent)
    try:
        path.write_bytes(data)
        yield path
    finally:
        path.unlink(missing_ok=True)


class UnreachableError(FormatError):
    """A server that this machine cannot reach: the other files of the server need not be tried."""


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """A handler that follows only redirects to https addresses."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise urllib.error.URLError(f"refused a redirect to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get_https(url: str) -> bytes:
    opener = urllib.request.build_opener(_HttpsOnly)
    reason = ""
    for _ in range(_TRIES):
        try:
            with opener.open(url, timeout=_TIMEOUT) as answer:
                data: bytes = answer.read(_MAX_BYTES + 1)
                expected = answer.headers.get("Content-Length")
            if len(data) > _MAX_BYTES:
                raise FormatError(f"{url}: the file is larger than {_MAX_BYTES >> 20} MiB.")
            if expected is None or int(expected) == len(data):
                return data
            reason = f"only {len(data)} of {expected} bytes arrived"
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise FormatError(f"{url}: the server answered {error.code} {error.reason}.") from None
            reason = f"the server answered {error.code}"
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = str(getattr(error, "reason", error))
            if isinstance(getattr(error, "reason", None), socket.gaierror):
                host = urllib.parse.urlsplit(url).hostname
                raise UnreachableError(
                    f"{host}: cannot find this server: {reason}. Check the network and repeat the download. Models "
                    "that were fetched stay."
                ) from None
    raise FormatError(f"{url}: cannot fetch this file after {_TRIES} attempts: {reason}.")


def _parts(name: str) -> tuple[str, str, str | None]:
    """Return the repository, path and member (or None) of a name such as `owner/name: a/b.tgz:c/d.uai`."""
    repository, _, rest = name.partition(": ")
    path, colon, member = rest.partition(":")
    if colon and not path.endswith(_ARCHIVES):
        raise FormatError(f"{name}: the part before the colon is not an archive ({' '.join(_ARCHIVES)}).")
    return repository, path, member if colon else None


def _unpack(data: bytes, path: str, folder: Path) -> None:
    """Unpack the models and evidence of an archive into one folder; the file `complete` marks that it is finished."""
    with temporary_file(folder / "archive", data) as archive:
        try:
            for name, handle in _members(archive, path):
                if name.endswith(_WANTED):
                    # Folders in the name are dropped, so that no member can be written outside this folder.
                    write_bytes(folder / Path(name).name, handle.read(_MAX_BYTES))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise FormatError(f"{path}: the archive is damaged ({error}). Try again.") from None
    write_bytes(folder / "complete", b"")


def _members(archive: Path, path: str) -> Iterator[tuple[str, IO[bytes]]]:
    if path.endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as handle:
                        yield info.filename, handle
        return
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content
