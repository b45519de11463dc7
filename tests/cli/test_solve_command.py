"""`equifactor solve`: answers, statuses, bad input and interrupts."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from equifactor import BayesianNetwork, FactorGraph, solve
from equifactor.formats import write_graph
from equifactor.formats.results import read_map, read_mar, read_pr
from equifactor.generators import ising_grid

KEYS = {
    "model", "task", "solver", "status", "log_z", "log_score", "lower_bound", "upper_bound", "assignment",
    "marginals", "iterations", "seconds", "version",
}  # fmt: skip


ENDLESS = "bp(tolerance=1e-12, iterations=1000000000)"


@pytest.fixture
def endless(tmp_path: Path) -> None:
    """Write `glass.uai`, on which undamped belief propagation never settles."""
    write_graph(ising_grid(5, 5, seed=17), tmp_path / "glass.uai")


def test_marginals_by_auto_are_the_default(command, grid: FactorGraph, tmp_path: Path) -> None:
    command("solve", "grid.uai")  # The first run of all may report that it compiles kernels.
    ran = command("solve", "grid.uai")
    assert (ran.status, ran.err) == (0, "")
    (tmp_path / "answer").write_text(ran.out)
    expected = solve(grid, "MAR", "brute").marginals
    assert expected is not None
    np.testing.assert_allclose(read_mar(tmp_path / "answer").values, expected.values, rtol=1e-9)


def test_pr_is_in_log10_and_map_is_an_assignment(command, grid: FactorGraph, tmp_path: Path) -> None:
    assert command("solve", "grid.uai", "--task", "PR", "-o", "answer.PR").status == 0
    assert read_pr(tmp_path / "answer.PR") == pytest.approx(solve(grid, "PR", "brute").log_z)
    assert float((tmp_path / "answer.PR").read_text().split()[1]) == pytest.approx(
        solve(grid, "PR", "brute").log_z / math.log(10)  # type: ignore[operator]
    )
    assert command("solve", "grid.uai", "--task", "MAP", "-o", "answer.MAP").status == 0
    assert grid.log_score(read_map(tmp_path / "answer.MAP")) == pytest.approx(solve(grid, "MAP", "brute").log_score)


def test_counts_have_all_digits(command, tmp_path: Path) -> None:
    (tmp_path / "a.cnf").write_text("p cnf 20000 1\n1 2 0\n")
    ran = command("solve", "a.cnf", "--task", "PR", "--count")
    assert (ran.status, len(ran.out.strip())) == (0, 6021)
    number = 0
    for place in range(0, len(ran.out.strip()), 4000):
        part = ran.out.strip()[place : place + 4000]
        number = number * 10 ** len(part) + int(part)
    assert number == 3 * 2**19998
    (tmp_path / "b.cnf").write_text("p cnf 2 2\n1 2 0\n-1 0\n")
    assert json.loads(command("solve", "b.cnf", "--task", "PR", "--count", "--json").out)["count"] == "1"
    assert command("solve", "b.cnf", "--count").status == 2
    for ignored in (["--solver", "bp"], ["--query", "1"], ["--joint", "1,2"]):
        ran = command("solve", "b.cnf", "--task", "PR", "--count", *ignored)
        assert ran.status == 2
        assert f"{ignored[0]} has no meaning with --count" in ran.err
    (tmp_path / "c.cnf").write_text("c t pmc\np cnf 3 1\nc p show 1 0\n1 2 3 0\n")
    assert command("solve", "c.cnf", "--task", "PR", "--count").out == "2\n"


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_json_has_every_key_and_only_finite_numbers(command, grid: FactorGraph, task: str) -> None:
    ran = command("solve", "grid.uai", "--json", "--task", task, "--solver", "exact")
    assert ran.status == 0

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    row = json.loads(ran.out, parse_constant=refuse)
    assert set(row) >= KEYS
    assert (row["model"], row["task"], row["solver"]) == ("grid.uai", task, "exact")
    assert row["status"] in ("exact", "optimal")
    assert row["assignment" if task == "MAP" else "log_z"] is not None


def test_many_models_give_one_answer_each_in_order(command, tmp_path: Path) -> None:
    graphs = ising_grid(2, 3, count=4, seed=5)
    for n, graph in enumerate(graphs):
        write_graph(graph, tmp_path / f"{n}.uai")
    names = [f"{n}.uai" for n in (2, 0, 3, 1)]
    rows = [json.loads(line) for line in command("solve", *names, "--task", "PR", "--json").out.splitlines()]
    assert [row["model"] for row in rows] == names
    for row, n in zip(rows, (2, 0, 3, 1), strict=True):
        assert row["log_z"] == pytest.approx(solve(graphs[n], "PR", "brute").log_z)
    assert command("solve", *names, "--task", "PR").out.count("PR\n") == 4


def test_evidence_for_all_models_or_for_each(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "a.evid").write_text("1 0 1\n")
    (tmp_path / "b.evid").write_text("1\n2 0 0 5 1\n")
    a, b = (solve(grid, "PR", evidence=e).log_z for e in ({0: 1}, {0: 0, 5: 1}))

    def log_z(*flags: str) -> list[float]:
        ran = command("solve", "grid.uai", "grid.uai", "--task", "PR", "--json", *flags)
        return [json.loads(line)["log_z"] for line in ran.out.splitlines()]

    assert log_z("-e", "a.evid") == pytest.approx([a, a])
    assert log_z("-e", "a.evid", "--evidence", "b.evid") == pytest.approx([a, b])
    ran = command("solve", "grid.uai", "-e", "a.evid", "-e", "b.evid")
    assert ran.status == 2
    assert "found 2" in ran.err


def test_stdin_and_compressed_models(
    command, grid: FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (tmp_path / "grid.uai").read_bytes()
    plain = command("solve", "grid.uai", "--task", "PR").out
    (tmp_path / "packed.uai.gz").write_bytes(gzip.compress(text))
    assert command("solve", "packed.uai.gz", "--task", "PR").out == plain
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert command("solve", "-", "--task", "PR").out == plain


def test_format_overrides_the_suffix(command, grid: FactorGraph, tmp_path: Path) -> None:
    write_graph(grid, tmp_path / "grid.txt", format="fg")
    assert command("solve", "grid.txt", "--task", "MAP", "--format", "fg").out.startswith("MAP\n16 ")
    assert command("solve", "grid.txt", "--format", "nonsense").status == 2


def test_time_limit_gives_the_answer_so_far(command, endless: None) -> None:
    flags = ("solve", "glass.uai", "--solver", ENDLESS, "--time-limit", "0.2")
    ran = command(*flags)
    assert ran.status == 0
    assert ran.out.startswith("MAR\n25 ")
    assert "glass.uai: time-limit:" in ran.err
    assert command(*flags, "--strict").status == 1


def test_iteration_limit_is_noted_and_strict_exits_1(command, grid: FactorGraph) -> None:
    flags = ("solve", "grid.uai", "--solver", "bp(iterations=1)")
    ran = command(*flags)
    assert (ran.status, ran.out[:4]) == (0, "MAR\n")
    assert "grid.uai: iteration-limit:" in ran.err
    ran = command(*flags, "--strict")
    assert (ran.status, ran.out[:4]) == (1, "MAR\n")
    assert command("solve", "grid.uai", "--strict").status == 0


def test_too_large_has_no_answer_but_a_sentence_and_a_row(command, grid: FactorGraph, tmp_path: Path) -> None:
    flags = ("solve", "grid.uai", "--solver", "brute(limit=10)")
    ran = command(*flags)
    assert (ran.status, ran.out) == (1, "")  # a script must notice that there is no answer
    assert "too-large" in ran.err
    ran = command(*flags, "--json")
    assert ran.status == 1
    row = json.loads(ran.out)
    assert (row["status"], row["marginals"]) == ("too-large", None)
    (tmp_path / "answer").write_text("old")
    assert command(*flags, "-o", "answer").status == 1  # the file would be missing its answer
    assert (tmp_path / "answer").read_text() == "old"


def test_evidence_of_probability_zero_is_a_status(command, contradiction: None) -> None:
    flags = ("solve", "zero.uai", "-e", "zero.evid")
    ran = command(*flags)
    assert (ran.status, ran.out) == (1, "")
    assert "zero-probability" in ran.err
    ran = command(*flags, "--task", "PR")
    assert (ran.status, ran.out) == (0, "PR\n-inf\n")  # ln Z is known
    assert json.loads(command(*flags, "--task", "PR", "--json").out)["log_z"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--solver", "nope"], "There is no solver 'nope'; choose from: auto"),
        (["--solver", "bp(dampin=0.5)"], "did you mean damping?"),
        (["--solver", "bp(damping=2)"], "below 1"),
        (["--solver", "bp(damping"], "Cannot read the solver"),
        (["--task", "MARR"], "The tasks are MAR (marginals)"),
        (["--time-limit", "-1"], "time limit"),
        (["--time-limit", "soon"], "--time-limit"),
        (["--device", "tpu9000", "--solver", "bp"], "device"),
        (["--dtype", "float16"], "float32 or float64"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_wrong_usage_exits_2_with_one_sentence(command, grid: FactorGraph, flags: list[str], words: str) -> None:
    ran = command("solve", "grid.uai", *flags)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err
    assert ran.err.startswith("equifactor: ")
    assert ran.err.count("\n") == 1


def test_no_model_exits_2(command) -> None:
    assert command("solve").status == 2


BAD_MODELS = {
    "empty.uai": b"",
    "junk.uai": bytes(range(256)) * 4,
    "words.uai": b"MARKOV\n2\n2 2\n1\n2 0 1\n4\n 0.5 half 0 0\n",
    "short.uai": b"MARKOV\n2\n2 2\n1\n2 0 1\n4\n 0.5 0.5 0\n",
    "negative.uai": b"MARKOV\n1\n2\n1\n1 0\n2\n 0.5 -0.5\n",
    "nan.uai": b"MARKOV\n1\n2\n1\n1 0\n2\n 0.5 nan\n",
    "scope.uai": b"MARKOV\n1\n2\n1\n1 7\n2\n 0.5 0.5\n",
    "repeated.uai": b"MARKOV\n2\n2 2\n1\n2 0 0\n4\n1 1 1 1\n",
    "huge.uai": b"MARKOV\n1000000000000\n2 2\n",
    "huge-table.uai": (
        b"MARKOV\n40\n" + b"2 " * 40 + b"\n1\n40 " + b" ".join(b"%d" % i for i in range(40)) + b"\n1099511627776\n1 1\n"
    ),
    "broken.uai.gz": gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1\n" * 50)[:-20],
}  # fmt: skip


@pytest.mark.parametrize("name", [*BAD_MODELS, "missing.uai", "folder.uai"])
@pytest.mark.parametrize("subcommand", ["solve", "info", "convert"])
def test_bad_model_exits_3_with_one_sentence(command, tmp_path: Path, name: str, subcommand: str) -> None:
    (tmp_path / "folder.uai").mkdir()
    if name in BAD_MODELS:
        (tmp_path / name).write_bytes(BAD_MODELS[name])
    (tmp_path / "old.uai").write_text("old")
    flags = {"solve": ["-o", "old.uai"], "info": [], "convert": ["old.uai"]}[subcommand]
    ran = command(subcommand, name, *flags)
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith(f"equifactor: {name}:")
    assert ran.err.count("\n") == 1
    assert (tmp_path / "old.uai").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir() if "partial" in p.name or "tmp" in p.name) == []


@pytest.mark.parametrize("text", ["1 99 0", "1 0 9", "2 0 0 0 1", "2 0 1", "one"])
def test_bad_evidence_names_its_file(command, grid: FactorGraph, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.evid").write_text(text)
    ran = command("solve", "grid.uai", "-e", "bad.evid")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("equifactor: bad.evid")


@pytest.mark.parametrize("target", ["no/such/folder/answer", "folder"])
def test_unwritable_output_exits_3_before_any_work(command, grid: FactorGraph, tmp_path: Path, target: str) -> None:
    (tmp_path / "folder").mkdir()
    ran = command("solve", "grid.uai", "-o", target)
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith(f"equifactor: {target}: cannot write this file")


def test_some_models_fail_and_the_other_answers_are_kept(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "junk.uai").write_bytes(BAD_MODELS["junk.uai"])
    ran = command("solve", "grid.uai", "junk.uai", "grid.uai", "--task", "PR")
    assert ran.status == 3
    assert ran.out.count("PR\n") == 2
    (tmp_path / "answer").write_text("old")
    ran = command("solve", "grid.uai", "junk.uai", "--task", "PR", "-o", "answer")
    assert ran.status == 3
    assert (tmp_path / "answer").read_text() == "old"
    assert (tmp_path / "answer.partial").read_text().startswith("PR\n")
    assert "1 of 2 models were answered, see answer.partial" in ran.err


def test_ctrl_c_at_the_end_of_a_solved_run_stops_before_the_next_model(
    command, grid: FactorGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from equifactor.solvers.elimination.exact import Exact

    run = Exact.run

    def interrupted_late(self, *args):
        answers = run(self, *args)
        signal.raise_signal(signal.SIGINT)
        return answers

    monkeypatch.setattr(Exact, "run", interrupted_late)
    ran = command("solve", "grid.uai", "grid.uai", "--solver", "exact", "--json")
    assert ran.status == 130
    assert json.loads(ran.out)["status"] == "exact"  # one line: the second model was not started
    assert ran.err == "equifactor: interrupted after grid.uai; the models after it were not solved\n"


def _wait_for_work(pid: int, seconds: float) -> None:
    """Wait until a process has worked for some seconds of processor time, however busy the machine is."""
    times = Path(f"/proc/{pid}/stat")
    if not times.exists():
        time.sleep(10 * seconds)
        return

    def worked() -> float:
        return sum(map(int, times.read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    end = worked() + seconds
    while worked() < end:
        time.sleep(0.05)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_prints_the_best_answer_so_far_and_exits_130(process, endless: None, tmp_path: Path) -> None:
    # After the answer for the first model, everything is imported and the long model is running.
    write_graph(ising_grid(1, 1), tmp_path / "one.uai")
    with process("solve", "one.uai", "glass.uai", "--solver", ENDLESS, "--json") as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        _wait_for_work(running.pid, 1.0)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "glass.uai: interrupted:" in err
    assert json.loads(first)["status"] == "converged"
    row = json.loads(out)
    assert row["status"] == "interrupted"
    assert row["iterations"] > 0
    assert len(row["marginals"]) == 25


def test_one_of_several_samples_of_evidence(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "two.evid").write_text("2\n1 0 1\n1 0 0\n")
    ran = command("solve", "grid.uai", "-e", "two.evid")
    assert (ran.status, ran.out) == (3, "")
    assert "found 2 samples (0-1). Choose one by its number: sample=0 (--sample 0)" in ran.err
    for sample, state in ((0, 1), (1, 0)):
        ran = command("solve", "grid.uai", "-e", "two.evid", "--sample", str(sample), "--task", "MAP", "--json")
        assert json.loads(ran.out)["assignment"][0] == state
    assert "there is no sample 2" in command("solve", "grid.uai", "-e", "two.evid", "--sample", "2").err


def test_k_best_are_a_table_or_json(command, grid: FactorGraph) -> None:
    ran = command("solve", "grid.uai", "--task", "MAP", "--k", "3", "--query", "0,1")
    assert ran.out.splitlines()[0].split() == ["rank", "log", "score", "probability", "0", "1"]
    assert len(ran.out.splitlines()) == 5
    assert "No other assignment has a higher score" in ran.err
    row = json.loads(command("solve", "grid.uai", "--task", "MAP", "--k", "2", "--apart", "4", "--json").out)
    first, second = row["assignments"]
    assert sum(a != b for a, b in zip(first, second, strict=True)) >= 4
    refused = command("solve", "grid.uai", "--k", "2")
    assert (refused.status, refused.out) == (2, "")
    assert "they need --task MAP" in refused.err


def test_marginal_map_takes_names_or_a_query_file(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "grid.query").write_text("2 3 5\n")
    by_file = command("solve", "grid.uai", "--task", "MMAP", "--query", "grid.query")
    missing = command("solve", "grid.uai", "--task", "MMAP", "--query", "other.query")
    assert missing.err == "equifactor: other.query: cannot read this file: there is no such file.\n"
    assert by_file.out == command("solve", "grid.uai", "--task", "MMAP", "--query", "3,5").out
    assert by_file.out.split()[:3] == ["MMAP", "2", "3"]
    row = json.loads(command("solve", "grid.uai", "--task", "MMAP", "--query", "3,5", "--json").out)
    assert (row["status"], set(row["query"])) == ("optimal", {"3", "5"})
    assert sum(x >= 0 for x in row["assignment"]) == 2
    refused = command("solve", "grid.uai", "--task", "MMAP")
    assert (refused.status, refused.out) == (2, "")
    assert "needs --query" in refused.err


def test_action_on_a_network(command, tmp_path: Path) -> None:
    lawn = BayesianNetwork({"rain": {"no": 0.8, "yes": 0.2}, "wet": ("rain", {"no": [0.9, 0.1], "yes": [0.1, 0.9]})})
    write_graph(lawn, tmp_path / "lawn.bif")
    assert "0.800000" in command("solve", "lawn.bif", "--do", "wet=1", "--query", "rain").out
    assert "0.800000" not in command("solve", "lawn.bif", "-e", "wet=1", "--query", "rain").out
    assert command("sample", "lawn.bif", "-n", "3", "--do", "wet=1").out.count(",1\n") == 3
    write_graph(FactorGraph([2, 2], [([0, 1], [2, 1, 1, 2])]), tmp_path / "field.uai")
    refused = command("solve", "field.uai", "--do", "0=1")
    assert refused.status == 3
    assert "do acts on a Bayesian network" in refused.err


def test_an_output_replaces_no_file_that_is_read(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "e.evid").write_text("1 0 1\n")
    for output in ("./grid.uai", "e.evid"):
        before = (tmp_path / output).read_bytes()
        ran = command("solve", "grid.uai", "-e", "e.evid", "-o", output)
        assert ran.status == 2
        assert "the same command reads this file" in ran.err
        assert (tmp_path / output).read_bytes() == before
    assert command("view", "grid.uai", "--export", "./grid.uai").status == 2
