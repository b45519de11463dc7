"""Random satisfiability problems: clauses of k literals over uniform random variables."""

from __future__ import annotations

from typing import TypedDict, Unpack, overload

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.factors.clause import Clause
from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole
from equifactor.generators.building_blocks import rows_of_kind
from equifactor.generators.random_graphs import random_subsets
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure


class KsatOptions(TypedDict, total=False):
    """Keyword arguments of `random_ksat`, for the type checker."""

    k: int
    num_clauses: int | None
    weight: float | None
    seed: int


@overload
def random_ksat(
    num_vars: int, ratio: float = 4.0, *, count: None = None, **options: Unpack[KsatOptions]
) -> FactorGraph: ...
@overload
def random_ksat(
    num_vars: int, ratio: float = 4.0, *, count: int, **options: Unpack[KsatOptions]
) -> list[FactorGraph]: ...
def random_ksat(
    num_vars: int,
    ratio: float = 4.0,
    *,
    k: int = 3,
    num_clauses: int | None = None,
    weight: float | None = None,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw random k-SAT: each clause has k different variables, and each literal is negated with probability 1/2.

    ln Z is the logarithm of the number of solutions. Random 3-SAT has solutions up to about 4.27 clauses per
    variable, 5-SAT up to about 21.1. Every graph of a list has its own clauses, and graph i does not depend on
    `count`.

    Args:
        num_vars: V, the number of variables.
        ratio: clauses per variable, rounded to a whole number of clauses.
        k: literals per clause, at least 2.
        num_clauses: the number of clauses, instead of the ratio.
        weight: the cost of a violated clause; None means that every clause must hold.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.random_ksat(1000, 4.2, seed=1)
        FactorGraph(3sat-1000-4200-seed1-0: 1,000 variables, 4,200 factors, 2 states, arity 3, 4,200 clause)
    """
    num_vars, k = whole("num_vars", num_vars, 2), whole("k", k, 2)
    if k > num_vars:
        raise OptionError(f"k must be at most {num_vars}, the number of variables; found {k}.")
    if num_clauses is None:
        num_clauses = round(real("ratio", ratio) * num_vars)
    num_clauses = whole("num_clauses", num_clauses, 0)
    log_value = -np.inf if weight is None else -real("weight", weight)
    check_size(number_of_graphs(count) * (num_vars + num_clauses * k))
    rng = np.random.default_rng(whole("seed", seed, 0))
    graphs = []
    for i in range(number_of_graphs(count)):
        size = np.full(num_clauses, k)
        scopes = random_subsets(num_vars, size, rng)
        signs = rng.integers(2, size=len(scopes))
        values = np.ones(num_clauses, np.int64), np.full(num_clauses, log_value + 0.0)
        rows = rows_of_kind(Clause.number, size, scopes, values, (size, signs))
        structure = Structure.of_rows(np.full(num_vars, 2), rows)
        name = f"{k}sat-{num_vars}-{num_clauses}-seed{seed}-{i}"
        graphs.append(FactorGraph.trusted(structure, rows.log_values, None, name))
    return graphs[0] if count is None else graphs
