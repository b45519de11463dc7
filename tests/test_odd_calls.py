"""Public functions called with values of the wrong type, size or kind: each raises one sentence of this package."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.answers import Circuit
from equifactor.base.argument_types import checks_types
from equifactor.solving.plugins import load_file

GRAPH = ef.FactorGraph({"a": ["x", "y"], "b": 2}, [(["a"], [0.4, 0.6]), (["a", "b"], [[0.9, 0.1], [0.3, 0.7]])])
NETWORK = ef.BayesianNetwork({"a": [0.4, 0.6]})
RESULT = ef.solve(GRAPH, solver="brute")
MAP = ef.solve(GRAPH, "MAP", "brute")
CHECKS = [[1, 1, 0], [0, 1, 1]]
NAN, HUGE, RAGGED = float("nan"), 2**70, [[1, 2], [3]]
MODEL = ef.decoding.ErrorModel.of_matrices(CHECKS, 0.1, [[1, 0, 0]])
FLAT, IDENTITY = ef.solvers.compile(GRAPH), ef.symmetry.Relabelling.identity(GRAPH)
WEATHER = ef.DynamicNetwork({"a": [0.5, 0.5]}, {"a": ("a[t-1]", [[0.9, 0.1], [0.2, 0.8]])})
EDGE, TABLE, PARENTS = np.array([[0, 1]]), [[2.0, 1.0], [1.0, 2.0]], [f"p{n}" for n in range(40)]
TEAM = functools.partial(ef.decoding.DecoderTeam, [ef.decoding.Decoder(MODEL, "relay")])
GRID = ef.generators.ising_grid(1, 2)
LDPC = ef.generators.LdpcCode.of_edges([0, 1, 1, 2], [0, 0, 1, 1], 3)


@functools.cache
def circuit() -> Circuit:
    """Return the circuit of `GRAPH`. Collecting the tests must not wait for its kernels to compile."""
    return ef.compile_circuit(GRAPH)


class Raises:
    """An object of another package that raises when it is read."""

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise RuntimeError("not now")

    def __len__(self) -> int:
        raise RuntimeError("not now")

    def __repr__(self) -> str:
        raise RuntimeError("not now")


class Frame:
    """A data frame of one column and two rows, which iterates over the names of its columns."""

    ndim = 2

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        return np.array([[1], [2]])

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter(["x"])


CALLS: list[tuple[str, Callable[[], object]]] = [
    ("plan, task", lambda: ef.plan(GRAPH, task="bp")),
    ("plan, task of a list", lambda: ef.plan(GRAPH, task=[])),
    ("plan, work", lambda: ef.plan(GRAPH, most_work=None)),
    ("plan, seed", lambda: ef.plan(GRAPH, seed=-3)),
    ("cost of a task", lambda: ef.plan(GRAPH).cost_of(None)),
    ("excess over text", lambda: ef.plan(GRAPH).excess("1")),
    ("read_graph, path", lambda: ef.read_graph(None)),
    ("read_graph, format", lambda: ef.read_graph("a.uai", format=True)),
    ("write_graph, format", lambda: ef.write_graph(GRAPH, "a.uai", format=b"uai")),
    ("read_evidence, path", lambda: ef.read_evidence(b"a.evid", GRAPH)),
    ("read_evidence, graph", lambda: ef.read_evidence("a.evid", None)),
    ("evaluate, None", lambda: ef.evaluate([None], "MAR", "bp", "out")),
    ("evaluate, a name that is too long", lambda: ef.evaluate("x" * 5000, "MAR", "bp", "out")),
    ("evaluate, a zero byte", lambda: ef.evaluate("\0", "MAR", "bp", "out")),
    ("train, network", lambda: ef.train("fe-nbp", [GRAPH], network={"steps": 3})),
    ("train, weights", lambda: ef.train("fe-nbp", [GRAPH], weights="x")),
    ("train, data", lambda: ef.train("fe-nbp", np.array(3))),
    ("train, a name that is too long", lambda: ef.train("fe-nbp", "x" * 5000)),
    ("settings of a solver", lambda: ef.solvers.parse_solver("bp", True)),
    ("a setting that does not fit 64 bits", lambda: ef.solve(GRAPH, solver="gibbs", thin=HUGE)),
    ("a setting that is an array", lambda: ef.solve(GRAPH, solver="bp", schedule=np.zeros(2))),
    ("plot, variables", lambda: RESULT.plot(1.5)),
    ("plot, an array without axes", lambda: RESULT.plot(np.array(3))),
    ("joint, axis", lambda: RESULT.joint("a", "b").marginal(np.zeros(2))),
    ("joint, rows", lambda: RESULT.joint("a", "b").table(1.5)),
    ("factor marginals of MAP", lambda: MAP.factor_marginals),
    ("map_error, text", lambda: ef.metrics.map_error("", 1.0)),
    ("map_error, shapes", lambda: ef.metrics.map_error([1.0, 2.0], [1.0, 2.0, 3.0])),
    ("summarize, complex", lambda: ef.metrics.summarize(1j)),
    ("uai_score, rows", lambda: ef.metrics.uai_score(RAGGED, 1.0)),
    ("pooled_rmse, None", lambda: ef.metrics.pooled_rmse(None, [])),
    ("count", lambda: ef.FactorGraph([2], [([0], ef.Count(RAGGED))])),
    ("parity", lambda: ef.FactorGraph([2], [([0], ef.Parity(log_values=RAGGED))])),
    ("detectors", lambda: MODEL.with_detectors(None)),
    ("edges", lambda: ef.decoding.ErrorModel.of_edges((2, 1), [0.1], None, ([0], [0]))),
    ("edges out of range", lambda: ef.decoding.ErrorModel.of_edges((2, 1), [0.1], ([0], [5]), ([0], [0]))),
    ("sizes", lambda: ef.decoding.ErrorModel.of_edges("x", [0.1], ([0], [0]), ([0], [0]))),
    ("rate", lambda: ef.decoding.gaussian_channel(1.0, None)),
    ("shots", lambda: ef.decoding.Decoder(MODEL).logical_error_rate(HUGE)),
    ("seed of shots", lambda: ef.decoding.Decoder(MODEL).logical_error_rate(5, seed=1.5)),
    ("packed", lambda: ef.decoding.Decoder(MODEL).decode([[0, 1]], packed=np.zeros(2))),
    ("wrap", lambda: ef.generators.ising_grid(2, 2, wrap=np.zeros(2))),
    ("a time span", lambda: ef.generators.ising_grid(np.timedelta64(3), 2)),
    ("parents", lambda: ef.generators.random_network(5, parents=HUGE)),
    ("channel", lambda: ef.generators.ldpc_transmissions(6, 3, channel=3)),
    ("edges of a code", lambda: ef.generators.LdpcCode.of_edges(None, [0], 3)),
    ("words", lambda: list(ef.decoding.word_error_rates([[1]], []))),
    ("channels", lambda: list(ef.decoding.word_error_rates(LDPC, "x"))),
    ("a channel", lambda: list(ef.decoding.word_error_rates(LDPC, ["x"]))),
    ("message", lambda: LDPC.encode(RAGGED)),
    ("device", lambda: ef.decoding.Decoder(MODEL, device=np.zeros(0))),
    ("name of a code", lambda: ef.decoding.bicycle_code(None, 0.1)),
    ("sampled shots", lambda: ef.decoding.ShotSampler(MODEL, 0).sample(None, 3)),
    ("chosen variables", lambda: ef.metrics.kl(RESULT.marginals, RESULT.marginals, variables=[3])),
    ("vectors", lambda: ef.answers.Marginals.from_list("x")),
    ("compared solver", lambda: ef.compare(GRAPH, ["brute"])[None]),
    ("training log", lambda: ef.answers.TrainingLog.read("\0")),
    ("tables of a compiled graph", lambda: ef.solvers.compile(GRAPH).with_log_phi(None)),
    ("passes", lambda: ef.solvers.tighten(GRAPH, [0.0] * 6, None)),
    ("composed", lambda: ef.symmetry.Relabelling.identity(GRAPH).compose(None)),
    ("relabelled marginals", lambda: ef.symmetry.Relabelling.identity(GRAPH).marginals(None)),
    ("relabelled result", lambda: ef.symmetry.Relabelling.identity(GRAPH).result(None)),
    ("relabelling", lambda: ef.symmetry.Relabelling.from_dict(np.array(3))),
    ("seed of a relabelling", lambda: ef.symmetry.Relabelling.random(GRAPH, seed=-1)),
    ("names of collections", lambda: ef.data.collection_names(True)),
    ("grid of a plot", lambda: ef.plot.plot_grid(None, 1, 1, {})),
    ("marginals of a plot", lambda: ef.plot.plot_grid(ef.FactorGraph([2]), 1, 1, {"x": 3})),
    ("evaluate, processes", lambda: ef.evaluate([], "MAR", "bp", "out", processes=0)),
    ("evaluate, memory", lambda: ef.evaluate([], "MAR", "bp", "out", memory_limit=None)),
    ("evaluate, seed", lambda: ef.evaluate([], "MAR", "bp", "out", seed=NAN)),
    ("evaluate, progress", lambda: ef.evaluate([], "MAR", "bp", "out", progress=3)),
    ("evaluate, solvers", lambda: ef.evaluate([], "MAR", None, "out")),
    ("evaluate, folder", lambda: ef.evaluate([], "MAR", "bp", "\0")),
    ("write_graph, a zero byte", lambda: ef.write_graph(GRAPH, "a\0.uai")),
    ("plugin, a zero byte", lambda: load_file("a\0.py")),
    ("columns", lambda: ef.generators.ising_strip(2, HUGE)),
    ("cliques", lambda: ef.generators.glued_cliques(10**18, 3)),
    ("symmetries", lambda: ef.symmetry.audit("bp", GRAPH, None)),
    ("trials", lambda: ef.symmetry.audit("bp", GRAPH, trials=None)),
    ("tasks", lambda: ef.symmetry.audit("bp", GRAPH, tasks=True)),
    ("lower", lambda: ef.solvers.lower(None)),
    ("messages", lambda: ef.solvers.map_upper_bound(GRAPH, "")),
    ("clock", lambda: ef.solvers.improve(GRAPH, [0, 0], None)),
    ("collection", lambda: ef.data.collection(True)),
    ("name of a graph", lambda: GRAPH.renamed(np.zeros(0))),
    ("plan, first", lambda: ef.plan(GRAPH, first=np.zeros(0))),
    ("a number that no float holds", lambda: ef.plan(GRAPH, most_work=10**400)),
    ("a time limit that no float holds", lambda: ef.solve(GRAPH, time_limit=10**400)),
    ("half of a surrogate pair", lambda: ef.read_graph("\ud800.uai")),
    ("an object that raises", lambda: ef.FactorGraph([2, 2], [([0, 1], ef.Count(Raises()))])),
    ("an object without text", lambda: ef.FactorGraph([2, 2], [([0, 1], ef.AtMost(Raises()))])),
    ("data that raise", lambda: ef.fit(GRAPH, Raises())),
    ("nested rows of data", lambda: ef.fit(GRAPH, [([0], [1, "x"])])),
    ("evaluate, a number of solvers", lambda: ef.evaluate([], "MAR", 3, "out")),
    ("port", lambda: ef.open_view(GRAPH, port=[0])),
    ("a port out of range", lambda: ef.open_view(GRAPH, port=2**70)),
    ("codewords", lambda: ef.decoding.ErasureChannel().transmit("x", np.random.default_rng(0))),
    ("random numbers", lambda: ef.decoding.BinarySymmetricChannel().transmit([0, 1], 3)),
    ("received values", lambda: ef.generators.BurstyChannel().log_likelihood({})),
    ("received words", lambda: LDPC.graphs([[1j]], ef.generators.BurstyChannel())),
    ("a channel of graphs", lambda: LDPC.graphs([[0.0, 0.0, 0.0]], 3)),
    ("features", lambda: ef.decoding.MemoryNetwork.untrained(2)(np.zeros(3))),
    ("hidden units", lambda: ef.decoding.MemoryNetwork.untrained(-1)),
    ("weights for decoding", lambda: ef.decoding.MemoryNetwork.load("y" * 5000)),
    ("detectors of a model", lambda: dataclasses.replace(MODEL, detectors=np.array([99] * 4))),
    ("starts of a model", lambda: dataclasses.replace(MODEL, detector_ptr=[0, 9])),
    ("words of a rate", lambda: ef.decoding.WordErrors(None, "x", 3, "4", 1, 1)),
    ("shots of a rate", lambda: ef.decoding.LogicalErrorRate(10, 1, None)),
    ("path of an instance", lambda: ef.data.Instance("c", "n", 3)),
    ("a downloaded collection", lambda: ef.data.download("out", [3])),
    ("a source of models", lambda: ef.data.download("out", ["MAR"], source="/nowhere/{path}")),
    ("a clock", lambda: ef.solvers.Clock("x")),
    ("share of a clock", lambda: ef.solvers.Clock(1.0).part("x")),
    ("phases", lambda: ef.solvers.improve(GRAPH, [0, 0], ef.solvers.Clock(1.0), phases="x")),
    ("compiled kinds", lambda: ef.solvers.lower(GRAPH, keep_compiled=np.zeros(0))),
    ("axis", lambda: ef.solvers.compile(GRAPH).split(np.zeros(4), "rows")),
    ("rows of an axis", lambda: ef.solvers.compile(GRAPH).marginals([0.5])),
    ("packed tables", lambda: ef.solvers.compile(GRAPH).pack([])),
    ("a graph of a batch", lambda: ef.solvers.compile(GRAPH).marginals_of(np.zeros(4), 1)),
    ("graphs of a batch", lambda: ef.solvers.compile(GRAPH).edge_states_of([3])),
    ("numbers of a relabelling", lambda: dataclasses.replace(IDENTITY, variables="x")),
    ("starts of a relabelling", lambda: dataclasses.replace(IDENTITY, state_ptr=3)),
    ("relabelled graph", lambda: ef.symmetry.Relabelling.identity(3)),
    ("relabelled messages", lambda: IDENTITY.messages([0.0], FLAT, FLAT)),
    ("relabelled assignment", lambda: IDENTITY.assignment(Raises())),
    ("reference of a picture", lambda: ef.plot.plot_grid(GRID, 1, 2, {"a": RESULT.marginals}, reference="b")),
    ("records", lambda: ef.answers.TrainingLog([{"loss": 1.0}])),
    ("a device", lambda: ef.answers.TrainingLog.read("/dev/zero")),
    ("a field of a result", lambda: dataclasses.replace(RESULT, seconds="x")),
    ("an answer of a result", lambda: dataclasses.replace(RESULT, log_z=[1.0])),
    ("marginals", lambda: ef.answers.Marginals(None, [0])),
    ("tolerance that no float holds", lambda: ef.symmetry.isomorphism(GRAPH, GRAPH, 10**400)),
    ("a number without text", lambda: ef.generators.ising_grid(Raises(), 2)),
    ("a spread that no array holds", lambda: ef.generators.ldpc(6, 3, burst_std=2**70)),
    ("an array of channels", lambda: list(ef.decoding.word_error_rates(LDPC, np.array(None)))),
    ("detectors beyond memory", lambda: dataclasses.replace(MODEL, num_detectors=10**400)),
    ("a memory that is not a number", lambda: ef.plan(GRAPH).excess(NAN)),
    ("messages that no float holds", lambda: ef.solvers.map_upper_bound(GRAPH, 10**400)),
    ("the sum over graphs", lambda: FLAT.sum_per_graph(True, [1.0])),
    ("rows of values", lambda: FLAT.marginals(RAGGED)),
    ("starts of marginals", lambda: ef.answers.Marginals([0.5], 3)),
    ("curves", lambda: ef.plot.plot_error_rates({"x": 1})),
    ("states of a network", lambda: ef.BayesianNetwork({"a": [0.3, 0.7]}, states=1.0)),
    ("states of a network, a Series", lambda: ef.BayesianNetwork({"a": [0.3, 0.7]}, states=np.array([0, 1]))),
    ("separation, a foreign object", lambda: NETWORK.d_separated(Raises(), "a")),
    ("circuit, path", lambda: circuit().load(1.0)),
    ("circuit, path of d-DNNF", lambda: circuit().read_nnf([])),
    ("circuit, nodes", lambda: ef.compile_circuit(GRAPH, max_nodes=[])),
    ("circuit, memory", lambda: ef.compile_circuit(GRAPH, memory_limit=NAN)),
    ("circuit, samples", lambda: circuit().sample({"a": 1})),
    ("circuit, too many samples", lambda: circuit().sample(HUGE)),
    ("findings, graph", lambda: ef.findings(None, "a", evidence={"b": 0})),
    ("most_informative, graph", lambda: ef.most_informative(None, "a")),
    ("most_informative, many sets", lambda: ef.most_informative(GRAPH, "a", evidence=[])),
    ("a team, None", lambda: ef.decoding.DecoderTeam(None)),
    ("a team, take", lambda: TEAM(take=np.zeros(0))),
    ("a team, iterations", lambda: TEAM(iterations="x")),
    ("a team, doubt", lambda: TEAM(doubt=NAN)),
    ("post-selection, gap", lambda: ef.decoding.PostSelection.of_shots("x", [True])),
    ("post-selection, counts", lambda: ef.decoding.PostSelection.of_counts([1.0], [NAN], [0])),
    ("shots beyond memory", lambda: ef.decoding.Decoder(MODEL).logical_error_rate(2**31)),
    ("sampled shots beyond memory", lambda: ef.decoding.ShotSampler(MODEL, 0).sample(0, 2**32)),
    ("a column of a frame", lambda: WEATHER.filter({"a": Frame()})),
    ("a column of a foreign object", lambda: WEATHER.filter({"a": Raises()})),
    ("the slice before", lambda: WEATHER.after({})),
    ("arrows, names of states", lambda: ef.BayesianNetwork([("a", "b")], {1: 2})),
    ("arrows, ends", lambda: ef.BayesianNetwork([([], "b")], {"b": 2})),
    ("arrows, number of states", lambda: ef.BayesianNetwork([("a", "b")], {"a": -1, "b": 2})),
    ("arrows, no states", lambda: ef.BayesianNetwork([("a", "b")], {"a": np.zeros(0), "b": 2})),
    ("arrows, many states", lambda: ef.BayesianNetwork([("a", "b")], {"a": 2**31 - 1, "b": 2})),
    ("arrows, parents", lambda: ef.BayesianNetwork([(n, "b") for n in PARENTS], dict.fromkeys(["b", *PARENTS], 2))),
    ("plates, states", lambda: ef.BayesianNetwork({"a[c]": [0.5, 0.5]}, True, plates={"c": 2})),
    ("plates, a time span", lambda: ef.BayesianNetwork({"a[c]": [0.5, 0.5]}, plates={"c": np.timedelta64(3)})),
    ("a large model, edges", lambda: ef.large.solve(Raises(), TABLE)),
    ("a large model, table", lambda: ef.large.solve(EDGE, 10**400)),
    ("a large model, bits", lambda: ef.large.solve(EDGE, TABLE, bits=np.zeros(0))),
    ("a large model, device", lambda: ef.large.solve(EDGE, TABLE, device=np.zeros(0))),
    ("a large model, checkpoint", lambda: ef.large.solve(EDGE, TABLE, checkpoint="\0")),
    ("a large model, output", lambda: ef.large.solve(EDGE, TABLE, iterations=0).save(None)),
    ("a large model, a long name", lambda: ef.large.solve(EDGE, TABLE, iterations=0).save("x" * 400 + ".npy")),
    ("weights of a network", lambda: ef.solve(GRAPH, solver="fe-net", weights="y" * 400)),
    ("targets, a foreign object", lambda: ef.solve(GRAPH, evidence=[{}], targets=Raises())),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_an_odd_call_is_one_sentence(call: Callable[[], object]) -> None:
    if call in (CALLS[-1][1], *(c for n, c in CALLS if n.startswith("plot"))):
        pytest.importorskip("matplotlib")
    with pytest.raises(ef.EquifactorError) as error:
        call()
    assert 10 < len(str(error.value)) < 1600


def _zeros(*shape: int) -> list[Any]:
    return [__import__("torch").zeros(*shape)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ef.ChainCRF(HUGE),
        lambda: ef.ChainCRF(True),
        lambda: ef.CRF.pairs(2, [(0, 1)], 2).log_z(None, np.zeros((1, 2, 2))),
        lambda: ef.CRF.pairs(2, [], 2)(*_zeros(2, 2), states=None),
        lambda: ef.CRF.pairs(2, [], 2)(*_zeros(3, 2, 2), states=_zeros(4, 2)[0].long()),
        lambda: ef.ChainCRF(2).k_best(*_zeros(1, 3, 2), HUGE),
        lambda: ef.train("fe-nbp", [GRAPH] * 4, start="y" * 5000),
        lambda: ef.train("fe-nbp", [GRAPH] * 4, seed=-1),
        lambda: ef.decoding.train_memories(MODEL),
        lambda: ef.ChainCRF(3, boundaries=np.zeros(2)),
        lambda: ef.CRF.grid(None, 2, 2),
        lambda: ef.CRF.grid(2, 2, -1),
        lambda: ef.CRF.pairs(2, None, 2),
        lambda: ef.CRF(GRAPH, memory_limit=None),
        lambda: ef.learned.load_model(None),
        lambda: ef.learned.save_model("x.safetensors", None, None),
        lambda: ef.learned.ModelCard.of(None, "MAR"),
        lambda: ef.learned.ModelCard.from_json(3, "a file"),
        lambda: ef.learned.Replay(None, None),
        lambda: ef.learned.log_scores(None, _zeros(2)[0]),
        lambda: ef.learned.EvidenceSets(GRAPH, observe=object()),
        lambda: ef.learned.TrainingSettings().learning_rate("x", 3),
        lambda: ef.learned.NeuralBP(damping=3),
        lambda: ef.CRF.grid(2, 2, 2, image=np.zeros(0)),
        lambda: ef.ChainCRF(2).log_z(_zeros(1, 3, 2)[0].to_sparse()),
        lambda: ef.CRF.pairs(2, [], 2).log_z(_zeros(2, 2)[0].to_sparse()),
    ],
)
def test_an_odd_call_of_what_needs_torch(call: Callable[[], object]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ef.EquifactorError):
        call()


def test_a_task_may_be_text() -> None:
    plan = ef.plan(GRAPH, task="MAP")
    assert plan.cost == ef.plan(GRAPH, task=ef.Task.MAP).cost


def test_a_graph_is_not_a_code() -> None:
    with pytest.raises(ef.OptionError, match=r"A code must be a check matrix, .* found FactorGraph"):
        ef.decoding.Decoder(GRAPH, "relay")


def test_a_missing_answer_is_a_missing_attribute() -> None:
    assert not hasattr(MAP, "factor_marginals")
    assert hasattr(RESULT, "factor_marginals")


@checks_types("count", "share", "wrap")
def _example(
    count: int, share: float | None = None, names: list[str] | None = None, data: dict[str, Any] | None = None,
    wrap: bool = False,
) -> int:  # fmt: skip
    return count


def test_arguments_are_checked_by_their_type_hints() -> None:
    assert _example(np.int8(3), share=2, wrap=np.True_) == 3
    assert _example(3, names=5) == 3  # the decorator does not name it
    for call, text in (
        (lambda: _example(True), r"_example: count must be a whole number, found True\."),
        (lambda: _example(1, "x"), r"share must be a number or None, found 'x'\."),
        (lambda: _example(1, wrap="no"), r"wrap must be True or False, found 'no'\."),
    ):
        with pytest.raises(ef.OptionError, match=text):
            call()
    with pytest.raises(TypeError, match="unexpected keyword"):
        _example(1, other=2)
