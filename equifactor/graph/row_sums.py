"""Warnings about Bayesian networks whose rows do not sum to 1: ln Z then is not the log probability of the evidence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.parents import ROUNDING, find_families, row_text
from equifactor.graph.structure import MAX_AXES

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure

_MOST_FACTORS = 10_000  # Graphs with more factors are not checked when they are built: a check takes 5 us a factor.
_EXACT = 1e-6  # How far from 1 the sum of a row may be that counts as a row of a conditional distribution.

log = logging.getLogger("equifactor")


def warn_of_typed_rows(graph: FactorGraph) -> None:
    """Log a warning if a graph that a user typed looks like a Bayesian network, but some rows do not sum to 1.

    The scopes must be those of a Bayesian network, no entry may be above 1, and at least half of the rows must sum to 1
    exactly. Potentials of a Markov random field do not look like this by accident.
    """
    s = graph.structure
    if s.kinds is not None or not s.num_vars == s.num_factors <= _MOST_FACTORS or graph.log_phi.max(initial=0.0) > 0:
        return
    families = find_families(graph) if (s.arity <= MAX_AXES).all() else None
    if families is None or s.num_edges == s.num_vars:  # single variables alone are not a network
        return
    sums = [np.exp(graph.log_table(a)).sum(axis=int(k)) for a, k in enumerate(families.slot)]
    errors = np.abs(np.concatenate([np.ravel(own) for own in sums]) - 1.0)
    if errors.max() <= ROUNDING or np.mean(errors <= _EXACT) < 0.5:
        return
    a = next(a for a, own in enumerate(sums) if np.max(np.abs(own - 1.0)) > ROUNDING)
    row = np.unravel_index(int(np.argmax(np.abs(sums[a] - 1.0))), sums[a].shape)
    scope = s.scope(a).tolist()
    child = scope.pop(int(families.slot[a]))
    given = row_text(s, scope, [int(x) for x in row])
    _warn("", _called(s, child), given, float(sums[a][row]))


def warn_of_stated_rows(structure: Structure, phi: FloatArray, where: str) -> None:
    """Log a warning if a row in a file of a Bayesian network does not sum to 1; the child is last in each scope.

    Args:
        structure: the scopes, all of tables.
        phi: [T] the entries, not their logarithms.
        where: the name of the file.
    """
    s = structure
    has_scope = s.arity > 0
    width = np.ones(s.num_factors, np.int64)
    width[has_scope] = s.card[s.scope_vars[s.scope_ptr[1:][has_scope] - 1]]
    sizes = np.diff(s.table_ptr)
    width_of_row = np.repeat(width, sizes // width)
    starts = np.cumsum(width_of_row) - width_of_row
    sums = np.add.reduceat(phi, starts) if len(starts) else np.ones(0)
    wrong = np.abs(sums - 1.0) > ROUNDING
    if wrong.any():
        n = int(np.argmax(wrong))
        a = int(np.searchsorted(s.table_ptr, starts[n], side="right")) - 1
        child = _called(s, int(s.scope(a)[-1])) if s.arity[a] else "no variable"
        row = (int(starts[n]) - int(s.table_ptr[a])) // int(width[a])
        _warn(f"{where}: ", child, f"row {row} of factor {a}", float(sums[n]))


def _called(s: Structure, variable: int) -> str:
    return s.variable_name(variable) if s.variable_names else f"variable {variable}"


def _warn(where: str, child: str, given: str, total: float) -> None:
    log.warning(
        "%sthe probabilities of %s%s sum to %.6g, not to 1. ln Z of this network is not the log probability of the "
        "evidence. Correct the table, or ignore this if the factors are not conditional probabilities.",
        where, child, f" ({given})" if given else "", total,
    )  # fmt: skip
