"""Circuits against enumeration, and their files."""

import functools
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor import AtMost, Clause, FactorGraph, FormatError, ModelError, NoisyOr, OptionError, Parity, Status
from equifactor.answers import Circuit

GRAPH = FactorGraph(
    {"a": 2, "b": ["low", "mid", "high"], "c": 2, "d": 2, "e": 2},
    [
        (["a", "b"], [[1, 0, 2], [0.5, 0.5, 0]]),
        (["b", "c"], [[1, 1], [1, 3], [0, 1]]),
        (["a", "c", "d"], Clause([True, False, True])),
        (["c", "d", "e"], Parity()),
        (["e"], [0.3, 0.7]),
    ],
)


@functools.cache
def circuit() -> Circuit:
    """Return the circuit of `GRAPH`. Collecting the tests must not wait for its kernels to compile."""
    return ef.compile_circuit(GRAPH)


def random_evidence(graph: FactorGraph, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (count, graph.num_vars)
    return np.where(rng.random(shape) < 0.3, rng.integers(0, graph.card, shape), -1)


def mapping(row: np.ndarray) -> dict[int, int]:
    return {i: int(x) for i, x in enumerate(row) if x >= 0}


@pytest.mark.parametrize("graph", [GRAPH, GRAPH.condition({"c": 1}), FactorGraph([2, 3]), FactorGraph([])])
def test_answers_given_evidence_are_those_of_enumeration(graph: FactorGraph) -> None:
    circuit, rows = ef.compile_circuit(graph), random_evidence(graph, 40, seed=1)
    log_z, p = circuit.log_z(rows), circuit.marginals(rows)
    for n, row in enumerate(rows):
        clash = any(row[i] not in (-1, s) for i, s in graph.evidence.items())
        given = graph if clash else graph.condition(mapping(row))
        want = ef.solve(given, "MAR", "brute")
        if clash or want.status is Status.ZERO_PROBABILITY:
            assert log_z[n] == -np.inf
            assert not p[n].any() or not graph.num_vars
            with pytest.raises(ModelError, match="probability zero"):
                circuit.best(mapping(row))
            continue
        assert log_z[n] == pytest.approx(want.log_z, abs=1e-12)
        np.testing.assert_allclose(p[n], want.marginals.values, atol=1e-12)
        assignment, score = circuit.best(mapping(row))
        assert score == pytest.approx(ef.solve(given, "MAP", "brute").log_score, abs=1e-12)
        assert graph.log_score(assignment) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    "graph",
    [
        FactorGraph([2, 2], [([0, 1], AtMost(1)), ([1, 0], Clause([True, False]))]),  # no product has variable 0 = 1
        FactorGraph([3, 2], [([0], [0, 1, 0]), ([0, 1], [[1, 1], [0, 1], [1, 1]])]),  # no variable is left
    ],
)
def test_literals_that_the_circuit_does_not_have(graph: FactorGraph) -> None:
    circuit, want = ef.compile_circuit(graph), ef.solve(graph, "MAR", "brute").marginals.values
    rows = np.full((20, 2), -1)
    rows[3] = rows[5] = 1
    for _ in range(3):
        p = circuit.marginals(rows)
        np.testing.assert_allclose(p[[0, 1, 2, 4, *range(6, 20)]], np.tile(want, (18, 1)), atol=1e-12)
        np.testing.assert_array_equal(p[3], p[5])


def test_names_and_single_answers() -> None:
    assert circuit().log_z({"b": "high"}) == circuit().log_z([{"b": 2}])[0]
    assert circuit().marginals({"a": 1})["b"][2] == 0.0
    assert circuit().log_z() == pytest.approx(ef.solve(GRAPH, "PR", "brute").log_z)


def test_weights_too_small_for_linear_numbers() -> None:
    graph = FactorGraph([2] * 400, [([i, i + 1], [[1.0, 1e-9], [1e-9, 1.0]]) for i in range(399)])
    rows = np.full((3, 400), -1)
    rows[:2] = np.arange(400) % 2  # every pair differs
    rows[1, 1:] = -1
    circuit = ef.compile_circuit(graph)
    np.testing.assert_allclose(circuit.log_z(rows)[0], 399 * np.log(1e-9), rtol=1e-12)
    np.testing.assert_array_equal(circuit.marginals(rows)[0].reshape(-1, 2)[:, 1], np.arange(400) % 2)


def test_samples_have_the_marginals() -> None:
    for evidence in ({}, {"a": 0}):
        samples = circuit().sample(4000, evidence, seed=3)
        assert np.isfinite(GRAPH.log_score(samples)).all()
        p = circuit().marginals(evidence)
        for i, d in enumerate(GRAPH.card):
            found = np.bincount(samples[:, i], minlength=d) / len(samples)
            np.testing.assert_allclose(found, p[i], atol=0.05)
    np.testing.assert_array_equal(circuit().sample(5, seed=1), circuit().sample(5, seed=1))


def test_saved_circuits_come_back(tmp_path: Path) -> None:
    circuit().save(tmp_path / "a.safetensors")
    back, rows = Circuit.load(tmp_path / "a.safetensors"), random_evidence(GRAPH, 9, seed=2)
    np.testing.assert_array_equal(back.marginals(rows), circuit().marginals(rows))
    assert back.marginals({"b": "low"})["a"].tolist() == circuit().marginals({"b": "low"})["a"].tolist()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import load, save

    path = tmp_path / "a.safetensors"
    for content in (b"no circuit", (100_000).to_bytes(8, "little") + b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"expected a file that Circuit\.save wrote"):
            Circuit.load(path)
    circuit().save(path)
    data = path.read_bytes()
    header = {"equifactor.circuit": '{"variables": null, "states": null, "chance": false}'}
    for name, change in [("arena", 10**6), ("arena", -(10**6)), ("node_ptr", 3), ("state_literal", 99), ("card", 5)]:
        arrays = load(data)
        arrays[name] = arrays[name].copy()
        arrays[name][-1] = change
        path.write_bytes(save(arrays, header))
        with pytest.raises(FormatError, match="do not fit together"):
            Circuit.load(path)


def test_counts_of_any_size() -> None:
    assert ef.compile_circuit(FactorGraph([2] * 200, [([0, 1], Clause())])).count() == 3 * 2**198
    assert ef.compile_circuit(FactorGraph([3] * 50)).count() == 3**50
    with pytest.raises(ModelError, match="hide the count"):
        circuit().count()


def test_possible_assignments_are_counted_whatever_their_weights() -> None:
    for graph in (GRAPH, GRAPH.condition({"c": 1}), FactorGraph([2] * 3, [([0, 1, 2], Parity()), ([0], [2, 0])])):
        states = np.indices(graph.card).reshape(graph.num_vars, -1).T
        possible = states[[all(x[i] == s for i, s in graph.evidence.items()) for x in states]]
        assert ef.solvers.count_assignments(graph) == np.isfinite(graph.log_score(possible)).sum()
    assert ef.solvers.count_assignments(FactorGraph([2], [([0], [0, 0])])) == 0
    with pytest.raises(ModelError, match="noisy-or"):
        ef.solvers.count_assignments(FactorGraph([2] * 9, [(list(range(9)), NoisyOr(0.1, [0.5] * 8))]))


def test_projected_counts() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        card = rng.choice([2, 2, 3], 8)
        scopes = [rng.permutation(8)[:3].tolist() for _ in range(9)]
        graph = FactorGraph(card, [(scope, (rng.random(card[scope]) < 0.6) + 0.0) for scope in scopes])
        states = np.indices(card).reshape(8, -1).T
        possible = states[np.isfinite(graph.log_score(states))]
        for size in (0, 2, 5, 8):
            over = rng.permutation(8)[:size].tolist()
            assert ef.solvers.count_assignments(graph, over) == len({tuple(x) for x in possible[:, over].tolist()})


def test_what_circuits_refuse() -> None:
    with pytest.raises(ModelError, match="No assignment of the model is possible"):
        ef.compile_circuit(FactorGraph([2], [([0], [0, 0])]))
    with pytest.raises(ModelError, match=r"limit is 3\. estimate_circuit tells .* Raise max_nodes"):
        ef.compile_circuit(ef.generators.random_ksat(30, 2.0, seed=1), max_nodes=3)
    with pytest.raises(ModelError, match=r"not complete after .* Raise time_limit"):
        ef.compile_circuit(ef.generators.ising_grid(30, 30, seed=1), time_limit=0.05)
    with pytest.raises(ModelError, match="array of whole numbers"):
        circuit().log_z(np.zeros((2, 3), int))
    with pytest.raises(ModelError, match="out of range"):
        circuit().log_z(np.full((2, 5), 2))
    with pytest.raises(ModelError, match="one mapping"):
        circuit().sample(2, [{0: 1}])
    with pytest.raises(ModelError, match="observed states only"):
        circuit().log_z({"a": [0.2, 0.8]})
    parents = ef.compile_circuit(FactorGraph([2] * 9, [(list(range(9)), NoisyOr(0.1, [0.5] * 8))]))
    with pytest.raises(ModelError, match="Noisy-or"):
        parents.best()
    with pytest.raises(ModelError, match="Compile it with parameters=True"):
        circuit().gradient()


def test_solve_takes_a_circuit() -> None:
    rows = random_evidence(GRAPH, 30, seed=4)
    for task in ("MAR", "PR", "MAP"):
        found, want = ef.solve(circuit(), task, evidence=rows), ef.solve(GRAPH, task, "brute", evidence=rows)
        assert found.statuses == want.statuses
        if task == "MAP":
            np.testing.assert_allclose(found.log_scores, want.log_scores, atol=1e-12)
            possible = found.assignments[found.solved]
            np.testing.assert_allclose(GRAPH.log_score(possible), found.log_scores[found.solved], atol=1e-12)
        else:
            np.testing.assert_allclose(found.log_z, want.log_z, atol=1e-12)
    some = ef.solve(circuit(), evidence=[{"a": 0}, {"b": "high"}], targets=["b"])
    assert list(some.marginals) == ["b"]
    assert some.marginals["b"][1].tolist() == [0.0, 0.0, 1.0]
    assert ef.solve(circuit(), evidence={"a": 1}).marginals["b"] == pytest.approx(circuit().marginals({"a": 1})["b"])
    for refused in ({"solver": "bp"}, {"do": {"a": 1}}, {"task": "MMAP"}):
        with pytest.raises(OptionError, match="circuit"):
            ef.solve(circuit(), **refused)


def test_estimates_and_progress() -> None:
    graph, told = ef.generators.random_network(30, observed=0.0, seed=1), []
    circuit = ef.compile_circuit(graph, progress=lambda *report: told.append(report))
    assert told[-1][0] == circuit.num_nodes - 1  # without the root
    assert told[-1][2].endswith("nodes")
    estimate = ef.solvers.estimate_circuit(graph)
    assert circuit.num_nodes <= estimate.most_nodes < 1e4
    assert estimate.variables >= 30
    assert ef.solvers.estimate_circuit(ef.generators.ising_grid(30, 30, seed=1)).most_nodes > 1e9


def test_a_series_is_one_set_of_evidence() -> None:
    pandas = pytest.importorskip("pandas")
    answer = ef.solve(circuit(), evidence=pandas.Series({"a": 1, "b": "mid"}))
    assert answer.log_z == pytest.approx(ef.solve(GRAPH, "PR", evidence={"a": 1, "b": "mid"}).log_z)
    with pytest.raises(OptionError, match="seed must be"):
        circuit().sample(2, seed=-1)


def test_a_circuit_prints_its_size() -> None:
    assert str(circuit()) == f"Circuit(5 variables, {circuit().num_nodes} nodes, {circuit().num_edges} edges)"
