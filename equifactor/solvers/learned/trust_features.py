"""What the trust in an answer is judged by: how several runs differ at a variable, around it and in its graph.

Symbols: K runs, V free variables, X variable states, E edges, F factors, G graphs, D features. Every feature is a sum,
mean or count, so that it does not depend on the names or the order of variables, factors and states.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.table_ranges import structured_ranges, table_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray
    from equifactor.graph import FlatGraph

ROUNDING = 1e-6  # A difference of marginals, or a change, that single precision can cause.
_RESIDUAL = 1e-8  # A change of messages far below the tolerance of every run.
_WIDEST = 50.0  # A log range, in nats, beyond which a wider table does not act differently.


def features(flat: FlatGraph[np.ndarray], runs: Sequence[FloatArray], change: FloatArray) -> FloatArray:
    """Return the features [V, D] of each variable.

    Args:
        flat: the batch.
        runs: the marginals [X] of each of the K runs.
        change: [G, K] the change of a message in the last step of each run.
    """
    variable, graph = flat.var_of_state, flat.graph_of_var
    apart = np.stack([_sums(variable, np.abs(p - q), flat.num_vars) / 2 for p, q in combinations(runs, 2)], axis=1)
    edge_var, edge_factor = flat.var_of_edge, flat.factor_of_edge
    arity = np.bincount(edge_factor, minlength=flat.num_factors)
    joins = arity[edge_factor] > 1
    edge_var, edge_factor = edge_var[joins], edge_factor[joins]
    degree = np.bincount(edge_var, minlength=flat.num_vars)
    size = np.maximum(np.bincount(graph, minlength=flat.num_graphs), 1)

    def around(values: FloatArray) -> FloatArray:
        """Return [V, ..] the means over the factors of each variable of values [F, ..]."""
        return _sums(edge_var, values[edge_factor], flat.num_vars) / np.maximum(degree, 1)[:, None]

    def over_graph(values: FloatArray) -> FloatArray:
        """Return [V, ..] the means over the graph of each variable of values [V, ..]."""
        return (_sums(graph, values, flat.num_graphs) / size[:, None])[graph]

    near = around(_sums(edge_factor, apart[edge_var], flat.num_factors) / np.maximum(arity, 1)[:, None])
    width, zeros = _tables(flat)
    tables = around(np.stack((np.log1p(np.minimum(width, _WIDEST)), zeros, np.log(np.maximum(arity, 1))), axis=1))
    card = np.diff(flat.var_ptr)
    entropy = np.stack(
        [-_sums(variable, p * np.log(np.maximum(p, 1e-12)), flat.num_vars) / np.log(np.maximum(card, 2)) for p in runs],
        axis=1,
    )
    loops = (excess_edges(flat) / size)[:, None]
    return np.concatenate(
        (
            np.log(apart + ROUNDING), np.log(near + ROUNDING), np.log(over_graph(apart) + ROUNDING),
            np.log(np.maximum(change, 0.0) + _RESIDUAL)[graph], entropy, over_graph(entropy),
            tables, over_graph(tables), np.stack((np.log1p(degree), np.log(card), np.log(size)[graph]), axis=1),
            loops[graph],
        ),
        axis=1,
    )  # fmt: skip


def excess_edges(flat: FlatGraph[np.ndarray]) -> FloatArray:
    """Return [G] the edges of factors of several variables, less these factors, less the variables.

    It is the number of independent loops less the number of connected components, so it is negative for a forest.
    """
    arity = np.bincount(flat.factor_of_edge, minlength=flat.num_factors)
    own = np.where(arity > 1, arity - 1, 0)
    return flat.sum_per_graph(flat.graph_of_factor, own) - np.bincount(flat.graph_of_var, minlength=flat.num_graphs)


def _tables(flat: FlatGraph[np.ndarray]) -> tuple[FloatArray, FloatArray]:
    """Return [F] the log range of each factor, and its share of zeros; a structured factor counts as without zeros."""
    width, zeros = np.zeros(flat.num_factors), np.zeros(flat.num_factors)
    for group in flat.groups:
        if group.shape:
            table = flat.log_phi[group.entries].reshape(group.num_factors, -1)
            zeros[group.factors] = np.isneginf(table).mean(1)
            width[group.factors] = np.nan_to_num(table_ranges(flat, group), nan=0.0, posinf=0.0, neginf=0.0)
    for other in flat.structured:
        width[other.factors] = np.nan_to_num(structured_ranges(flat, other), nan=0.0, posinf=_WIDEST, neginf=0.0)
    return width, zeros


def _sums(owner: np.ndarray, values: FloatArray, count: int) -> FloatArray:
    """Return [count, ..] the sums of the rows of values [N] or [N, M] of each owner [N]."""
    if values.ndim == 1:
        return np.asarray(np.bincount(owner, values, count), np.float64)
    return np.stack([np.bincount(owner, column, count) for column in values.T], axis=1)
