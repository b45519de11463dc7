"""Writing factor graphs as DIMACS CNF: a formula with weights of literals or of clauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.files import write_text
from equifactor.factors.clause import Clause
from equifactor.factors.dense_graph import with_tables
from equifactor.formats.decimals import ENTRIES_AT_ONCE, decimals
from equifactor.formats.evidence import evidence_as_factors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.files import PathLike
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph.factor_graph import FactorGraph

_ADVICE = "Write a .uai file instead."


def write_cnf(graph: FactorGraph, path: PathLike) -> None:
    """Write a CNF file with weights of literals in the form of the model counting competition.

    All variables must be binary. A `Clause` becomes a clause. A table whose nonzero entries are all equal becomes a
    clause per zero entry. Any other factor must be unary and becomes two weights. Constants go into the weights of the
    first weighted variable, so that the weighted model count is Z.

    If some `Clause` has a weight, the file is a weighted MaxSAT problem (`p wcnf`) instead. Violating a clause costs
    its weight, and a unary factor becomes two clauses of one literal, so no potential may be above 1.

    Other structured factors are written as dense tables. Raises `ModelError` for the first factor that does not fit.
    """
    graph = with_tables(evidence_as_factors(graph), "a CNF file", keep=[Clause.number])
    wide = np.flatnonzero(graph.card != 2)
    if len(wide):
        i = int(wide[0])
        raise ModelError(
            f"Variable {graph.structure.variable_name(i)} has {graph.card[i]} states, but a CNF file holds binary "
            f"variables only. {_ADVICE}",
            variable=i,
        )
    weights = graph.log_phi[graph.structure.table_ptr[:-1][_clauses(graph)]]
    soft = np.isfinite(weights) & (weights != 0)
    text = _weighted_text(graph) if soft.any() else _text(graph, *_split(graph))
    write_text(path, text)


def _clauses(graph: FactorGraph) -> BoolArray:
    """Return which factors [F] are clauses."""
    kinds = graph.structure.kinds
    return np.zeros(graph.num_factors, bool) if kinds is None else kinds.kind == Clause.number


def _split(graph: FactorGraph) -> tuple[list[int], dict[int, FloatArray]]:
    """Return the factors to write as clauses, and the log weights [2] of each weighted variable."""
    s = graph.structure
    if s.num_factors == 0:
        return [], {}
    is_clause = _clauses(graph)
    is_zero = graph.log_phi == -np.inf
    largest = np.maximum.reduceat(graph.log_phi, s.table_ptr[:-1])  # [F]; no table is empty
    smallest = np.minimum.reduceat(np.where(is_zero, np.inf, graph.log_phi), s.table_ptr[:-1])
    has_zeros = np.logical_or.reduceat(is_zero, s.table_ptr[:-1])
    one_value = (largest == smallest) | (largest == -np.inf)
    is_weight = (s.arity == 1) & ~(one_value & has_zeros)
    wrong = ~one_value & ~is_weight
    if wrong.any():
        a = int(np.argmax(wrong))
        raise ModelError(
            f"Factor {a} over {s.arity[a]} variables has several different nonzero potentials. A CNF file holds only "
            f"clauses and weights of single variables. {_ADVICE}",
            factor=a,
        )
    log_weights: dict[int, FloatArray] = {}
    for a in np.flatnonzero(is_weight).tolist():
        i = int(s.scope(a)[0])
        log_weights[i] = log_weights.get(i, 0.0) + graph.log_table(a)
    constant = float(largest[~is_weight & ~is_clause & (largest != -np.inf)].sum())
    if constant:
        if graph.num_vars == 0:
            raise ModelError(f"A CNF file without variables cannot hold a constant factor. {_ADVICE}")
        i = min(log_weights, default=0)
        log_weights[i] = log_weights.get(i, np.zeros(2)) + constant
    return np.flatnonzero(~is_weight & has_zeros).tolist(), log_weights


def _text(graph: FactorGraph, clauses: list[int], log_weights: dict[int, FloatArray]) -> Iterator[str]:
    is_clause, structure = _clauses(graph), graph.structure
    zeros = {a: np.flatnonzero(graph.log_table(a) == -np.inf) for a in clauses if not is_clause[a]}
    num_clauses = sum(1 if is_clause[a] else len(zeros[a]) for a in clauses)
    yield f"c t {'wmc' if log_weights else 'mc'}\np cnf {graph.num_vars} {num_clauses}\n"
    variables = sorted(log_weights)
    texts = decimals(np.concatenate([log_weights[i] for i in variables]) if variables else np.zeros(0))
    for i in variables:
        false, true = next(texts), next(texts)
        yield f"c p weight {i + 1} {true} 0\nc p weight -{i + 1} {false} 0\n"
    for a in clauses:
        if is_clause[a]:
            yield _literals(graph, a) + "\n"
            continue
        entries = zeros[a]
        labels, edges = structure.scope(a) + 1, slice(structure.scope_ptr[a], structure.scope_ptr[a + 1])
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            states = entries[start : start + ENTRIES_AT_ONCE, None] // structure.stride[edges] % 2  # [clauses, arity]
            literals = np.where(states == 1, -labels, labels).tolist()
            yield "".join([" ".join(map(str, clause)) + " 0\n" for clause in literals])


def _literals(graph: FactorGraph, a: int) -> str:
    """Return the literals of a clause and a 0."""
    kinds, labels = graph.structure.kinds, graph.structure.scope(a) + 1
    assert kinds is not None
    signs = kinds.words[kinds.word_ptr[a] : kinds.word_ptr[a + 1]]
    return " ".join(map(str, [*np.where(signs == 1, labels, -labels).tolist(), 0]))


def _weighted_text(graph: FactorGraph) -> Iterator[str]:
    """Yield a weighted MaxSAT problem; every potential other than 1 is the cost of violating one clause."""
    is_clause, s = _clauses(graph), graph.structure
    high = np.flatnonzero(graph.log_phi > 0)
    if len(high):
        a = int(np.searchsorted(s.table_ptr, high[0], side="right")) - 1
        raise ModelError(
            f"Factor {a} has a potential above 1. A CNF file with weighted clauses holds only potentials up to 1. "
            f"{_ADVICE}",
            factor=a,
        )
    clauses: list[tuple[float, str]] = []
    for a in range(graph.num_factors):
        if is_clause[a]:
            clauses.append((-float(graph.log_phi[s.table_ptr[a]]), _literals(graph, a)))
            continue
        table, labels = graph.log_table(a), s.scope(a) + 1
        for states in np.argwhere(table != 0).tolist():
            literals = np.where(np.array(states) == 1, -labels, labels).tolist()
            clauses.append((-float(table[tuple(states)]), " ".join(map(str, [*literals, 0]))))
    top = sum(cost for cost, _ in clauses if cost < np.inf) + 1.0
    yield f"p wcnf {graph.num_vars} {len(clauses)} {_number(top)}\n"
    for cost, literals in clauses:
        yield f"{_number(min(cost, top))} {literals}\n"


def _number(cost: float) -> str:
    """Format a cost; whole numbers have no decimal point, since some MaxSAT programs cannot read it."""
    return str(int(cost)) if cost == int(cost) and cost < 2**53 else repr(cost)
