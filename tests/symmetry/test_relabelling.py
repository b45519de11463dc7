from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor import FactorGraph, ModelError, OptionError, solve
from equifactor.generators import random_graph
from equifactor.solvers import compile
from equifactor.symmetry import KINDS, Relabelling, relabel
from equifactor.testing import assert_same_graph, contract_graphs

GRAPHS = contract_graphs()
graphs = st.sampled_from(sorted(GRAPHS)).map(GRAPHS.__getitem__)
seeds = st.integers(0, 10**6)
kinds = st.sets(st.sampled_from(KINDS))


@given(graphs, kinds, seeds)
def test_inverse_undoes(graph: FactorGraph, which: set, seed: int) -> None:
    r = Relabelling.random(graph, which, seed)
    identity = Relabelling.identity(graph)
    assert r.compose(r.inverse()) == identity
    assert r.inverse().compose(r) == Relabelling.identity(relabel(graph, r))
    assert r.inverse().inverse() == r
    assert_same_graph(relabel(relabel(graph, r), r.inverse()), graph)


@given(graphs, kinds, kinds, seeds)
def test_composition_is_one_after_the_other(graph: FactorGraph, first: set, second: set, seed: int) -> None:
    r = Relabelling.random(graph, first, seed)
    once = relabel(graph, r)
    s = Relabelling.random(once, second, seed + 1)
    twice = relabel(once, s)
    t = Relabelling.random(twice, KINDS, seed + 2)
    assert_same_graph(relabel(graph, r.compose(s)), twice)
    assert r.compose(s).compose(t) == r.compose(s.compose(t))
    assert r.compose(s).inverse() == s.inverse().compose(r.inverse())
    assert Relabelling.identity(graph).compose(r) == r == r.compose(Relabelling.identity(once))


@given(graphs, seeds)
def test_scores_follow(graph: FactorGraph, seed: int) -> None:
    r = Relabelling.random(graph, seed=seed)
    x = np.random.default_rng(seed).integers(0, graph.card, (20, graph.num_vars))
    before, after = graph.log_score(x), relabel(graph, r).log_score(r.assignment(x))
    np.testing.assert_allclose(after, before, rtol=1e-12)
    assert np.array_equal(r.assignment(x[0]), r.assignment(x)[0])
    assert np.array_equal(r.inverse().assignment(r.assignment(x)), x)


@given(graphs, seeds)
def test_results_follow(graph: FactorGraph, seed: int) -> None:
    r = Relabelling.random(graph, seed=seed)
    carried, direct = r.result(solve(graph, "MAR", "brute")), solve(relabel(graph, r), "MAR", "brute")
    assert carried.graph == direct.graph
    assert carried.log_z == pytest.approx(direct.log_z, rel=1e-12)
    assert carried.marginals is not None
    assert direct.marginals is not None
    np.testing.assert_allclose(carried.marginals.values, direct.marginals.values, atol=1e-12)
    best = r.result(solve(graph, "MAP", "brute"))
    assert best.graph.log_score(best.assignment) == pytest.approx(best.log_score)


def test_only_the_wanted_kinds_change_something() -> None:
    graph = random_graph(8, 12, arity=(2, 3), card=(3, 4), seed=1)
    identity = Relabelling.identity(graph)
    fields = {"global": {"variables", "factors"}, "local variable": {"slots"}, "variable assignment": {"states"}}
    for kind in KINDS:
        r = Relabelling.random(graph, kind, seed=2)
        changed = {n for n in ("variables", "factors", "slots", "states") if any(getattr(r, n) != getattr(identity, n))}
        assert changed == fields[kind]
    assert Relabelling.random(graph, (), seed=3) == identity
    assert Relabelling.random(graph, seed=4) == Relabelling.random(graph, seed=4)
    assert Relabelling.random(graph, seed=4) != Relabelling.random(graph, seed=5)


def test_every_permutation_is_drawn_equally_often() -> None:
    graph = FactorGraph([3], [])
    drawn = [tuple(Relabelling.random(graph, seed=n).states.tolist()) for n in range(600)]
    counts = [drawn.count(p) for p in set(drawn)]
    assert len(counts) == 6
    assert min(counts) > 60


def test_by_hand() -> None:
    graph = FactorGraph({"a": ["x", "y"], "b": 3}, [(["a"], [1, 2]), (["a", "b"], [[1, 2, 3], [4, 5, 6]])])
    r = Relabelling.from_dict(
        {"variables": [1, 0], "factors": [1, 0], "scopes": [[0], [1, 0]], "states": [[1, 0], [2, 0, 1]]}
    )
    new = relabel(graph.condition({}), r)
    assert new.structure.variable_names == ("b", "a")
    assert new.structure.state_names == (None, ("y", "x"))
    assert new.structure.scope(0).tolist() == [0, 1]  # (a, b) is now (b, a), and a has the number 1.
    np.testing.assert_allclose(np.exp(new.log_table(0)), [[5, 2], [6, 3], [4, 1]])
    np.testing.assert_allclose(np.exp(new.log_table(1)), [2, 1])
    assert r.assignment([0, 2]).tolist() == [1, 1]


def test_evidence_moves_along() -> None:
    graph = random_graph(5, 6, arity=2, card=(2, 4), seed=1)
    observed = graph.condition({2: 1})
    r = Relabelling.random(observed, seed=2)
    assert relabel(observed, r).evidence == {int(r.variables[2]): int(r.states[r.state_ptr[2] + 1])}


@pytest.mark.parametrize("name", ["loop", "ragged cardinalities", "hard zeros", "some evidence", "arity 5"])
def test_messages_follow(name: str) -> None:
    from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
    from equifactor.solving.solver import SolveContext

    graph = GRAPHS[name]
    r = Relabelling.random(graph, seed=3)
    flat, other = compile(graph), compile(relabel(graph, r))
    found = []
    for compiled in (flat, other):
        engine = new_engine(compiled, BpSettings("sum", "parallel", 0.3, 1e-6, 0), SolveContext(), "numba")
        engine.sweep(3)
        msg = engine.messages()
        top = np.full(compiled.num_edges, -np.inf)
        np.maximum.at(top, compiled.edge_of_edge_state, msg)
        found.append(msg - top[compiled.edge_of_edge_state])
    carried = r.messages(found[0], flat, other)
    np.testing.assert_allclose(carried, found[1], atol=1e-9)
    assert np.array_equal(r.inverse().messages(carried, other, flat), found[0])


def test_messages_keep_channels_and_gradients() -> None:
    import torch

    graph = GRAPHS["ragged cardinalities"]
    r = Relabelling.random(graph, seed=3)
    flat, other = compile(graph), compile(relabel(graph, r))
    values = np.arange(2.0 * flat.num_edge_states).reshape(-1, 2)
    tensor = torch.tensor(values, requires_grad=True)
    carried = r.messages(tensor, flat, other)
    assert carried.requires_grad
    assert np.array_equal(carried.detach().numpy(), r.messages(values, flat, other))
    with pytest.raises(ModelError, match="single graphs"):
        r.messages(values, compile([graph, graph]), other)


def test_json_round_trip() -> None:
    for graph in GRAPHS.values():
        r = Relabelling.random(graph, seed=1)
        assert Relabelling.from_dict(json.loads(json.dumps(r.to_dict()))) == r


def test_bad_relabellings_say_what_is_wrong() -> None:
    graph = FactorGraph([2, 3], [([0, 1], np.ones((2, 3)))])
    good = Relabelling.identity(graph).to_dict()
    for change, message in (
        ({"variables": [0, 0]}, r"new variables must be the numbers 0 to 1 in any order, found \[0, 0\]"),
        ({"variables": [0]}, "needs 2 numbers for the variables, found 1"),
        (
            {"states": [[0, 1], [0, 1, 3]]},
            r"states of variable 1 must be the numbers 0 to 2 in any order, found \[0, 1, 3\]",
        ),
        ({"scopes": [[0, -1]]}, "scope positions of factor 0"),
        ({"scopes": 3}, "lists of whole numbers"),
    ):
        with pytest.raises(ModelError, match=message):
            Relabelling.from_dict({**good, **change})
    with pytest.raises(ModelError, match="lists of whole numbers"):
        Relabelling.from_dict({})
    with pytest.raises(OptionError, match="There is no symmetry 'globl'"):
        Relabelling.random(graph, "globl")  # type: ignore[arg-type]


def test_it_must_fit() -> None:
    graph, other = FactorGraph([2, 3]), FactorGraph([3, 3])
    r, s = Relabelling.identity(graph), Relabelling.identity(other)
    with pytest.raises(ModelError, match="does not fit this graph"):
        relabel(other, r)
    with pytest.raises(ModelError, match="cannot be composed"):
        r.compose(s)
    with pytest.raises(ModelError, match="cardinalities are not those of the relabelling"):
        r.marginals(solve(other, "MAR", "brute").marginals)
    with pytest.raises(ModelError, match="one state in range"):
        r.assignment([0, 3])
