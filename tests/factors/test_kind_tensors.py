"""Factors of every kind in torch: messages, maxima and scores against dense tables and against the compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equifactor import AtLeast, AtMost, Clause, Count, FactorGraph, ModelError, NoisyOr, Parity
from equifactor.base.clock import Clock
from equifactor.factors import tensors
from equifactor.factors.noisy_or import noisy_or_tensors
from equifactor.graph.kinds import kind_class
from equifactor.graph.reduction import without_impossible_states
from equifactor.solvers import compile
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.numba_engine import NumbaEngine
from equifactor.solvers.messages.torch_engine import TorchEngine
from equifactor.solving.solver import SolveContext
from tests.factors.random_factors import KINDS, as_tables, random_card, random_factor, random_mixture

every_kind = pytest.mark.parametrize("kind", KINDS)
semirings = pytest.mark.parametrize("semiring", ["sum", "max"])


def factors_of(kind: str, seed: int, count: int = 4) -> FactorGraph:
    """Return several random factors of one kind, each over its own variables."""
    rng = np.random.default_rng(seed)
    card: list[int] = []
    factors = []
    for _ in range(count):
        shape = random_card(rng, kind)
        factors.append((list(range(len(card), len(card) + len(shape))), random_factor(rng, kind, shape)))
        card += shape
    return FactorGraph(card, factors, log=True)


def received(graph: FactorGraph, seed: int, zeros: float = 0.2) -> Tensor:
    """Return random messages [S] to factors, in variable order, if every variable has one factor."""
    rng = np.random.default_rng(seed)
    q = 3.0 * rng.normal(size=int(graph.card.sum()))
    q[rng.random(len(q)) < zeros] = -np.inf
    return torch.tensor(q)


def through_tables(graph: FactorGraph, q: Tensor, semiring: Any) -> tuple[list[np.ndarray], list[float]]:
    """Return the messages of every factor from its dense table, and the total of each factor."""
    ptr = np.concatenate(([0], np.cumsum(graph.card)))
    messages, totals = [], []
    for a in range(graph.num_factors):
        scope, table = graph.structure.scope(a).tolist(), graph.log_table(a)
        own = [q[ptr[i] : ptr[i + 1]].numpy() for i in scope]
        for j in range(len(scope)):
            joint = table
            for n, message in enumerate(own):
                if n != j:
                    joint = joint + message.reshape([-1 if m == n else 1 for m in range(len(scope))])
            messages.append(_reduced(np.moveaxis(joint, j, 0).reshape(table.shape[j], -1), semiring))
        totals.append(float(_reduced((messages[-1] + own[-1])[None], semiring)[0]))
    return messages, totals


def _reduced(rows: np.ndarray, semiring: str) -> np.ndarray:
    if semiring == "max":
        return rows.max(1)
    top = np.nan_to_num(rows.max(1), neginf=0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(rows - top[:, None]).sum(1)) + top


def in_order(flat: Any, values: Tensor) -> Tensor:
    """Return values [X] of variable states as edge states [S]."""
    return values[flat.state_of_edge_state]


def centred(values: Tensor, edge: Tensor) -> np.ndarray:
    """Return messages [S] minus the largest entry of their edge, with finite numbers in place of `-inf`."""
    values = values.detach()
    top = torch.full((int(edge.max()) + 1,), -torch.inf, dtype=values.dtype).scatter_reduce(0, edge, values, "amax")
    top = torch.where(torch.isneginf(top), 0.0, top)
    return np.nan_to_num((values - top[edge]).numpy(), neginf=-1e4)


@every_kind
@semirings
def test_messages_and_totals_are_those_of_the_tables(kind: str, semiring: Any) -> None:
    for seed in range(8):
        graph = factors_of(kind, seed)
        flat = compile(graph).to()
        q = received(graph, seed, zeros=0.2 * (seed % 2))
        wanted, totals = through_tables(graph, q, semiring)
        (own,) = tensors.structured_of(flat)
        found = own.messages(flat.log_phi, in_order(flat, q), semiring)
        expected = torch.tensor(np.concatenate(wanted))
        edge = flat.edge_of_edge_state
        np.testing.assert_allclose(centred(found, edge), centred(expected, edge), rtol=1e-10, atol=1e-10)
        total = own.log_totals(flat.log_phi, in_order(flat, q), semiring)
        np.testing.assert_allclose(
            np.nan_to_num(total.numpy(), neginf=-1e4), np.nan_to_num(totals, neginf=-1e4), rtol=1e-12
        )


@every_kind
@semirings
def test_channels_are_messages_one_by_one(kind: str, semiring: Any) -> None:
    graph = factors_of(kind, 3)
    flat = compile(graph).to()
    (own,) = tensors.structured_of(flat)
    q = torch.stack([in_order(flat, received(graph, n)) for n in range(3)], dim=1)
    values = flat.log_phi[:, None] * torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    together = own.messages(values, q, semiring)
    for n in range(3):
        alone = own.messages(values[:, n], q[:, n], semiring)
        np.testing.assert_allclose(together[:, n], alone, rtol=1e-12, atol=1e-12)


@every_kind
def test_scores_are_those_of_the_graph(kind: str) -> None:
    for seed in range(6):
        graph = factors_of(kind, seed)
        flat = compile(graph).to()
        states = np.random.default_rng(seed).integers(0, graph.card)
        found = tensors.log_scores(flat, torch.tensor(states))
        assert found.item() == pytest.approx(graph.log_score(states))


# ---- gradients ------------------------------------------------------------------------------------------


def where_finite(values: Tensor) -> tuple[Tensor, Any]:
    """Return the finite values, and a function that puts other values in their place."""
    mask = torch.isfinite(values)
    return values[mask].clone().requires_grad_(), lambda v: values.clone().masked_scatter(mask, v)


@every_kind
@semirings
def test_gradients_are_those_of_finite_differences(kind: str, semiring: Any) -> None:
    """Test gradients in received messages and in log values; probabilities of noisy-ors are neither 0 nor 1."""
    for seed in range(2):
        graph = factors_of(kind, seed, count=3)
        flat = compile(graph).to()
        log_phi = flat.log_phi.clamp(-3.0, -0.1) if kind == "noisy_or" else flat.log_phi
        theta, with_theta = where_finite(log_phi)
        sent, with_sent = where_finite(in_order(flat, received(graph, seed)))

        def answers(theta: Tensor, sent: Tensor, of: Any = (flat, with_theta, with_sent)) -> tuple[Tensor, Tensor]:
            flat, with_theta, with_sent = of
            (own,) = tensors.structured_of(flat, fixed=False)
            out = own.kind.messages(with_theta(theta), with_sent(sent), semiring)  # with all constants
            total = own.log_totals(with_theta(theta), with_sent(sent), semiring)
            # Gradients are taken of possible states only; `exp` makes all numbers finite.
            weight = torch.linspace(0.5, 1.5, len(out), dtype=out.dtype)
            return (weight * (0.1 * out).exp()).sum(), (0.1 * total).exp()

        assert torch.autograd.gradcheck(answers, (theta, sent), atol=1e-6, fast_mode=True)


@every_kind
@semirings
def test_zeros_make_no_nan(kind: str, semiring: Any) -> None:
    for seed in range(4):
        dtype = (torch.float32, torch.float64)[seed % 2]
        graph = factors_of(kind, seed)
        flat = compile(graph).to(dtype=str(dtype)[6:])
        q = in_order(flat, received(graph, seed, zeros=0.7)).to(dtype).requires_grad_()
        log_phi = flat.log_phi.clone().requires_grad_()
        (own,) = tensors.structured_of(flat.with_log_phi(log_phi))
        out = own.messages(log_phi, q, semiring)
        total = own.log_totals(log_phi, q, semiring)
        assert not torch.isnan(out).any()
        assert not torch.isnan(total).any()
        loss = (0.1 * out).exp().sum() + torch.where(torch.isneginf(total), 0.0, total).sum()
        for gradient in torch.autograd.grad(loss, (log_phi, q), allow_unused=True):
            assert gradient is None or torch.isfinite(gradient).all()


# ---- engines --------------------------------------------------------------------------------------------


def engines(graph: Any, semiring: Any, dtype: str, damping: float) -> tuple[NumbaEngine, TorchEngine]:
    flat, settings = compile(graph), BpSettings(semiring, "parallel", damping, 1e-9, 0)
    context = SolveContext(clock=Clock(None), seed=0, device="cpu", dtype=dtype, progress=None)
    return NumbaEngine(flat, settings), TorchEngine(flat, settings, context)


def assert_equal_runs(graph: Any, semiring: Any, dtype: str, damping: float, sweeps: int = 4) -> None:
    one, two = engines(graph, semiring, dtype, damping)
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    for _ in range(sweeps):
        change, other = one.sweep(1), two.sweep(1)
    np.testing.assert_allclose(other, change, atol=tolerance)
    wanted, found = one.answers(), two.answers()
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=tolerance)
    for name in ("log_z",) if semiring == "sum" else ("upper_bound",):
        x, y = (np.nan_to_num(getattr(a, name), neginf=-1e9) for a in (wanted, found))
        np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance)


@semirings
@pytest.mark.parametrize(("dtype", "damping"), [("float64", 0.3), ("float32", 0.0)])
def test_the_torch_engine_runs_as_the_compiled_one_does(semiring: Any, dtype: str, damping: float) -> None:
    graphs = []
    for seed in range(48):
        (reduced,) = without_impossible_states([random_mixture(np.random.default_rng(seed))])
        if reduced is not None:
            graphs.append(reduced.graph if seed % 4 else as_tables(reduced.graph))
    assert_equal_runs(graphs, semiring, dtype, damping)  # one batch of all kinds and plain graphs


@pytest.mark.parametrize(
    ("arity", "factor"),
    [
        (1000, Parity(odd=True)),
        (1000, Clause()),
        (1000, AtMost(3)),
        (300, Count(np.sin(np.arange(301)))),
        (300, NoisyOr(0.01, np.linspace(0.1, 0.99, 299))),
    ],
)
def test_long_factors(arity: int, factor: Any) -> None:
    rng = np.random.default_rng(0)
    unary = [([i], table) for i, table in enumerate(rng.normal(size=(arity, 2)))]
    graph = FactorGraph([2] * arity, [*unary, (range(arity), factor)], log=True)
    assert_equal_runs(graph, "sum", "float64", 0.0, sweeps=2)
    assert_equal_runs(graph, "sum", "float32", 0.0, sweeps=2)
    if not isinstance(factor, NoisyOr):
        assert_equal_runs(graph, "max", "float64", 0.0, sweeps=2)


def test_factors_over_a_hundred_thousand_variables() -> None:
    arity, rng = 100_000, np.random.default_rng(0)
    unary = [([i], rng.normal(size=2)) for i in range(100)]
    factors = [(range(arity), f) for f in (Parity(), Clause(), AtLeast(arity - 2), NoisyOr(0.1, [0.9] * (arity - 1)))]
    graph = FactorGraph([2] * arity, [*unary, *factors], log=True)
    one, two = engines(graph, "sum", "float64", 0.3)
    one.sweep(2)
    two.sweep(2)
    wanted, found = one.answers(), two.answers()
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-9)
    np.testing.assert_allclose(found.log_z, wanted.log_z, rtol=1e-6)  # a difference of sums of 100,000 logs


def test_counts_are_level_where_values_are_and_gradients_do_not_mind() -> None:
    """Equal values are counted as one value, unless each value needs its own gradient."""
    unary = [([i], [0.0, 0.3 * i]) for i in range(6)]
    flat = compile(FactorGraph([2] * 6, [*unary, (range(6), AtLeast(1))], log=True)).to()
    (capped,), (full,) = (tensors.structured_of(flat, fixed=fixed) for fixed in (True, False))
    assert [b.cap for b in capped.kind.batches] == [1]
    assert [b.cap for b in full.kind.batches] == [8]
    log_phi = flat.log_phi.clone().requires_grad_()
    messages = in_order(flat, torch.linspace(-1.0, 1.0, 12, dtype=torch.float64))
    (found,) = torch.autograd.grad(full.log_totals(log_phi, messages, "sum").sum(), log_phi)
    shares = found[full.group.entries]
    assert shares.sum().item() == pytest.approx(1.0)
    assert shares[0] == 0.0
    assert (shares[1:] > 0).all()


# ---- noisy-ors that are searched, kinds without messages --------------------------------------------------


@pytest.mark.parametrize("gradient", [False, True])
def test_searched_noisy_ors_are_those_of_the_tables(monkeypatch: pytest.MonkeyPatch, gradient: bool) -> None:
    for seed in range(8):
        graph = factors_of("noisy_or", seed)
        answers = []
        for largest in (10, 1):
            monkeypatch.setattr(noisy_or_tensors, "_LARGEST_TABLE", largest)
            flat = compile(graph).to()
            (own,) = tensors.structured_of(flat)
            q = in_order(flat, received(graph, seed, zeros=0.0)).requires_grad_(gradient)
            out, total = own.messages(flat.log_phi, q, "max"), own.log_totals(flat.log_phi, q, "max")
            answers.append([out.detach(), total.detach()])
            if gradient:
                finite = torch.where(torch.isneginf(total), 0.0, total)
                answers[-1] += torch.autograd.grad((0.1 * out).exp().sum() + finite.sum(), q)
        for one, two in zip(*answers, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@every_kind
def test_a_kind_that_states_no_messages_goes_through_its_tables(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = factors_of(kind, 5)
    q = received(graph, 1, zeros=0.0)
    answers = []
    cls = kind_class(int(graph.structure.kinds.kind[0]))
    for known in (cls.tensors, ""):
        monkeypatch.setattr(cls, "tensors", known)
        flat = compile(graph).to()
        (own,) = tensors.structured_of(flat)
        sent = own.messages(flat.log_phi, in_order(flat, q), "sum")
        answers.append((own.normalized(sent, "sum"), tensors.log_scores(flat, torch.zeros(graph.num_vars).long())))
    for one, two in zip(*answers, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_a_large_factor_without_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parity, "tensors", "")
    flat = compile(FactorGraph([2] * 30, [(range(30), Parity())])).to()
    with pytest.raises(
        ModelError, match=r"The kind parity has no messages of its own in torch, and a factor with 2\^30 table entries"
    ):
        tensors.structured_of(flat)
