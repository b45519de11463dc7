"""`evaluate` on a real cluster gives the same rows as on one machine, even if workers die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from dask_processes import Dask, wait_until

from equifactor.base.errors import ClusterError
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation import evaluate
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.row_store import Row
from equifactor.evaluation.shipped_jobs import answer, ship
from equifactor.formats import write_graph
from equifactor.generators import ising_grid
from equifactor.workers import shipped_files

pytestmark = pytest.mark.usefixtures("plain_numpy")

distributed = pytest.importorskip("distributed")

SOLVERS = ["bp", "brute", "bp(damping=0.5)"]


def facts(rows: list[Row]) -> list[Row]:
    """Return the rows without the fields that differ between runs."""
    times = ("seconds", "cpu_seconds", "compile_seconds", "read_seconds", "overrun")
    return [{k: v for k, v in row.items() if k not in times} for row in rows]


def keys(folder: Path) -> list[str]:
    return [json.loads(line)["key"] for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_a_worker_that_dies_costs_no_row_and_doubles_none(instances: list[Instance], tmp_path: Path) -> None:
    here = evaluate(instances, "MAR", SOLVERS, tmp_path / "here", reference="brute")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        killed: list[int] = []

        def kill(done: int, total: int | None, note: str) -> None:
            if done >= 2 and not killed:
                killed.append(cluster.workers[0].pid)
                os.kill(killed[0], signal.SIGKILL)

        there = evaluate(
            instances, "MAR", SOLVERS, tmp_path / "there", reference="brute", cluster=cluster.scheduler_address,
            progress=kill,
        )  # fmt: skip
    assert killed
    assert facts(there) == facts(here)
    assert sorted(keys(tmp_path / "there")) == sorted(keys(tmp_path / "here"))
    assert len(set(keys(tmp_path / "there"))) == len(keys(tmp_path / "there"))


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_command_and_the_next_goes_on(
    instances: list[Instance], tmp_path: Path, dask: Dask
) -> None:
    models, out = instances[0].path.parents[1], tmp_path / "out"
    words = [sys.executable, "-m", "equifactor", "evaluate", str(models), "--task", "PR", "-o", str(out)]
    words += [f"--solver={solver}" for solver in SOLVERS] + ["--cluster", str(dask.file)]
    scheduler = dask.scheduler()
    dask.worker("one")
    wait_until(dask.file.is_file)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        wait_until(lambda: (out / "rows.jsonl").is_file() and len(keys(out)) >= 2)
        scheduler.kill()
        stdout, stderr = command.communicate(timeout=600)
    assert command.returncode == 3, stderr
    said = [line for line in stderr.splitlines() if line.startswith("equifactor: ")]
    assert len(said) == 1
    assert "the Dask scheduler is gone" in said[0]
    assert "Traceback" not in stderr
    assert stdout == ""
    before = keys(out)
    assert 2 <= len(before) < 9
    dask.stop()
    dask.file.unlink()
    dask.scheduler()
    dask.worker("two")
    wait_until(dask.file.is_file)
    again = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert f"{len(before)} runs are already finished" in again.stderr
    after = keys(out)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 9


@pytest.mark.slow
def test_ctrl_c_takes_back_what_has_not_begun(tmp_path: Path, dask: Dask) -> None:
    for n in range(8):
        write_graph(ising_grid(8, 8, seed=n), tmp_path / "models" / f"g{n}.uai") if n else (tmp_path / "models").mkdir()
    dask.scheduler()
    dask.worker("one")
    words = ["evaluate", str(tmp_path / "models"), "--solver", "gibbs(samples=100000000)", "--time-limit", "1"]
    command = subprocess.Popen(
        [sys.executable, "-m", "equifactor", *words, "--cluster", dask.address, "-o", str(tmp_path / "out")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: (tmp_path / "out" / "rows.jsonl").is_file() and len(keys(tmp_path / "out")) >= 1)
    command.send_signal(signal.SIGINT)
    _, stderr = command.communicate(timeout=600)
    assert command.returncode == 130
    assert "Traceback" not in stderr
    with distributed.Client(dask.address, set_as_default=False) as client:
        wait_until(lambda: not any(client.processing().values()))


# ---- files of a job ----------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], Row]:
    """Ship a job, remove its files, and answer it."""

    def run(job: Job) -> Row:
        shipped = ship(job)
        for path in shipped.files:
            path.rename(path.with_name(f"{path.name}.away"))
        return answer(shipped)

    return run


def test_the_worker_needs_none_of_our_files(
    instances: list[Instance], tmp_path: Path, elsewhere: Callable[[Job], Row], write_model: Callable[..., str]
) -> None:
    weights = write_model(tmp_path / "mine.safetensors", "fe-nbp", hidden=8)
    (tmp_path / "evid").mkdir()
    (tmp_path / "evid" / "g0.uai").write_text("1 0 1\n")  # the name of the model, in another folder
    seen = replace(instances[0], evidence_path=tmp_path / "evid" / "g0.uai")
    (job,) = make_jobs([seen], "MAR", [weights], 10.0)
    row = elsewhere(job)
    assert row["answered"], row["message"]


def test_messages_name_the_files_of_the_user(tmp_path: Path, elsewhere: Callable[[Job], Row]) -> None:
    (tmp_path / "bad.uai").write_text("MARKOV\n1\n2\n1\n1 7\n2 1 2\n")
    jobs = make_jobs([Instance("x", name, tmp_path / f"{name}.uai") for name in ("bad", "gone")], "PR", ["bp"], 1.0)
    bad, gone = (elsewhere(job) for job in jobs)
    assert bad["status"] == gone["status"] == "error"
    assert bad["message"].startswith(f"{tmp_path / 'bad.uai'}:5")
    assert gone["message"].startswith(f"{tmp_path / 'gone.uai'}: the model of x/gone is missing")


def test_a_large_model_is_read_where_it_is(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_files, "MAX_SENT", 10)
    (job,) = make_jobs(instances[:1], "PR", ["brute"], 5.0)
    shipped = ship(job)
    assert shipped.files == {}
    assert answer(shipped)["status"] == "exact"
    instances[0].path.unlink()
    with pytest.raises(ClusterError, match="Put the file on a file system that the workers share"):
        answer(shipped)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_too_much_memory_costs_a_row_and_not_the_worker(tmp_path: Path) -> None:
    write_graph(ising_grid(26, 26, seed=0), tmp_path / "g.uai")
    big = Instance("x", "g", tmp_path / "g.uai")
    jobs = make_jobs([big], "PR", ["exact(memory_limit=8)"], 3600.0, memory_limit=0.4)
    small = Job(big, "bp", Task.PR, 600.0, memory_limit=8.0)
    assert answer(ship(jobs[0]))["status"] in ("out-of-memory", "crashed", "too-large")
    assert answer(ship(small))["answered"]
