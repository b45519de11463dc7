"""Fetching the public UAI collections, checked against recorded hashes. An interrupted download can be continued.

The package contains the list of models: `uai.jsonl` has the source, the hash and the known answers of each. Models are
checked by the SHA-256 of their text. Evidence and marginals are checked by the SHA-256 of their content, because their
files have several layouts. A file that exists and has the right hash is not fetched again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import EquifactorError, FormatError, OptionError, brief
from equifactor.base.files import make_folder, read_chunks, write_bytes, write_text
from equifactor.base.options import choices
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.data.collections import INDEX, Instance, collection
from equifactor.data.fetch import Fetcher, UnreachableError, temporary_file

if TYPE_CHECKING:
    from equifactor.graph.marginals import Marginals
    from equifactor.solving.solver import Progress

PUBLIC = "https://raw.githubusercontent.com/{repository}/HEAD/{path}"
_CACHE = ".archives"  # The folder of unpacked archives, which is deleted when all models are fetched.


@checks_types("folder", "names", "source")
def download(
    folder: str | Path,
    names: Sequence[str] | None = None,
    *,
    source: str | Path = PUBLIC,
    progress: Progress | bool = False,
) -> list[Instance]:
    """Fetch collections into a folder and return their instances; call it again to continue after a failure.

    Args:
        folder: the folder for the models, with one folder per collection and `index.json`; created if missing.
        names: the names of collections, such as `["MAR"]`; None takes all.
        source: an https address with the fields {repository} and {path}, or a local folder that holds
            `owner/name/path` with the paths of the repositories.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Raises `FormatError` at the end if a file could not be fetched or has a wrong hash. All other files stay, and the
    index lists only complete models.
    """
    check_run(None, 0, progress)
    records = _chosen(names)
    target = Path(folder)
    fetch = Fetcher(source, target / _CACHE)
    failures: list[str] = []
    with bar(progress, "fetching") as report:
        for n, record in enumerate(records):
            try:
                _fetch_instance(record, target, fetch)
            except UnreachableError:
                _write_index(target)
                raise
            except (EquifactorError, OSError) as error:
                failures.append(f"{record['collection']}/{record['name']}: {error}")
            if report is not None:
                report(n + 1, len(records), f"{record['collection']}/{record['name']}")
    _write_index(target)
    if failures:
        raise FormatError(
            f"{len(failures)} of {len(records)} models could not be fetched. Repeat the download to continue. The "
            f"first error is: {failures[0]}"
        )
    fetch.clear()
    return collection(target, None if names is None else sorted({r["collection"] for r in records}))


def manifest() -> list[dict[str, Any]]:
    """Return the list of public models: one record each, with the fields of `index.json` and the hashes."""
    text = (files("equifactor.data") / "uai.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def evidence_digest(evidence: Mapping[int, int]) -> str:
    """Return the SHA-256 of the observed states, which does not depend on the layout of the file."""
    return hashlib.sha256(" ".join(f"{i}={x}" for i, x in sorted(evidence.items())).encode()).hexdigest()


def marginals_digest(marginals: Marginals) -> str:
    """Return the SHA-256 of the cardinalities and probabilities as numbers."""
    card = np.diff(marginals.ptr).astype("<i8").tobytes()
    return hashlib.sha256(card + marginals.values.astype("<f8").tobytes()).hexdigest()


def _chosen(names: Sequence[str] | None) -> list[dict[str, Any]]:
    records = manifest()
    known = list(dict.fromkeys(r["collection"] for r in records))
    if names is None:
        return records
    by_name = {k.lower(): k for k in known}
    for name in names:
        if not isinstance(name, str) or name.lower() not in by_name:
            raise OptionError(f"There is no collection {brief(name)}; {choices(name, known)}")
    wanted = {by_name[n.lower()] for n in names}
    return [r for r in records if r["collection"] in wanted]


# ---- one instance ---------------------------------------------------------------------------------------


def _fetch_instance(record: Mapping[str, Any], folder: Path, fetch: Fetcher) -> None:
    """Fetch a model, its evidence and its marginals; each is checked before it is written."""
    at, name = folder / record["collection"], record["name"]
    model = at / f"{name}.uai.gz"
    if not model.is_file() or _text_digest(model) != record["sha256"]:
        text = fetch.text(record["source"])
        found = hashlib.sha256(text).hexdigest()
        if found != record["sha256"]:
            raise FormatError(f"{record['source']}: expected a file with SHA-256 {record['sha256']}, found {found}.")
        make_folder(at)
        write_bytes(model, text)
    if record.get("evidence_sha256"):
        _fetch_evidence(record, at / f"{name}.uai.evid", model, fetch)
    if record.get("marginals_sha256"):
        _fetch_marginals(record, folder / record["marginals"], fetch)


def _fetch_evidence(record: Mapping[str, Any], target: Path, model: Path, fetch: Fetcher) -> None:
    from equifactor.formats import read_evidence, read_graph, write_evidence

    graph = read_graph(model)
    if target.is_file() and evidence_digest(read_evidence(target, graph)) == record["evidence_sha256"]:
        return
    with temporary_file(target, fetch.evidence(record["source"])) as path:
        evidence = read_evidence(path, graph)
    if evidence_digest(evidence) != record["evidence_sha256"]:
        raise FormatError(f"{record['source']}: its evidence does not have the recorded hash.")
    write_evidence(evidence, target)


def _fetch_marginals(record: Mapping[str, Any], target: Path, fetch: Fetcher) -> None:
    from equifactor.formats.results import read_mar, write_mar

    if target.is_file() and marginals_digest(read_mar(target)) == record["marginals_sha256"]:
        return
    with temporary_file(target, fetch.text(record["marginals_source"])) as path:
        marginals = read_mar(path)
    if marginals_digest(marginals) != record["marginals_sha256"]:
        raise FormatError(f"{record['marginals_source']}: the marginals do not have the recorded hash.")
    write_mar(marginals, target)


def _text_digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        for chunk in read_chunks(path):
            digest.update(chunk)
    except FormatError:
        return ""  # the file is broken and will be fetched again
    return digest.hexdigest()


def _write_index(folder: Path) -> None:
    """Write `index.json` with every public model whose files all exist."""
    present = []
    for record in manifest():
        at = folder / record["collection"]
        needed = [at / f"{record['name']}.uai.gz"]
        needed += [at / f"{record['name']}.uai.evid"] * bool(record.get("evidence_sha256"))
        needed += [folder / record["marginals"]] if record.get("marginals") else []
        if all(path.is_file() for path in needed):
            present.append(record)
    if present:
        write_text(folder / INDEX, json.dumps(present, indent=1) + "\n")
