"""A kind of factor from outside the package, written by the recipe in CONTRIBUTING.md, in every solver."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.graph.kinds import KINDS, kind_class, kind_number
from equifactor.solving.registry import solver_class

ROOT = Path(__file__).parents[2]
ANY_KIND = [name for name in ef.solvers.solver_names() if solver_class(name).any_kind]
TORCH = ("bp(engine=torch)", "fe-nbp", "fe-net")
SAMPLERS = {"gibbs": 0.03}  # the largest error of a marginal that sampling may have here


def recipe() -> str:
    """Return the code of the recipe, word for word."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"\*\*A kind of factor\*\*.*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.fixture(scope="module")
def toy() -> Any:
    """Return the class of the recipe, registered as long as the tests of this file run."""
    module = sys.modules.setdefault("recipe_of_a_kind", type(sys)("recipe_of_a_kind"))
    exec(compile(recipe(), "CONTRIBUTING.md", "exec", dont_inherit=True), vars(module))
    yield module.AllDifferent
    del KINDS["all_different"], sys.modules["recipe_of_a_kind"]
    kind_class.cache_clear()


def graph_of(toy: Any, as_tables: bool, log_value: float = -2.0) -> ef.FactorGraph:
    """Return a tree in which the new kind stands beside a kind with kernels, or the same graph in dense tables."""
    rng = np.random.default_rng(0)
    factors: list[Any] = [([i], rng.uniform(0.5, 2.0, d)) for i, d in enumerate((3, 3, 3, 2, 2))]
    factors += [([2, 3], rng.uniform(0.5, 2.0, (3, 2))), ([3, 4], ef.Parity(log_values=(0.0, -1.0)))]
    graph = ef.FactorGraph([3, 3, 3, 2, 2], [*factors, ([0, 1, 2], toy(log_value))])
    if not as_tables:
        return graph
    tables = [np.exp(graph.log_table(a)) for a in range(graph.num_factors)]
    return ef.FactorGraph([3, 3, 3, 2, 2], [(graph.structure.scope(a).tolist(), t) for a, t in enumerate(tables)])


def tasks_of(spec: str) -> list[str]:
    """Return the tasks that a solver answers with the weights of the package."""
    method = ef.solvers.parse_solver(spec)
    found = []
    for task in ("MAR", "PR", "MAP"):
        try:
            method.check_task(ef.Task(task))
        except ef.OptionError:
            continue
        found.append(task)
    return found


@pytest.mark.parametrize("spec", [*ANY_KIND, *TORCH[:1]])
def test_every_solver_that_takes_any_kind_answers(spec: str, toy: Any) -> None:
    if spec in TORCH:
        pytest.importorskip("torch")
    if solver_class(spec.partition("(")[0]).missing():
        pytest.skip("it is not installed")
    graph, tables = graph_of(toy, False), graph_of(toy, True)
    assert tasks_of(spec)
    for task in tasks_of(spec):
        found, own, truth = ef.solve(graph, task, spec), ef.solve(tables, task, spec), ef.solve(tables, task, "brute")
        if task == "MAP":
            assert own.log_score - 1e-9 <= found.log_score <= truth.log_score + 1e-9
            continue
        exact = found.status.solved and solver_class(spec.partition("(")[0]).exact_on != "none"
        if hasattr(found, "log_z"):
            assert found.log_z == pytest.approx(truth.log_z if exact else own.log_z, abs=1e-6)
        if hasattr(found, "marginals"):
            wanted, error = (truth, 1e-6) if exact else (own, 1e-6)
            if spec in SAMPLERS:
                wanted, error = truth, SAMPLERS[spec]
            np.testing.assert_allclose(found.marginals.values, wanted.marginals.values, atol=error)
        if found.lower_bound is not None:
            assert found.lower_bound <= truth.log_z + 1e-9
        if found.upper_bound is not None:
            assert found.upper_bound >= truth.log_z - 1e-9


def test_the_torch_solvers_are_among_them() -> None:
    assert {"bp", "fe-nbp", "fe-net", "auto", "brute"} <= set(ANY_KIND)


def test_torch_takes_it_as_it_is_outside_of_solve(toy: Any) -> None:
    pytest.importorskip("torch")
    flat = ef.solvers.compile(graph_of(toy, False)).to()
    found = ef.beliefs(flat, flat.log_phi, iterations=50)
    truth = ef.solve(graph_of(toy, True), "MAR", "brute").marginals
    np.testing.assert_allclose(found.probabilities.detach().numpy(), truth.values, atol=1e-9)


@pytest.mark.parametrize("log_value", [-2.0, -np.inf])
def test_solvers_of_tables_evidence_and_hard_constraints(log_value: float, toy: Any) -> None:
    graph, tables = graph_of(toy, False, log_value), graph_of(toy, True, log_value)
    for evidence in ({}, {0: 1}, {0: 1, 2: 0, 4: 1}, {0: 0, 1: 0}):
        truth = ef.solve(tables, "PR", "brute", evidence=evidence)
        assert ef.solve(graph, "PR", "exact", evidence=evidence).log_z == pytest.approx(truth.log_z)
        assert ef.solve(graph, "PR", "auto", evidence=evidence).log_z == pytest.approx(truth.log_z)
    drawn = ef.sample(graph, 50, seed=1)
    assert np.isfinite(graph.log_score(drawn.states)).all()


def test_it_reads_as_written_relabels_and_travels(toy: Any, tmp_path: Path) -> None:
    graph = graph_of(toy, False)
    assert graph.factor(7) == toy(-2.0)
    assert toy.number == kind_number("all_different") == len(KINDS) - 1
    assert ef.symmetry.graph_hash(graph) == ef.symmetry.graph_hash(graph_of(toy, True))
    moved = ef.symmetry.relabel(graph, ef.symmetry.Relabelling.random(graph, seed=3))
    assert ef.solve(moved, "PR", "exact").log_z == pytest.approx(ef.solve(graph, "PR", "brute").log_z)
    assert pickle.loads(pickle.dumps(graph)) == graph
    ef.write_graph(graph, tmp_path / "toy.uai")
    assert ef.read_graph(tmp_path / "toy.uai").log_phi == pytest.approx(graph_of(toy, True).log_phi)


def test_a_kind_takes_its_number_along_to_other_processes(tmp_path: Path) -> None:
    (tmp_path / "own_kinds.py").write_text(recipe())
    (tmp_path / "other_kinds.py").write_text(
        recipe().replace("AllDifferent", "Other").replace("all_diff", "other_diff")
    )
    write = "import pickle, sys, own_kinds as k; g = k.ef.FactorGraph([3, 3], [([0, 1], k.AllDifferent(-1.0))]); "
    write += "pickle.dump(g, open('graph.pkl', 'wb'))"
    read = "import pickle, other_kinds; g = pickle.load(open('graph.pkl', 'rb')); print(g.factor(0))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for code in (write, read):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "AllDifferent(log_value=-1.0)"


@pytest.mark.parametrize("solver", ["bp", "exact"])
def test_no_solver_is_advised_for_a_kind_without_kernels(toy: Any, solver: str) -> None:
    graph = ef.FactorGraph([9] * 9, [(range(9), toy())])
    with pytest.raises(ef.ModelError, match="kind all_different has no compiled kernels") as raised:
        ef.solve(graph, "MAR", solver)
    assert "such as bp" not in str(raised.value)


def test_errors_of_registration(toy: Any) -> None:
    with pytest.raises(ef.OptionError, match=r"derives from equifactor.factors.StructuredFactor"):
        ef.factors.register_kind(int)  # type: ignore[type-var]
    with pytest.raises(ef.OptionError, match="lacks log_scores, of_row, row"):
        ef.factors.register_kind(type("Empty", (ef.factors.StructuredFactor,), {"kind": "empty"}))
    with pytest.raises(ef.OptionError, match=r"'parity' of .* is already taken by equifactor.factors.parity:Parity"):
        ef.factors.register_kind(type("Parity", (toy,), {"kind": "parity"}))
    unknown = type("Unknown", (toy,), {"kind": "unknown"})
    with pytest.raises(
        ef.ModelError, match=r"'unknown', which is not registered. Call equifactor.factors.register_kind"
    ):
        ef.FactorGraph([2, 2], [([0, 1], unknown())])
    with pytest.raises(ef.ModelError, match=r"would have 2\^31.0 entries"):
        ef.FactorGraph([2] * 31, [(range(31), toy())]).condition({0: 1})
