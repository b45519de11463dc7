"""pyAgrum: exact marginals of Markov random fields by Shafer-Shenoy. Models are built in code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyagrum as gum
from common import Batch, Model, best, main


def _build(card: list[int], unary: list[np.ndarray], scopes: list[list[int]], tables: list[np.ndarray]) -> Any:
    mrf = gum.MarkovRandomField()
    for i, d in enumerate(card):
        mrf.add(gum.LabelizedVariable(f"v{i}", "", d))
    for scope, table in [([i], u) for i, u in enumerate(unary)] + list(zip(scopes, tables)):  # noqa: B905
        # In pyAgrum the first variable of a factor is fastest, hence the order F below.
        names = [f"v{i}" for i in scope]
        mrf.addFactor(names)
        factor = mrf.factor(names)
        order = [scope.index(int(name[1:])) for name in factor.names]
        factor.fillWith(np.transpose(table, order).ravel(order="F").tolist())
    return mrf


def _infer(mrf: Any, num_vars: int) -> list[Any]:
    engine = gum.ShaferShenoyMRFInference(mrf)
    engine.makeInference()
    return [engine.posterior(f"v{i}").tolist() for i in range(num_vars)]


def _exact(request: dict[str, Any]) -> dict[str, Any]:
    model = Model.load(request["model"])
    mrf = _build(model.card, model.unary, model.scopes, model.tables)
    seconds = best(lambda: _infer(mrf, len(model.card)), request["repeats"])
    marginal = _infer(mrf, len(model.card))[-1]
    return {"seconds": seconds, "note": "Shafer-Shenoy, all posteriors", "check": marginal}


def _batch(request: dict[str, Any]) -> dict[str, Any]:
    batch = Batch.load(request["model"])
    few = min(20, len(batch.fields))
    unary, pair = np.exp(batch.log_unary()), np.exp(batch.log_pair())

    def work() -> None:
        for n in range(few):
            mrf = _build([2] * unary.shape[1], list(unary[n]), batch.edges[n].tolist(), list(pair[n]))
            _infer(mrf, unary.shape[1])

    return {"seconds": best(work, 2) * len(unary) / few, "note": f"other work: exact, built each time; from {few}"}


def _read(request: dict[str, Any]) -> dict[str, Any]:
    seconds = best(lambda: gum.loadMRF(request["file"]), request["repeats"])
    return {"seconds": seconds, "note": "reads the tables in the wrong order"}


main({"exact": _exact, "batch": _batch, "read": _read})
