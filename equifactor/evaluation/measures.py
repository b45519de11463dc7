"""The error of an answer, the error of the trivial answer, and the UAI-2022 score.

`facts` extracts what a row keeps of an answer; it runs where the model was solved. `score` compares these facts with a
reference; it runs whenever numbers are shown.

Err(answer) is the error of the competition of 2022, with natural logarithms:

    MAR   mean Hellinger distance over all variables
    PR    |ln Z* - ln Z|
    MAP   best known log-score minus log-score, infinite for zero probability
    MMAP  the same, for the log of the sum over the variables outside the query

The score is 100 (1 - Err / Err_trivial), and at least 0. The trivial answers are simple and always defined:

    MAR   uniform marginals, with observed states certain (as in the competition)
    PR    unary factors exactly, every larger table replaced by its mean
    MAP   greedy: variables in file order, each in its best state given the variables before it, with larger tables
          maximised over the open variables; if this has probability zero, Err_trivial is |best log-score|
    MMAP  the value that came with the model; without one, the query of that greedy assignment

The sums of MMAP are computed here and are not taken from the solver: exactly if they fit in memory, and otherwise the
lower bound counts.

For PR and MAP the competition published the values of its trivial solver, but not the solver. So PR and MAP scores
cannot be compared with the results of the competition. docs/evaluate.md compares the two trivial answers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.status import Status, Task
from equifactor.evaluation.conditional_sums import sum_bounds
from equifactor.evaluation.kept_marginals import pack, unpack
from equifactor.evaluation.references import Reference, file_reference
from equifactor.evaluation.row_store import ANSWER, Row
from equifactor.graph.marginals import Marginals
from equifactor.metrics import hellinger, kl, map_error, max_error, rmse, uai_score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.data import Instance
    from equifactor.graph import FactorGraph
    from equifactor.questions.result import Result

# The relative difference from the best known log-score that counts as equal: both have rounding errors.
_EQUAL_SHARE = 1e-6


def measure(result: Result, instance: Instance, reference: Marginals | None = None) -> dict[str, Any]:
    """Return the measures of one result by name; `score` is None if the right answer is unknown.

    `error`, `trivial_error` and `score` exist for every task with a known answer; a run without an answer scores 0.

    Args:
        result: the answer to this instance.
        instance: the instance with its right answers.
        reference: exact marginals for MAR; by default they are read from the file of the instance.
    """
    known = file_reference(instance, result.task) if reference is None else Reference("given", reference)
    kept = facts(result, instance.query(result.graph) if result.task is Task.MMAP else None)
    return {**{k: v for k, v in kept.items() if k != ANSWER}, **score(result.task, kept, known)}


def facts(result: Result, query: Sequence[int] | None = None) -> Row:
    """Return what a row keeps of an answer and of the trivial answer, as plain values that `score` needs.

    Args:
        result: the answer.
        query: for MMAP, the variables that it maximises over.
    """
    if result.task is Task.MAR:
        return {ANSWER: pack(result.graph, getattr(result, "marginals", None))}
    if result.task is Task.PR:
        return {"log_z": getattr(result, "log_z", None), "trivial_log_z": trivial_log_z(result.graph)}
    log_score = getattr(result, "log_score", None)
    trivial = trivial_assignment(result.graph)
    own: Row = {}
    if query is None:
        trivial_log_score = float(result.graph.log_score(trivial))
    else:
        answer = getattr(result, "assignment", None)
        own = {"claimed_log_score": log_score, "log_score_upper": None}
        if answer is not None:
            log_score, own["log_score_upper"] = sum_bounds(result.graph, query, answer)
        trivial_log_score = sum_bounds(result.graph, query, trivial)[0]
    return {
        **own,
        "log_score": log_score,
        "trivial_log_score": trivial_log_score,
        "upper_bound": result.upper_bound,
        "gap": result.gap,
        "zero_probability": log_score is not None and log_score == -math.inf,
        "proven": result.status is Status.OPTIMAL,
    }


def score(task: Task, kept: Row, reference: Reference) -> Row:
    """Return the measures of a row by name: the reference and, if it is known, the errors and the score.

    Args:
        task: the task of the run.
        kept: a row with the values of `facts`; the row of a killed run lacks them and scores 0.
        reference: the right answer; without a value there is no score.
    """
    exact = reference.value
    named: Row = {"reference": reference.label, "reference_value": exact if isinstance(exact, float) else None}
    if exact is None:
        return {**named, "score": None}
    if isinstance(exact, Marginals):
        try:
            return {**named, **_marginals(kept.get(ANSWER), exact)}
        except ModelError as error:  # the file belongs to another model
            return {**named, "reference": f"none: {error}", "score": None}
    if task is Task.PR:
        return {**named, **_log_z(kept, exact)}
    greedy = kept.get("trivial_log_score") if reference.trivial is None else reference.trivial
    return {**named, **_assignment(kept, exact, greedy)}


def _marginals(answer: str | None, exact: Marginals) -> Row:
    if answer is None:
        return _scored(None, None)
    found, uniform = unpack(answer)
    trivial = hellinger(exact, uniform)
    if found is None:
        return _scored(None, trivial)
    return {
        **_scored(hellinger(exact, found), trivial),
        "kl": kl(exact, found),
        "rmse": rmse(exact, found),
        "max_error": max_error(exact, found),
    }


def _log_z(kept: Row, exact: float) -> Row:
    def error(name: str) -> float | None:
        value = kept.get(name)
        # Compare first: the difference of two infinite numbers is NaN.
        return None if value is None else 0.0 if value == exact else abs(exact - value)

    return _scored(error("log_z"), error("trivial_log_z"))


def _assignment(kept: Row, best: float, greedy: float | None) -> Row:
    found = kept.get("log_score")
    trivial = None if greedy is None else abs(best) if greedy == -math.inf else max(0.0, best - greedy)
    if found is None:
        return _scored(None, trivial)
    # An assignment that is better than the best known one has no error.
    error = 0.0 if found >= best - _EQUAL_SHARE * max(1.0, abs(best)) else best - found
    return {**_scored(error, trivial), "map_error": float(map_error(best if error == 0.0 else found, best))}


def _scored(error: float | None, trivial: float | None) -> Row:
    points = 0.0 if error is None or trivial is None else float(uai_score(error, trivial))
    return {"error": error, "trivial_error": trivial, "score": points}


# ---- trivial answers ------------------------------------------------------------------------------------


def trivial_log_z(graph: FactorGraph) -> float:
    """Return ln Z with unary factors taken exactly and every larger table replaced by its mean. Cost O(T)."""
    total, unary = _split(graph)
    for a in range(graph.num_factors):
        if graph.structure.arity[a] > 1:
            table = graph.log_table(a)
            total += _log_sum(table.ravel()) - math.log(table.size)
    return total + sum(_log_sum(u) for i, u in enumerate(unary) if graph.observed is None or graph.observed[i] < 0)


def trivial_assignment(graph: FactorGraph) -> IntArray:
    """Return the greedy assignment [V]: variables in file order, ties to the first state. Cost O(T arity)."""
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
            index = tuple(slice(None) if x[j] < 0 else int(x[j]) for j in scopes[a])
            axes = [j for j in scopes[a] if x[j] < 0]
            others = tuple(k for k, j in enumerate(axes) if j != i)
            belief[i] = belief[i] + graph.log_table(a)[index].max(axis=others)
        x[i] = int(np.argmax(belief[i]))
    return x


def _split(graph: FactorGraph) -> tuple[float, list[FloatArray]]:
    """Return the sum of the constant factors, and the sum [card] of the unary factors of each variable, in logs."""
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
