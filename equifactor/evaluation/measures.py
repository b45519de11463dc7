"""How wrong one answer is: the error of its task, the error of the trivial answer, and the UAI-2022 score.

Err(answer) is the error of the competition of 2022, with natural logarithms:

    MAR   mean Hellinger distance over all variables
    PR    |ln Z* - ln Z|
    MAP   best known log-score minus log-score, infinite for zero probability

The score is 100 (1 - Err / Err_trivial), but at least 0. The trivial answers are simple and always defined:

    MAR   uniform marginals, the observed variables in their states (the competition's own)
    PR    unary factors exactly, every larger table replaced by its mean
    MAP   greedy: variables in file order, each the best given those before it, larger tables by their maximum
          over the open variables; where that has probability zero, Err_trivial is |best log-score|

The competition's trivial solver for PR and MAP is not published, only its values: PR and MAP scores cannot be held
against its board. docs/evaluate.md says how far ours are from them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.marginals import Marginals
from equifactor.metrics import hellinger, kl, map_error, max_error, rmse, uai_score
from equifactor.result import Status, Task

if TYPE_CHECKING:
    from equifactor.data import Instance
    from equifactor.graph import FactorGraph
    from equifactor.result import Result
    from equifactor.typing import FloatArray, IntArray

_DIGITS = 1e-6  # a score within this share of the best known one counts as equal to it: both carry rounding errors


def measure(result: Result, instance: Instance, reference: Marginals | None = None) -> dict[str, Any]:
    """The measures of one result by name; `None` where the right answer is unknown or none was given.

    `error`, `trivial_error` and `score` are there for every task; no answer has score 0.

    Args:
        result: the answer to this instance.
        instance: the instance with its right answers.
        reference: exact marginals for MAR; they are read from the instance's file when not given.
    """
    if result.task is Task.MAR:
        exact = instance.marginals() if reference is None else reference
        return _marginals(result, exact)
    return _log_z(result, instance.log_z) if result.task is Task.PR else _assignment(result, instance)


def _marginals(result: Result, exact: Marginals | None) -> dict[str, Any]:
    if exact is None:
        return {}
    trivial = hellinger(exact, uniform(result.graph))
    found = result.marginals
    if found is None:
        return _scored(None, trivial)
    return {
        **_scored(hellinger(exact, found), trivial),
        "kl": kl(exact, found),
        "rmse": rmse(exact, found),
        "max_error": max_error(exact, found),
    }


def _log_z(result: Result, exact: float | None) -> dict[str, Any]:
    values: dict[str, Any] = {"log_z": result.log_z, "reference": exact}
    if exact is None:
        return values
    error = None if result.log_z is None else abs(exact - result.log_z)
    return {**values, **_scored(error, abs(exact - trivial_log_z(result.graph)))}


def _assignment(result: Result, instance: Instance) -> dict[str, Any]:
    best, score = instance.map_log_score, result.log_score
    values: dict[str, Any] = {
        "log_score": score,
        "reference": best,
        "upper_bound": result.upper_bound,
        "gap": result.gap,
        "zero_probability": score is not None and score == -math.inf,
        "proven": result.status is Status.OPTIMAL,
    }
    if best is None:
        return values
    greedy = result.graph.log_score(trivial_assignment(result.graph))
    trivial = abs(best) if greedy == -math.inf else max(0.0, best - greedy)
    if score is None:
        return {**values, **_scored(None, trivial)}
    # A better assignment than the best known one is no error.
    error = 0.0 if score >= best - _DIGITS * max(1.0, abs(best)) else best - score
    return {**values, **_scored(error, trivial), "map_error": float(map_error(best if error == 0.0 else score, best))}


def _scored(error: float | None, trivial: float) -> dict[str, Any]:
    score = 0.0 if error is None else float(uai_score(error, trivial))
    return {"error": error, "trivial_error": trivial, "score": score}


# ---- trivial answers ------------------------------------------------------------------------------------


def uniform(graph: FactorGraph) -> Marginals:
    """Marginals with all states of a free variable equally likely and observed variables in their states."""
    observed = graph.evidence
    return Marginals.from_list(
        [np.eye(d)[observed[i]] if i in observed else np.full(d, 1.0 / d) for i, d in enumerate(graph.card.tolist())]
    )


def trivial_log_z(graph: FactorGraph) -> float:
    """ln Z with unary factors taken exactly and every larger table replaced by its mean. Cost O(T)."""
    total, unary = _split(graph)
    for a in range(graph.num_factors):
        if graph.structure.arity[a] > 1:
            table = graph.log_table(a)
            total += _log_sum(table.ravel()) - math.log(table.size)
    return total + sum(_log_sum(u) for i, u in enumerate(unary) if graph.observed is None or graph.observed[i] < 0)


def trivial_assignment(graph: FactorGraph) -> IntArray:
    """The greedy assignment [V]: variables in file order, ties to the first state. Cost O(T arity)."""
    _, belief = _split(graph)
    x = np.full(graph.num_vars, -1) if graph.observed is None else graph.observed.copy()
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    larger: list[list[int]] = [[] for _ in range(graph.num_vars)]
    for a, scope in enumerate(scopes):
        for i in scope if len(scope) > 1 else ():
            larger[i].append(a)
    for i in range(graph.num_vars):
        if x[i] >= 0:
            continue
        for a in larger[i]:
            place = tuple(slice(None) if x[j] < 0 else int(x[j]) for j in scopes[a])
            axes = [j for j in scopes[a] if x[j] < 0]
            others = tuple(k for k, j in enumerate(axes) if j != i)
            belief[i] = belief[i] + graph.log_table(a)[place].max(axis=others)
        x[i] = int(np.argmax(belief[i]))
    return x


def _split(graph: FactorGraph) -> tuple[float, list[FloatArray]]:
    """The sum of the constant factors, and for each variable the sum [card] of its unary factors; natural logs."""
    constant, unary = 0.0, [np.zeros(d) for d in graph.card.tolist()]
    for a in np.flatnonzero(graph.structure.arity <= 1).tolist():
        scope = graph.structure.scope(a).tolist()
        if scope:
            unary[scope[0]] = unary[scope[0]] + graph.log_table(a)
        else:
            constant += float(graph.log_table(a))
    return constant, unary


def _log_sum(values: FloatArray) -> float:
    top = float(values.max(initial=-math.inf))
    return top if math.isinf(top) else top + math.log(float(np.exp(values - top).sum()))
