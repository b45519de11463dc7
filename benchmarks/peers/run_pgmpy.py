"""pgmpy: exact marginals by a junction tree (`BeliefPropagation`); it has no loopy BP."""

from __future__ import annotations

from typing import Any

from common import Model, best, main
from pgmpy.factors.discrete import DiscreteFactor
from pgmpy.inference import BeliefPropagation
from pgmpy.models import DiscreteMarkovNetwork
from pgmpy.readwrite import UAIReader


def _build(model: Model) -> DiscreteMarkovNetwork:
    network = DiscreteMarkovNetwork()
    names = [f"v{i}" for i in range(len(model.card))]
    network.add_nodes_from(names)
    for scope, table in [([i], u) for i, u in enumerate(model.unary)] + list(zip(model.scopes, model.tables)):  # noqa: B905
        for a in scope:
            for b in scope:
                if a < b:
                    network.add_edge(names[a], names[b])
        network.add_factors(DiscreteFactor([names[i] for i in scope], table.shape, table))
    return network


def _exact(request: dict[str, Any]) -> dict[str, Any]:
    model = Model.load(request["model"])
    network = _build(model)

    found: list[float] = []

    def work() -> None:
        nonlocal found
        engine = BeliefPropagation(network)
        engine.calibrate()
        for i in range(len(model.card)):
            values = engine.query([f"v{i}"], show_progress=False).values
            found = (values / values.sum()).tolist()

    return {"seconds": best(work, 1), "note": "junction tree, one query per variable", "check": found}


def _read(request: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": best(lambda: UAIReader(request["file"]).get_model(), 1)}


main({"exact": _exact, "read": _read})
