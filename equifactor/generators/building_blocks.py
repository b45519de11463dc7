"""What several generators build graphs from: fields on pairs of variables, and many graphs from one array of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.typing import FloatArray, IntArray


def field_structure(card: ArrayLike, pairs: IntArray) -> Structure:
    """The structure with a unary factor on each variable, in order, then a factor on each pair [P, 2] of variables."""
    num_vars = len(np.asarray(card))
    scope_ptr = np.concatenate((np.arange(num_vars), num_vars + 2 * np.arange(len(pairs) + 1)))
    return Structure.build(card, scope_ptr, np.concatenate((np.arange(num_vars), pairs.ravel())))


def one_or_many(
    structure: Structure, log_phi: FloatArray, stem: str, count: int | None
) -> FactorGraph | list[FactorGraph]:
    """Graphs that share one structure, from their log tables [N, T]: views of the rows, nothing is copied.

    Args:
        structure: the structure of every graph.
        log_phi: [N, T] natural logs of all tables, a row per graph.
        stem: graph i is called `stem-i`.
        count: None gives the first graph alone, a number gives the list of all.
    """
    log_phi.flags.writeable = False
    graphs = [FactorGraph.trusted(structure, row, None, f"{stem}-{i}") for i, row in enumerate(log_phi)]
    return graphs[0] if count is None else graphs
