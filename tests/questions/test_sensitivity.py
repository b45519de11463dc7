"""Sensitivity against finite differences, what to observe next, and leave-one-out tables against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from enumeration import distribution, entropy, kinds_graph, summed

import equifactor as ef
from equifactor.base.errors import ModelError, SolveError
from equifactor.generators import random_graph, random_network

LAWN = ef.FactorGraph(
    {"season": ["winter", "summer"], "rain": ["no", "yes"], "sprinkler": ["off", "on"], "lawn": ["dry", "wet"]},
    [
        (["season"], [0.5, 0.5]),
        (["season", "rain"], [[0.6, 0.4], [0.8, 0.2]]),
        (["season", "sprinkler"], [[1.0, 0.0], [0.4, 0.6]]),
        (["rain", "sprinkler", "lawn"], [[[0.95, 0.05], [0.1, 0.9]], [[0.2, 0.8], [0.05, 0.95]]]),
    ],
)
CASES = {
    "network": (random_network(7, parents=(0, 3), card=(2, 3), observed=0.0, seed=1), 2, {0: 1, 6: 0}),
    "network with zeros": (
        random_network(7, parents=(1, 2), card=(2, 3), zeros=0.3, observed=0.0, seed=4), 1, {5: 0}
    ),
    "network, soft evidence": (random_network(6, parents=2, observed=0.0, seed=2), 0, {3: [0.2, 0.9], 5: 1}),
    "lawn": (LAWN, 1, {"lawn": "wet"}),
    "pairs": (random_graph(6, 8, arity=(1, 3), card=(2, 3), seed=5), 0, {1: 0}),
    "zeros": (random_graph(6, 7, arity=(1, 3), card=(2, 3), zeros=0.2, seed=7), 3, {}),
    "kinds": (kinds_graph(), 8, {3: 1, 7: 2}),
}  # fmt: skip


def posterior(graph: ef.FactorGraph, target: int, evidence: dict) -> np.ndarray:
    return summed(distribution(graph.condition(evidence)), [target])


def changed(graph: ef.FactorGraph, found: ef.answers.Sensitivity, entry: int, new: float) -> ef.FactorGraph:
    """Return the graph with one entry at a new value, and the rest of its row in proportion in a network."""
    s, values = graph.structure, np.exp(graph.log_phi)
    a = int(np.searchsorted(s.table_ptr, entry, side="right")) - 1
    table = values[s.table_ptr[a] : s.table_ptr[a + 1]].reshape(s.shape(a))
    at = list(np.unravel_index(entry - s.table_ptr[a], table.shape))
    if found.children is not None:
        slot = s.scope(a).tolist().index(found.children[a])
        row = table[(*at[:slot], slice(None), *at[slot + 1 :])]
        rest = row.sum() - row[at[slot]]
        others = np.arange(len(row)) != at[slot]
        if rest > 1e-12:
            row[others] *= (row.sum() - new) / rest
        else:
            row[others] = (row.sum() - new) / others.sum()
    table[tuple(at)] = new
    with np.errstate(divide="ignore"):
        return ef.FactorGraph.trusted(s, np.log(values))


@pytest.mark.parametrize("name", CASES)
def test_it_equals_finite_differences_and_the_ratio_of_linear_functions(name: str) -> None:
    graph, target, evidence = CASES[name]
    found = ef.sensitivity(graph, target, 0, evidence=evidence)
    p = posterior(graph, target, evidence)
    np.testing.assert_allclose(found.p, p, atol=1e-12)
    assert found.is_network is (name[0] in "nl")
    rng = np.random.default_rng(3)
    s = graph.structure
    assert len(found) == np.diff(s.table_ptr)[s.is_table].sum()
    for k in rng.permutation(len(found))[:20]:
        row, entry = found[int(k)], int(found.order[k])
        assert row.derivative == found.table(row.factor)[row.states]
        new = 0.5 * row.value if row.value > 0.2 else row.value + 0.1
        far = posterior(changed(graph, found, entry, new), target, evidence)
        assert found.probability_at(row, new) == pytest.approx(far[0], abs=1e-9)
        near = row.value + (new - row.value) * 1e-5
        slope = (posterior(changed(graph, found, entry, near), target, evidence)[0] - p[0]) / (near - row.value)
        assert slope == pytest.approx(row.derivative, abs=1e-4 * max(1.0, abs(row.derivative)))
        if row.turning is not None and row.turning > 0:
            ends = posterior(changed(graph, found, entry, row.turning), target, evidence)
            assert ends[p.argmax()] == pytest.approx(ends[graph.state(target, row.turned)], abs=1e-9)


def test_central_differences_agree_to_1e_6() -> None:
    graph, target, evidence = CASES["network"]
    found = ef.sensitivity(graph, target, 1, evidence=evidence)
    for k in range(0, len(found), 3):
        row, entry, h = found[k], int(found.order[k]), 1e-5
        ends = [posterior(changed(graph, found, entry, row.value + x), target, evidence)[1] for x in (h, -h)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(row.derivative, abs=1e-6)


def test_the_smallest_change_and_the_tables() -> None:
    pytest.importorskip("pandas")
    found = ef.sensitivity(LAWN, "rain", evidence={"lawn": "wet"})
    change = found.smallest_change
    assert change is not None
    assert (found.state, change.turned) == ("yes", "no")
    assert all(
        abs(change.turning - change.value) <= abs(row.turning - row.value) + 1e-12
        for row in found
        if row.turning is not None
    )
    assert "rain=no | season=summer" in str(found)
    assert "<table" in found._repr_html_()
    assert len(found.to_frame()) == len(found) == 18
    bars = found.tornado(0.05, rows=3)
    assert abs(bars[0][2] - bars[0][1]) >= abs(bars[2][2] - bars[2][1])
    certain = ef.sensitivity(ef.FactorGraph([2], [([0], [0.5, 0.5])]), 0)
    assert certain.smallest_change is not None


def test_the_tornado_plot_has_two_bars_for_each_entry() -> None:
    pytest.importorskip("matplotlib")
    axes = ef.sensitivity(LAWN, "rain", "yes", evidence={"lawn": "wet"}).plot(0.1, 5)
    assert len(axes.patches) == 10


def test_sensitivity_refuses_what_it_cannot_answer() -> None:
    with pytest.raises(ModelError, match="is observed"):
        ef.sensitivity(LAWN, "lawn", evidence={"lawn": "wet"})
    with pytest.raises(SolveError, match="probability zero"):
        ef.sensitivity(LAWN, "rain", evidence={"season": "winter", "sprinkler": "on"})
    with pytest.raises(SolveError, match="Raise memory_limit"):
        ef.sensitivity(LAWN, "rain", memory_limit=1e-9)
    with pytest.raises(ModelError, match="one FactorGraph"):
        ef.sensitivity([LAWN], "rain")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="structured factor"):
        ef.sensitivity(kinds_graph(), 0).table(0)


@pytest.mark.parametrize("name", ["network", "pairs", "lawn"])
def test_what_to_observe_next(name: str) -> None:
    graph, target, evidence = CASES[name]
    found = ef.most_informative(graph, target, evidence=evidence)
    p = distribution(graph.condition(evidence))
    after = {}
    for i in graph.condition(evidence).free_vars.tolist():
        if i != target:
            joint = summed(p, [i, target])
            after[i] = sum(row.sum() * entropy(row / row.sum()) for row in joint if row.sum() > 0)
            assert found.expected_entropy(i) == pytest.approx(after[i], abs=1e-9)
    assert len(found) == len(after) == len(list(found))
    assert after[graph.variable(found.best)] == pytest.approx(min(after.values()), abs=1e-12)


def test_candidates_are_chosen_by_name() -> None:
    found = ef.most_informative(LAWN, "rain", ["sprinkler", "season"], evidence={"lawn": "wet"})
    assert set(found) == {"sprinkler", "season"}
    with pytest.raises(ModelError, match="among the candidates"):
        ef.most_informative(LAWN, "rain", ["rain"])


def test_findings_equal_enumeration() -> None:
    graph = random_network(7, parents=(0, 3), card=(2, 3), observed=0.0, seed=3)
    evidence = {1: 0, 4: 1, 6: [0.3] * (int(graph.card[6]) - 1) + [0.9]}
    found = ef.findings(graph, 2, 1, evidence=evidence)

    def weight(given: dict) -> float:
        every = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
        return float(np.exp(graph.condition(given).log_score(every)).sum())

    assert found.probability == pytest.approx(posterior(graph, 2, evidence)[1])
    assert found.prior == pytest.approx(posterior(graph, 2, {})[1])
    assert sum(row.conflict for row in found[:1]) == pytest.approx(found[0].conflict)
    conflict = sum(np.log(weight({i: x})) for i, x in evidence.items()) - np.log(weight(evidence))
    assert found.conflict == pytest.approx(conflict - 2 * np.log(weight({})))
    for row in found:
        rest = {i: x for i, x in evidence.items() if i != row.variable}
        assert row.without == pytest.approx(posterior(graph, 2, rest)[1])
        assert row.alone == pytest.approx(posterior(graph, 2, {row.variable: row.value})[1])
        assert row.change == pytest.approx(found.probability - row.without)
        own = np.log(weight({row.variable: row.value}) * weight(rest) / weight(evidence) / weight({}))
        assert row.conflict == pytest.approx(own, abs=1e-9)


def test_findings_have_names_and_errors() -> None:
    pytest.importorskip("pandas")
    found = ef.findings(LAWN, "rain", evidence={"lawn": "wet", "sprinkler": "on"})
    assert "lawn = wet" in str(found)
    assert "<table" in found._repr_html_()
    assert found.to_frame()["variable"].tolist() == [row.variable for row in found]
    with pytest.raises(SolveError, match="Leave out one of these to make them possible: season, sprinkler"):
        ef.findings(LAWN, "rain", evidence={"season": "winter", "sprinkler": "on"})
    with pytest.raises(ModelError, match="needs evidence"):
        ef.findings(LAWN, "rain", evidence={})
    with pytest.raises(ModelError, match="is a finding itself"):
        ef.findings(LAWN, "rain", evidence={"rain": "no"})
