from __future__ import annotations

import math

import numpy as np
import pytest

from equifactor.base.errors import ModelError
from equifactor.graph.marginals import Marginals
from equifactor.metrics import (
    hellinger,
    kl,
    map_error,
    max_error,
    pooled_rmse,
    rmse,
    summarize,
    uai_score,
)


def marginals(*vectors: list[float]) -> Marginals:
    return Marginals.from_list(vectors)


P = marginals([0.5, 0.5], [1.0], [0.2, 0.3, 0.5])
Q = marginals([0.25, 0.75], [1.0], [0.2, 0.5, 0.3])
ALL = [kl, hellinger, rmse, max_error]


class TestMarginals:
    def test_by_hand(self) -> None:
        first = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
        third = 0.3 * math.log(0.3 / 0.5) + 0.5 * math.log(0.5 / 0.3)
        assert kl(P, Q) == pytest.approx((first + 0.0 + third) / 3)
        assert rmse(P, Q) == pytest.approx(math.sqrt((2 * 0.25**2 + 2 * 0.2**2) / 6))
        assert max_error(P, Q) == pytest.approx(0.25)
        h1 = math.sqrt(0.5 * ((0.5**0.5 - 0.25**0.5) ** 2 + (0.5**0.5 - 0.75**0.5) ** 2))
        h3 = math.sqrt((0.3**0.5 - 0.5**0.5) ** 2)
        assert hellinger(P, Q) == pytest.approx((h1 + h3) / 3)

    @pytest.mark.parametrize("measure", ALL)
    def test_no_error(self, measure: object) -> None:
        assert measure(P, P) == 0.0  # type: ignore[operator]

    def test_kl_is_not_symmetric(self) -> None:
        assert kl(P, Q) != kl(Q, P)

    def test_true_zeros(self) -> None:
        certain, even, other = marginals([1.0, 0.0]), marginals([0.5, 0.5]), marginals([0.0, 1.0])
        assert kl(certain, even) == pytest.approx(math.log(2.0))  # p = 0 adds nothing
        assert kl(certain, certain) == 0.0  # nor does p = q = 0
        assert kl(even, certain) == math.inf
        assert kl(certain, other) == math.inf
        assert hellinger(certain, other) == 1.0
        assert max_error(certain, other) == 1.0

    def test_one_infinite_variable_makes_the_graph_infinite(self) -> None:
        assert kl(marginals([0.5, 0.5], [0.5, 0.5]), marginals([0.5, 0.5], [1.0, 0.0])) == math.inf

    def test_denormal_probabilities(self) -> None:
        tiny = marginals([1.0, 5e-324])
        assert math.isfinite(kl(tiny, marginals([0.5, 0.5])))
        assert math.isfinite(kl(marginals([0.5, 0.5]), tiny))

    @pytest.mark.parametrize("measure", ALL)
    @pytest.mark.parametrize("place", [0, 1])
    def test_nan_is_never_hidden(self, measure: object, place: int) -> None:
        broken = marginals([np.nan, 1.0] if place == 0 else [1.0, np.nan])
        certain = marginals([1.0, 0.0])
        assert math.isnan(measure(certain, broken))  # type: ignore[operator]
        assert math.isnan(measure(broken, certain))  # type: ignore[operator]

    def test_observed_and_single_state_variables_count(self) -> None:
        p = marginals([0.5, 0.5], [1.0, 0.0], [1.0])
        q = marginals([0.25, 0.75], [1.0, 0.0], [1.0])
        assert kl(p, q) == pytest.approx(kl(marginals([0.5, 0.5]), marginals([0.25, 0.75])) / 3)
        free = np.array([0])
        assert kl(p, q, variables=free) == pytest.approx(3 * kl(p, q))
        assert hellinger(p, q, variables=free) == pytest.approx(3 * hellinger(p, q))
        assert rmse(p, q) == pytest.approx(math.sqrt(2 * 0.25**2 / 5))
        assert rmse(p, q, variables=free) == pytest.approx(0.25)
        assert max_error(p, q, variables=np.array([1, 2])) == 0.0

    @pytest.mark.parametrize("measure", ALL)
    def test_no_variables(self, measure: object) -> None:
        assert measure(marginals(), marginals()) == 0.0  # type: ignore[operator]

    @pytest.mark.parametrize("measure", ALL)
    def test_refuses_different_models(self, measure: object) -> None:
        with pytest.raises(ModelError, match="3 variables with 6 states, and 1 variables with 2 states"):
            measure(P, marginals([0.5, 0.5]))  # type: ignore[operator]
        with pytest.raises(ModelError, match="different models"):
            measure(marginals([0.5, 0.5], [1.0]), marginals([1.0], [0.5, 0.5]))  # type: ignore[operator]


class TestManyGraphs:
    def test_mean_and_standard_error(self) -> None:
        summary = summarize([1.0, 2.0, 3.0, 6.0])
        assert summary.mean == summary.finite_mean == 3.0
        assert summary.stderr == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
        assert (summary.count, summary.num_infinite) == (4, 0)
        assert str(summary) == "3 +- 1.1 (n=4)"

    def test_infinite_values_are_counted(self) -> None:
        summary = summarize([1.0, math.inf, 3.0])
        assert summary.mean == math.inf
        assert math.isnan(summary.stderr)
        assert (summary.count, summary.num_infinite, summary.finite_mean) == (3, 1, 2.0)
        assert "1 infinite" in str(summary)

    def test_few_graphs(self) -> None:
        assert summarize([2.0]).mean == 2.0
        assert math.isnan(summarize([2.0]).stderr)
        assert math.isnan(summarize([]).mean)
        assert summarize([]).count == 0
        assert math.isnan(summarize([math.inf]).finite_mean)
        assert math.isnan(summarize([1.0, math.nan]).mean)

    def test_rmse_pools_entries(self) -> None:
        small_p, small_q = marginals([0.5, 0.5]), marginals([0.4, 0.6])
        pooled = pooled_rmse([P, small_p], [Q, small_q])
        entries = np.concatenate((P.values - Q.values, small_p.values - small_q.values))
        assert pooled.mean == pytest.approx(math.sqrt(np.mean(entries**2)))
        assert pooled.count == 2

    def test_rmse_standard_error_is_the_spread_of_repetitions(self) -> None:
        rng = np.random.default_rng(0)
        even = marginals([0.5, 0.5])

        def sample(n: int) -> list[Marginals]:
            return [marginals([0.5 + e, 0.5 - e]) for e in 0.1 * rng.random(n)]

        runs = [pooled_rmse([even] * 200, sample(200)) for _ in range(200)]
        spread = np.std([r.mean for r in runs])
        assert np.mean([r.stderr for r in runs]) == pytest.approx(spread, rel=0.2)

    def test_rmse_corner_cases(self) -> None:
        assert pooled_rmse([P, P], [P, P]).stderr == 0.0
        assert math.isnan(pooled_rmse([P], [Q]).stderr)
        assert math.isnan(pooled_rmse([], []).mean)
        assert pooled_rmse([marginals()], [marginals()]).mean == 0.0
        with pytest.raises(ModelError, match="found 1 estimates for 2 answers"):
            pooled_rmse([P, P], [Q])


class TestScores:
    @pytest.mark.parametrize(
        ("score", "optimum", "error"),
        [
            (-110.0, -100.0, 0.1),
            (90.0, 100.0, 0.1),
            (-100.0, -100.0, 0.0),
            (-math.inf, -100.0, math.inf),
            (0.0, 0.0, 0.0),
            (-1.0, 0.0, math.inf),
            (-math.inf, 0.0, math.inf),
            (-math.inf, -math.inf, 0.0),
            (-5.0, -math.inf, math.inf),
            (math.nan, -1.0, math.nan),
            (-1.0, math.nan, math.nan),
        ],
    )
    def test_map_error(self, score: float, optimum: float, error: float) -> None:
        assert float(map_error(score, optimum)) == pytest.approx(error, nan_ok=True)

    def test_map_error_of_many(self) -> None:
        errors = map_error([-110.0, -math.inf, -100.0], [-100.0, -100.0, -100.0])
        np.testing.assert_allclose(errors, [0.1, math.inf, 0.0])
        summary = summarize(errors)
        assert (summary.mean, summary.num_infinite) == (math.inf, 1)
        assert summary.finite_mean == pytest.approx(0.05)

    @pytest.mark.parametrize(
        ("error", "trivial", "score"),
        [
            (0.0, 2.0, 100.0),
            (0.5, 2.0, 75.0),
            (2.0, 2.0, 0.0),
            (3.0, 2.0, 0.0),
            (math.inf, 2.0, 0.0),
            (0.0, 0.0, 100.0),
            (1.0, 0.0, 0.0),
            (1.0, math.inf, 100.0),
            (math.inf, math.inf, 0.0),
            (math.nan, 1.0, math.nan),
        ],
    )
    def test_uai_score(self, error: float, trivial: float, score: float) -> None:
        assert float(uai_score(error, trivial)) == pytest.approx(score, nan_ok=True)

    def test_uai_score_refuses_negative_errors(self) -> None:
        with pytest.raises(ModelError, match="found a negative error"):
            uai_score([-0.1], [1.0])
