"""Graphs of dense tables in place of graphs with structured factors, and how their answers are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.budget import Budget, Seconds
from equifactor.factors.lowering import LoweredBuilder
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.factor_rows import FactorRows, by_kind, joined
from equifactor.graph.kinds import has_kernels, kind_class, kinds_with
from equifactor.graph.marginals import Marginals
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import picked

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph.structured_factor import StructuredFactor
    from equifactor.solving.estimate import Estimate

_MAX_ENTRIES = 2**28  # Largest number of table entries after lowering: 2 GiB.


@dataclass(frozen=True, eq=False)
class LoweredGraph:
    """A graph of tables, whose first V variables are those of the original and whose others are auxiliary."""

    graph: FactorGraph
    original: FactorGraph

    @property
    def num_auxiliary(self) -> int:
        """The number of auxiliary variables."""
        return self.graph.num_vars - self.original.num_vars

    @cached_property
    def _tables(self) -> IntArray:
        """[t] the places of the original's table entries in its log values; in `graph` they come first, in order."""
        s = self.original.structure
        return picked(s.table_ptr, np.flatnonzero(s.is_table))[1]

    def with_tables(self, log_phi: FloatArray) -> FloatArray:
        """Return the log values of `graph` with the table entries of `log_phi` [T], log values of the original."""
        values = self.graph.log_phi.copy()
        values[: len(self._tables)] = log_phi[self._tables]
        return values

    def of_tables(self, entries: FloatArray) -> FloatArray:
        """Return [T] the values of `entries`, one per entry of `graph`, at the original's tables; 0 elsewhere."""
        found = np.zeros(len(self.original.log_phi))
        found[self._tables] = entries[: len(self._tables)]
        return found

    def assignment(self, states: IntArray) -> IntArray:
        """Return [V] the original's part of an assignment."""
        return states[: self.original.num_vars]

    def marginals(self, marginals: Marginals) -> Marginals:
        """Return the marginals of the original's variables."""
        ptr = self.original.structure.state_ptr
        return Marginals(marginals.values[: ptr[-1]], ptr)

    def estimate(self, estimate: Estimate) -> Estimate:
        """Return the same answer over the variables of the original."""
        if self.graph is self.original:
            return estimate
        changed: dict[str, Any] = {}
        if estimate.marginals is not None:
            changed["marginals"] = self.marginals(estimate.marginals)
        for name in ("standard_errors", "marginal_errors"):
            if (errors := getattr(estimate, name)) is not None:
                changed[name] = self.marginals(errors)
        if estimate.assignment is not None:
            changed["assignment"] = self.assignment(estimate.assignment)
        return replace(estimate, **changed) if changed else estimate


@checks_types("keep_compiled")
def lower(graph: FactorGraph, semiring: Semiring = "sum", *, keep_compiled: bool = False) -> LoweredGraph:
    """Return an equal graph of dense tables alone, with auxiliary variables behind the original ones.

    Args:
        graph: any graph; a graph of tables alone stays as it is.
        semiring: how the auxiliary variables are to be removed: "sum" keeps ln Z and marginals, "max" the best
            assignments. It matters to kinds whose auxiliary variables are random.
        keep_compiled: whether factors stay as they are if the compiled kernels know their kind.

    Examples:
        >>> from equifactor import FactorGraph, Parity
        >>> from equifactor.solvers import lower
        >>> lower(FactorGraph([2] * 30, [(range(30), Parity())])).graph
        FactorGraph(59 variables, 30 factors, 2 states, arity 2-3, 116 zeros)
    """
    s = as_graph(graph).structure
    if s.kinds is None or (keep_compiled and has_kernels(s.kinds.kind)):
        return LoweredGraph(graph, graph)
    rows = s.rows(graph.log_phi)
    is_table = rows.kind == TABLE
    kept = np.flatnonzero(keep_compiled & kinds_with("has_kernels", rows.kind))
    old = rows.take(np.concatenate((np.flatnonzero(is_table), kept)))  # Tables come first: `LoweredGraph` relies on it.
    builder = LoweredBuilder(_MAX_ENTRIES, int(np.diff(rows.value_ptr)[is_table].sum()))
    for number, places in by_kind(rows):
        if number != TABLE and not (keep_compiled and kind_class(number).has_kernels):
            builder.advice = _advice(kind_class(number))
            kind_class(number).lower_into(builder, rows.take(places), semiring)
    new = builder.finish()
    card = np.concatenate((s.card, new.aux_card))
    scopes = np.where(new.scope_vars < 0, s.num_vars - 1 - new.scope_vars, new.scope_vars)
    tables = FactorRows.of_tables(new.scope_ptr, scopes, new.log_tables, card[scopes])
    changed = joined([old, tables])
    for array in (card, changed.scope_ptr, changed.scope_vars):
        array.flags.writeable = False  # The structure then takes it without a copy.
    structure = Structure.of_rows(
        card,
        changed,
        variable_names=_names(s, len(card)),
        state_names=None if s.state_names is None else (*s.state_names, *[None] * (len(card) - s.num_vars)),
    )
    observed = None
    if graph.observed is not None:
        observed = np.concatenate((graph.observed, np.full(len(card) - s.num_vars, -1)))
    return LoweredGraph(FactorGraph.trusted(structure, changed.log_values, observed, graph.name), graph)


def lower_all(
    graphs: Sequence[FactorGraph],
    semiring: Semiring = "sum",
    *,
    keep_compiled: bool = False,
    clock: Clock | None = None,
) -> list[LoweredGraph]:
    """Return `lower` of several graphs; graphs with equal structures share one, which makes batches faster.

    The list ends early, before the first graph for which the clock has no time.
    """
    if all(graph.structure.kinds is None for graph in graphs):
        return [LoweredGraph(graph, graph) for graph in graphs]
    found: list[Structure] = []
    answers = []
    for graph in graphs:
        if clock is not None and not Budget(clock).ends_in_time(Seconds.LOWERING * graph.structure.num_edges):
            break
        lowered = lower(graph, semiring, keep_compiled=keep_compiled)
        own = lowered.graph.structure
        known = next((s for s in found[-4:] if s.same_as(own)), None)
        if known is None:
            found.append(own)
        elif known is not own:
            shared = FactorGraph.trusted(known, lowered.graph.log_phi, lowered.graph.observed, graph.name)
            lowered = replace(lowered, graph=shared)
        answers.append(lowered)
    return answers


def _advice(cls: type[StructuredFactor]) -> str:
    """Return the advice for factors of this class that are too large for dense tables."""
    if cls.has_kernels:
        return "Choose a solver that takes them as they are, such as bp."
    return (
        f"The kind {cls.kind} has no compiled kernels, so every solver needs these tables. Use factors over fewer "
        f"variables, or let lower_into of the class {cls.__name__} add smaller tables."
    )


def _names(s: Structure, num_vars: int) -> tuple[str, ...] | None:
    """Return the names of the original variables, and new names that differ from them for the auxiliary ones."""
    if s.variable_names is None:
        return None
    prefix = "aux"
    while any(name.startswith(prefix) for name in s.variable_names):
        prefix = "_" + prefix
    return (*s.variable_names, *(f"{prefix}{n}" for n in range(num_vars - s.num_vars)))
