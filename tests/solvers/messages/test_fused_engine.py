"""The fused kernels of belief propagation compute the messages of the torch engine."""

import numpy as np
import pytest
from triton_interpreter import needs_gpu, needs_interpreter, needs_triton, whole_numbers  # noqa: F401

from equifactor import FactorGraph, Parity, solve
from equifactor.base.torch_device import SWITCH
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers import compile
from equifactor.solvers.messages import fused_engine
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solvers.messages.fused_engine import FusedEngine
from equifactor.solvers.messages.torch_engine import TorchEngine
from equifactor.solving.solver import SolveContext

draw = np.random.default_rng(0).standard_normal
parity = FactorGraph([2, 2, 2, 3], [((0, 1, 2), Parity()), ((2, 3), np.arange(1.0, 7.0).reshape(2, 3)), ((0,), [1, 2])])
CASES = {
    "grids": ising_grid(3, 4, seed=1, count=3),
    "ragged": [random_graph(9, 16, arity=(1, 3), card=(2, 5), seed=2), *ising_grid(2, 2, seed=3, count=2)],
    "zeros": [random_graph(9, 16, arity=(1, 2), card=(2, 4), zeros=0.2, seed=4)],
    "small tables": [
        random_graph(7, 6, arity=(3, 4), card=2, seed=5),
        random_graph(7, 8, arity=(2, 4), card=(2, 4), zeros=0.2, seed=6),
    ],
    "large tables": [FactorGraph([50, 64, 70], [((0, 1), draw((50, 64))), ((1, 2), draw((64, 70)))], log=True)],
    "parity": [parity, parity],
}


def compare(name: str, device: str, iterations: list[int]) -> None:
    """Compare messages and changes of both engines, in both semirings and float types."""
    flat = compile(CASES[name])
    sums, maxima = ("sum", 0.0, 512), ("max", 0.3, 512)
    for semiring, damping, most, dtype in (*sums, "float64"), (*maxima, "float32"), ("sum", 0.3, 1, "float32"):
        fused_engine._MOST_EDGES = most
        settings = BpSettings(semiring, "parallel", damping, 1e-6, 0)
        context = SolveContext(device=device, dtype=dtype)
        assert fused_engine.applies_to(flat, settings, context)
        fused, plain = FusedEngine(flat, settings, context), TorchEngine(flat, settings, context)
        tolerance = 1e-9 if dtype == "float64" else 2e-5
        for count in iterations:
            changes = fused.sweep(count), plain.sweep(count)
            np.testing.assert_allclose(*changes, atol=tolerance)
            got, want = np.exp(fused.messages()), np.exp(plain.messages())
            np.testing.assert_array_equal(got == 0.0, want == 0.0)
            np.testing.assert_allclose(got, want, atol=tolerance)
        part = plain.take(np.array([0]))
        fused.put(np.array([0]), part)
        np.testing.assert_array_equal(fused.take(np.array([0])).messages.cpu(), part.messages.cpu())


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(fused_engine, "_MOST_EDGES", fused_engine._MOST_EDGES)
    monkeypatch.setattr(fused_engine, "_MOST_ARITY", 4)


@needs_triton
@needs_interpreter
@pytest.mark.parametrize("name", CASES)
def test_interpreter_agrees_with_torch(name: str) -> None:
    compare(name, "cpu", [1, 2])


@needs_triton
@needs_gpu
@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_gpu_agrees_with_torch(name: str) -> None:
    """Twenty iterations are captured as CUDA graphs."""
    compare(name, "cuda", [1, 2, 20, *[1] * 10])


@needs_triton
@needs_gpu
@pytest.mark.cuda
def test_settled_graphs_leave_their_batch() -> None:
    """Batches of easy and hard graphs get the answers of the torch engine, graph by graph."""
    graphs = [
        *ising_grid(6, 6, coupling_std=0.3, seed=1, count=9),
        *ising_grid(6, 6, coupling_std=2.0, seed=2, count=3),
    ]
    got, want = (solve(graphs, "MAR", f"bp(engine={e})", device="cuda") for e in ("auto", "torch"))
    for one, other in zip(got, want, strict=True):
        assert (one.status, one.stats["engine"], other.stats["engine"]) == (other.status, "triton", "torch")
        if other.status.solved:
            np.testing.assert_allclose(one.marginals.values, other.marginals.values, atol=1e-5)


def test_a_device_without_working_kernels_runs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial fails with a warning, and the engine of torch takes over."""

    def broken(*_: object) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fused_engine, "may_fuse", lambda device: True)
    monkeypatch.setattr(fused_engine, "_known", {})
    monkeypatch.setattr(FusedEngine, "sweep", broken)
    flat, settings = compile(CASES["grids"]), BpSettings("sum", "parallel", 0.0, 1e-6, 0)
    with pytest.warns(RuntimeWarning, match="no C compiler"):
        engine = new_engine(flat, settings, SolveContext(dtype="float32"), "auto")
    assert engine.name == "torch"
