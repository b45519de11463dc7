"""A graph in the form of other packages: dense tables, at least one per variable, and no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.dense_graph import with_tables
from equifactor.formats.decimals import check_range, decimals
from equifactor.formats.evidence import evidence_as_factors

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph


class PlainFactor(NamedTuple):
    """The numbers of the variables of a factor, and its log table with one axis per variable."""

    scope: tuple[int, ...]
    log_table: FloatArray


def plain_factors(graph: FactorGraph, what: str) -> list[PlainFactor]:
    """Return the factors of an equal graph, with the same ln Z, for packages in which each variable needs a factor.

    An observation becomes a factor that is 1 in the observed state and 0 in the others. A structured factor becomes a
    dense table, and a variable without factors gets a factor of ones. A factor without variables is multiplied into the
    first other factor.

    Args:
        graph: any graph.
        what: the name of the target in errors.

    Raises `ModelError` if a structured factor needs a dense table of more than 2^20 entries.
    """
    graph = with_tables(evidence_as_factors(graph), what)
    found = [
        PlainFactor(tuple(graph.structure.scope(a).tolist()), graph.log_table(a)) for a in range(graph.num_factors)
    ]
    absent = np.setdiff1d(np.arange(graph.num_vars), graph.structure.scope_vars)
    found += [PlainFactor((i,), np.zeros(graph.card[i])) for i in absent.tolist()]
    constants = [float(f.log_table) for f in found if not f.scope]
    found = [f for f in found if f.scope]
    if constants and not found:
        raise ModelError(f"{what[0].upper()}{what[1:]} needs factors with variables, but this graph has no variables.")
    if constants:
        found[0] = PlainFactor(found[0].scope, found[0].log_table + sum(constants))
    return found


def merged_scopes(factors: list[PlainFactor]) -> list[PlainFactor]:
    """Return one factor per set of variables, with the sum of their log tables and the scope of the first factor."""
    merged: dict[frozenset[int], PlainFactor] = {}
    for scope, table in factors:
        first = merged.setdefault(frozenset(scope), PlainFactor(scope, np.zeros(())))
        axes = [scope.index(i) for i in first.scope]
        merged[frozenset(scope)] = PlainFactor(first.scope, first.log_table + np.transpose(table, axes))
    return list(merged.values())


def linear(log_table: FloatArray, what: str) -> FloatArray:
    """Return exp(log_table) as the shortest decimals with the given logarithms, so that 0.1 stays 0.1.

    Raises `ModelError` if a float cannot hold an entry.
    """
    flat = log_table.ravel()
    check_range(flat, f"Scale the factors first, since {what} does not hold logarithms.")
    return np.fromiter(map(float, decimals(flat)), np.float64, len(flat)).reshape(log_table.shape)
