"""Chains against enumeration: values, first and second derivatives, true zeros, masks, transforms."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import equifactor as ef
from equifactor import ChainCRF, ModelError, OptionError
from equifactor.learning.crf.chain_layer import (
    _changes_by_recursion,
    _changes_eliminated,
    _eliminated,
    _forward_backward,
)

LENGTHS = [4, 1, 3]
B, T, D = 3, 4, 3
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def crf() -> ChainCRF:
    torch.manual_seed(0)
    module = ChainCRF(D).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def enumerated(crf: ChainCRF, emissions: Tensor, b: int, transitions: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return all label sequences [M, n] of row b, and their log scores [M]."""
    n = LENGTHS[b]
    paths = torch.tensor(list(itertools.product(range(D), repeat=n)))
    a = crf.transitions if transitions is None else transitions
    score = crf.start[paths[:, 0]] + crf.end[paths[:, -1]] + emissions[b, torch.arange(n), paths].sum(1)
    for t in range(n - 1):
        here = a if a.ndim == 2 else a[t] if a.ndim == 3 else a[b, t]
        score = score + here[paths[:, t], paths[:, t + 1]]
    return paths, score


@pytest.mark.parametrize("shape", [(D, D), (T - 1, D, D), (B, T - 1, D, D)])
def test_everything_equals_enumeration(crf: ChainCRF, shape: tuple[int, ...]) -> None:
    e, a = draw(B, T, D), draw(*shape, seed=2)
    log_z = crf.log_z(e, MASK, transitions=a)
    p, q = crf.marginals(e, MASK, transitions=a), crf.factor_marginals(e, MASK, transitions=a)
    best = crf.map(e, MASK, transitions=a)
    for b in range(B):
        paths, score = enumerated(crf, e, b, a)
        torch.testing.assert_close(log_z[b], score.logsumexp(0))
        weight = score.softmax(0)
        for t, d in itertools.product(range(T), range(D)):
            want = weight[paths[:, t] == d].sum() if t < LENGTHS[b] else torch.zeros((), dtype=torch.float64)
            torch.testing.assert_close(p[b, t, d], want)
        for t, i, j in itertools.product(range(LENGTHS[b] - 1), range(D), range(D)):
            want = weight[(paths[:, t] == i) & (paths[:, t + 1] == j)].sum()
            torch.testing.assert_close(q[b, t, i, j], want)
        assert best[b].tolist() == paths[score.argmax()].tolist() + [-1] * (T - LENGTHS[b])
        tags = torch.full((B, T), -100)
        tags[:, :] = torch.where(MASK, 0, -100)
        tags[b, : LENGTHS[b]] = paths[7 % len(paths)]
        got = crf.log_likelihood(e, tags, MASK, transitions=a)[b]
        torch.testing.assert_close(got, score.log_softmax(0)[7 % len(paths)])
    assert not q[1].any()


@pytest.mark.parametrize("shape", [(D, D), (B, T - 1, D, D)])
def test_gradients(crf: ChainCRF, shape: tuple[int, ...]) -> None:
    e, a = draw(B, T, D).requires_grad_(), draw(*shape, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda e, a: crf.log_z(e, MASK, transitions=a), (e, a), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda e, a: crf.log_z(e, MASK, transitions=a), (e, a), fast_mode=True)
    assert torch.autograd.gradcheck(lambda e, a: crf.marginals(e, MASK, transitions=a), (e, a), fast_mode=True)
    assert torch.autograd.gradcheck(lambda e, a: crf.factor_marginals(e, MASK, transitions=a), (e, a), fast_mode=True)
    tags = torch.zeros(B, T, dtype=torch.int64)
    parameters = tuple(crf.parameters())
    found = torch.autograd.grad(crf(e, tags, MASK).sum(), (e, *parameters))
    want = torch.autograd.grad(
        sum(enumerated(crf, e, b)[1].log_softmax(0)[0] for b in range(B)), (e, *parameters)  # type: ignore[arg-type]
    )  # fmt: skip
    for x, y in zip(found, want, strict=True):
        torch.testing.assert_close(x, y)


def test_the_gradient_of_log_z_is_the_marginals(crf: ChainCRF) -> None:
    e = draw(B, T, D).requires_grad_()
    (gradient,) = torch.autograd.grad(crf.log_z(e, MASK).sum(), e)
    torch.testing.assert_close(gradient, crf.marginals(e, MASK))
    with torch.no_grad():
        torch.testing.assert_close(gradient, crf.marginals(e, MASK))


def test_true_zeros(crf: ChainCRF) -> None:
    """Impossible transitions and labels: no NaN in values or derivatives, and an impossible row is -inf."""
    with torch.no_grad():
        crf.transitions[0, 1] = crf.transitions[1, :] = -torch.inf
    e = draw(B, T, D)
    e[0, 2, 2] = e[2, 1, 1] = -torch.inf
    e[1, 0] = -torch.inf
    e.requires_grad_()
    log_z = crf.log_z(e, MASK)
    for b in (0, 2):
        torch.testing.assert_close(log_z[b], enumerated(crf, e, b)[1].logsumexp(0))
    assert log_z[1] == -torch.inf
    tags = torch.zeros(B, T, dtype=torch.int64)
    likelihood = crf.log_likelihood(e, tags, MASK)
    assert likelihood[1] == -torch.inf
    p = crf.marginals(e, MASK)
    assert not p[1].any()
    for value in (log_z[[0, 2]].sum(), likelihood[0], p.square().sum()):
        for gradient in torch.autograd.grad(value, (e, *crf.parameters()), retain_graph=True, allow_unused=True):
            assert gradient is None or torch.isfinite(gradient).all()
    second = torch.autograd.grad(crf.log_z(e, MASK)[0], e, create_graph=True)[0]
    assert torch.isfinite(torch.autograd.grad(second.square().sum(), e)[0]).all()


def test_a_path_that_underflows_is_not_lost() -> None:
    """State 1 is e^-900 times as likely at first, and the only state with a possible transition."""
    crf = ChainCRF(2, boundaries=False).double()
    with torch.no_grad():
        crf.transitions.copy_(torch.tensor([[-torch.inf, -torch.inf], [0.0, -torch.inf]]))
    e = torch.tensor([[[0.0, -900.0], [1.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    log_z = crf.log_z(e)
    assert log_z.item() == pytest.approx(-899.0)
    (gradient,) = torch.autograd.grad(log_z.sum(), e)
    assert gradient[0].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    q = crf.factor_marginals(e, transitions=torch.tensor([[-2000.0, -2000.0], [0.0, 0.0]], dtype=torch.float64))
    assert q.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_floating_types(crf: ChainCRF, kind: torch.dtype) -> None:
    module = copy.deepcopy(crf).to(kind)
    e = draw(B, T, D).to(kind).requires_grad_()
    log_z = module.log_z(e, MASK)
    assert log_z.dtype == kind
    log_z.sum().backward()
    assert e.grad is not None
    assert e.grad.dtype == module.transitions.grad.dtype == kind
    torch.testing.assert_close(log_z.double(), crf.log_z(e.double(), MASK), atol=0.1, rtol=0.02)


def test_one_place_and_mixed_types(crf: ChainCRF) -> None:
    e = draw(2, 1, D).float()
    torch.testing.assert_close(crf.log_z(e), (e[:, 0] + crf.start + crf.end).logsumexp(-1))
    assert crf.factor_marginals(e).shape == (2, 0, D, D)
    assert crf.map(e).shape == (2, 1)


def test_transforms(crf: ChainCRF) -> None:
    e, tags = draw(B, T, D), torch.ones(B, T, dtype=torch.int64)

    def loss(row: Tensor, own: Tensor, parameters: Any) -> Tensor:
        return torch.func.functional_call(crf, parameters, (row[None], own[None])).sum()

    parameters = dict(crf.named_parameters())
    each = torch.func.vmap(torch.func.grad(loss, argnums=2), in_dims=(0, 0, None))(e, tags, parameters)
    for b in range(B):
        want = torch.autograd.grad(crf(e[b : b + 1], tags[b : b + 1]).sum(), list(parameters.values()))
        for name, gradient in zip(parameters, want, strict=True):
            torch.testing.assert_close(each[name][b], gradient)
    hessian = torch.func.jacrev(torch.func.grad(lambda x: crf.log_z(x[None]).sum()))(e[0])
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(lambda x: crf.log_z(x[None]).sum(), e[0]))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile does so itself
def test_it_compiles_as_a_whole(crf: ChainCRF) -> None:
    e, tags = draw(B, T, D).requires_grad_(), torch.ones(B, T, dtype=torch.int64)
    compiled = torch.compile(lambda e: crf(e, tags, MASK).sum(), fullgraph=True, backend="aot_eager")
    (got,) = torch.autograd.grad(compiled(e), e)
    (want,) = torch.autograd.grad(crf(e, tags, MASK).sum(), e)
    torch.testing.assert_close(got, want)


def test_the_same_as_exact() -> None:
    """Compare a chain with the same chain as a factor graph, by `solve`."""
    crf = ChainCRF(4, boundaries=False)
    e, a = draw(1, 6, 4), draw(4, 4, seed=2)
    factors = [([t], e[0, t].numpy()) for t in range(6)] + [([t, t + 1], a.numpy()) for t in range(5)]
    want = ef.solve(ef.FactorGraph([4] * 6, factors, log=True), "MAR", "exact")
    assert crf.log_z(e, transitions=a).item() == pytest.approx(want.log_z)
    np.testing.assert_allclose(crf.marginals(e, transitions=a)[0].detach().numpy().ravel(), want.marginals.values)


def test_wrong_inputs_are_refused(crf: ChainCRF) -> None:
    e, tags = draw(B, T, D), torch.zeros(B, T, dtype=torch.int64)
    with pytest.raises(ModelError, match=r"emissions must have shape \[B, T, 3\]"):
        crf.log_z(draw(T, D))
    with pytest.raises(ModelError, match="true at least once"):
        crf.log_z(e, torch.tensor([[0, 0, 0, 0]] * B).bool())
    with pytest.raises(ModelError, match=r"mask must have shape \(3, 4\)"):
        crf.log_z(e, MASK[:2])
    with pytest.raises(ModelError, match="not one of the 3 states"):
        crf(e, tags + 3)
    with pytest.raises(ModelError, match=r"tags must have shape \(3, 4\)"):
        crf(e, tags[:2])
    with pytest.raises(ModelError, match="transitions must have shape"):
        crf.log_z(e, transitions=draw(2, 2))
    with pytest.raises(ModelError, match="NaN or"):
        crf.log_z(torch.full_like(e, torch.nan))
    with pytest.raises(ModelError, match="tags must be whole numbers"):
        crf.log_likelihood(torch.zeros(3, 4, 3), torch.zeros(3, 4))
    with pytest.raises(ModelError, match="emissions must be a dense tensor"):
        crf.map(np.zeros((3, 4, 3)))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="must be a whole number from 1"):
        ChainCRF(0)


@pytest.mark.parametrize("shape", [(1, 1, D, D), (1, T - 1, D, D), (B, T - 1, D, D)])
def test_what_runs_on_a_gpu_gives_the_same(shape: tuple[int, ...]) -> None:
    """Compare both ways to compute the sums, on the CPU."""
    e, a, lengths = draw(B, T, D), draw(*shape, seed=2), torch.tensor(LENGTHS)
    e[0, 1, 1] = a[..., 0, 1] = -torch.inf
    for x, y in zip(_eliminated(e, a, lengths), _forward_backward(e, a, lengths, True), strict=True):
        torch.testing.assert_close(x, y)
    u, v = draw(B, T, D, seed=3), draw(B, *shape[1:], seed=4)
    changes = (f(e, a, lengths, u, v) for f in (_changes_eliminated, _changes_by_recursion))
    for x, y in zip(*changes, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("shape", [(D, D), (B, T - 1, D, D)])
def test_the_gpu_gives_the_same(crf: ChainCRF, shape: tuple[int, ...]) -> None:
    answers = []
    for device in ("cpu", "cuda"):
        module, mask = copy.deepcopy(crf).to(device), MASK.to(device)
        e, a = draw(B, T, D).to(device).requires_grad_(), draw(*shape, seed=2).to(device).requires_grad_()
        log_z, p = module.log_z(e, mask, transitions=a), module.marginals(e, mask, transitions=a)
        gradients = torch.autograd.grad(log_z.sum() + p.square().sum(), (e, a))
        best = module.map(e, mask, transitions=a)
        answers.append([t.detach().cpu() for t in (log_z, p, *gradients, best)])
    for on_cpu, on_gpu in zip(*answers, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu)
