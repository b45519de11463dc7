"""Folders of models, with an index or with model files only."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, FormatError, OptionError, solve
from equifactor.data import collection, collection_names
from equifactor.formats import write_evidence, write_graph
from equifactor.formats.results import write_mar, write_pr
from equifactor.generators import ising_grid

DATA = os.environ.get("EQUIFACTOR_DATA")


needs_data = pytest.mark.skipif(DATA is None, reason="EQUIFACTOR_DATA names no folder")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two collections with an index; `toy/b` has evidence, and `MAR/Grids_11` has marginals."""
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
    ("text", "message"),
    [
        ("{", "cannot read this file"),
        ("[" * 100_000, "cannot read this file"),
        ("{}", "a list of records"),
        ('[{"name": 1}]', "record 0"),
    ],
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


def test_a_folder_may_hold_models_of_all_formats(tmp_path: Path) -> None:
    graph = FactorGraph({"rain": ["no", "yes"], "lawn": ["dry", "wet"]}, [(["rain"], [0.8, 0.2]),
                        (["rain", "lawn"], [[0.9, 0.1], [0.2, 0.8]])])  # fmt: skip
    for name in ("lawn.bif", "garden.xdsl.gz", "lawn.uai", "notes.txt"):
        if name == "notes.txt":
            (tmp_path / name).write_text("not a model")
        else:
            write_graph(graph, tmp_path / name)
    write_evidence({1: 1}, tmp_path / "lawn.bif.evid")
    garden, lawn_bif, lawn_uai = collection(tmp_path)
    assert [i.name for i in (garden, lawn_bif, lawn_uai)] == ["garden", "lawn.bif", "lawn.uai"]
    assert lawn_bif.graph().evidence == {1: 1}
    assert lawn_uai.evidence_path is None
    assert garden.graph().num_vars == 2


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    write_graph(ising_grid(2, 2, seed=1), tmp_path / "one.uai")
    with pytest.raises(FormatError, match=r"one\.uai: expected a folder of models, found a file\. Pass the folder"):
        collection(tmp_path / "one.uai")


def test_evidence_that_the_index_does_not_count_is_found(folder: Path) -> None:
    (folder / "index.json").write_text('[{"collection": "toy", "name": "a"}, {"collection": "toy", "name": "b"}]')
    a, b = collection(folder)
    assert a.evidence_path is None
    assert b.graph().evidence == {0: 1}


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="found neither"):
        collection(tmp_path)


@pytest.mark.data
@needs_data
def test_reference_answers_agree_with_exact_inference() -> None:
    instance = next(i for i in collection(DATA, "Grids") if i.name == "grid10x10.f10")
    result = solve(instance.graph(), "PR", "exact")
    assert result.log_z == pytest.approx(instance.log_z, abs=1e-8)
