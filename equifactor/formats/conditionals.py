"""Bayesian networks in the form that file writers need: one conditional distribution per variable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.noisy_max import NoisyMax
from equifactor.factors.noisy_or import NoisyOr
from equifactor.formats.decimals import decimals
from equifactor.graph.parents import network_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Conditional:
    """The distribution of one variable given others: a log table [*parents, child], or a noisy kind in place of it."""

    child: int
    parents: list[int]
    log_table: FloatArray
    noisy: NoisyOr | NoisyMax | None = None  # The effect is at `place` in the scope.

    def texts(self) -> list[str]:
        """Return the probabilities as text, the child fastest; they read back to the same logarithms."""
        return list(decimals(self.log_table.ravel()))

    def rows(self) -> list[list[str]]:
        """Return the probabilities as text, one row for each state of the parents."""
        texts, card = self.texts(), self.log_table.shape[-1]
        return [texts[start : start + card] for start in range(0, len(texts), card)]


def conditionals_of(graph: FactorGraph, what: str, *, noisy: bool = False) -> list[Conditional]:
    """Return one conditional distribution per variable, in the order of the variables.

    Args:
        graph: the model.
        what: the file format as errors name it, such as `a .bif file`.
        noisy: whether noisy-or and noisy-max factors are kept instead of converted to dense tables.

    Raises:
        ModelError: if the graph is not a Bayesian network.
    """
    from equifactor.factors.dense_graph import with_tables

    if graph.observed is not None:
        raise ModelError(
            f"{what} cannot hold evidence. Write the network as it was before it was "
            "conditioned, or generate it with --observed 0."
        )
    graph = with_tables(graph, what, keep=[NoisyOr.number, NoisyMax.number] if noisy else ())
    s = graph.structure
    families = network_of(graph, f"{what} holds a Bayesian network", "The formats .uai and .fg hold any factors.")
    found = []
    for child, a in enumerate(families.factor_of_child.tolist()):
        scope, slot, factor = s.scope(a).tolist(), int(families.slot[a]), graph.factor(a)
        parents = scope[:slot] + scope[slot + 1 :]
        if isinstance(factor, (NoisyOr, NoisyMax)):
            found.append(Conditional(child, parents, np.zeros(0), factor))
        else:
            found.append(Conditional(child, parents, np.moveaxis(graph.log_table(a), slot, -1)))
    return found


def names_of(graph: FactorGraph) -> tuple[list[str], list[list[str]]]:
    """Return the names of the variables and of their states; missing names become x0, x1 and 0, 1."""
    s = graph.structure
    variables = [f"x{i}" for i in range(s.num_vars)] if s.variable_names is None else list(s.variable_names)
    states = [None] * s.num_vars if s.state_names is None else list(s.state_names)
    card: IntArray = s.card
    return variables, [[str(k) for k in range(card[i])] if n is None else list(n) for i, n in enumerate(states)]


def identifiers(names: Sequence[str], valid: re.Pattern[str] = _IDENTIFIER) -> list[str]:
    """Return distinct names of letters, digits and underscores that begin with a letter; valid names are kept.

    Examples:
        >>> identifiers(["rain", "5 mm", "5-mm", "rain_"])
        ['rain', 'x5_mm', 'x5_mm_2', 'rain_']
    """
    taken = set(filter(valid.fullmatch, names))
    found = []
    for name in names:
        if not valid.fullmatch(name):
            plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "x"
            plain = plain if plain[0].isalpha() else f"x{plain}"
            number, name = 2, plain
            while name in taken:
                name, number = f"{plain}_{number}", number + 1
            taken.add(name)
        found.append(name)
    return found
