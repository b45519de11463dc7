"""Writing factor graphs as toulbar2 problems, with log potentials rounded to integer costs."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.base.files import write_text
from equifactor.factors.clause import Clause
from equifactor.factors.dense_graph import with_tables
from equifactor.factors.sparse import SparseTable
from equifactor.formats.decimals import ENTRIES_AT_ONCE
from equifactor.formats.evidence import evidence_as_factors
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import merged
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray, IntArray


DIGITS = 7  # The number of significant digits of the largest cost that are kept. Chosen by hand.
# The number of decimals of every cost that are kept if the sum of the costs fits into `MAX_COST`. Chosen by hand.
_DECIMALS = 3
# A cost is lost if rounding changes it by more than `_LOST`, which is 1 % of the potential, and by more than the share
# `_LOST_SHARE` of the cost. Chosen by hand.
_LOST, _LOST_SHARE = 0.01, 1e-5
MAX_COST = 2**60  # The largest sum of all costs, so that every program can add them in 64 bits.


def write_wcsp(graph: FactorGraph, path: PathLike, *, scale: float | None = None) -> None:
    """Write a toulbar2 problem whose cheapest assignment is the most probable one, up to rounding.

    Args:
        graph: any factor graph; each observed variable gets a function that forbids its other states.
        path: the file.
        scale: cost = -log phi * scale, rounded to an integer. None takes the smallest power of ten that makes all
            costs integers. If there is no such power, it keeps 7 digits of the largest cost and 3 decimals of all
            costs. The name of the problem records the scale. Raises `ModelError` if no scale keeps both the largest
            and the smallest costs.

    Costs are not negative: a table with potentials above 1 is divided by its largest potential. The logarithm of the
    product of these divisors goes into the name as `:constant=`. Sparse tables and clauses stay lists of tuples with a
    default cost. Other structured factors become dense tables. Raises `ModelError` if a dense table would have more
    than 2^20 entries. Cost O(T).
    """
    check_scale(scale)
    graph = with_tables(evidence_as_factors(graph), "a .wcsp file", keep=[SparseTable.number, Clause.number])
    graph = clauses_as_sparse(graph)
    ptr = graph.structure.table_ptr
    shifts = np.maximum(0.0, max_per_table(graph.log_phi, ptr))
    costs = np.repeat(shifts, np.diff(ptr)) - graph.log_phi
    forbidden = np.isposinf(costs)
    costs[forbidden] = 0.0
    if scale is None:
        scale = default_scale(costs, math.fsum(max_per_table(costs, ptr)))
        _check_loss(costs, scale)
    with np.errstate(over="ignore"):
        costs = np.rint(costs * scale)
    total = math.fsum(max_per_table(costs, ptr))
    if total > MAX_COST:
        raise ModelError(f"With scale={scale:g} the costs add up to {total:.3g}, more than 2^60. Pass a smaller scale.")
    whole = costs.astype(np.int64)
    top = 1 + sum(int(x) for x in max_per_table(costs, ptr).tolist())  # above all sums of costs
    whole[forbidden] = top
    name = _name(graph.name, scale, math.fsum(shifts))
    write_text(path, _text(graph, whole, top, name))


def check_scale(scale: float | None) -> None:
    """Raise `OptionError` unless the scale is None or a finite number above 0."""
    if scale is not None and not 0 < scale < math.inf:
        raise OptionError(f"The option scale must be a finite number above 0, found {scale!r}.")


def clauses_as_sparse(graph: FactorGraph) -> FactorGraph:
    """Replace each clause by a sparse table that lists the one assignment that violates it."""
    s = graph.structure
    if s.kinds is None or not np.any(s.kinds.kind == Clause.number):
        return graph
    rows = s.rows(graph.log_phi)
    chosen, others = np.flatnonzero(rows.kind == Clause.number), np.flatnonzero(rows.kind != Clause.number)
    clauses = rows.take(chosen).as_kind(SparseTable.number)
    values = np.column_stack((np.zeros(len(chosen)), clauses.log_values)).ravel()
    clauses = clauses.with_values(2 * np.arange(len(chosen) + 1), values)
    changed = merged([(others, rows.take(others)), (chosen, clauses.with_words(clauses.word_ptr, 1 - clauses.words))])
    structure = Structure.of_rows(s.card, changed, variable_names=s.variable_names, state_names=s.state_names)
    return FactorGraph.trusted(structure, changed.log_values, graph.observed, graph.name)


def max_per_table(values: FloatArray, table_ptr: IntArray) -> FloatArray:
    """Return the largest entry [F] of each table; no table is empty."""
    return np.maximum.reduceat(values, table_ptr[:-1]) if len(table_ptr) > 1 else np.zeros(0)


def default_scale(costs: FloatArray, total: float) -> float:
    """Return the smallest power of ten that makes all costs integers.

    If there is no such power, return a power of ten that keeps 7 digits of the largest cost. If `total`, the largest
    sum of costs, permits it, that power keeps 3 decimals of every cost as well.
    """
    largest = float(costs.max(initial=0.0))
    if largest == 0:
        return 1.0
    most = DIGITS - 1 - math.floor(math.log10(largest))
    for k in range(13):
        if max(largest, total / 2**9) * 10.0**k >= 2**50:  # Beyond 2^50, any float is close to a whole number.
            break
        scaled = costs * 10.0**k
        if np.array_equal(np.rint(scaled), scaled):
            return 10.0**k
    room = math.floor(math.log10(MAX_COST / 2 / max(total, 1.0)))
    return 10.0 ** min(max(most, min(_DECIMALS, room)), 300)


def _check_loss(costs: FloatArray, scale: float) -> None:
    """Raise `ModelError` if rounding would lose a cost, because other costs in the same file are too large."""
    error = np.abs(np.rint(costs * scale) / scale - costs)
    lost = (error > _LOST) & (error > _LOST_SHARE * costs)
    if lost.any():
        raise ModelError(
            f"The costs reach {costs.max():.3g}, and whole numbers of 64 bits that hold them cannot also hold the cost "
            f"{costs[int(np.argmax(lost))]:.6g}. Write an .LG file, which holds decimal numbers, or pass the scale "
            "to round the costs to."
        )


def _name(name: str | None, scale: float, constant: float) -> str:
    name = re.sub(r"\s+", "_", name or "") or "model"
    name += f":scale={scale:.17g}" if scale != 1 or constant else ""
    return name + (f":constant={constant!r}" if constant else "")


def _text(graph: FactorGraph, costs: IntArray, top: int, name: str) -> Iterator[str]:
    structure = graph.structure
    largest_domain = int(graph.card.max(initial=0))
    yield f"{name} {graph.num_vars} {largest_domain} {graph.num_factors} {top}\n"
    yield " ".join(map(str, graph.card.tolist())) + "\n"
    for a in range(graph.num_factors):
        default, states, listed = _tuples(structure, a, costs[structure.table_ptr[a] : structure.table_ptr[a + 1]])
        yield " ".join(map(str, [len(structure.scope(a)), *structure.scope(a).tolist(), default, len(listed)]))
        for start in range(0, len(listed), ENTRIES_AT_ONCE):
            rows = np.column_stack((states[start : start + ENTRIES_AT_ONCE], listed[start : start + ENTRIES_AT_ONCE]))
            yield "".join(["\n" + " ".join(map(str, row)) for row in rows.tolist()])
        yield "\n"


def _tuples(s: Structure, a: int, costs: IntArray) -> tuple[int, IntArray, IntArray]:
    """Return the default cost of a factor, its tuples [n, arity] and the costs [n] of the tuples.

    `costs` are the costs of the log values of the factor.
    """
    if s.kinds is not None and s.kinds.kind[a] != TABLE:
        words = s.kinds.words[s.kinds.word_ptr[a] : s.kinds.word_ptr[a + 1]]
        return int(costs[0]), words.reshape(len(costs) - 1, len(s.scope(a))), costs[1:]
    values, counts = np.unique(costs, return_counts=True)
    default = int(values[np.argmax(counts)])  # the most frequent cost needs no tuples
    listed = np.flatnonzero(costs != default)
    edges = slice(s.scope_ptr[a], s.scope_ptr[a + 1])
    # Not unravel_index: a scope may have more variables than numpy has axes.
    states = listed[:, None] // s.stride[edges] % s.card[s.scope(a)]
    return default, states, costs[listed]
