from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import ModelError
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import FactorGraph, FlatGraph, compile
from equifactor.graph.layout import layout_of
from equifactor.testing import contract_graphs

INDEX_ARRAYS = (
    "var_ptr", "var_of_state", "state_of_edge_state", "edge_of_edge_state", "var_of_edge",
    "factor_of_edge", "graph_of_var", "graph_of_factor", "factor_of_entry",
)  # fmt: skip


def draw(seed: int, evidence: bool = True) -> FactorGraph:
    rng = np.random.default_rng(seed)
    graph = random_graph(
        int(rng.integers(1, 7)), int(rng.integers(0, 9)), arity=(0, 1), card=(1, 3), zeros=0.2, seed=seed
    )
    if graph.num_vars > 3:
        graph = random_graph(graph.num_vars, 8, arity=(0, 4), card=(1, 3), zeros=0.2, seed=seed)
    if evidence and rng.random() < 0.5:
        seen = np.flatnonzero(rng.random(graph.num_vars) < 0.4)
        graph = graph.condition({int(i): int(rng.integers(graph.card[i])) for i in seen})
    return graph


def slow_arrays(graphs: list[FactorGraph]) -> dict[str, list]:
    """Return the same arrays from dictionaries, one variable, factor and entry at a time."""
    variables = [(g, i) for g, graph in enumerate(graphs) for i in graph.free_vars.tolist()]
    number = {key: n for n, key in enumerate(variables)}
    card = [int(graphs[g].card[i]) for g, i in variables]
    first_state = [sum(card[:n]) for n in range(len(card) + 1)]
    factors = [(g, a) for g, graph in enumerate(graphs) for a in range(graph.num_factors)]
    shape_of = {n: graphs[g].structure.shape(a) for n, (g, a) in enumerate(factors)}
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for n, shape in shape_of.items():
        groups.setdefault((len(shape), shape), []).append(n)

    out: dict[str, list] = {name: [] for name in (*INDEX_ARRAYS, "log_phi", "shapes")}
    out["var_ptr"] = first_state
    out["var_of_state"] = [n for n, d in enumerate(card) for _ in range(d)]
    out["graph_of_var"] = [g for g, _ in variables]
    out["graph_of_factor"] = [g for g, _ in factors]
    for (_, shape), members in sorted(groups.items()):
        out["shapes"].append(shape)
        for n in members:
            g, a = factors[n]
            values = graphs[g].log_table(a).ravel().tolist()
            out["log_phi"] += values
            out["factor_of_entry"] += [n] * len(values)
        for j in range(len(shape)):
            for n in members:
                g, a = factors[n]
                v = number[g, int(graphs[g].structure.scope(a)[j])]
                edge = len(out["var_of_edge"])
                out["var_of_edge"].append(v)
                out["factor_of_edge"].append(n)
                for x in range(shape[j]):
                    out["state_of_edge_state"].append(first_state[v] + x)
                    out["edge_of_edge_state"].append(edge)
    return out


def assert_matches(flat: FlatGraph, slow: dict[str, list]) -> None:
    for name in (*INDEX_ARRAYS, "log_phi"):
        np.testing.assert_array_equal(getattr(flat, name), np.array(slow[name]), err_msg=name)
    assert [g.shape for g in flat.groups] == slow["shapes"]


@given(seed=st.integers(0, 10_000))
def test_one_graph_against_dictionaries(seed: int) -> None:
    graph = draw(seed)
    assert_matches(compile(graph), slow_arrays([graph]))


@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_batches_against_dictionaries(seeds: list[int]) -> None:
    graphs = [draw(seed) for seed in seeds]
    assert_matches(compile(graphs), slow_arrays(graphs))


def test_runs_of_one_structure_equal_separate_structures() -> None:
    shared = ising_grid(2, 3, count=4)
    observed = [g.condition({0: i % 2, 3: 1}) for i, g in enumerate(shared)]
    separate = [FactorGraph(g.card, list(g.linear_factors())) for g in shared]
    assert len({id(g.structure) for g in shared}) == 1
    assert_matches(compile(shared), slow_arrays(shared))
    mixed = [*shared, *observed, separate[0], shared[1]]
    assert_matches(compile(mixed), slow_arrays(mixed))


@pytest.mark.parametrize("name", contract_graphs())
def test_groups_view_tables_and_messages(name: str) -> None:
    graph = contract_graphs()[name]
    flat = compile(graph)
    edge_states = np.arange(flat.num_edge_states)
    seen = []
    for group in flat.groups:
        table = group.table(flat.log_phi)
        assert table.shape == (group.num_factors, *group.shape)
        assert table.base is not None  # a view, not a copy
        channels = group.table(np.stack([flat.log_phi] * 2, axis=1))
        assert channels.shape == (group.num_factors, *group.shape, 2)
        for f, a in enumerate(group.factors):
            np.testing.assert_array_equal(table[f], graph.log_table(int(a)))
        for j, d in enumerate(group.shape):
            message = group.message(edge_states, j)
            assert message.shape == (group.num_factors, d)
            assert group.message(np.zeros((flat.num_edge_states, 3)), j).shape == (group.num_factors, d, 3)
            seen.append(message.ravel())
            edges = np.arange(flat.num_edges)[group.edges[j]]
            np.testing.assert_array_equal(flat.edge_of_edge_state[message], np.repeat(edges[:, None], d, axis=1))
            np.testing.assert_array_equal(flat.factor_of_edge[edges], group.factors)
    joined = np.concatenate(seen) if seen else np.zeros(0)
    np.testing.assert_array_equal(joined, edge_states)


@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_a_batch_is_the_concatenation_of_singles(seeds: list[int]) -> None:
    graphs = [draw(seed) for seed in seeds]
    flat, singles = compile(graphs), [compile(g) for g in graphs]
    for total in ("num_vars", "num_states", "num_factors", "num_edges", "num_edge_states", "num_entries"):
        assert getattr(flat, total) == sum(getattr(single, total) for single in singles)
    assert flat.num_graphs == len(graphs)
    assert flat.has_zeros == any(single.has_zeros for single in singles)
    for g, graph in enumerate(graphs):
        np.testing.assert_array_equal(flat.split(flat.log_phi, "entries")[g], graph.log_phi)
        card = np.diff(flat.var_ptr)
        np.testing.assert_array_equal(flat.split(card, "variables")[g], graph.card[graph.free_vars])
        assert len(flat.split(flat.var_of_state, "states")[g]) == singles[g].num_states
        assert len(flat.split(flat.graph_of_factor, "factors")[g]) == graph.num_factors


@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_answers_come_back_over_the_original_variables(seeds: list[int]) -> None:
    graphs = [draw(seed) for seed in seeds]
    flat = compile(graphs)
    rng = np.random.default_rng(seeds[0])
    states = rng.integers(np.diff(flat.var_ptr)) if flat.num_vars else np.zeros(0, int)
    one_hot = np.zeros(flat.num_states)
    one_hot[flat.var_ptr[:-1] + states] = 1.0

    assignments, marginals = flat.assignments(states), flat.marginals(one_hot)
    free = [assignments[g][graph.free_vars] for g, graph in enumerate(graphs)]
    np.testing.assert_array_equal(np.concatenate(free), states)
    for graph, x, m in zip(graphs, assignments, marginals, strict=True):
        assert [len(v) for v in m] == graph.card.tolist()
        assert [int(np.argmax(v)) for v in m] == x.tolist()
        assert m.values.sum() == graph.num_vars
        assert all(x[i] == state for i, state in graph.evidence.items())


def test_potentials_are_replaceable() -> None:
    graphs = [draw(seed) for seed in (1, 2, 3)]
    flat = compile(graphs)
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=len(g.log_phi)) for g in graphs]
    other = flat.with_log_phi(flat.pack(tables))
    again = compile([g.with_potentials(t, log=True) for g, t in zip(graphs, tables, strict=True)])
    np.testing.assert_array_equal(other.log_phi, again.log_phi)
    assert other.var_of_edge is flat.var_of_edge
    assert other.has_zeros is False
    for piece, table in zip(other.split(other.log_phi, "entries"), tables, strict=True):
        np.testing.assert_array_equal(piece, table)
    with pytest.raises(ModelError, match="log_phi needs shape"):
        flat.with_log_phi(np.zeros(3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_equals_numpy(dtype: str) -> None:
    flat = compile([draw(seed) for seed in range(6)])
    moved = flat.to(dtype=dtype)
    assert moved.log_phi.dtype is getattr(torch, dtype)
    np.testing.assert_array_equal(moved.log_phi.numpy(), flat.log_phi.astype(dtype))
    for name in INDEX_ARRAYS:
        tensor = getattr(moved, name)
        assert tensor.dtype is torch.int64
        np.testing.assert_array_equal(tensor.numpy(), getattr(flat, name))
    assert (moved.num_vars, moved.num_edges, moved.num_entries) == (
        flat.num_vars,
        flat.num_edges,
        flat.num_entries,
    )
    for group, same in zip(moved.groups, flat.groups, strict=True):
        assert (group.shape, group.entries, group.slots, group.edges) == (
            same.shape, same.entries, same.slots, same.edges
        )  # fmt: skip
        np.testing.assert_array_equal(group.factors.numpy(), same.factors)
    back = moved.to(dtype="float64")
    assert back.log_phi.dtype is torch.float64


def test_torch_potentials_keep_gradients_and_find_zeros() -> None:
    flat = compile([draw(seed, evidence=False) for seed in (1, 2)]).to()
    log_phi = torch.zeros(flat.num_entries, dtype=torch.float64, requires_grad=True)
    first, _ = flat.with_log_phi(log_phi).split(log_phi, "entries")
    first.sum().backward()
    assert log_phi.grad is not None
    assert log_phi.grad.sum() == len(first)

    finite = flat.with_log_phi(torch.zeros(flat.num_entries))
    assert finite.has_zeros is False
    hard = torch.zeros(flat.num_entries)
    hard[0] = -torch.inf
    assert finite.with_log_phi(hard).has_zeros is True


def test_arrays_are_frozen_and_graphs_kept() -> None:
    graph = ising_grid(2, 2)
    flat = compile(graph)
    assert flat.graphs == (graph,)
    for name in (*INDEX_ARRAYS, "log_phi", "entry_order"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(flat, name)[0] = 1
    with pytest.raises(AttributeError):
        flat.has_zeros = True  # type: ignore[misc]


def test_nothing_to_compile() -> None:
    with pytest.raises(ModelError, match="at least one graph"):
        compile([])
    empty = compile(FactorGraph([]))
    assert (empty.num_vars, empty.num_factors, empty.num_entries) == (0, 0, 0)
    assert len(empty.marginals(np.zeros(0))[0]) == 0
    assert empty.to().num_edge_states == 0


def test_repr() -> None:
    assert repr(compile(ising_grid(2, 2, count=3))) == (
        "FlatGraph(3 graphs, 12 free variables, 24 factors, 72 edge states, 2 table shapes)"
    )


def test_forty_thousand_factors() -> None:
    graph = random_graph(20_000, 40_000, arity=(1, 3), card=(2, 4), zeros=0.1, seed=3)
    flat = compile(graph)
    assert flat.num_factors == 40_000
    np.testing.assert_array_equal(flat.split(flat.log_phi, "entries")[0], graph.log_phi)


def test_the_layout_is_made_once_for_all_potentials_of_a_structure() -> None:
    flat = compile(random_graph(6, 8, arity=(1, 3), card=(2, 3), seed=1))
    layout = layout_of(flat)
    assert layout_of(flat) is layout
    assert layout_of(flat.with_log_phi(flat.log_phi + 1.0)) is layout
    assert layout_of(compile(flat.graphs)) is not layout
    with pytest.raises(ValueError, match="read-only"):
        layout.slots[0, 0] = 1
