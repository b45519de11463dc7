"""The runs of `benchmarks.constants`: models with known answers, solvers, and the runs that exercise each module."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import equifactor as ef
from benchmarks.coverage import pairs, structured, wide, zeros
from equifactor.base.clock import Compiling

_g = ef.generators
MODELS: dict[str, Callable[[int], ef.FactorGraph]] = {
    "grid": lambda s: _g.ising_grid(18, 18, coupling_std=1.0, seed=s),
    "small grid": lambda s: _g.ising_grid(12, 12, coupling_std=1.0, seed=s),
    "large grid": lambda s: _g.ising_grid(25, 25, coupling_std=1.0, seed=s),
    "Potts": lambda s: _g.potts_grid(9, 9, states=4, seed=s),
    "large Potts": lambda s: _g.potts_grid(14, 14, states=4, seed=s),
    "pairs": lambda s: pairs(np.random.default_rng(s), 80, 1.0, 0.05),
    "all pairs": lambda s: pairs(np.random.default_rng(s), 30, 2.0, 1.0),
    "zeros": lambda s: zeros(np.random.default_rng(s), 80),
    "kinds": lambda s: structured(np.random.default_rng(s), 100),
    "wide tables": lambda s: wide(np.random.default_rng(s), 70),
    "noisy-or": lambda s: _g.noisy_or_network(30, 60, observed=0.5, seed=s),
    "code": lambda s: _g.ldpc(96, 48, seed=s),
    "formula": lambda s: _g.random_ksat(400, 4.1, seed=s),
    "small formula": lambda s: _g.random_ksat(24, 3.2, seed=s),
    "tree": lambda s: _g.random_tree(60, seed=s),
}
_SUMS = "grid", "Potts", "pairs", "zeros", "kinds", "wide tables"
_SMALL = "small grid", "Potts", "zeros", "kinds", "tree", "small formula"
_BEST = "large grid", "large Potts", "all pairs", "wide tables"
_KINDS = "noisy-or", "code", "formula", "small formula"
# Public models are read if EQUIFACTOR_DATA names their folder. All are at even places of their collections in the order
# of names, counted from 0. Those at odd places stay for tests of what was chosen.
_PUBLIC_SUMS = "MAR/DBN_16", "MAR/ObjectDetection_13", "MAR/linkage_21", "MAR/Promedus_17"
_PUBLIC_BEST = "Grids/grid20x20.f10.wrap", "Protein/pdb1mjc", "Promedas/or_chain_113.fg"
_DRAWS = 400  # Draws of `ef.sample`.


@dataclass(frozen=True)
class Run:
    """A solver on some models, for a time or until it ends.

    Attributes:
        spec: the text form of the solver.
        task: the task, or "draws" for the marginals of `ef.sample`.
        models: the names of the models.
        seconds: the time limit in CPU seconds; None for no limit.
        gap: whether the result is the distance of the bounds, or of the bound from the score, and not the error.
        seeds: draws of every model; errors of samplers need more.
    """

    spec: str
    task: str
    models: tuple[str, ...]
    seconds: float | None = 0.1
    gap: bool = False
    seeds: int = 4

    @property
    def unit(self) -> str:
        """What the result is."""
        if self.gap:
            return "nats between the bounds"
        return "mean total variation" if self.task in ("MAR", "draws") else "nats of error"

    @property
    def floor(self) -> float:
        """The result that better ones count as: searches end at the optimum, or some tenths of a nat below it."""
        return 0.1 if self.task == "MAP" and not self.gap else 1e-3

    def cases(self, seeds: int) -> list[tuple[str, int]]:
        """Return the models, each with this many seeds; public models have one."""
        public = "EQUIFACTOR_DATA" in os.environ
        return [(m, s) for s in range(seeds) for m in self.models if "/" not in m or (public and s == 0)]

    def known(self, model: str, seed: int) -> tuple[ef.FactorGraph, Any]:
        """Return a model, and the right answer where the run needs it."""
        task = "gap" if self.gap else "MAR" if self.task == "draws" else self.task
        return known(model, 0 if "/" in model else seed, task)

    def answer(self, model: str, seed: int) -> tuple[float, float]:
        """Return the result on one model, and its CPU seconds."""
        graph, want = self.known(model, seed)
        start, compiled = time.process_time(), Compiling.cpu
        if self.task == "draws":
            states = ef.sample(graph, _DRAWS, solver=self.spec, seed=seed).states
            seconds = time.process_time() - start - (Compiling.cpu - compiled)
            counts = np.bincount((graph.structure.state_ptr[:-1] + states).ravel(), minlength=len(want))
            return float(np.abs(counts / _DRAWS - want).sum() / 2 / graph.num_vars), seconds
        got = ef.solve(graph, self.task, self.spec, time_limit=self.seconds, seed=seed)
        seconds = time.process_time() - start - (Compiling.cpu - compiled)
        if self.gap:
            low = got.lower_bound if self.task == "PR" else getattr(got, "log_score", None)
            off = math.inf if low is None or got.upper_bound is None else got.upper_bound - low
        elif self.task == "MAR":  # the mean total variation
            p = got.marginals.values if hasattr(got, "marginals") else math.inf
            off = float(np.abs(p - want).sum() / 2 / graph.num_vars)
        else:
            off = abs(getattr(got, "log_z" if self.task == "PR" else "log_score", math.inf) - want)
        return float(off), seconds


@functools.cache
def known(model: str, seed: int, task: str) -> tuple[ef.FactorGraph, Any]:
    """Return a model with its marginals, ln Z or best known log score; None for the task `gap`."""
    if "/" in model:
        found = next(i for i in ef.data.collection(name=model.split("/")[0]) if i.key == model)
        marginals = found.marginals() if task == "MAR" else None
        answers = {"MAR": marginals and marginals.values, "PR": found.log_z, "MAP": found.map_log_score, "gap": None}
        return found.graph(), answers[task]
    graph = MODELS[model](seed)
    if task == "gap":
        return graph, None
    if task == "MAP":
        return graph, ef.solve(graph, "MAP", "auto", time_limit=1.0).log_score
    want = ef.solve(graph, task, "exact")
    return graph, want.marginals.values if task == "MAR" else want.log_z


RUNS = {
    "auto": Run("auto(memory_limit=1e-5)", "MAR", _SUMS, 0.3),
    "auto on public models": Run("auto", "MAR", _PUBLIC_SUMS, 0.3, seeds=1),
    "auto, ln Z": Run("auto(memory_limit=1e-5)", "PR", _SUMS, 0.3),
    "auto, exact": Run("auto", "MAR", _SMALL, None),
    "auto, MAP": Run("auto", "MAP", (*_BEST, *_PUBLIC_BEST), 0.15, gap=True, seeds=2),
    "auto, MAP of kinds": Run("auto", "MAP", _KINDS, 0.15, gap=True),
    "mini-buckets": Run("mini-buckets(memory_limit=1e-4)", "PR", _SUMS, gap=True),
    "mini-buckets, splits": Run(
        "mini-buckets(memory_limit=1e-6)", "PR", ("small grid", "pairs", "small formula"), 0.3, gap=True
    ),
    "conditioning": Run("conditioning(memory_limit=3e-5)", "MAR", ("small grid", *_SUMS[2:]), 0.5),
    "conditioning, cut short": Run("conditioning(memory_limit=1e-5)", "MAR", ("pairs", "wide tables"), 0.1),
    "srmp": Run("srmp(iterations=300)", "MAP", (*_BEST[2:], *_KINDS[:3]), 0.5, gap=True),
    "mplp": Run("mplp(iterations=300)", "MAP", (*_BEST[2:], *_KINDS[:3]), 0.5, gap=True),
    "srmp with cycles": Run("srmp(cycles=true)", "MAP", ("small grid", *_BEST), gap=True),
    "exact": Run("exact", "MAR", _SMALL, None),
    "exact, MAP": Run("exact", "MAP", _SMALL, None),
    "bp": Run("bp(engine=torch)", "MAR", ("small grid", *_SUMS[1:]), None),
    "trw": Run("trw", "PR", ("small grid", *_SUMS[1:]), None),
    "meanfield": Run("meanfield", "PR", ("small grid", *_SUMS[1:]), None),
    "regions": Run("regions(memory_limit=1e-4, start=4)", "MAR", _SUMS),
    "loop-bp": Run("loop-bp", "MAR", _SUMS),
    "blocks": Run("blocks(enumerate=false, memory_limit=1e-5)", "MAR", ("small grid", *_SUMS[1:])),
    "blocks, ln Z": Run("blocks(enumerate=false, memory_limit=1e-5)", "PR", ("small grid", *_SUMS[1:])),
    "blocks, draws": Run("blocks", "draws", ("small grid", *_SUMS[1:]), None),
    "gibbs": Run("gibbs", "MAR", _SUMS),
    "beam": Run("beam", "MAP", (*_BEST, "small formula"), seeds=2),
    "branch": Run("branch", "MAP", (*_BEST, "small grid"), gap=True),
    "local-search": Run("local-search", "MAP", (*_BEST, *_KINDS), seeds=2),
}

# The runs of each module, by the longest beginning of its name below `equifactor.solvers`.
EXERCISES = {
    "auto": ("auto", "auto on public models", "auto, ln Z", "auto, exact", "auto, MAP", "auto, MAP of kinds"),
    "auto.branch_worker": ("auto, MAP",),
    "auto.map_portfolio": ("auto, MAP",),
    "auto.native_search": ("auto, MAP of kinds",),
    "auto.possibility": ("auto, MAP of kinds",),
    "auto.table_forms": ("auto, MAP of kinds",),
    "auto.ladder_answers": ("auto", "auto on public models", "auto, ln Z"),
    "auto.sum": ("auto", "auto on public models", "auto, ln Z"),
    "bounds": ("mini-buckets",),
    "bounds.block_field": ("mini-buckets, splits",),
    "bounds.lower_side": ("mini-buckets", "mini-buckets, splits"),
    "cutsets": ("conditioning", "conditioning, cut short"),
    "duals": ("srmp", "mplp"),
    "duals.cycle_ascent": ("srmp with cycles",),
    "duals.dual_solvers": ("srmp", "mplp", "srmp with cycles"),
    "elimination": ("exact", "exact, MAP"),
    "messages.bp": ("bp",),
    "messages.meanfield": ("meanfield",),
    "messages.trw": ("trw",),
    "regions": ("regions",),
    "regions.loop": ("loop-bp",),
    "sampling": ("blocks",),
    "sampling.block_draws": ("blocks, draws",),
    "sampling.cutset_log_z": ("blocks, ln Z",),
    "sampling.gibbs": ("gibbs",),
    "sampling.chain_driver": ("blocks", "gibbs"),
    "sampling.running_batches": ("blocks", "gibbs"),
    "search.beam": ("beam",),
    "search.branch": ("branch",),
    "search.node": ("branch",),
    "search": ("local-search",),
}


def runs_of(module: str) -> list[str]:
    """Return the names of the runs that exercise a module, such as `sampling.blocks`."""
    found = [beginning for beginning in EXERCISES if module.startswith(beginning)]
    return list(EXERCISES[max(found, key=len)]) if found else []
