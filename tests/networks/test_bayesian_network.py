"""Bayesian networks: tables by name in any order, parents and children, errors that name the row or the cycle."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor import BayesianNetwork, FactorGraph, ModelError, NoisyOr

TABLES = {
    "grass": (
        ["sprinkler", "rain"],
        {
            ("off", "no"): {"dry": 1.0, "wet": 0.0},
            ("off", "yes"): {"dry": 0.2, "wet": 0.8},
            "on": {"yes": {"wet": 0.99, "dry": 0.01}, "no": [0.1, 0.9]},
        },
    ),
    "sprinkler": ("rain", {"yes": {"off": 0.99, "on": 0.01}, "no": {"on": 0.4, "off": 0.6}}),
    "rain": {"no": 0.8, "yes": 0.2},
}


@pytest.fixture
def lawn() -> BayesianNetwork:
    return BayesianNetwork(TABLES, name="lawn")


def test_states_and_rows_are_read_by_name(lawn: BayesianNetwork) -> None:
    assert lawn.variables == {"grass": ("dry", "wet"), "sprinkler": ("off", "on"), "rain": ("no", "yes")}
    assert lawn.cpt("grass")[{"rain": "yes", "sprinkler": "on"}] == pytest.approx({"dry": 0.01, "wet": 0.99})
    assert lawn.cpt("sprinkler")[{"rain": "no"}] == pytest.approx({"off": 0.6, "on": 0.4})
    assert ef.solve(lawn, "PR").log_z == pytest.approx(0.0, abs=1e-12)
    turned = BayesianNetwork(TABLES, {"rain": ["yes", "no"]})
    for network, yes in ((lawn, 1), (turned, 0)):
        assert ef.solve(network, evidence={"grass": "wet"}).marginals["rain"][yes] == pytest.approx(0.35769, abs=1e-5)


def test_arrays_structured_factors_and_tables_of_another_network(lawn: BayesianNetwork) -> None:
    causes = {"flu": {"no": 0.9, "yes": 0.1}, "cold": [0.7, 0.3]}
    network = BayesianNetwork(
        {**causes, "fever": (["flu", "cold"], NoisyOr(0.1, [0.2, 0.5]))},
        {"fever": ["no", "yes"], "cold": ["no", "yes"]},
    )
    assert network.cpt("fever")[{"flu": "yes", "cold": "yes"}]["no"] == pytest.approx(0.9 * 0.2 * 0.5)
    assert network.parents("fever") == ("flu", "cold")
    copy = BayesianNetwork({v: lawn.cpt(v) for v in lawn.variables})
    assert copy == lawn.graph


def test_relations(lawn: BayesianNetwork) -> None:
    chain = BayesianNetwork(
        FactorGraph([2] * 4, [([0], [0.5, 0.5]), *(([k, k + 1], np.full((2, 2), 0.5)) for k in range(3))])
    )
    assert chain.ancestors(2) == (0, 1)
    assert chain.descendants(1) == (2, 3)
    assert chain.edges == ((0, 1), (1, 2), (2, 3))
    assert lawn.order[0] == "rain"
    assert lawn.children("rain") == ("grass", "sprinkler")
    assert lawn.markov_blanket("sprinkler") == ("grass", "rain")
    assert chain.d_separated(0, 3, given=[1])
    found = chain.d_separated(0, [3])
    assert not found
    assert found.path == (0, 1, 2, 3)
    assert found.text == "0 -> 1 -> 2 -> 3"


def test_an_opened_collider_is_named() -> None:
    flat = [[0.5, 0.5]] * 2
    network = BayesianNetwork({"a": [0.5, 0.5], "b": [0.5, 0.5], "c": (["a", "b"], [flat] * 2), "d": ("c", flat)})
    assert network.d_separated("a", "b")
    assert str(network.d_separated("a", "b", "c")) == "not d-separated: a -> c (given) <- b is an open path"
    assert network.d_separated("a", "b", ["d"]).text == "a -> c (a descendant is given) <- b"
    with pytest.raises(ModelError, match="is in two of a, b and given"):
        network.d_separated("a", "b", given=["a"])


def test_random_separations_equal_networkx() -> None:
    nx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 9))
        edges = [(i, j) for j in range(n) for i in range(j) if rng.random() < rng.uniform(0.1, 0.7)]
        graph = nx.DiGraph(edges)
        graph.add_nodes_from(range(n))
        parents = [sorted(graph.predecessors(j)) for j in range(n)]
        network = BayesianNetwork(
            FactorGraph([2] * n, [([*parents[j], j], np.full([2] * (len(parents[j]) + 1), 0.5)) for j in range(n)])
        )
        labels = rng.integers(0, 4, n)
        a, b, given = (np.flatnonzero(labels == k).tolist() for k in range(3))
        if not a or not b:
            continue
        found = network.d_separated(a, b, given)
        assert bool(found) == nx.is_d_separator(graph, set(a), set(b), set(given))
        if not found:
            assert len(set(found.path)) == len(found.path)
            assert found.path[0] in a
            assert found.path[-1] in b


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"a": {"x": 0.5, "y": 0.4}}, "The table of a sums to 0.9. Each row of a conditional table must sum to 1"),
        (
            {"a": {"x": 0.5, "y": 0.5}, "b": ("a", {"x": [0.5, 0.5], "y": [1.5, -0.5]})},
            "The row of b for a = y includes a negative number",
        ),
        ({"a": ("b", [[1, 0], [0, 1]]), "b": ("a", [[1, 0], [0, 1]])}, "directed cycle: a -> b -> a"),
        ({"a": ("rian", [[1, 0]]), "rain": [1.0]}, "'rian', which has no table; did you mean rain?"),
        ({"a": {"x": 0.5, "y": 0.5}, "b": ("a", {"x": [0.5, 0.5]})}, "has no number for a = y, b = 0"),
        ({"a": {"x": 0.5, "y": 0.5}, "b": ("a", {"x": [1, 0], "z": [1, 0]})}, "state 'z' of a, which it does not have"),
        ({"a": {"x": 0.5, "y": "much"}}, "must hold numbers, found 'much'"),
        ({"a": [0.5, 0.5], "b": ("a", [0.5, 0.5])}, "needs the shape (2, 2) (a, b), found (2,)"),
        ({"a": ("b", NoisyOr(0.1, [0.5])), "b": [0.5, 0.5]}, "Give states={'a': ['no', 'yes']}"),
        ({"a": None}, "Give states={'a': ['no', 'yes']}"),
        ({"a": [0.5, 0.5], "b": ("a", {0: [0.1, 0.2, 0.7], 1: [0.1, 0.9]})}, "needs the shape (3,) (b), found (2,)"),
    ],
)
def test_what_is_wrong_is_named(tables: dict, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        BayesianNetwork(tables)


def test_a_table_of_pgmpy_gets_advice() -> None:
    with pytest.raises(ModelError, match=re.escape("as in pgmpy, turn it: np.array(table).T.")):
        BayesianNetwork({"a": [0.5, 0.5], "b": ("a", [[0.1, 0.2], [0.4, 0.4], [0.5, 0.4]])}, {"b": 3})


def test_arrows_without_numbers_are_fitted() -> None:
    states = {"rain": ["no", "yes"], "grass": ["dry", "wet"], "wind": 3}
    network = BayesianNetwork([("rain", "grass"), ["wind", "grass"]], states)
    assert network.parents("grass") == ("rain", "wind")
    np.testing.assert_array_equal(network.cpt("grass").values, np.full((2, 3, 2), 0.5))
    same = BayesianNetwork({"rain": None, "grass": (["rain", "wind"], None), "wind": [1 / 3, 1 / 3, 1 / 3]}, states)
    np.testing.assert_allclose(same.log_phi, network.log_phi, atol=1e-15)
    rows = [{"rain": "yes", "grass": "wet", "wind": 0}] * 3 + [{"rain": "yes", "grass": "dry", "wind": 0}]
    fitted = ef.fit(network, rows, prior=0).graph
    np.testing.assert_allclose(fitted.cpt("grass").values[1, 0], [0.25, 0.75])


@pytest.mark.parametrize(
    ("arrows", "states", "words"),
    [
        ([("a", "b")], None, "needs states="),
        ([("a", "c")], {"a": 2, "b": 2}, "no states of 'c'"),
        (["ab"], {"a": 2, "b": 2}, "pairs (parent, child), found 'ab'"),
        ([("a", "b"), ("b", "a")], {"a": 2, "b": 2}, "directed cycle: a -> b -> a"),
    ],
)
def test_arrows_that_do_not_fit_are_refused(arrows: list, states: dict | None, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        BayesianNetwork(arrows, states)


def test_a_graph_that_is_not_a_network_is_refused() -> None:
    wrong = FactorGraph(
        {"a": ["x", "y"], "b": 2}, [(["a"], [0.5, 0.5]), (["a", "b"], [[0.5, 0.5], [0.5, 0.4]])], log=False
    )
    with pytest.raises(
        ModelError, match=r"Factor 1 is not .* b given the others: the row for a = y sums to 0.9, not to 1."
    ):
        BayesianNetwork(wrong)
    with pytest.raises(ModelError, match="The graph has 1 factors for 2 variables"):
        BayesianNetwork(FactorGraph([2, 2], [([0, 1], [1] * 4)]))
    with pytest.raises(ModelError, match="without evidence"):
        BayesianNetwork(BayesianNetwork({"a": [0.5, 0.5]}).condition({"a": 1}))
    with pytest.raises(ModelError, match="takes a mapping of tables, pairs"):
        BayesianNetwork(3)


def test_everything_that_takes_a_graph_takes_a_network(lawn: BayesianNetwork, tmp_path: Path) -> None:
    path = tmp_path / "lawn.bif"
    ef.write_graph(lawn, path)
    again = BayesianNetwork(path)
    assert again == lawn
    assert type(lawn.graph) is FactorGraph
    assert pickle.loads(pickle.dumps(lawn)).parents("grass") == ("sprinkler", "rain")
    assert len(ef.sample(lawn, 10)) == 10
    assert len(ef.solve([lawn, lawn.graph], "PR")) == 2
    assert ef.solve(lawn, evidence=[{"rain": "yes"}, {}]).marginals["grass"].shape == (2, 2)
    assert ef.symmetry.isomorphism(lawn, lawn.graph) is not None
    fitted = ef.fit(lawn, ef.sample(lawn, 50), prior=1)
    assert isinstance(fitted.graph, BayesianNetwork)
    assert fitted.graph.parents("sprinkler") == ("rain",)


def test_tables_show_themselves(lawn: BayesianNetwork) -> None:
    table = lawn.cpt("sprinkler")
    assert repr(table) == "ConditionalTable(sprinkler | rain: 2 x 2)"
    assert str(table).splitlines()[0].split("  ") == ["rain", "sprinkler = off", "sprinkler = on"]
    assert "0.990000" in table._repr_html_()
    assert np.asarray(table).shape == (2, 2)
    assert str(lawn.cpt("rain")).count("\n") == 2
    frame = lawn.cpt("grass").to_frame()
    assert list(frame.columns) == ["sprinkler", "rain", "grass = dry", "grass = wet"]
    with pytest.raises(ModelError, match="needs a state of each parent"):
        table[{}]
    assert repr(lawn).startswith("BayesianNetwork(lawn: 3 variables")


class _Pyagrum:
    """A stand-in for a `BayesNet` of pyAgrum with one variable; the package is not installed here."""

    def nodes(self) -> set[int]:
        return {0}

    def variable(self, i: int) -> _Pyagrum:
        return self

    def name(self) -> str:
        return "rain"

    def labels(self) -> tuple[str, ...]:
        return ("no", "yes")

    def cpt(self, i: int) -> _Pyagrum:
        return self

    names = ("rain",)

    def tolist(self) -> list[float]:
        return [0.25, 0.75]

    def propertyWithDefault(self, key: str, default: str) -> str:
        return default


def test_a_network_of_pyagrum_is_taken_as_it_is() -> None:
    model = type("IBayesNet", (_Pyagrum,), {"__module__": "pyagrum.pyagrum"})()
    assert BayesianNetwork(model).cpt("rain")[{}] == {"no": 0.25, "yes": 0.75}


def test_states_that_a_parent_does_not_have_are_one_sentence() -> None:
    with pytest.raises(ef.ModelError, match=r"a.*yes"):
        ef.BayesianNetwork({"a": [0.5, 0.5], "b": ("a", {"yes": [0.5, 0.5], "no": [0.5, 0.5]})})


@pytest.mark.parametrize("candidates", [1, "b"])
def test_candidates_are_a_list(candidates: object) -> None:
    network = ef.BayesianNetwork({"a": [0.5, 0.5], "b": ("a", [[0.9, 0.1], [0.2, 0.8]])})
    with pytest.raises(ef.ModelError, match="candidates must be a list of variables"):
        ef.most_informative(network, "a", candidates)
