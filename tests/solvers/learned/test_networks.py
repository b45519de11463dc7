"""FE-NBP, FE-GNN and FE-Net: their starting weights, symmetries for any weights, batches, zeros, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from equifactor import FactorGraph, ModelError, OptionError, solve
from equifactor.factors.tensors import probabilities
from equifactor.generators import asymmetric_grid, ising_grid, pairwise_field, random_graph, random_tree
from equifactor.graph.reduction import without_impossible_states
from equifactor.learned import Network
from equifactor.solvers import compile
from equifactor.solvers.duals.map_bounds import map_upper_bound
from equifactor.solvers.learned.loop_corrections import loops_of
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.wiring import wire
from equifactor.symmetry import KINDS, Relabelling, relabel
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()
RAGGED = [random_graph(6, 7, arity=(1, 4), card=(2, 4), zeros=z, seed=s) for s, z in enumerate((0.0, 0.3, 0.5))]
RAGGED += [pairwise_field(9, topology="triangles", card=(2, 4), tables="full", coupling_std=2.0, seed=4)]  # with loops
RAGGED += [pairwise_field(6, topology="bipartite", card=(2, 3), tables="full", seed=5)]
BINARY = [random_graph(6, 7, arity=(1, 4), card=2, zeros=z, seed=s) for s, z in enumerate((0.0, 0.3, 0.5))]

FREE: list[tuple[str, dict[str, Any]]] = [
    ("fe-nbp", {}),
    ("fe-nbp", {"norm": True, "hidden": 8}),
    ("fe-nbp", {"alpha": "edge", "hidden": 8}),
    ("fe-nbp", {"bounded": False, "hidden": 8}),
    ("fe-nbp", {"features": "old+new", "hidden": 8}),
    ("fe-nbp", {"features": "variable+factor-max", "hidden": 8, "norm": True, "alpha": "edge"}),
    ("fe-nbp", {"context": True, "hidden": 8}),
    ("fe-nbp", {"context": True, "norm": True, "settle": 3.0, "steps": 2, "hidden": 8}),
    ("fe-net", {"channels": 8, "tables": 4, "hidden": 16}),
    ("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "settle": 3.0, "steps": 2}),
    ("fe-net", {"channels": 4, "tables": 0, "hidden": 8}),
    ("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "context": False}),
    ("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "temper": True}),
    ("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "temper": True, "loops": False}),
]
BOUND: list[tuple[str, dict[str, Any]]] = [
    ("fe-gnn", {}),
    ("fe-gnn", {"features": "bp", "settle": 3.0, "steps": 2}),
]
EVERY = [*((kind, settings, RAGGED) for kind, settings in FREE), *((kind, s, BINARY) for kind, s in BOUND)]
every = pytest.mark.parametrize(("kind", "settings", "graphs"), EVERY)
semirings = pytest.mark.parametrize("semiring", ["sum", "max"])


def drawn(kind: str, settings: dict[str, Any], std: float = 0.5) -> Network:
    """Return a network with every parameter drawn from N(0, std), in double precision."""
    network = build(kind, settings).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(std * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return network


def beliefs(network: Network, graphs: Any, semiring: Any = "sum", steps: int = 3) -> Tensor:
    flat = compile(graphs).to()
    with torch.no_grad():
        return probabilities(flat, network(flat, semiring, steps)[-1])


# ---- the start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
@pytest.mark.parametrize("task", ["MAR", "MAP"])
def test_untrained_is_damped_bp_to_rounding(kind: str, damping: float, task: str) -> None:
    graphs = [
        r.graph for r in without_impossible_states(list(GRAPHS.values())) if r is not None
    ]  # slices may close loops
    graphs = [g for g in graphs if kind != "fe-net" or loops_of(wire(compile(g).to(), "sum")) is None]
    assert len(graphs) > 5
    ours = solve(graphs, task, f"{kind}(untrained, damping={damping}, iterations=7, tolerance=0)")
    theirs = solve(graphs, task, f"bp(damping={damping}, iterations=7, tolerance=0)")
    for got, want in zip(ours, theirs, strict=True):
        if task == "MAP":
            assert got.upper_bound == pytest.approx(want.upper_bound, rel=1e-12, abs=1e-12), got.graph.name
        else:
            np.testing.assert_allclose(got.marginals.values, want.marginals.values, rtol=0, atol=1e-12)
            assert got.log_z == pytest.approx(want.log_z, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_untrained_max_beliefs_are_those_of_bp(kind: str) -> None:
    from equifactor.factors import tensors

    graphs = [r.graph for r in without_impossible_states(list(GRAPHS.values())) if r is not None]
    flat = compile(graphs).to()
    network = build(kind, {"damping": 0.5} | ({"loops": False} if kind == "fe-net" else {})).double()
    msg = tensors.first_messages(flat, "max")
    for _ in range(6):
        new = tensors.marginalize_tables(flat, tensors.sum_of_other_factors(flat, msg), "max")
        msg = tensors.damp(new, msg, 0.5)
    with torch.no_grad():
        got = network(flat, "max", 6)[-1]
    torch.testing.assert_close(got, tensors.variable_log_beliefs(flat, msg), rtol=1e-12, atol=1e-9)


# ---- symmetries -----------------------------------------------------------------------------------------


def breaks(network: Network, graphs: Sequence[FactorGraph], symmetry: Any, semiring: str) -> float:
    """Return the largest difference of a belief between relabelling before and after the network."""
    relabellings = [Relabelling.random(graph, symmetry, seed=n) for n, graph in enumerate(graphs)]
    others = [relabel(g, r) for g, r in zip(graphs, relabellings, strict=True)]
    before, after = (beliefs(network, batch, semiring).numpy() for batch in (others, graphs))
    place, first = [], 0
    for graph, other, r in zip(graphs, others, relabellings, strict=True):
        place.append(first + np.repeat(other.structure.state_ptr[r.variables], graph.card) + r.states)
        first += int(graph.card.sum())
    return float(np.abs(before[np.concatenate(place)] - after).max())


@every
@semirings
def test_claimed_symmetries_hold_for_any_weights(kind, settings, graphs, semiring) -> None:
    network = drawn(kind, settings)
    for symmetry in KINDS:
        if symmetry in network.symmetries:
            assert breaks(network, graphs, symmetry, semiring) < 1e-9, symmetry


@pytest.mark.parametrize(("kind", "settings"), BOUND)
def test_fe_gnn_depends_on_the_order_of_states(kind: str, settings: dict[str, Any]) -> None:
    assert breaks(drawn(kind, settings), BINARY, "variable assignment", "sum") > 1e-3


# ---- settling -------------------------------------------------------------------------------------------


SETTLING = [("fe-nbp", {"context": True, "hidden": 8}), ("fe-net", {"channels": 4, "tables": 2, "hidden": 8})]


@pytest.mark.parametrize(("kind", "settings"), [*SETTLING, ("fe-gnn", {})])
def test_settling_changes_nothing_in_the_first_t_steps(kind: str, settings: dict[str, Any]) -> None:
    free, settled = (drawn(kind, settings | {"steps": 4, "settle": p}) for p in (0.0, 3.0))
    graphs = BINARY if kind == "fe-gnn" else RAGGED
    torch.testing.assert_close(beliefs(settled, graphs, steps=4), beliefs(free, graphs, steps=4), rtol=0, atol=1e-12)
    assert (beliefs(settled, graphs, steps=6) - beliefs(free, graphs, steps=6)).abs().max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
@semirings
def test_settling_comes_to_rest_where_bp_runs_in_circles(kind: str, semiring: str) -> None:
    graph = ising_grid(4, 4, coupling_std=8.0, field_std=0.1, seed=2)  # frustrated, and undamped
    loops = {"loops": False} if kind == "fe-net" else {}

    def last_change(settle: float) -> float:
        network = build(kind, {"damping": 0.0, "steps": 5, "settle": settle} | loops).double()
        return float((beliefs(network, graph, semiring, 100) - beliefs(network, graph, semiring, 99)).abs().max())

    assert last_change(0.0) > 0.1
    assert last_change(3.0) < 1e-3


def test_hidden_vectors_go_a_share_of_their_way_too() -> None:
    network = drawn("fe-net", {"channels": 4, "tables": 2, "hidden": 8, "steps": 3, "settle": 2.0})
    with torch.no_grad():
        state = network.begin(compile(RAGGED).to(), "sum")
        for _ in range(5):
            state = network.step(state)
        settled = network.step(state).hidden[0]  # step 6 of T = 3
        network.settle = 0.0
        free = network.step(state).hidden[0]
    moved = free - state.hidden[0]
    assert moved.abs().max() > 1e-3
    torch.testing.assert_close(settled - state.hidden[0], 0.25 * moved)


def test_context_tells_steps_and_graphs_apart() -> None:
    network = drawn("fe-nbp", {"context": True, "norm": True, "hidden": 8})
    flat = compile([ising_grid(3, 3, coupling_std=c, seed=1) for c in (0.1, 5.0)]).to()
    wiring = wire(flat, "sum")
    old = wiring.uniform_messages()
    new = wiring.normalize(wiring.reduce(wiring.outgoing(old)))
    seen = torch.zeros(len(old), 5, dtype=torch.double)  # all tables are equal: only the context differs
    with torch.no_grad():
        alpha = [network.damping(wiring, seen, network.moved(wiring, old, new, torch.tensor(t))) for t in (1.0, 9.0)]
    weak = wiring.graph == 0
    assert (alpha[0] - alpha[1]).abs().min() > 1e-4
    assert float(alpha[0][weak].std()) < 1e-12
    assert abs(float(alpha[0][weak][0] - alpha[0][~weak][0])) > 1e-4


# ---- batches, zeros, other graphs -----------------------------------------------------------------------


@every
@semirings
def test_batch_of_different_graphs_equals_one_by_one(kind, settings, graphs, semiring) -> None:
    network = drawn(kind, settings)
    small = FactorGraph([2, 2], [([0], [1.0, 2.0]), ([], 3.0)])
    batch = [*graphs, small, ising_grid(3, 3, seed=1)]
    alone = torch.cat([beliefs(network, g, semiring) for g in batch])
    torch.testing.assert_close(beliefs(network, batch, semiring), alone, rtol=0, atol=1e-9)


@every
@semirings
def test_zeros_stay_and_bounds_hold(kind, settings, graphs, semiring) -> None:
    network = drawn(kind, settings)
    for graph in graphs:
        flat = compile(graph).to()
        with torch.no_grad():
            state = network.begin(flat, semiring)
            for _ in range(4):
                state = network.step(state)
            log_b = network.log_beliefs(state)
            bound = float(map_upper_bound(flat, state.wiring.messages(state.msg_fv)))
        possible = solve(graph, "MAR", "brute").marginals.values > 0
        assert not torch.isnan(log_b).any()
        assert not np.isneginf(log_b.numpy()[possible]).any()
        assert bound >= solve(graph, "MAP", "brute").log_score - 1e-9
    unary = FactorGraph([2, 2], [([0], [0.0, 2.0]), ([0, 1], [[1.0, 2.0], [3.0, 0.0]])])
    assert beliefs(network, unary, semiring)[0] == 0.0


@pytest.mark.slow
@every
def test_every_parameter_learns_and_no_gradient_is_nan(kind, settings, graphs) -> None:
    network = build(kind, settings, seed=0).double()
    flat = compile([*graphs, ising_grid(3, 3, seed=1)]).to()
    target = torch.rand(flat.num_states, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-2)
    for semiring in ("sum", "max", "sum"):  # Layers before a layer of zeros change from the second step on.
        loss = ((probabilities(flat, network(flat, semiring, 4)[-1]) - target) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()
        for p in network.parameters():
            assert p.grad is not None
            assert torch.isfinite(p.grad).all()
        optimiser.step()
    still = [n for n, p in network.named_parameters() if not (p.grad != 0).any()]
    # The same number for all states of a variable does not change probabilities: this bias has no gradient.
    assert set(still) <= ({"mlp3.4.bias"} if kind == "fe-net" else set())


def test_odd_graphs_run() -> None:
    nothing = FactorGraph([2, 3])
    observed = ising_grid(2, 2, seed=1).condition(dict.fromkeys(range(4), 0))
    for kind, settings in FREE:
        network = drawn(kind, settings)
        assert torch.allclose(beliefs(network, nothing), torch.tensor([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3]).double())
        assert beliefs(network, observed).shape == (0,)
    assert beliefs(drawn("fe-gnn", {}), observed).shape == (0,)


def test_isolated_variables_of_another_size_do_not_mix() -> None:
    """Cardinalities 2 and 4 beside 3 have the same number of states as if all were 3."""
    table = np.random.default_rng(0).uniform(0.1, 2.0, (3, 3))
    graph = FactorGraph([2, 3, 3, 4], [([1, 2], table)])
    got = beliefs(drawn("fe-net", {"channels": 4, "hidden": 8}), graph)
    assert torch.allclose(got[:2], torch.full((2,), 0.5).double())
    assert torch.allclose(got[-4:], torch.full((4,), 0.25).double())


def test_mixed_cardinalities_are_refused_in_one_sentence() -> None:
    mixed = random_tree(6, card=(2, 3), seed=1).renamed("mixed")
    with pytest.raises(ModelError, match="fe-gnn was made for variables of 2 states, and mixed has a variable of 3"):
        build("fe-gnn")(compile(mixed).to(dtype="float32"))


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (
            "fe-abc",
            {},
            "There is no kind of network named 'fe-abc'; did you mean fe-nbp. choose from: bpnn, fe-gnn, fe-nbp",
        ),
        ("fe-nbp", {"layers": 2}, "fe-nbp has no option 'layers'; choose from: steps, hidden"),
        ("fe-nbp", {"hidden": 0}, "fe-nbp: hidden must be at least 1"),
        ("fe-nbp", {"features": "old+young"}, "fe-nbp has no feature 'young'"),
    ],
)
def test_wrong_settings_are_named(kind: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("+", r"\+")):
        build(kind, settings)


def test_seed_gives_the_weights_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(5)
    a = build("fe-net", seed=1).state_dict()
    first = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(1))
    assert all(torch.equal(v, a[k]) for k, v in build("fe-net", seed=1).state_dict().items())


def test_messages_of_hard_constraints_are_held_above_the_floor_of_bp() -> None:
    from equifactor.factors.table_ranges import message_floor

    graph = FactorGraph([2, 2], [([0, 1], [[0.0, -300.0], [-np.inf, 5.0]])], log=True)
    flat = compile(graph)
    assert float(wire(flat.to(), "sum").floor) == message_floor(flat)


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-gnn", "fe-net"])
def test_the_scale_of_a_table_does_not_matter(kind: str) -> None:
    graph = asymmetric_grid(3, 3, seed=4)
    scaled = np.array(graph.log_phi)
    for a, factor in enumerate(graph.structure.table_ptr[:-1]):
        scaled[factor : graph.structure.table_ptr[a + 1]] += (-40.0, 1.0, 200.0)[a % 3]
    other = graph.with_potentials(scaled, log=True)
    network = drawn(kind, {})
    torch.testing.assert_close(beliefs(network, [graph]), beliefs(network, [other]), rtol=0, atol=1e-9)
