"""The model as the user states it: `FactorGraph`, of any arity and cardinality, with true zeros and optional names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.kind_checks import check_kinds
from equifactor.graph.kinds import kind_class
from equifactor.graph.mixed_rows import dense_table
from equifactor.graph.reading import factor_input, inputs, observations
from equifactor.graph.reading.observations import StateNumbers, conditioned
from equifactor.graph.row_sums import warn_of_typed_rows
from equifactor.graph.scores import assignment_log_scores, assignment_of
from equifactor.graph.structure import MAX_AXES, Structure
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.kernels.pointers import ptr_of
from equifactor.show import graph_display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from rich.console import RenderableType

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Evidence, Factors, Variable, Variables


class FactorGraph:
    """A product of non-negative tables over discrete variables, `p(x) = 1/Z prod_a f_a(x_a)`; immutable.

    Args:
        variables: cardinality of each variable, or a mapping from name to cardinality or to state names.
        factors: pairs `(scope, table)`. The scope lists variable numbers or names in any order; the table has
            one axis per scope variable, or is flat in C order (the last scope variable fastest, as in UAI). A
            structured factor may take the place of a table: `Parity()`, `Clause()`, `AtMost(1)`, ..
        log: whether the tables hold natural logarithms; `-inf` is a true zero.
        name: the name of the graph, shown in summaries and answers.

    Examples:
        >>> from equifactor import FactorGraph
        >>> g = FactorGraph({"rain": 2, "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]),
        ...     (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]]),
        ... ])
        >>> g
        FactorGraph(2 variables, 2 factors, 2 states, arity 1-2, no zeros)
        >>> round(g.log_score({"rain": 1, "grass": "wet"}), 6)  # ln(0.2 * 0.95)
        -1.660731
    """

    __slots__ = ("log_phi", "name", "observed", "structure")

    structure: Structure
    log_phi: FloatArray  # [T] natural logs of all tables, one after the other
    observed: IntArray | None  # [V] observed state, -1 if free; None if nothing is observed
    name: str | None

    def __init__(
        self, variables: Variables, factors: Factors = (), *, log: bool = False, name: str | None = None
    ) -> None:
        pairs = inputs.read_factors(factors)
        card, names, states = inputs.read_variables(variables)
        structure = Structure.build(card, [0], [], variable_names=names, state_names=states)
        empty = FactorGraph.trusted(structure, np.zeros(0), None, inputs.read_name(name))
        graph = empty.with_factors(pairs, log=log)
        self._set(graph.structure, graph.log_phi, None, name)
        if not log:
            warn_of_typed_rows(self)

    def _set(self, structure: Structure, log_phi: FloatArray, observed: IntArray | None, name: str | None) -> None:
        log_phi.flags.writeable = False
        if observed is not None:
            observed.flags.writeable = False
        for field, value in (
            ("structure", structure), ("log_phi", log_phi), ("observed", observed), ("name", name)
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"A FactorGraph is immutable. Build a new one instead of setting {field!r}.")

    def __delattr__(self, field: str) -> None:
        raise AttributeError("A FactorGraph is immutable.")

    def __reduce__(self) -> tuple[Any, ...]:
        return FactorGraph.trusted, (self.structure, self.log_phi, self.observed, self.name)

    @classmethod
    def trusted(
        cls,
        structure: Structure,
        log_phi: FloatArray,
        observed: IntArray | None = None,
        name: str | None = None,
    ) -> FactorGraph:
        """Return a graph around arrays that are known to be valid; they are neither copied nor checked."""
        graph = cls.__new__(cls)
        graph._set(structure, log_phi, observed, name)
        return graph

    @classmethod
    def from_arrays(
        cls,
        variables: Variables,
        scopes: ArrayLike,
        phi: ArrayLike,
        *,
        scope_ptr: ArrayLike | None = None,
        log: bool = False,
        name: str | None = None,
    ) -> FactorGraph:
        """Return a graph from arrays, checked in O(E log E + T) without a Python loop over factors.

        Args:
            variables: as for `FactorGraph`: cardinalities [V], or a mapping from name to states.
            scopes: variable numbers [F, k] if all factors have k variables, otherwise flat [E] with `scope_ptr`.
            phi: all tables [T] one after the other in C order, or [F, d1, .., dk] if they have one shape.
            scope_ptr: [F+1], the scope of factor a is `scopes[scope_ptr[a] : scope_ptr[a + 1]]`.
            log: whether the tables hold natural logarithms; `-inf` is a true zero.
            name: the name of the graph.

        Examples:
            >>> from equifactor import FactorGraph
            >>> FactorGraph.from_arrays([2] * 101, [(i, i + 1) for i in range(100)], [[[2, 1], [1, 2]]] * 100)
            FactorGraph(101 variables, 100 factors, 2 states, arity 2, no zeros)
        """
        structure = factor_input.structure_of(variables, scopes, scope_ptr)
        empty = cls.trusted(structure, np.zeros(0), None, inputs.read_name(name))
        return empty.with_potentials(factor_input.flat_tables(structure, phi), log=log)

    # ---- what it is -------------------------------------------------------------------------------------

    @property
    def card(self) -> IntArray:
        """The number of states [V] of each variable."""
        return self.structure.card

    @property
    def num_vars(self) -> int:
        """V, the number of variables, observed ones included."""
        return self.structure.num_vars

    @property
    def num_factors(self) -> int:
        """F, the number of factors."""
        return self.structure.num_factors

    @property
    def variable_names(self) -> tuple[str, ...] | None:
        """The names of the variables in order; None if they have no names."""
        return self.structure.variable_names

    @property
    def state_names(self) -> tuple[tuple[str, ...] | None, ...] | None:
        """The names of the states of each variable, None for a variable without them; None if no state has a name."""
        return self.structure.state_names

    @property
    def variables(self) -> dict[int | str, tuple[int | str, ...]]:
        """The states of each variable, by name if they have names, otherwise by number; a new dictionary each time."""
        names: Sequence[int | str] = self.structure.variable_names or range(self.num_vars)
        return {name: tuple(self.structure.states_of(i)) for i, name in enumerate(names)}

    @property
    def free_vars(self) -> IntArray:
        """The variables that are not observed, in order."""
        return np.arange(self.num_vars) if self.observed is None else np.flatnonzero(self.observed < 0)

    @property
    def evidence(self) -> dict[int, int]:
        """The observed state of each observed variable, both by number."""
        if self.observed is None:
            return StateNumbers()
        seen = np.flatnonzero(self.observed >= 0)
        return StateNumbers(zip(seen.tolist(), self.observed[seen].tolist(), strict=True))

    @property
    def num_joint_states(self) -> int:
        """The number of assignments to the free variables, as an exact integer."""
        # One power for each distinct cardinality: a product variable by variable takes 14 s for 10^6 variables.
        return math.prod(d**n for d, n in Counter(self.card[self.free_vars].tolist()).items())

    def factor(self, factor: int) -> FloatArray | StructuredFactor:
        """Return one factor as it was stated: its log table, or an object such as `Parity` or `Clause`."""
        a, kinds = inputs.factor_number(factor, self.num_factors), self.structure.kinds
        if kinds is None or kinds.kind[a] == 0:
            return self.log_table(a)
        row = self.structure.rows(self.log_phi).take(np.array([a]))
        return kind_class(int(kinds.kind[a])).of_row(self.structure.shape(a), row.log_values, row.words)

    def log_table(self, factor: int) -> FloatArray:
        """Return the log table of one factor with one axis per scope variable, as a read-only view.

        The table of a structured factor is made by this call. Raises `ModelError` if it would be too large.
        """
        a, kinds = inputs.factor_number(factor, self.num_factors), self.structure.kinds
        if kinds is not None and kinds.kind[a]:
            return dense_table(self.structure.rows(self.log_phi).take(np.array([a])), a)
        if self.structure.arity[a] > MAX_AXES:
            raise ModelError(
                f"factor {a} has {self.structure.arity[a]} variables, and an array has at most {MAX_AXES} axes. Leave "
                "variables of one state out of the scope.",
                factor=a,
            )
        start, stop = self.structure.table_ptr[a : a + 2]
        return self.log_phi[start:stop].reshape(self.structure.shape(a))

    def linear_factors(self) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        """Yield each factor as `(scope, table)` with its table in the linear domain, that is exp of `log_table`."""
        for a in range(self.num_factors):
            yield tuple(self.structure.scope(a).tolist()), np.asarray(np.exp(self.log_table(a)))

    def variable(self, variable: Variable) -> int:
        """Return the number of a variable given by number or name; raises `ModelError` if unknown or ambiguous."""
        return observations.named(self.structure, variable)

    def state(self, variable: Variable, state: int | str) -> int:
        """Return the number of a state given by number or name, read as `condition` does; raises `ModelError`."""
        return observations.state_number(self.structure, self.variable(variable), state)

    # ---- new graphs from this one -----------------------------------------------------------------------

    def condition(self, evidence: Evidence | IntArray) -> FactorGraph:
        """Return the graph given evidence, over the same variables.

        Hard evidence (a state) slices the tables, so that observed variables leave every scope; ln Z and scores
        keep the scale of the original. Soft evidence (one weight per state) becomes a new unary factor. Cost O(T).

        Args:
            evidence: a mapping from variable to state or weights, or a pandas Series, in which NaN is not observed; or
                an array [V] of state numbers, such as a row of samples, in which -1 is not observed. Text is an exact
                name. A whole number counts from 0. It is refused if state names are numbers, or words for true and
                false, that do not match their places: for the states "1" and "2" pass "1", for TRUE and FALSE pass
                "TRUE", and not 1. True and False are 1 and 0 of two states without names. If the states have names,
                True and False are refused unless a state has that name. Weights are in the order of the states, or a
                mapping from state to weight.

        Raises `ModelError`, which names the choices, for an ambiguous value, for a variable that is given twice, and
        for a variable that is already observed in another state.
        """
        return conditioned(self, evidence)

    def with_factor(self, scope: Sequence[Variable], table: ArrayLike, *, log: bool = False) -> FactorGraph:
        """Return the graph times one more factor; cost O(T), so add many at once by `with_factors`."""
        return self.with_factors([(scope, table)], log=log)

    def with_factors(self, factors: Factors, *, log: bool = False) -> FactorGraph:
        """Return the graph times more factors, over variables that are not observed."""
        pairs = inputs.read_factors(factors)
        s, first = self.structure, self.num_factors
        scopes = [
            inputs.read_scope(first + n, scope, s.index_of_name, s.num_vars) for n, (scope, _) in enumerate(pairs)
        ]
        new_vars = np.array([i for scope in scopes for i in scope], np.int64)
        if self.observed is not None and np.any(self.observed[new_vars] >= 0):
            i = int(new_vars[np.argmax(self.observed[new_vars] >= 0)])
            raise ModelError(f"A new factor names variable {s.variable_name(i)}, which is observed. Leave it out.")
        if s.kinds is not None or any(isinstance(table, StructuredFactor) for _, table in pairs):
            return self._with_rows(scopes, [table for _, table in pairs], log)
        structure = Structure.build(
            s.card,
            np.concatenate((s.scope_ptr, s.num_edges + ptr_of([len(scope) for scope in scopes])[1:])),
            np.concatenate((s.scope_vars, new_vars)),
            variable_names=s.variable_names,
            state_names=s.state_names,
        )
        tables = [
            inputs.read_table(first + n, structure.shape(first + n), table, self._names_of(scopes[n]))
            for n, (_, table) in enumerate(pairs)
        ]
        try:
            phi = np.concatenate([np.zeros(0), *(t.ravel() for t in tables)])
            more = inputs.read_potentials(structure.table_ptr[first:] - s.num_entries, phi, log, first)
            log_phi = np.concatenate((self.log_phi, more))
        except MemoryError:
            raise ModelError(f"Tables with {structure.num_entries:,} entries in total do not fit in memory.") from None
        return FactorGraph.trusted(structure, log_phi, self.observed, self.name)

    def _names_of(self, scope: list[int]) -> Iterator[str]:
        """Yield the names of variables, if they have names."""
        names = self.structure.variable_names
        return iter(()) if names is None else (names[i] for i in scope)

    def _with_rows(self, scopes: list[list[int]], tables: list[Any], log: bool) -> FactorGraph:
        """Return the graph times more factors, where some new or present factor is structured."""
        s = self.structure
        rows = factor_input.read_rows(s.rows(self.log_phi), s.card, scopes, tables, log)
        structure = Structure.of_rows(s.card, rows, variable_names=s.variable_names, state_names=s.state_names)
        return FactorGraph.trusted(structure, rows.log_values, self.observed, self.name)

    def with_potentials(self, phi: ArrayLike, *, log: bool = False) -> FactorGraph:
        """Return the same structure with other tables [T]; the structure is shared, not copied."""
        log_phi = inputs.read_potentials(self.structure.table_ptr, phi, log)
        _check_values(self.structure, log_phi)
        return FactorGraph.trusted(self.structure, log_phi, self.observed, self.name)

    def renamed(self, name: str | None) -> FactorGraph:
        """Return the same graph under another name."""
        return FactorGraph.trusted(self.structure, self.log_phi, self.observed, inputs.read_name(name))

    # ---- scores -----------------------------------------------------------------------------------------

    @overload
    def log_score(self, assignment: Mapping[Variable, int | str]) -> float: ...
    @overload
    def log_score(self, assignment: ArrayLike) -> Any: ...
    def log_score(self, assignment: ArrayLike | Mapping[Variable, int | str]) -> float | FloatArray:
        """Return the sum of the log tables at one assignment [V] (a float) or at many [N, V] (an array [N]).

        `-inf` where a table is zero or the assignment disagrees with the evidence. Cost O(N E).
        """
        if isinstance(assignment, Mapping):
            assignment = assignment_of(self, assignment)
        x = observations.read_assignments(self.structure, assignment)
        found = assignment_log_scores(self, np.atleast_2d(x))
        return float(found[0]) if x.ndim == 1 else found

    # ---- how it looks -----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactorGraph):
            return NotImplemented
        return (
            self.structure.same_as(other.structure)
            and np.array_equal(self.log_phi, other.log_phi)
            and self.evidence == other.evidence
        )

    __hash__ = None  # type: ignore[assignment]  # graphs compare by value and hold large arrays

    def __repr__(self) -> str:
        return f"FactorGraph({graph_display.one_line(self)})"

    def _repr_html_(self) -> str:
        return graph_display.html(self)

    def __rich__(self) -> RenderableType:
        return graph_display.terminal(self)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the factor graph: variables as discs, factors as squares coloured by kind, a grid as a grid.

        For a graph of more than 500 variables that is not a grid, the picture shows instead how many variables have
        how many factors. Needs matplotlib; `ax` are axes to draw into, those of a new figure by default.
        """
        from equifactor.graph.parents import children_of
        from equifactor.show.graph_picture import draw_graph

        return draw_graph(self, ax, children_of)


def _check_values(structure: Structure, log_phi: FloatArray) -> None:
    """Refuse log values that a kind of factor does not allow."""
    if structure.kinds is not None:
        check_kinds(structure.rows(log_phi))


def as_graph(graph: object) -> FactorGraph:
    """Return one graph; raises `ModelError` for anything else."""
    if isinstance(graph, FactorGraph):
        return graph
    raise ModelError(f"Expected one FactorGraph, found {brief(graph)}.")


def as_graphs(graphs: FactorGraph | Iterable[FactorGraph]) -> list[FactorGraph]:
    """Return one graph or several as a list; raises `ModelError` for anything else."""
    package = type(graphs).__module__.partition(".")[0]
    if package in ("networkx", "pgmpy", "pyagrum"):
        found = f"a {type(graphs).__name__} of {package}"
        raise ModelError(f"Expected a FactorGraph or several, found {found}. Convert it with from_{package}.")
    several = None if isinstance(graphs, FactorGraph) else inputs.as_list(graphs)
    several = [graphs] if several is None else several
    if set(map(type, several)) == {FactorGraph}:
        return several
    for graph in several:
        if not isinstance(graph, FactorGraph):
            hint = " Use read_graph to read a file." if isinstance(graph, str) else ""
            hint = " Pass its unroll(length)." if hasattr(graph, "unroll") else hint
            raise ModelError(f"Expected a FactorGraph or several, found {brief(graph)}.{hint}")
    return several
