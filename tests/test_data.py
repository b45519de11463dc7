"""The loader of public collections, and the download against a local copy of a small repository."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph, FormatError, OptionError, solve
from equifactor.data import collection, collection_names, download
from equifactor.data.public import evidence_digest, manifest, marginals_digest
from equifactor.generators import ising_grid
from equifactor.io import write_evidence, write_graph
from equifactor.io.results import write_mar, write_pr

DATA = os.environ.get("EQUIFACTOR_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="EQUIFACTOR_DATA names no folder")


# ---- folders ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two collections with an index; `toy/b` has evidence, `MAR/Grids_11` marginals."""
    for at, name, seed in (("toy", "a", 1), ("toy", "b", 2), ("MAR", "Grids_11", 3)):
        (tmp_path / at).mkdir(exist_ok=True)
        write_graph(ising_grid(2, 2, seed=seed), tmp_path / at / f"{name}.uai.gz")
    write_evidence({0: 1}, tmp_path / "toy" / "b.uai.evid")
    exact = solve(ising_grid(2, 2, seed=3), "MAR", "brute")
    assert exact.marginals is not None
    write_mar(exact.marginals, tmp_path / "MAR" / "Grids_11.MAR.gz")
    records = [
        {"collection": "toy", "name": "a", "split": "train", "log_z": 1.5, "evidence_count": 0},
        {"collection": "toy", "name": "b", "split": "test", "map_log_score": -2.0, "map_status": "optimal",
         "evidence_count": 1},
        {"collection": "MAR", "name": "Grids_11", "marginals": "MAR/Grids_11.MAR.gz", "evidence_count": 0},
    ]  # fmt: skip
    (tmp_path / "index.json").write_text(json.dumps(records))
    return tmp_path


def test_index_gives_answers_and_evidence(folder: Path) -> None:
    a, b, grids = collection(folder)
    assert (a.key, a.split, a.log_z, a.map_log_score) == ("toy/a", "train", 1.5, None)
    assert (b.map_log_score, b.map_is_optimal) == (-2.0, True)
    assert b.graph().evidence == {0: 1}
    assert (a.family, grids.family) == ("toy", "Grids")
    marginals = grids.marginals()
    assert marginals is not None
    assert a.marginals() is None
    np.testing.assert_allclose(marginals.values, solve(grids.graph(), "MAR", "brute").marginals.values)  # type: ignore[union-attr]


def test_collections_are_chosen_by_name_in_any_case(folder: Path) -> None:
    assert collection_names(folder) == ["toy", "MAR"]
    assert [i.name for i in collection(folder, "TOY")] == ["a", "b"]
    assert len(collection(folder, ["toy", "mar"])) == 3
    with pytest.raises(OptionError, match=r"no collection 'toi'; did you mean toy\? choose from: toy, MAR"):
        collection(folder, "toi")


def test_folder_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIFACTOR_DATA", str(folder))
    assert len(collection()) == 3
    monkeypatch.delenv("EQUIFACTOR_DATA")
    with pytest.raises(OptionError, match="set EQUIFACTOR_DATA"):
        collection()


def test_missing_things_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such folder"):
        collection(tmp_path / "nowhere")
    (folder / "toy" / "a.uai.gz").unlink()
    with pytest.raises(FormatError, match="the model of toy/a is missing"):
        collection(folder, "toy")[0].graph()
    (folder / "toy" / "b.uai.evid").unlink()
    with pytest.raises(FormatError, match=r"b\.uai\.evid"):
        collection(folder, "toy")[1].graph()  # never silently the model without its evidence


@pytest.mark.parametrize(
    ("text", "message"), [("{", "cannot read it"), ("{}", "a list of records"), ('[{"name": 1}]', "record 0")]
)
def test_broken_index(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(FormatError, match=message):
        collection(tmp_path)


def test_any_folder_of_models_will_do(tmp_path: Path) -> None:
    graph = ising_grid(2, 2, seed=1)
    (tmp_path / "sub").mkdir()
    write_graph(graph, tmp_path / "one.uai")
    write_graph(graph, tmp_path / "sub" / "two.uai.xz")
    write_evidence({1: 0}, tmp_path / "sub" / "two.uai.evid")
    write_pr(2.5, tmp_path / "one.uai.PR")
    one, two = sorted(collection(tmp_path), key=lambda i: i.name)
    assert one.log_z == pytest.approx(2.5)
    assert two.log_z is None
    assert two.collection == "sub"
    assert two.graph().evidence == {1: 0}


def test_evidence_that_the_index_does_not_count_is_found(folder: Path) -> None:
    (folder / "index.json").write_text('[{"collection": "toy", "name": "a"}, {"collection": "toy", "name": "b"}]')
    a, b = collection(folder)
    assert a.evidence_path is None
    assert b.graph().evidence == {0: 1}


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="found neither"):
        collection(tmp_path)


# ---- download --------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the public repositories, and a list of its three models: plain, in a tgz, in a zip."""
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
    with pytest.raises(FormatError, match=r"1 of 3 models could not be fetched: toy/q: q\.tgz is a broken archive"):
        download(target, source=repository)
    assert [i.name for i in collection(target)] == ["p", "r"]
    archive.write_bytes(content)
    kept = (target / "toy" / "p.uai.gz").stat().st_mtime_ns
    (target / "toy" / "r.uai.gz").write_bytes(gzip.compress(b"cut short"))
    assert len(download(target, source=repository)) == 3
    assert (target / "toy" / "p.uai.gz").stat().st_mtime_ns == kept  # right already: not fetched again
    assert isinstance(collection(target)[2].graph(), FactorGraph)


def test_download_refuses_other_content(repository: Path, tmp_path: Path) -> None:
    model = repository / "who" / "models" / "p.uai"
    model.write_text(model.read_text() + "\n")
    with pytest.raises(FormatError, match="has the SHA-256"):
        download(tmp_path / "models", source=repository)
    model.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FormatError, match="large-file storage"):
        download(tmp_path / "models", source=repository)


def test_download_by_https_only(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected https"):
        download(tmp_path, source="http://example.org/{repository}/{path}")
    with pytest.raises(OptionError, match="no collection 'Nope'"):
        download(tmp_path, ["Nope"])


def test_shipped_list_is_complete() -> None:
    records = manifest()
    assert len({(r["collection"], r["name"]) for r in records}) == len(records) == 356
    for record in records:
        assert len(record["sha256"]) == 64
        assert record["source"].startswith("dechterlab/uai-competitions: ")
        assert bool(record["evidence_count"]) == ("evidence_sha256" in record)


# ---- the real thing --------------------------------------------------------------------------------------


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


@pytest.mark.data
@needs_data
def test_reference_answers_agree_with_exact_inference() -> None:
    instance = next(i for i in collection(DATA, "Grids") if i.name == "grid10x10.f10")
    result = solve(instance.graph(), "PR", "exact")
    assert result.log_z == pytest.approx(instance.log_z, abs=1e-8)
