"""Errors that flip the same targets: `weight`, `corrections` and `proven` compared with enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.base.clock import Clock, Compiling
from equifactor.base.status import Status, Task
from equifactor.decoding import Decoder, WordDecoder, optimal_engine
from equifactor.solving.estimate import Estimate
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import SolveContext, Solver

PRIORS = (0.0, 0.02, 0.2, 0.3, 0.5, 0.7, 0.95, 1.0)


def random_code(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return checks [3, 8], observables [2, 8] and priors [8]; many columns are equal, and some are zero."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(2, size=(5, 4))[:, rng.integers(4, size=8)]
    return targets[:3], targets[3:], rng.choice(PRIORS, 8)


@pytest.mark.parametrize("method", ["optimal", "bp-osd", "relay(legs=3)", "min-sum(iterations=5)"])
def test_answers_are_those_of_enumeration(method: str) -> None:
    errors = np.array(list(itertools.product((0, 1), repeat=8)))
    shots = np.array(list(itertools.product((0, 1), repeat=3)))
    for seed in range(40 if method == "optimal" else 15):
        checks, observables, p = random_code(seed)
        chance = np.prod(np.where(errors == 1, p, 1 - p), axis=1)
        seen, flipped = errors @ checks.T % 2, errors @ observables.T % 2
        kinds, group = np.unique(np.vstack((checks, observables)), axis=1, return_inverse=True)
        merged = (errors @ np.eye(kinds.shape[1], dtype=int)[group.ravel()]) % 2  # [256, number of merged errors]
        result = Decoder(checks, p, observables, method=method).decode(shots, corrections=True)
        assert result.corrections is not None
        for n, shot in enumerate(shots):
            mine = (seen == shot).all(axis=1)
            if not chance[mine].any():  # Nothing explains the shot.
                assert not result.converged[n]
                assert result.proven is None or not result.proven[n]
                continue
            if not result.converged[n]:
                assert method not in ("optimal", "bp-osd")
                continue
            found = int(np.flatnonzero((errors == result.corrections[n]).all(axis=1))[0])
            assert mine[found]
            assert chance[found] > 0.0
            assert (flipped[found] == result.flips[n]).all()
            alike = (merged == merged[found]).all(axis=1)
            assert chance[found] == pytest.approx(chance[alike].max())
            if method == "optimal":
                assert result.proven is not None
                assert result.proven[n]
                visible = (kinds[:3].any(axis=0)[None] * merged) @ (1 << np.arange(kinds.shape[1]))
                weights = {key: chance[mine & (visible == key)].sum() for key in np.unique(visible[mine])}
                assert weights[visible[found]] == pytest.approx(max(weights.values()), rel=1e-4)


def test_the_likeliest_error_is_changed() -> None:
    decoder = Decoder([[1, 1, 1]], [1e-20, 1e-18, 1e-19], method="min-sum")
    assert decoder.decode([[1]], corrections=True).corrections.tolist() == [[0, 1, 0]]  # type: ignore[union-attr]
    certain = Decoder([[1, 1]], [1.0, 1.0], method="optimal").decode([[0], [1]], corrections=True)
    assert certain.corrections is not None
    assert certain.corrections[0].tolist() == [1, 1]
    assert certain.converged.tolist() == [True, False]
    assert certain.proven is not None
    assert certain.proven.tolist() == [True, False]


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_the_likeliest_words_are_proven(scale: float) -> None:
    rng = np.random.default_rng(1)
    parity = rng.integers(2, size=(4, 9))
    parity[0, parity.sum(axis=0) == 0] = 1
    words = np.array([w for w in itertools.product((0, 1), repeat=9) if not (parity @ w % 2).any()])
    ratios = scale * rng.normal(0.3, 1.0, (60, 9))
    ratios[:20] = scale * np.sign(ratios[:20])  # Words over a binary symmetric channel.
    result = WordDecoder(parity, "optimal(iterations=1, legs=0, osd_order=0)").decode(ratios)
    best = (ratios @ words.T).min(axis=1)
    assert result.proven is not None
    assert result.proven.all()
    np.testing.assert_allclose(result.weight, best, rtol=1e-4, atol=1e-4 * scale)


def test_a_gap_proves_words_only_by_their_own_log_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is prepared with errors of probability 1/4, for which a gap below ln 3 would be a proof."""

    def stopped(*given: object) -> list[Estimate]:
        return [Estimate(status=Status.TIME_LIMIT, upper_bound=0.0)]

    monkeypatch.setattr(optimal_engine, "estimates_of", stopped)
    ratios = [[0.3, 0.2, -0.1], [0.4, -0.4, 0.4]]
    result = WordDecoder([[1, 1, 1]], "optimal").decode(ratios)
    assert result.corrections is not None
    assert result.corrections.tolist()[0] == [0, 0, 0]
    assert result.converged.all()
    assert result.proven is not None
    assert result.proven.tolist() == [False, True]  # Words of the second kind differ in weight by at least 0.8.


def test_compiling_is_not_taken_from_the_time_of_a_shot(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiling(solver: Solver, graphs: list[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        began = Clock.now()
        with monkeypatch.context() as patch:
            patch.setattr(Clock, "now", staticmethod(lambda: began + 100.0))  # 100 s pass, and kernels compile in them.
            patch.setattr(Compiling, "seconds", Compiling.seconds + 100.0)
            return estimates_of(solver, graphs, task, context)

    monkeypatch.setattr(Clock, "ignores_compiling", False)
    monkeypatch.setattr(optimal_engine, "estimates_of", compiling)
    checks = [[1, 0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1]]
    decoder = Decoder(checks, [0.1, 0.02, 0.3, 0.1, 0.45, 0.1, 0.05], method="optimal")
    result = decoder.decode(list(itertools.product((0, 1), repeat=3)))
    assert result.proven is not None
    assert result.proven.all()
