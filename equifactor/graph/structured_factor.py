"""The base class of all kinds of factors: users build factors with it, and its class methods treat many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.kinds import KINDS, is_place_of, kind_number
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray, Semiring
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows

TABLE = 0  # The number of the kind `table`.
_MAX_TABLE = 2**20  # Largest number of entries of a table that stands in for random auxiliary variables: 8 MiB.
_SMALL = 64  # A table of at most this many entries is simpler than auxiliary variables. Chosen by hand.


class StructuredFactor(ABC):
    """A factor that is stated by a rule instead of a dense table, such as "an even number of ones".

    An object is one factor as a user writes it, without its scope. The class methods take `FactorRows` that are all of
    this kind, any number of them, and work on flat arrays without a loop over factors. N factors, e edges.
    """

    kind: ClassVar[str]  # Its name in the table `KINDS`.
    number: ClassVar[int] = -1  # Its place in `KINDS`, by which rows name their kind; -1 for a kind not registered.
    has_kernels: ClassVar[bool] = False  # Whether the compiled kernels of `factors` know it; otherwise it is lowered.
    moves: ClassVar[str] = ""  # "module:function" that returns the `MoveRows` of its factors; needed with kernels.
    tensors: ClassVar[str] = ""  # "module:Class" of its `KindTensors`; without it torch takes small dense tables.
    comparison: ClassVar[str] = ""  # "module:Class" of its `KindComparison`; without it dense tables are compared.
    learning: ClassVar[str] = ""  # "module:Class" of its `KindLearning`; without it EM does not learn its factors.
    # Whether the log value of some assignment is not a multiple of one of the log values. Such a factor can be zero
    # although no log value is -inf, and multiplying its log values by c does not give its power c. Its values must be
    # at most 1: `trw` relies on it.
    nonlinear_values: ClassVar[bool] = False
    searches_maxima: ClassVar[bool] = False  # Whether its maxima take a search, which may be cut short.
    has_ratio_kernels: ClassVar[bool] = False  # Whether `ratio_kernels` updates its messages; see `ratio_numbers`.
    is_parity: ClassVar[bool] = False  # Whether it has two log values, of an even and of an odd number of ones.
    lowered_by_chance: ClassVar[bool] = False  # Whether auxiliary variables of its lowered form are random.

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            cls.number = kind_number(cls.kind) if is_place_of(KINDS.get(cls.kind), cls) else -1

    @property
    def child_slot(self) -> int | None:
        """The place in the scope of the variable whose conditional distribution this factor is, or None."""
        return None

    @abstractmethod
    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the log values and words of this factor over variables of these cardinalities; raises `ModelError`."""

    @classmethod
    @abstractmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> StructuredFactor:
        """Return the factor as a user would write it."""

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Return the first row that is not a factor of this kind and what is wrong with it; None if all are valid."""
        return None

    @classmethod
    @abstractmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] log values of the factors at the states [n, e] of their edges."""

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return the factors given the states [e] of some edges' variables, -1 where free; by default dense tables.

        Observed variables leave the scopes. A factor may become one of another kind, and it leaves out variables that
        no longer matter to it.
        """
        from equifactor.graph.dense_rows import sliced_tables

        return sliced_tables(cls, rows, states)

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Return which states the factors exclude, given which are possible; both by edge state [sum of card].

        A state is excluded if the factor is zero for it at all possible states of its other variables. A kind may find
        fewer states, and the default finds no states. It must not find a state that is not excluded.
        """
        return np.zeros_like(possible)

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Return the factors after their variables' states were renumbered; by default dense tables.

        Args:
            rows: the factors.
            new_state: [sum of card] new number of each edge state, -1 for a state that is struck out.
            new_card: [e] how many states each edge's variable has now.
        """
        from equifactor.graph.dense_rows import tables_with_states

        return tables_with_states(cls, rows, new_state, new_card)

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Return the factors with scopes in another order: the edge at place n [e] was edge[n]; by default tables."""
        from equifactor.graph.dense_rows import tables_with_slots

        return tables_with_slots(cls, rows, edge)

    @classmethod
    def lower_into(cls, builder: LoweredBuilder, rows: FactorRows, semiring: Semiring) -> None:
        """Add small tables, some over auxiliary variables; with these summed out, their product is the factor."""
        direct = cls.fits_table(rows, semiring)
        builder.add_tables(cls, rows.take(np.flatnonzero(direct)))
        if not direct.all():
            cls.add_chains(builder, rows.take(np.flatnonzero(~direct)))

    @classmethod
    def fits_table(cls, rows: FactorRows, semiring: Semiring) -> BoolArray:
        """Return [N] whether a factor is lowered to its own table; raises `ModelError` if that is too large.

        By default small factors are. For maxima so are all factors whose auxiliary variables are random: a maximum
        over these variables is not the maximum of the factor.
        """
        if semiring == "sum" or not cls.lowered_by_chance:
            return small(rows)
        size = rows.sum_of_edges(np.log2(rows.card))
        if size.max(initial=0.0) > np.log2(_MAX_TABLE):
            advice = (
                "Use bp, local-search or another solver that takes the factor as it is."
                if cls.has_kernels
                else "Split the causes with an auxiliary effect."
            )
            raise ModelError(
                f"A {cls.kind} over {rows.arity.max()} variables has 2^{size.max():.0f} table entries, and MAP by this "
                f"solver needs the table. {advice}"
            )
        return np.ones(rows.num_factors, bool)

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add small tables over auxiliary variables for factors whose own table is not small; most kinds make chains.

        A kind that does not define it gets its own tables, which raise `ModelError` if they are too large.
        """
        builder.add_tables(cls, rows)

    @classmethod
    def literal_signs(cls, rows: FactorRows) -> IntArray | None:
        """Return [e] the state in which each edge's literal holds, if the factors are clauses; None for other kinds.

        A clause is 1 if at least one of its literals holds. Otherwise it has its one log value.
        """
        return None

    @classmethod
    def ratio_numbers(cls, log_values: FloatArray) -> FloatArray | None:
        """Return [N] the number that `ratio_kernels` needs of each factor; None if it does not take these factors.

        The variables of the factors are binary. The words of a kind with words are the signs of its literals.
        """
        return None

    @classmethod
    def are_contradictory(cls, rows: FactorRows) -> bool:
        """Return whether no assignment makes all of these factors positive. False if the kind does not examine it."""
        return False

    @classmethod
    def log_ranges(cls, rows: FactorRows) -> FloatArray:
        """Return [N] the largest log value of each factor less the smallest one above zero, or an upper bound on it.

        The default is right for a kind whose log values are those of its assignments.
        """
        return value_ranges(rows.log_values, rows.value_ptr)

    @classmethod
    def log_tops(cls, rows: FactorRows) -> FloatArray:
        """Return [N] an upper bound on the log value of each factor at any assignment.

        The default is right for a kind whose assignments have one of its log values, or at most the value 1.
        """
        ends = rows.value_ptr[:-1]
        return np.maximum(0.0, np.maximum.reduceat(rows.log_values, ends) if len(rows.log_values) else 0.0 * ends)

    @classmethod
    def keeps_powers(cls, rows: FactorRows) -> BoolArray:
        """Return [N] whether multiplying the log values of a factor by c gives the factor to the power c."""
        return np.full(rows.num_factors, not cls.nonlinear_values)

    @classmethod
    def tables(cls, rows: FactorRows) -> FloatArray:
        """Return [N, *shape] log tables of factors that all have one shape."""
        shape = tuple(rows.card[: rows.scope_ptr[1]].tolist())
        digits = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0), np.int64)  # [size, k]
        scores = cls.log_scores(rows, np.tile(digits, (1, rows.num_factors)))
        return scores.T.reshape(-1, *shape)


def small(rows: FactorRows) -> BoolArray:
    """Return [N] whether a factor's own table is small enough to take the place of the factor."""
    return rows.sum_of_edges(np.log2(rows.card)) <= np.log2(_SMALL)


def edge_state_ptr(rows: FactorRows) -> IntArray:
    """Return [e+1] the first edge state of each edge of these rows."""
    return ptr_of(rows.card)


def value_ranges(values: FloatArray, ptr: IntArray) -> FloatArray:
    """Return [N] the range of the log values above -inf in each row [n], not empty; 0 for a row of -inf alone."""
    high = np.maximum.reduceat(values, ptr[:-1])
    low = np.minimum.reduceat(np.where(np.isneginf(values), np.inf, values), ptr[:-1])
    return np.asarray(np.maximum(high - low, 0.0))  # the difference is -inf for a row of -inf alone


def not_binary(rows: FactorRows, kind: str) -> tuple[int, str] | None:
    """Return what is wrong with the first factor that has a variable of more or fewer than two states."""
    bad = rows.card != 2
    if not bad.any():
        return None
    e = int(np.argmax(bad))
    return int(rows.row_of_edge[e]), f"A {kind} needs variables with 2 states, found one with {rows.card[e]}."


def number_of_words(rows: FactorRows, wanted: IntArray, what: str) -> tuple[int, str] | None:
    """Return what is wrong with the first factor that does not have `wanted` [N] words."""
    return _wrong_count(np.diff(rows.word_ptr), wanted, what)


def number_of_values(rows: FactorRows, wanted: IntArray, what: str) -> tuple[int, str] | None:
    """Return what is wrong with the first factor that does not have `wanted` [N] log values."""
    return _wrong_count(np.diff(rows.value_ptr), wanted, what)


def _wrong_count(found: IntArray, wanted: IntArray, what: str) -> tuple[int, str] | None:
    bad = found != wanted
    if not bad.any():
        return None
    n = int(np.argmax(bad))
    return n, f"Expected {wanted[n]} {what}, found {found[n]}."


def check_signs(rows: FactorRows, signs: IntArray) -> tuple[int, str] | None:
    """Return what is wrong with the first factor whose signs are not 0 or 1; `signs` has one number per edge [e]."""
    bad = (signs != 0) & (signs != 1)
    if not bad.any():
        return None
    e = int(np.argmax(bad))
    return int(
        rows.row_of_edge[e]
    ), f"A sign must be 1 for a positive literal or 0 for a negated one, found {signs[e]}."


def read_signs(signs: object, arity: int, kind: str) -> IntArray:
    """Return the signs [arity] that a user gave: True or 1 for a positive literal, False or 0 for a negated one."""
    if signs is None:
        return np.ones(arity, np.int64)
    try:
        values = np.asarray(signs)
        ok = values.shape == (arity,) and bool(np.isin(values, (0, 1)).all())
    except (TypeError, ValueError):
        ok = False
    if not ok:
        raise ModelError(
            f"A {kind} over {arity} variables needs {arity} signs, each True or False, found {brief(signs)}."
        )
    return values.astype(np.int64)


def truth(value: object, what: str) -> bool:
    """Return the truth value that a user gave as True or False, or as 1 or 0."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value not in (0, 1):
        raise ModelError(f"{what} must be True or False, found {brief(value)}.")
    return bool(value)


def log_number(value: object, what: str) -> float:
    """Return the number below infinity that a user gave as a log value."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be a number, found {brief(value)}.") from None
    if not number < np.inf:
        raise ModelError(f"{what} must be a number below infinity, found {number:g}.")
    return number + 0.0  # -0 is 0
