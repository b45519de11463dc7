"""Masks with holes, the k best sequences, samples and entropies of chains, against enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from equifactor import ChainCRF, ModelError, OptionError
from equifactor.learning.crf.chain_paths import _by_kernels, _by_sorting

B, T, D = 4, 5, 3
# Word pieces: holes in the middle, at the first and at the last place, and a row without holes.
HOLES = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0]]).bool()
SHAPES = [(D, D), (T - 1, D, D), (B, T - 1, D, D)]


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def crf() -> ChainCRF:
    torch.manual_seed(0)
    module = ChainCRF(D).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def enumerated(crf: ChainCRF, e: Tensor, b: int, a: Tensor) -> tuple[list[int], Tensor, Tensor]:
    """Return the places of row b, all its label sequences [M, n] with earlier places varying fastest, and scores."""
    places = HOLES[b].nonzero()[:, 0].tolist()
    paths = torch.tensor([p[::-1] for p in itertools.product(range(D), repeat=len(places))])
    score = crf.start[paths[:, 0]] + crf.end[paths[:, -1]]
    for k, t in enumerate(places):
        score = score + e[b, t, paths[:, k]]
        if k + 1 < len(places):
            table = a if a.ndim == 2 else a[t] if a.ndim == 3 else a[b, t]
            score = score + table[paths[:, k], paths[:, k + 1]]
    return places, paths, score


@pytest.mark.parametrize("shape", SHAPES)
def test_masks_with_holes_equal_enumeration(crf: ChainCRF, shape: tuple[int, ...]) -> None:
    e, a = draw(B, T, D), draw(*shape, seed=2)
    log_z, p = crf.log_z(e, HOLES, transitions=a), crf.marginals(e, HOLES, transitions=a)
    q, entropy = crf.factor_marginals(e, HOLES, transitions=a), crf.entropy(e, HOLES, transitions=a)
    best = crf.map(e, HOLES, transitions=a)
    tags = torch.where(HOLES, 1, -100)
    likelihood = crf.log_likelihood(e, tags, HOLES, transitions=a)
    for b in range(B):
        places, paths, score = enumerated(crf, e, b, a)
        weight = score.softmax(0)
        torch.testing.assert_close(log_z[b], score.logsumexp(0))
        torch.testing.assert_close(entropy[b], -(weight * score.log_softmax(0)).sum())
        torch.testing.assert_close(likelihood[b], score.log_softmax(0)[(paths == 1).all(1)][0])
        want_p, want_q = torch.zeros_like(p[b]), torch.zeros_like(q[b])
        for k, t in enumerate(places):
            want_p[t].index_add_(0, paths[:, k], weight.detach())
            if k + 1 < len(places):
                want_q[t].view(-1).index_add_(0, paths[:, k] * D + paths[:, k + 1], weight.detach())
        torch.testing.assert_close(p[b].detach(), want_p)
        torch.testing.assert_close(q[b].detach(), want_q)
        want = torch.full((T,), -1)
        want[places] = paths[score.argmax()]
        assert best[b].tolist() == want.tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 4, 30])
def test_the_k_best_sequences_and_their_ties(crf: ChainCRF, shape: tuple[int, ...], k: int) -> None:
    """Whole numbers give many ties, which are resolved as documented."""
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(parameter.round())
    e, a = draw(B, T, D).round(), draw(*shape, seed=2).round()
    e[2, 1, 1] = a[..., 0, 1] = -torch.inf
    found = crf.k_best(e, k, HOLES, transitions=a)
    assert found.states.shape == (B, k, T)
    for b in range(B):
        places, paths, score = enumerated(crf, e, b, a)
        ranked, order = score.sort(descending=True, stable=True)
        order = order[ranked > -torch.inf][:k]
        want = torch.full((k, T), -1)
        want[: len(order), places] = paths[order]
        assert found.states[b].tolist() == want.tolist()
        assert found.log_scores[b, : len(order)].tolist() == score[order].tolist()
        assert torch.isneginf(found.log_scores[b, len(order) :]).all()
    assert crf.map(e, HOLES, transitions=a).tolist() == found.states[:, 0].tolist()


@pytest.mark.parametrize("shape", [(1, 1, D, D), (1, T - 1, D, D), (B, T - 1, D, D)])
def test_sorting_on_a_gpu_gives_the_same_paths(shape: tuple[int, ...]) -> None:
    e, a, lengths = draw(B, T, D).round(), draw(*shape, seed=2).round(), torch.tensor([5, 1, 3, 4])
    (score, states), (want_score, want) = (f(e, a, lengths, 6) for f in (_by_sorting, _by_kernels))
    assert score.tolist() == want_score.tolist()
    used = (torch.arange(T) < lengths[:, None])[:, None] & (score > -torch.inf)[:, :, None]
    assert torch.where(used, states, -1).tolist() == torch.where(used, want, -1).tolist()


def test_gradients(crf: ChainCRF) -> None:
    e, a = draw(B, T, D).requires_grad_(), draw(D, D, seed=2).requires_grad_()
    for f in (crf.entropy, crf.log_z, crf.marginals, crf.factor_marginals):
        assert torch.autograd.gradcheck(lambda e, a, f=f: f(e, HOLES, transitions=a), (e, a), fast_mode=True)
    (gradient,) = torch.autograd.grad(crf.k_best(e, 2, HOLES).log_scores[2, 0], e)
    assert gradient[2].sum(1).tolist() == [1.0] * T
    assert not gradient[0].any()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_batch_equals_its_rows(crf: ChainCRF, kind: torch.dtype) -> None:
    crf, e = crf.to(kind), draw(B, T, D).to(kind)
    whole = (crf.entropy(e, HOLES), crf.map(e, HOLES), *crf.k_best(e, 3, HOLES), crf.marginals(e, HOLES))
    assert whole[0].dtype == whole[2].dtype == kind
    for b in range(B):
        x, m = e[b : b + 1], HOLES[b : b + 1]
        row = (crf.entropy(x, m), crf.map(x, m), *crf.k_best(x, 3, m), crf.marginals(x, m))
        for all_rows, own in zip(whole, row, strict=True):
            torch.testing.assert_close(all_rows[b : b + 1], own)
    x = e[:1, HOLES[0]]  # The same row without the places outside its mask.
    torch.testing.assert_close(crf.log_z(e, HOLES)[:1], crf.log_z(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_follow_the_distribution(crf: ChainCRF, shape: tuple[int, ...]) -> None:
    e, a, n = draw(B, T, D), draw(*shape, seed=2), 20_000
    e[0, 0, 0] = a[..., 2, 2] = -torch.inf
    x = crf.sample(e, n, HOLES, transitions=a, generator=torch.Generator().manual_seed(3))
    assert x.shape == (B, n, T)
    assert torch.equal(x == -1, ~HOLES[:, None].expand(B, n, T))
    for b in range(B):
        places, paths, score = enumerated(crf, e, b, a)
        code = (D ** torch.arange(len(places))).flip(0)
        share = torch.bincount((x[b][:, places] * code).sum(1), minlength=D ** len(places)) / n
        p = score.softmax(0)[(paths * code).sum(1).argsort()]
        assert not share[p == 0].any()
        assert ((share - p).abs() < 5 * (p * (1 - p) / n).sqrt() + 1e-3).all()  # five standard errors
    again = crf.sample(e, n, HOLES, transitions=a, generator=torch.Generator().manual_seed(3))
    assert torch.equal(x, again)


def test_rows_without_a_possible_sequence(crf: ChainCRF) -> None:
    e = draw(2, T, D)
    e[0, 2] = -torch.inf
    assert crf.entropy(e)[0] == 0
    assert (crf.sample(e, 3)[0] == -1).all()
    assert (crf.sample(e, 3)[1] >= 0).all()
    found = crf.k_best(e, 2)
    assert (found.states[0] == -1).all()
    assert torch.isneginf(found.log_scores[0]).all()


def test_transforms(crf: ChainCRF) -> None:
    e = draw(B, T, D)
    got = torch.func.vmap(lambda row, m: crf.map(row[None], m[None])[0])(e, HOLES)
    assert torch.equal(got, crf.map(e, HOLES))
    got = torch.func.vmap(torch.func.grad(lambda row, m: crf.log_z(row[None], m[None]).sum()))(e, HOLES)
    torch.testing.assert_close(got, crf.marginals(e, HOLES))


def test_wrong_calls_are_refused(crf: ChainCRF) -> None:
    e = draw(B, T, D)
    for k in (0, 1.5, True):
        with pytest.raises(OptionError, match="k must be a whole number from 1"):
            crf.k_best(e, k)
    with pytest.raises(OptionError, match="n must be a whole number"):
        crf.sample(e, 0)
    with pytest.raises(OptionError, match=r"must be a torch.Generator"):
        crf.sample(e, 1, generator=3)  # type: ignore[arg-type]
    for call in (crf.map, crf.entropy, lambda x: crf.sample(x, 1), lambda x: crf.k_best(x, 2)):
        with pytest.raises(ModelError, match="NaN or"):
            call(torch.full_like(e, torch.nan))
    with pytest.raises(AttributeError, match=r"method map.*method k_best"):
        _ = crf.decode
