"""A graph as other packages can hold it: tables of numbers, at least one per variable, nothing observed."""

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
    """The variables of a factor by number, and its log table with one axis for each."""

    scope: tuple[int, ...]
    log_table: FloatArray


def plain_factors(graph: FactorGraph, what: str) -> list[PlainFactor]:
    """The factors of an equal graph, with the same ln Z, for packages in which each variable is in some factor.

    An observation becomes a factor that is 1 there and 0 elsewhere, a factor of another kind its table, and a variable
    in no factor gets one of ones. A factor without variables goes into the table of the first other one.

    Args:
        graph: any graph.
        what: what it becomes, in errors.

    Raises `ModelError` for a factor whose table has more than 2^20 entries and is not stated as one.
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
        raise ModelError(f"{what} holds factors of variables, and this graph has no variables")
    if constants:
        found[0] = PlainFactor(found[0].scope, found[0].log_table + sum(constants))
    return found


def merged_scopes(factors: list[PlainFactor]) -> list[PlainFactor]:
    """One factor per set of variables, with the sum of the log tables; each has the scope that came first."""
    merged: dict[frozenset[int], PlainFactor] = {}
    for scope, table in factors:
        first = merged.setdefault(frozenset(scope), PlainFactor(scope, np.zeros(())))
        axes = [scope.index(i) for i in first.scope]
        merged[frozenset(scope)] = PlainFactor(first.scope, first.log_table + np.transpose(table, axes))
    return list(merged.values())


def linear(log_table: FloatArray, what: str) -> FloatArray:
    """The table itself: the shortest decimals whose logarithms are the given ones, so that 0.1 stays 0.1.

    Raises `ModelError` where a float cannot hold an entry.
    """
    flat = log_table.ravel()
    check_range(flat, f"{what} holds no logarithms, so scale the factors first")
    return np.fromiter(map(float, decimals(flat)), np.float64, len(flat)).reshape(log_table.shape)
