"""Sensitivity of a posterior: which table entries it depends on, and which change would turn the decision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, brief
from equifactor.graph import FactorGraph
from equifactor.questions.derivatives import Derivatives, derivatives
from equifactor.show.text_tables import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Evidence, Variable
    from equifactor.questions.frames import DataFrame

_SHOWN_ROWS = 20  # Rows of a printed table, the most influential first. Chosen by hand.
# A change that leaves less than this share of the sum of all scores, or a derivative below this share of its terms, is
# rounding.
_LEAST_SUM, _ROUNDING = 1e-9, 1e-13
_TITLES = ["entry", "value", "derivative", "turns at", "to"]


class Influence(NamedTuple):
    """The influence of one table entry on the posterior of the target."""

    factor: int
    states: tuple[int, ...]  # the state of every variable of the factor's scope
    name: str  # such as `cough=yes | flu=no`
    value: float  # the entry
    derivative: float  # of the probability of the state in the entry
    turning: float | None  # the value at which another state of the target becomes as probable as the best; or None
    turned: int | str | None  # that state


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Sequence[Influence]):
    """The influence of every table entry on p(target = state | evidence), most influential first.

    In a Bayesian network the other entries of a row change in proportion, so that the row still sums to 1, and entries
    are ordered by the size of the derivative. In other models each entry changes by itself. Its scale is then
    arbitrary, so entries are ordered by value times derivative.
    """

    graph: FactorGraph = field(repr=False)
    target: int | str
    state: int | str
    p: FloatArray  # [d] the posterior of the target
    derivatives: FloatArray  # [T] of p(target = state | evidence) in every table entry; 0 for structured factors
    slope: FloatArray = field(repr=False)  # [d, T] see `Derivatives`
    order: IntArray = field(repr=False)  # [n] the entries of tables, most influential first
    turning: FloatArray  # [T] the value at which the decision turns, NaN where no value turns it
    turned: IntArray = field(repr=False)  # [T] the state to which it turns
    children: list[int] | None = field(repr=False)

    @property
    def probability(self) -> float:
        """p(target = state | evidence)."""
        return float(self.p[self._state])

    @property
    def is_network(self) -> bool:
        """Whether the graph is a Bayesian network, so that rows keep their sums."""
        return self.children is not None

    @property
    def smallest_change(self) -> Influence | None:
        """The entry whose smallest change turns the decision about the target; None if no single entry turns it."""
        change = np.abs(self.turning - np.exp(self.graph.log_phi))
        if not np.isfinite(change).any():
            return None
        entry = int(np.nanargmin(change))
        return self._influence(entry)

    @checks_types("factor")
    def table(self, factor: int) -> FloatArray:
        """Return the derivatives in the entries of one factor, with an axis for each variable of its scope."""
        s = self.graph.structure
        if not s.is_table[factor]:
            raise ModelError(f"Factor {factor} is a structured factor, which has no table entries.", factor=factor)
        return self.derivatives[s.table_ptr[factor] : s.table_ptr[factor + 1]].reshape(s.shape(factor))

    def probability_at(self, influence: Influence, value: float) -> float:
        """Return p(target = state | evidence) with one entry at another value: a ratio of linear functions."""
        s = self.graph.structure
        place = int(np.ravel_multi_index(influence.states, s.shape(influence.factor))) if influence.states else 0
        slope, change = self.slope[:, s.table_ptr[influence.factor] + place], value - influence.value
        return float((self.p[self._state] + slope[self._state] * change) / (1.0 + slope.sum() * change))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, n: Any) -> Any:
        if isinstance(n, slice):
            return [self[k] for k in range(*n.indices(len(self)))]
        return self._influence(int(self.order[n]))

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row per table entry, most influential first."""
        from equifactor.questions.frames import data_frame

        rows = list(self)
        return data_frame({name: [getattr(row, name) for row in rows] for name in Influence._fields})

    @checks_types("change")
    def tornado(self, change: float = 0.1, rows: int = 12) -> list[tuple[Influence, float, float]]:
        """Return the most influential entries with the probability when each is smaller and larger by a share.

        Args:
            change: the share; an entry of a Bayesian network is at most 1.
            rows: the number of entries.
        """
        found = []
        for row in self[: 4 * rows]:
            high = row.value * (1.0 + change)
            high = min(high, 1.0) if self.is_network else high
            ends = self.probability_at(row, row.value * (1.0 - change)), self.probability_at(row, high)
            found.append((row, *ends))
        found.sort(key=lambda item: -abs(item[2] - item[1]))
        return found[:rows]

    def plot(self, change: float = 0.1, rows: int = 12, *, ax: Axes | None = None) -> Axes:
        """Draw a tornado plot: the probability when one entry at a time is smaller or larger by a share.

        Args:
            change: the share.
            rows: the number of entries.
            ax: the axes to draw into; by default a new figure is made. Needs matplotlib.
        """
        from equifactor.show.tornado_picture import draw_tornado

        bars = [(row.name, low, high) for row, low, high in self.tornado(change, rows)]
        return draw_tornado(bars, self.probability, f"{self._question} when entries change by {change:.0%}", ax)

    def __repr__(self) -> str:
        return f"Sensitivity({self._question}, {len(self):,} entries)"

    def __str__(self) -> str:
        more = len(self) - _SHOWN_ROWS
        lines = [self._heading(), aligned([_TITLES, *self._cells(_SHOWN_ROWS)], right=[1, 2, 3], rule=True)]
        return "\n".join([*lines, *([f".. and {more:,} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, rows_table

        return rows_table(self._heading(), _TITLES, self._cells(MOST_ROWS), count=len(self), right=[1, 2, 3])

    @property
    def _state(self) -> int:
        return self.graph.state(self.target, self.state)

    @property
    def _question(self) -> str:
        return f"p({self.target} = {self.state})"

    def _heading(self) -> str:
        kept = "rows keep their sums" if self.is_network else "each entry changes by itself"
        return f"{self._question} = {self.probability:.6f}; {kept}"

    def _cells(self, most: int) -> Iterator[list[str]]:
        for row in self[:most]:
            turns = ("-", "-") if row.turning is None else (f"{row.turning:.6g}", str(row.turned))
            yield [row.name, f"{row.value:.6g}", f"{row.derivative:+.6f}", *turns]

    def _influence(self, entry: int) -> Influence:
        s = self.graph.structure
        factor = int(np.searchsorted(s.table_ptr, entry, side="right")) - 1
        states = tuple(int(x) for x in np.unravel_index(entry - s.table_ptr[factor], s.shape(factor)))
        turning, target = float(self.turning[entry]), self.graph.variable(self.target)
        return Influence(
            factor, states, _entry_name(self.graph, factor, states, self.children),
            float(np.exp(self.graph.log_phi[entry])), float(self.derivatives[entry]),
            None if math.isnan(turning) else turning,
            None if math.isnan(turning) else s.states_of(target)[int(self.turned[entry])],
        )  # fmt: skip


def sensitivity(
    graph: FactorGraph,
    target: Variable,
    state: int | str | None = None,
    *,
    evidence: Evidence | None = None,
    memory_limit: float = 4.0,
) -> Sensitivity:
    """Return how the posterior of a target depends on every table entry of a model.

    The derivatives are exact, from two passes over an elimination plan for each state of the target. A posterior is a
    ratio of two linear functions of one entry, so the change that turns the decision follows in closed form.

    Args:
        graph: the model before evidence, so that all its entries are there.
        target: a variable that is not observed.
        state: the state whose probability is meant; by default the most probable one.
        evidence: states or weights by variable, as `FactorGraph.condition` takes them.
        memory_limit: GiB of tables. `SolveError` is raised with the cost if elimination needs more.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"flu": ["no", "yes"], "fever": ["no", "yes"]}, [
        ...     (["flu"], [0.9, 0.1]),
        ...     (["flu", "fever"], [[0.95, 0.05], [0.2, 0.8]]),
        ... ])
        >>> found = ef.sensitivity(graph, "flu", "yes", evidence={"fever": "yes"})
        >>> found[0].name, round(found[0].derivative, 3)
        ('fever=no | flu=no', 4.608)
        >>> found.smallest_change.name, round(found.smallest_change.turning, 3)
        ('fever=yes | flu=no', 0.089)
    """
    if not isinstance(graph, FactorGraph):
        raise ModelError(f"sensitivity takes one FactorGraph, found {brief(graph)}.")
    s = graph.structure
    t = graph.variable(target)
    given = graph if evidence is None else graph.condition(evidence)
    if given.observed is not None and given.observed[t] >= 0:
        raise ModelError(f"Variable {s.variable_name(t)} is observed. Choose a target without evidence.", variable=t)
    found = derivatives(graph, t, evidence, memory_limit)
    x = int(found.p.argmax()) if state is None else graph.state(t, state)
    slopes = found.slope[x] - found.p[x] * found.slope.sum(0)
    slopes[np.abs(slopes) < _ROUNDING * np.abs(found.slope).sum(0)] = 0.0
    is_entry = np.repeat(s.is_table, np.diff(s.table_ptr))
    value = np.exp(graph.log_phi)
    size = np.abs(slopes) * (1.0 if found.children is not None else value)
    # Entries that differ by rounding alone, such as both of a row of two, stay in the order of the model.
    order = np.argsort(-np.round(size / max(float(size.max(initial=0.0)), 1e-300), 9), kind="stable")
    turning, turned = _turning(found, np.where(is_entry, value, 0.0))
    names: Sequence[int | str] = s.variable_names or range(s.num_vars)
    return Sensitivity(
        graph, names[t], s.states_of(t)[x], found.p, slopes, found.slope, order[is_entry[order]],
        np.where(is_entry, turning, np.nan), turned, found.children,
    )  # fmt: skip


def _turning(found: Derivatives, value: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return for every entry [T] the nearest value at which another state is as probable as the best, and the state."""
    p, slope = found.p, found.slope
    best = int(p.argmax())
    with np.errstate(divide="ignore", invalid="ignore"):
        change = (p[best] - p)[:, None] / (slope - slope[best])
        new = value + change
        high = 1.0 if found.children is not None else np.inf
        possible = np.isfinite(new) & (new >= 0.0) & (new <= high) & (1.0 + slope.sum(0) * change > _LEAST_SUM)
    possible[best] = False
    change = np.where(possible, np.abs(change), np.inf)
    state = change.argmin(0)
    nearest = new[state, np.arange(len(value))]
    return np.where(np.isfinite(change.min(0)), nearest, np.nan), state


def _entry_name(graph: FactorGraph, factor: int, states: tuple[int, ...], children: list[int] | None) -> str:
    """Return `cough=yes | flu=no` for an entry of a conditional table, and `factor 3: a=0, b=1` for any other."""
    s = graph.structure
    scope = s.scope(factor).tolist()
    named = {i: f"{s.variable_name(i)}={s.states_of(i)[x]}" for i, x in zip(scope, states, strict=True)}
    if children is None:
        return f"factor {factor}: {', '.join(named.values())}"
    own = named.pop(children[factor])
    return f"{own} | {', '.join(named.values())}" if named else own
