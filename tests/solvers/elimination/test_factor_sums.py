"""Marginals of factors by elimination against enumeration and against the torch engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from equifactor import solve
from equifactor.generators import random_graph
from equifactor.solvers.elimination.exact_batch import plan_structure
from equifactor.solvers.elimination.exact_batch_torch import TorchBatch
from equifactor.solvers.elimination.factor_sums import FactorSums


@pytest.mark.parametrize("seed", range(3))
def test_factor_marginals(seed: int) -> None:
    graph = random_graph(8, 12, arity=(0, 3), card=(1, 4), seed=seed)
    s = graph.structure
    rng = np.random.default_rng(seed)
    log_phi = rng.normal(size=(4, s.num_entries))
    log_phi[1:][rng.random((3, s.num_entries)) < 0.08] = -np.inf
    steps = plan_structure(graph)
    found = FactorSums(steps).run(log_phi)
    other = TorchBatch(steps).run(torch.from_numpy(log_phi.T.copy()), factors=True)
    for name, value in found._asdict().items():
        np.testing.assert_allclose(getattr(other, name).numpy().T, value, atol=1e-12, err_msg=name)
    assignments = np.array(list(itertools.product(*(range(d) for d in s.card))))
    for n in range(4):
        one = graph.with_potentials(log_phi[n], log=True)
        log_z = solve(one, "PR", "brute").log_z
        assert found.log_z[n] == pytest.approx(log_z)
        if log_z == -np.inf:
            assert not found.states[n].any()
            assert not found.entries[n].any()
            continue
        weight = np.exp(np.asarray(one.log_score(assignments)) - log_z)
        for a in range(s.num_factors):
            edges = slice(s.scope_ptr[a], s.scope_ptr[a + 1])
            entry = assignments[:, s.scope(a)] @ s.stride[edges]
            want = np.bincount(entry, weight, s.table_ptr[a + 1] - s.table_ptr[a])
            np.testing.assert_allclose(found.entries[n, s.table_ptr[a] : s.table_ptr[a + 1]], want, atol=1e-12)


def test_the_best_assignment() -> None:
    graph = random_graph(8, 12, arity=(0, 3), card=(1, 4), seed=5)
    log_phi = np.random.default_rng(5).normal(size=(6, graph.structure.num_entries))
    score, states = TorchBatch(plan_structure(graph)).best(torch.from_numpy(log_phi.T.copy()))
    for n in range(6):
        one = graph.with_potentials(log_phi[n], log=True)
        want = solve(one, "MAP", "brute").log_score
        assert score[n].item() == pytest.approx(want)
        assert one.log_score(states[:, n].numpy()) == pytest.approx(want)
