"""Which variables and factors of a model are interchangeable: the orbits of its symmetries.

Two variables are in one orbit if a relabelling that leaves the model unchanged maps one to the other; it may rename
their states. Colour refinement separates most variables, and BLISS finds the generators for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.page.orbit_search import generators_within
from equifactor.symmetry.colour_refinement import bits, refine
from equifactor.symmetry.coloured_graph import coloured_graph, open_edges
from equifactor.symmetry.comparable_graph import comparable
from equifactor.symmetry.compared_factors import with_small_tables

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph


@dataclass(frozen=True)
class Orbits:
    """The number of the orbit of each variable and factor; orbit 0 is the largest."""

    variables: IntArray  # [V]
    factors: IntArray  # [F]
    generators: int
    complete: bool  # False if these are classes of colour refinement, which may contain several orbits
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the orbits as plain values."""
        count = int(max(self.variables.max(initial=-1), self.factors.max(initial=-1))) + 1
        return {**vars(self), "variables": self.variables.tolist(), "factors": self.factors.tolist(), "orbits": count}


def orbits_of(graph: FactorGraph, seconds: float = 10.0) -> Orbits:
    """Return the orbits of a graph; if the time runs out, the classes of colour refinement.

    Raises `ModelError` for factors that cannot be compared, as `isomorphism` does.
    """
    tables = comparable(with_small_tables(graph)).tables
    values = bits(tables.log_phi)
    coloured = coloured_graph(tables, refine(tables, values), values)
    _, cell, sizes = np.unique(coloured.colours, return_inverse=True, return_counts=True)
    edges = open_edges(coloured.edges, cell, sizes)
    orbit, count, complete = cell, 0, True
    if len(edges):
        nodes, local = np.unique(edges, return_inverse=True)
        _, colours = np.unique(cell[nodes], return_inverse=True)
        found = generators_within(seconds, colours, local.reshape(edges.shape))
        complete = found is not None
        if found is not None:
            # Nodes without open edges are interchangeable if their colours are equal; generators move the others.
            count = len(found)
            orbit = cell.copy()
            orbit[nodes] = len(sizes) + joined(len(nodes), found)
    first_factor = tables.num_vars + int(tables.structure.state_ptr[-1])
    own = np.concatenate((orbit[: graph.num_vars], orbit[first_factor : first_factor + graph.num_factors]))
    numbered = _by_size(own, graph.num_vars)
    variables, factors = numbered[: graph.num_vars], numbered[graph.num_vars :]
    return Orbits(variables, factors, count, complete, _text(variables, factors, complete, seconds))


def joined(count: int, generators: IntArray) -> IntArray:
    """Return the orbit [n] of each of n nodes under permutations [k, n]: the lowest node that it can be mapped to."""
    least = np.arange(count)
    while len(generators):
        before = least.copy()
        for g in generators:
            smaller = np.minimum(least, least[g])
            least = np.minimum(smaller, least)
            np.minimum.at(least, g, smaller)
        least = least[least]
        if np.array_equal(before, least):
            break
    return least


def _by_size(orbit: IntArray, num_vars: int) -> IntArray:
    """Number the orbits from 0, the largest first; variables and factors never share an orbit."""
    apart = orbit * 2 + (np.arange(len(orbit)) >= num_vars)
    _, first, number, size = np.unique(apart, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(size), np.int64)
    rank[np.lexsort((first, -size))] = np.arange(len(size))
    return rank[number]


def _text(variables: IntArray, factors: IntArray, complete: bool, seconds: float) -> str:
    kinds = f"{_count(variables, 'variable')} and {_count(factors, 'factor')}"
    if not complete:
        return (
            f"The search took more than {seconds:g} s. The page shows classes of colour refinement instead, "
            f"which may contain several orbits: {kinds}."
        )
    alone = len(np.unique(variables)) == len(variables) and len(np.unique(factors)) == len(factors)
    if alone:
        return "No two variables and no two factors are interchangeable: the model has no symmetry that moves them."
    return f"Members of one orbit are interchangeable, if needed with their states renamed: {kinds}."


def _count(members: IntArray, noun: str) -> str:
    found = len(np.unique(members))
    return f"{len(members):,} {noun}{'s' * (len(members) != 1)} in {found:,} orbit{'s' * (found != 1)}"
