"""The k best and diverse assignments against toulbar2; sensitivity, findings and information against pyAgrum."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, random_graph
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.search.toulbar2 import Costs, _alarm, _silence

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

NETWORK = {
    "season": ["winter", "summer"], "rain": ["no", "light", "heavy"], "sprinkler": ["off", "on"],
    "lawn": ["dry", "wet"], "road": ["dry", "wet"],
}  # fmt: skip
FAMILIES = [["season"], ["season", "rain"], ["season", "sprinkler"], ["rain", "sprinkler", "lawn"], ["rain", "road"]]
SEEN = {"lawn": "wet", "road": "dry"}


def costs_of(graph: ef.FactorGraph) -> tuple[Costs, Any]:
    part = to_free_part(graph)
    assert part is not None
    assert part.graph.num_vars == graph.num_vars
    return Costs.of(part.graph), part


def toulbar2_solutions(graph: ef.FactorGraph, most: int, least: float) -> list[list[int]]:
    """Return up to `most` assignments with a score of at least `least`."""
    toulbar2 = importlib.import_module("pytoulbar2")
    problem, part = costs_of(graph)
    limit = float(np.floor((problem.best - least) * 10.0**problem.digits)) + 1.0
    cfn = toulbar2.CFN(ubinit=limit, resolution=0, verbose=-1)
    for i, d in enumerate(part.graph.card.tolist()):
        cfn.AddVariable(f"x{i}", range(d))
    for scope, costs in zip(problem.scopes, problem.tables, strict=True):
        cfn.AddFunction(scope, costs)
    with _silence(), _alarm(cfn, Clock(60.0).left):
        cfn.Solve(allSolutions=most)
    return [[int(x) for x in row[-1]] for row in cfn.GetSolutions()]


@pytest.mark.parametrize("seed", range(6))
def test_k_best_are_all_solutions_of_toulbar2_above_their_last_score(seed: int) -> None:
    pytest.importorskip("pytoulbar2")
    graph = ising_grid(5, 5, seed=seed) if seed % 2 else random_graph(10, 14, arity=(1, 3), card=(2, 3), seed=seed)
    found = ef.k_best(graph, 25)
    middle = float(found.log_scores[-1] + found.log_scores[-2]) / 2.0  # the last one alone is below it
    others = toulbar2_solutions(graph, 1000, least=middle)
    assert sorted(map(tuple, others)) == sorted(map(tuple, found.states[:-1].tolist()))


@pytest.mark.parametrize("apart", [2, 4])
def test_every_better_solution_of_toulbar2_is_near_an_earlier_one(apart: int) -> None:
    pytest.importorskip("pytoulbar2")
    graph = ising_grid(4, 4, seed=3)
    found = ef.k_best(graph, 5, apart=apart)
    for n, score in enumerate(found.log_scores.tolist()):
        better = np.array(toulbar2_solutions(graph, 10_000, least=score + 1e-6)).reshape(-1, graph.num_vars)
        distance = (better[:, None] != found.states[None, :n]).sum(-1)
        assert np.all((distance < apart).any(-1))
        assert np.all((found.states[n] != found.states[:n]).sum(-1) >= apart)


@pytest.fixture(scope="module")
def network() -> ef.FactorGraph:
    rng = np.random.default_rng(5)
    tables = [rng.dirichlet(np.ones(len(NETWORK[f[-1]])), [len(NETWORK[name]) for name in f[:-1]]) for f in FAMILIES]
    return ef.FactorGraph(NETWORK, list(zip(FAMILIES, tables, strict=True)))


def engine_of(graph: ef.FactorGraph, evidence: dict[str, str]) -> Any:
    gum = pytest.importorskip("pyagrum")
    network = gum.BayesNet()
    for name, states in NETWORK.items():
        network.add(gum.LabelizedVariable(name, name, states))
    for factor, family in enumerate(FAMILIES):
        for parent in family[:-1]:
            network.addArc(parent, family[-1])
        cpt, table = network.cpt(family[-1]), np.exp(graph.log_phi[graph.structure.table_ptr[factor] :])
        for states in np.ndindex(graph.structure.shape(factor)):
            place = {name: int(x) for name, x in zip(family, states, strict=True)}
            cpt[place] = float(table[np.ravel_multi_index(states, graph.structure.shape(factor))])
    engine = gum.LazyPropagation(network)
    engine.setEvidence(evidence)
    return engine


def posterior(graph: ef.FactorGraph, evidence: dict[str, str]) -> float:
    """Return p(rain = heavy) of pyAgrum, whose tables are gone when its engine is."""
    engine = engine_of(graph, evidence)
    return float(engine.posterior("rain").toarray()[2])


def test_sensitivity_is_the_posterior_of_pyagrum_with_another_number(network: ef.FactorGraph) -> None:
    found = ef.sensitivity(network, "rain", "heavy", evidence=SEEN)
    s = network.structure
    for influence in found[:12]:
        row = list(influence.states)
        table = np.exp(network.log_phi[s.table_ptr[influence.factor] : s.table_ptr[influence.factor + 1]])
        table = table.reshape(s.shape(influence.factor))
        for value in (0.5 * influence.value, 0.05 + 0.9 * influence.value):
            changed = table.copy()
            own = changed[tuple(row[:-1])]
            own *= (1.0 - value) / (1.0 - influence.value)
            own[row[-1]] = value
            log_phi = network.log_phi.copy()
            log_phi[s.table_ptr[influence.factor] : s.table_ptr[influence.factor + 1]] = np.log(changed).ravel()
            other = ef.FactorGraph.trusted(s, log_phi, None, "")
            wanted = posterior(other, SEEN)
            assert found.probability_at(influence, value) == pytest.approx(wanted, abs=1e-9)


def test_findings_are_the_posteriors_of_pyagrum(network: ef.FactorGraph) -> None:
    found = ef.findings(network, "rain", "heavy", evidence=SEEN)
    assert found.probability == pytest.approx(posterior(network, SEEN), abs=1e-9)
    for row in found:
        others = {name: state for name, state in SEEN.items() if name != row.variable}
        alone = {row.variable: SEEN[row.variable]}
        assert row.without == pytest.approx(posterior(network, others), abs=1e-9)
        assert row.alone == pytest.approx(posterior(network, alone), abs=1e-9)
        p = [engine_of(network, e).evidenceProbability() for e in (alone, others, SEEN)]
        assert row.conflict == pytest.approx(np.log(p[0] * p[1] / p[2]), abs=1e-9)


def test_what_to_observe_next_is_the_mutual_information_of_pyagrum(network: ef.FactorGraph) -> None:
    info = ef.most_informative(network, "rain", evidence=SEEN)
    for name in ("season", "sprinkler"):
        engine = engine_of(network, SEEN)
        engine.addJointTarget({"rain", name})
        p = engine.jointPosterior({"rain", name}).toarray()
        wanted = np.sum(p * np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0))))
        assert info[name] == pytest.approx(wanted, abs=1e-9)
