"""The best assignments of a learned MAP run: of every look at the network and of several solvers, combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equifactor.base.clock import NotCompiledError
from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.graph.components import component_roots
from equifactor.graph.kinds import kind_class

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solving.estimate import Estimate
    from equifactor.solving.solver import SolveContext

# The relative difference of log scores from which one is better: rounding must not choose between equal assignments,
# because it depends on the order of the factors.
_BETTER = 1e-9


class Member(Protocol):
    """A method for MAP whose assignments are compared with those of a network."""

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
        """Return an estimate for each graph."""


class BestAssignments:
    """The assignment of the highest log score that a batch has had so far, graph by graph."""

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        self.flat = flat
        self.score = np.full(flat.num_graphs, -np.inf)  # [G]
        self.states = np.zeros(flat.num_vars, np.int64)  # [V]

    def note(self, states: IntArray) -> None:
        """Keep the states [V] of those graphs whose score they raise, and the better parts of both assignments."""
        better = is_better(batch_log_scores(self.flat, states), self.score)[self.flat.graph_of_var]
        first, second = np.where(better, (states, self.states), (self.states, states))
        self.states = with_better_parts(self.flat, first, second)
        self.score = batch_log_scores(self.flat, self.states)

    def take(self, graphs: IntArray) -> tuple[FloatArray, IntArray]:
        """Return the scores and the states of some graphs."""
        return self.score[graphs], self.states[self._variables(graphs)]

    def put(self, graphs: IntArray, part: tuple[FloatArray, IntArray]) -> None:
        """Set the scores and the states of some graphs to those that `take` returned."""
        self.score[graphs], self.states[self._variables(graphs)] = part

    def _variables(self, graphs: IntArray) -> IntArray:
        chosen = np.zeros(self.flat.num_graphs, bool)
        chosen[graphs] = True
        return np.flatnonzero(chosen[self.flat.graph_of_var])


def is_better(score: Any, than: Any) -> Any:
    """Return whether log scores, [G] or of one graph, are higher than others by more than rounding."""
    with np.errstate(invalid="ignore"):  # Both can be -inf.
        return score - than > _BETTER * np.maximum(1.0, np.abs(score))


def batch_log_scores(flat: FlatGraph[np.ndarray], states: IntArray) -> FloatArray:
    """Return the log scores [G] of a batch at the states [V] of its free variables."""
    return flat.sum_per_graph(flat.graph_of_factor, factor_log_scores(flat, states))


def factor_log_scores(flat: FlatGraph[np.ndarray], states: IntArray) -> FloatArray:
    """Return the log values [F] of all factors at the states [V] of the free variables."""
    values = np.zeros(flat.num_factors)
    for group in flat.groups:
        entry = np.zeros(group.num_factors, np.int64)
        for size, edges in zip(group.shape, group.edges, strict=True):
            entry = entry * size + states[flat.var_of_edge[edges]]
        tables = group.table(flat.log_phi).reshape(group.num_factors, -1)
        values[group.factors] = tables[np.arange(group.num_factors), entry]
    for other in flat.structured:
        rows = other.rows(flat.log_phi[other.entries])
        values[other.factors] = kind_class(other.kind).log_scores(rows, states[flat.var_of_edge[other.edges]][None])[0]
    return values


def with_better_parts(flat: FlatGraph[np.ndarray], states: IntArray, others: IntArray) -> IntArray:
    """Return the states [V] with every connected part of the other states [V] that has a higher score there.

    Variables on which the two assignments differ are connected if they share a factor. The parts do not share factors,
    so the gain of each part does not depend on the others (partition crossover [Whitley09]).
    """
    differs = states != others
    edge = np.flatnonzero(differs[flat.var_of_edge])
    if not len(edge):
        return states
    edge = edge[np.argsort(flat.factor_of_edge[edge], kind="stable")]
    var, factor = flat.var_of_edge[edge], flat.factor_of_edge[edge]
    root = component_roots(var, factor, len(states))
    one = np.flatnonzero(np.diff(factor, prepend=-1))  # one edge of each factor with a variable that differs
    old, new = (factor_log_scores(flat, s)[factor[one]] for s in (states, others))
    with np.errstate(invalid="ignore"):
        # Infinite terms of both signs sum to NaN, which is not a gain.
        gain = np.bincount(root[var[one]], np.where(new == old, 0.0, new - old), len(states))
        size = np.bincount(root[var[one]], np.where(np.isfinite(old), np.abs(old), 0.0), len(states))
        better = gain > _BETTER * np.maximum(1.0, size)
    return np.where(differs & better[root], others, states)


def run_members(
    members: Sequence[Member], graphs: Sequence[FactorGraph], context: SolveContext
) -> list[tuple[str, list[Estimate]]]:
    """Return the MAP estimates of several solvers, one after the other, each with its text form.

    Each member gets an equal share of the time, and so does the network after them. A member whose kernels would not be
    compiled in time is left out.
    """
    found = []
    for n, member in enumerate(members):
        if context.clock.stopped:
            break
        own = replace(context, clock=context.clock.part(1.0 / (1 + len(members) - n)), progress=None)
        try:
            found.append((str(member), [*member.run(graphs, Task.MAP, own)]))
        except NotCompiledError:
            continue
    return found


def best_of(graph: FactorGraph, own: Estimate, others: Sequence[tuple[str, Estimate]]) -> Estimate:
    """Return the estimate of the network with the best assignment and the lowest upper bound of all members.

    Args:
        graph: the graph.
        own: the estimate of the network.
        others: the text forms of other solvers and their estimates.
    """
    if own.status is Status.ZERO_PROBABILITY:
        return own
    best, score, name = own, -np.inf if own.assignment is None else graph.log_score(own.assignment), ""
    bound = np.inf if own.upper_bound is None else own.upper_bound
    for text, other in others:
        if other.status is Status.ZERO_PROBABILITY:
            return other
        if other.assignment is None:
            continue
        bound = min(bound, np.inf if other.upper_bound is None else other.upper_bound)
        reached = graph.log_score(other.assignment)
        if best.assignment is None or is_better(reached, score):
            best, score, name = other, reached, text
    if best.assignment is None:
        return own
    message = own.message
    if name:
        message = f"{message} The best assignment is that of {name}.".strip()
    status = best.status if own.assignment is None else own.status
    return replace(
        own, status=status, assignment=best.assignment, message=message, upper_bound=bound if bound < np.inf else None,
        stats={**own.stats, "best_of": name or "network"},
    )  # fmt: skip


def combined(
    graphs: Sequence[FactorGraph], best: Sequence[Estimate], members: Sequence[Sequence[Estimate]]
) -> list[Estimate]:
    """Return the best estimates with every part of the members' assignments that has a higher score.

    Args:
        graphs: the graphs.
        best: the estimate of each graph.
        members: the estimates of each graph, for each member.
    """
    known = [n for n, estimate in enumerate(best) if estimate.assignment is not None]
    if not known:
        return list(best)
    flat = compile([graphs[n] for n in known])

    def states_of(estimates: Sequence[Estimate]) -> IntArray:
        found = [(n, estimates[n].assignment) for n in known]
        full = [(n, best[n].assignment if a is None else a) for n, a in found]
        return np.concatenate([np.asarray(a)[graphs[n].free_vars] for n, a in full])

    first = states = states_of(best)
    for estimates in members:
        states = with_better_parts(flat, states, states_of(estimates))
    changed = np.bincount(flat.graph_of_var, states != first, flat.num_graphs) > 0
    answers = list(best)
    for k, (n, assignment) in enumerate(zip(known, flat.assignments(states), strict=True)):
        if changed[k]:
            message = f"{best[n].message} The assignment combines parts of several.".strip()
            answers[n] = replace(
                best[n], assignment=assignment, message=message, stats={**best[n].stats, "best_of": "parts"}
            )
    return answers
