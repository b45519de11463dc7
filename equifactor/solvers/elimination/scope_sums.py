"""Exact probabilities of chosen sets of variables, all of them by one elimination.

Every set of two or more variables has a probe: in a factor over exactly these variables, or in an added factor of ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status, Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.solvers.elimination.eliminate import Sums, sum_out
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.plan import Plan, plan
from equifactor.solvers.elimination.probes import Probes

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray

    Scope = tuple[int, ...]

MAX_BITS = 30.0  # bits: a table of 2^30 entries takes 8 GiB, and no larger one is begun


@dataclass(frozen=True, eq=False)
class ScopePlan:
    """A plan for the probabilities of some scopes, with its cost; `run` runs it."""

    steps: Plan  # plan of the free part, with the probes; unfinished if no order fits
    reduced: ReducedGraph
    scopes: tuple[Scope, ...]  # as asked for, in the numbers of the graph
    watched: tuple[Scope, ...]  # their free variables, in those of the free part
    probes: Probes | None = None  # None if the plan is unfinished or too large
    number: dict[frozenset[int], int] | None = None  # number of the probe for each set of variables

    def run(self, clock: Clock) -> list[FloatArray] | None:
        """Return one array per scope, of the shape of its states, that sums to 1; None when the clock stopped it."""
        assert self.probes is not None  # since it fits
        assert self.number is not None
        answer = self._run_plain(clock) if self._is_plain() else self._run_kernels(clock)
        if answer is None:
            return None
        sums, tables = answer
        if sums.p is None:
            raise SolveError(Status.ZERO_PROBABILITY.advice)
        s = self.reduced.graph.structure
        found = []
        for scope, free in zip(self.scopes, self.watched, strict=True):
            p: FloatArray = np.ones(())
            if len(free) == 1:
                p = sums.p[s.state_ptr[free[0]] : s.state_ptr[free[0] + 1]]
            elif free:
                axes = self.probes.axes(free)
                p = tables[self.number[frozenset(free)]].reshape(s.card[list(free)][axes]).transpose(np.argsort(axes))
            found.append(self.reduced.placed(scope, p / p.sum()))
        return found

    def _is_plain(self) -> bool:
        if uses_kernels("elimination"):
            return False
        return plain_is_better(self.steps.plain_seconds(), self.steps.seconds(), "elimination")

    def _run_plain(self, clock: Clock) -> tuple[Sums, list[FloatArray]] | None:
        """Return the sums, and the weights of the probed scopes, by plain NumPy."""
        from equifactor.solvers.elimination.plain_elimination import plain_separators

        assert self.probes is not None
        model = self.probes.structure, self.probes.order, self.steps.reduced.graph.log_phi
        return plain_separators(*model, self.probes.clusters.tolist(), clock)

    def _run_kernels(self, clock: Clock) -> tuple[Sums, list[FloatArray]] | None:
        """Return the same by kernels."""
        assert self.probes is not None
        program = self.steps.program
        memory = program.tables(reuse=False), program.workspace(marginals=True)
        sums = sum_out(program, self.steps.reduced.graph.log_phi, clock, memory=memory)
        if sums is None:
            return None
        starts = self.probes.starts(program).tolist()
        sizes = program.message_sizes[self.probes.clusters].tolist()
        return sums, [memory[0].arena[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def plan_scopes(
    graph: FactorGraph,
    scopes: Sequence[Sequence[int]],
    *,
    memory_limit: float,
    tries: int = 256,
    most_work: float = math.inf,
) -> ScopePlan | None:
    """Plan the probabilities of several scopes at once; return None if every assignment has probability zero.

    Args:
        graph: a graph that has only tables, with its evidence.
        scopes: variables of the graph, observed ones included.
        memory_limit: GiB above which planning stops.
        tries: most elimination orders to try.
        most_work: list operations after which planning ends, about 1e8 per second.
    """
    reduced = to_free_part(graph)
    if reduced is None:
        return None
    s = reduced.graph.structure
    place = np.full(graph.num_vars, -1)
    own = np.arange(graph.num_vars) if reduced.variables is None else reduced.variables
    place[own] = np.arange(len(own))
    asked = tuple(tuple(int(i) for i in scope) for scope in scopes)
    watched = tuple(tuple(n for n in place[list(scope)].tolist() if n >= 0) for scope in asked)
    wanted = {frozenset(scope): scope for scope in watched if len(scope) > 1}
    factors = {frozenset(s.scope(a).tolist()): a for a in range(s.num_factors)}
    added = [scope for key, scope in wanted.items() if key not in factors]
    factors |= {frozenset(scope): s.num_factors + n for n, scope in enumerate(added)}
    together = _as_reduced(_with_factors(s, added, tables=False), np.zeros(0))
    steps = plan(together, memory_limit=memory_limit, tries=tries, most_work=most_work)
    if not isinstance(steps.found, Order) or max((_bits(scope, s.card) for scope in watched), default=0.0) >= MAX_BITS:
        return ScopePlan(steps, reduced, asked, watched)
    probes = Probes(_with_factors(s, added, tables=True), steps.found, np.array([factors[key] for key in wanted], int))
    log_phi = np.concatenate((reduced.graph.log_phi, np.zeros(probes.structure.num_entries - s.num_entries)))
    steps = Plan(_as_reduced(probes.structure, log_phi), probes.order)
    return ScopePlan(steps, reduced, asked, watched, probes, {key: n for n, key in enumerate(wanted)})


def too_large(steps: ScopePlan, memory_limit: float) -> str:
    """Return the cost of the plan in words if it exceeds the limit; empty if it fits."""
    bits = max((_bits(scope, steps.reduced.graph.card) for scope in steps.watched), default=0.0)
    if bits >= MAX_BITS:
        return f"a table of 2^{bits:.0f} entries"
    if steps.steps.fits(memory_limit, Task.MAR):
        return ""
    found, limit = steps.steps, f"the limit of {memory_limit:g} GiB"
    return f"{found.cost}, more than {limit}" if found.finished else f"more memory than {limit}"


def _bits(scope: Sequence[int], card: IntArray) -> float:
    return float(np.log2(card[list(scope)]).sum())


def _with_factors(s: Structure, scopes: list[Scope], *, tables: bool) -> Structure:
    """Return the structure with one more factor for each scope; without tables, which may be too large to build."""
    sizes = [int(np.prod(s.card[list(scope)])) if tables else 0 for scope in scopes]
    return Structure.trusted(
        s.card,
        np.concatenate((s.scope_ptr, s.num_edges + ptr_of([len(scope) for scope in scopes])[1:])),
        np.concatenate((s.scope_vars, np.array([i for scope in scopes for i in scope], np.int64))),
        np.concatenate((s.table_ptr, s.num_entries + ptr_of(sizes)[1:])),
    )


def _as_reduced(structure: Structure, log_phi: FloatArray) -> ReducedGraph:
    graph = FactorGraph.trusted(structure, log_phi)
    return ReducedGraph(graph, graph)
