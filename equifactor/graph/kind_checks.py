"""Checks of factors, kind by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import by_kind
from equifactor.graph.kinds import KINDS, has_kernels, kind_class, kind_name
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_rows import FactorRows


def check_kinds(rows: FactorRows) -> None:
    """Raise `ModelError` for the first structured factor that violates the rules of its kind."""
    bad = (rows.kind < 0) | (rows.kind >= len(KINDS))
    if bad.any():
        a = int(np.argmax(bad))
        raise ModelError(
            f"factor {a} is of kind {rows.kind[a]}. The kinds are numbered from 0 to {len(KINDS) - 1}.", factor=a
        )
    few = (rows.arity < 2) & (rows.kind != TABLE)
    if few.any():
        a = int(np.argmax(few))
        name = kind_name(int(rows.kind[a]))
        raise ModelError(f"factor {a} is a {name} over {rows.arity[a]} variables. Give it as a table.", factor=a)
    for number, places in by_kind(rows):
        wrong = None if number == TABLE else kind_class(number).check(rows.take(places))
        if wrong is not None:
            a = int(places[wrong[0]])
            raise ModelError(f"factor {a}: {wrong[1]}", factor=a)


def check_compiled(kind: IntArray) -> None:
    """Raise `ModelError` if some kind among `kind` [F] has no compiled kernels."""
    if not has_kernels(kind):
        a = next(n for n in np.unique(kind).tolist() if n != TABLE and not kind_class(n).has_kernels)
        raise ModelError(
            f"Factors of kind {kind_name(a)} have no compiled kernels. solve lowers them by itself; elsewhere use "
            "equifactor.solvers.lower(graph).graph, an equal graph of dense tables."
        )
