"""Audits: measurements, violations of claims, and violations that are set aside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from equifactor import FactorGraph, OptionError, Status, Task, solve
from equifactor.graph.marginals import Marginals
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import GraphSolver
from equifactor.symmetry import KINDS, Relabelling, audit, equivariance_error, relabel
from equifactor.symmetry.auditing import Trials, rounding_error, violations
from equifactor.testing import assert_equivariant, contract_graphs

GRAPHS = contract_graphs()


GRAPH = GRAPHS["ragged cardinalities"]


def exact(graph: FactorGraph) -> Marginals | None:
    return solve(graph, "MAR", "brute").marginals


def by_number(graph: FactorGraph) -> list[np.ndarray]:
    """Return an answer that depends on variable numbers."""
    return [np.full(d, i / 100) for i, d in enumerate(graph.card)]


def by_position(graph: FactorGraph) -> list[np.ndarray]:
    """Return an answer that depends on positions in scopes."""
    found = [np.zeros(d) for d in graph.card]
    for scope, _ in graph.linear_factors():
        for k, i in enumerate(scope):
            found[i] += k / 100
    return found


def by_state(graph: FactorGraph) -> np.ndarray:
    """Return an answer that depends on state numbers."""
    return np.concatenate([np.arange(d) / d for d in graph.card])


@pytest.mark.parametrize(
    ("model", "kind"), [(by_number, "global"), (by_position, "local variable"), (by_state, "variable assignment")]
)
def test_each_symmetry_is_measured_alone(model, kind: str) -> None:
    errors = equivariance_error(model, GRAPH, trials=5)
    assert list(errors) == list(KINDS)
    assert {k for k, error in errors.items() if error > 1e-3} == {kind}
    assert_equivariant(model, GRAPH, [k for k in KINDS if k != kind])
    with pytest.raises(AssertionError, match=f"{kind} symmetry is violated by .* marginals of ragged"):
        assert_equivariant(model, GRAPH)


def test_the_error_is_the_largest_difference() -> None:
    r = Relabelling.random(GRAPH, "variable assignment", seed=0)
    carried = r.marginals(Marginals(by_state(GRAPH), GRAPH.structure.state_ptr)).values
    difference = np.abs(carried - by_state(relabel(GRAPH, r))).max()
    assert equivariance_error(by_state, GRAPH, "variable assignment", trials=1) == {"variable assignment": difference}
    (found,) = violations(by_state, GRAPH, None, ("variable assignment",), Trials(1))
    assert (found.error, found.what, found.where) == (difference, "marginals", "marginals of ragged cardinalities")


def test_exact_answers_follow_in_every_form() -> None:
    import torch

    for model in (
        exact,
        lambda g: exact(g).values,
        lambda g: list(exact(g)),
        lambda g: torch.tensor(exact(g).values, requires_grad=True),
        lambda g: [torch.tensor(p) for p in exact(g)],
        lambda g: solve(g, "PR", "brute").log_z,
        lambda g: torch.tensor(solve(g, "PR", "brute").log_z),
    ):
        assert_equivariant(model, [GRAPH, GRAPHS["some evidence"]], trials=2, tolerance=1e-9)
    binary = GRAPHS["loop"]
    assert_equivariant(lambda g: exact(g).values.reshape(-1, 2), binary)


def test_invariants_that_are_none() -> None:
    assert equivariance_error(lambda g: float(g.card[0]), GRAPH, "global", trials=8)["global"] > 0
    assert equivariance_error(lambda g: float("nan"), GRAPH)["global"] == np.inf


def test_solvers_are_measured_on_all_their_tasks() -> None:
    errors = equivariance_error("exact", [GRAPH, GRAPHS["tree"]], trials=1)
    assert max(errors.values()) < 1e-12
    assert equivariance_error("bp(schedule=sequential)", GRAPHS["loop"], tasks=[Task.MAR])["global"] > 1e-8
    assert equivariance_error("gibbs", GRAPHS["tree"], "variable assignment", trials=1)["variable assignment"] > 1e-4
    with pytest.raises(OptionError, match="gibbs cannot do MAP"):
        equivariance_error("gibbs", GRAPH, tasks=[Task.MAP])
    with pytest.raises(OptionError, match="tasks can be given for a solver only"):
        equivariance_error(exact, GRAPH, tasks=[Task.MAP])
    with pytest.raises(OptionError, match="trials must be a whole number of at least 1"):
        equivariance_error("exact", GRAPH, trials=0)


@dataclass(frozen=True, kw_only=True)
class FirstState(GraphSolver):
    """A solver that answers state 0 for every variable, and claims that this is symmetric."""

    name = "first-state"
    tasks = (Task.MAP,)

    def run_one(self, graph, task, context) -> Estimate:
        return Estimate(status=Status.CONVERGED, assignment=np.zeros(graph.num_vars, np.int64))


def test_a_false_claim_is_found() -> None:
    rows = {f.violation.kind: f for f in audit(FirstState(), GRAPHS["tree"])}
    assert [rows[kind].verdict for kind in KINDS] == ["holds", "holds", "CLAIM FAILS"]
    assert [rows[kind].failed for kind in KINDS] == [False, False, True]
    assert rows["variable assignment"].violation.what == "log score"
    assert rows["variable assignment"].to_dict()["where"] == "log score (MAP) of tree"


def test_an_undeclared_violation_is_no_failure() -> None:
    rows = audit("bp(schedule=sequential)", GRAPHS["loop"], tasks=[Task.MAR])
    assert rows[0].verdict == "not claimed"
    assert not any(f.failed for f in rows)
    assert audit("meanfield", GRAPHS["no factors"], "global")[0].verdict == "holds, not claimed"


def test_ties_are_set_aside_and_named() -> None:
    """With two equal optima on a loop, 00 and 11, variables that are decoded separately may not agree on one."""
    tie = FactorGraph([2, 2], [([0, 1], [[2.0, 1.0], [1.0, 2.0]])] * 2, name="tie")
    (row,) = audit("bp", tie, "variable assignment", trials=Trials(5), tasks=[Task.MAP])
    assert row.verdict == "undecided"
    assert not row.failed
    assert [v.where for v in row.set_aside] == ["log score (MAP) of tie"]
    with pytest.raises(AssertionError, match="symmetry cannot be decided: rounding alone"):
        assert_equivariant(by_rounding, tie, "global", trials=8)
    assert rounding_error(by_rounding, tie, None, Trials()) > 0.1


def by_rounding(graph: FactorGraph) -> list[np.ndarray]:
    """Return an answer that depends on the last bits of the tables and on the order of the variables."""
    return [np.full(d, (1e15 * graph.log_phi.sum()) % 1 + i) for i, d in enumerate(graph.card)]


def test_default_graphs() -> None:
    assert_equivariant(lambda g: [[1 / d] * d for d in g.card], trials=1)
    assert_equivariant("exact", trials=1)
