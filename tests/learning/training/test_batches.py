"""Filled compiled batches equal batches compiled one by one; every graph is used once per pass."""

from __future__ import annotations

import numpy as np
import torch

from equifactor import generators, solve
from equifactor.learning.training.batches import Dataset
from equifactor.solvers import compile

ISING = generators.ising_grid(3, 3, count=7, seed=0)
ASYMMETRIC = generators.asymmetric_grid(3, 3, count=5, seed=0)
RANDOM = generators.random_graph(5, 6, card=(2, 3), count=4, seed=2)
GRAPHS = [*ISING, *ASYMMETRIC, *RANDOM]


def dataset(graphs=GRAPHS) -> Dataset:
    targets = [solve(g, "MAR", "brute").marginals.values for g in graphs]
    return Dataset(graphs, targets, device="cpu", dtype="float64")


def test_every_graph_once_per_pass_and_the_same_order_for_the_same_seed() -> None:
    data = dataset()
    plans = data.plans(4, np.random.default_rng(1))
    assert sorted(np.concatenate([p.indices for p in plans]).tolist()) == list(range(len(GRAPHS)))
    again = data.plans(4, np.random.default_rng(1))
    assert [p.indices.tolist() for p in plans] == [p.indices.tolist() for p in again]
    assert [p.indices.tolist() for p in data.plans(4, np.random.default_rng(2))] != [p.indices.tolist() for p in plans]


def test_two_generators_of_one_structure_share_their_compiled_batches() -> None:
    data = dataset()
    assert len(data.stacks) == 1
    assert len(data.stacks[0].members) == len(ISING) + len(ASYMMETRIC)
    assert sum(p.compiled is not None for p in data.plans(4)) == 3


def test_a_batch_holds_the_potentials_and_targets_of_its_graphs() -> None:
    data = dataset()
    for plan in data.plans(4, np.random.default_rng(0)):
        batch = data.batch(plan)
        want = compile([GRAPHS[n] for n in plan.indices])
        np.testing.assert_array_equal(batch.flat.log_phi.numpy(), want.log_phi)
        np.testing.assert_array_equal(batch.flat.state_of_edge_state.numpy(), want.state_of_edge_state)
        np.testing.assert_array_equal(batch.target.numpy(), np.concatenate([data.targets[n] for n in plan.indices]))
        assert batch.weight.sum().item() == 1.0 or abs(batch.weight.sum().item() - 1.0) < 1e-12


def test_the_shares_of_two_processes_make_up_the_whole() -> None:
    data = Dataset(GRAPHS, dataset().targets, np.arange(1.0, len(GRAPHS) + 1), device="cpu", dtype="float64")
    plan = data.plans(4)[0]
    parts = [data.batch(plan, rank, 2) for rank in range(2)]
    assert sum(p.flat.num_graphs for p in parts) == len(plan.indices)
    whole = data.batch(plan).weight.sum().item()
    np.testing.assert_allclose(sum(p.weight.sum().item() for p in parts) / 2, whole)


def test_a_process_without_a_share_gets_a_batch_that_counts_nothing() -> None:
    data = dataset()
    plan = data.plans(1)[0]
    weights = [data.batch(plan, rank, 3).weight.tolist() for rank in range(3)]
    assert weights == [[3.0], [0.0], [0.0]]


def test_weights_count_between_structures_too() -> None:
    heavy = np.array([3.0] * len(ISING) + [1.0] * (len(GRAPHS) - len(ISING)))
    data = Dataset(GRAPHS, dataset().targets, heavy, device="cpu", dtype="float64")
    for plan in data.plans(4):  # A full batch holds one structure, and weights must not be normalised within it.
        np.testing.assert_allclose(
            data.batch(plan).weight.numpy(), heavy[plan.indices] / heavy.mean() / len(plan.indices)
        )


def test_graphs_with_zeros_keep_a_compiled_batch_safe() -> None:
    table = np.array(ISING[0].log_phi)
    table[-1] = -np.inf
    graphs = [*ISING, ISING[0].with_potentials(table, log=True)]
    data = dataset(graphs)
    (plan,) = data.plans(len(graphs))
    batch = data.batch(plan)
    assert batch.flat.has_zeros
    assert torch.isneginf(batch.flat.log_phi).sum() == 1


def test_large_graphs_come_in_smaller_batches() -> None:
    grid = generators.ising_grid
    graphs = [*grid(3, 3, count=12, seed=1), *grid(6, 6, count=6, seed=2), grid(2, 9, seed=3)]
    targets = [np.zeros(int(g.card.sum())) for g in graphs]
    states = [int(g.card[g.structure.scope_vars].sum()) for g in graphs]
    data = Dataset(graphs, targets, device="cpu", dtype="float64", batch_states=3 * max(states))
    for rng in (None, np.random.default_rng(0)):
        plans = data.plans(5, rng)
        assert sorted(n for p in plans for n in p.indices.tolist()) == list(range(len(graphs)))
        assert all(len(p.indices) <= 5 and sum(states[n] for n in p.indices) <= 3 * max(states) for p in plans)
        assert {len(p.indices) for p in plans if p.compiled} == {5, 3}
    alone = Dataset(graphs, targets, device="cpu", dtype="float64", batch_states=1)
    assert len(alone.plans(5)) == len(graphs)


def test_fixed_batches_repeat_their_structures_and_hold_every_graph() -> None:
    graphs = [*GRAPHS, *generators.random_graph(5, 6, card=2, zeros=0.4, count=3, seed=3)]
    targets = [solve(g, "MAR", "brute").marginals.values for g in graphs]
    data = Dataset(graphs, targets, np.arange(1.0, len(graphs) + 1), device="cpu", dtype="float64", fixed=True)
    for rng in (None, np.random.default_rng(0)):
        plans = data.plans(6, rng)
        assert {n for p in plans for n in p.indices.tolist()} == set(range(len(graphs)))
        for plan in plans:
            assert plan.compiled is not None
            batch = data.batch(plan)
            want = compile([graphs[n] for n in plan.indices])
            np.testing.assert_array_equal(batch.flat.log_phi.numpy(), want.log_phi)
            np.testing.assert_array_equal(batch.flat.state_of_edge_state.numpy(), want.state_of_edge_state)
            np.testing.assert_array_equal(batch.target.numpy(), np.concatenate([targets[n] for n in plan.indices]))
            np.testing.assert_allclose(batch.weight.numpy(), data.weights[plan.indices] / len(plan.indices))
            assert batch.flat.has_zeros == want.has_zeros
    again = data.plans(6, np.random.default_rng(1))
    assert {id(p.compiled) for p in again} == {id(p.compiled) for p in plans}


def test_fixed_batches_keep_within_their_states() -> None:
    small, large = generators.ising_grid(2, 2, count=30, seed=0), generators.ising_grid(6, 6, count=4, seed=0)
    graphs = [*small, *large]
    targets = [np.zeros(1)] * len(graphs)
    states = [int(g.structure.card[g.structure.scope_vars].sum()) for g in graphs]
    data = Dataset(graphs, targets, device="cpu", dtype="float64", batch_states=3 * max(states), fixed=True)
    plans = data.plans(20)
    assert max(sum(states[n] for n in p.indices) for p in plans) <= 3 * max(states)
    assert max(len(p.indices) for p in plans) > 4
    alone = Dataset(large, targets[:4], device="cpu", dtype="float64", batch_states=1, fixed=True)
    assert [len(p.indices) for p in alone.plans(20)] == [1] * 4
