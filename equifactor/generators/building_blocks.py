"""Parts that several generators share: fields on pairs of variables, and many graphs from one array of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import FloatArray, IntArray


SPIN = np.array([-1.0, 1.0])  # The spins of states 0 and 1.


def field_structure(card: ArrayLike, pairs: IntArray) -> Structure:
    """Return a structure with a unary factor on each variable, in order, then a factor on each pair [P, 2]."""
    num_vars = len(np.asarray(card))
    scope_ptr = np.concatenate((np.arange(num_vars), num_vars + 2 * np.arange(len(pairs) + 1)))
    return Structure.build(card, scope_ptr, np.concatenate((np.arange(num_vars), pairs.ravel())))


def rows_of_kind(
    kind: int,
    arity: IntArray,
    scope_vars: IntArray,
    values: tuple[IntArray, FloatArray],
    words: tuple[IntArray, IntArray],
) -> FactorRows:
    """Return factors of one kind over binary variables, from flat arrays.

    Args:
        kind: the number of the kind.
        arity: [N] the number of variables of each factor.
        scope_vars: the variables of all factors, one after the other.
        values: the number of log values of each factor [N], and all log values.
        words: the number of words of each factor [N], and all words.
    """
    return FactorRows(
        np.full(len(arity), kind),
        ptr_of(arity), scope_vars,
        ptr_of(values[0]), values[1],
        ptr_of(words[0]), words[1],
        np.full(len(scope_vars), 2),
    )  # fmt: skip


def one_or_many(
    structure: Structure, log_phi: FloatArray, stem: str, count: int | None
) -> FactorGraph | list[FactorGraph]:
    """Return graphs that share one structure, from their log tables [N, T]; the rows are not copied.

    Args:
        structure: the structure of every graph.
        log_phi: [N, T] natural logs of all tables, a row per graph.
        stem: the name of graph i is `stem-i`.
        count: None gives only the first graph, a number gives the list of all graphs.
    """
    log_phi.flags.writeable = False
    graphs = [FactorGraph.trusted(structure, row, None, f"{stem}-{i}") for i, row in enumerate(log_phi)]
    return graphs[0] if count is None else graphs
