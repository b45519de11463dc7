"""CRFs on any graph against enumeration and the package's solvers."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import equifactor as ef
from equifactor import CRF, ModelError, OptionError, SolveError
from equifactor.generators import random_graph


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def flat_graph(crf: CRF, *potentials: Tensor) -> ef.FactorGraph:
    """Return the graph of one row of potentials."""
    whole = [p.detach().expand(b.count, *b.shape).reshape(-1) for b, p in zip(crf.blocks, potentials, strict=True)]
    return crf.graph.with_potentials(torch.cat(whole).numpy(), log=True)


@pytest.mark.parametrize("zeros", [0.0, 0.1])
def test_a_ragged_graph_equals_enumeration(zeros: float) -> None:
    graph = random_graph(7, 9, arity=(0, 3), card=(1, 4), seed=4)
    crf = CRF(graph)
    assert crf.engine == "exact"
    theta = draw(3, graph.structure.num_entries)
    theta[torch.rand(theta.shape, generator=torch.Generator().manual_seed(0)) < zeros] = -torch.inf
    answer = crf.infer(theta)
    best = crf.map(theta)
    assignments = np.array(list(itertools.product(*(range(d) for d in graph.card))))
    for n in range(3):
        one = graph.with_potentials(theta[n].numpy(), log=True)
        want = ef.solve(one, "MAR", "brute")
        assert answer.log_z[n].item() == pytest.approx(want.log_z)
        for v in range(graph.num_vars):
            p = answer.marginals[n, v, : graph.card[v]].numpy()
            np.testing.assert_allclose(p, 0.0 if want.log_z == -np.inf else want.marginals[v], atol=1e-12)
        if want.log_z > -np.inf:
            assert one.log_score(best[n].numpy()) == pytest.approx(ef.solve(one, "MAP", "brute").log_score)
        likelihood = crf.log_likelihood(theta[n], states=torch.from_numpy(assignments))
        want_scores = np.asarray(one.log_score(assignments)) - (0.0 if want.log_z == -np.inf else want.log_z)
        np.testing.assert_allclose(likelihood.numpy(), want_scores, atol=1e-9)
        weight = np.exp(want_scores)
        first = 0
        for block, q in zip(crf.blocks, answer.factor_marginals, strict=True):
            for k in range(block.count if want.log_z > -np.inf else 0):
                scope = graph.structure.scope(first + k)
                flat = np.ravel_multi_index((*assignments[:, scope].T, np.zeros(len(weight), int)), (*block.shape, 1))
                expected = np.bincount(flat, weight, math.prod(block.shape)).reshape(block.shape)
                np.testing.assert_allclose(q[n, k].numpy(), expected, atol=1e-9)
            first += block.count


def test_gradients() -> None:
    crf = CRF.grid(2, 3, 2)
    unary, pair = draw(2, 6, 2).requires_grad_(), draw(2, 2, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(crf.log_z, (unary, pair), fast_mode=True)
    assert torch.autograd.gradgradcheck(crf.log_z, (unary, pair), fast_mode=True)
    assert torch.autograd.gradcheck(crf.marginals, (unary, pair), fast_mode=True)
    assert torch.autograd.gradcheck(lambda *p: crf.factor_marginals(*p)[1], (unary, pair), fast_mode=True)
    states = torch.tensor([[0, 1, 0, 1, 1, 0], [1, 1, 0, 0, 0, 0]])
    assert torch.autograd.gradcheck(lambda *p: crf(*p, states=states), (unary, pair), fast_mode=True)
    with torch.no_grad():
        unary[0, 0, 0] = pair[0, 1] = -torch.inf
    gradients = torch.autograd.grad(
        crf.marginals(unary, pair).square().sum() + crf.log_z(unary, pair).sum(), (unary, pair)
    )
    assert all(torch.isfinite(g).all() for g in gradients)


def test_batch_shapes() -> None:
    crf = CRF.grid(2, 2, 3)
    assert str(crf) == "CRF(4 variables, potentials [4, 3], [4, 3, 3], exact: width 2)"
    unary, pair = draw(5, 2, 4, 3), draw(4, 3, 3, seed=2)
    whole = crf.log_z(unary, pair)
    assert whole.shape == (5, 2)
    assert crf.marginals(unary, pair).shape == (5, 2, 4, 3)
    assert [q.shape for q in crf.factor_marginals(unary, pair)] == [(5, 2, 4, 3), (5, 2, 4, 3, 3)]
    assert crf.map(unary, pair).shape == (5, 2, 4)
    torch.testing.assert_close(crf.log_z(unary[3, 1], pair), whole[3, 1])
    tied = crf.log_z(unary, pair[0])
    torch.testing.assert_close(tied, crf.log_z(unary, pair[0].expand(4, 3, 3)))
    torch.testing.assert_close(tied, crf.log_z(unary, pair[:1].expand(5, 2, 1, 3, 3)))
    assert crf.log_score(unary, pair, states=torch.zeros(4, dtype=torch.int64)).shape == (5, 2)
    half = crf.log_z(unary.half(), pair.half())
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.double(), whole, atol=0.1, rtol=0.02)


@pytest.mark.parametrize("engine", ["exact", "bp"])
def test_factors_of_other_kinds_stay(engine: str) -> None:
    """Structured factors: elimination lowers them to tables, and belief propagation, exact on a tree, keeps them."""
    factors = [
        ([0], [1, 2]),
        ([0, 1, 2], ef.Parity()),
        ([1], [1, 1]),
        ([2, 3], np.ones((2, 2))),
        ([3, 4], ef.NoisyOr(0.1, [0.3])),
    ]
    graph = ef.FactorGraph([2] * 5, factors)
    crf = CRF(graph, engine=engine)
    assert crf.engine == engine
    potentials = [draw(2, 2), draw(1, 2, 2, seed=2)]
    values = graph.log_phi.copy()
    is_table = np.repeat(graph.structure.kinds.kind == 0, np.diff(graph.structure.table_ptr))
    values[is_table] = torch.cat([p.reshape(-1) for p in potentials]).numpy()
    one = graph.with_potentials(values, log=True)
    want, best = ef.solve(one, "MAR", "brute"), ef.solve(one, "MAP", "brute")
    answer = crf.infer(*potentials)
    assert answer.exact == (engine == "exact")
    assert answer.log_z.item() == pytest.approx(want.log_z, abs=1e-6)
    np.testing.assert_allclose(answer.marginals.numpy().ravel(), want.marginals.values, atol=1e-5)
    states = crf.map(*potentials, solver="brute")
    assert crf.log_score(*potentials, states=states).item() == pytest.approx(best.log_score)


@pytest.mark.parametrize("engine", ["exact", "bp"])
def test_images(engine: Any) -> None:
    crf, image = CRF.grid(2, 4, 3, engine=engine), CRF.grid(2, 4, 3, image=True, engine=engine)
    assert "potentials [3, 2, 4], [10, 3, 3]" in str(image)
    scores, pair = draw(5, 3, 2, 4), draw(5, 10, 3, 3, seed=2)
    unary, states = scores.reshape(5, 3, 8).mT, scores.argmax(1)
    torch.testing.assert_close(
        image.log_likelihood(scores, pair, states=states), crf.log_likelihood(unary, pair, states=states.flatten(1))
    )
    torch.testing.assert_close(image.marginals(scores, pair), crf.marginals(unary, pair).mT.reshape(5, 3, 2, 4))
    assert torch.equal(image.map(scores[0], pair[0]), crf.map(unary[0], pair[0]).reshape(2, 4))
    with pytest.raises(ModelError, match=r"must have shape \[.., 3, 2, 4\] \(image=True\), found \[5, 8, 3\]"):
        image.log_z(unary, pair)
    with pytest.raises(ModelError, match=r"states must have shape \[.., 2, 4\], found \[5, 8\]"):
        image.log_score(scores, pair, states=states.flatten(1))


def test_belief_propagation_takes_over_and_says_so() -> None:
    unary, pair = draw(2, 9, 2).requires_grad_(), (0.3 * draw(2, 2, seed=2)).requires_grad_()
    exact, bp = CRF.grid(3, 3, 2), CRF.grid(3, 3, 2, memory_limit=1e-9)
    assert bp.engine == "bp"
    assert "belief propagation: at most 100 steps" in str(bp)
    answer = bp.infer(unary, pair)
    assert not answer.exact
    assert answer.change.max() < 1e-5
    torch.testing.assert_close(answer.marginals, exact.marginals(unary, pair), atol=0.01, rtol=0.0)
    found = torch.autograd.grad(answer.log_z.sum(), (unary, pair))
    want = torch.autograd.grad(exact.log_z(unary, pair).sum(), (unary, pair))
    for x, y in zip(found, want, strict=True):
        torch.testing.assert_close(x, y, atol=0.02, rtol=0.02)
    assert torch.equal(bp.map(unary, pair), exact.map(unary, pair))
    with pytest.raises(SolveError, match="Raise memory_limit, or use engine='bp'"):
        CRF.grid(3, 3, 2, memory_limit=1e-9, engine="exact")


def test_transforms_copies_and_devices() -> None:
    crf = CRF.pairs(3, [(0, 1), (1, 2), (2, 0)], 2)
    unary, pair = draw(4, 3, 2), draw(2, 2, seed=2)
    want = torch.autograd.functional.jacobian(lambda u: crf.log_z(u, pair).sum(), unary)
    got = torch.func.vmap(torch.func.grad(lambda u: crf.log_z(u, pair)))(unary)
    torch.testing.assert_close(got, want)
    for other in (copy.deepcopy(crf), pickle.loads(pickle.dumps(crf)), crf.to("cpu")):
        torch.testing.assert_close(other.log_z(unary, pair), crf.log_z(unary, pair))
    assert not list(crf.state_dict())
    assert isinstance(CRF.chain(4), ef.ChainCRF)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decode", "viterbi"])
def test_names_of_other_packages(name: str) -> None:
    for crf in (CRF.grid(2, 2, 2), CRF.chain(2)):
        with pytest.raises(AttributeError, match=rf"CRF has no {name}\. The most probable labels are the method map"):
            getattr(crf, name)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile does so itself
def test_it_compiles_as_a_whole() -> None:
    crf = CRF.pairs(3, [(0, 1), (1, 2), (2, 0)], 2)
    unary, pair = draw(4, 3, 2).requires_grad_(), draw(2, 2, seed=2)
    compiled = torch.compile(lambda u: crf.log_z(u, pair).sum(), fullgraph=True, backend="aot_eager")
    (want,) = torch.autograd.grad(crf.log_z(unary, pair).sum(), unary)
    torch.testing.assert_close(torch.autograd.grad(compiled(unary), unary)[0], want)


def test_wrong_inputs_are_refused() -> None:
    crf = CRF.grid(2, 2, 2)
    unary, pair = draw(4, 2), draw(2, 2)
    with pytest.raises(ModelError, match=r"takes 2 tensors of potentials \(\[4, 2\], \[4, 2, 2\]"):
        crf.log_z(unary)
    with pytest.raises(
        ModelError, match=r"Tensor 1 of the potentials must hold floating-point numbers of shape \[\.\., 4, 2, 2\]"
    ):
        crf.log_z(unary, draw(3, 2, 2))
    with pytest.raises(ModelError, match="NaN or"):
        crf.log_z(unary * torch.nan, pair)
    with pytest.raises(ModelError, match=r"states must have shape \[\.\., 4\]"):
        crf.log_score(unary, pair, states=torch.zeros(3, dtype=torch.int64))
    for states, words in ((torch.full((4,), 2), "out of range: .* variables have 2 states"), (torch.zeros(4), "whole")):
        with pytest.raises(ModelError, match=words):
            crf.log_likelihood(draw(4, 2), draw(2, 2), states=states)
    with pytest.raises(ModelError, match="at least one dense table"):
        CRF(ef.FactorGraph([2, 2]))
    with pytest.raises(ModelError, match="without evidence"):
        CRF(crf.graph.condition({0: 1}))
    with pytest.raises(ModelError, match="needs a FactorGraph"):
        CRF("grid")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="engine must be one of auto, exact, bp"):
        CRF.grid(2, 2, 2, engine="fast")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_the_gpu_gives_the_same() -> None:
    answers = []
    for device in ("cpu", "cuda"):
        crf = CRF.grid(3, 3, 3).to(device)
        unary, pair = draw(2, 9, 3).to(device).requires_grad_(), draw(3, 3, seed=2).to(device).requires_grad_()
        found = crf.infer(unary, pair)
        loss = found.log_z.sum() + found.marginals.square().sum() + found.factor_marginals[1].square().sum()
        gradients = torch.autograd.grad(loss, (unary, pair))
        states = crf.map(unary, pair)
        score = crf(unary, pair, states=states)
        answers.append([t.detach().cpu() for t in (found.log_z, found.marginals, *gradients, states, score)])
    for on_cpu, on_gpu in zip(*answers, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu)
