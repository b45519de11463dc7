"""Messages of PGMax through its own kinds of factors: seconds per iteration and beliefs.

The script is run as `python kinds_of_pgmax.py REQUEST` and prints `{"seconds": ..}` for one iteration. REQUEST is a
JSON object:

model       file of `scopes` [F, k] with the child or indicator last, and of log `evidence` [V, 2]; for enumerated
            factors also `configurations` [n, k] and `log_values` [F, n]
kind        or, and, pool or enumerated
semiring    sum or max
iterations  number of iterations
repeats     number of repeats
answer      file for the answer: marginals [V] of state 1, or states [V]
"""

from __future__ import annotations

import json
import sys
import time

import jax
import numpy as np
from pgmax import fgraph, fgroup, infer, vgroup

request = json.loads(sys.argv[1])
data = np.load(request["model"])
variables = vgroup.NDVarArray(num_states=2, shape=(len(data["evidence"]),))
scopes = [[variables[i] for i in scope] for scope in data["scopes"].tolist()]
groups = {"or": fgroup.ORFactorGroup, "and": fgroup.ANDFactorGroup, "pool": fgroup.PoolFactorGroup}
if request["kind"] == "enumerated":
    group = fgroup.EnumFactorGroup(
        variables_for_factors=scopes, factor_configs=data["configurations"], log_potentials=data["log_values"]
    )
else:
    group = groups[request["kind"]](variables_for_factors=scopes)
graph = fgraph.FactorGraph(variable_groups=variables)
graph.add_factors(group)
bp = infer.build_inferer(graph.bp_state, backend="bp")
arrays = bp.init(evidence_updates={variables: data["evidence"]})
is_max = request["semiring"] == "max"


def runner(iterations: int):
    """Return a compiled function that runs the damped iterations."""
    run = jax.jit(lambda a: bp.run(a, num_iters=iterations, damping=0.5, temperature=0.0 if is_max else 1.0))
    return lambda: jax.block_until_ready(run(arrays))


def seconds(iterations: int) -> float:
    """Return the least CPU time of several runs, without the first run, which compiles."""
    run = runner(iterations)
    run()
    best = float("inf")
    for _ in range(request["repeats"]):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


few, many = 2, 2 + request["iterations"]
each = (seconds(many) - seconds(few)) / (many - few)
beliefs = bp.get_beliefs(runner(many)())
answer = infer.decode_map_states(beliefs) if is_max else infer.get_marginals(beliefs)
np.save(request["answer"], np.asarray(answer[variables] if is_max else answer[variables][:, 1]))
print(json.dumps({"seconds": each}))
