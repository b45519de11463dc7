"""The marginals of a network, compared with those of belief propagation: a mean with weights, and its error.

Five runs answer each graph: BP with damping 0.5 and 0.9, BP until it has settled, BP with loop corrections, and the
network. Where they agree, all are good. Where they differ, a small fitted model (`trust_model.py`) gives each run a
weight at each variable, from how far the runs are apart and whether they have settled (`trust_features.py`). Its last
output is the error of the mean, which becomes `Result.marginal_errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.clock import NotCompiledError
from equifactor.base.status import Status
from equifactor.graph import compile
from equifactor.graph.components import count_components
from equifactor.graph.marginals import Marginals
from equifactor.solvers.learned.trust_features import excess_edges, features
from equifactor.solvers.learned.trust_model import load_trust

if TYPE_CHECKING:
    from equifactor.base.status import Task
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.estimate import Estimate
    from equifactor.solving.solver import IterativeSolver, SolveContext

RUNS = ("BP", "damped BP", "settled BP", "loop-corrected BP", "the network")
# A damping and a number of iterations with which BP stays near its start, where it does not converge. On linkage its
# total variation is .034 and .023, at even and odd places, and that of BP with damping 0.5 is .088 and .084.
_DAMPED = 0.9
_DAMPED_ITERATIONS = 50
# Iterations of BP with damping 0.5 where it has not settled in the first run. On Promedus 1,000 give a score
# of 95 and 94, at even and odd places, and 200 give 80 and 81. On Pedigree it is 82 and 61 against 96 and 68.
_SETTLED_ITERATIONS = 1_000


def within_trust(
    own: list[Estimate], bp: IterativeSolver[Any], loops: IterativeSolver[Any],
    graphs: Sequence[FactorGraph], task: Task, context: SolveContext,
) -> list[Estimate]:  # fmt: skip
    """Return the estimates of a network with the mean of its marginals and those of three runs of BP.

    A graph without loops on which BP converges gets the marginals of BP, which are exact. If the time is up, estimates
    are returned as they are.

    Args:
        own: the estimates of the network.
        bp: belief propagation.
        loops: belief propagation with loop corrections.
        graphs: the graphs.
        task: MAR or PR.
        context: the context of the run.
    """
    found = list(own)
    chosen = [n for n, estimate in enumerate(own) if estimate.marginals is not None]
    if not chosen or context.clock.stopped:
        return found
    damped: IterativeSolver[Any] = replace(bp, damping=_DAMPED, iterations=_DAMPED_ITERATIONS)  # type: ignore[call-arg]
    quiet = replace(context, progress=None)
    asked = [graphs[n] for n in chosen]
    try:
        first = [*bp.run(asked, task, quiet)]
        settled = _settled(first, replace(bp, iterations=_SETTLED_ITERATIONS), asked, task, quiet)
        runs = [first, [*damped.run(asked, task, quiet)], settled, [*loops.run(asked, task, quiet)]]
    except NotCompiledError:
        return found
    together = [(n, [*(run[k] for run in runs), own[n]]) for k, n in enumerate(chosen)]
    # The trust was fitted on whole runs: with runs that were cut short the mean can be worse than every one of them.
    together = [(n, every) for n, every in together if all(_is_whole(e) for e in every)]
    if not together or context.clock.late > 0.0:
        return found
    answers = _judged([graphs[n] for n, _ in together], [every for _, every in together])
    for (n, _), answer in zip(together, answers, strict=True):
        found[n] = answer
    return found


def _settled(
    first: list[Estimate], solver: IterativeSolver[Any], graphs: Sequence[FactorGraph], task: Task,
    context: SolveContext,
) -> list[Estimate]:  # fmt: skip
    """Return the estimates of BP until it has settled; where the first run has converged they are its own."""
    found = list(first)
    rest = [n for n, estimate in enumerate(first) if estimate.status is not Status.CONVERGED]
    if rest:
        for n, estimate in zip(rest, solver.run([graphs[n] for n in rest], task, context), strict=True):
            found[n] = estimate
    return found


def _is_whole(run: Estimate) -> bool:
    return run.marginals is not None and run.status not in (Status.TIME_LIMIT, Status.INTERRUPTED)


def _judged(graphs: list[FactorGraph], runs: list[list[Estimate]]) -> list[Estimate]:
    """Return the estimate for each graph from its runs."""
    flat = compile(graphs)
    free = [np.concatenate([_free(g, r[k]) for g, r in zip(graphs, runs, strict=True)]) for k in range(len(RUNS))]
    change = np.array([[float(e.stats.get("change", 0.0)) for e in every] for every in runs])
    given = features(flat, free, np.nan_to_num(change, posinf=1.0))
    values, error, share = load_trust().combined(given, free, flat.var_of_state)
    forest = excess_edges(flat) < 0
    for n in np.flatnonzero(forest).tolist():
        forest[n] = _is_forest(graphs[n]) and runs[n][0].status is Status.CONVERGED
    alone = forest[flat.graph_of_var]
    share[alone], error[alone] = np.eye(len(RUNS))[0], 0.0
    values = np.where(alone[flat.var_of_state], free[0], values)
    # BP proves that a state is impossible, and then all runs agree on it.
    spread = np.where(np.max(free, axis=0) > 0.0, error[flat.var_of_state], 0.0)
    weights = np.stack([flat.sum_per_graph(flat.graph_of_var, share[:, k]) for k in range(len(RUNS))], axis=1)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    errors = np.split(spread, flat.graph_ptr["states"][1:-1])
    return [
        _mean(every, p, _errors(graph, e), w)
        for graph, every, p, e, w in zip(graphs, runs, flat.marginals(np.asarray(values)), errors, weights, strict=True)
    ]


def _mean(every: list[Estimate], marginals: Marginals, errors: Marginals, weights: FloatArray) -> Estimate:
    """Return the estimate of the network with other marginals, and the mean of ln Z with the weights [K] of a graph."""
    own = every[-1]
    known = [(w, e.log_z) for w, e in zip(weights.tolist(), every, strict=True) if e.log_z is not None]
    known = [(w, z) for w, z in known if np.isfinite(z) and w > 0.0]
    log_z = sum(w * z for w, z in known) / sum(w for w, _ in known) if known else own.log_z
    return replace(
        own, marginals=marginals, marginal_errors=errors, log_z=log_z,
        stats={**own.stats, "trust": float(weights[-1])},
        message=f"{own.message} {told_errors(errors)}".strip(),
    )  # fmt: skip


def told_errors(errors: Marginals) -> str:
    """Return a sentence on predicted errors of marginals."""
    largest = float(errors.values.max(initial=0.0))
    if largest == 0.0:
        return "The marginals are exact, because belief propagation is exact on this graph."
    return f"The predicted error of a marginal is {errors.values.mean():.1g} on average and at most {largest:.1g}."


def free_values(graph: FactorGraph, values: FloatArray, ptr: IntArray) -> FloatArray:
    """Return the part of the values [all states] that belongs to free variables; ptr is the first state of each."""
    if graph.observed is None:
        return values
    is_free = np.zeros(len(ptr) - 1, bool)
    is_free[graph.free_vars] = True
    return values[np.repeat(is_free, np.diff(ptr))]


def _free(graph: FactorGraph, run: Estimate) -> FloatArray:
    """Return the marginals of the free variables."""
    assert run.marginals is not None
    return free_values(graph, run.marginals.values, run.marginals.ptr)


def _errors(graph: FactorGraph, values: FloatArray) -> Marginals:
    """Return the errors of all states from those of the free variables; observed variables have the error 0."""
    ptr = graph.structure.state_ptr
    full = np.zeros(ptr[-1])
    is_free = np.zeros(graph.num_vars, bool)
    is_free[graph.free_vars] = True
    full[np.repeat(is_free, np.diff(ptr))] = values
    return Marginals(full, ptr)


def _is_forest(graph: FactorGraph) -> bool:
    """Return whether the free variables and their factors form no loop."""
    factors = np.count_nonzero(graph.structure.arity)
    nodes = len(graph.free_vars) + factors - count_components(graph.structure, graph.observed)
    return bool(graph.structure.num_edges == nodes)
