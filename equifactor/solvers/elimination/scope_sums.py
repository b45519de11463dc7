"""Exact probabilities of chosen sets of variables, all of them by one elimination.

Every set gets a variable of one state that touches all of it and is eliminated before all others. The message of that
cluster is over the set, and the way down overwrites every message by the probabilities of what it is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.pointers import ptr_of
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.graph.structure import Structure
from equifactor.result import Task
from equifactor.solvers.elimination.eliminate import sum_out
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.plan import Plan, plan

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.typing import FloatArray, IntArray

MAX_BITS = 30.0  # A table of 2^30 entries takes 8 GiB: nothing larger is begun.


@dataclass(frozen=True, eq=False)
class ScopePlan:
    """How the probabilities of some scopes will be found, and what that costs; `run` does it."""

    steps: Plan  # of the free part, with a watcher for each scope that has free variables; unfinished where none fits
    reduced: ReducedGraph
    scopes: tuple[tuple[int, ...], ...]  # as asked for, in the numbers of the graph
    watched: tuple[tuple[int, ...], ...]  # their free variables, in those of the free part

    def run(self, clock: Clock) -> list[FloatArray] | None:
        """One array per scope, of the shape of its states, that sums to 1; None when the clock stopped the work."""
        program = self.steps.program
        memory = program.tables(reuse=False), program.workspace(marginals=True)
        sums = sum_out(program, self.steps.reduced.graph.log_phi, clock, memory=memory)
        if sums is None:
            return None
        tables, order = memory[0], self.steps.found
        assert isinstance(order, Order)  # since there is a program
        found, watcher = [], 0
        for scope, free in zip(self.scopes, self.watched, strict=True):
            if not free:
                found.append(self.reduced.placed(scope, np.ones(())))
                continue
            start = tables.start[program.num_groups + watcher]
            places = order.separators[order.sep_ptr[watcher] : order.sep_ptr[watcher + 1]]
            variables = order.variables[places]
            shape = self.steps.reduced.graph.card[variables]
            p = tables.arena[start : start + int(np.prod(shape))].reshape(shape)
            axes = [int(np.flatnonzero(variables == i)[0]) for i in free]
            found.append(self.reduced.placed(scope, p.transpose(axes) / p.sum()))
            watcher += 1
        return found


def plan_scopes(
    graph: FactorGraph,
    scopes: Sequence[Sequence[int]],
    *,
    memory_limit: float,
    tries: int = 256,
    most_work: float = math.inf,
) -> ScopePlan | None:
    """Plan the probabilities of several scopes at once; None where every assignment has probability zero.

    Args:
        graph: of tables alone, with its evidence.
        scopes: variables of the graph, observed ones included.
        memory_limit: GiB above which planning stops.
        tries: most elimination orders to try.
        most_work: list operations after which planning ends, about 1e8 per second.
    """
    reduced = to_free_part(graph)
    if reduced is None:
        return None
    place = np.full(graph.num_vars, -1)
    own = np.arange(graph.num_vars) if reduced.variables is None else reduced.variables
    place[own] = np.arange(len(own))
    watched = tuple(tuple(n for n in place[list(scope)].tolist() if n >= 0) for scope in scopes)
    free = [scope for scope in watched if scope]
    together = _with_scopes(reduced.graph.structure, _new_cliques(reduced.graph.structure, free))
    steps = plan(_as_reduced(together, np.zeros(0)), memory_limit=memory_limit, tries=tries, most_work=most_work)
    asked = tuple(tuple(int(i) for i in scope) for scope in scopes)
    if isinstance(steps.found, Order) and max(map(_bits, free, [reduced.graph.card] * len(free)), default=0) < MAX_BITS:
        structure = _with_scopes(reduced.graph.structure, free, watchers=True)
        added = structure.num_entries - reduced.graph.structure.num_entries
        log_phi = np.concatenate((reduced.graph.log_phi, np.zeros(added)))
        steps = Plan(_as_reduced(structure, log_phi), _watchers_first(structure, steps.found, len(free)))
    return ScopePlan(steps, reduced, asked, watched)


def too_large(steps: ScopePlan, memory_limit: float) -> str:
    """What the plan would cost, in words, where that is over the limit; empty where it fits."""
    if any(_bits(scope, steps.reduced.graph.card) >= MAX_BITS for scope in steps.watched):
        bits = max(_bits(scope, steps.reduced.graph.card) for scope in steps.watched)
        return f"a table of 2^{bits:.0f} entries"
    return "" if steps.steps.fits(memory_limit, Task.MAR) else steps.steps.cost_of(Task.MAR)


def _bits(scope: Sequence[int], card: IntArray) -> float:
    return float(np.log2(card[list(scope)]).sum())


def _new_cliques(s: Structure, scopes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The scopes that lie within no factor, which an order has to be told to keep together."""
    by_variable = np.argsort(s.scope_vars, kind="stable")
    factors = s.factor_of_edge[by_variable]
    ptr = ptr_of(np.bincount(s.scope_vars, minlength=s.num_vars))

    def is_new(scope: tuple[int, ...]) -> bool:
        around = [set(factors[ptr[i] : ptr[i + 1]].tolist()) for i in scope]
        return len(scope) > 1 and not set.intersection(*around)

    return [scope for scope in scopes if is_new(scope)]


def _with_scopes(s: Structure, scopes: list[tuple[int, ...]], *, watchers: bool = False) -> Structure:
    """The structure with one more factor for each scope, and with a variable of one state in each on demand."""
    names = [(s.num_vars + n,) if watchers else () for n in range(len(scopes))]
    sizes = [int(np.prod(s.card[list(scope)])) if watchers else 0 for scope in scopes]
    more = np.array([i for name, scope in zip(names, scopes, strict=True) for i in (*name, *scope)], np.int64)
    lengths = [len(scope) + watchers for scope in scopes]
    arrays = (
        np.concatenate((s.card, np.ones(len(scopes) if watchers else 0, np.int64))),
        np.concatenate((s.scope_ptr, s.num_edges + ptr_of(lengths)[1:])),
        np.concatenate((s.scope_vars, more)),
        np.concatenate((s.table_ptr, s.num_entries + ptr_of(sizes)[1:])),
    )
    for array in arrays:  # Numba compiles anew for writeable arrays.
        array.flags.writeable = False
    return Structure(*arrays)


def _watchers_first(structure: Structure, order: Order, count: int) -> Order:
    """An order of the variables that are not watchers, after the watchers."""
    from equifactor.solvers.elimination import order_kernels as kernels

    ptr, adj = kernels.adjacency(structure.num_vars, structure.scope_ptr, structure.scope_vars)
    variables = np.concatenate((np.arange(structure.num_vars - count, structure.num_vars), order.variables))
    sep_ptr, separators, parent = kernels.clusters(variables, ptr, adj)
    return Order(variables, sep_ptr, separators, parent, order.tries)


def _as_reduced(structure: Structure, log_phi: FloatArray) -> ReducedGraph:
    graph = FactorGraph.trusted(structure, log_phi)
    return ReducedGraph(graph, graph)
