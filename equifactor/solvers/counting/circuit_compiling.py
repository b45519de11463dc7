"""Compile a model into a circuit, and count its assignments, by the search of `search-sum`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.budget import GIB
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.progress import bar
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.kinds import kinds_with
from equifactor.graph.possible_states import zeros_alone
from equifactor.graph.reading.inputs import variable_number
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.counting.circuit import LiteralCircuit
from equifactor.solvers.counting.circuit_files import domain_of
from equifactor.solvers.counting.formula import formula_of
from equifactor.solvers.counting.model_circuit import CERTAIN, IMPOSSIBLE, NOTHING, Circuit
from equifactor.solvers.counting.parameter_formula import parameter_formula
from equifactor.solvers.counting.search_order import search_order
from equifactor.solvers.counting.simplify import simplified
from equifactor.solvers.elimination.plan import plan

if TYPE_CHECKING:
    from equifactor.base.run_context import Progress
    from equifactor.base.typing import BoolArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.solvers.counting.formula import WeightedFormula

_MOST_NODES = 10_000_000  # Nodes of a circuit: about 1 GB.
_FIRST = 1e9  # A priority above all others: depths of trees and scores by conflicts are below 1e7.
_PLANNING = 1.0  # Reference seconds for the order of the search.


class CircuitEstimate(NamedTuple):
    """What a circuit may cost, known before it is made."""

    variables: int  # of the formula
    clauses: int
    width: int | None  # of the order of the search; None if planning found no order in its time
    most_nodes: float  # about the number of nodes if no zero and no equal entry helps


@checks_types("graph", "parameters", "max_nodes", "memory_limit")
def compile_circuit(
    graph: FactorGraph,
    *,
    parameters: bool = False,
    max_nodes: int = _MOST_NODES,
    memory_limit: float = 4.0,
    time_limit: float | None = None,
    progress: Progress | bool = False,
) -> Circuit:
    """Return the model as a circuit, made by the search of `search-sum`; it may take minutes.

    Args:
        graph: the model; its observed variables stay observed.
        parameters: whether all positive table entries stay parameters: `gradient`, `with_log_phi` and `torch` need it.
            Such a circuit is larger. The model may have tables only.
        max_nodes: the most nodes of the circuit; see also `estimate_circuit`.
        memory_limit: GiB for the circuit and the cache of the search.
        time_limit: seconds.
        progress: True for a bar on stderr, or a callable `(nodes, None, note)`.

    Raises:
        ModelError: if no assignment is possible, or a limit is reached.
    """
    clock = Clock(time_limit)
    with bar(progress, "circuit", time_limit) as report, clock.govern():
        formula, reduced = _model_formula(graph, parameters, clock)
        own = _searched(formula, clock, max_nodes, memory_limit, report=report)
    if own is None:
        raise ModelError(NOTHING)
    if reduced is None:
        s = graph.structure
        states, entries = np.split(formula.state_literal, [int(s.state_ptr[-1])])
        entries = np.where(graph.log_phi > -np.inf, entries, IMPOSSIBLE)
        domain = domain_of(s.card, s.variable_names, s.state_names)
        return Circuit(own, domain, states, formula.is_value, 0.0, False, entries).with_log_phi(graph.log_phi)
    return _circuit(own, formula, reduced, _has_chance(reduced.graph))


@checks_types("graph")
def estimate_circuit(graph: FactorGraph, *, parameters: bool = False) -> CircuitEstimate:
    """Return what `compile_circuit` would cost at most, in the time of planning it.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.generators.random_network(30, zeros=0.5, observed=0.0, seed=1)
        >>> ef.solvers.estimate_circuit(graph).most_nodes > ef.compile_circuit(graph).num_nodes
        True
    """
    formula, _ = _model_formula(graph, parameters, Clock(None))
    long = [clause for clause in formula.clauses if len(clause) > 1]
    order = search_order(formula.num_vars, long, _PLANNING)
    most = order.entries
    with contextlib.suppress(ModelError):  # a structured factor is too large for a table
        tables = plan(graph)
        most = min(most, tables.entries if tables.finished else np.inf)
    return CircuitEstimate(formula.num_vars, len(formula.clauses), order.width, most)


def _model_formula(graph: FactorGraph, parameters: bool, clock: Clock) -> tuple[WeightedFormula, ReducedGraph | None]:
    """Return the formula of a circuit, and the graph that it stands for; None if it is the whole graph."""
    if parameters:
        return simplified(parameter_formula(graph), clock, eliminate=False), None
    reduced = to_free_part(graph)
    if reduced is None:
        raise ModelError(NOTHING)
    return simplified(_formula(reduced.graph), clock, eliminate=False), reduced


@checks_types("graph", "memory_limit")
def count_assignments(
    graph: FactorGraph,
    over: Sequence[Variable] | None = None,
    *,
    memory_limit: float = 4.0,
    time_limit: float | None = None,
) -> int:
    """Return the number of assignments that are possible, with all digits; only the zeros of the model matter.

    For a formula it is the number of solutions.

    Args:
        graph: the model; its observed variables stay observed.
        over: the variables to count over (projected counting): assignments that differ in other variables count once.
            None for all variables.
        memory_limit: GiB for the circuit and the cache of the search.
        time_limit: seconds.

    Raises:
        ModelError: if a limit is reached, or a noisy-or factor is too large for a table.

    Examples:
        >>> import equifactor as ef
        >>> ef.solvers.count_assignments(ef.FactorGraph([2] * 100, [([0, 1], ef.Clause())]))
        950737950171172051122527404032
    """
    clock = Clock(time_limit)
    with clock.govern():
        reduced = to_free_part(zeros_alone(graph))
        if reduced is None:
            return 0
        formula = _formula(reduced.graph)
        if formula.is_value.any() or _has_chance(reduced.graph):
            raise ModelError("Models with noisy-or factors cannot be counted. Write their zeros as tables.")
        formula = simplified(formula, clock, eliminate=over is None)
        shown = None if over is None else _shown(formula, reduced, over)
        own = _searched(formula, clock, _MOST_NODES, memory_limit, shown)
    return 0 if own is None else own.count(shown)


def _shown(formula: WeightedFormula, reduced: ReducedGraph, over: Sequence[Variable]) -> BoolArray:
    """Return [n] which variables of the formula hold states of the variables to count over."""
    s = reduced.original.structure
    wanted = np.zeros(s.num_vars, bool)
    wanted[[variable_number(v, s.index_of_name, s.num_vars) for v in over]] = True
    states = reduced.values_of_kept(np.repeat(wanted, s.card).astype(float)) > 0
    shown = np.zeros(formula.num_vars, bool)
    shown[formula.state_literal[states] >> 1] = True
    return shown


def _formula(graph: FactorGraph) -> WeightedFormula:
    formula = formula_of(graph)
    if formula is None:
        raise ModelError("The circuit would have too many nodes: the tables have millions of different entries.")
    return formula


def _searched(
    formula: WeightedFormula,
    clock: Clock,
    max_nodes: int,
    memory_limit: float,
    first: BoolArray | None = None,
    report: Progress | None = None,
) -> LiteralCircuit | None:
    """Return the circuit of a formula; None if it has no solution. Variables in `first` [n] are decided first."""
    from equifactor.solvers.counting.search_state import SumSearch

    if not memory_limit > 0:
        raise OptionError(f"memory_limit must be a number of GiB above 0, found {brief(memory_limit)}.")
    order = search_order(formula.num_vars, [c for c in formula.clauses if len(c) > 1], _PLANNING)
    priority = order.priority if first is None else order.priority + _FIRST * first
    search = SumSearch(formula, priority, record=True, memory=memory_limit * GIB)
    while not search.done:
        search.work()
        if report is not None:
            report(search.num_nodes, None, f"{search.num_nodes:,} nodes")
        if search.num_nodes > max_nodes or search.is_full:
            raise ModelError(
                f"The circuit has more than {search.num_nodes:,} nodes, and the limit is "
                f"{f'{memory_limit:g} GiB' if search.is_full else f'{max_nodes:,}'}. estimate_circuit tells how many "
                f"it may need. Raise {'memory_limit' if search.is_full else 'max_nodes'}, or use exact "
                "or auto."
            )
        if clock.stopped and not search.done:
            raise ModelError(
                f"The circuit was not complete after {clock.seconds:.3g} s and {search.num_nodes:,} nodes. Raise "
                "time_limit, or use auto."
            )
    return search.circuit() if search.log_sum > -np.inf else None


def _circuit(own: LiteralCircuit, formula: WeightedFormula, reduced: ReducedGraph, chance: bool) -> Circuit:
    s = reduced.original.structure
    literal = np.full(int(s.state_ptr[-1]), IMPOSSIBLE)
    literal[slice(None) if reduced.kept_states is None else reduced.kept_states] = formula.state_literal
    if reduced.fixed is not None:
        decided = reduced.fixed >= 0
        literal[s.state_ptr[:-1][decided] + reduced.fixed[decided]] = CERTAIN
    return Circuit(
        own, domain_of(s.card, s.variable_names, s.state_names), literal, formula.is_value, formula.constant, chance
    )


def _has_chance(graph: FactorGraph) -> bool:
    """Return whether lowering adds random auxiliary variables."""
    s = graph.structure
    return s.kinds is not None and bool(kinds_with("lowered_by_chance", s.kinds.kind).any())
