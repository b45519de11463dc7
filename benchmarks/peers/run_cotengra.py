"""cotengra: Z by a greedy contraction, all marginals as its gradient by autograd (numpy)."""

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import cotengra
import numpy as np
from common import Model, best, main


def _exact(request: dict[str, Any]) -> dict[str, Any]:
    model = Model.load(request["model"])
    # Every table is scaled to a maximum of 1, so that only the product of many tables can underflow.
    tables = [t / t.max() for t in model.tables]
    unary = [u / u.max() for u in model.unary]
    terms = [(i,) for i in range(len(unary))] + [tuple(s) for s in model.scopes]
    sizes = dict(enumerate(model.card))
    found: list[float] = []

    def work() -> None:
        nonlocal found
        optimizer = cotengra.RandomGreedyOptimizer(max_repeats=32, seed=0)
        tree = cotengra.array_contract_tree(terms, (), sizes, optimize=optimizer)
        if tree.contraction_width() > 24:
            raise MemoryError(f"its largest tensor has 2^{tree.contraction_width():.0f} entries")

        def log_z(vectors: list[Any]) -> Any:
            return anp.log(tree.contract([*vectors, *tables], backend="autograd"))

        gradient = autograd.grad(log_z)(unary)
        found = (unary[-1] * gradient[-1]).tolist()  # p(x) = u(x) d ln Z / d u(x)

    try:
        seconds = best(work, request["repeats"])
    except MemoryError as error:
        return {"skip": f"refused here: {error}"}
    note = "32 random greedy orders"
    if not np.isfinite(found).all():
        return {"skip": f"{seconds:.3g} s, but the product underflows and there is no answer"}
    return {"seconds": seconds, "note": note, "check": found}


main({"exact": _exact})
