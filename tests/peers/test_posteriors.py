"""Posteriors of the 24 networks of the bnlearn repository against pyAgrum, its tables in double precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from benchmarks.networks import SETS, as_bayes_net, evidence_sets, model_folder, posteriors
from equifactor.graph.reading.observations import StateNumbers

gum = pytest.importorskip("pyagrum", reason="pyAgrum is not installed")
# A warning turned into an exception inside its C++ bindings ends the process.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

FOLDER = model_folder()
FILES: list[Path] = sorted(FOLDER.glob("*.bif.gz")) if FOLDER is not None else []
LIMIT = "exact(memory_limit=6)"  # GiB of tables; the whole process stays below 8 GiB


@pytest.mark.skipif(not FILES, reason="pgmpy 1.1.2, whose wheel carries the networks, is not installed")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
def test_posteriors_given_ten_random_sets_of_evidence(file: Path) -> None:
    graph = ef.read_graph(file)
    sets = evidence_sets(graph, SETS, seed=1)
    engine = gum.LazyPropagation(as_bayes_net(graph))
    states = np.full((SETS, graph.num_vars), -1)
    for row, evidence in zip(states, sets, strict=True):
        row[list(evidence)] = list(evidence.values())
    many = ef.solve(graph, "MAR", LIMIT, evidence=states)
    for b, evidence in enumerate(sets):
        theirs = np.concatenate(posteriors(engine, graph.num_vars, evidence))
        one = ef.solve(graph.condition(StateNumbers(evidence)), "MAR", LIMIT)
        assert one.status is ef.Status.EXACT, one.message
        assert one.marginals is not None
        np.testing.assert_allclose(one.marginals.values, theirs, rtol=0, atol=1e-9)
        assert many.statuses[b] is ef.Status.EXACT
        np.testing.assert_allclose(many.marginals.table[b], theirs, rtol=0, atol=1e-9)
