"""Losses against plain numpy, and the gradients they send back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import FactorGraph, generators, metrics, solve
from equifactor.base.status import Task
from equifactor.factors import tensors
from equifactor.graph.marginals import Marginals
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.losses import expected_log_score, kl_per_graph, squared_error_per_graph, uai_per_graph
from equifactor.learning.training.validate import measures
from equifactor.solvers import compile
from equifactor.solvers.learned.network import build

GRAPHS = [
    *generators.random_graph(6, 8, arity=(1, 3), card=(2, 4), count=3, seed=3),
    *generators.ising_grid(3, 3, count=2, seed=1),
]


def beliefs_of(flat, seed: int = 0) -> torch.Tensor:
    return torch.randn(flat.num_states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_kl_and_squared_error_are_those_of_metrics() -> None:
    flat = compile(GRAPHS).to()
    log_b = beliefs_of(flat)
    exact = [solve(g, "MAR", "brute").marginals for g in GRAPHS]
    target = torch.tensor(np.concatenate([m.values for m in exact]))
    guess = flat.marginals(tensors.probabilities(flat, log_b).numpy())
    want = [metrics.kl(p, q) for p, q in zip(exact, guess, strict=True)]
    np.testing.assert_allclose(kl_per_graph(flat, log_b, target), want, rtol=1e-12)
    square = [metrics.rmse(p, q) ** 2 for p, q in zip(exact, guess, strict=True)]
    np.testing.assert_allclose(squared_error_per_graph(flat, log_b, target), square, rtol=1e-12)


def test_kl_is_zero_at_the_target_and_finite_where_a_possible_state_is_ruled_out() -> None:
    graph = FactorGraph([2, 2], [([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
    flat = compile(graph).to()
    exact = torch.tensor(solve(graph, "MAR", "brute").marginals.values)
    assert kl_per_graph(flat, exact.log(), exact).item() == pytest.approx(0.0, abs=1e-12)
    log_b = torch.tensor([0.0, -np.inf, 0.0, 0.0], dtype=torch.float64)
    assert 1.0 < kl_per_graph(flat, log_b, exact).item() < 100.0


def test_expected_score_is_the_mean_over_all_assignments() -> None:
    flat = compile(GRAPHS).to()
    p = tensors.probabilities(flat, beliefs_of(flat))
    got = expected_log_score(flat, p)
    for g, (graph, q) in enumerate(zip(GRAPHS, flat.marginals(p.numpy()), strict=True)):
        states = np.stack(np.unravel_index(np.arange(np.prod(graph.card)), graph.card), axis=1)
        weight = np.prod([q[i][states[:, i]] for i in range(graph.num_vars)], axis=0)
        scores = np.array([graph.log_score(x) for x in states])
        assert got[g].item() == pytest.approx(float(weight @ scores), rel=1e-10)


def test_uai_loss_is_zero_for_a_certain_optimum_and_its_gradient_is_finite_at_zeros() -> None:
    graph = FactorGraph([2, 3], [([0, 1], [[0.0, 2.0, 1.0], [3.0, 0.0, 4.0]]), ([0], [1.0, 0.5])])
    flat = compile(graph).to()
    best = solve(graph, "MAP", "brute")
    certain = np.full(5, -np.inf)
    certain[[best.assignment[0], 2 + best.assignment[1]]] = 0.0
    target = torch.tensor([best.log_score], dtype=torch.float64)
    assert uai_per_graph(flat, torch.tensor(certain), target).item() == pytest.approx(0.0, abs=1e-12)
    log_b = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    uai_per_graph(flat, log_b, target).sum().backward()
    assert torch.isfinite(log_b.grad).all()
    assert (log_b.grad != 0).any()


def test_a_large_power_makes_the_expected_error_that_of_the_decoded_assignment() -> None:
    graph = generators.random_graph(5, 6, card=(2, 3), seed=4)
    flat = compile(graph).to()
    log_b = torch.randn(flat.num_states, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    best = torch.tensor([solve(graph, "MAP", "brute").log_score], dtype=torch.float64)
    score = tensors.log_scores(flat, tensors.max_states(flat, log_b))
    want = (best - score) / best.abs()
    torch.testing.assert_close(uai_per_graph(flat, log_b, best, power=1e4), want)
    assert not torch.allclose(uai_per_graph(flat, log_b, best), want)


@pytest.mark.parametrize(("best", "wanted"), [(1.0, 0.0), (0.0, 0.0), (4.0, 0.5), (2.0, 0.0)])
def test_the_map_error_is_finite_and_a_better_assignment_is_no_error(best: float, wanted: float) -> None:
    graph = FactorGraph([2], [([0], [1.0, np.exp(2.0)])])  # the network finds the optimum, a log score of 2
    data = Dataset([graph] * 2, [np.array([best])] * 2, device="cpu", dtype="float64")
    network = build("fe-nbp", seed=0).double()
    found = measures(network, [data.batch(p) for p in data.plans(2)], Task.MAP)
    assert found == {"error": pytest.approx(wanted), "zero": 0.0}


def test_beliefs_better_than_the_best_known_score_are_not_punished() -> None:
    flat = compile(FactorGraph([2], [([0], [1.0, np.exp(2.0)])])).to()
    log_b = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    uai_per_graph(flat, log_b, torch.tensor([0.5], dtype=torch.float64)).sum().backward()
    assert log_b.grad[1] < 0  # falls as the better state becomes more likely


def test_losses_agree_with_finite_differences() -> None:
    flat = compile(GRAPHS[0]).to()
    target = torch.tensor(solve(GRAPHS[0], "MAR", "brute").marginals.values)
    assert isinstance(solve(GRAPHS[0], "MAR", "brute").marginals, Marginals)
    log_b = beliefs_of(flat).requires_grad_()
    assert torch.autograd.gradcheck(lambda b: kl_per_graph(flat, b, target), log_b)
    best = torch.tensor([5.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda b: uai_per_graph(flat, b, best), log_b)
