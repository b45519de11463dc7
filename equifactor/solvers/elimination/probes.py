"""Probes: variables that make the two passes over a plan return the probabilities of whole scopes.

A probe is one more variable of a factor, with one state, eliminated just before the first of the factor's own
variables. The separator of its cluster is the factor's scope, and the downward pass overwrites every message by the
probabilities of its separator. The kernels of elimination therefore give factor marginals without a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import Order

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.solvers.elimination.program import Program


class Probes:
    """A structure and an order of it, with a probe in each of some factors; factors keep their tables and numbers."""

    def __init__(self, structure: Structure, order: Order, factors: IntArray) -> None:
        # place of the variables other than probes, before the probes were added
        self._place = np.argsort(order.variables)
        home = np.array([self._place[structure.scope(a)].min() for a in factors.tolist()], np.int64)
        self.clusters = np.argsort(np.argsort(home, kind="stable")) + home  # [n] the cluster of each probe
        self.structure = _with_variables(structure, factors)
        self.order = _with_clusters(structure, order, factors, self._place, home)

    def starts(self, program: Program) -> IntArray:
        """Return where the tables [n] of the probed factors lie after both passes of a program without memory reuse."""
        return program.starts(reuse=False)[0][program.num_groups + self.clusters]

    def axes(self, variables: Sequence[int] | IntArray) -> IntArray:
        """Return the order of the axes of such a table: places in the scope, the variable eliminated last first."""
        return np.argsort(-self._place[np.asarray(variables)], kind="stable")


def _with_variables(s: Structure, factors: IntArray) -> Structure:
    """Return the structure in which these factors have one more variable, of one state."""
    is_probed = np.zeros(s.num_factors, np.int64)
    is_probed[factors] = 1
    return Structure.trusted(
        np.concatenate((s.card, np.ones(len(factors), np.int64))),
        s.scope_ptr + ptr_of(is_probed),
        np.insert(s.scope_vars, s.scope_ptr[factors + 1], s.num_vars + np.arange(len(factors))),
        s.table_ptr,
    )


def _with_clusters(s: Structure, order: Order, factors: IntArray, place: IntArray, home: IntArray) -> Order:
    """Return the order with a cluster for each probe before the cluster `home` of the first variable beside it."""
    before = np.cumsum(np.bincount(home, minlength=s.num_vars))  # probes up to and including those of each cluster
    moved = np.arange(s.num_vars) + before  # new place of each cluster
    variables = np.empty(s.num_vars + len(factors), np.int64)
    variables[moved] = order.variables
    is_probe = np.ones(len(variables), bool)
    is_probe[moved] = False
    by_home = np.argsort(home, kind="stable")
    variables[is_probe] = s.num_vars + by_home
    separators, parent = [], np.empty(len(variables), np.int64)
    parent[moved] = np.where(order.parent < 0, -1, moved[order.parent])
    probe = iter(by_home.tolist())
    n = 0
    for at in range(len(variables)):
        if is_probe[at]:
            k = next(probe)
            separators.append(np.sort(moved[place[s.scope(int(factors[k]))]])[::-1])
            parent[at] = moved[home[k]]
        else:
            separators.append(moved[order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]]])
            n += 1
    sep_ptr = ptr_of([len(separator) for separator in separators])
    return Order(variables, sep_ptr, np.concatenate([np.zeros(0, np.int64), *separators]), parent, order.tries)
