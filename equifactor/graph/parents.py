"""Children in a Bayesian network: which factor is the conditional distribution of which variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.structure import MAX_AXES

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure

# A table whose last variable is the child is a conditional distribution if its rows sum to 1 within this. Published
# networks have rounded numbers.
ROUNDING = 0.01
_OWN_ROUNDING = 1e-6  # The same for a child at another place of the scope, which no file format writes. Chosen by hand.


@dataclass(frozen=True, eq=False)
class Families:
    """A Bayesian network: every factor is the distribution of one variable, its child, given the rest of its scope."""

    factor_of_child: IntArray  # [V]
    slot: IntArray  # [F] the place of the child in the factor's scope
    order: IntArray  # [V] the variables, parents before children


def find_families(graph: FactorGraph) -> Families | None:
    """Return the child of every factor from the scopes alone, or None if the graph is not a Bayesian network.

    A root has a factor over itself alone, and once a variable has its factor it can only be a parent in others. Taking
    variables in this order, a factor whose other variables are all taken must belong to the one that is left. So scopes
    without a directed cycle leave no choice, and the potentials do not matter. Cost O(E).
    """
    found = _families_or_reason(graph)
    return found if isinstance(found, Families) else None


def families_of(graph: FactorGraph, claim: str, advice: str) -> Families:
    """Return the child of every factor; raise `ModelError` if the graph is not a Bayesian network.

    Args:
        graph: any graph.
        claim: the beginning of the error, such as `em fits a Bayesian network`.
        advice: a last sentence of the error that says what to do.
    """
    found = _families_or_reason(graph)
    if isinstance(found, Families):
        return found
    reason, where = found
    raise ModelError(
        f"{claim}, in which every variable has one factor over itself and its parents. {reason} {advice}", **where
    )


def network_of(graph: FactorGraph, claim: str, advice: str) -> Families:
    """Return the child of every factor; raise `ModelError` unless every factor is the distribution of its child.

    Args:
        graph: any graph.
        claim: the beginning of the error, such as `do acts on a Bayesian network`.
        advice: a last sentence of the error that says what to do.
    """
    if graph.observed is not None:
        raise ModelError(f"{claim} without evidence. Take the network before it was conditioned.")
    families, s = families_of(graph, claim, advice), graph.structure
    for a, slot in enumerate(families.slot.tolist()):
        if not is_conditional(graph, a, slot):
            child = int(s.scope(a)[slot])
            raise ModelError(
                f"{claim}. Factor {a} is not a distribution of variable {s.variable_name(child)} given the others: "
                f"{_what_is_wrong(graph, a, slot)} {advice}",
                factor=a,
            )
    return families


def _what_is_wrong(graph: FactorGraph, a: int, slot: int) -> str:
    """Return a sentence about the worst row of a factor that is not a distribution of the variable at a place."""
    s, factor = graph.structure, graph.factor(a)
    if not isinstance(factor, np.ndarray):
        return f"its effect is another variable of this {factor.kind}."
    sums = np.exp(factor).sum(axis=slot)
    row = np.unravel_index(int(np.argmax(np.abs(sums - 1.0))), sums.shape)
    scope = np.delete(s.scope(a), slot)
    given = row_text(s, scope.tolist(), [int(x) for x in row])
    return f"the row {f'for {given} ' if given else ''}sums to {sums[row]:.6g}, not to 1."


def row_text(s: Structure, variables: Sequence[int], states: Sequence[int]) -> str:
    """Return states of variables as text, such as `rain = yes, sprinkler = on` or `variable 0 = state 1`."""
    variable, state = ("", "") if s.variable_names else ("variable ", "state ")
    pairs = zip(variables, states, strict=True)
    return ", ".join(f"{variable}{s.variable_name(i)} = {state}{s.states_of(i)[x]}" for i, x in pairs)


def wrong_row(table: FloatArray) -> tuple[tuple[int, ...], str] | None:
    """Return the place of the first row of a table [*parents, child] that is not a distribution, and what is wrong."""
    sums = np.asarray(table.sum(axis=-1))
    wrong = ~(np.abs(sums - 1.0) <= ROUNDING)  # This form also catches NaN.
    bad = wrong if wrong.any() else np.asarray((table < 0.0).any(axis=-1))
    if not bad.any():
        return None
    row = tuple(int(x) for x in np.unravel_index(int(np.argmax(bad.ravel())), bad.shape)) if bad.ndim else ()
    return row, f"sum to {sums[row]:.6g}" if wrong.any() else "include a negative number"


def children_of(graph: FactorGraph) -> list[int] | None:
    """Return the child [F] of every factor if all factors are conditional distributions, otherwise None."""
    families = find_families(graph) if graph.observed is None else None
    s = graph.structure
    if families is None or (s.arity > MAX_AXES).any():  # numpy has no arrays with more axes.
        return None
    if not all(is_conditional(graph, a, int(k)) for a, k in enumerate(families.slot)):
        return None
    return [int(i) for i in s.scope_vars[s.scope_ptr[:-1] + families.slot]]


def is_conditional(graph: FactorGraph, a: int, slot: int) -> bool:
    """Return whether factor a is a distribution of the variable at a place of its scope, given the others."""
    factor = graph.factor(a)
    if not isinstance(factor, np.ndarray):
        return factor.child_slot == slot
    rounding = ROUNDING if slot == factor.ndim - 1 else _OWN_ROUNDING
    return bool(np.all(np.abs(np.exp(factor).sum(axis=slot) - 1.0) <= rounding))


def _families_or_reason(graph: FactorGraph) -> Families | tuple[str, dict[str, int]]:
    """Return the families, or why the graph is not a Bayesian network, with the factor or variable concerned."""
    s = graph.structure
    if s.num_factors != s.num_vars:
        return f"The graph has {s.num_factors} factors for {s.num_vars} variables.", {}
    left = s.arity.copy()  # [F] variables in each scope that have no factor yet
    factors_of: list[list[int]] = [[] for _ in range(s.num_vars)]
    for variable, factor in zip(s.scope_vars.tolist(), s.factor_of_edge.tolist(), strict=True):
        factors_of[variable].append(factor)
    factor_of_child = np.full(s.num_vars, -1)
    slot = np.full(s.num_factors, -1)
    order: list[int] = []
    ready = np.flatnonzero(left == 1)[::-1].tolist()
    while ready:
        a = ready.pop()
        scope = s.scope(a)
        open_slots = np.flatnonzero(factor_of_child[scope] < 0)
        if not len(open_slots):
            return f"All variables of factor {a} have another factor already.", {"factor": a}
        slot[a] = open_slots[0]
        child = int(scope[slot[a]])
        factor_of_child[child] = a
        order.append(child)
        for b in factors_of[child]:
            left[b] -= 1
            if left[b] == 1:
                ready.append(b)
    if len(order) == s.num_vars:
        return Families(factor_of_child, slot, np.array(order, np.int64))
    i = int(np.argmin(factor_of_child))
    return f"The scopes have a directed cycle at variable {s.variable_name(i)}, or it has no factor.", {"variable": i}


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the variables of a directed cycle, each a parent of the next, or [] if there is no cycle.

    The cycle begins with its smallest variable.
    """
    left = [len(p) for p in parents]
    children: list[list[int]] = [[] for _ in parents]
    for i, given in enumerate(parents):
        for p in given:
            children[p].append(i)
    ready = [i for i, n in enumerate(left) if n == 0]
    while ready:
        for child in children[ready.pop()]:
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    if not any(left):
        return []
    path: list[int] = [next(i for i, n in enumerate(left) if n)]
    while path[-1] not in path[:-1]:  # every remaining variable has a remaining parent
        path.append(next(p for p in parents[path[-1]] if left[p]))
    cycle = path[path.index(path[-1]) : -1][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
