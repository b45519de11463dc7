"""One representative for all relabellings of a graph, and its hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import row_of
from equifactor.symmetry.colour_refinement import bits, refine
from equifactor.symmetry.coloured_graph import canonical_order, coloured_graph
from equifactor.symmetry.comparable_graph import comparable, first_states, with_swaps
from equifactor.symmetry.compared_factors import normal_factors, with_small_tables
from equifactor.symmetry.relabelled_graph import relabel
from equifactor.symmetry.relabelling import Relabelling

if TYPE_CHECKING:
    from equifactor.symmetry.colour_refinement import Colours, HashArray


def canonical_form(graph: FactorGraph, *, digits: int | None = None) -> FactorGraph:
    """Return the graph relabelled so that exactly isomorphic graphs become equal; names are left out.

    Args:
        graph: any graph; its evidence counts, as for `isomorphism`.
        digits: decimals to which the natural logs of the tables are rounded first, so that noise far below the last
            digit has no effect; None compares values to the last bit (with -0.0 equal to 0.0). Noise can still push a
            value across a rounding boundary: to compare two graphs use `isomorphism(.., tolerance=..)`.

    Only the values of a factor count, not the kind that states them. A small structured factor becomes its dense table.
    A large structured factor (above 2^12 entries) takes the canonical form of its kind. Factors of
    kinds without one, with tables above 2^16 entries raise `ModelError`.

    The representative may change from one release of this package or of igraph to the next. The cost is a few O(T k)
    passes if the graph has no symmetries of its own. Otherwise BLISS searches over the nodes of equal colours. The
    search is exponential in the worst case, and takes milliseconds to seconds for real models.
    """
    plain = _without_names(with_small_tables(graph), digits)
    same = comparable(plain)
    if same.tables is plain:
        return relabel(plain, canonical_relabelling(plain))
    r = canonical_relabelling(same.tables)
    s = plain.structure
    states = same.own_states(r.states, s.state_ptr)
    own = _in_order(s, r.variables[: s.num_vars], r.factors[: s.num_factors], states)
    if same.parities is not None:
        turned = same.parities.turns_after(first_states(own) == 1)
        swapped, _ = same.parities.swaps(turned, own.factors[same.parities.factors])
        own = with_swaps(own, swapped)
    return normal_factors(relabel(plain, own))


def graph_hash(graph: FactorGraph, *, digits: int | None = None) -> str:
    """Return a SHA-256 hash in hexadecimal that is equal exactly for isomorphic graphs."""
    plain = comparable(_without_names(with_small_tables(graph), digits)).tables
    g = relabel(plain, canonical_relabelling(plain))
    s = g.structure
    observed = np.full(s.num_vars, -1) if g.observed is None else g.observed
    digest = hashlib.sha256()
    for array in (np.array([s.num_vars, s.num_factors]), s.card, observed, s.scope_ptr, s.scope_vars):
        digest.update(array.astype(">i8").tobytes())
    digest.update(g.log_phi.astype(">f8").tobytes())
    return digest.hexdigest()


def canonical_relabelling(
    graph: FactorGraph, values: HashArray | None = None, colours: Colours | None = None
) -> Relabelling:
    """Return the relabelling that leads to the canonical form.

    Args:
        graph: the graph, of which structure and evidence are used.
        values: [T] numbers that represent the table entries; None takes the bits of the entries.
        colours: the result of `refine(graph, values)`, if the caller has it already.
    """
    graph = as_graph(graph)
    if values is not None:
        wanted = f"values must be whole numbers [{len(graph.log_phi)}], one for each table entry"
        try:
            values = np.asarray(values)
        except ValueError:
            raise ModelError(f"{wanted}, found rows of different lengths.") from None
        if values.dtype.kind not in "iu" or values.shape != graph.log_phi.shape:
            raise ModelError(f"{wanted}, found {brief(values)}.")
    if colours is not None and not hasattr(colours, "variables"):
        raise ModelError(f"colours must be what refine(graph, values) returns, found {brief(colours)}.")
    values = bits(graph.log_phi) if values is None else values
    colours = refine(graph, values) if colours is None else colours
    place = canonical_order(coloured_graph(graph, colours, values))
    s = graph.structure
    num_states = int(s.state_ptr[-1])
    variables = place[: s.num_vars]
    states = place[s.num_vars : s.num_vars + num_states]
    factors = place[s.num_vars + num_states : s.num_vars + num_states + s.num_factors]
    return _in_order(s, variables, factors, states)


def _in_order(s: Structure, variables: np.ndarray, factors: np.ndarray, states: np.ndarray) -> Relabelling:
    """Return the relabelling by these keys of variables, factors and states; scopes are sorted by variable."""
    variables = _ranks(variables)
    return Relabelling(
        variables,
        _ranks(factors),
        _ranks_within(variables[s.scope_vars], s.scope_ptr),
        _ranks_within(states, s.state_ptr),
        s.scope_ptr,
        s.state_ptr,
    )


def _without_names(graph: FactorGraph, digits: int | None) -> FactorGraph:
    s = graph.structure
    if digits is not None and not (isinstance(digits, int) and 0 <= digits <= 15):
        raise OptionError(f"digits must be a whole number from 0 to 15, found {digits!r}")
    log_phi = (graph.log_phi if digits is None else np.round(graph.log_phi, digits)) + 0.0  # This turns -0.0 into 0.0.
    return FactorGraph.trusted(
        Structure(s.card, s.scope_ptr, s.scope_vars, s.table_ptr, kinds=s.kinds), log_phi, graph.observed
    )


def _ranks(keys: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(keys))


def _ranks_within(keys: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Return the rank of each key among the keys of its row."""
    row = row_of(ptr)
    order = np.lexsort((keys, row))
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - ptr[row]
    return ranks
