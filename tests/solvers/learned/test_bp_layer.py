"""The differentiable layer: gradients against finite differences and exact marginals, zeros, batches, semirings."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equifactor import FactorGraph, ModelError, OptionError, Parity, beliefs, solve
from equifactor.factors import tensors
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph.reduction import without_impossible_states
from equifactor.learned import BPLayer
from equifactor.solvers import compile
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()
LOOPY = [
    ising_grid(3, 3, seed=2),
    random_graph(5, 7, arity=(1, 3), card=(2, 3), seed=5),
    random_graph(6, 8, arity=(1, 3), card=(2, 3), zeros=0.3, seed=6),
]
TREES = [random_tree(6, card=(2, 3), zeros=zeros, seed=3) for zeros in (0.0, 0.3)]
loopy = pytest.mark.parametrize("graph", LOOPY)
gradients = pytest.mark.parametrize("gradient", ["unrolled", "implicit"])


def exact_factor_marginals(graph: FactorGraph) -> np.ndarray:
    """Return [T] in the graph's own order, by enumerating all assignments."""
    states = np.array(list(itertools.product(*(range(d) for d in graph.card))))
    log_p = np.array([graph.log_score(x) for x in states])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    pieces = []
    for a in range(graph.num_factors):
        marginal = np.zeros(graph.log_table(a).shape)
        np.add.at(marginal, tuple(states[:, graph.structure.scope(a)].T), p)
        pieces.append(marginal.reshape(-1))
    return np.concatenate(pieces)


def possible(flat: Any) -> Tensor:
    """Return which table entries are not true zeros, so that finite differences can change them."""
    return torch.isfinite(flat.log_phi)


def moved(flat: Any, theta: Tensor) -> Tensor:
    """Return the potentials of the graph plus a number at each possible entry."""
    return torch.where(
        possible(flat), flat.log_phi.index_put((torch.nonzero(possible(flat))[:, 0],), theta), -torch.inf
    )


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(GRAPHS))
@gradients
def test_values_are_those_of_the_solver(name: str, gradient: Any) -> None:
    (reduced,) = without_impossible_states(
        [GRAPHS[name]]
    )  # `solve` does this first, so that its messages have no impossible states.
    assert reduced is not None
    graph = reduced.graph
    flat = compile(graph).to()
    answer = beliefs(flat, flat.log_phi, damping=0.3, iterations=20, tolerance=0.0, gradient=gradient)
    result = solve(graph, "MAR", "bp(damping=0.3, iterations=20, tolerance=0)")
    (marginals,) = flat.marginals(answer.probabilities.numpy())
    np.testing.assert_allclose(marginals.values, result.marginals.values, atol=1e-9)
    assert answer.log_z.item() == pytest.approx(result.log_z, abs=1e-6)
    assert answer.iterations == 20


@pytest.mark.parametrize("graph", TREES)
@gradients
def test_exact_on_trees(graph: FactorGraph, gradient: Any) -> None:
    flat = compile(graph).to()
    answer = beliefs(flat, flat.log_phi, damping=0.0, iterations=12, gradient=gradient)
    exact = solve(graph, "MAR", "brute")
    np.testing.assert_allclose(answer.probabilities, exact.marginals.values, atol=1e-12)
    np.testing.assert_allclose(flat.split(answer.factors, "entries")[0], exact_factor_marginals(graph), atol=1e-12)
    assert answer.log_z.item() == pytest.approx(exact.log_z, abs=1e-12)
    assert answer.change.item() < 1e-12


@gradients
def test_max_gives_the_best_score_on_trees_and_its_entries_as_gradient(gradient: Any) -> None:
    graph = TREES[0]
    flat = compile(graph).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    answer = beliefs(flat, log_phi, damping=0.0, iterations=12, semiring="max", gradient=gradient)
    exact = solve(graph, "MAP", "brute")
    assert answer.log_z.item() == pytest.approx(exact.log_score, abs=1e-12)
    assert tensors.max_states(flat, answer.log_probabilities.detach()).tolist() == exact.assignment.tolist()
    (gradient_found,) = torch.autograd.grad(answer.log_z.sum(), log_phi)
    picked = flat.split(gradient_found, "entries")[0]
    assert (picked.numpy() * graph.log_phi).sum().item() == pytest.approx(exact.log_score, abs=1e-12)
    assert sorted(set(picked.round(decimals=12).tolist())) == [0.0, 1.0]


@gradients
def test_a_batch_of_potentials_of_one_structure(gradient: Any) -> None:
    graphs = [LOOPY[2], FactorGraph([2, 2, 3], [([0, 1], Parity(log_values=(0.3, -0.4))), ([1, 2], np.ones((2, 3)))])]
    flat = compile(graphs).to()
    theta = torch.randn(2, 3, flat.num_entries, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_phi = torch.where(possible(flat), theta, -torch.inf).requires_grad_()
    whole = beliefs(flat, log_phi, iterations=8, gradient=gradient, tolerance=0.0)
    (slope,) = torch.autograd.grad(whole.log_probabilities.exp().square().sum() + whole.log_z.sum(), log_phi)
    layer = BPLayer(graphs, iterations=8, gradient=gradient, tolerance=0.0)
    own_order = layer(log_phi[..., layer.place])
    assert whole.log_z.shape == (2, 3, 2)
    for i, j in itertools.product(range(2), range(3)):
        row = log_phi[i, j].detach().requires_grad_()
        one = beliefs(flat, row, iterations=8, gradient=gradient, tolerance=0.0)
        for field in ("probabilities", "factors", "log_z", "change"):
            torch.testing.assert_close(getattr(whole, field)[i, j], getattr(one, field))
        torch.testing.assert_close(own_order.factors[i, j, layer.order], one.factors)
        (want,) = torch.autograd.grad(one.log_probabilities.exp().square().sum() + one.log_z.sum(), row)
        torch.testing.assert_close(slope[i, j], want)


def test_the_module_follows_the_potentials() -> None:
    layer = BPLayer(LOOPY[0], iterations=5)
    assert "9 free variables" in str(layer)
    assert "iterations=5" in str(layer)
    zeros = torch.zeros(4, 66)
    assert layer.double()(zeros).log_z.dtype == torch.float32
    assert layer(zeros.double()).log_z == pytest.approx(9 * math.log(2))
    for wrong in (zeros[:, 1:], zeros[:0], zeros.long()):
        with pytest.raises(ModelError, match="log_phi must be a tensor of"):
            inspect.unwrap(BPLayer.forward)(layer, wrong)


# ---- gradients ------------------------------------------------------------------------------------------


@loopy
@pytest.mark.parametrize("semiring", ["sum", "max"])
def test_unrolled_gradients_are_those_of_finite_differences(graph: FactorGraph, semiring: Any) -> None:
    flat = compile(graph).to()
    theta = flat.log_phi[possible(flat)].clone().requires_grad_()

    def answers(theta: Tensor) -> tuple[Tensor, ...]:
        answer = beliefs(flat, moved(flat, theta), damping=0.3, iterations=6, semiring=semiring)
        return answer.probabilities, answer.factors, answer.log_z

    assert torch.autograd.gradcheck(answers, (theta,), atol=1e-7, fast_mode=True)


def test_second_derivatives_of_unrolled_steps() -> None:
    flat = compile(random_graph(4, 5, arity=(1, 2), card=2, seed=5)).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: beliefs(flat, t, iterations=3).log_z, (log_phi,), atol=1e-6)


@loopy
def test_implicit_gradients_are_those_of_the_fixed_point(graph: FactorGraph) -> None:
    flat = compile(graph).to()
    theta = flat.log_phi[possible(flat)].clone().requires_grad_()
    weight = torch.linspace(-1.0, 2.0, flat.num_states, dtype=torch.float64)
    of_factors = torch.linspace(2.0, -1.0, flat.num_entries, dtype=torch.float64)

    def gradient(**options: Any) -> Tensor:
        answer = beliefs(flat, moved(flat, theta), damping=0.5, tolerance=1e-13, iterations=200, **options)
        assert answer.change.max() < 1e-9
        loss = (weight * answer.probabilities).sum() + (of_factors * answer.factors).sum() + answer.log_z.sum()
        return torch.autograd.grad(loss, theta)[0]

    implicit = gradient(gradient="implicit")
    torch.testing.assert_close(implicit, gradient(gradient="unrolled"), atol=1e-8, rtol=0)
    assert implicit.abs().max() > 0.1


@pytest.mark.parametrize("graph", TREES)
@gradients
def test_gradient_of_log_z_is_the_factor_marginal_on_trees(graph: FactorGraph, gradient: Any) -> None:
    flat = compile(graph).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    answer = beliefs(flat, log_phi, damping=0.0, iterations=12, gradient=gradient)
    (found,) = torch.autograd.grad(answer.log_z.sum(), log_phi)
    np.testing.assert_allclose(flat.split(found, "entries")[0], exact_factor_marginals(graph), atol=1e-12)


@loopy
def test_gradient_of_log_z_is_the_factor_belief_at_a_fixed_point(graph: FactorGraph) -> None:
    flat = compile(graph).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    for gradient in ("unrolled", "implicit"):
        answer = beliefs(flat, log_phi, iterations=150, tolerance=1e-12, gradient=gradient)
        (found,) = torch.autograd.grad(answer.log_z.sum(), log_phi)
        torch.testing.assert_close(found, answer.factors.detach(), atol=1e-9, rtol=0)


@gradients
def test_uniform_potentials_have_the_gradient_of_far_neighbours(gradient: Any) -> None:
    """Uniform potentials settle in the first step, but the effect of one end on the other takes a step per link."""
    couple = np.log([[2.0, 1.0], [1.0, 2.0]])
    chain = FactorGraph([2] * 6, [([0], [0.0, 0.0]), *(([i, i + 1], couple) for i in range(5))], log=True)
    flat = compile(chain).to()
    log_phi = flat.log_phi.clone().requires_grad_()
    answer = beliefs(flat, log_phi, iterations=80, gradient=gradient)
    (found,) = torch.autograd.grad(answer.probabilities[10], log_phi)  # last variable, state 0
    # d p(x_5 = 0) / d log_phi_0(0): the correlation (1/3)^5 of the two ends, over 4
    assert found[0].item() == pytest.approx(0.25 * (1 / 3) ** 5, rel=1e-4)


# ---- zeros ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graphs", [*GRAPHS.values(), list(GRAPHS.values())], ids=[*GRAPHS, "all"])
@pytest.mark.parametrize(("semiring", "dtype"), [("sum", "float64"), ("max", "float32")])
@gradients
def test_no_nan_in_values_or_gradients(graphs: Any, semiring: Any, dtype: str, gradient: Any) -> None:
    flat = compile(graphs).to(dtype=dtype)
    log_phi = flat.log_phi.clone().requires_grad_()
    answer = beliefs(flat, log_phi, iterations=8, semiring=semiring, gradient=gradient)
    for values in (answer.probabilities, answer.factors, answer.log_z):
        assert torch.isfinite(values).all()
        if values.requires_grad:
            (found,) = torch.autograd.grad(values.square().sum(), log_phi, retain_graph=True, allow_unused=True)
            assert found is None or torch.isfinite(found).all()
            assert found is None or not found[torch.isneginf(log_phi)].any()


@gradients
def test_zeros_of_the_potentials_count_where_the_compiled_graph_had_none(gradient: Any) -> None:
    graph = ising_grid(3, 3, seed=2)
    flat = compile(graph).to()
    assert not flat.has_zeros
    log_phi = flat.log_phi.clone()
    log_phi[0] = -torch.inf  # the first unary factor rules out state 0
    answer = beliefs(flat, log_phi.requires_grad_(), gradient=gradient)
    (found,) = torch.autograd.grad(answer.probabilities.square().sum() + answer.log_z.sum(), log_phi)
    assert answer.probabilities[0] == 0.0
    assert torch.isfinite(found).all()


@gradients
def test_a_model_without_any_possible_assignment(gradient: Any) -> None:
    graph = FactorGraph([2, 2], [([0], [1.0, 1.0]), ([0, 1], [[0.0, 0.0], [1.0, 2.0]])])
    flat = compile(graph).to()
    log_phi = torch.full_like(flat.log_phi, -torch.inf).requires_grad_()
    answer = beliefs(flat, log_phi, gradient=gradient)
    assert answer.log_z.tolist() == [-torch.inf]
    assert answer.probabilities.tolist() == [0.0] * 4
    loss = answer.probabilities.sum() + answer.log_z.clamp_min(-1.0).sum()
    assert not torch.autograd.grad(loss, log_phi)[0].isnan().any()


# ---- batches, stopping, use ------------------------------------------------------------------------------


@gradients
def test_a_batch_equals_its_graphs_one_by_one(gradient: Any) -> None:
    graphs = [*LOOPY, *TREES, GRAPHS["arity 0"], GRAPHS["disconnected"]]
    options: dict[str, Any] = {"iterations": 15, "tolerance": 0.0, "gradient": gradient}
    whole = compile(graphs).to()
    log_phi = whole.log_phi.clone().requires_grad_()
    answer = beliefs(whole, log_phi, **options)
    (found,) = torch.autograd.grad(answer.probabilities.square().sum() + answer.log_z.sum(), log_phi)
    states, entries = whole.split(answer.probabilities, "states"), whole.split(found, "entries")
    for n, graph in enumerate(graphs):
        flat = compile(graph).to()
        own = flat.log_phi.clone().requires_grad_()
        single = beliefs(flat, own, **options)
        (wanted,) = torch.autograd.grad(single.probabilities.square().sum() + single.log_z.sum(), own)
        torch.testing.assert_close(states[n], single.probabilities, atol=1e-12, rtol=0)
        torch.testing.assert_close(answer.log_z[n], single.log_z[0], atol=1e-10, rtol=0)
        torch.testing.assert_close(answer.change[n], single.change[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(entries[n], flat.split(wanted, "entries")[0], atol=1e-10, rtol=0)


def test_implicit_stops_when_settled_and_reports_what_did_not() -> None:
    flat = compile(ising_grid(3, 3, seed=2)).to()
    settled = beliefs(flat, flat.log_phi, iterations=1000, gradient="implicit")
    assert settled.iterations < 200
    assert settled.change.item() <= 1e-6
    assert beliefs(flat, flat.log_phi, iterations=2).change.item() > 1e-3


def test_a_network_learns_through_the_layer() -> None:
    graphs = ising_grid(3, 3, count=8, seed=4)
    flat = compile(graphs).to(dtype="float32")
    wanted = torch.tensor(np.concatenate([solve(g, "MAR", "exact").marginals.values for g in graphs])).float()
    torch.manual_seed(0)
    network = torch.nn.Linear(1, 1)

    def loss() -> Tensor:
        log_phi = network(flat.log_phi[:, None]).squeeze(1)
        return (beliefs(flat, log_phi, iterations=15).probabilities - wanted).square().mean()

    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    first = loss().item()
    for _ in range(25):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 0.1 * first
    assert network.weight.item() == pytest.approx(1.0, abs=0.2)  # the true potentials are the best input


unchecked = inspect.unwrap(beliefs)  # The checks of the tests themselves would come first.


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"damping": 1.0}, "damping must be at least 0 and below 1, found 1.0"),
        ({"iterations": 0}, "iterations must be at least 1, found 0"),
        ({"tolerance": -1.0}, "tolerance must be a number of at least 0, found -1.0"),
        ({"semiring": "min"}, "semiring must be one of sum, max, found 'min'"),
        ({"gradient": "none"}, "gradient must be one of unrolled, implicit, found 'none'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    flat = compile(TREES[0]).to()
    with pytest.raises(OptionError, match=re.escape(text)):
        unchecked(flat, flat.log_phi, **options)


def test_inputs_are_checked() -> None:
    compiled: Any = compile(TREES[0])
    flat = compiled.to()
    with pytest.raises(ModelError, match=r"numpy arrays\. Pass compile\(graphs\)\.to\(device\)"):
        unchecked(compiled, flat.log_phi)
    with pytest.raises(ModelError, match=r"shape \[.., \d+\], one number per table entry; found shape \(3,\)"):
        unchecked(flat, torch.zeros(3))
    with pytest.raises(ModelError, match="one number per table entry; found ndarray"):
        unchecked(flat, compiled.log_phi)
    with pytest.raises(ModelError, match=r"floating point and on the device of the graph, cpu; found torch\.int64"):
        unchecked(flat, torch.zeros(flat.num_entries, dtype=torch.int64))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
@gradients
def test_the_gpu_gives_the_same(dtype: str, tolerance: float, gradient: Any) -> None:
    answers = []
    for device, precision in (("cpu", "float64"), ("cuda", dtype)):
        flat = compile([*LOOPY, *TREES]).to(device, precision)
        log_phi = flat.log_phi.clone().requires_grad_()
        answer = beliefs(flat, log_phi, iterations=30, tolerance=0.0, gradient=gradient)
        (found,) = torch.autograd.grad(answer.probabilities.square().sum() + answer.log_z.sum(), log_phi)
        answers.append([t.detach().double().cpu() for t in (answer.probabilities, answer.log_z, found)])
    for on_cpu, on_gpu in zip(*answers, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, atol=tolerance, rtol=tolerance)


@gradients
@pytest.mark.parametrize("semiring", ["sum", "max"])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_potentials_that_are_not_numbers_are_refused(wrong: float, semiring: str, gradient: Any) -> None:
    """Only zeros in the tables give a ln Z of `-inf`, which means that no assignment is possible."""
    graphs = [FactorGraph([2, 2], [([0, 1], table)]) for table in ([[1, 0], [0, 1]], [[0, 0], [0, 0]])]
    flat = compile(graphs).to("cpu", "float64")
    log_phi = flat.log_phi.clone()
    answer = beliefs(flat, log_phi, semiring=semiring, gradient=gradient)
    assert answer.log_z[0].isfinite()
    assert answer.log_z[1].isneginf()
    log_phi[-1] = wrong
    with pytest.raises(ModelError, match=r"a potential is NaN or \+inf\. Log potentials must be finite, or -inf"):
        beliefs(flat, log_phi, semiring=semiring, gradient=gradient)
