"""Exact marginals of many graphs that share one structure: planned once, eliminated together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.cores import Crew, crew_size
from equifactor.base.errors import ModelError, SolveError
from equifactor.base.status import Task
from equifactor.base.torch_device import check_device
from equifactor.factors.lowered_graph import lower_all
from equifactor.graph.reduction import without_observed
from equifactor.solvers.elimination.plan import Plan, plan
from equifactor.solvers.elimination.program import read_only
from equifactor.solvers.elimination.side_by_side import BatchElimination, runs_together

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph


_CHUNK_ENTRIES = 2**21  # Table entries that the CPU copies at a time: 16 MiB.
_CHUNK_WORK = 2**22  # Cluster entries that a thread sums between two checks of the clock, about 40 ms.


def exact_marginals(
    graphs: Sequence[FactorGraph],
    *,
    device: str = "cpu",
    dtype: Literal["float32", "float64"] = "float64",
    memory_limit: float = 4.0,
) -> tuple[FloatArray, FloatArray]:
    """Return marginals and ln Z of many graphs of one structure, such as training data.

    The graphs must share their `structure` object (those of one generator call do, and those of `with_potentials`) and
    the set of observed variables. The elimination is planned once. On the CPU, Numba runs one graph after another in
    the same few kilobytes (100,000 4 x 4 grids: a few seconds). On a GPU, torch eliminates a whole chunk at a time.

    Args:
        graphs: at least one graph.
        device: "cpu" or "cuda".
        dtype: float type of the tables on a GPU; the CPU always computes in float64.
        memory_limit: GiB for tables, of one graph on the CPU and of one chunk on a GPU.

    Returns:
        probabilities [N, X] over the states of the free variables in order (`FlatGraph.marginals` extends them to all
        variables), and log_z [N]. If every assignment has probability zero, log_z is -inf and the row is zero.

    Raises:
        ModelError: when the graphs differ in structure.
        SolveError: when the elimination does not fit the memory limit.
    """
    if not graphs:
        raise ModelError("exact_marginals needs at least one graph.")
    for n, graph in enumerate(graphs):
        if not same_structure(graphs[0], graph):
            raise ModelError(
                f"Graph {n} does not share its structure with graph 0. Build the graphs with `with_potentials`, or "
                "call solve(graphs, solver='exact'), which takes graphs of any structure."
            )
    if graphs[0].structure.kinds is not None:
        lowered = [g.graph for g in lower_all(graphs)]
        values, log_z = exact_marginals(lowered, device=device, dtype=dtype, memory_limit=memory_limit)
        return values[:, : int(graphs[0].card[graphs[0].free_vars].sum())], log_z  # auxiliary variables come last
    steps = plan_structure(graphs[0], memory_limit)
    if not steps.fits(memory_limit):
        raise SolveError(f"{steps.excess(memory_limit)} Raise memory_limit.")
    chunks = list(batch_sums(graphs, steps, device=device, dtype=dtype, memory_limit=memory_limit))
    return np.concatenate([p for p, _ in chunks]), np.concatenate([log_z for _, log_z in chunks])


def same_structure(g: FactorGraph, h: FactorGraph) -> bool:
    """Return whether two graphs share their structure and the set of observed variables, and so a plan."""
    if g.structure is not h.structure or (g.observed is None) != (h.observed is None):
        return False
    return (
        g.observed is h.observed
        or g.observed is None
        or h.observed is None
        or np.array_equal(g.observed < 0, h.observed < 0)
    )


def plan_structure(
    graph: FactorGraph, memory_limit: float | None = None, task: Task = Task.MAR, most_work: float = math.inf
) -> Plan:
    """Return a plan that holds for any tables over the graph's structure: it does not rely on zeros."""
    return plan(without_observed(graph), memory_limit=memory_limit, task=task, most_work=most_work)


def batch_sums(
    graphs: Sequence[FactorGraph],
    steps: Plan,
    *,
    marginals: bool = True,
    device: str = "cpu",
    dtype: Literal["float32", "float64"] = "float64",
    memory_limit: float = 4.0,
    clock: Clock | None = None,
    threads: int | None = None,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Return probabilities [n, X] (zero without `marginals`) and log_z [n], in chunks; ends early at the deadline.

    On a CPU threads share the chunks; None for all cores that are free.
    """
    clock = clock or Clock()
    if device != "cpu":
        check_device(device, "exact on a GPU")
        from equifactor.solvers.elimination.exact_batch_torch import TorchBatch

        engine = TorchBatch(steps)
        size = engine.chunk(memory_limit, np.dtype(dtype).itemsize)
        for n in range(0, len(graphs), size):
            if clock.stopped:
                return
            try:
                yield engine.sums(_tables(graphs[n : n + size], steps), device, dtype, marginals)
            except RuntimeError as error:
                if type(error).__name__ != "OutOfMemoryError":  # a class of torch
                    raise
                raise MemoryError from None
        return
    together = BatchElimination(steps) if runs_together(steps, len(graphs)) else None
    each = _CHUNK_WORK / max(1.0, steps.entries), _CHUNK_ENTRIES / max(1, len(graphs[0].log_phi))
    size = max(1, int(min(each))) if together is None else together.chunk
    parts: dict[int, tuple[FloatArray, FloatArray]] = {}

    def work(_: int, start: int, stop: int) -> None:
        tables = _tables(graphs[start:stop], steps)
        parts[start] = (
            numba_sums(tables, steps, marginals)
            if together is None
            else _sums_together(tables, steps, together, marginals)
        )

    with Crew(crew_size(threads, -(-len(graphs) // size))) as crew:
        crew.divide(len(graphs), size, work, stopped=lambda: clock.stopped)
    for n in range(0, len(graphs), size):
        if n not in parts:
            return
        yield parts.pop(n)


def _tables(graphs: Sequence[FactorGraph], steps: Plan) -> FloatArray:
    """Return tables [n, t]; `Exact` also runs single graphs on a GPU, along plans that rely on their zeros."""
    reduced = steps.reduced
    # A graph that shares the structure keeps its tables: a reduction of several graphs leaves out observed variables.
    tables = [reduced.graph.log_phi if g is reduced.original else g.log_phi for g in graphs]
    return np.concatenate(tables).reshape(len(graphs), reduced.graph.structure.num_entries)


def _sums_together(
    log_phi: FloatArray, steps: Plan, together: BatchElimination, marginals: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what `numba_sums` returns, computed side by side where the ranges of the tables allow it."""
    with np.errstate(all="ignore"):
        p, log_z, fits = together.sums(np.array(log_phi.T, order="C"), marginals)
    if not fits.all():
        p[~fits], log_z[~fits] = numba_sums(log_phi[~fits], steps, marginals)
    return p, log_z


def numba_sums(log_phi: FloatArray, steps: Plan, marginals: bool) -> tuple[FloatArray, FloatArray]:
    """Return probabilities [n, X] (zero without `marginals`) and log_z [n] of tables log_phi [n, t], in one call."""
    from equifactor.solvers.elimination.elimination_kernels import run_batch

    program = steps.program
    p = np.zeros((len(log_phi), int(program.clusters.dim.sum())))
    log_z = np.empty(len(log_phi))
    tables, work = program.tables(reuse=not marginals), program.workspace(marginals)
    none = np.zeros(0, np.int64)
    run_batch(
        read_only(log_phi), marginals, p, log_z, (none, none, np.zeros((0, 0))), tuple(program.groups),
        tuple(program.clusters), tuple(tables), tuple(work),
    )  # fmt: skip
    return p, log_z
