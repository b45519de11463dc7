"""The part of a factor graph that does not depend on the numbers in its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.kinds import registered_kinds, renumbered
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


_FEW_SLOTS = 4  # Scopes of at most this size are compared slot by slot. Chosen by hand.
_BLOCK = 2**18  # The table sizes of this many factors are computed together. Chosen by hand.
MAX_AXES = 64  # The most axes of a numpy array; larger scopes are possible if most variables have one state.
MAX_TABLE_ENTRIES = 2**40  # 8 TiB of float64: a larger table must be a mistake in the input.


@dataclass(frozen=True, eq=False)
class FactorKinds:
    """The kind of each factor and its words, the whole numbers that belong to it; see `FactorRows`."""

    kind: IntArray  # [F] number of the kind, 0 for a table
    word_ptr: IntArray  # [F+1] words of factor a are word_ptr[a]:word_ptr[a+1]
    words: IntArray  # [W]

    def __getstate__(self) -> dict[str, Any]:
        """Return the arrays, and the classes of registered kinds, whose numbers may differ in another process."""
        return {**vars(self), "registered": registered_kinds(self.kind)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind = renumbered(state["kind"], state.pop("registered", {}))
        self.__dict__.update({name: _frozen(array) for name, array in {**state, "kind": kind}.items()})

    @staticmethod
    def name(number: int) -> str:
        """Return the name of a kind, as `info` prints it."""
        from equifactor.graph.kinds import kind_name

        return kind_name(number)

    def same_as(self, other: FactorKinds | None) -> bool:
        """Return whether all factors are of equal kinds with equal words."""
        return other is not None and all(np.array_equal(a, vars(other)[name]) for name, a in vars(self).items())


@dataclass(frozen=True, eq=False)
class Structure:
    """Cardinalities and scopes, in compressed rows; validated once by `Structure.build` or `Structure.of_rows`.

    V variables, F factors, E = sum of arities, T = sum of table sizes. Graphs that differ
    in their potentials only share it, so that a batch of them is compiled once. If all factors are tables, `kinds` is
    None; a structured factor has its own few log values in place of a table.
    """

    card: IntArray  # [V] number of states of each variable
    scope_ptr: IntArray  # [F+1] edges of factor a are scope_ptr[a]:scope_ptr[a+1]
    scope_vars: IntArray  # [E] variables of each factor, in scope order
    table_ptr: IntArray  # [F+1] table entries of factor a are table_ptr[a]:table_ptr[a+1]
    variable_names: tuple[str, ...] | None = None
    state_names: tuple[tuple[str, ...] | None, ...] | None = None
    kinds: FactorKinds | None = None

    @classmethod
    def build(
        cls,
        card: ArrayLike,
        scope_ptr: ArrayLike,
        scope_vars: ArrayLike,
        *,
        variable_names: Sequence[str] | None = None,
        state_names: Sequence[Sequence[str] | None] | None = None,
    ) -> Structure:
        """Check everything about the structure and freeze it; raises `ModelError`. Cost O(E log E)."""
        card = _frozen_ints(card)
        scope_ptr = _frozen_ints(scope_ptr)
        scope_vars = _frozen_ints(scope_vars)
        _check_card(card, variable_names)
        _check_scopes(card, scope_ptr, scope_vars, variable_names)
        table_ptr = _frozen(ptr_of(_table_sizes(card, scope_ptr, scope_vars)))
        variables = _check_variable_names(variable_names, len(card))
        states = _check_state_names(state_names, card, variables)
        return cls(card, scope_ptr, scope_vars, table_ptr, variables, states)

    @classmethod
    def trusted(cls, card: IntArray, scope_ptr: IntArray, scope_vars: IntArray, table_ptr: IntArray) -> Structure:
        """Return the structure of tables with these arrays, unchecked; the arrays become read-only."""
        return cls(_frozen(card), _frozen(scope_ptr), _frozen(scope_vars), _frozen(table_ptr))

    @classmethod
    def of_rows(
        cls,
        card: ArrayLike,
        rows: FactorRows,
        *,
        variable_names: Sequence[str] | None = None,
        state_names: Sequence[Sequence[str] | None] | None = None,
    ) -> Structure:
        """Return the structure of factors of any kinds, checked as by `build` and by the check of each kind."""
        from equifactor.graph.kind_checks import check_kinds

        if not rows.kind.any():
            names = {"variable_names": variable_names, "state_names": state_names}
            return cls.build(card, rows.scope_ptr, rows.scope_vars, **names)  # type: ignore[arg-type]
        card = _frozen_ints(card)
        scope_ptr, scope_vars = _frozen_ints(rows.scope_ptr), _frozen_ints(rows.scope_vars)
        _check_card(card, variable_names)
        _check_scopes(card, scope_ptr, scope_vars, variable_names)
        tables = np.flatnonzero(rows.kind == 0)
        scopes = rows.take(tables)
        check_kinds(rows)
        sizes = np.diff(rows.value_ptr)
        sizes[tables] = _table_sizes(card, scopes.scope_ptr, scopes.scope_vars)
        variables = _check_variable_names(variable_names, len(card))
        states = _check_state_names(state_names, card, variables)
        kinds = FactorKinds(*(_frozen_ints(a) for a in (rows.kind, rows.word_ptr, rows.words)))
        return cls(card, scope_ptr, scope_vars, _frozen(ptr_of(sizes)), variables, states, kinds)

    def with_scopes(self, scope_ptr: IntArray, scope_vars: IntArray) -> Structure:
        """Return the structure of tables over parts of the present scopes, which need no further check."""
        table_ptr = _frozen(ptr_of(_table_sizes(self.card, scope_ptr, scope_vars)))
        names = self.variable_names, self.state_names
        return Structure(self.card, _frozen(scope_ptr), _frozen(scope_vars), table_ptr, *names)

    def rows(self, log_phi: FloatArray) -> FactorRows:
        """Return all factors, of any kind, with their log values `log_phi` [T]; nothing is copied."""
        from equifactor.graph.factor_rows import FactorRows

        kinds = self.kinds or tables_only(self.num_factors)
        return FactorRows(
            kinds.kind, self.scope_ptr, self.scope_vars, self.table_ptr, log_phi, kinds.word_ptr, kinds.words,
            self.card[self.scope_vars],
        )  # fmt: skip

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        for value in state.values():  # numpy arrays come out of a pickle writeable
            if isinstance(value, np.ndarray):
                _frozen(value)

    @property
    def num_vars(self) -> int:
        """V, the number of variables."""
        return len(self.card)

    @property
    def num_factors(self) -> int:
        """F, the number of factors."""
        return len(self.scope_ptr) - 1

    @property
    def num_edges(self) -> int:
        """E, the number of (factor, variable) pairs."""
        return len(self.scope_vars)

    @property
    def num_entries(self) -> int:
        """T, the number of table entries."""
        return int(self.table_ptr[-1])

    @cached_property
    def arity(self) -> IntArray:
        """The number of variables [F] of each factor."""
        return _frozen(np.diff(self.scope_ptr))

    @cached_property
    def state_ptr(self) -> IntArray:
        """The row pointer [V+1] of an array of all states: those of variable i are `state_ptr[i]:state_ptr[i+1]`."""
        return _frozen(ptr_of(self.card))

    @cached_property
    def has_single_states(self) -> bool:
        """Whether some variable has one state only."""
        return bool(np.any(self.card == 1))

    @cached_property
    def factor_of_edge(self) -> IntArray:
        """The factor [E] of each edge."""
        return _frozen(row_of(self.scope_ptr))

    @cached_property
    def stride(self) -> IntArray:
        """The step [E] in the factor's table when the edge's variable moves by one state (C order)."""
        stride = np.ones(self.num_edges, np.int64)
        # One pass per slot from the back over the tables that have it, largest arity first: O(E) in all.
        tables = np.flatnonzero(self.is_table)
        by_arity = tables[np.argsort(-self.arity[tables], kind="stable")]
        falling = -self.arity[by_arity]
        for j in range(int(-falling.min(initial=0)) - 2, -1, -1):
            edges = self.scope_ptr[by_arity[: np.searchsorted(falling, -j - 1)]] + j
            stride[edges] = stride[edges + 1] * self.card[self.scope_vars[edges + 1]]
        return _frozen(stride)

    @cached_property
    def index_of_name(self) -> dict[str, int]:
        """The variable number of each variable name."""
        return {name: i for i, name in enumerate(self.variable_names or ())}

    def scope(self, factor: int) -> IntArray:
        """Return the variables [arity] of one factor."""
        return self.scope_vars[self.scope_ptr[factor] : self.scope_ptr[factor + 1]]

    def shape(self, factor: int) -> tuple[int, ...]:
        """Return the shape of one factor's table."""
        return tuple(self.card[self.scope(factor)].tolist())

    @property
    def is_table(self) -> BoolArray:
        """[F] which factors are tables."""
        return np.ones(self.num_factors, bool) if self.kinds is None else self.kinds.kind == 0

    def variable_name(self, variable: int) -> str:
        """Return the name of a variable, or its number if it has no name."""
        return self.variable_names[variable] if self.variable_names else str(variable)

    def states_of(self, variable: int) -> Sequence[int | str]:
        """Return the states of a variable by name, or by number if they have no names."""
        names = self.state_names[variable] if self.state_names else None
        return range(int(self.card[variable])) if names is None else names

    def same_as(self, other: Structure) -> bool:
        """Return whether both have equal cardinalities, scopes and names."""
        return self is other or (
            np.array_equal(self.card, other.card)
            and np.array_equal(self.scope_ptr, other.scope_ptr)
            and np.array_equal(self.scope_vars, other.scope_vars)
            and self.variable_names == other.variable_names
            and self.state_names == other.state_names
            and (other.kinds is None if self.kinds is None else self.kinds.same_as(other.kinds))
        )


def tables_only(num_factors: int) -> FactorKinds:
    """Return the kinds of factors that are all tables."""
    none = np.zeros(num_factors + 1, np.int64)
    return FactorKinds(none[:-1], none, none[:0])


def numbered(count: int, noun: str) -> str:
    """Return a count as errors print it: `3 variables (0-2)`, `1 state (0)`, `no factors`."""
    if count == 0:
        return f"no {noun}s"
    return f"1 {noun} (0)" if count == 1 else f"{count} {noun}s (0-{count - 1})"


def _frozen_ints(values: ArrayLike) -> IntArray:
    array = np.asarray(values)
    whole = np.issubdtype(array.dtype, np.integer) or array.size == 0
    if not whole and np.issubdtype(array.dtype, np.floating):
        whole = bool(np.all(np.isfinite(array) & (array == np.round(array)) & (np.abs(array) < 2.0**63)))
    if not whole:
        raise ModelError(
            f"Cardinalities and scopes must be whole numbers, found {array.dtype} {brief(array.ravel()[:5].tolist())}."
        )
    if array.dtype == np.int64 and not array.flags.writeable and array.base is None:
        return array  # It is read-only and owns its memory, so it needs no copy.
    return _frozen(np.array(array, dtype=np.int64))  # a copy: the caller's array stays writeable


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array


def _label(names: Sequence[str] | None, i: int) -> str:
    return str(names[i] if names is not None and i < len(names) else i)


def _check_card(card: IntArray, names: Sequence[str] | None) -> None:
    if card.ndim != 1:
        raise ModelError(f"Cardinalities must be a list of numbers, found an array of shape {card.shape}.")
    if np.any(card < 1):
        i = int(np.argmax(card < 1))
        raise ModelError(
            f"variable {_label(names, i)} has {card[i]} states. Every variable needs at least 1.", variable=i
        )
    total = float(card.sum(dtype=np.float64))  # in floating point: it may not fit an integer
    if total > MAX_TABLE_ENTRIES:
        i = int(np.argmax(card))
        raise ModelError(
            f"The variables have {total:.3g} states in total (variable {_label(names, i)} alone has {card[i]}). "
            "At most 2^40 can be addressed.",
            variable=i,
        )


def _check_scopes(card: IntArray, scope_ptr: IntArray, scope_vars: IntArray, names: Sequence[str] | None) -> None:
    if scope_ptr.ndim != 1 or scope_vars.ndim != 1 or len(scope_ptr) < 1:
        raise ModelError("scope_ptr and scope_vars must be one-dimensional, scope_ptr with F + 1 entries.")
    if scope_ptr[0] != 0 or scope_ptr[-1] != len(scope_vars) or np.any(np.diff(scope_ptr) < 0):
        raise ModelError(f"scope_ptr must rise from 0 to {len(scope_vars)}, the number of scope entries.")
    if len(scope_vars) and not 0 <= scope_vars.min() <= scope_vars.max() < len(card):
        bad = (scope_vars < 0) | (scope_vars >= len(card))
        e = int(np.argmax(bad))
        a, i = _factor_of(e, scope_ptr), int(scope_vars[e])
        have = numbered(len(card), "variable")
        raise ModelError(f"factor {a} names variable {i}. The model has {have}.", factor=a, variable=i)
    repeated = _first_repeat(scope_ptr, scope_vars)
    if repeated is not None:
        a, i = repeated
        twice = f"factor {a} names variable {_label(names, i)} twice"
        raise ModelError(f"{twice}. Each variable may occur once in a scope.", factor=a, variable=i)


def _first_repeat(scope_ptr: IntArray, scope_vars: IntArray) -> tuple[int, int] | None:
    """Return the first factor whose scope names a variable twice, and that variable; None if there is no such factor.

    Scopes of one size are sorted together. Small ones need no sorting: their slots are compared in pairs.
    """
    arity = np.diff(scope_ptr)
    found: list[tuple[int, int]] = []
    for size in np.flatnonzero(np.bincount(arity[arity > 1])).tolist():  # `np.unique` imports masked arrays: 10 ms
        factors = np.flatnonzero(arity == size)
        if size * len(factors) == len(scope_vars):
            scopes = scope_vars.reshape(-1, size)
        else:
            scopes = scope_vars[scope_ptr[factors][:, None] + np.arange(size)]
        if size <= _FEW_SLOTS and not any((scopes[:, j] == scopes[:, k]).any() for k in range(size) for j in range(k)):
            continue
        scopes = np.sort(scopes, axis=1)
        same = scopes[:, 1:] == scopes[:, :-1]
        if same.any():
            n, j = divmod(int(np.argmax(same)), size - 1)
            found.append((int(factors[n]), int(scopes[n, j])))
    return min(found, default=None)


def _factor_of(edge: int, scope_ptr: IntArray) -> int:
    return int(np.searchsorted(scope_ptr, edge, side="right")) - 1


def _table_sizes(card: IntArray, scope_ptr: IntArray, scope_vars: IntArray) -> IntArray:
    """Return the table size [F] of each factor: the product of the cardinalities of its scope."""
    sizes = np.ones(len(scope_ptr) - 1)
    for first in range(0, len(sizes), _BLOCK):  # block by block: the temporaries of a large model stay small
        ptr = scope_ptr[first : first + _BLOCK + 1]
        has_scope = np.diff(ptr) > 0
        if has_scope.any():
            cards = card[scope_vars[ptr[0] : ptr[-1]]].astype(np.float64)
            with np.errstate(over="ignore"):  # floats: exact to 2^53, infinite instead of wrapped above
                product = np.multiply.reduceat(cards, (ptr[:-1] - ptr[0])[has_scope])
            sizes[first : first + _BLOCK][has_scope] = product
    if np.any(sizes > MAX_TABLE_ENTRIES):
        a = int(np.argmax(sizes))
        scope = scope_vars[scope_ptr[a] : scope_ptr[a + 1]]
        raise ModelError(
            f"factor {a} has {len(scope)} variables and 2^{np.log2(card[scope]).sum():.0f} table entries. "
            "At most 2^40 can be addressed.",
            factor=a,
        )
    return sizes.astype(np.int64)


def _check_variable_names(names: Sequence[str] | None, num_vars: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) != num_vars:
        raise ModelError(f"Expected {num_vars} variable names, one for each variable, found {len(names)}.")
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"A variable name must be text, found {brief(name)}.")
    if len(set(names)) != num_vars:
        twice = next(n for n in names if list(names).count(n) > 1)
        raise ModelError(f"Two variables are called {twice!r}. Names must differ.")
    return tuple(names)


def _check_state_names(
    names: Sequence[Sequence[str] | None] | None, card: IntArray, variables: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, ...] | None:
    if names is None:
        return None
    if len(names) != len(card):
        raise ModelError(f"Expected state names for {len(card)} variables, found them for {len(names)}.")
    checked: list[tuple[str, ...] | None] = []
    for i, states in enumerate(names):
        if states is None:
            checked.append(None)
            continue
        if not all(isinstance(state, str) for state in states):
            why = f"The state names of variable {_label(variables, i)} must be text, found {brief(list(states))}."
            raise ModelError(f"{why} Whole numbers stand for the states themselves, counted from 0.", variable=i)
        if len(states) != card[i] or len(set(states)) != len(states):
            why = f"variable {_label(variables, i)} has {card[i]} states but is given the state names"
            raise ModelError(f"{why} {brief(list(states))}. Every state needs a name of its own.", variable=i)
        checked.append(tuple(states))
    return tuple(checked)
