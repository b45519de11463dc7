"""The command, in this process or in a separate process, and small models for it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from equifactor import FactorGraph, read_graph
from equifactor.cli import main
from equifactor.formats import write_graph
from equifactor.generators import ising_grid
from equifactor.symmetry import Relabelling, relabel


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs `command("solve", "grid.uai")` in a temporary folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Ran:
        status = main(list(args))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(int(status), captured.out, captured.err)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., contextlib.AbstractContextManager[subprocess.Popen[str]]]:
    """Return a function that runs `process("solve", "grid.uai")` as a separate process, killed after ten minutes."""

    @contextlib.contextmanager
    def start(*args: str) -> Iterator[subprocess.Popen[str]]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-m", "equifactor", *args], cwd=tmp_path, text=True, **pipes) as started:
            watchdog = threading.Timer(600.0, started.kill)
            watchdog.start()
            try:
                yield started
            finally:
                watchdog.cancel()
                started.kill()

    return start


@pytest.fixture
def grid(tmp_path: Path) -> FactorGraph:
    """Return a 4x4 spin glass, and write it to `grid.uai`."""
    graph = ising_grid(4, 4, seed=1)
    write_graph(graph, tmp_path / "grid.uai")
    return graph


@pytest.fixture
def other(grid: FactorGraph, tmp_path: Path) -> FactorGraph:
    """Write the grid with other numbers to `other.uai`, and return it."""
    graph = relabel(read_graph(tmp_path / "grid.uai"), Relabelling.random(grid, seed=1))
    write_graph(graph, tmp_path / "other.uai")
    return graph


@pytest.fixture
def contradiction(tmp_path: Path) -> None:
    """Write `zero.uai`, in which the second row of a table is zero, and `zero.evid`, which observes that row."""
    (tmp_path / "zero.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n 0.5 0.5\n 0 0\n")
    (tmp_path / "zero.evid").write_text("1 0 1\n")
