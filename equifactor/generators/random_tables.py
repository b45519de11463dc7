"""Random log tables for a given structure, with zeros that leave at least one assignment with positive probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.argument_checks import check_size
from equifactor.graph.factor_graph import FactorGraph

if TYPE_CHECKING:
    from equifactor.graph.structure import Structure


def with_random_tables(
    structure: Structure, rng: np.random.Generator, strength: float, zeros: float, name: str
) -> FactorGraph:
    """Return a graph whose log entries are drawn from N(0, strength^2). An entry is zero with probability `zeros`.

    One uniform random assignment keeps a positive entry in every table. So no table is all zero, and the partition
    function is positive. The mean share of zeros in a table of n entries is `zeros * (1 - 1/n)`. Cost O(T).
    """
    check_size(structure.num_entries)
    log_phi = strength * rng.standard_normal(structure.num_entries)
    if zeros > 0:
        planted = rng.integers(structure.card)
        step = np.concatenate(([0], np.cumsum(planted[structure.scope_vars] * structure.stride)))
        offset = step[structure.scope_ptr[1:]] - step[structure.scope_ptr[:-1]]
        zero = rng.random(structure.num_entries) < zeros
        zero[structure.table_ptr[:-1] + offset] = False
        log_phi[zero] = -np.inf
    return FactorGraph.trusted(structure, log_phi, None, name)
