"""Replayed beliefs on the CPU; tests/test_cuda.py tests captured networks."""

from __future__ import annotations

import pytest
import torch

from equifactor import ModelError, generators
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.replay import Replay


def test_other_potentials_and_zeros_that_were_not_there_before() -> None:
    first, second = generators.ising_grid(3, 3, count=2, seed=1)
    network = build("fe-net", {"steps": 3}, seed=0)
    flat = compile(first).to("cpu", "float32")
    replay = Replay(network, flat)
    other = compile(second).to("cpu", "float32").log_phi
    zeros = other.clone()
    zeros[flat.num_entries - 4 : flat.num_entries - 2] = -torch.inf  # the first state of a pair's first variable
    for log_phi in (other, zeros):
        with torch.no_grad():
            wanted = network(flat.with_log_phi(log_phi))[-1]
        torch.testing.assert_close(replay(log_phi), wanted)
        assert not torch.isnan(wanted).any()
    with pytest.raises(ModelError, match="log_phi needs shape"):
        replay(other[:-1])
