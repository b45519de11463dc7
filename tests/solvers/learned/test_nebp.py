from __future__ import annotations

from typing import Any

import pytest
import torch

from equifactor import FactorGraph
from equifactor.factors import tensors
from equifactor.generators import asymmetric_grid, ising_grid, random_graph, random_tree
from equifactor.solvers import compile
from equifactor.solvers.learned.nebp import NEBP
from equifactor.solvers.learned.network import build

GRAPHS = [
    *ising_grid(3, 3, count=2, seed=1),
    asymmetric_grid(3, 3, seed=2),
    random_tree(9, card=2, seed=3),
    random_graph(8, 8, arity=(1, 4), card=2, seed=4),
    random_graph(8, 12, arity=(1, 3), card=2, zeros=0.3, seed=5),
    FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0], [2.0, 3.0])]),
    FactorGraph([2, 2]),
]


@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_starts_as_bp(semiring: Any) -> None:
    flat = compile(GRAPHS).to(dtype="float64")
    network = build("nebp", {"channels": 8}, seed=0).double()
    msg = tensors.first_messages(flat, semiring)
    for _ in range(10):
        msg = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg), semiring)
    got = tensors.probabilities(flat, network(flat, semiring)[-1])
    want = tensors.probabilities(flat, tensors.variable_log_beliefs(flat, msg))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_unary_messages_are_corrected_too() -> None:
    flat = compile(FactorGraph([2], [([0], [0.2, 0.8])])).to(dtype="float64")
    network = build("nebp", {}, seed=0).double()
    assert isinstance(network, NEBP)
    with torch.no_grad():
        network.unary.scale[-1].bias.fill_(1.0)  # f_s = 2: the message is squared
        got = tensors.probabilities(flat, network(flat)[-1])
    assert got.tolist() == pytest.approx([1 / 17, 16 / 17])


def test_penalty_is_zero_at_the_start_and_carries_gradients() -> None:
    flat = compile(GRAPHS[:2]).to(dtype="float64")
    network = build("nebp", {}, seed=0).double()
    assert isinstance(network, NEBP)
    state = network.step(network.begin(flat, "sum"))
    assert network.penalty(state).item() == 0.0
    with torch.no_grad():
        network.larger.shift[-1].bias.fill_(0.5)
    penalty = network.penalty(network.step(network.begin(flat, "sum")))
    penalty.backward()  # type: ignore[no-untyped-call]
    assert penalty.item() > 0
    assert network.larger.shift[-1].weight.grad is not None
