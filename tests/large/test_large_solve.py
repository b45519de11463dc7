"""Large models: the beliefs of `solve`, the same bits from every engine, limits, and checkpoints."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from triton_interpreter import needs_gpu, needs_interpreter, needs_triton, whole_numbers  # noqa: F401

import equifactor as ef
from equifactor.large import cpu_messages, large_solve

TABLES = np.array([[[0.6, 0.4], [0.3, 0.7]], [[0.9, 0.2], [0.1, 0.5]]])


RANDOM = np.exp(0.4 * np.random.default_rng(3).standard_normal((2, 4, 4)))
RANDOM_5 = np.exp(0.4 * np.random.default_rng(4).standard_normal((5, 5)))


def model(num_vars: int = 40, num_edges: int = 90, seed: int = 0) -> tuple[np.ndarray, dict[str, Any]]:
    """Return random edges, and priors and tables for them; three variables are observed."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, num_vars, (num_edges, 2)).astype(np.int32)
    edges = edges[edges[:, 0] != edges[:, 1]]
    priors = rng.random(num_vars)
    priors[:3] = [0.0, 1.0, 1.0]
    return edges, {"priors": priors, "table_of_edge": rng.integers(0, 2, len(edges))}


@pytest.mark.parametrize(("bits", "error"), [(16, 1e-4), (32, 3e-7)])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_the_beliefs_of_bp(bits: Any, error: float, damping: float) -> None:
    edges, given = model()
    settings = {"damping": damping, "iterations": 500}
    found = ef.large.solve(edges, TABLES, **given, **settings, tolerance=1e-7, bits=bits, threads=2)
    factors: list[Any] = [([i], [1.0 - p, p]) for i, p in enumerate(given["priors"])]
    factors += [(pair, TABLES[t]) for pair, t in zip(edges.tolist(), given["table_of_edge"], strict=True)]
    expected = ef.solve(ef.FactorGraph([2] * 40, factors), "MAR", "bp", tolerance=1e-10, **settings)
    assert found.status == expected.status == "converged"
    np.testing.assert_allclose(found.beliefs, [m[1] for m in expected.marginals], atol=error)
    assert found.beliefs[:3].tolist() == [0.0, 1.0, 1.0]


def model_of_states(states: int, num_vars: int = 40, num_edges: int = 90) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the same with weights of several states as priors; two variables are observed, two lack one state."""
    edges, given = model(num_vars, num_edges)
    priors = np.random.default_rng(states).random((num_vars, states))
    priors[0], priors[1], priors[2, 0], priors[3, 1] = np.eye(states)[1], np.eye(states)[0], 0.0, 0.0
    return edges, {**given, "priors": priors}


@pytest.mark.parametrize(("bits", "error"), [(16, 1e-4), (32, 3e-7)])
@pytest.mark.parametrize("states", [3, 4])
def test_the_beliefs_of_bp_with_more_states(bits: Any, error: float, states: int) -> None:
    edges, given = model_of_states(states)
    tables = RANDOM[:, :states, :states]
    found = ef.large.solve(edges, tables, **given, damping=0.2, tolerance=1e-7, bits=bits, threads=2)
    factors: list[Any] = [([i], row) for i, row in enumerate(given["priors"])]
    factors += [(pair, tables[t]) for pair, t in zip(edges.tolist(), given["table_of_edge"], strict=True)]
    expected = ef.solve(ef.FactorGraph([states] * 40, factors), "MAR", "bp", tolerance=1e-10, damping=0.2)
    assert expected.status == "converged"
    np.testing.assert_allclose(found.beliefs, np.array(expected.marginals), atol=error)
    assert found.beliefs[0].tolist() == np.eye(states)[1].tolist()
    assert found.beliefs[2, 0] == 0.0
    odds = np.log(found.beliefs[10:]) - np.log1p(-found.beliefs[10:])
    np.testing.assert_allclose(found.log_odds[10:], odds, atol=1e-4)


@pytest.mark.parametrize("states", [2, 4])
def test_threads_find_the_same_bits(states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_messages, "_EDGES", 7)  # many pieces of work
    monkeypatch.setattr(cpu_messages, "_VARIABLES", 5)
    edges, given = model() if states == 2 else model_of_states(4)
    tables = TABLES if states == 2 else RANDOM
    one, three = (ef.large.solve(edges, tables, **given, iterations=9, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one.log_odds, three.log_odds)
    assert (one.iterations, one.change) == (three.iterations, three.change)


@needs_triton
@needs_interpreter
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize(("states", "many"), [(2, False), (2, True), (4, False), (3, True)])
def test_the_interpreter_finds_the_same_bits(
    bits: Any, states: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIFACTOR_FUSED", "1")
    torch_finds_the_same_bits(bits, states, many, monkeypatch)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize(("states", "many"), [(2, False), (2, True), (4, False), (3, True)])
def test_torch_finds_the_same_bits(bits: Any, states: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIFACTOR_FUSED", "0")
    torch_finds_the_same_bits(bits, states, many, monkeypatch)


def torch_finds_the_same_bits(bits: Any, states: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.large import gpu_messages

    edges, given = model(400, 3000) if states == 2 else model_of_states(states, 100, 1100)
    tables = TABLES if states == 2 else RANDOM[:, :states, :states]
    if not many:
        del given["table_of_edge"]
        tables = tables[0]
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
    settings = {"damping": 0.3, "iterations": 6, "tolerance": 0.0, "bits": bits}
    expected = ef.large.solve(edges, tables, **given, **settings)

    def engine(device: str, *rest: Any) -> gpu_messages.GpuMessages:
        return gpu_messages.GpuMessages(*rest[:-1], device)

    monkeypatch.setattr(large_solve, "_engine", engine)
    monkeypatch.setattr(gpu_messages, "_TORCH_EDGES", 700)
    found = ef.large.solve(edges, tables, **given, **settings)
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    assert found.change == pytest.approx(expected.change, rel=1e-9)


def test_sums_of_hubs_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_messages, "_SPILLED", 2)
    leaves, hubs = 50_000, 3
    edges = np.array([(hub, hubs + leaf) for leaf in range(leaves) for hub in range(hubs)], np.int32)
    priors = np.ones(hubs + leaves)
    priors[:hubs] = 0.5
    found = ef.large.solve(edges, [[9.0, 1.0], [1.0, 9.0]], priors=priors, iterations=1, threads=2)
    np.testing.assert_allclose(found.log_odds[:hubs], leaves * np.log(9.0), rtol=1e-6)


def test_sums_of_hubs_with_more_states_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_messages, "_SPILLED", 2)
    leaves, table = 50_000, np.array([[9.0, 1.0, 2.0], [1.0, 9.0, 3.0], [1.0, 1.0, 9.0]])
    edges = np.stack((np.zeros(leaves, np.int32), np.arange(1, leaves + 1, dtype=np.int32)), axis=1)
    priors = np.tile([0.0, 1.0, 0.0], (leaves + 1, 1))
    priors[0] = 1.0
    found = ef.large.solve(edges, table, priors=priors, iterations=1, threads=2)
    np.testing.assert_allclose(found.log_odds[0], leaves * np.log([1.0 / 9.0, 9.0, 1.0 / 9.0]), rtol=1e-4)


def test_limits_and_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, given = model()
    late = ef.large.solve(edges, TABLES, **given, time_limit=0.0)
    assert (late.status, late.iterations) == ("time-limit", 0)
    np.testing.assert_allclose(late.beliefs, given["priors"], atol=1e-4)
    monkeypatch.setattr(large_solve, "_CHECKED", 8)
    with pytest.raises(ef.SolveError, match="Time ran out while the edges were read"):
        ef.large.solve(edges, TABLES, **given, time_limit=0.0)
    few = ef.large.solve(edges, TABLES, **given, iterations=2)
    assert (few.status, few.iterations) == ("iteration-limit", 2)

    def interrupt(done: int, total: int | None, note: str) -> None:
        if done >= 300:
            raise KeyboardInterrupt

    stopped = ef.large.solve(edges, TABLES, **given, threads=1, progress=interrupt)
    assert stopped.status == "interrupted"
    assert stopped.iterations == 3


@pytest.mark.parametrize("states", [2, 3])
def test_a_run_continues_after_a_kill(states: int, tmp_path: Path) -> None:
    edges, given = model() if states == 2 else model_of_states(3)
    tables = TABLES if states == 2 else RANDOM[:, :3, :3]
    settings = {**given, "iterations": 9, "tolerance": 0.0, "threads": 1}  # The calling thread reports its own work.
    expected = ef.large.solve(edges, tables, **settings)

    def fail(done: int, total: int | None, note: str) -> None:
        if done >= 500:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        ef.large.solve(edges, tables, **settings, checkpoint=tmp_path, checkpoint_every=0.0, progress=fail)
    begun: list[int] = []
    found = ef.large.solve(
        edges, tables, **settings, checkpoint=tmp_path, progress=lambda done, total, note: begun.append(done)
    )
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    assert (found.iterations, begun[0]) == (9, 500)
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(ef.OptionError, match="another model or precision"):
        ef.large.solve(edges, 2.0 * tables, **settings, checkpoint=tmp_path)
    for text in ("{", '{"iteration": Infinity, "model": 1}', "[" * 100_000):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(ef.FormatError, match=r"state\.json is damaged"):
            ef.large.solve(edges, tables, **settings, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("messages-2-0.npy", b""),
        ("messages-2-0.npy", b"\x93NUMPY\x01\x00\x0e\x00{'descr': '<i2'"),
        ("messages-2-0.npy", np.zeros(2, np.int16)),
        ("messages-2-0.npy", np.zeros((2, 90))),
        ("variables-2.npz", b""),
        ("variables-2.npz", b"PK\3\4"),
        ("variables-2.npz", {"x": np.zeros(1, np.int32), "log_odds": np.zeros(40, np.float32)}),
        ("variables-2.npz", {"x": np.zeros((40, 1), np.int32), "log_odds": np.full(40, np.nan, np.float32)}),
    ],
)
def test_a_damaged_checkpoint_is_one_sentence(name: str, array: Any, tmp_path: Path) -> None:
    edges, given = model()
    ef.large.solve(edges, TABLES, **given, iterations=2, checkpoint=tmp_path)
    if isinstance(array, bytes):
        (tmp_path / name).write_bytes(array)
    elif isinstance(array, dict):
        np.savez(tmp_path / name, **array)
    else:
        np.save(tmp_path / name, array)
    with pytest.raises(ef.FormatError, match="the checkpoint is damaged"):
        ef.large.solve(edges, TABLES, **given, checkpoint=tmp_path)


def test_a_run_continues_if_a_checkpoint_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    edges, given = model()
    expected = ef.large.solve(edges, TABLES, **given, iterations=9, tolerance=0.0)
    ef.large.solve(edges, TABLES, **given, iterations=2, checkpoint=tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(*args: object, **arrays: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    found = ef.large.solve(edges, TABLES, **given, iterations=9, tolerance=0.0, checkpoint=tmp_path)
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)
    assert "cannot write a checkpoint: no space left on device" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("folder", [5, ""])
def test_a_checkpoint_needs_the_name_of_a_folder(folder: Any) -> None:
    with pytest.raises(ef.OptionError, match=r"path of a file|name of a folder"):
        ef.large.solve([[0, 1]], TABLES[0], checkpoint=folder)


def test_two_processes_find_the_same_bits(tmp_path: Path) -> None:
    edges, given = model(400, 3000)
    settings: dict[str, Any] = {"damping": 0.3, "tolerance": 0.0}
    expected = ef.large.solve(edges, TABLES[0], priors=given["priors"], **settings, iterations=8)
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "priors.npy", given["priors"])
    # Two runs in each process: the second one uses the connection of the first.
    program = """
import equifactor as ef
from equifactor.cli import main
ef.large.solve("edges.npy", [[0.6, 0.4], [0.3, 0.7]], iterations=1)
arguments = "--iterations 4 --priors priors.npy --damping 0.3 --tolerance 0 --checkpoint state -o beliefs.npy".split()
raise SystemExit(main(["large", "edges.npy", "--table", "0.6 0.4 0.3 0.7", *arguments]))
"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, **variables, "RANK": str(rank)}
        )
        for rank in (0, 1)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    assert len(list((tmp_path / "state").glob("messages-4-*.npy"))) == 2
    few = ef.large.solve(edges, TABLES[0], priors=given["priors"], **settings, iterations=4)
    np.testing.assert_array_equal(np.load(tmp_path / "beliefs.npy"), few.beliefs)
    # A single process continues the run of two.
    settings["checkpoint"] = tmp_path / "state"
    found = ef.large.solve(tmp_path / "edges.npy", TABLES[0], priors=given["priors"], **settings, iterations=8)
    np.testing.assert_array_equal(found.log_odds, expected.log_odds)


@needs_gpu
@pytest.mark.cuda
def test_a_gpu_finds_the_same_bits() -> None:
    import torch

    edges = ef.large.rmat_edges(12, 60_000, seed=1)
    for states in (2, 3, 5):
        tables = TABLES[0] if states == 2 else RANDOM_5[:states, :states]
        priors = np.linspace(0.1, 0.8, 2**12)
        settings: dict[str, Any] = {"damping": 0.2, "iterations": 7, "tolerance": 0.0}
        settings["priors"] = priors if states == 2 else np.random.default_rng(0).random((2**12, states))
        expected = ef.large.solve(edges, tables, **settings)
        for source in (edges, torch.from_numpy(edges).cuda(), edges[np.argsort(edges[:, 0])]):
            np.testing.assert_array_equal(
                ef.large.solve(source, tables, device="cuda", **settings).log_odds, expected.log_odds
            )


def test_rmat_graphs(tmp_path: Path) -> None:
    edges = ef.large.rmat_edges(10, 5000, seed=4)
    assert edges.shape == (5000, 2)
    assert 0 <= edges.min() <= edges.max() < 1024
    assert (edges[:, 0] != edges[:, 1]).all()
    for level in range(10):
        i, j = (edges >> level & 1).T
        shares = np.bincount(2 * i + j, minlength=4) / 5000
        np.testing.assert_allclose(shares, [0.57, 0.19, 0.19, 0.05], atol=0.03)
    ef.large.rmat_edges(10, 5000, seed=4, path=tmp_path / "edges.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "edges.npy"), edges)
    with pytest.raises(ef.OptionError, match="scale must be a whole number from 1 to 30, found 31"):
        ef.large.rmat_edges(31, 5)


@pytest.mark.parametrize("size", [10, 2**31])
def test_sums_are_exchanged_in_32_bits_if_they_fit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from equifactor.large.exchange import Exchange

    sent = []

    def doubled(sums: Any, op: Any = None) -> None:  # The other process has the same sums.
        sent.append(sums.dtype)
        if op is None:
            sums.mul_(2)

    exchange = Exchange("cpu")
    exchange.size, exchange.connected, exchange._torch, exchange._device = 2, True, torch, "cpu"
    exchange._dist = type(
        "Processes", (), {"all_reduce": staticmethod(doubled), "ReduceOp": torch.distributed.ReduceOp}
    )
    sums = np.array([[3], [-size]])
    exchange.add_up(sums)
    assert sums.tolist() == [[6], [-2 * size]]
    assert sent == [torch.int32] if size == 10 else [torch.int32, torch.int64]

    def lost(*args: Any, **options: Any) -> None:
        raise RuntimeError("Connection closed by peer")

    exchange._dist.all_reduce = staticmethod(lost)
    for call in (lambda: exchange.add_up(sums), lambda: exchange.largest(1)):
        with pytest.raises(ef.SolveError, match=r"has ended \('Connection closed by peer'\)"):
            call()


def test_processes_that_torchrun_did_not_start_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ef.OptionError, match="Start them by torchrun, or unset WORLD_SIZE"):
        ef.large.solve(np.array([[0, 1]]), TABLES[0])
