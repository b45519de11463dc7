"""Joints, factor marginals, entropy and information against enumeration, from every kind of solver."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from enumeration import distribution, entropy, graphs, kinds_graph, summed

import equifactor as ef
from equifactor import FactorGraph, ModelError, OptionError, SolveError, Status

GRAPHS = graphs()


def scopes_of(graph: FactorGraph) -> list[list[int]]:
    """Return random sets of one to four variables, observed ones among them."""
    rng = np.random.default_rng(graph.num_vars)
    return [rng.permutation(graph.num_vars)[:k].tolist() for k in (1, 2, 2, 3, 4) if k <= graph.num_vars]


@pytest.mark.parametrize("name", GRAPHS)
def test_exact_answers(name: str) -> None:
    graph = GRAPHS[name]
    p = distribution(graph)
    result = ef.solve(graph, "MAR", "exact")
    for scope in scopes_of(graph):
        joint = result.joint(*scope)
        assert joint.status is Status.EXACT
        np.testing.assert_allclose(joint.values, summed(p, scope), atol=1e-12)
    assert len(result.factor_marginals) == graph.num_factors
    for a, table in enumerate(result.factor_marginals):
        np.testing.assert_allclose(table, summed(p, graph.structure.scope(a).tolist()), atol=1e-12)
    found = result.entropy()
    assert (found.method, found.status) == ("exact", Status.EXACT)
    assert found == pytest.approx(entropy(p), abs=1e-10)
    for t in graph.free_vars[-1:].tolist():
        info = result.mutual_information(t)
        for i in range(graph.num_vars):
            wanted = (
                entropy(summed(p, [t]))
                + entropy(summed(p, [i]))
                - entropy(summed(p, [t, i]) if i != t else summed(p, [t]))
            )
            assert info[i] == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *((name, "bp") for name in ("tree", "hard zeros tree", "disconnected tree", "soft evidence", "one variable")),
        ("tree", "bp(engine=torch)"),
        ("hard zeros tree", "fe-nbp(untrained, iterations=60)"),
    ],
)
def test_bethe_answers_are_exact_on_trees(name: str, solver: str) -> None:
    graph = GRAPHS[name]
    p = distribution(graph)
    result = ef.solve(graph, "MAR", solver)
    for a, table in enumerate(result.factor_marginals):
        np.testing.assert_allclose(table, summed(p, graph.structure.scope(a).tolist()), atol=1e-5)
    for scope in scopes_of(graph)[:3]:  # of one factor or not
        np.testing.assert_allclose(result.joint(*scope).values, summed(p, scope), atol=1e-5)
    found = result.entropy()
    assert found.method == "Bethe"
    assert found == pytest.approx(entropy(p), abs=1e-4)


def test_bethe_beliefs_on_loops_agree_with_the_marginals() -> None:
    for graph in (GRAPHS["loop"], GRAPHS["hard zeros"], kinds_graph(), GRAPHS["kinds and evidence"]):
        result = ef.solve(graph, "MAR", "bp(damping=0.3, iterations=2000, tolerance=1e-10)")
        tables = result.factor_marginals
        assert tables.is_bethe
        assert tables.status is result.status
        for a, table in enumerate(tables):
            for n, i in enumerate(graph.structure.scope(a).tolist()):
                others = tuple(m for m in range(table.ndim) if m != n)
                np.testing.assert_allclose(table.sum(axis=others), result.marginals[i], atol=1e-6)
        i, j = next(s for s in map(graph.structure.scope, range(graph.num_factors)) if len(s) == 2).tolist()
        joint = result.joint(j, i)
        assert joint.method.startswith("Bethe belief of factor")
        np.testing.assert_allclose(joint.values.sum(axis=0), result.marginals[i], atol=1e-6)
    pairs = result.graph.structure
    # The Bethe entropy is that of the factors and of the variables, each counted once.
    degree = np.bincount(pairs.scope_vars, minlength=pairs.num_vars)
    wanted = sum(entropy(t) for t in tables) + sum(
        (1 - d) * entropy(b) for d, b in zip(degree, result.marginals, strict=True)
    )
    assert result.entropy() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("solver", ["gibbs(samples=4000)", "loop-bp", "trw", "blocks", "conditioning", "auto", "brute"])
def test_conditioning_serves_every_solver(solver: str) -> None:
    graph = GRAPHS["disconnected tree"]
    p = distribution(graph)
    result = ef.solve(graph, "MAR", solver, time_limit=2.0 if solver in ("blocks", "loop-bp") else None)
    joint = result.joint(0, 1, 3)
    np.testing.assert_allclose(joint.values, summed(p, [0, 1, 3]), atol=0.03)
    assert joint.status is (Status.EXACT if result.status is Status.EXACT else joint.status)
    np.testing.assert_allclose(result.factor_marginals[0], summed(p, [1, 0]), atol=0.03)


def test_mean_field_takes_variables_as_independent() -> None:
    result = ef.solve(GRAPHS["loop"], "MAR", "meanfield")
    joint = result.joint(0, 1)
    np.testing.assert_allclose(joint.values, np.outer(result.marginals[0], result.marginals[1]))
    assert joint.mutual_information() == pytest.approx(0.0, abs=1e-12)
    assert result.entropy().method == "mean field"
    assert result.log_z - result.entropy() == pytest.approx(_expected_score(result), abs=1e-6)


def _expected_score(result: Any) -> float:
    tables = [
        np.asarray(result.joint(*result.graph.structure.scope(a).tolist())) for a in range(result.graph.num_factors)
    ]
    return float(sum((t * result.graph.log_table(a)).sum() for a, t in enumerate(tables)))


def test_results_travel_and_batches_know_their_graphs() -> None:
    g = GRAPHS["loop"]
    results = ef.solve([g, g, GRAPHS["tree"]], "MAR", "exact", evidence=[{0: 1}, None, {1: 0}])
    assert len({id(r.settings) for r in results}) == 1  # one for the whole batch
    for result in results:
        _ = result.factor_marginals[0]
        text = pickle.dumps(result)
        assert b"ScopeMarginals" not in text
        again = pickle.loads(text)
        np.testing.assert_array_equal(again.joint(2, 0).values, result.joint(2, 0).values)
        np.testing.assert_allclose(again.joint(2, 0).values, summed(distribution(result.graph), [2, 0]), atol=1e-12)
    joint = pickle.loads(pickle.dumps(results[0].joint(0, 1)))
    assert joint[{0: 1}] == pytest.approx(1.0)
    assert pickle.loads(pickle.dumps(results[0].entropy())).method == "exact"


def test_a_result_of_ln_z_alone() -> None:
    for solver in ("exact", "bp", "auto"):
        result = ef.solve(GRAPHS["tree"], "PR", solver)
        p = distribution(GRAPHS["tree"])
        np.testing.assert_allclose(result.joint(3, 1).values, summed(p, [3, 1]), atol=1e-5)
        assert result.mutual_information(2)[1] == pytest.approx(
            entropy(summed(p, [1])) + entropy(summed(p, [2])) - entropy(summed(p, [1, 2])), abs=1e-5
        )


def test_more_than_memory_or_time_is_one_sentence() -> None:
    grid = ef.generators.ising_grid(12, 12, seed=1)
    result = ef.solve(grid, "MAR", "exact(memory_limit=0.002)")
    far = result.joint(0, 143)  # by conditioning: together they are over the limit
    assert far.status is Status.EXACT
    assert far.values.sum() == pytest.approx(1.0)
    with pytest.raises(
        SolveError,
        match=r"elimination would take .* conditioning takes .* runs of exact, about .* s, with a limit of 0.001 s",
    ):
        result.joint(0, 70, 143, time_limit=0.001)
    with pytest.raises(SolveError, match=r"The joint of 30 variables is a table of 2\^30 entries"):
        result.joint(*range(30))
    with pytest.raises(SolveError, match=r"elimination would take .* conditioning takes 2.1e\+06 runs"):
        result.joint(*range(20, 41))
    refused = ef.solve(grid, "MAR", "exact(memory_limit=0.00001)")
    with pytest.raises(SolveError, match=r"has no joint\. Elimination needs"):
        refused.joint(0, 1)


def test_elimination_by_one_plan_and_conditioning_agree() -> None:
    grid = ef.generators.ising_grid(6, 6, seed=2)
    whole, short = ef.solve(grid, "MAR", "exact"), ef.solve(grid, "MAR", "exact(memory_limit=0.000011)")
    assert (whole.joint(0, 20, 35).method, short.joint(0, 20, 35).method[:12]) == ("elimination", "conditioning")
    np.testing.assert_allclose(whole.joint(0, 20, 35).values, short.joint(0, 20, 35).values, atol=1e-12)


def test_an_interrupted_question_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ef.solve(GRAPHS["loop"], "MAR", "trw")
    monkeypatch.setattr("equifactor.base.clock.Clock.status", Status.INTERRUPTED)
    monkeypatch.setattr("equifactor.base.clock.Clock.left", 0.0)
    with pytest.raises(SolveError, match="The question was interrupted before all its runs"):
        result.joint(0, 1)


def test_wrong_questions() -> None:
    graph = FactorGraph({"rain": ["no", "yes"], "grass": 2}, [(["rain", "grass"], [[1.0, 2.0], [3.0, 0.0]])])
    result = ef.solve(graph, "MAR", "exact")
    for call, error, sentence in (
        (lambda: result.joint(), ModelError, "A joint needs variables"),
        (lambda: result.joint("rain", "snow"), ModelError, "The model has no variable 'snow'"),
        (lambda: result.joint("rain", 0), ModelError, "Variable rain is given twice"),
        (lambda: result.joint("rain", time_limit="x"), OptionError, "The time limit must be"),
        (lambda: ef.solve(graph, "MAP").joint("rain"), SolveError, "A MAP result has one assignment and no joint"),
        (lambda: ef.solve(graph, "MAP").entropy(), SolveError, "no entropy. Solve with task MAR"),
        (lambda: ef.solve(graph, "MAP").factor_marginals, SolveError, "no factor marginals"),
        (lambda: ef.solve(graph, "MAR", "gibbs").entropy(), SolveError, "gibbs gives no entropy. Solve with exact"),
        (lambda: result.factor_marginals[7], IndexError, "Factor 7 is out of range. The number of factors is 1"),
        (lambda: ef.solve(graph, evidence={"rain": "no"}).mutual_information("rain"), SolveError, "rain is observed"),
        (lambda: ef.solve(graph, evidence={"rain": "yes", "grass": 1}).joint("rain"), SolveError, "has no joint"),
        (lambda: result.probability("rain", 2), ModelError, "out of range"),
        (lambda: result.joint(["rain", "grass"]), ModelError, r"not in a list. Call joint\(\*\['rain', 'grass'\]\)"),
        (lambda: result.joint("RAIN"), ModelError, "did you mean rain"),
        (lambda: result.joint("rain", "grass", time_limit=0), SolveError, "would take more than 0 s to plan, and"),
        (lambda: result.factor_marginals["rain"], ModelError, "A factor is given by its number, not by 'rain'"),
    ):
        with pytest.raises(error, match=sentence):
            call()  # type: ignore[no-untyped-call]


def test_large_factors_of_other_kinds() -> None:
    graph = FactorGraph([2] * 30, [(range(30), ef.Parity()), ([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
    for solver in ("exact", "bp"):
        result = ef.solve(graph, "MAR", solver)
        with pytest.raises(ModelError, match=r"Factor 0 is a parity over 30 variables. Its table has 2\^30"):
            _ = result.factor_marginals[0]
        np.testing.assert_allclose(result.factor_marginals[1], [[0.1, 0.2], [0.3, 0.4]], atol=1e-9)
        np.testing.assert_allclose(result.joint(0, 1).values, [[0.1, 0.2], [0.3, 0.4]], atol=1e-9)
        wanted = 27 * np.log(2) + entropy(np.array([0.1, 0.2, 0.3, 0.4]))
        assert result.entropy() == pytest.approx(wanted, abs=1e-9)
    causes = FactorGraph([2] * 24, [(range(24), ef.NoisyOr(0.1, [0.5] * 23))])
    with pytest.raises(SolveError, match="the table of factor 0, a noisy_or over 24 variables"):
        ef.solve(causes, "MAR", "exact").entropy()


def test_networks_agree_with_their_marginals_and_use_their_time() -> None:
    graph = GRAPHS["loop"]
    result = ef.solve(graph, "MAR", "fe-nbp")
    for a, table in enumerate(result.factor_marginals):
        for n, i in enumerate(graph.structure.scope(a).tolist()):
            others = tuple(m for m in range(table.ndim) if m != n)
            np.testing.assert_allclose(table.sum(axis=others), result.marginals[i], atol=1e-6)
    assert result.joint(0, 1).method == "conditioning, 2 runs of fe-nbp"
    assert result.joint(0, 1, time_limit=0.0).method.startswith("Bethe belief of factor")
    with pytest.raises(
        SolveError, match=r"Information about 0 takes 2 runs of fe-nbp, about .* s, with a limit of 0 s"
    ):
        result.mutual_information(0, time_limit=0.0)
