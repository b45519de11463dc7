"""FactorGraph: what the user states. Numpy, any arity and cardinality, true zeros, optional names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from equifactor.errors import ModelError
from equifactor.graph import view
from equifactor.graph.slicing import slice_tables
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from rich.console import RenderableType

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    Variable = int | str
    Evidence = Mapping[Any, int | str | Sequence[float] | FloatArray]  # by number or name

_SHOWN_NAMES = 8  # how many valid names an error lists
_SCORE_BLOCK = 2**21  # edges times assignments scored at once: keeps the index array near 16 MB


class FactorGraph:
    """A product of non-negative tables over discrete variables, `p(x) = 1/Z prod_a f_a(x_a)`; immutable.

    Args:
        variables: cardinality of each variable, or a mapping from name to cardinality or to state names.
        factors: pairs `(scope, table)`. The scope lists variable numbers or names in any order; the table has
            one axis per scope variable, or is flat in C order (the last scope variable fastest, as in UAI).
        log: the tables hold natural logarithms; `-inf` is a true zero.
        name: shown in summaries and answers.

    Examples:
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
    observed: IntArray | None  # [V] observed state, -1 where free; None when nothing is observed
    name: str | None

    def __init__(
        self,
        variables: Sequence[int] | IntArray | Mapping[str, int | Sequence[str]],
        factors: Iterable[tuple[Sequence[Variable], ArrayLike]] = (),
        *,
        log: bool = False,
        name: str | None = None,
    ) -> None:
        factors = list(factors)  # read twice below, and `other.factors()` is an iterator
        card, names, states = _read_variables(variables)
        index = {n: i for i, n in enumerate(names or ())}
        scopes = [[_index(v, index, len(card)) for v in scope] for scope, _ in factors]
        structure = Structure.build(
            card,
            np.cumsum([0, *map(len, scopes)]),
            np.array([i for scope in scopes for i in scope], np.int64),
            variable_names=names,
            state_names=states,
        )
        tables = [_read_table(a, structure.shape(a), table) for a, (_, table) in enumerate(factors)]
        phi = np.concatenate([t.ravel() for t in tables]) if tables else np.zeros(0)
        self._set(structure, _checked_log_phi(structure, phi, log), None, name)

    def _set(self, structure: Structure, log_phi: FloatArray, observed: IntArray | None, name: str | None) -> None:
        log_phi.flags.writeable = False
        if observed is not None:
            observed.flags.writeable = False
        for field, value in (
            ("structure", structure), ("log_phi", log_phi), ("observed", observed), ("name", name)
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a FactorGraph is immutable; build a new one instead of setting {field!r}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError("a FactorGraph is immutable")

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
        """Wrap arrays that are known to be valid, without copying or checking (generators, slicing)."""
        graph = cls.__new__(cls)
        graph._set(structure, log_phi, observed, name)
        return graph

    @classmethod
    def from_arrays(
        cls, structure: Structure, phi: ArrayLike, *, log: bool = False, name: str | None = None
    ) -> FactorGraph:
        """A graph from a checked structure and all tables [T] one after the other; checks the tables."""
        return cls.trusted(structure, _checked_log_phi(structure, np.asarray(phi), log), None, name)

    # ---- what it is -------------------------------------------------------------------------------------

    @property
    def card(self) -> IntArray:
        """[V] number of states of each variable."""
        return self.structure.card

    @property
    def num_vars(self) -> int:
        """V, observed variables included."""
        return self.structure.num_vars

    @property
    def num_factors(self) -> int:
        """F."""
        return self.structure.num_factors

    @property
    def free_vars(self) -> IntArray:
        """Variables that are not observed, in order."""
        return np.arange(self.num_vars) if self.observed is None else np.flatnonzero(self.observed < 0)

    @property
    def evidence(self) -> dict[int, int]:
        """Observed state of each observed variable."""
        if self.observed is None:
            return {}
        seen = np.flatnonzero(self.observed >= 0)
        return dict(zip(seen.tolist(), self.observed[seen].tolist(), strict=True))

    @property
    def num_joint_states(self) -> int:
        """Number of assignments to the free variables, as an exact integer."""
        total = 1
        for d in self.card[self.free_vars].tolist():
            total *= d
        return total

    def log_table(self, factor: int) -> FloatArray:
        """Log table of one factor, one axis per scope variable; a read-only view."""
        start, stop = self.structure.table_ptr[factor : factor + 2]
        return self.log_phi[start:stop].reshape(self.structure.shape(factor))

    def factors(self) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        """Each factor as `(scope, table)`, tables in the linear domain."""
        for a in range(self.num_factors):
            yield tuple(self.structure.scope(a).tolist()), np.asarray(np.exp(self.log_table(a)))

    def variable(self, variable: Variable) -> int:
        """Number of a variable given by number or name; raises `ModelError` for an unknown one."""
        return _index(variable, self.structure.index_of_name, self.num_vars)

    def state(self, variable: Variable, state: int | str) -> int:
        """Number of a state given by number or name; raises `ModelError` when it is out of range."""
        i = self.variable(variable)
        label = self.structure.variable_name(i)
        if isinstance(state, str):
            names = self.structure.state_names and self.structure.state_names[i]
            if not names or state not in names:
                have = f"its states are {', '.join(names)}" if names else "its states have no names"
                raise ModelError(f"variable {label} has no state {state!r}; {have}", variable=i)
            return names.index(state)
        if not isinstance(state, (int, np.integer)):
            raise ModelError(f"the state of variable {label} must be a whole number or a name, found {state!r}")
        if not 0 <= state < self.card[i]:
            raise ModelError(
                f"state {state} of variable {label} is out of range; it has {self.card[i]} states "
                f"(0-{self.card[i] - 1})",
                variable=i,
            )
        return int(state)

    # ---- new graphs from this one -----------------------------------------------------------------------

    def condition(self, evidence: Evidence) -> FactorGraph:
        """The graph given evidence, over the same variables.

        Hard evidence (a state, by number or name) slices the tables, so that observed variables leave every
        scope; ln Z and scores keep the scale of the original. Soft evidence (one weight per state) becomes a
        new unary factor. Raises `ModelError` when it contradicts what is already observed. Cost O(T).
        """
        hard: dict[int, int] = {}
        graph = self
        for key, value in evidence.items():
            i = self.variable(key)
            if isinstance(value, (int, str, np.integer)):
                state = self.state(i, value)
                if hard.get(i, state) != state:
                    raise ModelError(f"variable {self.structure.variable_name(i)} is observed in two states")
                hard[i] = state
                continue
            weights = self._weights(i, value)
            if self.observed is None or self.observed[i] < 0:
                graph = graph.with_factor([i], weights)
            else:  # a weight for a variable that is already fixed only scales
                graph = graph.with_factor([], weights[self.observed[i]])
        if not hard:
            return graph
        observed = np.full(self.num_vars, -1) if self.observed is None else self.observed.copy()
        for i, state in hard.items():
            if observed[i] >= 0 and observed[i] != state:
                name = self.structure.variable_name(i)
                raise ModelError(f"variable {name} is already observed in state {observed[i]}, not {state}")
            observed[i] = state
        structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
        return FactorGraph.trusted(structure, log_phi, observed, self.name)

    def _weights(self, variable: int, value: object) -> FloatArray:
        """[card] soft evidence of one variable, checked."""
        try:
            weights = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.zeros(0)
        if weights.shape != (self.card[variable],) or not np.all((weights >= 0) & (weights < np.inf)):
            raise ModelError(
                f"evidence on variable {self.structure.variable_name(variable)} must be a state or one "
                f"weight >= 0 for each of its {self.card[variable]} states, found {value!r}",
                variable=variable,
            )
        return weights

    def with_factor(self, scope: Sequence[Variable], table: ArrayLike, *, log: bool = False) -> FactorGraph:
        """The graph times one more factor."""
        variables = [self.variable(v) for v in scope]
        s = self.structure
        structure = Structure.build(
            s.card,
            np.append(s.scope_ptr, s.num_edges + len(variables)),
            np.append(s.scope_vars, variables),
            variable_names=s.variable_names,
            state_names=s.state_names,
        )
        if self.observed is not None and any(self.observed[i] >= 0 for i in variables):
            raise ModelError("a new factor may only name variables that are not observed")
        values = _read_table(self.num_factors, structure.shape(self.num_factors), table).ravel()
        extra = _checked_log_phi(
            Structure.build(s.card, [0, len(variables)], variables), values, log, first=self.num_factors
        )
        return FactorGraph.trusted(structure, np.concatenate((self.log_phi, extra)), self.observed, self.name)

    def with_potentials(self, phi: ArrayLike, *, log: bool = False) -> FactorGraph:
        """The same structure with other tables [T]; the structure is shared, not copied."""
        log_phi = _checked_log_phi(self.structure, np.asarray(phi), log)
        return FactorGraph.trusted(self.structure, log_phi, self.observed, self.name)

    def renamed(self, name: str | None) -> FactorGraph:
        """The same graph under another name."""
        return FactorGraph.trusted(self.structure, self.log_phi, self.observed, name)

    # ---- scores -----------------------------------------------------------------------------------------

    @overload
    def log_score(self, assignment: Mapping[Variable, int | str]) -> float: ...
    @overload
    def log_score(self, assignment: ArrayLike) -> Any: ...
    def log_score(self, assignment: ArrayLike | Mapping[Variable, int | str]) -> float | FloatArray:
        """Sum of the log tables at one assignment [V] (a float) or at many [N, V] (an array [N]).

        `-inf` where a table is zero or the assignment disagrees with the evidence. Cost O(N E).
        """
        if isinstance(assignment, Mapping):
            assignment = self._assignment_of(assignment)
        x = np.asarray(assignment)
        if x.ndim not in (1, 2) or x.shape[-1] != self.num_vars:
            raise ModelError(
                f"an assignment has one state for each of the {self.num_vars} variables; found shape {x.shape}"
            )
        if x.size and not np.issubdtype(x.dtype, np.integer):
            raise ModelError(f"an assignment holds whole numbers, found dtype {x.dtype}")
        bad = (x < 0) | (x >= self.card)
        if bad.any():
            i = int(np.argwhere(bad)[0][-1])
            raise ModelError(f"the assignment puts variable {i} outside its {self.card[i]} states", variable=i)
        rows = np.atleast_2d(x)
        block = max(1, _SCORE_BLOCK // max(1, self.structure.num_edges))
        blocks = [self._log_scores(rows[n : n + block]) for n in range(0, len(rows), block)]
        scores = np.concatenate(blocks) if blocks else np.zeros(0)
        return float(scores[0]) if x.ndim == 1 else scores

    def _log_scores(self, x: IntArray) -> FloatArray:
        s = self.structure
        # Offsets within the tables: differences of a running integer sum, exact, and right for arity 0.
        running = np.zeros((len(x), s.num_edges + 1), np.int64)
        np.cumsum(x[:, s.scope_vars] * s.stride, axis=1, out=running[:, 1:])
        entry = s.table_ptr[:-1] + running[:, s.scope_ptr[1:]] - running[:, s.scope_ptr[:-1]]
        # Row by row in memory: an assignment then has the same score to the last bit alone or among others.
        scores = self.log_phi[np.ascontiguousarray(entry)].sum(axis=1)
        if self.observed is not None:
            scores[np.any((self.observed >= 0) & (self.observed != x), axis=1)] = -np.inf
        return scores

    def _assignment_of(self, states: Mapping[Variable, int | str]) -> IntArray:
        x = np.full(self.num_vars, -1) if self.observed is None else self.observed.copy()
        for key, value in states.items():
            x[self.variable(key)] = self.state(key, value)
        if np.any(x < 0):
            i = int(np.argmax(x < 0))
            raise ModelError(f"the assignment leaves variable {self.structure.variable_name(i)} open")
        return x

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
        return f"FactorGraph({view.one_line(self)})"

    def _repr_html_(self) -> str:
        return view.html(self)

    def __rich__(self) -> RenderableType:
        return view.terminal(self)


def _read_variables(
    variables: Sequence[int] | IntArray | Mapping[str, int | Sequence[str]],
) -> tuple[list[int] | IntArray, list[str] | None, list[Sequence[str] | None] | None]:
    if not isinstance(variables, Mapping):
        return np.asarray(variables, dtype=None if len(variables) else np.int64), None, None
    states: list[Sequence[str] | None] = [
        None if isinstance(v, (int, np.integer)) else list(v) for v in variables.values()
    ]
    card = [v if isinstance(v, (int, np.integer)) else len(v) for v in variables.values()]
    return [int(d) for d in card], list(variables), states if any(states) else None


def _index(variable: Variable, index: Mapping[str, int], num_vars: int) -> int:
    if isinstance(variable, str):
        if variable not in index:
            known = ", ".join(list(index)[:_SHOWN_NAMES]) + (", ..." if len(index) > _SHOWN_NAMES else "")
            raise ModelError(f"there is no variable {variable!r}; the names are: {known or '(none)'}")
        return index[variable]
    if not isinstance(variable, (int, np.integer)) or isinstance(variable, bool):
        raise ModelError(f"a variable is given by number or name, found {variable!r}")
    if not 0 <= variable < num_vars:
        have = f"{num_vars} variables (0-{num_vars - 1})" if num_vars else "no variables"
        raise ModelError(f"there is no variable {variable}; the model has {have}", variable=int(variable))
    return int(variable)


def _read_table(factor: int, shape: tuple[int, ...], table: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"the table of factor {factor} is not an array of numbers", factor=factor) from None
    if values.shape == shape or (values.ndim == 1 and values.size == np.prod(shape, dtype=np.int64)):
        return values
    raise ModelError(f"factor {factor} needs a table of shape {shape}, found shape {values.shape}", factor=factor)


def _checked_log_phi(structure: Structure, phi: FloatArray, log: bool, first: int = 0) -> FloatArray:
    """Logs of the tables [T]; refuses NaN, +inf and (in the linear domain) negative entries."""
    if phi.shape != (structure.num_entries,):
        raise ModelError(f"the tables need {structure.num_entries} entries in all, found shape {phi.shape}")
    phi = phi.astype(np.float64)  # a copy: the caller's array stays writeable and its own
    bad = np.isnan(phi) | (phi == np.inf)
    if not log:
        bad |= phi < 0
    if bad.any():
        t = int(np.argmax(bad))
        a = int(np.searchsorted(structure.table_ptr, t, side="right")) - 1
        kind = "a log potential must be a number below infinity" if log else "a potential must be a number >= 0"
        entry = t - int(structure.table_ptr[a])
        raise ModelError(f"factor {a + first}, entry {entry} is {phi[t]:g}; {kind}", factor=a + first)
    if not log:
        with np.errstate(divide="ignore"):
            np.log(phi, out=phi)
    return phi
