"""On a GPU: the same answers as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import (
    AtMost,
    Clause,
    Count,
    FactorGraph,
    NoisyOr,
    Parity,
    Potts,
    SparseTable,
    TruncatedLinear,
    beliefs,
    solve,
    train,
)
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.replay import Replay

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
def test_bp_on_the_gpu_equals_the_cpu(dtype: str, tolerance: float) -> None:
    graphs = [*ising_grid(4, 4, count=20, seed=0), random_graph(9, 12, arity=(1, 4), card=(2, 4), zeros=0.2, seed=1)]
    spec = "bp(damping=0.3, iterations=20, tolerance=0)"
    for task in ("MAR", "MAP"):
        on_cpu, on_gpu = solve(graphs, task, spec), solve(graphs, task, spec, device="cuda", dtype=dtype)
        for c, g in zip(on_cpu, on_gpu, strict=True):
            assert c.status == g.status
            if task == "MAR":
                np.testing.assert_allclose(g.marginals.values, c.marginals.values, atol=tolerance)
                assert g.log_z == pytest.approx(c.log_z, rel=1e-4)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_networks_on_the_gpu_equal_the_cpu(kind: str, tmp_path, write_model) -> None:
    model = write_model(tmp_path / "m.safetensors", kind)
    graphs = [*ising_grid(4, 4, count=20, seed=0), random_graph(9, 12, arity=(1, 4), card=(2, 4), zeros=0.2, seed=1)]
    on_cpu, on_gpu = solve(graphs, "MAR", model), solve(graphs, "MAR", model, device="cuda")
    for c, g in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(g.marginals.values, c.marginals.values, atol=1e-8)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-gnn", "fe-net", "bpnn", "nebp", "ggnn", "fgnn"])
def test_a_captured_gradient_step_trains_as_the_cpu_does(kind: str) -> None:
    settings = {"epochs": 2, "batch_size": 10, "dtype": "float64", "network": {"steps": 3}, "patience": 0}
    runs = [
        train(kind, "ising(3x3, n=45)", vary_steps=True, losses_at=2, device=d, **settings) for d in ("cpu", "cuda")
    ]
    # The learning rate lives on the GPU as a float32: a relative difference of 1e-7 that the steps multiply.
    for c, g in zip(runs[0].history, runs[1].history, strict=True):
        assert g["kl"] == pytest.approx(c["kl"], rel=1e-3)
    for c, g in zip(runs[0].network.parameters(), runs[1].network.parameters(), strict=True):
        np.testing.assert_allclose(g.detach().cpu(), c.detach(), atol=1e-4)


def test_replayed_beliefs_are_those_of_the_network() -> None:
    graphs = ising_grid(4, 4, count=30, seed=0)
    flat = compile(graphs).to("cuda", "float32")
    network = build("fe-net", seed=0).to("cuda")
    replay = Replay(network, flat)
    for seed in (1, 2):
        log_phi = torch.tensor(flat.pack([g.log_phi for g in ising_grid(4, 4, count=30, seed=seed)])).to(flat.log_phi)
        with torch.no_grad():
            want = network(flat.with_log_phi(log_phi))[-1]
        torch.testing.assert_close(replay(log_phi), want, rtol=1e-4, atol=1e-4)


def kinds(seed: int) -> FactorGraph:
    """Return a graph with a factor of every kind, and one more graph for every seed."""
    rng = np.random.default_rng(seed)
    card = [2] * 14 + [5] * 3
    factors = [
        (range(14), Parity(odd=True)), (range(3, 9), Clause(rng.integers(0, 2, 6))), (range(8), AtMost(3)),
        (range(5, 11), Count(rng.normal(size=7))), (range(14), NoisyOr(0.1, rng.random(13))),
        (range(4), NoisyOr(0.0, rng.random(3))), ([14, 15], Potts(0.7)), ([15, 16], TruncatedLinear(0.4, 1.5)),
        ([16, 14], Potts(-0.3)), ([0, 14, 1], SparseTable([[0, 3, 1], [1, 2, 0]], [0.4, -0.3], 0.1)),
        *(([i], rng.normal(size=d)) for i, d in enumerate(card)),
    ]  # fmt: skip
    return FactorGraph(card, factors, log=True)


MIXED = [*(kinds(seed) for seed in range(3)), *ising_grid(3, 3, count=2, seed=0)]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
@pytest.mark.parametrize("task", ["MAR", "MAP"])
def test_bp_on_kinds_on_the_gpu_equals_the_cpu(dtype: str, tolerance: float, task: str) -> None:
    spec = "bp(damping=0.3, iterations=15, tolerance=0)"
    on_cpu, on_gpu = solve(MIXED, task, spec), solve(MIXED, task, spec, device="cuda", dtype=dtype)
    for c, g in zip(on_cpu, on_gpu, strict=True):
        if task == "MAR":
            np.testing.assert_allclose(g.marginals.values, c.marginals.values, atol=tolerance)
            assert g.log_z == pytest.approx(c.log_z, rel=tolerance)
        else:
            assert g.upper_bound == pytest.approx(c.upper_bound, rel=tolerance)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_networks_on_kinds_on_the_gpu_equal_the_cpu(kind: str, tmp_path, write_model) -> None:
    model = write_model(tmp_path / "m.safetensors", kind)
    on_cpu, on_gpu = solve(MIXED, "MAR", model), solve(MIXED, "MAR", model, device="cuda")
    for c, g in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(g.marginals.values, c.marginals.values, atol=1e-8)


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_the_layer_on_kinds_on_the_gpu_equals_the_cpu(semiring) -> None:
    answers = []
    for device in ("cpu", "cuda"):
        flat = compile(MIXED).to(device, "float64")
        log_phi = flat.log_phi.clone().requires_grad_()
        answer = beliefs(flat, log_phi, iterations=10, semiring=semiring)
        (found,) = torch.autograd.grad(answer.probabilities.square().sum() + answer.log_z.sum(), log_phi)
        answers.append([t.detach().cpu() for t in (answer.probabilities, answer.factors, answer.log_z, found)])
    for on_cpu, on_gpu in zip(*answers, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, atol=1e-9, rtol=1e-9)


def test_a_network_on_kinds_can_be_captured() -> None:
    """Sums of every kind can be captured. Maxima of large noisy-ors are searched on the CPU and cannot."""
    graphs = MIXED[:2]
    flat = compile(graphs).to("cuda", "float32")
    network = build("fe-net", seed=0).to("cuda")
    replay = Replay(network, flat)
    for scale in (1.0, 0.9):
        log_phi = flat.log_phi * scale
        with torch.no_grad():
            want = network(flat.with_log_phi(log_phi))[-1]
        torch.testing.assert_close(replay(log_phi), want, rtol=1e-3, atol=1e-3)
