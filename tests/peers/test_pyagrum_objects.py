"""`from_pyagrum` and `to_pyagrum` against pyAgrum itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import equifactor as ef

gum = pytest.importorskip("pyagrum")
# A warning turned into an exception inside its C++ bindings ends the process.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def network() -> Any:
    """Return a network with variables of every class; one variable has three parents of different sizes."""
    bn = gum.BayesNet("mixed")
    bn.add(gum.RangeVariable("range", "", 1, 3))
    bn.add(gum.LabelizedVariable("named", "", ["yes", "no way"]))
    bn.add(gum.IntegerVariable("whole", "", [1, 4, 9, 16]))
    bn.add(gum.DiscretizedVariable("interval", "", [0, 1, 2.5]))
    bn.add(gum.LabelizedVariable("plain", "", 2))
    for parent in ("whole", "range", "plain"):
        bn.addArc(parent, "named")
    gum.initRandom(7)
    bn.generateCPTs()
    return bn


def posteriors(model: Any, names: tuple[str, ...], evidence: dict[str, int] | None = None) -> list[np.ndarray]:
    bayesian = isinstance(model, gum.BayesNet)
    engine = gum.LazyPropagation(model) if bayesian else gum.ShaferShenoyMRFInference(model)
    engine.setEvidence(evidence or {})
    engine.makeInference()
    return [np.array(engine.posterior(name).tolist()) for name in names]


def assert_same_answers(model: Any, graph: ef.FactorGraph, evidence: dict[str, int] | None = None) -> None:
    names = graph.structure.variable_names
    assert names is not None
    by_number = {graph.variable(name): state for name, state in (evidence or {}).items()}
    given = graph.condition(type(graph.evidence)(by_number)) if by_number else graph
    ours = ef.solve(given, "MAR", "brute").marginals
    assert ours is not None
    for i, theirs in enumerate(posteriors(model, names, evidence)):
        np.testing.assert_allclose(ours[i], theirs, rtol=0, atol=1e-12)


def test_a_bayesian_network() -> None:
    bn = network()
    g = ef.interop.from_pyagrum(bn)
    assert g.name == "mixed"
    assert g.structure.variable_names == ("range", "named", "whole", "interval", "plain")
    assert g.structure.state_names == (
        ("1", "2", "3"), ("yes", "no way"), ("1", "4", "9", "16"), ("[0;1[", "[1;2.5]"), ("0", "1")
    )  # fmt: skip
    assert g.structure.scope(1).tolist() == [2, 0, 4, 1]  # the parents in their order, then the child
    state = {"range": "3", "named": "no way", "whole": "4", "interval": "[0;1[", "plain": "1"}
    complete = bn.completeInstantiation()
    complete.fromdict(state)
    assert g.log_score(state) == pytest.approx(math.log(bn.jointProbability(complete)), abs=1e-12)
    assert_same_answers(bn, g)
    assert_same_answers(bn, g, {"named": 1, "plain": 0})
    with pytest.raises(ef.ModelError, match="can be read as a name or as a place"):
        g.condition({"range": 1})


def test_there_and_back() -> None:
    theirs = network()
    g = ef.interop.from_pyagrum(theirs)
    bn = ef.interop.to_pyagrum(g, "bayesian")
    assert isinstance(bn, gum.BayesNet)
    assert bn.property("name") == "mixed"
    assert bn.check() == ()
    assert bn.cpt("named").names == theirs.cpt("named").names
    np.testing.assert_allclose(bn.cpt("named").toarray(), theirs.cpt("named").toarray(), rtol=0, atol=1e-16)
    assert ef.interop.from_pyagrum(bn) == g


def test_computed_distributions_become_tables() -> None:
    bn = gum.BayesNet()
    for name in "xyz":
        bn.add(gum.LabelizedVariable(name, "", 2))
    bn.addNoisyOR(gum.LabelizedVariable("o", "", 2), 0.1)
    bn.addWeightedArc("x", "o", 0.3)
    bn.addWeightedArc("y", "o", 0.4)
    bn.addOR(gum.LabelizedVariable("p", "", 2))
    bn.addArc("o", "p")
    bn.addArc("z", "p")
    for name in "xyz":
        bn.cpt(name).fillWith([0.3, 0.7])
    g = ef.interop.from_pyagrum(bn)
    np.testing.assert_allclose(np.exp(g.log_table(3)).sum(axis=-1), 1.0)
    np.testing.assert_allclose(np.exp(g.log_table(3))[0, 0], [0.9, 0.1])
    assert_same_answers(bn, g)


def test_noisy_or_there() -> None:
    causes = [(["a"], [0.9, 0.1]), (["b"], [0.8, 0.2])]
    g = ef.FactorGraph({"a": 2, "b": 2, "c": 2}, [*causes, (["c", "a", "b"], ef.NoisyOr(0.1, [0.2, 0.3]))])
    assert_same_answers(ef.interop.to_pyagrum(g, "bayesian"), g)


def test_small_probabilities_keep_double_precision() -> None:
    p = 0.1234567890123456789e-30
    g = ef.FactorGraph({"a": 2, "b": 2}, [(["a"], [p, 1 - p]), (["a", "b"], [[0.1, 0.9], [1.0, 0.0]])])
    back = ef.interop.from_pyagrum(ef.interop.to_pyagrum(g, "bayesian"))
    np.testing.assert_array_equal(back.log_phi, g.log_phi)


def test_any_model_there_and_back(model: ef.FactorGraph) -> None:
    mrf = ef.interop.to_pyagrum(model, "markov")
    assert isinstance(mrf, gum.MarkovRandomField)
    back = ef.interop.from_pyagrum(mrf)
    assert_same_answers(mrf, back)
    np.testing.assert_array_equal(back.card, model.card)
    ours, theirs = ef.solve(model, "MAR", "brute"), ef.solve(back, "MAR", "brute")
    assert theirs.log_z == pytest.approx(ours.log_z, abs=1e-12)
    np.testing.assert_allclose(theirs.marginals.values, ours.marginals.values, rtol=0, atol=1e-12)


def test_evidence_kinds_equal_scopes_and_variables_in_no_factor() -> None:
    table = np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]])
    g = ef.FactorGraph(
        {"a": 2, "b": 2, "c": 2, "d": ["x", "y", "z"], "alone": 3},
        [(["a", "b", "c"], ef.Parity()), (["c", "d"], table), (["d", "c"], table.T + 1), ([], [3.0])], name="mixed",
    )  # fmt: skip
    seen = g.condition({"d": "x"})
    for graph in (g, seen):
        mrf = ef.interop.to_pyagrum(graph, "markov")
        back = ef.interop.from_pyagrum(mrf)
        assert back.structure.variable_names == g.structure.variable_names
        assert back.structure.state_names[3] == ("x", "y", "z")
        assert ef.solve(back, "PR", "brute").log_z == pytest.approx(ef.solve(graph, "PR", "brute").log_z)
        ours = ef.solve(graph, "MAR", "brute").marginals
        for name, theirs in zip("abcd", posteriors(mrf, tuple("abcd")), strict=True):
            np.testing.assert_allclose(ours[name], theirs, atol=1e-12)


def test_what_is_refused() -> None:
    bn = gum.fastBN("a{x|y}->b")
    bn.cpt("b").fillWith([0.5, 0.5, 0.5, 0.25])
    with pytest.raises(ef.ModelError, match=r"'b' given state 1 of a sum to 0\.75"):
        ef.interop.from_pyagrum(bn)
    with pytest.raises(ef.ModelError, match=r"found a BayesNet of pyagrum. Convert it with from_pyagrum"):
        ef.solve(bn)
    with pytest.raises(ef.ModelError, match="Expected a BayesNet or MarkovRandomField of pyAgrum, found 3"):
        ef.interop.from_pyagrum(3)
    with pytest.raises(ef.ModelError, match="Expected a BayesNet or MarkovRandomField of pyAgrum"):
        ef.interop.from_pyagrum(gum.DAG())
    g = ef.FactorGraph([2] * 30, [(range(30), ef.Parity())])
    with pytest.raises(
        ef.ModelError, match=r"A MarkovRandomField of pyAgrum needs its dense table, which has 2\^30 entries"
    ):
        ef.interop.to_pyagrum(g, "markov")
    with pytest.raises(ef.ModelError, match="1 factors for 30 variables"):
        ef.interop.to_pyagrum(ef.FactorGraph([2] * 30, [([0], [0.5, 0.5])]), "bayesian")
    with pytest.raises(ef.OptionError, match="choose from: bayesian, markov"):
        ef.interop.to_pyagrum(g, "factor-graph")
