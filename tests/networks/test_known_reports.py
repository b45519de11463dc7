"""Questions on which other packages are reported to fail, each against enumeration or the network written out.

pgmpy 1491, 2454 and 3543 are about actions; pgmpy 1417, 1585, 1638, 1679, 1856 and 1944, and bnlearn 100, are about
networks in time.
"""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef


def test_an_action_leaves_causes_as_they_are() -> None:
    network = ef.BayesianNetwork(
        {
            "A": {"yes": 0.123, "no": 0.877},
            "B": {"yes": 0.987, "no": 0.013},
            "C": (["A", "B"], [[[0.123, 0.877], [0.456, 0.544]], [[0.789, 0.211], [0.987, 0.013]]]),
        }
    )
    np.testing.assert_allclose(ef.solve(network, do={"C": 0}).marginals["A"], [0.123, 0.877])
    np.testing.assert_allclose(ef.solve(network, do={"A": "yes"}).marginals["B"], [0.987, 0.013])


def test_evidence_beside_an_action_counts() -> None:
    sprinkler = ef.BayesianNetwork(
        {
            "C": [0.5, 0.5],
            "S": ("C", [[0.5, 0.5], [0.9, 0.1]]),
            "R": ("C", [[0.8, 0.2], [0.2, 0.8]]),
            "W": (["S", "R"], [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]),
        }
    )
    result = ef.solve(sprinkler, do={"S": 1}, evidence={"R": 1})
    assert result.marginals["W"][1] == pytest.approx(0.99)
    assert result.marginals["C"][1] == pytest.approx(0.8)


def test_actions_on_a_cause_and_on_its_effect_hold_together() -> None:
    network = ef.BayesianNetwork(
        {
            "A": [0.6, 0.4],
            "B": ("A", [[0.7, 0.3], [0.2, 0.8]]),
            "C": (["A", "B"], [[[0.5, 0.5], [0.4, 0.6]], [[0.3, 0.7], [0.0, 1.0]]]),
        }
    )
    np.testing.assert_allclose(ef.solve(network, do={"A": 0, "B": 1}).marginals["C"], [0.4, 0.6])


def test_a_variable_above_the_action_has_a_posterior() -> None:
    network = ef.BayesianNetwork(
        {
            "Q": [0.3, 0.7],
            "D": ("Q", [[0.9, 0.1], [0.2, 0.8]]),
            "A": (["Q", "D"], [[[0.1, 0.9], [0.6, 0.4]], [[0.5, 0.5], [0.7, 0.3]]]),
        }
    )
    found = ef.solve(network, do={"D": 1}, evidence={"A": 0}).marginals["Q"]
    expected = np.array([0.3 * 0.6, 0.7 * 0.7])  # D no longer speaks about Q
    np.testing.assert_allclose(found, expected / expected.sum())


def test_prediction_of_two_linked_chains_equals_the_network_written_out() -> None:
    two = ef.DynamicNetwork(
        {"A": [0.5, 0.5], "B": ("A", [[0.8, 0.2], [0.3, 0.7]])},
        {
            "A": ("A[t-1]", [[0.9, 0.1], [0.4, 0.6]]),
            "B": (["A", "B[t-1]"], [[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]]]),
        },
    )
    plain = ef.BayesianNetwork(
        {
            "A0": [0.5, 0.5],
            "B0": ("A0", [[0.8, 0.2], [0.3, 0.7]]),
            "A1": ("A0", [[0.9, 0.1], [0.4, 0.6]]),
            "B1": (["A1", "B0"], [[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]]]),
        }
    )
    ahead = two.predict([{"B": 1}])
    result = ef.solve(plain, evidence={"B0": 1})
    np.testing.assert_allclose(ahead["A"][0], result.marginals["A1"])
    np.testing.assert_allclose(ahead["B"][0], result.marginals["B1"])


def test_a_hidden_chain_alone_goes_on_for_many_slices() -> None:
    chain = ef.DynamicNetwork({"Z": [0.5, 0.5]}, {"Z": ("Z[t-1]", [[0.7, 0.3], [0.8, 0.2]])})
    found = chain.smooth(500)["Z"]
    p = np.array([0.5, 0.5])
    for row in found:
        np.testing.assert_allclose(row, p)
        p = p @ np.array([[0.7, 0.3], [0.8, 0.2]])


def test_a_fitted_network_in_time_answers() -> None:
    rng = np.random.default_rng(0)
    start = ef.DynamicNetwork(
        {"A": [0.5, 0.5], "B": ("A", np.full((2, 2), 0.5)), "C": ("A", np.full((2, 2), 0.5))},
        {"A": ("A[t-1]", np.full((2, 2), 0.5)), "B": (["A", "B[t-1]"], np.full((2, 2, 2), 0.5))},
    )
    data = [rng.integers(0, 2, (5, 3)) for _ in range(100)]
    fitted = start.fit(data).network
    assert fitted.first.cpt("A").values[0] == pytest.approx(np.mean([d[0, 0] == 0 for d in data]))
    assert fitted.filter({"B": [1, 0]})["C"].sum() == pytest.approx(2.0)
