"""Answers of a solver or of a user's own function, in a form that can be relabelled and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.status import Task
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Solver
    from equifactor.symmetry.relabelling import Relabelling

# A user's own method, which returns marginals, or one number that no relabelling should change, such as ln Z.
GraphFunction = Callable[["FactorGraph"], Any]
Dtype = Literal["float32", "float64"]


@dataclass(frozen=True)
class Answer:
    """An answer: marginals, which move with a relabelling, and numbers, which stay the same."""

    marginals: Marginals | None = None
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    def relabelled(self, r: Relabelling) -> Answer:
        """Return the same answer in the numbers of the relabelled graph."""
        return Answer(None if self.marginals is None else r.marginals(self.marginals), self.numbers)

    def distance(self, other: Answer) -> tuple[float, str]:
        """Return the largest difference, and the name of the answer that differs.

        Differences of numbers n other than probabilities are relative to max(1, |n|). The difference is infinite if
        only one of the answers has marginals or a number.
        """
        worst, what = 0.0, ""
        if (self.marginals is None) != (other.marginals is None):
            worst, what = math.inf, "marginals"
        elif self.marginals is not None and other.marginals is not None:
            apart = np.abs(self.marginals.values - other.marginals.values).max(initial=0.0)
            worst, what = (math.inf if np.isnan(apart) else float(apart)), "marginals"
        for name, value in self.numbers.items():
            apart = _apart(value, other.numbers[name])
            if apart > worst:
                worst, what = apart, name
        return worst, what


def ask(solver: Solver | GraphFunction, graph: FactorGraph, task: Task | None, seed: int, dtype: Dtype) -> Answer:
    """Return the answer of a solver to a task, or of a function (task None)."""
    from equifactor.questions.solve import solve
    from equifactor.solving.solver import Solver

    if not isinstance(solver, Solver):
        return read_answer(solver(graph), graph)
    if task is None:
        raise OptionError("A solver needs a task, such as MAR; found None.")
    result = solve(graph, task, solver, seed=seed, dtype=dtype)
    score = getattr(result, "log_score", None) if task is Task.MAP else None
    return Answer(
        getattr(result, "marginals", None),
        {
            "ln Z": getattr(result, "log_z", None),
            "log score": score,
            "lower bound": result.lower_bound,
            "upper bound": result.upper_bound,
        },
    )


def read_answer(given: Any, graph: FactorGraph) -> Answer:
    """Read the result of a user's function: `Marginals`, a vector per variable, one flat array [X], or a number.

    Arrays may be torch tensors, with or without gradient.
    """
    if isinstance(given, Marginals):
        return Answer(given)
    ptr = graph.structure.state_ptr
    try:
        pieces = [_numpy(v) for v in given] if isinstance(given, (list, tuple)) else None
        array = np.concatenate([p.ravel() for p in pieces]) if pieces is not None else _numpy(given)
    except (TypeError, ValueError):
        raise OptionError(f"{_WANTED}; found {type(given).__name__}") from None
    if array.ndim == 0:
        return Answer(numbers={"number": float(array)})
    if array.size != ptr[-1] or (array.ndim == 2 and len(array) != graph.num_vars):
        raise OptionError(f"{_WANTED}; found shape {array.shape} for {graph.num_vars} variables, {ptr[-1]} states")
    return Answer(Marginals(array.ravel(), ptr))


_WANTED = "A function of a graph must return Marginals, a vector per variable, a flat array of all states, or a number"


def _numpy(values: Any) -> np.ndarray:
    if values is None:
        raise TypeError("no answer")
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


def _apart(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    if a == b:  # This includes infinities.
        return 0.0
    apart = abs(a - b) / max(1.0, abs(a))
    return math.inf if math.isnan(apart) else apart
