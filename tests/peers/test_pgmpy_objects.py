"""`from_pgmpy` and `to_pgmpy` against pgmpy itself."""

from __future__ import annotations

import math
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of the imports of pgmpy
    pytest.importorskip("pgmpy")
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import (
        DiscreteBayesianNetwork,
        DiscreteMarkovNetwork,
        DynamicBayesianNetwork,
        FactorGraph,
        LinearGaussianBayesianNetwork,
        NaiveBayes,
    )
    from pgmpy.readwrite import BIFReader
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def lawn() -> Any:
    """Return a network of three variables; the second parent of the last variable has three states."""
    model = DiscreteBayesianNetwork([("rain", "wet"), ("sprinkler", "wet")])
    model.add_cpds(
        TabularCPD("rain", 2, [[0.8], [0.2]], state_names={"rain": ["no", "yes"]}),
        TabularCPD("sprinkler", 3, [[0.5], [0.3], [0.2]], state_names={"sprinkler": ["off", "low", "high"]}),
        TabularCPD(
            "wet", 2,
            [[1.0, 0.6, 0.3, 0.2, 0.1, 0.0], [0.0, 0.4, 0.7, 0.8, 0.9, 1.0]],
            evidence=["rain", "sprinkler"], evidence_card=[2, 3],
            state_names={"wet": ["dry", "wet"], "rain": ["no", "yes"], "sprinkler": ["off", "low", "high"]},
        ),
    )  # fmt: skip
    return model


def assert_same_answers(model: Any, graph: ef.FactorGraph, names: list[str] | None = None) -> None:
    names = names or list(graph.structure.variable_names or ())
    result = ef.solve(graph, "MAR", "brute")
    assert result.marginals is not None
    engine = VariableElimination(model)
    for i, name in enumerate(names):
        theirs = engine.query([name], show_progress=False)
        np.testing.assert_allclose(result.marginals[i], theirs.values / theirs.values.sum(), rtol=0, atol=1e-12)


# ---- Bayesian networks ------------------------------------------------------------------------------------


def test_a_bayesian_network() -> None:
    g = ef.interop.from_pgmpy(lawn())
    assert g.structure.variable_names == ("rain", "wet", "sprinkler")
    assert g.structure.state_names == (("no", "yes"), ("dry", "wet"), ("off", "low", "high"))
    assert [g.structure.scope(a).tolist() for a in range(3)] == [[0], [0, 2, 1], [2]]  # the child comes last
    assert math.exp(g.log_score({"rain": "yes", "sprinkler": "low", "wet": "wet"})) == pytest.approx(0.2 * 0.3 * 0.9)
    assert g.log_score({"rain": "no", "sprinkler": "off", "wet": "wet"}) == -math.inf
    assert_same_answers(lawn(), g)
    given = ef.solve(g, "MAR", "brute", evidence={"wet": "wet"})
    theirs = VariableElimination(lawn()).query(["rain"], evidence={"wet": "wet"}, show_progress=False)
    assert given.marginals["rain"][1] == pytest.approx(theirs.get_value(rain="yes"), abs=1e-12)


def test_there_and_back() -> None:
    g = ef.interop.from_pgmpy(lawn())
    model = ef.interop.to_pgmpy(g, "bayesian")
    assert model.check_model()
    assert isinstance(model, DiscreteBayesianNetwork)
    assert list(model.nodes()) == list(g.structure.variable_names)
    assert set(model.edges()) == set(lawn().edges())
    for node in lawn().nodes():
        assert model.get_cpds(node) == lawn().get_cpds(node)
        np.testing.assert_allclose(model.get_cpds(node).values, lawn().get_cpds(node).values, rtol=0, atol=1e-15)
    assert ef.interop.from_pgmpy(model) == g


def test_states_that_are_numbers_and_truth_values() -> None:
    model = DiscreteBayesianNetwork([("a", "b")])
    model.add_node(7)
    model.add_cpds(
        TabularCPD("a", 2, [[0.1], [0.9]], state_names={"a": [True, False]}),
        TabularCPD("b", 2, [[0.3, 0.4], [0.7, 0.6]], ["a"], [2], state_names={"b": [1, 2], "a": [True, False]}),
        TabularCPD(7, 3, [[0.2], [0.3], [0.5]]),
    )
    g = ef.interop.from_pgmpy(model)
    assert g.structure.variable_names == ("a", "b", "7")
    assert g.structure.state_names == (("True", "False"), ("1", "2"), None)
    with pytest.raises(ef.ModelError, match="can be read as a name or as a place"):
        g.condition({"b": 1})
    assert g.condition({"b": "1", "7": 2}).evidence == {1: 0, 2: 2}


def test_orders_of_states_that_differ_are_made_the_same() -> None:
    model = DiscreteBayesianNetwork([("a", "b")])
    model.add_cpds(
        TabularCPD("a", 2, [[0.1], [0.9]], state_names={"a": ["x", "y"]}),
        TabularCPD("b", 2, [[0.3, 0.4], [0.7, 0.6]], ["a"], [2], state_names={"b": ["u", "v"], "a": ["y", "x"]}),
    )
    g = ef.interop.from_pgmpy(model)
    assert math.exp(g.log_score({"a": "x", "b": "u"})) == pytest.approx(0.1 * 0.4)


def two_factors(first: list, second: list) -> Any:
    model = DiscreteMarkovNetwork([("a", "b")])
    model.add_factors(
        DiscreteFactor(["a"], [2], [1.0, 2.0], {"a": first}),
        DiscreteFactor(["a", "b"], [2, 2], [[1.0, 3.0], [5.0, 7.0]], {"a": second, "b": [0, 1]}),
    )
    return model


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        ([0, 1], [1, 0], 5.0),  # names that are numbers are names
        ([True, False], [False, True], 5.0),
        ([0, 1], ["x", "y"], 1.0),  # without names, variables are identified by their places
        (["x", "y"], [0, 1], 1.0),
    ],
)
def test_states_by_name_or_by_place(first: list, second: list, score: float) -> None:
    g = ef.interop.from_pgmpy(two_factors(first, second))
    assert math.exp(g.log_score([0, 0])) == pytest.approx(score)


def test_states_that_do_not_fit_together() -> None:
    with pytest.raises(ef.ModelError, match=r"the states \['x', 'y'\] in one factor and \['x', 'z'\] in another"):
        ef.interop.from_pgmpy(two_factors(["x", "y"], ["x", "z"]))


def test_a_distribution_that_does_not_sum_to_one() -> None:
    model = DiscreteBayesianNetwork([("a", "b")])
    model.add_cpds(TabularCPD("a", 2, [[0.1], [0.9]]), TabularCPD("b", 2, [[0.1, 0.5], [0.9, 0.2]], ["a"], [2]))
    with pytest.raises(ef.ModelError, match=r"'b' given state 1 of a sum to 0\.7"):
        ef.interop.from_pgmpy(model)


def test_a_model_in_the_wrong_place_is_told_the_way() -> None:
    with pytest.raises(ef.ModelError, match=r"found a DiscreteBayesianNetwork of pgmpy. Convert it with from_pgmpy"):
        ef.solve(lawn())
    with pytest.raises(ef.ModelError, match=r"is a model of pgmpy\. Use equifactor\.interop\.from_pgmpy to read it"):
        ef.interop.from_networkx(lawn())


def test_networks_that_are_incomplete() -> None:
    model = DiscreteBayesianNetwork([("a", "b")])
    with pytest.raises(ef.ModelError, match="Variable 'a' has no distribution"):
        ef.interop.from_pgmpy(model)
    model.add_cpds(TabularCPD("a", 2, [[0.1], [0.9]]), TabularCPD("b", 2, [[0.1], [0.9]]))
    with pytest.raises(ef.ModelError, match=r"'b' has the parents \[\], but its parents in the network are \['a'\]"):
        ef.interop.from_pgmpy(model)
    model.remove_cpds("b")
    model.add_cpds(TabularCPD("b", 2, [[0.1] * 3, [0.9] * 3], ["a"], [3]))
    with pytest.raises(ef.ModelError, match="'a' has the states"):
        ef.interop.from_pgmpy(model)


def test_other_models_are_refused() -> None:
    for model in (DynamicBayesianNetwork(), LinearGaussianBayesianNetwork([("a", "b")])):
        with pytest.raises(ef.ModelError, match="is not a product of tables"):
            ef.interop.from_pgmpy(model)
    with pytest.raises(ef.ModelError, match="Expected a model of pgmpy, found 3"):
        ef.interop.from_pgmpy(3)


def test_naive_bayes() -> None:
    model = NaiveBayes(feature_vars=["x"], dependent_var="y")
    model.add_cpds(TabularCPD("y", 2, [[0.5], [0.5]]), TabularCPD("x", 2, [[0.3, 0.4], [0.7, 0.6]], ["y"], [2]))
    assert ef.interop.from_pgmpy(model).num_factors == 2


def test_no_bayesian_network() -> None:
    g = ef.FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 1.0], [1.0, 2.0]])])
    with pytest.raises(ef.ModelError, match="not a distribution of variable 0 given the others"):
        ef.interop.to_pgmpy(g, "bayesian")
    with pytest.raises(ef.ModelError, match="cannot hold evidence"):
        ef.interop.to_pgmpy(ef.interop.from_pgmpy(lawn()).condition({"rain": "no"}), "bayesian")
    with pytest.raises(ef.OptionError, match="choose from: bayesian, markov, factor-graph"):
        ef.interop.to_pgmpy(g, "junction")


def test_noisy_or_becomes_a_table() -> None:
    causes = [(["a"], [0.9, 0.1]), (["b"], [0.8, 0.2])]
    g = ef.FactorGraph({"a": 2, "b": 2, "c": 2}, [*causes, (["c", "a", "b"], ef.NoisyOr(0.1, [0.2, 0.3]))])
    model = ef.interop.to_pgmpy(g, "bayesian")
    assert model.check_model()
    assert_same_answers(model, g)


def bnlearn_files() -> list[Path]:
    package = find_spec("pgmpy")
    assert package is not None
    return sorted((Path(str(package.origin)).parent / "utils" / "example_models").glob("*.bif.gz"))


FILES = {file.name.partition(".")[0]: file for file in bnlearn_files()}


@pytest.mark.parametrize("name", FILES)
def test_networks_of_bnlearn_there_and_back(name: str) -> None:
    g = ef.read_graph(FILES[name])
    model = ef.interop.to_pgmpy(g, "bayesian")
    started = time.process_time()
    assert ef.interop.from_pgmpy(model) == g  # bit for bit
    assert time.process_time() - started < 60.0  # The goal is two seconds; a machine may be slow.
    assert ef.interop.from_networkx(ef.interop.to_networkx(g)) == g
    if find_spec("pyagrum"):
        assert ef.interop.from_pyagrum(ef.interop.to_pyagrum(g, "bayesian")) == g


@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_a_network_that_pgmpy_has_read(name: str, tmp_path: Path) -> None:
    g = ef.read_graph(FILES[name])
    ef.write_graph(g, tmp_path / "plain.bif")
    theirs = ef.interop.from_pgmpy(BIFReader(str(tmp_path / "plain.bif")).get_model())
    assert set(theirs.structure.variable_names) == set(g.structure.variable_names)
    ours, read = ef.solve(g, "MAR", "exact").marginals, ef.solve(theirs, "MAR", "exact").marginals
    for variable in g.structure.variable_names:
        states = theirs.structure.state_names[theirs.variable(variable)]
        order = [states.index(s) for s in g.structure.state_names[g.variable(variable)]]
        np.testing.assert_allclose(ours[variable], read[variable][order], rtol=0, atol=1e-9)


# ---- Markov networks and factor graphs --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["markov", "factor-graph"])
def test_any_model_there_and_back(model: ef.FactorGraph, kind: str) -> None:
    made = ef.interop.to_pgmpy(model, kind)
    assert made.check_model()
    assert isinstance(made, DiscreteMarkovNetwork if kind == "markov" else FactorGraph)
    log_z = ef.solve(model, "PR", "brute").log_z
    assert math.log(made.get_partition_function()) == pytest.approx(log_z, abs=1e-9)
    back = ef.interop.from_pgmpy(made)
    assert back.structure.variable_names == tuple(f"x{i}" for i in range(model.num_vars))
    assert back.structure.state_names is None
    np.testing.assert_array_equal(back.card, model.card)
    assert [back.structure.scope(a).tolist() for a in range(model.num_factors)] == [
        model.structure.scope(a).tolist() for a in range(model.num_factors)
    ]
    for a in range(model.num_factors):  # what is behind them are the ones of variables in no factor
        # Around 1 there are more logarithms than floats that they could be of.
        np.testing.assert_allclose(back.log_table(a), model.log_table(a), rtol=0, atol=2e-16)
    assert ef.solve(back, "PR", "brute").log_z == pytest.approx(log_z, abs=1e-12)
    if kind == "markov":
        assert_same_answers(made, back)


@pytest.mark.parametrize("kind", ["markov", "factor-graph"])
def test_several_factors_over_the_same_variables(kind: str) -> None:
    table = [[1.0, 2.0], [3.0, 4.0]]
    pairs = [(["a", "b"], table), (["b", "a"], table), (["a", "b"], table), (["b", "a"], np.transpose(table))]
    g = ef.FactorGraph({"a": 2, "b": 2}, [*pairs, ([], [5.0])])
    made = ef.interop.to_pgmpy(g, kind)
    assert made.check_model()
    assert len(made.factors) == (4 if kind == "markov" else 3)  # two are equal; the first has the constant besides
    assert made.get_partition_function() == pytest.approx(math.exp(ef.solve(g, "PR", "brute").log_z))
    assert ef.solve(ef.interop.from_pgmpy(made), "PR", "brute").log_z == pytest.approx(ef.solve(g, "PR", "brute").log_z)


@pytest.mark.parametrize("kind", ["markov", "factor-graph"])
def test_evidence_kinds_and_variables_in_no_factor(kind: str) -> None:
    g = ef.FactorGraph(
        {"a": 2, "b": 2, "c": 2, "d": ["x", "y", "z"], "alone": 3},
        [(["a", "b", "c"], ef.Parity()), (["c", "d"], [[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]])], name="mixed",
    )  # fmt: skip
    seen = g.condition({"d": "x"})
    made = ef.interop.to_pgmpy(seen, kind)
    assert made.check_model()
    assert made.name == "mixed"
    back = ef.interop.from_pgmpy(made)
    assert back.name == "mixed"
    assert back.structure.variable_names == g.structure.variable_names
    assert back.structure.state_names[3] == ("x", "y", "z")
    ours, theirs = ef.solve(seen, "MAR", "brute"), ef.solve(back, "MAR", "brute")
    assert ours.log_z == pytest.approx(theirs.log_z)
    for name in ("a", "b", "c", "d", "alone"):
        np.testing.assert_allclose(ours.marginals[name], theirs.marginals[name], atol=1e-12)


def test_what_does_not_fit() -> None:
    wide = ef.FactorGraph([2] * 30, [(range(30), ef.Parity())])
    with pytest.raises(
        ef.ModelError, match=r"A DiscreteMarkovNetwork of pgmpy needs its dense table, which has 2\^30 entries"
    ):
        ef.interop.to_pgmpy(wide, "markov")
    with pytest.raises(ef.ModelError, match=r"exp\(900\), outside the range.* Scale the factors first"):
        ef.interop.to_pgmpy(ef.FactorGraph([2], [([0], [900.0, 0.0])], log=True), "factor-graph")


def test_factor_graphs_of_pgmpys_own_making() -> None:
    markov = ef.interop.to_pgmpy(ef.generators.random_tree(5, card=(2, 3), seed=1), "markov")
    labelled = markov.to_factor_graph()  # its factor nodes are text
    assert ef.interop.from_pgmpy(labelled) == ef.interop.from_pgmpy(markov)
    tree = markov.to_junction_tree()
    marginals = ef.solve(ef.interop.from_pgmpy(markov), "MAR", "brute").marginals
    others = ef.solve(ef.interop.from_pgmpy(tree), "MAR", "brute").marginals
    for i in range(5):
        np.testing.assert_allclose(marginals[f"x{i}"], others[f"x{i}"], atol=1e-12)


def test_incomplete_markov_networks_and_factor_graphs() -> None:
    markov = DiscreteMarkovNetwork([("a", "b")])
    markov.add_node("c")
    markov.add_factors(DiscreteFactor(["a", "b"], [2, 2], np.ones(4)))
    with pytest.raises(ef.ModelError, match="Variable 'c' is in no factor, so its number of states is unknown"):
        ef.interop.from_pgmpy(markov)
    graph, factor = FactorGraph(), DiscreteFactor(["a", "b"], [2, 2], np.ones(4))
    graph.add_nodes_from(["a", "b", factor])
    graph.add_edges_from([("a", factor), ("b", factor)])
    with pytest.raises(ef.ModelError, match="is not in any factor of the graph"):
        ef.interop.from_pgmpy(graph)
    graph.add_factors(factor)
    assert ef.interop.from_pgmpy(graph).num_factors == 1
