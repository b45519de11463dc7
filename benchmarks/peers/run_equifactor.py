"""equifactor: the work of every row."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from common import Batch, Model, best, main

import equifactor as ef


def _graph(model: Model) -> ef.FactorGraph:
    unary = [([i], u) for i, u in enumerate(model.unary)]
    return ef.FactorGraph(model.card, [*unary, *zip(model.scopes, model.tables, strict=True)])


def _bp(
    request: dict[str, Any], semiring: Literal["sum", "max"], schedule: Literal["parallel", "residual"]
) -> dict[str, Any]:
    """Measure only the iterations, as for the peers, from fresh messages.

    The other work of `solve` is done before. It includes removing states that zeros exclude and observing variables
    with one remaining state. Only the remaining messages are passed and counted.
    """
    from equifactor.graph import compile
    from equifactor.graph.reduction import without_impossible_states
    from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
    from equifactor.solving.solver import SolveContext

    model = Model.load(request["model"])
    (reduced,) = without_impossible_states([_graph(model)])
    if reduced is None:
        return {"skip": "the model has no possible assignment"}
    flat = compile(reduced.graph)
    messages = sum(g.num_factors * len(g.shape) for g in flat.groups if len(g.shape) > 1)
    settings = BpSettings(semiring, schedule, 0.5, 0.0, 0)
    new_engine(flat, settings, SolveContext(), "numba").sweep(1)  # loads the kernels
    engines = iter([new_engine(flat, settings, SolveContext(), "numba") for _ in range(request["repeats"])])
    changes = []
    seconds = best(lambda: changes.append(next(engines).sweep(request["iterations"])), request["repeats"])
    notes = []
    if messages < (all_messages := sum(map(len, model.scopes))):
        notes.append(f"{messages:,} messages: solve drops {all_messages - messages:,} of forced variables")
    if schedule == "residual":
        notes.append("one factor at a time, by estimated residual")
        if not changes[0].all():
            notes.append("REACHED ITS FIXED POINT, so made fewer updates")
    return {"seconds": seconds, "count": messages * request["iterations"], "note": "; ".join(notes)}


def _batch_graphs(batch: Batch) -> list[ef.FactorGraph]:
    """Return the graphs, with one shared structure object if the edges are the same."""
    count, num_vars = batch.fields.shape
    num_edges = batch.couplings.shape[1]
    same = bool((batch.edges == batch.edges[0]).all())
    log_phi = np.concatenate([batch.log_unary().reshape(count, -1), batch.log_pair().reshape(count, -1)], axis=1)
    scope_ptr = np.concatenate((np.arange(num_vars), num_vars + 2 * np.arange(num_edges + 1)))
    graphs: list[ef.FactorGraph] = []
    for n in range(count):
        if graphs and same:
            graphs.append(graphs[0].with_potentials(log_phi[n], log=True))
            continue
        scopes = np.concatenate((np.arange(num_vars), batch.edges[n].ravel()))
        graphs.append(ef.FactorGraph.from_arrays([2] * num_vars, scopes, log_phi[n], scope_ptr=scope_ptr, log=True))
    return graphs


def _batch(request: dict[str, Any]) -> dict[str, Any]:
    """Measure iterations from fresh messages and all beliefs. Compilation does not count."""
    from equifactor.graph import compile
    from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
    from equifactor.solving.solver import SolveContext

    flat = compile(_batch_graphs(Batch.load(request["model"])))
    settings = BpSettings("sum", "parallel", 0.5, 0.0, 0)

    def work() -> Any:
        engine = new_engine(flat, settings, SolveContext(), "numba")
        engine.sweep(request["iterations"])
        return engine.answers()

    marginal = flat.marginals(work().probabilities)[0][-1].tolist()
    note = "compiled before, beliefs and ln Z included"
    return {"seconds": best(work, request["repeats"]), "note": note, "check": marginal}


def _batch_call(request: dict[str, Any]) -> dict[str, Any]:
    graphs = _batch_graphs(Batch.load(request["model"]))
    spec = f"bp(damping=0.5, iterations={request['iterations']}, tolerance=0)"
    ef.solve(graphs, "MAR", spec)
    return {
        "seconds": best(lambda: ef.solve(graphs, "MAR", spec), request["repeats"]),
        "note": "the whole call of solve: compile, iterate, one Result per graph",
    }


def _exact(request: dict[str, Any]) -> dict[str, Any]:
    graph = _graph(Model.load(request["model"]))
    result = ef.solve(graph, "MAR", request.get("solver", "exact(memory_limit=8)"))  # loads the kernels
    if not result.answered:
        return {"skip": f"{result.status}: {result.message}"}
    seconds = best(lambda: ef.solve(graph, "MAR", request.get("solver", "exact(memory_limit=8)")), request["repeats"])
    note = f"{result.status}, planning included"
    return {"seconds": seconds, "note": note, "check": result.marginals[-1].tolist()}


def _map(request: dict[str, Any]) -> dict[str, Any]:
    graph = _graph(Model.load(request["model"]))
    result = ef.solve(graph, "MAP", "auto", time_limit=30)  # loads the kernels
    repeats = request["repeats"] if result.seconds < 5 else 1
    seconds = best(lambda: ef.solve(graph, "MAP", "auto", time_limit=30), repeats)
    return {"seconds": seconds, "note": f"auto: {result.status}", "check": [getattr(result, "log_score", None)]}


def _read(request: dict[str, Any]) -> dict[str, Any]:
    ef.read_graph(request["file"])
    return {"seconds": best(lambda: ef.read_graph(request["file"]), request["repeats"])}


main(
    {
        "sum-product": lambda r: _bp(r, "sum", "parallel"),
        "max-product": lambda r: _bp(r, "max", "parallel"),
        "residual sum-product": lambda r: _bp(r, "sum", "residual"),
        "batch": _batch,
        "batch-call": _batch_call,
        "exact": _exact,
        "map": _map,
        "read": _read,
    }
)
