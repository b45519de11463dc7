"""The one table of all kinds of factors; a new kind is one new file and one line here."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equifactor.graph.structured_factor import StructuredFactor

# Number n of this list is kind n of `FactorRows.kind`. Number 0 are the dense tables, which need no class.
KINDS = (
    "table",
    "equifactor.factors.sparse:SparseTable",
    "equifactor.factors.parity:Parity",
    "equifactor.factors.clause:Clause",
    "equifactor.factors.count:Counting",
    "equifactor.factors.noisy_or:NoisyOr",
    "equifactor.factors.potts:Potts",
    "equifactor.factors.truncated_linear:TruncatedLinear",
)


@cache
def kind_class(number: int) -> type[StructuredFactor]:
    """The class of a kind other than `table`; only its own file is imported."""
    module, _, name = KINDS[number].partition(":")
    found: type[StructuredFactor] = getattr(importlib.import_module(module), name)
    return found


def kind_name(number: int) -> str:
    """The name of a kind, as `info` prints it."""
    return "table" if number == 0 else kind_class(number).kind
