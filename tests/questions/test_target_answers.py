"""`solve(graph, targets=[..])`: the marginals of some variables, from the part of the graph that they depend on."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor.questions.needed_part import needed_part

LAWN = ef.FactorGraph(
    {"season": ["dry", "rainy"], "rain": 2, "sprinkler": 2, "grass": ["dry", "wet"], "shoes": 2},
    [
        (["season"], [0.6, 0.4]),
        (["season", "rain"], [[0.9, 0.1], [0.3, 0.7]]),
        (["season", "sprinkler"], [[0.5, 0.5], [0.9, 0.1]]),
        (["rain", "sprinkler", "grass"], [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
        (["grass", "shoes"], [[0.9, 0.1], [0.2, 0.8]]),
    ],
)


@pytest.mark.parametrize("seed", range(12))
def test_marginals_and_log_z(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = seed % 2 == 0
    draw = ef.generators.random_network if network else ef.generators.random_graph
    graph = draw(12, seed=seed) if network else draw(12, 14, arity=(1, 3), seed=seed)
    free = graph.free_vars
    evidence = {int(i): 0 for i in rng.choice(free, rng.integers(0, 5), replace=False)}
    targets = rng.choice(12, 2, replace=False).tolist()
    expected = ef.solve(graph, "MAR", "exact", evidence=evidence)
    found = ef.solve(graph, "MAR", "exact", evidence=evidence, targets=targets)
    for i in targets:
        np.testing.assert_allclose(found.marginals[i], expected.marginals[i], atol=1e-12)
    if hasattr(found, "log_z"):
        assert found.log_z == pytest.approx(expected.log_z, abs=1e-9)


def test_barren_and_separated_variables_are_left_out() -> None:
    part = needed_part(LAWN, np.array([1]))
    assert part.variables.tolist() == [0, 1]
    assert part.log_left_out == pytest.approx(0.0, abs=1e-12)
    given = LAWN.condition({"rain": 1, "sprinkler": 0})
    assert needed_part(given, np.array([3])).variables.tolist() == [3]
    assert needed_part(given, np.array([0])).variables.tolist() == [0]


def test_a_result_of_targets() -> None:
    result = ef.solve(LAWN, targets=["rain"], evidence={"grass": "wet"})
    expected = ef.solve(LAWN, evidence={"grass": "wet"})
    np.testing.assert_allclose(result.marginals["rain"], expected.marginals["rain"])
    assert result.marginals["grass"].tolist() == [0.0, 1.0]
    assert result.log_z == pytest.approx(expected.log_z)
    assert "shoes" not in result.marginals
    assert [name for name, _ in result.marginals.items()] == ["season", "rain", "sprinkler", "grass"]
    assert "shoes" not in str(result.marginals)
    assert "shoes" not in result._repr_html_()
    with pytest.raises(ef.ModelError, match="Variable shoes is not among the targets"):
        result.marginals["shoes"]
    np.testing.assert_allclose(result.joint("shoes").values, expected.marginals["shoes"])
    assert result.to_dict()["marginals"][4] == []
    assert len(result.to_frame()) == 8
    alone = ef.solve(LAWN, targets=["shoes"], evidence={"grass": "wet", "season": "dry"})
    np.testing.assert_allclose(alone.marginals["shoes"], [0.2, 0.8])
    assert not hasattr(alone, "log_z")
    observed = ef.solve(LAWN, targets=["grass"], evidence={"grass": "wet"})
    assert observed.marginals["grass"].tolist() == [0.0, 1.0]


def test_targets_that_are_refused() -> None:
    with pytest.raises(ef.OptionError, match="targets= goes with the task MAR and one graph"):
        ef.solve(LAWN, "MAP", targets=["rain"])
    with pytest.raises(ef.OptionError, match="targets= goes with the task MAR and one graph"):
        ef.solve([LAWN, LAWN], targets=["rain"])
    with pytest.raises(ef.ModelError, match="Targets must be a list of variables"):
        ef.solve(LAWN, targets="rain")
