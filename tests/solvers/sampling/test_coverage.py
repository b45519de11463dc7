"""Error bars of samplers on rugged graphs: they cover the truth, and chains that report agreement are right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from equifactor import FactorGraph, Result, Status, solve


def rugged(coupling: float, seed: int, n: int = 10) -> FactorGraph:
    """Spins, normal couplings between all pairs and normal fields: a few modes far from each other."""
    rng = np.random.default_rng(seed)
    factors = [([i], np.exp([h, -h])) for i, h in enumerate(0.5 * rng.standard_normal(n))]
    for i, j in itertools.combinations(range(n), 2):
        c = coupling * rng.standard_normal()
        factors.append(([i, j], np.exp([[c, -c], [-c, c]])))
    return FactorGraph([2] * n, factors)


def covered(got: Result, want: Result) -> float:
    """Return the share of marginals within two standard errors."""
    off = np.abs(got.marginals.values - want.marginals.values)
    return float(np.mean(off <= 2 * got.standard_errors.values + 1e-9))


def wrong(got: Result, want: Result) -> bool:
    """Return whether an answer reports convergence and has an error above five standard errors and 0.02."""
    off = np.abs(got.marginals.values - want.marginals.values)
    far = (off > 5 * got.standard_errors.values) & (off > 0.02)
    return got.status is Status.CONVERGED and bool(far.any())


def pairs(coupling: float, share: float, seed: int) -> FactorGraph:
    """Eight to eleven variables of two or three states, and tables with normal log entries for some of the pairs."""
    rng = np.random.default_rng([seed, 1])
    card = rng.integers(2, 4, 8 + seed % 4)
    scopes = [list(pair) for pair in itertools.combinations(range(len(card)), 2) if rng.random() < share]
    scopes += [[i] for i in range(len(card))]
    factors = [(scope, np.exp(coupling * rng.standard_normal(tuple(card[scope])))) for scope in scopes]
    return FactorGraph(card.tolist(), factors)


@pytest.mark.parametrize(
    "spec",
    [
        "blocks(enumerate=false, memory_limit=1e-7, sweeps=100)",
        "gibbs(samples=300, burn_in=100)",
        "regions(seconds=0.3, splittings=4, bound=3, start=2)",
    ],
)
def test_standard_errors_are_as_large_as_errors(spec: str) -> None:
    graphs = [*(rugged(c, seed) for c in (1.0, 2.0) for seed in range(12)), *(pairs(1.0, 0.4, n) for n in range(16))]
    answers = check_errors(graphs[::2], spec)
    if spec.startswith("blocks"):  # Jumps between modes let the chains agree on the right answer.
        assert np.mean([got.status is Status.CONVERGED for got, _ in answers]) > 0.8
        assert 0.6 < rms([(got.log_z - want.log_z) / got.log_z_error for got, want in answers]) < 1.4


def test_standard_errors_of_auto_are_as_large_as_errors(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs with too little memory for exact sums: `auto` mixes a sampler with belief propagation."""
    # The network runs only if some other test has imported torch before.
    monkeypatch.setattr("equifactor.solvers.auto.sum_portfolio.is_installed", lambda _: False)
    driven_time.tick = 8e-5
    graphs = [rugged(c, seed, n=20) for c in (1.0, 2.0) for seed in range(6)]
    answers = check_errors(graphs, "auto(memory_limit=1e-6, seconds=0.12)")
    for got, want in answers:  # Far from belief propagation, auto states bounds instead of an error.
        if got.log_z_error is None:
            assert got.lower_bound <= want.log_z <= got.upper_bound
        else:
            assert abs(got.log_z - want.log_z) <= 3.0 * got.log_z_error


def check_errors(graphs: list[FactorGraph], spec: str) -> list[tuple[Result, Result]]:
    """Check that standard errors are neither much smaller nor much larger than errors; return answers and truths."""
    answers = [(solve(g, "MAR", spec, seed=n), solve(g, "MAR", "exact")) for n, g in enumerate(graphs)]
    answers = [(got, want) for got, want in answers if got.status is not Status.EXACT]
    assert len(answers) > 10
    assert np.mean([covered(*answer) for answer in answers]) >= 0.85
    assert not any(wrong(*answer) for answer in answers)
    off = rms(np.concatenate([got.marginals.values - want.marginals.values for got, want in answers]))
    assert 0.7 < off / rms(np.concatenate([got.standard_errors.values for got, _ in answers])) < 1.3
    return answers


def rms(values: Sequence[float] | np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def test_the_last_chain_in_a_mode_can_leave_it() -> None:
    """Run 8 chains on two modes, of which the smaller has 2 %: at most 2 % of the draws are in the smaller mode."""
    factors = [([i, i + 1], np.exp([[4.0, -4.0], [-4.0, 4.0]])) for i in range(9)]
    graph = FactorGraph([2] * 10, [*factors, ([0, 9], np.exp([[4.0, -4.0], [-4.0, 4.0]])), ([4], [0.02, 0.98])])
    got = solve(graph, "MAR", "blocks(enumerate=false, memory_limit=1e-7, sweeps=400)", seed=1)
    want = solve(graph, "MAR", "exact")
    assert got.stats["jumped"] > 0.0
    assert abs(got.marginals[0][0] - want.marginals[0][0]) < 0.02
    assert covered(got, want) == 1.0


def test_copies_and_short_chains_are_not_called_converged() -> None:
    from equifactor.graph.reduction import to_free_part
    from equifactor.solvers.sampling.chain_driver import sampled_estimate
    from equifactor.solvers.sampling.running_batches import BatchStatistics
    from equifactor.solving.solver import SolveContext

    reduced = to_free_part(FactorGraph([2], [([0], [1.0, 3.0])]))
    assert reduced is not None

    def estimate(effective: float, copies: int) -> tuple[Status, str]:
        found = BatchStatistics(np.array([0.3, 0.7]), np.full(2, 0.01), np.ones(2), np.full(2, effective), 16, 8)
        got = sampled_estimate(reduced, found, 100, copies, SolveContext())
        return got.status, got.message

    assert estimate(500.0, 3)[0] is Status.CONVERGED
    status, message = estimate(500.0, 5)
    assert status is Status.ITERATION_LIMIT
    assert "5 of 8 started where another chain did" in message
    status, message = estimate(20.0, 0)
    assert status is Status.ITERATION_LIMIT
    assert "too short" in message
