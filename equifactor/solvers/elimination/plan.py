"""The cost of exact inference, known before it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types, is_real, read_task
from equifactor.base.budget import FLOAT_BYTES, Seconds
from equifactor.base.errors import OptionError, brief
from equifactor.base.status import Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph.factor_graph import as_graph
from equifactor.graph.reduction import ReducedGraph, to_free_part, without_observed
from equifactor.kernels.readiness import kernels_in_time, plain_is_better, uses_kernels
from equifactor.show.text_tables import terminal_table
from equifactor.solvers.elimination.orders import MOST_BITS, NoOrder, Order, PlanningLimits, best_order
from equifactor.solvers.elimination.program import Program, build_program, place_messages

if TYPE_CHECKING:
    from rich.console import RenderableType

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

# Bytes that stay in memory for each message entry: the entry for MAR, nothing for PR, the best state for MAP.
_KEPT_BYTES = {Task.MAR: FLOAT_BYTES, Task.PR: 0, Task.MAP: 1, Task.MMAP: 1}
_SECONDS_PER_ENTRY = {
    Task.MAR: Seconds.UP_AND_DOWN, Task.PR: Seconds.UP, Task.MAP: Seconds.UP_MAX, Task.MMAP: Seconds.UP_MAX
}  # fmt: skip
# Tries go on if an order needs at most this many times the memory limit: on 13 public models of linkage, 1,000 tries
# need 1.1 to 9 times less memory than the first 100.
_NEAR = 8.0
# List operations, 0.1 s, with which tries near the limits begin: in less time such an order hardly ever ends. On models
# of object detection with a limit of 40 ms they take 10 ms. Chosen by hand.
_NEAR_WORK = 5e6
# Seconds of plain Python for an order that needs no kernels: about 3,000 variables of a grid. Chosen by hand.
_FIRST_SECONDS = 0.2
_ORDERS_FASTER = 0.05  # The time of the kernels for one elimination order, as a share of the time in plain Python.


@dataclass(frozen=True, eq=False)
class Plan:
    """An elimination order with its clusters. Variables are numbered as in the graph.

    Cluster n holds `order[n]`, which is eliminated there, and its separator: the neighbours it still has. The message
    over the separator goes to `parent[n]`, the cluster of the separator variable that is eliminated first. Variables
    that are observed, or that zeros leave one state, have no cluster, and states that zeros rule out are not counted.

    A plan made under a memory limit may be unfinished: then no order within the limit was found and the clusters are
    missing. Width and sizes are those that the best try had reached when it was abandoned.
    """

    reduced: ReducedGraph = field(repr=False)  # the graph that is eliminated, and the mapping back to the given one
    found: Order | NoOrder = field(repr=False)
    impossible: bool = False  # the zeros leave no assignment; the order is that of a graph without answers
    num_auxiliary: int = 0  # variables added to write structured factors as tables; numbered after the graph's own
    num_lowered_entries: int = 0  # entries of all tables then, 0 if the graph had only tables

    @property
    def finished(self) -> bool:
        """Whether the plan has an order to run."""
        return isinstance(self.found, Order)

    @property
    def _card(self) -> IntArray:
        """The number of states of the variables [v] that are eliminated."""
        return self.reduced.graph.card

    @cached_property
    def _variables(self) -> IntArray:
        """The numbers [v] of the eliminated variables in the graph."""
        kept = self.reduced.variables
        return np.arange(len(self._card)) if kept is None else kept

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The variables in the order of elimination."""
        return tuple(self._variables[self.found.variables].tolist()) if isinstance(self.found, Order) else ()

    @cached_property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each cluster: its separator, latest elimination first; then the variable itself."""
        if not isinstance(self.found, Order):
            return ()
        separators = self._variables[self.found.variables[self.found.separators]].tolist()
        bounds = pairwise(self.found.sep_ptr.tolist())
        return tuple((*separators[a:b], v) for (a, b), v in zip(bounds, self.order, strict=True))

    @cached_property
    def parent(self) -> tuple[int, ...]:
        """The cluster that receives each cluster's message; -1 at a root, one per connected component."""
        return tuple(self.found.parent.tolist()) if isinstance(self.found, Order) else ()

    @cached_property
    def _bits(self) -> tuple[FloatArray, FloatArray]:
        """log2 of the states of each cluster's variable, and of the entries of its message."""
        if not isinstance(self.found, Order):
            return np.zeros(0), np.zeros(0)
        own = np.log2(self._card[self.found.variables])
        running = np.concatenate(([0.0], np.cumsum(own[self.found.separators])))
        return own, running[self.found.sep_ptr[1:]] - running[self.found.sep_ptr[:-1]]

    @cached_property
    def log2_sizes(self) -> tuple[float, ...]:
        """log2 of the entries of each cluster table."""
        own, message = self._bits
        return tuple((own + message).tolist())

    @cached_property
    def width(self) -> int:
        """The largest number of variables in a separator: the induced width of this order."""
        if isinstance(self.found, NoOrder):
            return math.ceil(self.found.bits / math.log2(self._card.max())) - 1
        return int(np.diff(self.found.sep_ptr).max(initial=0))

    @cached_property
    def log2_largest(self) -> float:
        """log2 of the entries of the largest cluster table."""
        return self.found.bits if isinstance(self.found, NoOrder) else max(self.log2_sizes, default=0.0)

    @cached_property
    def entries(self) -> float:
        """The entries of all cluster tables together: the work of one pass (at most 2^500)."""
        if not self.finished:
            return 2.0 ** min(self.log2_largest, MOST_BITS)
        return float(np.exp2(np.minimum(self.log2_sizes, MOST_BITS)).sum()) if self.log2_sizes else 0.0

    @property
    def memory(self) -> float:
        """The bytes for all marginals: all messages, kept for the downward pass, and the input of one cluster."""
        return self.memory_for(Task.MAR)

    @checks_types("task")
    def memory_for(self, task: Task) -> float:
        """Return the bytes for one task; ln Z alone and MAP overwrite messages that have been read."""
        if task not in self._memory:
            self._memory[task] = self._count_memory(task)
        return self._memory[task]

    @cached_property
    def _memory(self) -> dict[Task, float]:
        return {}

    def _count_memory(self, task: Task) -> float:
        if not isinstance(self.found, Order):
            return FLOAT_BYTES * 2.0 ** min(self.log2_largest - math.log2(self._card.max()), MOST_BITS)
        message = np.exp2(np.minimum(self._bits[1], MOST_BITS))
        tables = 2.0 * float(self.reduced.graph.structure.num_entries)
        # larger tables cannot be run for any task, so the finer sum is not needed
        if task is Task.MAR or self.log2_largest > 40:
            parent = self.found.parent
            received = np.bincount(parent[parent >= 0], message[parent >= 0])
            return FLOAT_BYTES * (float(message.sum()) + float(received.max(initial=0.0)) + tables)
        kept = _KEPT_BYTES[task] * float(message.sum())
        place = place_messages(np.rint(message).astype(np.int64), self.found.parent)[1]
        return FLOAT_BYTES * (place + 1.5 * tables) + kept

    @checks_types("gib", "task")
    def fits(self, gib: float, task: Task = Task.MAR) -> bool:
        """Return whether there is an order and its memory for the task is at most `gib` GiB."""
        return self.finished and self.memory_for(task) <= float(gib) * 2**30

    @checks_types("task")
    def seconds(self, task: Task = Task.MAR) -> float:
        """Return the time on one core, within a factor of two or three."""
        return self.entries * _SECONDS_PER_ENTRY[task]

    @checks_types("task")
    def plain_seconds(self, task: Task = Task.MAR) -> float:
        """Return the time on one core in plain NumPy, within a factor of two or three."""
        from equifactor.solvers.elimination.plain_elimination import plain_seconds

        return plain_seconds(self.entries, len(self._card), task is Task.MAR)

    @cached_property
    def program(self) -> Program:
        """The index arrays for the kernels; made once."""
        if not isinstance(self.found, Order):
            raise ValueError("An unfinished plan cannot be run. No elimination order within the limits was found.")
        return build_program(self.reduced.graph.structure, self.found)

    @property
    def lowering(self) -> str:
        """The cost of writing structured factors as tables, in words; empty if all factors are tables."""
        if not self.num_lowered_entries:
            return ""
        return f"{self.num_auxiliary:,} auxiliary variables, {self.num_lowered_entries:,} table entries"

    @property
    def cost(self) -> str:
        """The width, largest table and memory for all marginals, in words."""
        return self.cost_of(Task.MAR)

    @checks_types("task")
    def cost_of(self, task: Task) -> str:
        """Return the width, largest table and memory for any task, in words."""
        at_least = "" if self.finished else "at least "
        return (
            f"{at_least}width {self.width}, largest table {at_least}2^{self.log2_largest:.1f}, "
            f"{at_least}{format_bytes(self.memory_for(task))}"
        )

    @checks_types("gib", "task")
    def excess(self, gib: float, task: Task = Task.MAR) -> str:
        """Return one sentence on how the elimination exceeds `gib` GiB; for a plan that does not fit."""
        if math.isnan(gib):
            raise OptionError("The memory in GiB must be a number, found NaN.")
        limit = format_bytes(float(gib) * 2**30)
        if self.finished:
            return f"Elimination needs {self.cost_of(task)}, but the limit is {limit}."
        return (
            f"Elimination needs more memory than the limit of {limit}. Elimination orders that were tried: "
            f"{self.found.tries}, all with a width of at least {self.width}."
        )

    def __str__(self) -> str:
        count = len(self._variables)
        lowered = f" (in tables: {self.lowering})" if self.lowering else ""
        work = f"{'' if self.finished else 'at least '}{2 * self.entries:.3g} entries of work"
        return f"elimination of {count} variables{lowered}: {self.cost}, {work}"

    def facts(self) -> list[tuple[str, str]]:
        """Return the labels and texts that a summary shows."""
        at_least = "" if self.finished else "at least "
        return [
            ("variables", f"{len(self._variables):,}"),
            *([("in tables", self.lowering)] if self.lowering else []),
            ("width", f"{at_least}{self.width}"),
            ("largest table", f"{at_least}2^{self.log2_largest:.1f} entries"),
            ("entries of work", f"{at_least}{2 * self.entries:.3g}"),
            ("memory, all marginals", f"{at_least}{format_bytes(self.memory)}"),
            ("time, one core", f"{at_least}{self.seconds():.2g} s"),
            ("orders tried", f"{self.found.tries}"),
        ]

    def __rich__(self) -> RenderableType:
        return terminal_table("Elimination plan", self.facts())

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import facts_table

        return facts_table("Elimination plan", self.facts())


@checks_types("most_work", "first")
def plan(
    graph: FactorGraph | ReducedGraph,
    *,
    memory_limit: float | None = None,
    task: Task | str = Task.MAR,
    tries: int | None = None,
    most_work: float = math.inf,
    seed: int = 0,
    first: bool = False,
) -> Plan:
    """Plan the elimination of all free variables of a graph, after `lower` if it has structured factors.

    Args:
        graph: the model, with its evidence; or a reduction of it that has left out the observed variables.
        memory_limit: GiB above which planning stops: a large loopy graph is refused after a few cheap tries.
        task: the task that needs the memory.
        tries: most orders to try; by default 32, or 256 with a memory limit, which ends bad tries early.
        most_work: list operations after which planning ends, about 1e8 per second.
        seed: seed of the random choices. The same graph and arguments give the same plan.
        first: whether the first greedy order will do, if one is found in a fraction of a second. No kernel is needed
            then, and the plan does not depend on which kernels are ready.
    """
    _check_arguments(graph, memory_limit, tries, seed)
    task = read_task(task)
    impossible = False
    auxiliary = entries = 0
    if isinstance(graph, ReducedGraph):
        reduced = graph
    else:
        if graph.structure.kinds is not None:
            lowered = lower(graph, "max" if task is Task.MAP else "sum")
            graph, auxiliary = lowered.graph, lowered.num_auxiliary
            entries = graph.structure.num_entries
        possible = to_free_part(graph)
        impossible = possible is None
        reduced = without_observed(graph) if possible is None else possible
    limit = math.inf if memory_limit is None else memory_limit * 2**30
    if tries is None:
        tries = 32 if memory_limit is None else 256
    kept = limit / _KEPT_BYTES[task] if _KEPT_BYTES[task] else math.inf
    near = 0.0 if math.isinf(limit) or most_work < _NEAR_WORK else _NEAR
    limits = PlanningLimits(tries=tries, kept=kept, message=limit / FLOAT_BYTES, work=most_work, near=near)
    empty = Plan(reduced, NoOrder(0.0, 0, True), impossible, auxiliary, entries)
    made = (_first_plan(empty, limits) if first else None) or _plain_plan(empty, limits, task)
    return made or replace(empty, found=best_order(reduced.graph.structure, limits, seed))


def _first_plan(empty: Plan, limits: PlanningLimits) -> Plan | None:
    """Return the plan along an order of plain Python, whichever kernels are ready; None if that takes too long."""
    from equifactor.solvers.elimination.plain_orders import known_order, plain_order_seconds

    structure = empty.reduced.graph.structure
    order = known_order(structure, limits) if plain_order_seconds(structure) < _FIRST_SECONDS else None
    return replace(empty, found=order) if isinstance(order, Order) else None


def _plain_plan(empty: Plan, limits: PlanningLimits, task: Task) -> Plan | None:
    """Return the plan along an order of plain Python; None if kernels should look for an order.

    A plan that takes long to run deserves the many tries of the kernels.
    """
    if uses_kernels("elimination"):
        return None
    from equifactor.solvers.elimination.plain_orders import known_order, plain_order_seconds

    structure = empty.reduced.graph.structure
    seconds = plain_order_seconds(structure)
    if not plain_is_better(seconds, _ORDERS_FASTER * seconds, "elimination", count=False):
        return None
    order = known_order(structure, limits)
    if order is None:
        return None
    made = replace(empty, found=order)
    if not kernels_in_time("elimination"):
        return made
    if isinstance(order, NoOrder):
        return None
    return made if plain_is_better(made.plain_seconds(task), made.seconds(task), "elimination", count=False) else None


def _check_arguments(graph: object, memory_limit: object, tries: object, seed: object) -> None:
    """Raise `ModelError` or `OptionError` for arguments of the wrong type."""
    if not isinstance(graph, ReducedGraph):
        as_graph(graph)
    if memory_limit is not None and not (is_real(memory_limit) and float(memory_limit) >= 0):
        raise OptionError(f"memory_limit must be a number of GiB of at least 0, found {brief(memory_limit)}.")
    if tries is not None and not _is_whole(tries, 1):
        raise OptionError(f"tries must be a whole number of at least 1, found {brief(tries)}.")
    if not _is_whole(seed, 0, 2**63):
        raise OptionError(f"The seed must be a whole number from 0 to 2^63 - 1, found {brief(seed)}.")


def _is_whole(value: object, low: int, high: float = math.inf) -> bool:
    # NumPy counts a time span as a whole number.
    return isinstance(value, Integral) and not isinstance(value, np.timedelta64) and low <= int(value) < high


def format_bytes(n: float) -> str:
    """Return `3.4 GiB`; very large numbers as powers of two."""
    if n >= 2**70:
        return f"2^{np.log2(n):.0f} bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:.3g} {unit}"
        n /= 1024
    raise AssertionError("unreachable")
