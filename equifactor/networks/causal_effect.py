"""Causal effects by adjustment: back-door sets, and p(outcome | do(cause)) as a sum over such a set [Pearl09].

A back-door set Z holds no descendant of the cause x and closes every path that enters x by an arrow. Then
p(y | do(x)) = sum_z p(y | x, z) p(z), where every term is a probability of observed variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.graph.parents import row_text
from equifactor.networks.conditional_table import ConditionalTable
from equifactor.networks.separation import closure, open_path, path_text
from equifactor.questions.asking import numbered_joint
from equifactor.questions.joint import part_of
from equifactor.questions.solve import solve
from equifactor.show.text_tables import shown

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.networks.bayesian_network import BayesianNetwork
    from equifactor.questions.result import Result

_MOST_TESTS = 5_000  # Sets that are tried in the search for back-door sets: 0.1 s. Chosen by hand.


@dataclass(frozen=True, eq=False, repr=False)
class CausalEffect:
    """The distribution of an outcome after a cause was set to each of its states.

    `effect.table[{"sprinkler": "on"}]` is one distribution. `effect.difference("wet", "on", "off")` is an average
    causal effect: how much more probable the outcome is after one action than after another.
    """

    table: ConditionalTable  # p(outcome | do(cause)), a row for each state of the cause
    adjustment: tuple[int | str, ...]  # the variables that were adjusted for
    sets: tuple[tuple[int | str, ...], ...]  # back-door sets of which no variable can be left out, the smallest first
    is_cause: bool  # whether the outcome is a descendant of the cause; otherwise the rows are equal

    def difference(self, outcome: int | str, to: int | str, base: int | str) -> float:
        """Return p(outcome | do(cause = to)) - p(outcome | do(cause = base))."""
        cause = self.table.parents[0]
        rows = [self.table[{cause: state}] for state in (to, base)]
        if outcome not in rows[0]:
            raise ModelError(
                f"{self.table.variable} has no state {outcome!r}. Its states are {', '.join(map(str, rows[0]))}."
            )
        return rows[0][outcome] - rows[1][outcome]

    def __repr__(self) -> str:
        cause, outcome = self.table.names
        return f"CausalEffect(p({outcome} | do({cause})), {self._about()})"

    def _about(self) -> str:
        if not self.is_cause:
            return "which is no effect: the outcome is not a descendant of the cause"
        return f"adjusted for {', '.join(map(str, self.adjustment)) or 'nothing'}"

    def __str__(self) -> str:
        cause, outcome = self.table.names
        text = f"p({outcome} | do({cause})), {self._about()}\n{self.table}"
        states = self.table.states
        first, last = states[cause][0], states[cause][-1]
        gain = self.difference(states[outcome][-1], last, first)
        sign = "-" if gain < 0 else "+"
        return f"{text}\n{outcome} = {states[outcome][-1]}: {sign}{shown(abs(gain))} from {cause} = {first} to {last}"


def effect_of(
    network: BayesianNetwork,
    cause: Variable,
    outcome: Variable,
    adjust: list[int] | None,
    latent: Collection[int],
) -> CausalEffect:
    """Return the effect of a cause on an outcome; see `BayesianNetwork.effect`."""
    x, y = network.variable(cause), network.variable(outcome)
    if x == y or x in latent or y in latent:
        raise ModelError("The cause and the outcome must be two observed variables.")
    back = _BackDoors(network, x, y, latent)
    is_cause = y in back.below
    sets: list[tuple[int, ...]] = back.sets(10) if is_cause else [()]
    if adjust is not None:
        if is_cause:
            back.check(adjust)
    elif not sets:
        raise ModelError(back.reason())
    result = solve(network, "MAR")
    chosen: tuple[int, ...] = () if adjust is None else tuple(adjust)
    if is_cause:
        chosen, p = _first_adjusted(result, x, y, sets if adjust is None else [chosen])
    else:
        p = np.tile(result.marginal(y), (int(network.card[x]), 1))
    scope = [x, y]
    names = network.names_of
    table = ConditionalTable(p, part_of(network.structure, scope), names(scope))
    return CausalEffect(table, names(chosen), tuple(names(own) for own in sets), is_cause)


class _BackDoors:
    """The search for back-door sets of one cause and one outcome."""

    def __init__(self, network: BayesianNetwork, x: int, y: int, latent: Collection[int]) -> None:
        self.network, self.x, self.y, self.latent = network, x, y, latent
        self.parents, self.children = network.parent_lists, network.child_lists
        self.below = closure([x], self.children)
        above = closure([x, y], self.parents)
        # If any set closes all paths, some set of ancestors does [Tian98].
        self.allowed = sorted(above - self.below - set(latent) - {y}, key=lambda i: (i not in self.parents[x], i))

    def open_path(self, given: Collection[int]) -> list[tuple[int, int]] | None:
        """Return a path into the cause that stays open."""
        return open_path(self.parents, self.children, [self.x], [self.y], given, cut=[self.x])

    def sets(self, most: int) -> list[tuple[int, ...]]:
        """Return sets of which no variable can be left out, the smallest first."""
        if self.open_path(self.allowed) is not None:
            return []
        found = list(islice(self._small_sets(), most))
        if not found:  # All sets within reach of the search are too small.
            left = list(self.allowed)
            for i in reversed(self.allowed):
                fewer = [j for j in left if j != i]
                if self.open_path(fewer) is None:
                    left = fewer
            found = [tuple(left)]
        return found

    def _small_sets(self) -> Iterator[tuple[int, ...]]:
        found: list[set[int]] = []
        tests = 0
        for size in range(len(self.allowed) + 1):
            for own in combinations(self.allowed, size):
                if any(smaller <= set(own) for smaller in found):
                    continue
                tests += 1
                if tests > _MOST_TESTS:
                    return
                if self.open_path(own) is None:
                    found.append(set(own))
                    yield own
                    if not own:  # All other sets can leave out a variable.
                        return

    def check(self, adjust: list[int]) -> None:
        """Raise `ModelError` if a set is not a back-door set."""
        names = self.network.names_of(range(self.network.num_vars))
        wrong = next((i for i in adjust if i in self.below or i == self.y), None)
        if wrong is not None:
            raise ModelError(
                f"Adjusting for {names[wrong]} distorts the effect: it is the cause, the outcome or a descendant of "
                f"the cause {names[self.x]}. Leave it out."
            )
        wrong = next((i for i in adjust if i in self.latent), None)
        if wrong is not None:
            raise ModelError(
                f"{names[wrong]} is latent, so nobody can adjust for it. Leave it out of adjust or latent."
            )
        path = self.open_path(adjust)
        if path is not None:
            found = self.sets(1)
            listed = ", ".join(str(names[i]) for own in found for i in own) or "nothing"
            advice = f"Adjust for {listed}." if found else self.reason()
            raise ModelError(f"The path {path_text(path, names, adjust)} stays open. {advice}")

    def reason(self) -> str:
        """Return why no set of observed variables identifies the effect."""
        names = self.network.names_of(range(self.network.num_vars))
        path = self.open_path(self.allowed)
        shown_path = path_text(path or [], names, self.allowed)
        return (
            f"The effect of {names[self.x]} on {names[self.y]} is not identified by adjustment: no set of observed "
            f"variables closes the path {shown_path}. Observe a variable on this path. Front doors and "
            "other ways are not tried."
        )


def _first_adjusted(result: Result, x: int, y: int, sets: list[tuple[int, ...]]) -> tuple[tuple[int, ...], FloatArray]:
    """Return the first set in whose strata every state of the cause occurs, and p(y | do(x))."""
    errors: list[ModelError] = []
    for chosen in sets:
        try:
            return chosen, _adjusted(result, x, y, chosen)
        except ModelError as error:
            errors.append(error)
    raise errors[0]


def _adjusted(result: Result, x: int, y: int, given: tuple[int, ...]) -> FloatArray:
    """Return p(y | do(x)) [states of x, states of y] as a sum over the states of an adjustment set."""
    joint = numbered_joint(result, [x, y, *given])
    if not joint.status.solved:
        raise SolveError(
            f"The effect needs the joint of {2 + len(given)} variables, which is not exact: {joint.status}."
        )
    p = joint.values.reshape(*joint.values.shape[:2], -1)  # [x, y, z]
    xz, z = p.sum(axis=1), p.sum(axis=(0, 1))
    never = (xz <= 0.0) & (z > 0.0)
    if never.any():
        state, k = (int(n) for n in np.argwhere(never)[0])
        others = np.unravel_index(k, joint.values.shape[2:])
        s = result.graph.structure
        raise ModelError(
            f"The effect is not identified: {row_text(s, [x], [state])} never occurs"
            + (f" with {row_text(s, given, [int(o) for o in others])}." if given else ".")
        )
    return np.asarray((p / np.where(xz > 0.0, xz, 1.0)[:, None] * z).sum(axis=2))
