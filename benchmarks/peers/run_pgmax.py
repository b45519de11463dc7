"""PGMax: flooding BP on configurations, jitted; unary tables are evidence. The first call (compilation) is left out."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from common import Batch, Model, best, main
from pgmax import fgraph, fgroup, infer, vgroup

_CLIP = -1e6  # The log value of zero, because PGMax has no true zeros.


def _log(table: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(table), _CLIP)


def _build(scopes: list[list[int]], card: int, num_vars: int, log_tables: np.ndarray) -> tuple[Any, Any, Any]:
    variables = vgroup.NDVarArray(num_states=card, shape=(num_vars,))
    graph = fgraph.FactorGraph(variable_groups=variables)
    group = fgroup.PairwiseFactorGroup(
        variables_for_factors=[[variables[i], variables[j]] for i, j in scopes], log_potential_matrix=log_tables
    )
    graph.add_factors(group)
    return variables, group, infer.build_inferer(graph.bp_state, backend="bp")


def _bp(request: dict[str, Any], temperature: float) -> dict[str, Any]:
    model = Model.load(request["model"])
    if len(set(model.card)) > 1 or any(len(s) != 2 for s in model.scopes):
        return {"skip": "this script builds pairwise models of one cardinality only"}
    variables, _, bp = _build(model.scopes, model.card[0], len(model.card), np.stack([_log(t) for t in model.tables]))
    arrays = bp.init(evidence_updates={variables: np.stack([_log(u) for u in model.unary])})
    run = jax.jit(lambda a: bp.run(a, num_iters=request["iterations"], damping=0.5, temperature=temperature))
    jax.block_until_ready(run(arrays))
    seconds = best(lambda: jax.block_until_ready(run(arrays)), request["repeats"])
    return {"seconds": seconds, "note": "float32"}


def _batch(request: dict[str, Any]) -> dict[str, Any]:
    batch = Batch.load(request["model"])
    unary, pair = batch.log_unary(), batch.log_pair()
    if not (batch.edges == batch.edges[0]).all():
        few = min(3, len(unary))

        def rebuild() -> None:
            for n in range(few):
                variables, _, bp = _build(batch.edges[n].tolist(), 2, unary.shape[1], pair[n])
                arrays = bp.init(evidence_updates={variables: unary[n]})
                jax.block_until_ready(bp.run(arrays, num_iters=request["iterations"], damping=0.5, temperature=1.0))

        seconds = best(rebuild, 1) * len(unary) / few
        return {"seconds": seconds, "note": f"rebuilt for each graph; from {few} of them"}
    variables, group, bp = _build(batch.edges[0].tolist(), 2, unary.shape[1], pair[0])

    def one(u: Any, p: Any) -> Any:
        arrays = bp.init(evidence_updates={variables: u}, log_potentials_updates={group: p})
        arrays = bp.run(arrays, num_iters=request["iterations"], damping=0.5, temperature=1.0)
        return infer.get_marginals(bp.get_beliefs(arrays))[variables]

    run = jax.jit(jax.vmap(one))
    found = np.asarray(jax.block_until_ready(run(unary, pair)))
    seconds = best(lambda: jax.block_until_ready(run(unary, pair)), request["repeats"])
    return {"seconds": seconds, "note": "jit(vmap), float32", "check": found[0, -1].tolist()}


main(
    {
        "sum-product": lambda r: _bp(r, 1.0),
        "max-product": lambda r: _bp(r, 0.0),
        "batch": _batch,
    }
)
