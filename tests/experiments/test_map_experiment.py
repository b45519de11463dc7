"""The MAP experiment end to end on a generated folder: pieces, stops, tables; on the public models where present."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, FormatError, OptionError, parse_solver, solve
from equifactor.cli import main
from equifactor.data import Instance, collection
from equifactor.generators import ising_grid, potts_grid
from equifactor.io import write_graph
from equifactor.solvers.learned.network import build
from equifactor.training.data_sources import read_source
from experiments.cells import cells_of, improved
from experiments.doubles import compute_hashes, doubles, remainder
from experiments.latex_tables import latex
from experiments.map_config import is_map, load_map, map_experiment_names
from experiments.map_report import markdown
from experiments.map_training import Training, finals, perform, tunings
from experiments.parts import Part, parts_of
from experiments.single import describe, single_models
from experiments.solving import (
    Known,
    Question,
    answers,
    jobs_of,
    questions,
    shipped_hash,
    solve_all,
    unavailable,
    whole_lines,
)

QUICK = "BP,BP damped + seq-decoding,MPLP,best-of-grid BP + seq-decoding,auto,BPNN,FE-NBP"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two collections with scores and splits; the second has variables of three states."""
    made = {"Grids": [ising_grid(3, 3, seed=n) for n in range(6)]}
    made["Segment"] = [potts_grid(2, 3, states=3, seed=n) for n in range(5)]
    return write_folder(tmp_path / "models", made)


def write_folder(path: Path, made: dict[str, list[FactorGraph]]) -> Path:
    records = []
    for name, graphs in made.items():
        (path / name).mkdir(parents=True)
        for n, graph in enumerate(graphs):
            write_graph(graph, path / name / f"g{n}.uai")
            score = solve(graph, "MAP", "exact").log_score
            split = "test" if n >= len(graphs) - 2 else "train"
            records.append({"collection": name, "name": f"g{n}", "split": split, "map_log_score": score})
    (path / "index.json").write_text(json.dumps(records))
    return path


@pytest.mark.parametrize("name", map_experiment_names())
def test_every_line_can_be_built_and_every_published_number_has_one(name: str) -> None:
    experiment = load_map(name)
    assert is_map(name)
    lines = [m.name for m in experiment.methods]
    for method in experiment.methods:
        assert "," not in method.name
        for spec in method.specs():
            parse_solver(spec)
    for model in experiment.models:
        lines += [model.line(d) for d in model.decode]
        for variant in model.variants():
            build(model.kind, {**model.network, **variant})
    assert len(set(lines)) == len(lines)
    assert set(experiment.published) <= set(lines)
    assert all(parse_solver(spec) for spec in experiment.curve.solvers.values())
    grid = next(m for m in experiment.methods if m.name == "best-of-grid BP + seq-decoding")
    assert len(set(grid.specs())) == 21


def test_the_quick_form_runs_end_to_end_and_again_without_solving(folder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = ["experiment", "uai", "--quick", "--data", str(folder), "--out", str(out)]
    assert main([*command, "--methods", QUICK]) == 0
    page = capsys.readouterr().out
    assert "| Grids (2 / 2) | Segment (2 / 2) |" in page
    assert "| best-of-grid BP + seq-decoding | " in page
    assert "BPNN on Segment: bpnn was made for variables of 2 states" in page
    assert "SRMP on Grids, seed 0: 0 of 2 models are solved" in page
    assert "## Cross-validation over all models" in page
    results = json.loads((out / "results.json").read_text())
    exact = results["cells"]["split"]["auto"]
    assert all(exact[c]["error"] == 0 and exact[c]["proven"] == 2 for c in ("Grids", "Segment"))
    assert {"command", "code", "date", "torch"} <= set(results["provenance"])
    assert {p["solver"] for p in results["curve"]} >= {"auto", "MPLP", "BP damped + seq-decoding"}
    assert [(d["collection"], d["isomorphic"]) for d in results["doubles"]] == [("Grids", []), ("Segment", [])]
    assert str(tmp_path) not in json.dumps(results["answers"])
    assert (out / "table.tex").read_text().startswith("\\begin{tabular}")
    assert (out / "anytime.svg").stat().st_size > 0
    lines = (out / "solved" / "rows.jsonl").read_text()
    start = time.perf_counter()
    assert main([*command, "--methods", QUICK]) == 0
    assert (out / "solved" / "rows.jsonl").read_text() == lines
    assert time.perf_counter() - start < 10.0
    # Another piece is added to the same tables.
    capsys.readouterr()
    assert main([*command, "--methods", "SRMP", "--collections", "Grids", "--train", "no", "--parts", "split"]) == 0
    page = capsys.readouterr().out
    assert "SRMP on Grids, seed" not in page
    assert "| FE-NBP | " in page


def test_training_stops_at_its_time_and_goes_on(folder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    command = ["experiment", "uai", "--quick", "--data", str(folder), "--out", str(out), "--collections", "Grids"]
    command += ["--methods", "FE-NBP", "--train", "only", "--parts", "split"]
    assert main([*command, "--time-limit", "0"]) == 1
    assert "not reached within the time limit; the same command goes on" in capsys.readouterr().err
    assert main(command) == 0
    assert len(list((out / "models").glob("FE-NBP-Grids-*.safetensors"))) == 1
    assert not list((out / "models").glob("*.checkpoint"))


def test_a_run_cut_in_the_middle_ends_like_one_that_was_not(folder: Path, tmp_path: Path) -> None:
    experiment = load_map("uai").selected("Grids", "FE-NBP").quick()
    experiment = replace(experiment, training={**experiment.training, "epochs": 6})
    part = parts_of(experiment, folder)[0]
    run = Training(experiment, experiment.models[0], part, (("damping", 0.3),), 0)
    whole = perform(run, tmp_path / "whole", "cpu")
    cut = perform(replace(run, until=time.time() + 0.05), tmp_path / "cut", "cpu")
    assert not cut["finished"]
    assert not run.file(tmp_path / "cut").is_file()
    again = perform(run, tmp_path / "cut", "cpu")
    assert again["validation_error"] == whole["validation_error"]
    assert again["epochs"] == whole["epochs"] == 6
    one, other = (run.weights(tmp_path / name).read_bytes() for name in ("whole", "cut"))
    assert one == other


def test_the_variant_that_validates_best_is_trained(folder: Path, tmp_path: Path) -> None:
    experiment = load_map("uai").selected("Grids", "FE-NBP").quick()
    parts = [p for p in parts_of(experiment, folder) if p.fold is None]
    assert not list(finals(experiment, parts, tmp_path))
    for n, run in enumerate(tunings(experiment, parts)):
        run.file(tmp_path).parent.mkdir(exist_ok=True)
        run.file(tmp_path).write_text(json.dumps({"validation_error": 0.2 - 0.1 * n}))
    (final,) = finals(experiment, parts, tmp_path)
    assert dict(final.variant) == experiment.models[0].variants()[-1]
    other = replace(experiment, training={**experiment.training, "lr": 0.5})
    assert replace(final, experiment=other).key != final.key


def test_folds_hold_every_model_once_and_never_train_on_it(folder: Path) -> None:
    experiment = replace(load_map("uai").selected("Grids,Segment", None), folds={"Grids": 3})
    fixed, folds = (
        [p for p in parts_of(experiment, folder) if (p.fold is None) == want and p.collection == "Grids"]
        for want in (True, False)
    )
    assert len(fixed) == 1
    assert sorted(i.name for p in folds for i in p.test) == [f"g{n}" for n in range(6)]
    assert all(not set(p.train) & set(p.test) and len(p.train) == 4 for p in folds)
    index = json.loads((folder / "index.json").read_text())
    for record in index:
        record.pop("split")
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(OptionError, match="Grids: the index of the folder must divide it"):
        parts_of(experiment, folder)


def test_the_best_of_several_is_the_highest_score_and_their_times_add_up(folder: Path, tmp_path: Path) -> None:
    instances = collection(folder, "Grids")[:2]
    part = Part("Grids", None, (), tuple(instances))
    jobs = jobs_of(instances, ["best-first(steps=0)", "exact"], 5.0, 0)
    question = Question("both", part, 0, jobs)
    assert answers(question, Known(tmp_path)) is None
    rows = solve_all([j for both in jobs for j in both], tmp_path, 1, None)
    found = answers(question, Known(tmp_path))
    assert found is not None
    for row, (worse, better) in zip(found, jobs, strict=True):
        assert row["solver"] == "exact"
        assert row["map_error"] == 0.0
        assert row["seconds"] == pytest.approx(rows[worse]["seconds"] + rows[better]["seconds"], abs=1e-4)


def test_a_line_of_cross_validation_needs_all_its_folds(folder: Path, tmp_path: Path) -> None:
    experiment = replace(load_map("uai").selected("Grids", "BP"), folds={"Grids": 2})
    folds = [p for p in parts_of(experiment, folder) if p.fold is not None]
    asked, _ = questions(experiment, folds, [], tmp_path)
    for n, question in enumerate(asked):
        solve_all([job for jobs in question.jobs for job in jobs], tmp_path, 1, None)
        rows, words = whole_lines(asked, Known(tmp_path))
        assert (len(rows), len(words)) == ((0, 1), (6, 0))[n]
        assert not words or words == ["BP on the folds of Grids, seed 0: 3 of 6 models are solved"]


def test_doubles_are_found_under_other_numbers_and_other_evidence(tmp_path: Path) -> None:
    pytest.importorskip("igraph")
    rng = np.random.default_rng(0)
    pair, other = rng.normal(size=(2, 2, 3))
    base = FactorGraph([2, 3, 2], [((0, 1), pair), ((2, 1), other)], log=True)
    renumbered = FactorGraph([3, 2, 2], [((0, 1), other.T), ((2, 0), pair)], log=True)
    fields = base.with_factor((0,), [0.3, 0.7])
    assert remainder(base.with_factor((), 3.0)) == remainder(base)
    graphs = [base, ising_grid(2, 2, seed=1), renumbered, fields]
    folder = write_folder(tmp_path / "models", {"Grids": graphs})
    parts = parts_of(load_map("uai").selected("Grids", None), folder)[:1]
    assert "igraph" in doubles(parts, tmp_path)[1][0]
    compute_hashes(parts, tmp_path)
    (found,), words = doubles(parts, tmp_path)
    assert not words
    assert found["isomorphic"] == ["g2"]
    assert found["same_larger_tables"] == ["g2", "g3"]


def _row(seed: int, error: float | None, **more: object) -> dict[str, object]:
    return {
        "line": "A",
        "collection": "Grids",
        "instance": "g",
        "seed": seed,
        "map_error": error,
        "seconds": 1.0,
        **more,
    }


def test_cells_count_what_a_mean_leaves_out() -> None:
    rows = [_row(0, 0.1), _row(0, float("inf"), zero_probability=True), _row(1, 0.3), _row(1, None)]
    cell = cells_of(rows)["A"]["Grids"]
    assert (cell.zero, cell.missing, cell.answers, cell.seeds) == (1, 1, 4, 2)
    assert cell.error == pytest.approx(0.2)
    assert cell.spread == pytest.approx(0.02**0.5)
    assert cell.text() == "0.2000 ± 0.1414 (1 zero, 1 unanswered of 4)"
    assert "A & $\\infty$ \\\\" in latex(load_map("uai").selected("Grids", None), {"A": {"Grids": cell}})
    good = _row(0, 0.0, log_score=-4.0, reference=-5.0, upper_bound=-3.0)
    assert cells_of([good])["A"]["Grids"].gap == pytest.approx(0.25)
    assert improved([good, _row(0, 0.0, log_score=-5.0, reference=-5.0)])[0]["log_score"] == -4.0


def test_a_model_that_several_lines_improve_is_named_once() -> None:
    rows = [_row(0, 0.0, log_score=score, reference=-5.0) for score in (-4.5, -4.0, -5.0)]
    (found,) = improved([*rows, {**rows[0], "line": "B"}])
    assert (found["log_score"], found["lines"]) == (-4.0, ["A", "B"])


def test_proofs_are_told_apart_for_sparse_and_dense_models() -> None:
    records = [{"variables": 4, "factors": 6}, {"variables": 4, "factors": 10, "map_status": "optimal"}]
    instances = [Instance("Grids", f"g{n}", Path(), record={**r, "map_log_score": 2.0}) for n, r in enumerate(records)]
    models = describe([Part("Grids", None, (), tuple(reversed(instances)))])
    assert [(m["model"], m["dense"], m["optimal"]) for m in models] == [("g0", False, False), ("g1", True, True)]
    rows = [
        {**_row(0, 0.0, proven=True, log_score=2.0, upper_bound=2.0), "line": "auto", "instance": "g0"},
        {**_row(0, 0.25, log_score=1.5, upper_bound=3.0), "line": "auto", "instance": "g1"},
    ]
    page = "\n".join(single_models(load_map("uai"), models, rows))
    assert "| Grids, sparse | 1 of 1 proven |" in page
    assert "| Grids, dense | 0 of 1 proven, largest gap 1 |" in page
    assert "| Grids/g1 | 4 | 10 | 2.0000, optimal | error 0.25, gap 1, 1 s |" in page
    assert not single_models(load_map("uai"), models, [_row(0, 0.0)])


def test_the_page_says_which_goals_hold() -> None:
    experiment = replace(
        load_map("uai").selected("Grids,DBN", None), goals={"A": {"Grids": 0.1, "DBN": 0.1}, "B": {"DBN": 1}}
    )
    rows = [_row(0, 0.05), {**_row(0, 0.0), "collection": "DBN"}]
    rows.append({**_row(0, float("inf"), zero_probability=True), "collection": "DBN"})
    results = {"answers": [], "split": {}, "models": [], "curve": [], "doubles": [], "improved": [], "missing": []}
    page = markdown(experiment, results, cells_of(rows), {})
    assert "| A | 0.1: yes, 0.0500 | 0.1: **no**, 0.0000 (1 zero of 2) |" in page
    assert "| B |  | 1: not run |" in page
    assert page.count("**Not held out.**") == 1


def test_what_was_solved_elsewhere_is_shown_where_the_solver_is_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_map("uai").selected("Grids", "BP")
    parts = parts_of(experiment, folder)[:1]
    asked, _ = questions(experiment, parts, [], tmp_path)
    solve_all([job for jobs in asked[0].jobs for job in jobs], tmp_path, 1, None)
    monkeypatch.setattr("equifactor.solvers.messages.bp.BeliefPropagation.missing", lambda _: "no such package")
    asked, words = questions(experiment, parts, [], tmp_path)
    assert [q.obstacle for q in asked] == ["no such package"]
    assert not words
    assert [len(found) for found in whole_lines(asked, Known(tmp_path))] == [2, 0]
    assert "(no such package)" in whole_lines(asked, Known(tmp_path / "empty"))[1][0]


def test_answers_of_older_shipped_weights_are_not_taken(folder: Path, tmp_path: Path, monkeypatch) -> None:
    (method,) = load_map("uai").selected(None, "FE-Net shipped").methods
    monkeypatch.setattr("equifactor.solvers.learned.learned_solver.WEIGHTS", tmp_path)
    hashes = []
    for content in (b"old", b"new", b"new"):
        (tmp_path / "fe-net-map.safetensors").write_bytes(content)
        hashes.append(shipped_hash(method))
    assert hashes[0] != hashes[1] == hashes[2]
    instances = collection(folder, "Grids")[:1]
    assert len({jobs_of(instances, ["bp"], 1.0, 0, files)[0][0].key("") for files in hashes}) == 2


def test_instances_bring_their_known_scores_to_training(folder: Path) -> None:
    source = read_source(collection(folder, "Grids")[:3])
    assert source.text == "3 models of Grids"
    assert [i.map_log_score for i in source.instances if i] == [
        i.map_log_score for i in collection(folder, "Grids")[:3]
    ]


def test_mistakes(folder: Path, tmp_path: Path, capsys) -> None:
    assert main(["experiment", "uai", "--data", str(folder), "--methods", "BPP"]) == 2
    assert "there is no method 'BPP'" in capsys.readouterr().err
    assert main(["experiment", "uai", "--data", str(folder), "--train", "maybe"]) == 2
    assert main(["experiment", "uai", "--data", str(folder), "--parts", "all"]) == 2
    assert main(["experiment", "uaii"]) == 2
    assert "choose from: " in capsys.readouterr().err
    broken = tmp_path / "mine.toml"
    broken.write_text('task = "MAP"\n')
    assert is_map(str(broken))
    with pytest.raises(FormatError, match="not a MAP experiment"):
        load_map(str(broken))
    assert unavailable("bpnn") is not None
    assert unavailable("bp") is None


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("EQUIFACTOR_DATA"), reason="EQUIFACTOR_DATA is not set")
def test_the_public_models(tmp_path: Path, capsys) -> None:
    command = ["experiment", "uai", "--quick", "--out", str(tmp_path), "--collections", "Grids,DBN"]
    assert main([*command, "--methods", "BP,auto,FE-NBP", "--parts", "split,doubles"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    for line in ("BP", "auto", "FE-NBP"):
        assert set(results["cells"]["split"][line]) == {"Grids", "DBN"}
    assert results["cells"]["split"]["auto"]["Grids"]["error"] < results["cells"]["split"]["BP"]["Grids"]["error"]
