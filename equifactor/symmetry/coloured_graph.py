"""A small coloured graph of the nodes that share a colour, labelled canonically by BLISS.

The full coloured graph has a node per variable, state, factor and table entry. An entry is joined to its factor and to
the states it fixes, a state to its variable, and a factor to its variables. Factor graphs are isomorphic exactly when
their coloured graphs are isomorphic. Three steps make the graph small without changing its symmetries:

1. The most common value of a table has no entry nodes, because the other entries determine where it is.
2. A node with a unique colour is removed. If all nodes of one colour are joined to all nodes of another colour, the
   edges between them carry no information and are removed.
3. The rest splits into components, which are labelled one by one and sorted.

A model without symmetries therefore needs no search, and a model with many small symmetries needs no deep search.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.kernels.pointers import ptr_of, row_of
from equifactor.symmetry.relabelled_graph import entry_slots

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.symmetry.colour_refinement import Colours, HashArray


_SPLITTING = "fm"  # The heuristic of BLISS: split the first cell with the most mixed neighbours. Chosen by hand.


@dataclass(frozen=True)
class ColouredGraph:
    """N nodes with colours and M edges; variables come first, then states, factors and entries."""

    colours: HashArray  # [N]
    edges: IntArray  # [M, 2] the numbers of the two nodes of each edge.


def coloured_graph(graph: FactorGraph, colours: Colours, values: HashArray) -> ColouredGraph:
    """Return the coloured graph of a factor graph, without the entries that its colours determine.

    `values [T]` is the argument of `refine`. The cost is O(T k), and O(R log R) for the R entries of tables that
    colours do not determine.
    """
    s = graph.structure
    first_state, first_factor = s.num_vars, s.num_vars + int(s.state_ptr[-1])
    first_entry = first_factor + s.num_factors
    node_colours = np.concatenate((colours.variables, colours.states, colours.factors))
    open_node = _repeated(node_colours)
    entries = _entries_to_keep(graph, open_node, values)
    number = np.full(s.num_entries, -1)
    number[entries] = first_entry + np.arange(len(entries))

    owner = row_of(s.state_ptr)
    pairs = [(owner, first_state + np.arange(len(owner))), (s.scope_vars, first_factor + s.factor_of_edge)]
    if len(entries):
        factor = row_of(s.table_ptr)
        pairs.append((first_factor + factor[entries], number[entries]))
        for at, edges, digit in entry_slots(s):
            kept = number[at] >= 0
            pairs.append((first_state + (s.state_ptr[s.scope_vars[edges]] + digit)[kept], number[at][kept]))
    edges = np.concatenate([np.stack(p, axis=1) for p in pairs])
    return ColouredGraph(np.concatenate((node_colours, colours.entries[entries])), edges)


def canonical_order(g: ColouredGraph) -> IntArray:
    """Return the place [N] of each node in an order that relabelling does not change, up to symmetries of the graph.

    Nodes are ordered by colour, then by the canonical form of their component, then in the order of BLISS.
    """
    _, cell, sizes = np.unique(g.colours, return_inverse=True, return_counts=True)
    edges = open_edges(g.edges, cell, sizes)
    rank = np.zeros(len(cell), np.int64)  # The rank of the component of each node.
    place = np.zeros(len(cell), np.int64)  # The place of each node within its component.
    if len(edges):
        nodes, local = np.unique(edges, return_inverse=True)
        forms = _label_components(local.reshape(edges.shape), cell[nodes])
        forms.sort(key=lambda form: form.certificate)
        for n, form in enumerate(forms):
            rank[nodes[form.nodes]] = n + 1  # Nodes without edges come first. They are interchangeable.
            place[nodes[form.nodes]] = form.place
    order = np.lexsort((place, rank, cell))
    return np.argsort(order)


@dataclass(frozen=True)
class _Form:
    """One component in canonical order; equal certificates mean isomorphic components."""

    certificate: bytes
    nodes: IntArray  # [n] the numbers of its nodes.
    place: IntArray  # [n] the canonical place of each node.


def _label_components(edges: IntArray, cell: IntArray) -> list[_Form]:
    """Return the canonical form of every component of a graph whose nodes all have edges."""
    igraph = _igraph()
    membership = np.array(igraph.Graph(n=len(cell), edges=edges).connected_components().membership)
    by_component = np.argsort(membership, kind="stable")
    node_ptr = ptr_of(np.bincount(membership))
    local = np.empty(len(cell), np.int64)
    local[by_component] = np.arange(len(cell)) - node_ptr[membership[by_component]]
    component = membership[edges[:, 0]]
    by_edge = np.argsort(component, kind="stable")
    edges = local[edges[by_edge]]
    edge_ptr = ptr_of(np.bincount(component))
    forms = []
    for c in range(len(node_ptr) - 1):
        nodes = by_component[node_ptr[c] : node_ptr[c + 1]]
        forms.append(_label(igraph, nodes, edges[edge_ptr[c] : edge_ptr[c + 1]], cell[nodes]))
    return forms


def _label(igraph: Any, nodes: IntArray, edges: IntArray, cell: IntArray) -> _Form:
    _, colour = np.unique(cell, return_inverse=True)  # BLISS needs small numbers.
    graph = igraph.Graph(n=len(nodes), edges=edges)
    place = np.array(graph.canonical_permutation(sh=_SPLITTING, color=colour.tolist()), np.int64)
    if _gives_inverse(igraph):
        place = np.argsort(place)
    ends = np.sort(place[edges], axis=1)
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    cells = np.empty_like(cell)
    cells[place] = cell
    certificate = b"".join(a.astype(">i8").tobytes() for a in (np.array([len(cells)]), cells, ends))
    return _Form(certificate, nodes, place)


def _entries_to_keep(graph: FactorGraph, open_node: BoolArray, values: HashArray) -> IntArray:
    """Return the entries that touch an open node, except for the most common value of each table.

    Of equally common values the smallest is left out.
    """
    s = graph.structure
    open_states = open_node[s.num_vars : s.num_vars + int(s.state_ptr[-1])]
    open_factor = open_node[s.num_vars + len(open_states) :].copy()
    has_open = np.logical_or.reduceat(open_states, s.state_ptr[:-1]) if s.num_vars else np.zeros(0, bool)
    open_factor[s.factor_of_edge[has_open[s.scope_vars]]] = True
    entries = np.flatnonzero(np.repeat(open_factor, np.diff(s.table_ptr)))
    if not len(entries):
        return entries
    factor = row_of(s.table_ptr)[entries]
    order = np.lexsort((values[entries], factor))
    f, v = factor[order], values[entries][order]
    first = np.flatnonzero(np.concatenate(([True], (f[1:] != f[:-1]) | (v[1:] != v[:-1]))))
    count = np.diff(np.append(first, len(f)))
    most = np.zeros(s.num_factors, np.int64)
    np.maximum.at(most, f[first], count)
    candidates = np.flatnonzero(count == most[f[first]])
    _, least = np.unique(f[first][candidates], return_index=True)  # Candidates are sorted by value within a factor.
    dropped = candidates[least]
    keep = np.ones(len(first), bool)
    keep[dropped] = False
    return np.sort(entries[order[np.repeat(keep, count)]])


def open_edges(edges: IntArray, cell: IntArray, sizes: IntArray) -> IntArray:
    """Return the edges between colours of which only some nodes are joined; the other edges carry no information."""
    pair = cell[edges[:, 0]] * len(sizes) + cell[edges[:, 1]]
    found, which, count = np.unique(pair, return_inverse=True, return_counts=True)
    all_joined = count == sizes[found // max(1, len(sizes))] * sizes[found % max(1, len(sizes))]
    return edges[~all_joined[which]]


def _repeated(colours: HashArray) -> BoolArray:
    """Return whether another node has the same colour."""
    _, which, count = np.unique(colours, return_inverse=True, return_counts=True)
    return count[which] > 1


@functools.cache
def _gives_inverse(igraph: Any) -> bool:
    """Return whether this release of igraph returns the node at each place (1.0) or the place of each node (before).

    Places follow the colours, so three nodes without edges show the difference.
    """
    return list(igraph.Graph(n=3).canonical_permutation(color=[2, 0, 1])) == [1, 2, 0]


def _igraph() -> Any:
    try:
        return importlib.import_module("igraph")  # Only models with symmetries of their own need it.
    except ImportError:
        raise OptionError(
            "Comparing models that have symmetries of their own needs the package igraph. Run pip install igraph."
        ) from None
