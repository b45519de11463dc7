"""Large runs on a Dask cluster, whose workers are stood in for by threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.large import large_cluster

distributed = pytest.importorskip("distributed")


def test_the_environment_of_torchrun() -> None:
    workers = ["tcp://10.0.0.1:40", "tcp://10.0.0.1:41", "tls://10.0.0.2:40"]
    parts = large_cluster._parts(workers, "10.0.0.1:5000", "{}", "stop")
    assert [part.environment["RANK"] for part in parts] == ["0", "1", "2"]
    assert [part.environment["LOCAL_RANK"] for part in parts] == ["0", "1", "0"]
    assert [part.environment["LOCAL_WORLD_SIZE"] for part in parts] == ["2", "2", "1"]
    assert {part.environment["MASTER_ADDR"] for part in parts} == {"10.0.0.1"}
    assert {part.environment["MASTER_PORT"] for part in parts} == {"5000"}


class Cluster:
    """One worker, whose tasks run at once in this process."""

    def __init__(self) -> None:
        self.client = self
        self.loop = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def nthreads(self) -> dict[str, int]:
        return {"tcp://127.0.0.1:1": 1}

    def wait_for_workers(self, count: int) -> None:
        pass

    def submit(self, work: Any, *given: Any, **_: Any) -> Any:
        answer = work(*given)
        return SimpleNamespace(status="finished", result=lambda: answer)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event(threading.Event):
        def __init__(self, name: str, client: Any = None) -> None:
            super().__init__()
            self.name = name

    monkeypatch.setattr(large_cluster, "DaskFleet", lambda address: Cluster())
    monkeypatch.setattr(distributed, "Event", Event)
    monkeypatch.setattr(distributed, "as_completed", lambda futures, **_: iter(futures))
    monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(address="tcp://127.0.0.1:1"))


@contextlib.contextmanager
def standing_in(monkeypatch: pytest.MonkeyPatch, status: int) -> Iterator[None]:
    """Let processes be runs of `work` in this process, or end with a status."""

    def started(words: list[str], env: dict[str, str], stdout: Any, stderr: Any) -> Any:
        assert env["WORLD_SIZE"] == "1"
        if status == 0:
            with contextlib.redirect_stdout(stdout), monkeypatch.context() as patch:
                patch.setattr(large_cluster.sys, "argv", ["-c", words[-1]])
                large_cluster.work()
        else:
            stderr.write("no memory")
        return SimpleNamespace(poll=lambda: status, wait=lambda: status)

    with monkeypatch.context() as patch:
        patch.setattr(large_cluster.subprocess, "Popen", started)
        yield


def test_the_command_runs_on_a_cluster(
    command: Any, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = np.array([[0, 1], [1, 2], [3, 1], [2, 4]], np.int32)
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "priors.npy", np.full(5, 0.3))
    words = ("large", "edges.npy", "--table", "0.7 0.3 0.2 0.8", "--priors", "priors.npy", "--cluster", "tcp://a:1")
    with standing_in(monkeypatch, 0):
        ran = command(*words, "-o", "beliefs.npy")
    assert ran.status == 0, ran.err
    assert "4 edges, 5 variables: converged after" in ran.err
    expected = ef.large.solve(edges, [[0.7, 0.3], [0.2, 0.8]], priors=0.3)
    np.testing.assert_array_equal(np.load(tmp_path / "beliefs.npy"), expected.beliefs)
    with standing_in(monkeypatch, 3):
        ran = command(*words, "-o", "beliefs.npy")
    assert ran.status != 0
    assert "the process ended with status 3. Its last words: no memory" in ran.err
    assert "there is no such file" in command("large", "rmat4", *words[2:], "-o", "beliefs.npy").err
