"""Action on networks: `do` equals enumeration, adjustment equals `do`, and what is not identified is refused."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import equifactor as ef
from equifactor import BayesianNetwork, FactorGraph, ModelError
from tests.networks.random_networks import random_network, truncated

LAWN = {
    "rain": {"no": 0.8, "yes": 0.2},
    "sprinkler": ("rain", {"no": {"off": 0.6, "on": 0.4}, "yes": {"off": 0.99, "on": 0.01}}),
    "grass": (["sprinkler", "rain"], [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
}


@pytest.fixture
def lawn() -> BayesianNetwork:
    return BayesianNetwork(LAWN, {"grass": ["dry", "wet"]})


def check_do(seed: int) -> None:
    """Compare marginals and ln Z under action and evidence with enumeration."""
    network = random_network(seed)
    rng = np.random.default_rng([seed, 1])
    chosen = rng.permutation(network.num_vars)[: int(rng.integers(1, 4))].tolist()
    states = {i: int(rng.integers(network.card[i])) for i in chosen}
    split = int(rng.integers(1, len(chosen) + 1))
    do, evidence = ({i: states[i] for i in part} for part in (chosen[:split], chosen[split:]))
    p = truncated(network, do, evidence)
    result = ef.solve(network, "MAR", "exact", do=do, evidence=evidence)
    if p.sum() == 0:
        assert result.status == "zero-probability"
        return
    assert result.log_z == pytest.approx(np.log(p.sum()), abs=1e-10)
    for i in range(network.num_vars):
        own = p.sum(axis=tuple(k for k in range(p.ndim) if k != i)) / p.sum()
        np.testing.assert_allclose(result.marginals[i], own, atol=1e-10)


def test_do_equals_enumeration() -> None:
    for seed in range(100):
        check_do(seed)


def check_effect(seed: int) -> None:
    """Compare every effect that adjustment identifies, and every set that it lists, with surgery."""
    network = random_network(seed, num_vars=5, zeros=0.0)
    rng = np.random.default_rng([seed, 2])
    x, y, *others = rng.permutation(network.num_vars).tolist()
    latent = others[: int(rng.integers(0, 3))]
    try:
        effect = network.effect(x, y, latent=latent)
    except ModelError as error:  # no set is found, and none of all subsets closes the paths
        if "never occurs" in str(error):  # They are closed, but tiny numbers of the tables were made zero.
            return
        nx = pytest.importorskip("networkx")
        graph = nx.DiGraph([(p, c) for p, c in network.edges if p != x])
        graph.add_nodes_from(range(5))
        free = [i for i in others if i not in latent and i not in network.descendants(x)]
        subsets = (set(own) for size in range(len(free) + 1) for own in combinations(free, size))
        assert not any(nx.is_d_separator(graph, {x}, {y}, own) for own in subsets)
        return
    surgery = [ef.solve(network, "MAR", "exact", do={x: k}).marginals[y] for k in range(network.card[x])]
    for own in effect.sets:
        found = network.effect(x, y, adjust=own)
        assert not {*own} & {*latent}
        np.testing.assert_allclose(found.table.values, surgery, atol=1e-9)


def test_adjustment_equals_surgery() -> None:
    for seed in range(60):
        check_effect(seed)


def test_action_differs_from_observation(lawn: BayesianNetwork) -> None:
    """Setting the sprinkler says nothing about rain; pgmpy threads 3543, 2454 and 1491 ask for this."""
    assert ef.solve(lawn, do={"sprinkler": "on"}).marginals["rain"] == pytest.approx([0.8, 0.2])
    assert ef.solve(lawn, evidence={"sprinkler": "on"}).marginals["rain"][1] < 0.01
    both = ef.solve(lawn, do={"sprinkler": "on"}, evidence={"grass": "wet"})
    assert both.marginals["rain"][1] == pytest.approx(0.198 / (0.198 + 0.72))
    assert both.log_z == pytest.approx(np.log(0.918))
    # A variable without parents may be set as well, an empty action changes nothing, and several are set at once.
    assert ef.solve(lawn, do={"rain": "yes"}).marginals["grass"][1] == pytest.approx(0.99 * 0.8 + 0.01 * 0.99)
    assert ef.solve(lawn, do={}).marginals["grass"] == pytest.approx(ef.solve(lawn).marginals["grass"])
    assert ef.solve(lawn, do={"rain": "no", "sprinkler": "on"}).marginals["grass"][1] == pytest.approx(0.9)


def test_every_question_takes_action(lawn: BayesianNetwork) -> None:
    drawn = ef.sample(lawn, 4000, do={"sprinkler": "on"}, seed=1)
    assert drawn.states[:, lawn.variable("rain")].mean() == pytest.approx(0.2, abs=0.03)
    assert (drawn.states[:, lawn.variable("sprinkler")] == 1).all()
    many = ef.solve(lawn, evidence=[{"grass": "wet"}, {}], do={"sprinkler": "on"}, targets=["rain"])
    assert many.marginals["rain"][:, 1] == pytest.approx([0.198 / 0.918, 0.2])
    assert ef.solve(lawn, "MAP", do={"sprinkler": "on"}).states == {"rain": "no", "sprinkler": "on", "grass": "wet"}
    assert [r.marginals["rain"][1] for r in ef.solve([lawn, lawn], do={"grass": "wet"})] == pytest.approx([0.2, 0.2])
    assert lawn.do({"sprinkler": "on"}).parents("sprinkler") == ()
    noisy = BayesianNetwork(
        {"a": [0.5, 0.5], "b": ("a", ef.NoisyOr(0.1, [0.5])), "c": ("b", [[1, 0], [0, 1]])}, {"b": 2}
    )
    assert ef.solve(noisy, do={"b": 0}).marginals["a"] == pytest.approx([0.5, 0.5])


def test_wrong_actions_are_refused(lawn: BayesianNetwork) -> None:
    markov = FactorGraph([2, 2], [([0, 1], [[2.0, 1.0], [1.0, 2.0]])])
    with pytest.raises(ModelError, match=r"do acts on a Bayesian network, .* 1 factors for 2 variables"):
        ef.solve(markov, do={0: 1})
    with pytest.raises(ModelError, match="do acts on a Bayesian network without evidence"):
        ef.solve(lawn.condition({"grass": "wet"}), do={"rain": "no"})
    with pytest.raises(ModelError, match="already observed in state on"):
        ef.solve(lawn, do={"sprinkler": "on"}, evidence={"sprinkler": "off"})
    with pytest.raises(ModelError, match="Weights are evidence"):
        ef.solve(lawn, do={"sprinkler": [0.5, 0.5]})
    with pytest.raises(ModelError, match="no state 'onn'"):
        ef.solve(lawn, do={"sprinkler": "onn"})


def test_effects_are_named_and_shown(lawn: BayesianNetwork) -> None:
    effect = lawn.effect("sprinkler", "grass")
    assert effect.adjustment == ("rain",)
    assert effect.sets == (("rain",),)
    assert effect.difference("wet", "on", "off") == pytest.approx(0.918 - 0.16)
    assert str(effect).splitlines()[0] == "p(grass | do(sprinkler)), adjusted for rain"
    assert str(effect).splitlines()[-1] == "grass = wet: +0.758000 from sprinkler = off to on"
    upwards = lawn.effect("grass", "rain")
    assert not upwards.is_cause
    assert upwards.table[{"grass": "wet"}]["yes"] == pytest.approx(0.2)
    with pytest.raises(ModelError, match=r"no set of observed variables closes the path sprinkler <- rain -> grass"):
        lawn.effect("sprinkler", "grass", latent=["rain"])
    with pytest.raises(ModelError, match=r"sprinkler <- rain -> grass stays open. Adjust for rain"):
        lawn.effect("sprinkler", "grass", adjust=[])
    with pytest.raises(ModelError, match="Adjusting for grass distorts the effect"):
        lawn.effect("rain", "sprinkler", adjust=["grass"])
    with pytest.raises(ModelError, match="rain is latent"):
        lawn.effect("sprinkler", "grass", adjust=["rain"], latent=["rain"])
    flat = np.full((2, 2, 2), 0.5)
    bias = BayesianNetwork(
        {"a": [0.5, 0.5], "b": [0.5, 0.5], "z": (["a", "b"], flat), "x": ("a", flat[0]), "y": (["x", "b"], flat)}
    )
    with pytest.raises(ModelError, match=r"z \(given\) <- b -> y stays open. Adjust for nothing\."):
        bias.effect("x", "y", adjust=["z"])
    sure = BayesianNetwork({"z": [0.5, 0.5], "x": ("z", [[1, 0], [0, 1]]), "y": (["z", "x"], np.full((2, 2, 2), 0.5))})
    with pytest.raises(ModelError, match="x = 0 never occurs with z = 1"):
        sure.effect("x", "y")


def test_effects_of_many_causes_are_found_at_once() -> None:
    """After the empty set, the search went through all sets of the other 29 causes."""
    causes: dict = {f"c{k}": [0.9, 0.1] for k in range(30)}
    network = BayesianNetwork(causes | {"e": (list(causes), ef.NoisyOr(0.1, [0.5] * 30))}, {"e": 2})
    effect = network.effect("c0", "e")
    assert effect.sets == ((),)
    assert effect.difference(1, 1, 0) == pytest.approx(0.5 * 0.9 * 0.95**29)


def test_a_set_without_missing_strata_is_taken() -> None:
    """The cause copies its parent, so it never varies given the parent; but it does given the other variable."""
    network = ef.BayesianNetwork(
        {
            "a": [0.4, 0.6],
            "x": ("a", [[1.0, 0.0], [0.0, 1.0]]),
            "b": ("a", [[0.7, 0.3], [0.2, 0.8]]),
            "y": (["x", "b"], [[[0.9, 0.1], [0.5, 0.5]], [[0.3, 0.7], [0.2, 0.8]]]),
        }
    )
    effect = network.effect("x", "y")
    assert (effect.adjustment, effect.sets) == (("b",), (("a",), ("b",)))
    for x in (0, 1):
        np.testing.assert_allclose(effect.table.values[x], ef.solve(network, do={"x": x}).marginals["y"])
    with pytest.raises(ef.ModelError, match="never occurs with a = 1"):
        network.effect("x", "y", adjust=["a"])
