"""Work on a real Dask cluster: workers and schedulers that die, other versions, and a missing cluster."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_processes import Dask

from equifactor import OptionError
from equifactor.base.errors import ClusterError
from equifactor.workers.cluster import DaskFleet
from equifactor.workers.fleet import fleet_at

pytest.importorskip("distributed")


def test_outcomes_come_back_and_only_a_few_are_under_way(dask: Dask) -> None:
    dask.scheduler()
    dask.worker("one")
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(-1, 100):
            taken.append(n)
            yield n

    with DaskFleet(dask.address) as fleet:
        outcomes = fleet.outcomes(math.sqrt, items())
        found = dict([next(outcomes)])
        assert len(taken) < 40
        found.update(outcomes)
        with pytest.raises(ValueError, match="domain"):
            found.pop(-1)()
        assert {n: outcome() for n, outcome in found.items()} == {n: math.sqrt(n) for n in range(100)}


def test_a_worker_of_another_version_is_refused(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    dask.scheduler()
    dask.worker("one")
    monkeypatch.setattr("equifactor.workers.cluster.code_version", lambda: "0.0+another")
    with DaskFleet(dask.address) as fleet:
        ((_, outcome),) = fleet.outcomes(abs, [-1])
        with pytest.raises(ClusterError, match=r"has equifactor .*, but this command is 0\.0\+another"):
            outcome()


def test_a_scheduler_without_equifactor_is_refused(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.modules['equifactor'] = None; from dask.__main__ import main; sys.exit(main())"
    dask.program = ("-c", program)
    dask.scheduler()
    dask.worker("one")
    with DaskFleet(dask.address) as fleet:
        ((_, outcome),) = fleet.outcomes(abs, [-1])
        with pytest.raises(ClusterError, match="scheduler or a worker cannot load this work"):
            outcome()


def test_no_cluster_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.workers.cluster._CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match="no Dask scheduler answers at this address"):
        DaskFleet("tcp://127.0.0.1:9")
    with pytest.raises(ClusterError, match="no Dask scheduler answers at this address"):
        DaskFleet("nonsense://x")
    with pytest.raises(ClusterError, match="no such file"):
        DaskFleet(str(tmp_path / "gone.json"))
    (tmp_path / "wrong.json").write_text("[]")
    with pytest.raises(ClusterError, match="it has no address"):
        DaskFleet(str(tmp_path / "wrong.json"))


def test_a_file_that_is_not_json_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.workers.cluster.time.sleep", lambda _: pytest.fail("it waits"))
    for n, content in enumerate((b"MARKOV 2", b"[[" * 100_000, b"\xff\x00{}")):
        path = tmp_path / f"{n}.uai"
        path.write_bytes(content)
        with pytest.raises(ClusterError, match=f"{n}.uai: this is not a file that .* writes: it is not JSON"):
            DaskFleet(str(path))


def test_a_file_that_is_half_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scheduler.json"
    path.write_text('{"type": "Sched')
    monkeypatch.setattr("equifactor.workers.cluster.time.sleep", lambda _: path.write_text('{"address": 1}'))
    with pytest.raises(ClusterError, match="it has no address"):
        DaskFleet(str(path))
    monkeypatch.undo()
    monkeypatch.setattr("equifactor.workers.cluster._WRITING_SECONDS", 0)
    path.write_text('{"type": "Sched')
    with pytest.raises(ClusterError, match="it is not JSON"):
        DaskFleet(str(path))


def test_without_the_extra_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OptionError, match=r"install \"equifactor\[cluster\]\""), fleet_at("tcp://127.0.0.1:9"):
        pass


def test_dask_is_imported_when_it_is_asked_for() -> None:
    program = "import sys, equifactor.workers.fleet, equifactor.evaluation; print('distributed' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert ran.stdout == "False\n"
