"""Names of variables and states: text in this package, any hashable objects in other packages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.formats.conditionals import names_of
from equifactor.formats.words import first_repeated

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph

Label = TypeVar("Label", bound=Hashable)


def variable_names(labels: Iterable[Label]) -> dict[Label, str]:
    """Return the name of each variable: its label, converted to text. Raise `ModelError` if two names are equal."""
    names: dict[Label, str] = {}
    owner: dict[str, Label] = {}
    for label in labels:
        name = label if isinstance(label, str) else str(label)
        if name in owner:
            raise ModelError(
                f"The variables {brief(owner[name])} and {brief(label)} would both have the name {name!r}, since names "
                "are converted to text. Rename one of them."
            )
        names[label], owner[name] = name, label
    return names


def state_names(variable: str, states: Sequence[object]) -> list[str] | int:
    """Return the names of the states as text, or their number if they are 0, 1, .. and so need no names."""
    if are_numbers(states):
        return len(states)
    names = [s if isinstance(s, str) else str(s) for s in states]
    if (twice := first_repeated(names)) is not None:
        raise ModelError(
            f"Two states of variable {variable} would have the name {twice!r}, since names are converted to text. "
            "Rename one of them."
        )
    return names


def are_numbers(states: Sequence[object]) -> bool:
    """Return whether the states are the whole numbers 0, 1, .. in this order; False and True are not numbers here."""
    whole = [isinstance(s, (int, np.integer)) and not isinstance(s, (bool, np.bool_)) for s in states]
    return all(whole) and list(states) == list(range(len(states)))


def names_elsewhere(graph: FactorGraph) -> tuple[list[str], list[list[int | str]]]:
    """Return the names of the variables (by default x0, x1, ..) and of their states (by default 0, 1, ..)."""
    return names_of(graph)[0], [list(graph.structure.states_of(i)) for i in range(graph.num_vars)]
