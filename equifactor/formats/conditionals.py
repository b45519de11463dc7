"""Bayesian networks as writers need them: one conditional distribution per variable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.noisy_or import NoisyOr
from equifactor.formats.decimals import decimals
from equifactor.formats.network_builder import ROUNDING, find_cycle

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OWN_ROUNDING = 1e-6  # A factor whose rows sum to 1 within this is a conditional distribution.


@dataclass(frozen=True)
class Conditional:
    """The distribution of one variable given others: a log table [*parents, child], or a noisy-or in place of it."""

    child: int
    parents: list[int]
    log_table: FloatArray
    noisy_or: NoisyOr | None = None  # the effect is at its `place` of the scope, the parents are the others in order

    def texts(self) -> list[str]:
        """The probabilities as text, the child fastest; they read back to the same logarithms."""
        return list(decimals(self.log_table.ravel()))

    def rows(self) -> list[list[str]]:
        """The same, one row per state of the parents."""
        texts, card = self.texts(), self.log_table.shape[-1]
        return [texts[start : start + card] for start in range(0, len(texts), card)]


def children_of(graph: FactorGraph) -> list[int] | None:
    """[F] the variable whose conditional distribution each factor is; None where the graph is no Bayesian network."""
    s = graph.structure
    if s.num_vars != s.num_factors or (s.kinds is not None and not np.isin(s.kinds.kind, (0, NoisyOr.number)).all()):
        return None  # Tables of other kinds would be made, which may take long.
    try:
        found = conditionals_of(graph, "a drawing", noisy_or=True)
    except ModelError:
        return None
    child_of = {frozenset((c.child, *c.parents)): c.child for c in found}  # Equal scopes would be a cycle.
    return [child_of[frozenset(s.scope(a).tolist())] for a in range(s.num_factors)]


def conditionals_of(graph: FactorGraph, what: str, *, noisy_or: bool = False) -> list[Conditional]:
    """One conditional distribution per variable, in order, where the factors of the graph are such.

    Args:
        graph: the model.
        what: the file that is written, in errors.
        noisy_or: whether noisy-or factors stay what they are.

    Raises:
        ModelError: where the graph is no Bayesian network.
    """
    from equifactor.factors.dense_graph import with_tables

    if graph.observed is not None:
        raise ModelError(f"{what} holds no evidence; write the network as it was before it was conditioned")
    graph = with_tables(graph, what, keep=[NoisyOr.number] if noisy_or else ())
    s = graph.structure
    if s.num_factors != s.num_vars:
        raise ModelError(
            f"{what} holds one conditional distribution per variable, found {s.num_factors} factors for {s.num_vars} "
            "variables; .uai and .fg hold any factors"
        )
    found: dict[int, Conditional] = {}
    for a, slot in enumerate(_slots(graph, what)):
        scope = s.scope(a).tolist()
        factor = graph.factor(a)
        table = np.zeros(0) if isinstance(factor, NoisyOr) else np.moveaxis(graph.log_table(a), slot, -1)
        found[scope[slot]] = Conditional(
            scope[slot], scope[:slot] + scope[slot + 1 :], table, factor if isinstance(factor, NoisyOr) else None
        )
    done = [found[i] for i in range(s.num_vars)]
    cycle = find_cycle([c.parents for c in done])
    if cycle:
        raise ModelError(
            f"{what} holds a network without cycles, found one through variable {cycle[0]}", variable=cycle[0]
        )
    return done


def _slots(graph: FactorGraph, what: str) -> list[int]:
    """For each factor the place in its scope of the variable whose conditional distribution it is."""
    s = graph.structure
    fits: list[dict[int, int]] = []  # by variable, the best one first
    for a in range(s.num_factors):
        fits.append(_possible_slots(graph, a))
        if not fits[a]:
            raise ModelError(f"{what} holds conditional distributions; factor {a} is none: no axis sums to 1", factor=a)
    owner: dict[int, int] = {}  # the factor of each variable
    for a in range(s.num_factors):
        if not _give_variable(a, fits, owner):
            raise ModelError(f"{what} holds one distribution per variable; factor {a} is left without one", factor=a)
    slots = [-1] * s.num_factors
    for child, a in owner.items():
        slots[a] = fits[a][child]
    return slots


def _possible_slots(graph: FactorGraph, a: int) -> dict[int, int]:
    """The variables whose distribution a factor may be, with their places in the scope."""
    scope = graph.structure.scope(a).tolist()
    factor = graph.factor(a)
    if isinstance(factor, NoisyOr):
        return {scope[factor.place]: factor.place} if factor.effect is None else {}
    table = np.exp(graph.log_table(a))
    return {
        i: slot
        for slot, i in reversed([*enumerate(scope)])  # the last one is the child in files of Bayesian networks
        if np.all(np.abs(table.sum(axis=slot) - 1.0) <= (ROUNDING if slot == len(scope) - 1 else _OWN_ROUNDING))
    }


def _give_variable(first: int, fits: list[dict[int, int]], owner: dict[int, int]) -> bool:
    """Give a factor one of its variables, moving other factors to others of theirs: a shortest augmenting path."""
    came_from: dict[int, int] = {}  # the factor that reached a variable
    layer = [first]
    while layer:
        reached: list[int] = []
        for a in layer:
            for child in fits[a]:
                if child in came_from:
                    continue
                came_from[child] = a
                if child in owner:
                    reached.append(owner[child])
                    continue
                while True:  # give each factor on the path the variable it reached
                    mover = came_from[child]
                    given_up = next((v for v in fits[mover] if owner.get(v) == mover), None)
                    owner[child] = mover
                    if mover == first or given_up is None:
                        return True
                    child = given_up
        layer = reached
    return False


def names_of(graph: FactorGraph) -> tuple[list[str], list[list[str]]]:
    """Names of the variables and of their states, made up as x0, x1 and 0, 1 where there are none."""
    s = graph.structure
    variables = [f"x{i}" for i in range(s.num_vars)] if s.variable_names is None else list(s.variable_names)
    states = [None] * s.num_vars if s.state_names is None else list(s.state_names)
    card: IntArray = s.card
    return variables, [[str(k) for k in range(card[i])] if n is None else list(n) for i, n in enumerate(states)]


def identifiers(names: Sequence[str], valid: re.Pattern[str] = _IDENTIFIER) -> list[str]:
    """Different names of letters, digits and underscores that begin with a letter; those that are valid stay.

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
