"""Writing factor graphs as DIMACS CNF, where they are a formula with weights of literals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import ModelError
from equifactor.io.decimals import BLOCK, decimals
from equifactor.io.evidence import evidence_as_factors
from equifactor.io.files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.io.files import PathLike
    from equifactor.typing import FloatArray


def write_cnf(graph: FactorGraph, path: PathLike) -> None:
    """Write a CNF with literal weights in the form of the model counting competition.

    All variables must be binary. A factor whose entries are zero or one other value gives a clause per zero;
    any other factor must be unary and gives two weights. Constants go into the weights of the first variable.
    So the weighted model count is Z. Raises `ModelError` naming the first factor that does not fit.
    """
    graph = evidence_as_factors(graph)
    wide = np.flatnonzero(graph.card != 2)
    if len(wide):
        i = int(wide[0])
        raise ModelError(
            f"variable {graph.structure.variable_name(i)} has {graph.card[i]} states; a CNF file holds "
            "binary variables only, write a .uai file instead",
            variable=i,
        )
    clauses, log_weights = _split(graph)
    write_text(path, _text(graph, clauses, log_weights))


def _split(graph: FactorGraph) -> tuple[list[int], dict[int, FloatArray]]:
    """The factors to be written as clauses, and the log weights [2] of each weighted variable."""
    s = graph.structure
    if s.num_factors == 0:
        return [], {}
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
            f"factor {a} over {s.arity[a]} variables has different potentials that are not zero; a CNF file "
            "holds clauses and weights of single variables only, write a .uai file instead",
            factor=a,
        )
    log_weights: dict[int, FloatArray] = {}
    for a in np.flatnonzero(is_weight).tolist():
        i = int(s.scope(a)[0])
        log_weights[i] = log_weights.get(i, 0.0) + graph.log_table(a)
    constant = float(largest[~is_weight & (largest != -np.inf)].sum())
    if constant:
        if graph.num_vars == 0:
            raise ModelError("a CNF file without variables cannot hold a constant, write a .uai file instead")
        i = min(log_weights, default=0)
        log_weights[i] = log_weights.get(i, np.zeros(2)) + constant
    return np.flatnonzero(~is_weight & has_zeros).tolist(), log_weights


def _text(graph: FactorGraph, clauses: list[int], log_weights: dict[int, FloatArray]) -> Iterator[str]:
    structure = graph.structure
    zeros = {a: np.flatnonzero(graph.log_table(a) == -np.inf) for a in clauses}
    num_clauses = sum(map(len, zeros.values()))
    yield f"c t {'wmc' if log_weights else 'mc'}\np cnf {graph.num_vars} {num_clauses}\n"
    variables = sorted(log_weights)
    texts = decimals(np.concatenate([log_weights[i] for i in variables]) if variables else np.zeros(0))
    for i in variables:
        false, true = next(texts), next(texts)
        yield f"c p weight {i + 1} {true} 0\nc p weight -{i + 1} {false} 0\n"
    for a, entries in zeros.items():
        labels, edges = structure.scope(a) + 1, slice(structure.scope_ptr[a], structure.scope_ptr[a + 1])
        for start in range(0, len(entries), BLOCK):
            states = entries[start : start + BLOCK, None] // structure.stride[edges] % 2  # [clauses, arity]
            literals = np.where(states == 1, -labels, labels).tolist()
            yield "".join([" ".join(map(str, clause)) + " 0\n" for clause in literals])
