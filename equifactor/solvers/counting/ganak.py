"""Exact ln Z by the model counter Ganak, through its Python package."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.counting.formula import formula_of
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.counting.formula import WeightedFormula

# The counter cannot be stopped, so it runs in a process of its own. It counts with a wide range of exponents, but
# returns float64: a count that is too small comes back as 0. Then variables that must be true and have large weights
# scale the count, until the least positive one would show.
_PROGRAM = """
import json, math, sys
import pyganak
data = json.load(sys.stdin)
STEP = 900
for scales in range(2 + int(data["least_bits"] / STEP)):
    counter = pyganak.WeightedCounter()
    first = data["variables"] + 1
    counter.new_vars(data["variables"] + scales)
    counter.add_clauses(data["clauses"] + [[first + k] for k in range(scales)])
    for literal, weight in data["weights"] + [[first + k, 2.0 ** STEP] for k in range(scales)]:
        counter.set_lit_weight(literal, weight)
    count = float(counter.count())
    if count > 2.0 ** -STEP:
        print(json.dumps(math.log(count) - scales * STEP * math.log(2.0)))
        break
    if not scales:
        plain = pyganak.Counter()
        plain.new_vars(data["variables"])
        plain.add_clauses(data["clauses"])
        if not plain.count():
            print("null")
            break
else:
    print("null")
"""


@register("ganak")
@dataclass(frozen=True, kw_only=True)
class Ganak(GraphSolver):
    """Exact ln Z by the model counter Ganak, on the formula of `search-sum`; needs the extra `ganak`."""

    tasks = (Task.PR,)
    exact_on = "all"
    symmetries = frozenset()  # ties between variables are broken by their numbers
    finds_zeros = True

    @classmethod
    def takes_kinds_of(cls, graph: FactorGraph) -> bool:
        """Return True: clauses stay as they are, and the formula is made of small tables for the others."""
        return True

    @classmethod
    def missing(cls) -> str | None:
        """Return why it cannot run here, in a sentence; None if it can."""
        if importlib.util.find_spec("pyganak") is None:
            return "The solver ganak needs the package pyganak. Install it with: pip install 'equifactor[ganak]'"
        return None

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return ln Z, or no answer if the counter does not end in time."""
        missing = self.missing()
        if missing is not None:
            raise OptionError(missing)
        clock = context.clock
        if clock.stopped:
            return Estimate(status=clock.status or Status.TIME_LIMIT)
        reduced = to_free_part(graph)
        formula = None if reduced is None else formula_of(reduced.graph)
        if reduced is None:
            return impossible()
        if formula is None:
            return Estimate(status=Status.TOO_LARGE, message="As a formula the model would have millions of clauses.")
        if frozenset() in formula.clauses:
            return zero_by_exclusion(graph)
        norm = _norms(formula)
        try:
            ran = subprocess.run(
                [sys.executable, "-c", _PROGRAM], input=_problem(formula, norm), capture_output=True, text=True,
                timeout=None if clock.left == math.inf else max(0.01, clock.left), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Estimate(status=clock.status or Status.TIME_LIMIT)
        if ran.returncode:
            reason = (ran.stderr.strip() or f"exit status {ran.returncode}").splitlines()[-1]
            return Estimate(status=Status.NON_FINITE, message=f"The counter failed: {reason}")
        log_sum = json.loads(ran.stdout.splitlines()[-1])
        if log_sum is None:
            return zero_by_exclusion(graph)
        log_z = float(log_sum) + float(norm.sum()) + formula.constant
        return Estimate(status=Status.EXACT, log_z=log_z, lower_bound=log_z, upper_bound=log_z)


def _norms(formula: WeightedFormula) -> FloatArray:
    """Return [n] the logs by which weights are divided: of their sum, or of the only possible one of a unit clause."""
    norm = np.logaddexp(formula.log_weights[::2], formula.log_weights[1::2])
    units = np.array([next(iter(clause)) for clause in formula.clauses if len(clause) == 1], np.int64)
    given = formula.log_weights[units]
    norm[units[given > -np.inf] >> 1] = given[given > -np.inf]
    return norm


def _problem(formula: WeightedFormula, norm: FloatArray) -> str:
    """Return the formula as JSON, in literals of DIMACS, with scaled weights."""

    def literal(x: int) -> int:
        return -(x >> 1) - 1 if x & 1 else (x >> 1) + 1

    log_weights = formula.log_weights - np.repeat(norm, 2)
    least = np.where(np.isneginf(log_weights), 0.0, log_weights).reshape(-1, 2).min(axis=1).sum()
    return json.dumps({
        "variables": formula.num_vars,
        "clauses": [sorted(map(literal, clause)) for clause in formula.clauses],
        "weights": [[literal(x), weight] for x, weight in enumerate(np.exp(log_weights).tolist())],
        "least_bits": float(-least / math.log(2.0)),
    })  # fmt: skip
