"""Factors of mixed kinds after the states of their variables were renumbered or struck out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.checks import by_kind
from equifactor.factors.factor_rows import FactorRows, merged
from equifactor.factors.kinds import kind_class
from equifactor.factors.sliced_rows import tables_alone
from equifactor.factors.structured_factor import TABLE
from equifactor.graph.pointers import place_in_row, ptr_of
from equifactor.graph.possible_states import kept_entries

if TYPE_CHECKING:
    from equifactor.typing import IntArray


def with_states(rows: FactorRows, new_state: IntArray, state_ptr: IntArray, card: IntArray) -> FactorRows:
    """The factors over renumbered states, in the order in which states were kept.

    Args:
        rows: the factors.
        new_state: [X] new number of each state, -1 for one that is struck out; the kept ones stay in order.
        state_ptr: [V+1] first state of each variable.
        card: [V] how many states each variable has now.
    """
    parts = []
    for number, places in by_kind(rows):
        some = rows.take(places)
        if number == TABLE:
            structure = tables_alone(some, len(card))
            kept = kept_entries(replace(structure, card=np.diff(state_ptr)), new_state >= 0)
            owner = np.repeat(np.arange(len(places)), np.diff(some.value_ptr))
            sizes = np.bincount(owner[kept], minlength=len(places))
            fewer = replace(some, card=card[some.scope_vars]).with_values(ptr_of(sizes), some.log_values[kept])
            parts.append((places, fewer))
            continue
        edge_states = np.repeat(state_ptr[some.scope_vars], some.card) + place_in_row(ptr_of(some.card))
        changed = kind_class(number).with_states(some, new_state[edge_states], card[some.scope_vars])
        parts.append((places, changed))
    return merged(parts)
