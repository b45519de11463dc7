"""`equifactor convert`: one model format to another."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, SparseTable
from equifactor.base import files
from equifactor.formats import read_graph, write_graph


@pytest.mark.parametrize("suffix", ["lg", "fg", "uai.gz", "lg.xz"])
def test_there_and_back(command, grid: FactorGraph, tmp_path: Path, suffix: str) -> None:
    assert command("convert", "grid.uai", f"other.{suffix}").status == 0
    assert command("convert", f"other.{suffix}", "back.uai", "--time-limit", "inf").status == 0
    back = read_graph(tmp_path / "back.uai")
    assert back.structure.same_as(grid.structure)
    assert back.log_phi == pytest.approx(grid.log_phi, abs=1e-9)


def test_to_stdout_and_by_name(command, grid: FactorGraph, tmp_path: Path) -> None:
    assert command("convert", "grid.uai", "-", "--to", "fg").out.startswith("40\n")
    assert command("convert", "grid.uai", "odd.txt", "--to", "fg").status == 0
    assert command("convert", "odd.txt", "back.uai", "--from", "fg").status == 0
    ran = command("convert", "grid.uai", "odd.unknown")
    assert ran.status == 3
    assert "does not belong to a known format" in ran.err
    assert command("convert", "grid.uai", "no/folder/x.uai").status == 3


def test_looks_at_the_target_before_it_reads(command, tmp_path: Path) -> None:
    for target, words in (
        ("out.foo", "the suffix does not belong to a known format"),
        ("missing/out.uai", "no folder"),
        (".", "does not belong to a known format"),
    ):
        ran = command("convert", "missing.uai", target)
        assert ran.status == 3
        assert words in ran.err


def test_names_the_file_that_cannot_hold_the_model(command, grid: FactorGraph) -> None:
    ran = command("convert", "grid.uai", "grid.cnf")
    assert ran.status == 3
    assert ran.err.startswith(
        "equifactor: grid.cnf: Factor 16 over 2 variables has several different nonzero potentials"
    )
    ran = command("convert", "grid.uai", "-", "--to", "cnf")
    assert ran.err.startswith("equifactor: <stdout>: Factor 16")


SUFFIXES = ["uai", "lg", "fg", "wcsp", "cnf", "lg.gz", "fg.xz"]


def large(kind: str, bits: int) -> FactorGraph:
    """Return one table of 2^bits entries, which takes seconds to write. For a CNF half of the entries are zero."""
    table = np.random.default_rng(0).random(2**bits)
    return FactorGraph([2] * bits, [(range(bits), (table < 0.5).astype(float) if kind == "cnf" else table + 0.1)])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
class TestGivesUp:
    """Ctrl-C and the time limit in a long conversion: one sentence is printed, and the target does not change."""

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_time_limit_that_has_passed(self, command, tmp_path: Path, suffix: str) -> None:
        write_graph(large(suffix, 14), tmp_path / "in.uai")
        (tmp_path / f"out.{suffix}").write_text("old")
        before = signal.getsignal(signal.SIGALRM)
        ran = command("convert", "in.uai", f"out.{suffix}", "--time-limit", "0")
        if ran.status == 0:  # written within the shortest time that an alarm can have
            assert (tmp_path / f"out.{suffix}").read_bytes() != b"old"
        else:
            assert ran.status == 1
            assert ran.err == (
                f"equifactor: out.{suffix} was not written within the time limit of 0 s; "
                "raise --time-limit or leave it out\n"
            )
            assert (tmp_path / f"out.{suffix}").read_text() == "old"
        assert signal.getsignal(signal.SIGALRM) == before
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert not list(tmp_path.glob(".*"))

    def test_time_limit_that_is_long_enough(self, command, grid: FactorGraph, tmp_path: Path) -> None:
        assert command("convert", "grid.uai", "out.fg", "--time-limit", "60").status == 0
        assert read_graph(tmp_path / "out.fg").num_factors == grid.num_factors
        ran = command("convert", "grid.uai", "out.fg", "--time-limit", "-1")
        assert ran.status == 2

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_ctrl_c_after_the_first_piece(
        self, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
    ) -> None:
        write_all = files._write_all

        def press_ctrl_c(raw: BinaryIO, chunks: Iterable[bytes], suffix: str) -> None:
            def pieces() -> Iterator[bytes]:
                for chunk in chunks:
                    yield chunk
                    signal.raise_signal(signal.SIGINT)

            write_all(raw, pieces(), suffix)

        write_graph(large(suffix, 4), tmp_path / "in.uai")
        (tmp_path / f"out.{suffix}").write_text("old")
        monkeypatch.setattr(files, "_write_all", press_ctrl_c)
        ran = command("convert", "in.uai", f"out.{suffix}")
        assert (ran.status, ran.err) == (130, "equifactor: interrupted\n")
        assert (tmp_path / f"out.{suffix}").read_text() == "old"
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.slow
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_ctrl_c_while_it_writes(self, process, tmp_path: Path, suffix: str) -> None:
        write_graph(large(suffix, 23), tmp_path / "in.lg")
        (tmp_path / f"out.{suffix}").write_text("old")
        with process("convert", "in.lg", f"out.{suffix}") as running:
            while not list(tmp_path.glob(".*.tmp")) and running.poll() is None:
                time.sleep(0.02)
            time.sleep(0.5)
            running.send_signal(signal.SIGINT)
            _, err = running.communicate()
        assert running.returncode == 130, err
        assert err.endswith("equifactor: interrupted\n")
        assert (tmp_path / f"out.{suffix}").read_text() == "old"
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.slow
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_deadline_while_it_writes(self, process, tmp_path: Path, suffix: str) -> None:
        write_graph(large(suffix, 23), tmp_path / "in.lg")
        (tmp_path / f"out.{suffix}").write_text("old")
        with process("convert", "in.lg", f"out.{suffix}", "--time-limit", "6") as running:
            _, err = running.communicate()
        assert running.returncode == 1, err
        assert "was not written within the time limit of 6 s" in err
        assert (tmp_path / f"out.{suffix}").read_text() == "old"
        assert not list(tmp_path.glob(".*"))


def test_kinds_of_factors_there_and_back(command, tmp_path: Path) -> None:
    clauses = [([0, 1, 2], Clause()), ([2, 3], Clause([False, True])), ([1], [0.25, 0.5])]
    graph = FactorGraph([2] * 4, clauses, name="formula")
    write_graph(graph, tmp_path / "formula.cnf")
    assert command("convert", "formula.cnf", "again.cnf").status == 0
    assert read_graph(tmp_path / "again.cnf") == graph
    states = np.indices([2] * 4).reshape(4, -1).T
    for suffix in ("uai", "lg", "fg", "wcsp"):
        assert command("convert", "formula.cnf", f"other.{suffix}").status == 0
        back = read_graph(tmp_path / f"other.{suffix}")
        assert np.exp(back.log_score(states)) == pytest.approx(np.exp(graph.log_score(states)), abs=1e-6)
        assert command("convert", f"other.{suffix}", "back.cnf").status == 0


def test_a_clause_too_long_for_a_table(command, tmp_path: Path) -> None:
    write_graph(FactorGraph([2] * 25, [(range(25), Clause())]), tmp_path / "long.cnf")
    ran = command("convert", "long.cnf", "long.uai")
    assert ran.status == 3
    assert (
        "long.uai: factor 0 is a clause over 25 variables. A .uai file needs its dense table, which has 2^25 entries"
        in ran.err
    )
    assert not (tmp_path / "long.uai").exists()
    assert command("convert", "long.cnf", "long.wcsp").status == 0
    assert read_graph(tmp_path / "long.wcsp").factor(0) == SparseTable([[0] * 25], [-np.inf], 0.0)
