"""Error bars of samplers on rugged graphs: they cover the truth, and chains that report agreement are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import FactorGraph, Result, Status, solve


def rugged(coupling: float, seed: int) -> FactorGraph:
    """Ten spins, normal couplings between all pairs and normal fields: a few modes far from each other."""
    rng = np.random.default_rng(seed)
    factors = [([i], np.exp([h, -h])) for i, h in enumerate(0.5 * rng.standard_normal(10))]
    for i, j in itertools.combinations(range(10), 2):
        c = coupling * rng.standard_normal()
        factors.append(([i, j], np.exp([[c, -c], [-c, c]])))
    return FactorGraph([2] * 10, factors)


def covered(got: Result, want: Result) -> float:
    """The share of marginals within two standard errors."""
    off = np.abs(got.marginals.values - want.marginals.values)
    return float(np.mean(off <= 2 * got.standard_errors.values + 1e-9))


def wrong(got: Result, want: Result) -> bool:
    """Whether an answer reports convergence and is more than five standard errors, and 0.02, off."""
    off = np.abs(got.marginals.values - want.marginals.values)
    far = (off > 5 * got.standard_errors.values) & (off > 0.02)
    return got.status is Status.CONVERGED and bool(far.any())


@pytest.mark.parametrize(
    "spec",
    [
        "blocks(enumerate=false, memory_limit=1e-7, sweeps=200)",
        "gibbs(samples=500)",
        "regions(seconds=0.2, splittings=4, bound=3, start=2)",
    ],
)
def test_two_standard_errors_cover_rugged_models(spec: str) -> None:
    answers = []
    for coupling, seed in itertools.product((1.0, 2.0), range(6)):
        graph = rugged(coupling, seed)
        answers.append((solve(graph, "MAR", spec, seed=seed), solve(graph, "MAR", "exact")))
    assert np.mean([covered(*answer) for answer in answers]) >= 0.85
    assert not any(wrong(*answer) for answer in answers)
    if spec.startswith("blocks"):  # Jumps between modes let the chains agree on the right answer.
        assert np.mean([got.status is Status.CONVERGED for got, _ in answers]) > 0.8
        near = [abs(got.log_z - want.log_z) <= 2 * got.log_z_error for got, want in answers]
        assert np.mean(near) >= 0.85


def test_the_last_chain_in_a_mode_can_leave_it() -> None:
    """Two modes, the smaller one of 2 %, and 8 chains: no more than 2 % of the draws are there."""
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
    from equifactor.solvers.sampling.running_batches import Findings
    from equifactor.solving.solver import SolveContext

    reduced = to_free_part(FactorGraph([2], [([0], [1.0, 3.0])]))
    assert reduced is not None

    def estimate(effective: float, copies: int) -> tuple[Status, str]:
        found = Findings(np.array([0.3, 0.7]), np.full(2, 0.01), np.ones(2), np.full(2, effective), 16, 8)
        got = sampled_estimate(reduced, found, 100, copies, SolveContext())
        return got.status, got.message

    assert estimate(500.0, 3)[0] is Status.CONVERGED
    status, message = estimate(500.0, 5)
    assert status is Status.ITERATION_LIMIT
    assert "5 of 8 started where another chain did" in message
    status, message = estimate(20.0, 0)
    assert status is Status.ITERATION_LIMIT
    assert "too short" in message
