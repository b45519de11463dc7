"""Derivatives of a posterior in every table entry, from two passes over an elimination for each state of the target.

With N_t the sum of all scores with T = t, and p(x_a | t) a factor marginal given T = t, the derivative of N_t in a
table entry f_a(x_a) is N_t p(x_a | t) / f_a(x_a) [Darwiche03]. An entry that is zero is replaced by a tiny number, so
that its derivative follows from the same formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph import FactorGraph
from equifactor.graph.parents import children_of
from equifactor.graph.reduction import without_observed

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.reading.inputs import Evidence

# The log of the number in place of a zero, below the largest entry of the table. Products of two such numbers are
# within the range of float64, and a product of one with any other is 1e65 times smaller than without.
_TINY = -150.0


@dataclass(frozen=True, eq=False)
class Derivatives:
    """The posterior of a target, and how it changes with table entries. T entries, d states of the target.

    With an entry changed by x, p(t) = (p[t] + slope[t] x) / (1 + x sum(slope)).
    """

    p: FloatArray  # [d] the posterior of the target
    slope: FloatArray  # [d, T] derivatives of p(T = t, e) / p(e), with p(e) in the divisor kept as it is
    children: list[int] | None  # [F] the child of every factor of a Bayesian network, whose rows keep their sums


def derivatives(graph: FactorGraph, target: int, evidence: Evidence | None, memory_limit: float) -> Derivatives:
    """Return the derivatives of p(target | evidence) in all table entries; 0 at the values of structured factors.

    In a Bayesian network the other entries of a row change in proportion, so that the row keeps its sum. Raises
    `SolveError` if the evidence is impossible, or no elimination plan fits into `memory_limit` GiB.
    """
    from equifactor.solvers.elimination.factor_sums import FactorSums
    from equifactor.solvers.elimination.plan import plan

    lowered = lower(graph)
    tables = lowered.graph
    given = graph if evidence is None else graph.condition(evidence)
    hard = np.full(tables.num_vars, -1)
    if given.observed is not None:
        hard[: given.num_vars] = given.observed
    numbers = FactorGraph.trusted(tables.structure, np.arange(float(len(tables.log_phi))), tables.observed)
    entry = numbers.condition(hard).log_phi.astype(np.int64)  # [t] in `tables`, of each entry that evidence leaves
    sliced = tables if evidence is None else tables.condition(evidence)
    card = int(graph.card[target])
    sliced = sliced.with_factor([target], np.ones(card))
    free = without_observed(sliced)
    steps = plan(free, memory_limit=memory_limit, task=Task.MAR)
    if not steps.fits(memory_limit, Task.MAR):
        raise SolveError(
            f"{steps.excess(memory_limit, Task.MAR)} Raise memory_limit, or observe more variables, so that "
            "derivatives can be computed."
        )
    num_own = int(graph.structure.is_table @ np.diff(graph.structure.table_ptr)) if graph.num_factors else 0
    log_phi = sliced.log_phi.copy()
    own = np.flatnonzero(entry < num_own)
    log_phi[own] = _without_zeros(tables, num_own)[entry[own]]
    rows = np.tile(log_phi, (card, 1))
    rows[:, -card:] = np.where(np.eye(card, dtype=bool), 0.0, -np.inf)
    exact = np.tile(sliced.log_phi, (card, 1))
    exact[:, -card:] = rows[:, -card:]
    sums = FactorSums(steps)
    log_n = sums.run(exact).log_z
    top = float(log_n.max())
    if top == -math.inf:
        raise SolveError(Status.ZERO_PROBABILITY.advice)
    log_sum = top + math.log(np.exp(log_n - top).sum())
    found = sums.run(rows)
    share = np.zeros((card, len(tables.log_phi)))
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.log(found.entries[:, own]) - log_phi[own] + (found.log_z - log_sum)[:, None]
    share[:, entry[own]] = np.exp(logs)
    slope = np.stack([lowered.of_tables(row) for row in share])
    children = children_of(graph)
    if children is not None:
        _keep_row_sums(graph, children, slope)
    return Derivatives(np.exp(log_n - log_sum), slope, children)


def _without_zeros(tables: FactorGraph, num_own: int) -> FloatArray:
    """Return the log tables [t] with a tiny number in place of every zero among the first `num_own` entries."""
    s, log_phi = tables.structure, tables.log_phi
    if not s.num_factors:
        return log_phi
    top = np.repeat(np.maximum.reduceat(log_phi, s.table_ptr[:-1]), np.diff(s.table_ptr))
    floor = np.where(top > -np.inf, top, 0.0) + _TINY
    is_own = np.arange(len(log_phi)) < num_own
    return np.where(is_own & np.isneginf(log_phi), floor, log_phi)


def _keep_row_sums(graph: FactorGraph, children: list[int], slope: FloatArray) -> None:
    """Change derivatives [d, T] in place to those with the rest of a row of a conditional table in proportion."""
    s = graph.structure
    for a, child in enumerate(children):
        if not s.is_table[a]:
            continue
        shape, slot = s.shape(a), s.scope(a).tolist().index(child)
        first, last = s.table_ptr[a : a + 2]
        value = np.exp(graph.log_phi[first:last]).reshape(shape)
        own = slope[:, first:last].reshape(-1, *shape)
        rest = value.sum(slot, keepdims=True) - value
        others = (value * own).sum(1 + slot, keepdims=True) - value * own
        # If an entry is the whole row, its loss is shared equally by the others.
        mean = (own.sum(1 + slot, keepdims=True) - own) / max(1, shape[slot] - 1)
        is_rest = rest > 1e-12
        changed = own - np.where(is_rest, others / np.where(is_rest, rest, 1.0), mean)
        slope[:, first:last] = (changed if shape[slot] > 1 else 0.0 * own).reshape(len(slope), -1)
