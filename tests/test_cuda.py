"""On a GPU: the same answers as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import solve
from equifactor.generators import ising_grid, random_graph

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
