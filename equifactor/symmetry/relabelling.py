"""`Relabelling`, one element of the symmetry group of a factor graph, definition 1 and appendix A of [Sun21]."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.options import choices
from equifactor.base.run_context import check_run
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.marginals import Marginals
from equifactor.kernels.pointers import place_in_row, ptr_of, row_of
from equifactor.solving.solver import ALL_SYMMETRIES, Symmetry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.questions.result import Result


KINDS: tuple[Symmetry, ...] = ("global", "local variable", "variable assignment")  # In the order of the paper.


@dataclass(frozen=True, eq=False)
class Relabelling:
    """New numbers for the variables, factors, scope positions and states of a graph; every array maps old to new.

    Global symmetry: variable i becomes variable `variables[i]`, and factor a becomes factor `factors[a]`.
    Local variable symmetry: the variable at position k of factor a moves to position `slots[scope_ptr[a] + k]`.
    Variable assignment symmetry: state x of variable i becomes state `states[state_ptr[i] + x]`.

    `relabel(graph, r)` applies the relabelling. A relabelling fits every graph with the same cardinalities and
    arities, in the same order.

    Examples:
        >>> from equifactor import FactorGraph
        >>> from equifactor.symmetry import Relabelling, relabel
        >>> g = FactorGraph([2, 3], [([0, 1], [[1, 2, 3], [4, 5, 6]])])
        >>> r = Relabelling.random(g, seed=1)
        >>> relabel(relabel(g, r), r.inverse()) == g
        True
    """

    variables: IntArray  # [V] the new number of each old variable.
    factors: IntArray  # [F] the new number of each old factor.
    slots: IntArray  # [E] the position within the new scope, by old (factor, position).
    states: IntArray  # [X] the state within the new variable, by old (variable, state).
    scope_ptr: IntArray  # [F+1] the first (factor, position) of each old factor.
    state_ptr: IntArray  # [V+1] the first (variable, state) of each old variable.

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            try:
                array = np.array(given, np.int64, ndmin=1)  # A copy, which the caller cannot change.
            except Exception:  # a foreign object may raise any error when numpy asks it for numbers
                raise ModelError(
                    f"The {field.name} of a relabelling must be whole numbers, found {brief(given)}."
                ) from None
            array.flags.writeable = False
            object.__setattr__(self, field.name, array)
        _check(self.variables, np.array([0, len(self.state_ptr) - 1]), "variables")
        _check(self.factors, np.array([0, len(self.scope_ptr) - 1]), "factors")
        _check(self.slots, self.scope_ptr, "scope positions of factor")
        _check(self.states, self.state_ptr, "states of variable")

    # ---- constructors -----------------------------------------------------------------------------------

    @classmethod
    @checks_types("graph")
    def identity(cls, graph: FactorGraph) -> Relabelling:
        """Return the relabelling that changes nothing."""
        s = graph.structure
        slots, states = place_in_row(s.scope_ptr), place_in_row(s.state_ptr)
        return cls(np.arange(s.num_vars), np.arange(s.num_factors), slots, states, s.scope_ptr, s.state_ptr)

    @classmethod
    def random(cls, graph: FactorGraph, kinds: Collection[Symmetry] | Symmetry = KINDS, seed: int = 0) -> Relabelling:
        """Return a random relabelling of these kinds of symmetry. All relabellings of the kinds are equally likely."""
        wanted = check_kinds(kinds)
        check_run(None, seed, False)
        rng = np.random.default_rng(seed)
        r = cls.identity(as_graph(graph))
        drawn: dict[str, IntArray] = {}
        if "global" in wanted:
            drawn |= {"variables": rng.permutation(graph.num_vars), "factors": rng.permutation(graph.num_factors)}
        if "local variable" in wanted:
            drawn["slots"] = _shuffled(r.scope_ptr, rng)
        if "variable assignment" in wanted:
            drawn["states"] = _shuffled(r.state_ptr, rng)
        return dataclasses.replace(r, **drawn)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Relabelling:
        """Read the plain lists that `to_dict` returns; raise `ModelError` if they are not permutations."""
        try:
            scopes, states = given["scopes"], given["states"]
            return cls(
                np.array(given["variables"], np.int64),
                np.array(given["factors"], np.int64),
                _joined(scopes), _joined(states), ptr_of(list(map(len, scopes))), ptr_of(list(map(len, states))),
            )  # fmt: skip
        except (KeyError, IndexError, TypeError, ValueError):
            raise ModelError(
                "A relabelling must have lists of whole numbers: variables, factors, scopes (a list per factor) and "
                "states (a list per variable)."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists: variables, factors, scopes (a list per factor) and states (a list per variable)."""
        return {
            "variables": self.variables.tolist(),
            "factors": self.factors.tolist(),
            "scopes": [s.tolist() for s in np.split(self.slots, self.scope_ptr[1:-1])][: len(self.factors)],
            "states": [s.tolist() for s in np.split(self.states, self.state_ptr[1:-1])][: len(self.variables)],
        }

    # ---- the group --------------------------------------------------------------------------------------

    def compose(self, after: Relabelling) -> Relabelling:
        """Return this relabelling followed by `after`: `relabel(g, r.compose(s)) == relabel(relabel(g, r), s)`."""
        arity, card = self._new_sizes
        if not isinstance(after, Relabelling):
            raise ModelError(f"Expected a Relabelling, found {brief(after)}.")
        if not (np.array_equal(arity, np.diff(after.scope_ptr)) and np.array_equal(card, np.diff(after.state_ptr))):
            raise ModelError(
                "These relabellings cannot be composed. The second relabelling must be for a graph with the "
                "cardinalities and arities that result from the first relabelling."
            )
        return Relabelling(
            after.variables[self.variables],
            after.factors[self.factors],
            after.slots[self.edge_places],
            after.states[self.state_places],
            self.scope_ptr,
            self.state_ptr,
        )

    def inverse(self) -> Relabelling:
        """Return the relabelling that undoes this one."""
        arity, card = self._new_sizes
        slots, states = np.empty_like(self.slots), np.empty_like(self.states)
        slots[self.edge_places] = place_in_row(self.scope_ptr)
        states[self.state_places] = place_in_row(self.state_ptr)
        variables, factors = np.argsort(self.variables), np.argsort(self.factors)
        return Relabelling(variables, factors, slots, states, ptr_of(arity), ptr_of(card))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Relabelling):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))

    __hash__ = None  # type: ignore[assignment]  # Relabellings are compared by value.

    def __repr__(self) -> str:
        return f"Relabelling({len(self.variables):,} variables, {len(self.factors):,} factors)"

    # ---- answers of the old graph, for the new graph ----------------------------------------------------

    @property
    def state_places(self) -> IntArray:
        """The place [X] of each (variable, state) of the old graph among the (variable, state) of the new graph."""
        new_ptr = ptr_of(self._new_sizes[1])
        return np.repeat(new_ptr[self.variables], np.diff(self.state_ptr)) + self.states

    @property
    def edge_places(self) -> IntArray:
        """The place [E] of each (factor, position) of the old graph among the (factor, position) of the new graph."""
        new_ptr = ptr_of(self._new_sizes[0])
        return np.repeat(new_ptr[self.factors], np.diff(self.scope_ptr)) + self.slots

    def marginals(self, marginals: Marginals) -> Marginals:
        """Return the marginals of the relabelled graph, given the marginals of the original graph."""
        if not np.array_equal(getattr(marginals, "ptr", ()), self.state_ptr):
            raise ModelError("These marginals belong to a graph whose cardinalities are not those of the relabelling.")
        values = np.empty_like(marginals.values)
        values[self.state_places] = marginals.values
        return Marginals(values, ptr_of(self._new_sizes[1]))

    def assignment(self, assignment: ArrayLike) -> IntArray:
        """Return the same assignment [V], or several [N, V], in the numbers of the relabelled graph."""
        try:
            x = np.asarray(assignment)
        except Exception:  # a foreign object may raise any error when numpy asks it for numbers
            x = np.zeros(0)
        bad = x.ndim == 0 or x.shape[-1] != len(self.variables) or not np.issubdtype(x.dtype, np.integer)
        if bad or np.any((x < 0) | (x >= np.diff(self.state_ptr))):
            raise ModelError(
                f"An assignment must have one state in range for each of the {len(self.variables)} variables, found "
                f"{brief(assignment)}."
            )
        new = np.empty_like(x, dtype=np.int64)
        new[..., self.variables] = self.states[self.state_ptr[:-1] + x]
        return new

    @overload
    def messages(self, values: NDArray, source: FlatGraph, target: FlatGraph) -> NDArray: ...
    @overload
    def messages(self, values: Any, source: FlatGraph, target: FlatGraph) -> Any: ...
    @checks_types("source", "target")
    def messages(self, values: Any, source: FlatGraph, target: FlatGraph) -> Any:
        """Return messages [S] or [S, H] of the compiled graph `source` in the order of `target`, its relabelling.

        `source` and `target` each hold one graph. Values are numpy arrays or torch tensors, which keep device and
        gradient.
        """
        from equifactor.symmetry.relabelled_graph import message_places

        places = message_places(self, source, target)
        if getattr(values, "shape", ())[:1] != places.shape:
            raise ModelError(f"Messages must be an array or a tensor [S] or [S, H], S = {len(places)}.")
        return values[np.argsort(places)]

    def result(self, result: Result) -> Result:
        """Return the same answer for the relabelled graph; ln Z, scores and bounds stay the same."""
        from equifactor.symmetry.relabelled_graph import relabel

        if not isinstance(getattr(result, "graph", None), FactorGraph):
            raise ModelError(f"Expected a Result, found {brief(result)}.")
        moved: dict[str, Any] = {**result.__getstate__(), "graph": relabel(result.graph, self)}
        if hasattr(result, "marginals"):
            moved["marginals"] = self.marginals(result.marginals)
        if hasattr(result, "assignment"):
            moved["assignment"] = self.assignment(result.assignment)
        return type(result).of(moved)

    @property
    def _new_sizes(self) -> tuple[IntArray, IntArray]:
        """Arities [F] and cardinalities [V] in the new order."""
        arity, card = np.empty_like(self.factors), np.empty_like(self.variables)
        arity[self.factors] = np.diff(self.scope_ptr)
        card[self.variables] = np.diff(self.state_ptr)
        return arity, card


def check_kinds(kinds: Collection[str] | str) -> tuple[Symmetry, ...]:
    """Return the kinds of symmetry in the order of the paper; raise `OptionError` for an unknown kind."""
    try:
        wanted = {kinds} if isinstance(kinds, str) else set(kinds)
    except Exception:  # a foreign object may raise any error when it is read
        raise OptionError(f"The kinds of symmetry must be a list of words, found {brief(kinds)}.") from None
    if not wanted <= ALL_SYMMETRIES:
        unknown = min(wanted - ALL_SYMMETRIES, key=repr)
        raise OptionError(f"There is no symmetry {unknown!r}; {choices(str(unknown), KINDS)}.")
    return tuple(kind for kind in KINDS if kind in wanted)


def _check(numbers: IntArray, ptr: IntArray, what: str) -> None:
    """Raise `ModelError` unless every row of `numbers` is a permutation of 0, 1, .., its length - 1."""
    if ptr.ndim != 1 or not ptr.size or ptr[0] != 0 or np.any(np.diff(ptr) < 0):
        raise ModelError(f"The starts of a relabelling must be [0, ..], in ascending order, found {brief(ptr)}.")
    if numbers.shape != (ptr[-1],):
        name = what.split(" of ")[0]
        raise ModelError(f"A relabelling needs {ptr[-1]} numbers for the {name}, found {len(numbers)}.")
    row = row_of(ptr)
    bad = np.sort(numbers + ptr[row]) != np.arange(len(numbers))
    out = (numbers < 0) | (numbers >= np.diff(ptr)[row])
    if bad.any() or out.any():
        n = int(row[np.argmax(out) if out.any() else np.argmax(bad)])
        where = f"{what} {n}" if " of " in what else what
        raise ModelError(
            f"The new {where} must be the numbers 0 to {ptr[n + 1] - ptr[n] - 1} in any order, "
            f"found {numbers[ptr[n] : ptr[n + 1]][:8].tolist()}."
        )


def _shuffled(ptr: IntArray, rng: np.random.Generator) -> IntArray:
    """Return a random permutation of 0, 1, .. for each row of a ragged array."""
    row = row_of(ptr)
    return np.lexsort((rng.random(int(ptr[-1])), row)) - ptr[row]


def _joined(pieces: Sequence[Sequence[int]]) -> IntArray:
    return np.array([n for piece in pieces for n in piece], np.int64)
