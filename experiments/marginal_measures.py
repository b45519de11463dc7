"""How far the marginals of a solver are from the exact ones, on generated graphs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor import ModelError, Task, metrics, solve
from experiments.marginal_experiment import GraphFamily, SolverLine

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals


def measured(generator: str, solver: str, device: str = "cpu") -> dict[str, float]:
    """KL and RMSE on the graphs of a generator, with standard errors over graphs."""
    graphs, exact = _graphs_and_answers(generator)
    answers = [r.marginals for r in solve(list(graphs), "MAR", _without_tolerance(solver), device=device)]
    if any(a is None for a in answers):
        raise ValueError(f"{solver} left a graph without an answer")
    given = [a for a in answers if a is not None]
    kl = metrics.summarize([metrics.kl(p, q) for p, q in zip(exact, given, strict=True)])
    rmse = metrics.pooled_rmse(exact, given)
    return {"kl": kl.mean, "kl_stderr": kl.stderr, "rmse": rmse.mean, "rmse_stderr": rmse.stderr, "graphs": len(given)}


def measured_on_family(family: GraphFamily, solver: str, device: str = "cpu") -> dict[str, Any]:
    """The same on a family; a sentence where the solver does not take its graphs."""
    try:
        return dict(measured(family.test, solver, device))
    except ModelError as error:
        return {"kl": None, "refused": str(error)}


def best_candidate(line: SolverLine, generator: str) -> tuple[str, dict[str, Any]]:
    """The candidate of the lowest KL on the graphs of a generator, and the KL of each; the solver where it has none."""
    if not line.tune:
        return line.solver, {}
    kl = {solver: measured(generator, solver)["kl"] for solver in line.tune}
    return min(kl, key=lambda solver: kl[solver]), {"tuning_kl": kl}


def _without_tolerance(solver: str) -> str:
    """A model file runs exactly the steps it is asked for."""
    if solver.endswith(".safetensors"):
        return f"{solver}(tolerance=0)"
    return solver.replace(".safetensors(", ".safetensors(tolerance=0, ")


@functools.lru_cache(maxsize=32)  # every run of a process is judged on the same graphs
def _graphs_and_answers(generator: str) -> tuple[Sequence[FactorGraph], list[Marginals]]:
    from equifactor.graph.marginals import Marginals
    from equifactor.training.data_sources import read_source
    from equifactor.training.targets import with_targets

    graphs, targets, left_out = with_targets(read_source(generator), Task.MAR)
    if left_out:
        raise ValueError(f"test graphs must all have an exact answer: {left_out[0]}")
    if any(g.observed is not None for g in graphs):
        raise ValueError(f"{generator}: test graphs must have no variable that is forced by zeros")
    return graphs, [Marginals(np.asarray(t), g.structure.state_ptr) for g, t in zip(graphs, targets, strict=True)]
