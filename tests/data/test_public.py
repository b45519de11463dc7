"""The download of public collections, against a local copy of a small repository."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from equifactor import FactorGraph, FormatError, OptionError, solve
from equifactor.data import collection, download
from equifactor.data.public import evidence_digest, manifest, marginals_digest
from equifactor.formats import write_graph
from equifactor.formats.results import write_mar
from equifactor.generators import ising_grid

DATA = os.environ.get("EQUIFACTOR_DATA")


needs_data = pytest.mark.skipif(DATA is None, reason="EQUIFACTOR_DATA names no folder")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a local copy of the public repositories with three models: a plain file, in a tgz, in a zip."""
    root = tmp_path / "public"
    base = root / "who" / "models"
    base.mkdir(parents=True)
    graphs = {name: ising_grid(2, 2, seed=n) for n, name in enumerate("pqr")}
    records: list[dict[str, Any]] = []
    for name, graph in graphs.items():
        write_graph(graph, base / f"{name}.uai")
        digest = hashlib.sha256((base / f"{name}.uai").read_bytes()).hexdigest()
        records.append({"collection": "toy", "name": name, "sha256": digest, "log_z": 0.5})
    (base / "p.uai.evid").write_text("1\n2 0 1 3 0\n")  # a sample count first, as before 2014
    exact = solve(graphs["p"], "MAR", "brute").marginals
    assert exact is not None
    write_mar(exact, base / "p.uai.MAR")
    with tarfile.open(base / "q.tgz", "w:gz") as tar:
        tar.add(base / "q.uai", "uai/q.uai")
    with zipfile.ZipFile(base / "r.zip", "w") as packed:
        packed.write(base / "r.uai", "r.uai")
    for name in "qr":
        (base / f"{name}.uai").unlink()
    sources = ("p.uai", "q.tgz:uai/q.uai", "r.zip:r.uai")
    for record, source in zip(records, sources, strict=True):
        record["source"] = f"who/models: {source}"
    records[0] |= {
        "evidence_count": 2, "evidence_sha256": evidence_digest({0: 1, 3: 0}), "marginals": "toy/p.MAR.gz",
        "marginals_source": "who/models: p.uai.MAR", "marginals_sha256": marginals_digest(exact),
    }  # fmt: skip
    monkeypatch.setattr("equifactor.data.public.manifest", lambda: records)
    return root


def test_download_fetches_checks_and_indexes(repository: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    target = tmp_path / "models"
    instances = download(target, source=repository, progress=lambda done, total, note: seen.append(note))
    assert [i.key for i in instances] == ["toy/p", "toy/q", "toy/r"] == seen
    assert instances[0].graph().evidence == {0: 1, 3: 0}
    assert instances[0].marginals() is not None
    assert instances[1].log_z == 0.5
    assert not (target / ".archives").exists()
    assert not list(target.rglob("*.tmp"))


def test_download_goes_on_after_a_failure_and_repairs(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "models"
    archive = repository / "who" / "models" / "q.tgz"
    content = archive.read_bytes()
    archive.write_bytes(content[:40])
    with pytest.raises(
        FormatError, match=r"1 of 3 models could not be fetched.* toy/q: q\.tgz: the archive is damaged"
    ):
        download(target, source=repository)
    assert [i.name for i in collection(target)] == ["p", "r"]
    archive.write_bytes(content)
    kept = (target / "toy" / "p.uai.gz").stat().st_mtime_ns
    (target / "toy" / "r.uai.gz").write_bytes(gzip.compress(b"cut short"))
    assert len(download(target, source=repository)) == 3
    assert (target / "toy" / "p.uai.gz").stat().st_mtime_ns == kept  # already right, so not fetched again
    assert isinstance(collection(target)[2].graph(), FactorGraph)


def test_download_refuses_other_content(repository: Path, tmp_path: Path) -> None:
    model = repository / "who" / "models" / "p.uai"
    model.write_text(model.read_text() + "\n")
    with pytest.raises(FormatError, match="expected a file with SHA-256"):
        download(tmp_path / "models", source=repository)
    model.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FormatError, match="large-file storage"):
        download(tmp_path / "models", source=repository)


def test_download_by_https_only(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="must be an https:// address"):
        download(tmp_path, source="http://example.org/{repository}/{path}")
    with pytest.raises(OptionError, match="no collection 'Nope'"):
        download(tmp_path, ["Nope"])


def test_download_stops_at_once_without_a_network(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def no_address(host: str, *args: object, **options: object) -> None:
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    with pytest.raises(FormatError, match=r"^nowhere\.invalid: cannot find this server"):
        download(tmp_path / "models", source="https://nowhere.invalid/{repository}/{path}")
    assert asked == ["nowhere.invalid"]


def test_shipped_list_is_complete() -> None:
    records = manifest()
    assert len({(r["collection"], r["name"]) for r in records}) == len(records) == 356
    for record in records:
        assert len(record["sha256"]) == 64
        assert record["source"].startswith("dechterlab/uai-competitions: ")
        assert bool(record["evidence_count"]) == ("evidence_sha256" in record)


@pytest.mark.data
@needs_data
def test_public_models_have_the_recorded_hashes() -> None:
    by_key = {(r["collection"], r["name"]): r for r in manifest()}
    for instance in collection(DATA)[::25]:
        record = by_key[instance.collection, instance.name]
        assert hashlib.sha256(gzip.decompress(instance.path.read_bytes())).hexdigest() == record["sha256"]
        graph = instance.graph()
        assert graph.num_vars == record["variables"]
        assert len(graph.evidence) == record["evidence_count"]
