"""Every registered solver respects the symmetries it declares, in float64 and float32.

Ties are excepted: where a change of the tables in the last bit moves an answer by more than the tolerance (a tie, or an
iteration that does not settle), relabelling may move it too, and `audit` sets the case aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from equifactor import Task
from equifactor.solvers import parse_solver, solver_names
from equifactor.solving.registry import solver_class
from equifactor.symmetry import audit
from equifactor.symmetry.auditing import TOLERANCE, Trials
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()
SHOWN = ("tree", "loop", "ragged cardinalities", "hard zeros", "some evidence", "arity 5", "isolated variable")
LEARNED = [name for name in solver_names() if hasattr(solver_class(name), "untrained")]
CLASSICAL = [name for name in solver_names() if name not in LEARNED]
SPECS = [*CLASSICAL, "bp(damping=0.5)", "bp(schedule=sequential)", "bp(schedule=random)", "bp(decode=sequential)"]
CASES = [
    pytest.param(spec, marks=pytest.mark.skipif(bool(reason), reason=reason or ""))
    for spec in SPECS
    for reason in [parse_solver(spec).missing()]
    if parse_solver(spec).symmetries
]


@pytest.mark.parametrize("spec", CASES)
def test_claims_hold(spec: str) -> None:
    check(spec, SHOWN, "float64", trials=2)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [case for case in CASES if "=" not in case.values[0]])
def test_claims_hold_in_float32(spec: str) -> None:
    check(spec, ("tree", "ragged cardinalities", "hard zeros"), "float32", trials=1)


@pytest.mark.parametrize("name", LEARNED)
def test_claims_of_networks_hold_whatever_their_weights(name: str) -> None:
    solver = parse_solver(f"{name}(untrained)")
    for dtype in ("float64", "float32"):
        once = Trials(1, dtype=dtype)
        for finding in audit(solver, GRAPHS["loop"], solver.symmetries, trials=once, tasks=[Task.MAR]):
            assert finding.verdict == "holds", f"{finding.violation.where}: {finding.violation.error}"


def check(spec: str, names: Sequence[str], dtype: Literal["float32", "float64"], trials: int) -> None:
    solver = parse_solver(spec)
    graphs = [GRAPHS[name] for name in names]
    for finding in audit(solver, graphs, solver.symmetries, trials=Trials(trials, dtype=dtype)):
        assert not finding.failed, f"{finding.violation.where}: {finding.violation.error}"
        assert finding.cases >= 0.8 * len(graphs) * len(solver.tasks), f"only {finding.cases} cases decide"
        assert finding.tolerance == TOLERANCE[dtype]


def test_float64_is_held_to_1e_8() -> None:
    assert TOLERANCE["float64"] == 1e-8


def test_most_solvers_claim_something() -> None:
    assert {"bp", "exact", "brute", "mplp", "srmp", "trw"} <= {n for n in solver_names() if solver_class(n).symmetries}


def test_the_order_of_updates_is_not_claimed_to_be_symmetric() -> None:
    assert "global" in parse_solver("bp").symmetries
    for spec in ("bp(schedule=sequential)", "bp(schedule=residual)", "bp(decode=sequential)"):
        assert parse_solver(spec).symmetries == {"local variable", "variable assignment"}
