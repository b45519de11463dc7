"""The torch engine: equations against plain loops, gradients against marginals, true zeros, dtypes, batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equifactor import FactorGraph, solve
from equifactor.factors import tensors
from equifactor.generators import random_graph, random_tree
from equifactor.kernels.segments import segment_logsumexp, segment_max, segment_sum
from equifactor.solvers import compile
from equifactor.solvers.duals.map_bounds import map_upper_bound


def messages_by_loops(graph: FactorGraph, rounds: int, damping: float) -> dict[tuple[int, int], np.ndarray]:
    """Return the messages of belief propagation as in a textbook, on dictionaries, in probabilities."""
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    tables = [np.exp(graph.log_table(a)) for a in range(graph.num_factors)]
    msg = {}
    for a, scope in enumerate(scopes):
        for i in scope:
            start = tables[a] if len(scope) == 1 else np.ones(graph.card[i])
            msg[a, i] = start / start.sum()
    for _ in range(rounds):
        new = {}
        for a, scope in enumerate(scopes):
            for i in scope:
                out = np.zeros(graph.card[i])
                for x in np.ndindex(tables[a].shape):
                    weight = tables[a][x]
                    for j, state in zip(scope, x, strict=True):
                        if j != i:
                            others = [msg[b, j][state] for b, s in enumerate(scopes) if j in s and b != a]
                            weight *= np.prod(others)
                    out[x[scope.index(i)]] += weight
                new[a, i] = (out / out.sum()) ** (1 - damping) * msg[a, i] ** damping
        msg = new
    return msg


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_step_is_the_textbook_update(zeros: float, damping: float) -> None:
    graph = random_graph(5, 7, arity=(1, 3), card=(2, 3), zeros=zeros, seed=5)
    flat = compile(graph).to()
    msg = tensors.first_messages(flat)
    for _ in range(3):
        new = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg))
        msg = tensors.damp(new, msg, damping)
    want = messages_by_loops(graph, 3, damping)
    first = 0
    for edge in range(flat.num_edges):
        a, i = int(flat.factor_of_edge[edge]), int(flat.var_of_edge[edge])
        d = int(graph.card[i])
        np.testing.assert_allclose(msg[first : first + d].exp(), want[a, i], atol=1e-12)
        first += d


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_gradient_of_log_z_is_the_factor_marginal_on_a_tree(zeros: float) -> None:
    graph = random_tree(6, card=(2, 3), zeros=zeros, seed=3)
    flat = compile(graph).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    flat = flat.with_log_phi(log_phi)
    msg = tensors.first_messages(flat)
    for _ in range(8):
        msg = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg))
    log_z = tensors.bethe_log_z(flat, msg).sum()
    (grad,) = torch.autograd.grad(log_z, log_phi)
    assert torch.isfinite(grad).all()
    exact = solve(graph, "PR", "brute").log_z
    assert log_z.item() == pytest.approx(exact)
    step = 1e-6
    base = flat.split(grad.numpy(), "entries")[0]
    for t in np.flatnonzero(np.isfinite(graph.log_phi))[::3]:
        moved = graph.log_phi.copy()
        moved[t] += step
        slope = (solve(graph.with_potentials(moved, log=True), "PR", "brute").log_z - exact) / step
        assert base[t] == pytest.approx(slope, abs=1e-5)


def test_upper_bound_holds_for_arbitrary_messages() -> None:
    rng = torch.Generator().manual_seed(0)
    for seed in range(200):
        graph = random_graph(5, 6, arity=(1, 3), card=(2, 3), seed=seed)
        flat = compile(graph).to()
        msg = torch.randn(flat.num_edge_states, generator=rng, dtype=torch.float64) * 3
        bound = map_upper_bound(flat, msg).item()
        assert bound >= solve(graph, "MAP", "brute").log_score - 1e-9


def test_a_message_without_support_stays_without_nan() -> None:
    contradiction = FactorGraph([2, 2], [([0], [1, 0]), ([0, 1], [[0, 0], [1, 1]])])
    flat = compile(contradiction).to()
    msg = tensors.first_messages(flat)
    for _ in range(3):
        msg = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg))
    assert not torch.isnan(msg).any()
    p = tensors.probabilities(flat, tensors.variable_log_beliefs(flat, msg))
    assert (p == 0).any()
    assert tensors.bethe_log_z(flat, msg).item() == -np.inf


def test_segments() -> None:
    values, index = torch.tensor([1.0, 2.0, 4.0, -torch.inf]), torch.tensor([0, 0, 2, 3])
    assert segment_sum(values[:3], index[:3], 4).tolist() == [3.0, 0.0, 4.0, 0.0]
    assert segment_max(values, index, 4, empty=0.0)[:3].tolist() == [2.0, 0.0, 4.0]
    got = segment_logsumexp(values, index, 4)
    np.testing.assert_allclose(got, [np.logaddexp(1, 2), -np.inf, 4.0, -np.inf])
