"""`from_networkx` and `to_networkx`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.testing import contract_graphs
from tests.factors.random_factors import random_mixture

nx = pytest.importorskip("networkx")

AGREE = [[2.0, 1.0], [1.0, 2.0]]


# ---- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", contract_graphs().values(), ids=list(contract_graphs()))
def test_any_graph_there_and_back(graph: ef.FactorGraph) -> None:
    made = ef.interop.to_networkx(graph)
    assert nx.is_bipartite(made)
    assert made.number_of_edges() == graph.structure.num_edges
    assert ef.interop.from_networkx(made) == graph


@pytest.mark.parametrize("seed", range(8))
def test_factors_of_every_kind_stay_what_they_are(seed: int) -> None:
    graph = random_mixture(np.random.default_rng(seed))
    assert ef.interop.from_networkx(ef.interop.to_networkx(graph)) == graph


def test_names_kinds_evidence_and_repeated_factors() -> None:
    table = [[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]]
    factors = [(range(30), ef.Parity()), (["x3", "d"], table), (["x3", "d"], table), ([], [2.0])]
    g = ef.FactorGraph({**{f"x{i}": 2 for i in range(30)}, "d": ["p", "q", "r"]}, factors, name="mixed")
    for graph in (g, g.condition({"d": "q", "x1": 1})):
        made = ef.interop.to_networkx(graph)
        assert made.graph["name"] == "mixed"
        assert made.nodes["d"]["states"] == ["p", "q", "r"]
        back = ef.interop.from_networkx(made)
        assert back == graph
        assert back.name == "mixed"
    assert made.nodes["d"]["observed"] == "q"


def test_pairwise_there_and_back() -> None:
    g = ef.generators.ising_grid(3, 4, seed=1)
    made = ef.interop.to_networkx(g, "pairwise")
    assert sorted(dict(made.degree()).values()) == [2] * 4 + [3] * 6 + [4] * 2
    back = ef.interop.from_networkx(made)
    assert back.structure.variable_names is None
    assert ef.solve(back, "PR", "brute").log_z == pytest.approx(ef.solve(g, "PR", "brute").log_z)


def test_pairwise_multiplies_equal_scopes_and_keeps_evidence() -> None:
    a, b = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]]), np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 1.0]])
    g = ef.FactorGraph({"u": 2, "v": ["x", "y", "z"], "w": 2}, [(["u", "v"], a), (["v", "u"], b), (["w"], [1, 2])])
    made = ef.interop.to_networkx(g, "pairwise")
    np.testing.assert_allclose(np.exp(made.edges["u", "v"]["log_table"]), a * b.T)
    seen = g.condition({"u": 0})
    back = ef.interop.from_networkx(ef.interop.to_networkx(seen, "pairwise"))
    assert back.evidence == {0: 0}
    assert ef.solve(back, "PR", "brute").log_z == pytest.approx(ef.solve(seen, "PR", "brute").log_z)


def test_a_wide_factor_is_not_pairwise() -> None:
    with pytest.raises(ef.ModelError, match=r'Factor 0 has 3 variables, .* Pass kind="bipartite"'):
        ef.interop.to_networkx(ef.FactorGraph([2] * 3, [([0, 1, 2], ef.Parity())]), "pairwise")
    with pytest.raises(ef.OptionError, match="choose from: bipartite, pairwise"):
        ef.interop.to_networkx(ef.FactorGraph([2]), "moral")


# ---- graphs made by users ---------------------------------------------------------------------------------


def test_a_grid_of_networkx() -> None:
    grid = nx.grid_2d_graph(3, 3)
    nx.set_node_attributes(grid, 2, "states")
    nx.set_edge_attributes(grid, AGREE, "table")
    g = ef.interop.from_networkx(grid)
    assert g.structure.variable_names[:2] == ("(0, 0)", "(0, 1)")
    assert g.num_factors == 12
    seen = ef.solve(g, "MAR", "brute", evidence={"(0, 0)": 1}).marginals
    assert seen["(0, 1)"][1] > seen["(2, 2)"][1] > 0.5


def test_potts_on_the_edges_and_tables_on_the_nodes() -> None:
    ring = nx.cycle_graph(4)
    nx.set_node_attributes(ring, {i: [1.0, 2.0, 0.0] for i in ring}, "table")
    nx.set_edge_attributes(ring, ef.Potts(0.7), "factor")
    g = ef.interop.from_networkx(ring)
    assert g.structure.variable_names is None
    assert g.card.tolist() == [3] * 4
    assert isinstance(g.factor(4), ef.Potts)
    assert g.log_score([1, 1, 1, 2]) == -math.inf


def test_directed_edges_have_an_order() -> None:
    chain = nx.DiGraph([("a", "b")])
    chain.add_node("a", states=2)
    chain.add_node("b", states=["x", "y", "z"])
    chain.edges["a", "b"]["table"] = [[1, 2, 3], [4, 5, 6]]
    g = ef.interop.from_networkx(chain)
    assert math.exp(g.log_score({"a": 1, "b": "x"})) == pytest.approx(4)


def test_parallel_edges_are_factors_each() -> None:
    multi = nx.MultiGraph()
    multi.add_nodes_from("ab", states=2)
    multi.add_edge("a", "b", log_table=np.log(AGREE))
    multi.add_edge("b", "a", table=[[1, 2], [3, 4]], scope=("b", "a"))
    g = ef.interop.from_networkx(multi)
    assert g.num_factors == 2
    assert math.exp(g.log_score({"a": 0, "b": 1})) == pytest.approx(1 * 3)


def test_slots_on_the_edges_of_a_factor() -> None:
    graph = nx.Graph()
    graph.add_node("a", bipartite=0, states=2)
    graph.add_node("b", bipartite=0, states=3)
    graph.add_node("f", bipartite=1, table=np.arange(6).reshape(3, 2))
    graph.add_edge("a", "f", slot=1)
    graph.add_edge("b", "f", slot=0)
    assert math.exp(ef.interop.from_networkx(graph).log_score({"a": 1, "b": 2})) == pytest.approx(5)


# ---- errors -----------------------------------------------------------------------------------------------


def pair(**edge: Any) -> Any:
    graph = nx.Graph()
    graph.add_nodes_from("ab", states=2)
    graph.add_edge("a", "b", **edge)
    return graph


def bipartite(factor: dict[str, Any], slots: tuple[Any, Any] = (None, None)) -> Any:
    graph = nx.Graph()
    graph.add_nodes_from("ab", states=2, bipartite=0)
    graph.add_node("f", bipartite=1, **factor)
    for name, slot in zip("ab", slots, strict=True):
        graph.add_edge(name, "f", **({} if slot is None else {"slot": slot}))
    return graph


def labelled(*labels: Any) -> Any:
    graph = nx.Graph()
    graph.add_nodes_from(labels, states=2)
    return graph


@pytest.mark.parametrize(
    ("graph", "fragment"),
    [
        (3, "Expected a networkx graph, found 3"),
        (nx.path_graph(2), "Node 0 needs the attribute `states`"),
        (pair(), "The edge from 'a' to 'b' needs exactly one of the attributes table, log_table, factor"),
        (pair(weight=2.0), "found the attributes ['weight']"),
        (pair(table=AGREE, log_table=AGREE), "found table and log_table"),
        (pair(table=[[1, 2], [3, 4]]), "Give the edge the attribute scope=('a', 'b') or ('b', 'a')"),
        (pair(factor=ef.Clause([True, False])), "nothing tells which axis belongs to which end"),
        (pair(factor=ef.Potts(1.0, labels=([0, 1], [1, 2]))), "nothing tells which axis belongs to which end"),
        (pair(factor=ef.AtMost(1, [True, False])), "nothing tells which axis belongs to which end"),
        (pair(table=AGREE, scope=("a", "c")), "which is not its two ends"),
        (pair(table=[[1, -2], [-2, 1]]), "its table has the entry -2. Entries must be finite"),
        (pair(table=[["x"]]), "is not an array of numbers"),
        (pair(factor=3), "`factor` must be a factor object such as Parity(), found 3"),
        (bipartite({"table": AGREE}), "nothing tells which axis of its table belongs to which variable"),
        (bipartite({"table": AGREE, "scope": "a"}), "nothing tells which axis of its table belongs to which variable"),
        (bipartite({"table": AGREE, "scope": ["a"]}), "its neighbours are ['a', 'b']"),
        (bipartite({"table": AGREE}, (0, None)), "need the slots 0 to 1, found [0, None]"),
        (bipartite({"table": AGREE}, (1, 1)), "need the slots 0 to 1, found [1, 1]"),
        (bipartite({"table": AGREE, "scope": ["a", "b"]}, (1, 0)), "the slots of its edges give ['b', 'a']"),
        (bipartite({"scope": ["a", "b"]}), "Factor 'f' needs exactly one of the attributes"),
        (labelled(1, "1"), "would both have the name '1'"),
    ],
)
def test_refuses(graph: Any, fragment: str) -> None:
    with pytest.raises(ef.ModelError) as error:
        ef.interop.from_networkx(graph)
    assert fragment in str(error.value)


def test_refuses_bipartite_graphs_that_are_none() -> None:
    half = bipartite({"table": AGREE, "scope": ["a", "b"]})
    half.add_node("c", states=2)
    with pytest.raises(ef.ModelError, match="Node 'c' has bipartite=None"):
        ef.interop.from_networkx(half)
    half.add_node("c", bipartite=0)
    half.add_edge("a", "c")
    with pytest.raises(ef.ModelError, match="joins two variables"):
        ef.interop.from_networkx(half)
    with pytest.raises(ef.ModelError, match=r"must be a networkx\.Graph, found a DiGraph"):
        ef.interop.from_networkx(bipartite({"table": AGREE, "scope": ["a", "b"]}).to_directed())


def test_a_self_loop_is_refused() -> None:
    loop = labelled("a")
    loop.add_edge("a", "a", table=AGREE)
    with pytest.raises(ef.ModelError, match="names variable a twice"):
        ef.interop.from_networkx(loop)
