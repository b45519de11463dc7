from __future__ import annotations

from typing import Any

import pytest
import torch

from equifactor import FactorGraph
from equifactor.factors import tensors
from equifactor.generators import asymmetric_grid, ising_grid, random_graph, random_tree
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build

GRAPHS = [
    *ising_grid(3, 3, count=2, seed=1),
    asymmetric_grid(3, 3, seed=2),
    random_tree(9, card=2, seed=3),
    random_graph(8, 8, arity=(1, 4), card=2, seed=4),
    random_graph(8, 12, arity=(1, 3), card=2, zeros=0.3, seed=5),
    FactorGraph([2, 2], [([0], [1.0, 3.0])]),
]


def bp(flat: Any, steps: int, damping: float = 0.0, semiring: Any = "sum") -> torch.Tensor:
    """Return the messages [S] of plain belief propagation."""
    msg = tensors.first_messages(flat, semiring)
    for _ in range(steps):
        new = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg), semiring)
        msg = tensors.damp(new, msg, damping)
    return msg


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_no_damping_is_bp(semiring: Any) -> None:
    flat = compile(GRAPHS).to(dtype="float64")
    got = build("bpnn", {"a": 1.0}).double()(flat, semiring)[-1]
    want = tensors.variable_log_beliefs(flat, bp(flat, 10, semiring=semiring))
    torch.testing.assert_close(tensors.probabilities(flat, got), tensors.probabilities(flat, want), rtol=0, atol=1e-12)


def test_scalar_starts_as_damped_bp() -> None:
    flat = compile(GRAPHS).to(dtype="float64")
    for damping in (0.0, 0.5, 0.8):
        network = build("bpnn", {"variant": "scalar", "damping": damping}, seed=0).double()
        want = tensors.variable_log_beliefs(flat, bp(flat, 10, damping))
        got = tensors.probabilities(flat, network(flat)[-1])
        torch.testing.assert_close(got, tensors.probabilities(flat, want), rtol=0, atol=1e-8)


def test_starts_near_bp() -> None:
    """The identity start damps entries that fall by 5 %."""
    flat = compile(random_tree(9, card=2, seed=3)).to(dtype="float64")
    want = tensors.variable_log_beliefs(flat, bp(flat, 10))
    got = build("bpnn", {}, seed=0).double()(flat)[-1]
    torch.testing.assert_close(tensors.probabilities(flat, got), tensors.probabilities(flat, want), rtol=0, atol=1e-3)


@pytest.mark.parametrize("variant", ["vector", "scalar"])
def test_fixed_points_of_bp_are_kept_by_any_weights(variant: str) -> None:
    flat = compile([random_tree(9, card=2, seed=s) for s in range(3)]).to(dtype="float64")
    network = build("bpnn", {"variant": variant}, seed=0).double()
    with torch.no_grad():
        for p in network.parameters():
            p += torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()), dtype=p.dtype)
        state = network.begin(flat, "sum")
        wiring = state.wiring
        fixed = bp(flat, 20)[len(wiring.unary_messages) :]
        hidden = (wiring.normalize(wiring.outgoing(fixed)),) if variant == "vector" else ()
        after = network.step(state._replace(msg_fv=fixed, hidden=hidden))
    torch.testing.assert_close(after.msg_fv, fixed, rtol=0, atol=1e-12)
