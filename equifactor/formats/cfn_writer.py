"""Writing factor graphs as cost function networks with decimal costs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.files import write_text
from equifactor.factors.clause import Clause
from equifactor.factors.dense_graph import with_tables
from equifactor.factors.sparse import SparseTable
from equifactor.formats.conditionals import identifiers
from equifactor.formats.evidence import evidence_as_factors
from equifactor.formats.wcsp_writer import MAX_COST, clauses_as_sparse, default_scale, max_per_table
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph

MARK = "#equifactor "  # Begins the comments that hold names which toulbar2 cannot read.
_TOULBAR2_NAME = re.compile(r"""[^\s0-9\-.+/#\[\]{},:"'\\<>][^\s/#\[\]{},:"'\\]*""")


def write_cfn(graph: FactorGraph, path: PathLike) -> None:
    """Write a toulbar2 problem whose cheapest assignment is the most probable one.

    Args:
        graph: any factor graph; each observed variable gets a function that forbids its other states.
        path: the file.

    Costs are -log phi with all digits. As toulbar2 rounds costs to the number of decimals of the bound, the bound has
    enough decimals to keep seven digits of the largest cost. Sparse tables and clauses stay lists of tuples with a
    default cost; other structured factors become dense tables. Names that toulbar2 cannot read are replaced, and kept
    in comments. Cost O(T).
    """
    graph = with_tables(evidence_as_factors(graph), "a .cfn file", keep=[SparseTable.number, Clause.number])
    write_text(path, _text(clauses_as_sparse(graph)))


def _text(graph: FactorGraph) -> Iterator[str]:
    s = graph.structure
    costs = 0.0 - graph.log_phi
    forbidden = np.isposinf(costs)
    costs[forbidden] = 0.0
    bound = _bound(costs, max_per_table(costs, s.table_ptr))
    texts = _decimals(costs)
    for t in np.flatnonzero(forbidden).tolist():
        texts[t] = bound
    named = s.variable_names is not None
    variables = list(s.variable_names or [f"x{i}" for i in range(s.num_vars)])
    ids = identifiers(variables, _TOULBAR2_NAME)
    name = identifiers([graph.name or "model"], _TOULBAR2_NAME)[0]
    yield f'{{ "problem": {{ "name": {_json(name)}, "mustbe": "<{bound}" }},\n  "variables": {"{" if named else "["}'
    kept = []
    for n, listed in enumerate(s.state_names or [None] * s.num_vars):
        state_ids = None if listed is None else identifiers(listed, _TOULBAR2_NAME)
        domain = str(s.card[n]) if state_ids is None else _json(state_ids)
        yield f"{',' if n else ''}\n    {f'{_json(ids[n])}: ' if named else ''}{domain}"
        if ids[n] != variables[n] or (listed is not None and state_ids != list(listed)):
            kept.append(f"{MARK}{json.dumps([ids[n], variables[n], listed])}\n")
    yield f"\n  {'}' if named else ']'},\n{''.join(kept)}" + '  "functions": {'
    for a in range(s.num_factors):
        scope = _json([ids[i] if named else i for i in s.scope(a).tolist()])
        yield f'{"," if a else ""}\n    "f{a}": {{ "scope": {scope}, {_costs(graph, a, texts)} }}'
    yield "\n  }\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _costs(graph: FactorGraph, a: int, texts: list[str]) -> str:
    s = graph.structure
    own = texts[s.table_ptr[a] : s.table_ptr[a + 1]]
    if s.kinds is None or s.kinds.kind[a] == TABLE:
        return f'"costs": [{", ".join(own)}]'
    words = s.kinds.words[s.kinds.word_ptr[a] : s.kinds.word_ptr[a + 1]].reshape(len(own) - 1, -1).tolist()
    tuples = [", ".join([*map(str, states), cost]) for states, cost in zip(words, own[1:], strict=True)]
    return f'"defaultcost": {own[0]}, "costs": [{", ".join(tuples)}]'


def _bound(costs: FloatArray, largest: FloatArray) -> str:
    """Return the text of a number above every sum of costs, with the number of decimals that toulbar2 should use."""
    bound = math.fsum(np.maximum(largest, 0.0)) + 1.0
    if bound > MAX_COST:
        raise ModelError(f"The costs add up to {bound:.3g}, more than 2^60, so toulbar2 cannot add them.")
    digits = max(0, round(math.log10(default_scale(np.abs(costs), bound))))
    while digits > 0 and bound * 10.0**digits > MAX_COST:
        digits -= 1
    return f"{math.ceil(bound)}.{'0' * digits}" if digits else str(math.ceil(bound))


def _decimals(costs: FloatArray) -> list[str]:
    """Format numbers so that they read back to the same floats, without exponents, which the format lacks."""
    texts = list(map(repr, costs.tolist()))
    return [f"{Decimal(text):f}" if "e" in text else text for text in texts]
