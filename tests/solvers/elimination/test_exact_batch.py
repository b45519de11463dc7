"""Many graphs of one structure against one graph at a time."""

import numpy as np
import pytest
import torch

from equifactor import solve
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, SolveError
from equifactor.base.status import Task
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import compile
from equifactor.solvers.elimination import exact
from equifactor.solvers.elimination import exact_batch as batch
from equifactor.solvers.elimination.exact_batch import batch_sums, exact_marginals, plan_structure
from equifactor.solvers.elimination.side_by_side import runs_together
from equifactor.solving.solver import SolveContext


def potentials(seed: int, zeros: float = 0.0):
    """Return 40 graphs of one structure, ragged, with some zeros."""
    base = random_graph(9, 14, arity=(0, 3), card=(2, 4), seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        table = rng.uniform(0.05, 2.0, base.structure.num_entries)
        yield base.with_potentials(np.where(rng.random(len(table)) < zeros, 0.0, table))


@pytest.mark.parametrize("zeros", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_batch_equals_single_runs(seed: int, zeros: float):
    graphs = list(potentials(seed, zeros))
    p, log_z = exact_marginals(graphs)
    for n, graph in enumerate(graphs):
        alone = solve(graph, "MAR", "brute")
        if not hasattr(alone, "marginals"):
            assert log_z[n] == -np.inf
            assert not p[n].any()
            continue
        assert log_z[n] == pytest.approx(alone.log_z, abs=1e-9)
        np.testing.assert_allclose(p[n], alone.marginals.values, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_graphs_side_by_side_equal_graphs_one_after_another(seed: int, monkeypatch: pytest.MonkeyPatch):
    """In NumPy, side by side. Three graphs have ranges that need the kernels, two of which have no assignment."""
    graphs = [*potentials(seed), *potentials(seed, 0.1)]
    s = graphs[0].structure
    impossible = np.full(s.num_entries, -np.inf)
    graphs += [graphs[0].with_potentials(t, log=True) for t in (500.0 * graphs[1].log_phi, impossible, impossible)]
    steps = plan_structure(graphs[0])
    assert runs_together(steps, len(graphs))
    got = next(batch_sums(graphs, steps))
    monkeypatch.setattr(batch, "runs_together", lambda *_: False)
    want = next(batch_sums(graphs, steps))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("zeros", [0.0, 0.15])
def test_torch_equals_numba(zeros: float):
    from equifactor.solvers.elimination.exact_batch_torch import TorchBatch

    graphs = list(potentials(7, zeros))
    steps = plan_structure(graphs[0])
    want_p, want_log_z = next(batch_sums(graphs, steps))
    p, log_z = TorchBatch(steps).sums(np.stack([g.log_phi for g in graphs]), "cpu", "float64")
    np.testing.assert_allclose(log_z, want_log_z, atol=1e-9)
    np.testing.assert_allclose(p, want_p, atol=1e-9)
    p, log_z = TorchBatch(steps).sums(np.stack([g.log_phi for g in graphs]), "cpu", "float64", marginals=False)
    np.testing.assert_allclose(log_z, want_log_z, atol=1e-9)
    assert p.shape == want_p.shape


def test_the_memory_of_a_gpu_is_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "check_device", lambda *_: None)
    monkeypatch.setattr(exact, "free_memory", lambda _: 40.0 * 2**30)
    for task, dtype, limit in (("MAR", "float64", 20.0), ("PR", "float64", 8.0), ("MAR", "float32", 40.0)):
        context = SolveContext(device="cuda", dtype=dtype)
        assert exact.Exact()._with_memory_of(Task(task), context).memory_limit == limit
        assert exact.Exact(memory_limit=50.0)._with_memory_of(Task(task), context).memory_limit == 50.0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_gpu_equals_cpu():
    graphs = ising_grid(4, 4, count=500, seed=4)
    for got, want in zip(exact_marginals(graphs, device="cuda"), exact_marginals(graphs), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-9)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    graphs = ising_grid(3, 3, count=25, seed=2)
    whole = exact_marginals(graphs)
    monkeypatch.setattr(batch, "_CHUNK_ENTRIES", 4 * len(graphs[0].log_phi))
    for a, b in zip(whole, exact_marginals(graphs), strict=True):
        assert np.array_equal(a, b)


def test_observed_states_may_differ():
    graphs = [g.condition({4: n % 2}) for n, g in enumerate(ising_grid(3, 3, count=6, seed=1))]
    shared = [type(g).trusted(graphs[0].structure, g.log_phi, g.observed) for g in graphs]
    p, _ = exact_marginals(shared)
    assert p.shape == (6, 16)
    expanded = compile(shared).marginals(p.ravel())
    for n, graph in enumerate(shared):
        np.testing.assert_allclose(expanded[n].values, solve(graph, "MAR", "brute").marginals.values, atol=1e-9)
    for got, graph in zip(solve(shared, "MAP", "exact"), shared, strict=True):
        assert got.log_score == pytest.approx(solve(graph, "MAP", "brute").log_score)


def test_different_structures_are_refused():
    with pytest.raises(ModelError, match="Graph 1 does not share"):
        exact_marginals([ising_grid(3, 3), ising_grid(3, 3)])
    with pytest.raises(ModelError, match="at least one"):
        exact_marginals([])


def test_a_structure_over_the_limit_is_refused():
    with pytest.raises(SolveError, match="Raise memory_limit"):
        exact_marginals(ising_grid(20, 20, count=2), memory_limit=0.001)


def test_the_deadline_ends_a_batch_early():
    graphs = ising_grid(3, 3, count=10)
    assert list(batch_sums(graphs, plan_structure(graphs[0]), clock=Clock(0.0))) == []


@pytest.mark.slow
def test_a_hundred_thousand_grids_take_seconds():
    graphs = ising_grid(4, 4, count=100_000, seed=1)
    clock = Clock()
    p, log_z = exact_marginals(graphs)
    assert clock.seconds < 60
    assert p.shape == (100_000, 32)
    assert np.isfinite(log_z).all()
