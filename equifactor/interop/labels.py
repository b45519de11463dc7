"""Names of variables and states: text here, and any hashable objects in other packages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.formats.conditionals import names_of

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph

Label = TypeVar("Label", bound=Hashable)


def variable_names(labels: Iterable[Label]) -> dict[Label, str]:
    """The name of each variable: its label where that is text, else the label as text; no two may be the same."""
    names: dict[Label, str] = {}
    owner: dict[str, Label] = {}
    for label in labels:
        name = label if isinstance(label, str) else str(label)
        if name in owner:
            raise ModelError(
                f"the variables {brief(owner[name])} and {brief(label)} would both be called {name!r}; names are text "
                "here, so rename one"
            )
        names[label], owner[name] = name, label
    return names


def state_names(variable: str, states: Sequence[object]) -> list[str] | int:
    """The names of the states as text, or their number where they are 0, 1, .. already, which needs no names."""
    if are_numbers(states):
        return len(states)
    names = [s if isinstance(s, str) else str(s) for s in states]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ModelError(
            f"two states of variable {variable} would be called {twice!r}; names are text here, so rename one"
        )
    return names


def are_numbers(states: Sequence[object]) -> bool:
    """Whether states are the whole numbers 0, 1, .. in this order; False and True are none."""
    whole = [isinstance(s, (int, np.integer)) and not isinstance(s, (bool, np.bool_)) for s in states]
    return all(whole) and list(states) == list(range(len(states)))


def names_elsewhere(graph: FactorGraph) -> tuple[list[str], list[list[int | str]]]:
    """Names of the variables, x0, x1, .. where there are none, and their states, 0, 1, .. where these have none."""
    return names_of(graph)[0], [list(graph.structure.states_of(i)) for i in range(graph.num_vars)]
