"""Joints, mutual information and evidence by name against pyAgrum."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef

gum = pytest.importorskip("pyagrum")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def joint_of_peer(graph: ef.FactorGraph, scope: list[int]) -> np.ndarray:
    from test_pyagrum import as_mrf

    names = [f"v{i}" for i in scope]
    engine = gum.ShaferShenoyMRFInference(as_mrf(graph))
    engine.addJointTarget(set(names))
    engine.makeInference()
    found = engine.jointPosterior(set(names))
    table = np.asarray(found.toarray())  # the first variable of pyAgrum is last here
    return table.transpose([list(reversed(found.names)).index(name) for name in names])


def test_joints_and_information_agree(model: ef.FactorGraph) -> None:
    result = ef.solve(model, "MAR", "exact")
    rng = np.random.default_rng(model.num_vars)
    for size in (2, 2, 3):
        scope = rng.permutation(model.num_vars)[:size].tolist()
        np.testing.assert_allclose(result.joint(*scope).values, joint_of_peer(model, scope), rtol=0, atol=1e-9)
    target, other = scope[:2]
    p = joint_of_peer(model, [target, other])
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.nansum(p * np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0))))
    assert result.mutual_information(target)[other] == pytest.approx(wanted, abs=1e-9)


def alarm() -> ef.FactorGraph:
    package: Any = find_spec("pgmpy")
    if package is None or package.origin is None:
        pytest.skip("pgmpy and its example models are not installed")
    return ef.read_graph(Path(package.origin).parent / "utils" / "example_models" / "alarm.bif.gz")


def test_evidence_on_alarm() -> None:
    graph = alarm()
    assert ef.solve(graph, evidence={"HISTORY": "TRUE"}).probability("LVFAILURE", "TRUE") == pytest.approx(
        0.8257, abs=1e-4
    )
    assert ef.solve(graph, evidence={"HISTORY": True}).probability("HISTORY", "TRUE") == 1.0  # as pandas reads TRUE
    for guess in (1, np.int64(0), "true"):
        with pytest.raises(ef.ModelError, match=r"variable HISTORY .*states are TRUE, FALSE"):
            ef.solve(graph, evidence={"HISTORY": guess})


def test_joints_on_alarm() -> None:
    graph = alarm().condition({"HR": "HIGH", "CO": "LOW"})
    scope = [graph.variable(name) for name in ("BP", "SAO2", "HISTORY")]
    joint = ef.solve(graph, "MAR", "exact").joint("BP", "SAO2", "HISTORY")
    np.testing.assert_allclose(joint.values, joint_of_peer(graph, scope), rtol=0, atol=1e-9)
