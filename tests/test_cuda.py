"""On a GPU: the same answers as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import compile, solve, train
from equifactor.generators import ising_grid, random_graph
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
