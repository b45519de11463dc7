"""The arrays for the enumeration of completions in `completion_kernels.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of


class CompletionScopes(NamedTuple):
    """A structure of tables, and the edges of each variable."""

    card: IntArray  # [V]
    scope_ptr: IntArray  # [F+1]
    scope_vars: IntArray  # [E]
    stride: IntArray  # [E]
    factor_of_edge: IntArray  # [E]
    table_ptr: IntArray  # [F+1]
    edge_ptr: IntArray  # [V+1] edges of variable i are edges[edge_ptr[i]:edge_ptr[i+1]]
    edges: IntArray  # [E]


class CompletionWork(NamedTuple):
    """Working memory for one row."""

    seen_variable: IntArray  # [V] the last row in which a component had the variable
    seen_factor: IntArray  # [F] the last row in which a component had the factor
    variables: IntArray  # [V] variables of all components, one component after the other
    variable_ptr: IntArray  # [V+1] component c has variables[variable_ptr[c]:variable_ptr[c+1]]
    factors: IntArray  # [F] factors of all components
    factor_ptr: IntArray  # [V+1]
    entry: IntArray  # [F] the present entry of each factor
    digit: IntArray  # [V] the present state of each variable of the components
    scores: FloatArray  # [largest number of completions]


def completion_scopes(s: Structure) -> CompletionScopes:
    """Return the structure in the form that the kernels take."""
    edge_ptr = ptr_of(np.bincount(s.scope_vars, minlength=s.num_vars))
    edges = np.argsort(s.scope_vars, kind="stable")
    return CompletionScopes(
        s.card, s.scope_ptr, s.scope_vars, s.stride, s.factor_of_edge, s.table_ptr, edge_ptr, edges
    )  # fmt: skip


def completion_work(s: Structure, largest: int) -> CompletionWork:
    """Return working memory for rows whose components have at most `largest` completions."""
    v, f = s.num_vars, s.num_factors
    ints = (np.empty(n, np.int64) for n in (v, f, v, v + 1, f, v + 1, f, v))
    return CompletionWork(*ints, np.empty(largest))  # type: ignore[call-arg, arg-type]
