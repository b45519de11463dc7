"""Questions on which other packages are reported to fail, each against enumeration or the network written out.

Each test names its reports: pgmpy 1491, 2454 and 3543 are about actions, pgmpy 1417, 1585, 1638, 1679, 1856, 1944 and
1968, and bnlearn 100, about time, that memory or time run out, or that the answer names no states.
"""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef


def test_pgmpy_1491_an_action_leaves_causes_as_they_are() -> None:
    """pgmpy 1491: p(A | do(C)) raised an error, because A is a parent of C."""
    network = ef.BayesianNetwork(
        {
            "A": {"yes": 0.123, "no": 0.877},
            "B": {"yes": 0.987, "no": 0.013},
            "C": (["A", "B"], [[[0.123, 0.877], [0.456, 0.544]], [[0.789, 0.211], [0.987, 0.013]]]),
        }
    )
    np.testing.assert_allclose(ef.solve(network, do={"C": 0}).marginals["A"], [0.123, 0.877])
    np.testing.assert_allclose(ef.solve(network, do={"A": "yes"}).marginals["B"], [0.987, 0.013])


def test_pgmpy_3543_evidence_beside_an_action_counts() -> None:
    """pgmpy 3543, first part: evidence outside of the adjustment set was left out."""
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


def test_pgmpy_3543_actions_on_a_cause_and_on_its_effect_hold_together() -> None:
    """pgmpy 3543, second part: an action on a parent of another action was summed over."""
    network = ef.BayesianNetwork(
        {
            "A": [0.6, 0.4],
            "B": ("A", [[0.7, 0.3], [0.2, 0.8]]),
            "C": (["A", "B"], [[[0.5, 0.5], [0.4, 0.6]], [[0.3, 0.7], [0.0, 1.0]]]),
        }
    )
    np.testing.assert_allclose(ef.solve(network, do={"A": 0, "B": 1}).marginals["C"], [0.4, 0.6])


def test_pgmpy_2454_a_variable_above_the_action_has_a_posterior() -> None:
    """pgmpy 2454: p(Q | do(D), A) was refused where Q is a parent of D."""
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


def test_pgmpy_1638_prediction_equals_the_network_written_out() -> None:
    """pgmpy 1638: a query of slice 1 given slice 0 differed from the same network written out."""
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


def test_pgmpy_1585_1417_a_hidden_chain_alone_goes_on_for_many_slices() -> None:
    """pgmpy 1585 and 1417: a chain without children, and more than two slices, raised errors."""
    chain = ef.DynamicNetwork({"Z": [0.5, 0.5]}, {"Z": ("Z[t-1]", [[0.7, 0.3], [0.8, 0.2]])})
    found = chain.smooth(500)["Z"]
    p = np.array([0.5, 0.5])
    for row in found:
        np.testing.assert_allclose(row, p)
        p = p @ np.array([[0.7, 0.3], [0.8, 0.2]])


def test_bnlearn_100_a_fitted_network_in_time_answers() -> None:
    """bnlearn 100: build, fit and ask a network in time in a few lines."""
    rng = np.random.default_rng(0)
    start = ef.DynamicNetwork(
        {"A": [0.5, 0.5], "B": ("A", np.full((2, 2), 0.5)), "C": ("A", np.full((2, 2), 0.5))},
        {"A": ("A[t-1]", np.full((2, 2), 0.5)), "B": (["A", "B[t-1]"], np.full((2, 2, 2), 0.5))},
    )
    data = [rng.integers(0, 2, (5, 3)) for _ in range(100)]
    fitted = start.fit(data).network
    assert fitted.first.cpt("A").values[0] == pytest.approx(np.mean([d[0, 0] == 0 for d in data]))
    assert fitted.filter({"B": [1, 0]})["C"].sum() == pytest.approx(2.0)


def test_pgmpy_1679_1856_1944_a_long_sequence_of_many_variables_is_answered() -> None:
    """pgmpy 1679, 1856 and 1944: inference took very long, or asked for memory that no machine has.

    Unrolled, this network has 36,000 variables. Its answer follows from one matrix for each of its chains.
    """
    rows = np.array([[0.9, 0.1], [0.3, 0.7]])
    names = [f"x{k}" for k in range(6)]
    network = ef.DynamicNetwork(
        {v: [0.5, 0.5] for v in names} | {f"y{v}": (v, [[0.8, 0.2], [0.4, 0.6]]) for v in names},
        {v: (f"{v}[t-1]", rows) for v in names},
    )
    seen = {f"y{v}": np.arange(3000) % (k + 2) == 0 for k, v in enumerate(names)}
    found = network.filter({v: x.astype(int) for v, x in seen.items()})
    for v in names:
        p = np.array([0.5, 0.5])
        for t, y in enumerate(seen[f"y{v}"].astype(int)):
            p = (p @ rows if t else p) * np.array([[0.8, 0.2], [0.4, 0.6]])[:, y]
            p /= p.sum()
        np.testing.assert_allclose(found[v][-1], p, atol=1e-12)


def test_pgmpy_1968_states_keep_their_names_in_time() -> None:
    """pgmpy 1968: after a fit to text, answers numbered the states."""
    start = ef.DynamicNetwork(
        {"A": None, "B": ("A", None)}, {"A": ("A[t-1]", None)}, states={"A": ["s1", "s2"], "B": ["u", "v"]}
    )
    data = [{"A": ["s1", "s2", "s2"], "B": ["u", "v", "v"]}, {"A": ["s1", "s1", "s2"], "B": ["u", "u", "u"]}]
    fitted = start.fit(data).network
    assert fitted.smooth({"B": ["u", "v"]})["A", 1] == {"s1": 0.0, "s2": 1.0}
    assert fitted.decode({"B": ["u", "v"]})["A"] == ["s1", "s2"]
