"""Networks as solvers: the contract untrained and trained, weights, text forms, tasks, bounds, limits."""

from __future__ import annotations

import itertools
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_contract import GRAPHS, check_batch, check_contract

from equifactor import AtMost, FactorGraph, FormatError, ModelError, OptionError, Parity, Potts, Status, Task, solve
from equifactor.base.clock import Clock
from equifactor.base.status import PLAIN_TASKS
from equifactor.generators import asymmetric_grid, ising_grid
from equifactor.solvers import parse_solver
from equifactor.solvers.learned import model_card
from equifactor.solvers.learned.learned_solver import NeuralSolver, weights_file
from equifactor.solvers.learned.network import build, network_kinds
from equifactor.solving.registry import solver_class, solver_names
from equifactor.symmetry import equivariance_error

KINDS = [n for n in solver_names() if issubclass(solver_class(n), NeuralSolver)]


@pytest.fixture(scope="module")
def oracle():
    return {(name, task): solve(g, task, "brute") for name, g in GRAPHS.items() for task in PLAIN_TASKS}


# ---- the contract ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("spec", ["fe-nbp(untrained)", "fe-net(untrained)", "fe-gnn(untrained)"])
def test_untrained_keeps_the_contract(spec: str, graph_name: str, oracle) -> None:
    for task in parse_solver(spec).tasks:
        check_contract(spec, task, GRAPHS[graph_name], oracle[graph_name, task])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net", "fe-gnn"])
def test_random_weights_keep_the_contract(kind: str, oracle, tmp_path: Path, write_model) -> None:
    for task in (Task.MAR, Task.MAP):
        spec = write_model(tmp_path / f"{task}.safetensors", kind, task)
        for name, graph in GRAPHS.items():
            if not parse_solver(spec).takes or set(graph.card.tolist()) == {2}:
                check_contract(spec, task, graph, oracle[name, task])
        check_batch(parse_solver(spec), task)


def test_solvers_declare_what_their_networks_do() -> None:
    assert set(KINDS) == set(network_kinds())
    for kind, network in network_kinds().items():
        cls = solver_class(kind)
        assert (cls.network_class, network.solver_class) == (network, cls)
        assert build(kind).symmetries == cls.symmetries, kind
        assert (build(kind).kind, network.config_class.name) == (kind, kind)


@pytest.mark.parametrize("kind", ["ggnn", "fgnn"])
def test_settings_of_a_model_file_add_to_its_symmetries(kind: str, tmp_path: Path, write_model) -> None:
    plain = write_model(tmp_path / "plain.safetensors", kind)
    oriented = write_model(tmp_path / "oriented.safetensors", kind, orient=True)
    graph = asymmetric_grid(2, 3, seed=1)
    assert parse_solver(plain).symmetries == {"global"}
    assert parse_solver(oriented).symmetries == {"global", "local variable"}
    assert equivariance_error(plain, graph)["local variable"] > 1e-3
    assert equivariance_error(oriented, graph)["local variable"] < 1e-10


def test_listing_solvers_imports_no_numba() -> None:
    code = (
        "import sys, equifactor.cli as c; c.main(['solvers']); c.main(['solvers', 'fe-net']);"
        "print(sorted({'numba', 'matplotlib'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fe-nbp" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


# ---- which weights --------------------------------------------------------------------------------------


def test_a_model_card_is_read_once_per_solve(tmp_path: Path, write_model, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.safetensors")
    read, reads = model_card.read_card, []
    monkeypatch.setattr(model_card, "read_card", lambda where: reads.append(where) or read(where))
    assert solve(GRAPHS["loop"], "MAR", path).marginals is not None
    assert reads == [path]
    write_model(path, seed=2)  # A file that changed is read again.
    assert solve(GRAPHS["loop"], "MAR", path).marginals is not None
    assert reads == [path, path]


def test_model_file_as_solver(tmp_path: Path, write_model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("m.safetensors", "fe-net", steps=4)
    solver = parse_solver("m.safetensors")
    assert str(solver) == "fe-net(weights=m.safetensors)"
    assert parse_solver(str(solver)) == solver
    got = solve(GRAPHS["loop"], "MAR", "m.safetensors")
    assert got.iterations == 4
    assert got.status is Status.ITERATION_LIMIT
    assert got.message == "The network ran the 4 steps that it is made for."
    assert solve(GRAPHS["loop"], "MAR", got.solver).log_z == got.log_z
    longer = solve(GRAPHS["loop"], "PR", "m.safetensors(iterations=9)")
    assert longer.iterations == 9
    assert "it is made for 4" in longer.message


@pytest.mark.parametrize(
    "name", ["a b.safetensors", "a,b.safetensors", "a(1).safetensors", "it's, (new) = x.safetensors", "1=2.safetensors"]
)
def test_odd_file_names(name: str, tmp_path: Path, write_model, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models(old), 2"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_model(name, hidden=4)
    for spec in (name, f"{name}(iterations=3)", str(folder / name), f"{folder / name}(iterations=3)"):
        solver = parse_solver(spec)
        assert solver.weights is not None
        assert Path(solver.weights).name == name
        assert parse_solver(str(solver)) == solver
        assert solver.iterations == (3 if spec.endswith(")") else 0)
        assert solve(GRAPHS["loop"], "MAR", spec).marginals is not None


def test_name_with_both_quotes_is_refused(tmp_path: Path, write_model) -> None:
    path = write_model(tmp_path / "a'b\"c.safetensors", hidden=4)
    with pytest.raises(OptionError, match="both kinds of quotes"):
        parse_solver(path)


def test_mistakes_are_one_sentence(tmp_path: Path, write_model) -> None:
    mar = write_model(tmp_path / "mar.safetensors", hidden=4)
    loop = GRAPHS["loop"]
    for task, spec, kind, words in (
        ("MAP", mar, OptionError, "was trained for MAR and cannot do MAP. Train a network for MAP"),
        ("MAR", f"fe-net(weights={mar})", OptionError, f"fe-net: {mar} holds a network of the kind fe-nbp"),
        ("MAR", f"fe-nbp(weights={mar}, untrained)", OptionError, "exclude each other"),
        (
            "MAR",
            f"fe-nbp(weights={mar}, damping=0.3)",
            OptionError,
            "damping has an effect only together with untrained",
        ),
        ("MAR", f"{mar}(weights=x)", OptionError, "is given weights twice"),
        ("MAR", f"{mar}(speed=9)", OptionError, "fe-nbp has no option 'speed'"),
        ("MAR", str(tmp_path / "no.safetensors"), FormatError, "there is no such file"),
        ("PR", "fe-gnn(untrained)", OptionError, "fe-gnn cannot do PR. It does MAR, MAP"),
    ):
        with pytest.raises(kind) as error:
            solve([], task, spec)
        assert words in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(OptionError, match="Cannot read the solver"):
        solve(loop, "MAR", "a/b.pt")


def test_unknown_kind_is_one_sentence(tmp_path: Path, write_model) -> None:
    path = Path(write_model(tmp_path / "m.safetensors", hidden=4))
    path.write_bytes(path.read_bytes().replace(b"fe-nbp", b"fe-xyz"))
    with pytest.raises(FormatError, match="holds a model of the kind 'fe-xyz', made by equifactor"):
        parse_solver(str(path))


def test_no_shipped_weights_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.solvers.learned.learned_solver.WEIGHTS", tmp_path)
    assert "equifactor train fe-gnn --task MAR" in (solver_class("fe-gnn").missing() or "")
    with pytest.raises(OptionError, match=r"no weights of fe-gnn for MAP\. .* or use fe-gnn\(untrained\)"):
        solve(GRAPHS["loop"], "MAP", "fe-gnn")


def test_shipped_weights_are_found_by_task(tmp_path: Path, write_model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.solvers.learned.learned_solver.WEIGHTS", tmp_path)
    write_model(tmp_path / "fe-nbp-mar.safetensors", hidden=4, steps=3)
    write_model(tmp_path / "fe-nbp-map.safetensors", hidden=4, task="MAP", steps=5)
    assert solver_class("fe-nbp").missing() is None
    assert [solve(GRAPHS["loop"], t, "fe-nbp").iterations for t in ("MAR", "PR")] == [3, 3]
    assert solve(GRAPHS["loop"], "MAP", "fe-nbp(alone)").iterations == 5


def test_file_trained_anew_is_read_anew(tmp_path: Path, write_model) -> None:
    path = write_model(tmp_path / "m.safetensors", hidden=4, seed=1)
    solver = parse_solver(path)
    before, stamp = solve(GRAPHS["loop"], "PR", solver).log_z, solver.fingerprint()
    write_model(path, hidden=4, seed=2)
    assert solve(GRAPHS["loop"], "PR", solver).log_z != before
    assert solver.fingerprint() != stamp


def test_the_fingerprint_of_shipped_weights_is_that_of_their_files(tmp_path, monkeypatch) -> None:
    (tmp_path / "fe-net-mar.safetensors").write_bytes(b"one")
    monkeypatch.setattr("equifactor.solvers.learned.learned_solver.WEIGHTS", tmp_path)
    first = parse_solver("fe-net").fingerprint()
    (tmp_path / "fe-net-map.safetensors").write_bytes(b"two")
    assert len({first, parse_solver("fe-net").fingerprint(), ""}) == 3
    assert parse_solver("fe-net(untrained)").fingerprint() == ""


@pytest.mark.parametrize("name", ["small", "wide"])
def test_further_weights_of_the_package_have_names(name: str) -> None:
    solver = parse_solver(f"fe-net(weights={name})")
    got = solve(GRAPHS["loop"], "MAR", solver)
    path = weights_file("fe-net", name)
    assert path.endswith(f"fe-net-{name}-mar.safetensors")
    same = solve(GRAPHS["loop"], "MAR", f"fe-net(weights='{path}')")
    assert got.marginals.values == pytest.approx(same.marginals.values)
    assert solver.fingerprint() != parse_solver("fe-net").fingerprint()
    with pytest.raises(OptionError, match="trained for MAR and cannot do MAP"):
        solve(GRAPHS["loop"], "MAP", solver)


def test_solver_pickles(tmp_path: Path, write_model) -> None:
    solver = parse_solver(write_model(tmp_path / "m.safetensors", hidden=4))
    assert pickle.loads(pickle.dumps(solver)) == solver


# ---- answers --------------------------------------------------------------------------------------------


def test_stops_early_when_it_has_settled() -> None:
    got = solve(GRAPHS["tree"], "MAR", "fe-nbp(untrained, damping=0.0, iterations=100)")
    want = solve(GRAPHS["tree"], "MAR", "brute")
    assert got.status is Status.CONVERGED
    assert got.iterations < 30
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)
    assert got.log_z == pytest.approx(want.log_z)


def test_tightening_lowers_the_bound_and_keeps_it_sound() -> None:
    graph = ising_grid(5, 5, seed=3)
    best = solve(graph, "MAP", "exact").log_score
    loose = solve(graph, "MAP", "fe-net(untrained)")
    tight = solve(graph, "MAP", "fe-net(untrained, tighten=20)")
    assert best - 1e-9 <= tight.upper_bound < loose.upper_bound
    assert loose.lower_bound == loose.log_score <= best + 1e-9
    assert "global" not in parse_solver("fe-net(untrained, tighten=20)").symmetries


def test_tightening_lowers_the_bound_of_structured_factors_too() -> None:
    rng = np.random.default_rng(0)
    pairs = [([i, (i + 1) % 8], Potts(rng.normal())) for i in range(8)]
    single = [([i], rng.normal(size=2)) for i in range(8)]
    graph = FactorGraph([2] * 8, [*single, *pairs, (range(8), Parity(odd=True)), (range(5), AtMost(2))], log=True)
    best = solve(graph, "MAP", "brute").log_score
    loose, tight = (solve(graph, "MAP", f"fe-nbp(untrained, tighten={n})").upper_bound for n in (0, 20))
    assert best - 1e-9 <= tight < loose - 0.01


def test_bound_holds_in_single_precision() -> None:
    """Without pairs the bound is tight: computed in single precision it would fall below the optimum."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        apart = FactorGraph([3] * 30, [([i], 100 * rng.normal(size=3)) for i in range(30)], log=True)
        best = solve(apart, "MAP", "exact").log_score
        got = solve(apart, "MAP", "fe-nbp(untrained)", dtype="float32")
        assert best - 1e-9 <= got.upper_bound <= best + 1e-2


def test_sequential_decoding_is_that_of_bp() -> None:
    graphs = [GRAPHS["hard zeros"], ising_grid(4, 4, seed=2)]
    ours = solve(graphs, "MAP", "fe-nbp(untrained, decode=sequential, tolerance=0)")
    theirs = solve(graphs, "MAP", "bp(damping=0.5, iterations=10, decode=sequential, tolerance=0)")
    for got, want in zip(ours, theirs, strict=True):
        assert np.array_equal(got.assignment, want.assignment)


def test_impossible_states_have_probability_zero_exactly(tmp_path: Path, write_model) -> None:
    spec = write_model(tmp_path / "m.safetensors", "fe-net")
    for dtype in ("float64", "float32"):
        got = solve(GRAPHS["one possible assignment"], "MAR", spec, dtype=dtype)
        assert got.marginals.values.tolist() == [0, 1, 1, 0, 0, 1, 1, 0]


def test_a_network_that_explodes_spoils_no_other_graph(tmp_path: Path) -> None:
    import torch

    from equifactor.learned import ModelCard, save_model
    from equifactor.solvers.learned.network import build

    network = build("fe-nbp", {"bounded": False})
    with torch.no_grad():
        network.last.bias.fill_(1e30)
    for task in ("MAR", "MAP"):
        save_model(tmp_path / "m.safetensors", network, ModelCard.of(network, task))
        calm = FactorGraph([2, 2], [([0], [1.0, 3.0])])
        bad, good = solve(
            [GRAPHS["loop"], calm], task, f"{tmp_path / 'm.safetensors'}(iterations=40, tolerance=0, tighten=1, alone)"
        )
        assert bad.status is Status.NON_FINITE
        assert (bad.answered, bad.upper_bound) == (False, None)
        assert good.answered
        assert not math.isnan(getattr(good, "log_z", 0.0))


def test_no_time_and_float32() -> None:
    got = solve(GRAPHS["loop"], "MAR", "fe-net(untrained)", time_limit=0.0)
    assert (got.status, got.iterations) == (Status.TIME_LIMIT, 0)
    assert got.marginals is not None
    single = solve(GRAPHS["hard zeros"], "MAR", "fe-net(untrained)", dtype="float32")
    double = solve(GRAPHS["hard zeros"], "MAR", "fe-net(untrained)")
    np.testing.assert_allclose(single.marginals.values, double.marginals.values, atol=1e-4)


def test_too_large_for_memory_is_halved_then_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from equifactor.solvers.learned.network_run import NetworkRun

    begin, sizes = NetworkRun.__init__, []

    def limited(self, network, compiled, task, run) -> None:
        sizes.append(compiled.num_graphs)
        if compiled.num_graphs > 2 or compiled.num_vars > 30:
            raise torch.OutOfMemoryError("CUDA out of memory")
        begin(self, network, compiled, task, run)

    monkeypatch.setattr(NetworkRun, "__init__", limited)
    got = solve(
        [*[ising_grid(2, 2, seed=s) for s in range(4)], ising_grid(6, 6)], "MAR", "fe-nbp(untrained, engine=torch)"
    )
    assert [r.status is Status.TOO_LARGE for r in got] == [False, False, False, False, True]
    assert "does not fit into the memory of cpu" in got[-1].message
    assert max(sizes) == 5


def test_wrong_cardinality_and_device() -> None:
    with pytest.raises(ModelError, match="fe-gnn was made for variables of 2 states, and tree has a variable of 3"):
        solve(GRAPHS["tree"], "MAR", "fe-gnn(untrained)")
    with pytest.raises(OptionError, match="no device 'abacus'"):
        solve(GRAPHS["loop"], "MAR", "fe-nbp(untrained)", device="abacus")


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_a_run_whose_changes_were_scaled_down_says_so(kind: str) -> None:
    graph = ising_grid(5, 5, coupling_std=5.0, field_std=0.5, seed=3)  # BP finds no fixed point
    short, long = solve(graph, "MAR", kind), solve(graph, "MAR", f"{kind}(iterations=2000)")
    assert short.status is Status.ITERATION_LIMIT
    assert 0.0 < short.stats["change"] <= 1.0  # a change of probabilities
    assert long.status is Status.CONVERGED
    assert "changes are scaled down after the" in long.message


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
@pytest.mark.parametrize("task", ["MAR", "MAP"])
def test_no_time_at_all_gives_the_answer_before_the_first_step(kind: str, task: str) -> None:
    result = solve(ising_grid(5, 5, seed=1), task, kind, time_limit=0.0)
    assert (result.status, result.iterations) == (Status.TIME_LIMIT, 0)
    assert result.answered


@pytest.mark.parametrize(("engine", "absent"), [("torch", "sympy"), ("auto", "torch")])
def test_networks_import_no_more_than_they_need(engine: str, absent: str) -> None:
    program = (
        "import sys, equifactor as ef\nfor kind in ('fe-nbp', 'fe-net'):\n"
        f"    ef.solve(ef.generators.ising_grid(3, 3), 'MAR', kind, time_limit=0.0, engine={engine!r})\n"
        f"print({absent!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_a_step_that_outlasts_the_deadline_is_abandoned(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ising_grid(40, 60, seed=0)
    allowed = solve(graph, task, "fe-nbp(engine=torch)", iterations=1)
    ticks = itertools.count()
    monkeypatch.setattr(Clock, "now", staticmethod(lambda: 0.01 * next(ticks)))  # every look takes 10 ms
    cut = solve(graph, task, "fe-nbp(engine=torch)", time_limit=0.5)
    assert cut.status is Status.TIME_LIMIT
    assert cut.iterations == 0  # the first step takes more than 75 operations
    assert cut.answered
    assert allowed.iterations == 1
    small = solve(ising_grid(3, 3, seed=0), task, "fe-nbp(engine=torch)", time_limit=0.5)
    assert small.iterations >= 1  # steps of small graphs are not watched


@pytest.mark.parametrize("kind", ["fe-nbp", "fe-net"])
def test_map_is_never_worse_than_bp_or_than_an_earlier_step(kind: str) -> None:
    grids = ising_grid(6, 6, coupling_std=2.0, count=12, seed=5)
    graphs = [*grids, grids[0].condition({0: 1}), *GRAPHS.values()]
    kept = solve(graphs, "MAP", kind)
    for rival in ("bp(damping=0.5, iterations=200)", f"{kind}(alone)", f"{kind}(alone, iterations=1)"):
        raised = 0
        for mine, other in zip(kept, solve(graphs, "MAP", rival), strict=True):
            assert not other.answered or mine.log_score >= other.log_score - 1e-9 * max(1.0, abs(other.log_score))
            raised += bool(other.answered and mine.log_score > other.log_score + 1e-6)
        assert raised, f"{rival} is never improved, so this test shows nothing"
    brute = solve(graphs[-1], "MAP", "exact")
    assert not brute.answered or kept[-1].upper_bound >= brute.log_score - 1e-9


def test_a_network_that_explodes_answers_map_with_bp(tmp_path: Path) -> None:
    import torch

    from equifactor.learned import ModelCard, save_model
    from equifactor.solvers.learned.network import build

    network = build("fe-nbp", {"bounded": False})
    with torch.no_grad():
        network.last.bias.fill_(1e30)
    save_model(tmp_path / "m.safetensors", network, ModelCard.of(network, "MAP"))
    got = solve(GRAPHS["loop"], "MAP", f"{tmp_path / 'm.safetensors'}(iterations=40, tolerance=0)")
    bp = solve(GRAPHS["loop"], "MAP", "bp(damping=0.5)")
    assert (got.answered, got.log_score) == (True, bp.log_score)
    assert "The best assignment is that of bp(damping=0.5)" in got.message


def test_scores_of_a_batch_are_those_of_its_graphs() -> None:
    from equifactor.graph import compile
    from equifactor.solvers.learned.best_assignments import batch_log_scores

    graphs = [g for g in GRAPHS.values() if len(g.free_vars)]
    flat = compile(graphs)
    states = np.random.default_rng(0).integers(0, np.diff(flat.var_ptr))
    expected = [g.log_score(x) for g, x in zip(graphs, flat.assignments(states), strict=True)]
    np.testing.assert_allclose(batch_log_scores(flat, states), expected)
