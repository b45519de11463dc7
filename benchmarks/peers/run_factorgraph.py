"""factorgraph: loopy BP in plain Python, without damping and with updates in place. A few iterations are timed."""

from __future__ import annotations

from typing import Any

import factorgraph
import numpy as np
from common import Batch, Model, best, main


def _build(card: list[int], unary: list[np.ndarray], scopes: list[list[int]], tables: list[np.ndarray]) -> Any:
    graph = factorgraph.Graph()
    for i, d in enumerate(card):
        graph.rv(str(i), d)
        graph.factor([str(i)], potential=unary[i])
    for scope, table in zip(scopes, tables):  # noqa: B905
        graph.factor([str(i) for i in scope], potential=table)
    return graph


def _bp(request: dict[str, Any]) -> dict[str, Any]:
    model = Model.load(request["model"])
    graph = _build(model.card, model.unary, model.scopes, model.tables)
    done = 0

    def work() -> None:
        nonlocal done
        done = graph.lbp(normalize=True, max_iters=1)[0]

    seconds = best(work, 2) * request["iterations"] / max(1, done)
    return {"seconds": seconds, "note": "undamped, from one iteration"}


def _batch(request: dict[str, Any]) -> dict[str, Any]:
    batch = Batch.load(request["model"])
    few = min(5, len(batch.fields))
    unary, pair = np.exp(batch.log_unary()), np.exp(batch.log_pair())

    def work() -> None:
        for n in range(few):
            graph = _build([2] * unary.shape[1], list(unary[n]), batch.edges[n].tolist(), list(pair[n]))
            graph.lbp(normalize=True, max_iters=request["iterations"])

    return {"seconds": best(work, 2) * len(unary) / few, "note": f"undamped, built each time; from {few} graphs"}


main({"sum-product": _bp, "batch": _batch})
