"""The state of dual ascent, and its two ways to sweep: by factors (MPLP) and by variables (SRMP)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.factors.chain_pass_kernels import STATES, pass_chains
from equifactor.factors.conditional_kernels import literals_held
from equifactor.factors.factor_messages import add_up
from equifactor.factors.structured_kernels import kind_rows_of
from equifactor.graph.kinds import kind_class, kinds_with
from equifactor.graph.layout import SLOT, VAR, Layout, kinds_of, layout_of, slots_around
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.jit import plain
from equifactor.solvers.duals import decoding_kernels as decode
from equifactor.solvers.duals import dual_kernels as duals
from equifactor.solvers.duals.map_bounds import upper_bound_of

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph

# Most numbers (arity times counts that matter) of a count that is renewed along the pass: 32 MiB. A larger count is
# renewed as a block.
_LARGEST_CHAIN = 2**22
# Structured factors other than chains are renewed variable by variable up to this arity. Halved or doubled: gap within
# 50 %, CPU within 20 %.
_LONG = 32
# Structured factors whose maxima need a search are renewed variable by variable up to this arity. Halved: gap +47 %,
# CPU +37 %; doubled: gap within 15 %.
_LONG_SEARCH = 16

# Slots that one call of a kernel decodes or looks at between two checks of the clock: 200 ns each on a formula.
_CALL_SLOTS = int(CALL_SECONDS / 2e-7)


class Ascent(ABC):
    """Messages of one graph (or batch) and a way to lower their bound, in place."""

    def __init__(self, flat: FlatGraph[np.ndarray], messages: FloatArray | None = None) -> None:
        """Start from given messages, or from the unary tables alone.

        Args:
            flat: one compiled graph, or a batch.
            messages: [S] messages as in `map_upper_bound`.
        """
        self.flat = flat
        self.layout: Layout = layout_of(flat)
        self.log_phi = flat.log_phi
        self.kinds = kind_rows_of(flat, True)
        self.may_fall_short = any(kind_class(group.kind).searches_maxima for group in flat.structured)
        self.constant = 0.0  # the sum of the factors without variables
        self.unary = np.zeros(flat.num_states)  # [X] the sum of the unary tables, which never change
        start = np.zeros(flat.num_edge_states) if messages is None else np.array(messages, np.float64)
        for group in flat.groups:
            if len(group.shape) == 1:
                start[group.slots[0]] = flat.log_phi[group.entries]
                np.add.at(self.unary, flat.state_of_edge_state[group.slots[0]], flat.log_phi[group.entries])
            elif not group.shape:
                self.constant += float(flat.log_phi[group.entries].sum())
        self.back = np.where(np.isneginf(start), -np.inf, -start)
        self.total = np.zeros(flat.num_states)
        self._renew_total()
        arity = max(1, self.layout.max_arity)
        self.out, self.q = np.empty_like(self.back), np.empty_like(self.back)
        self.at, self.before = np.empty(arity, np.int64), np.empty(arity + 1)
        self.factor_of_slot = self.layout.factor_of_slot
        self.around = slots_around(self.layout, least_arity=2)

    @abstractmethod
    def sweep(self) -> float:
        """Renew every message once; return the bound, up to rounding, or -inf if no assignment is possible."""

    @property
    def messages(self) -> FloatArray:
        """Return messages [S] whose bound is `bound`; they are -inf at the states that are ruled out."""
        return np.where(self._ruled_out, -np.inf, -self.back)

    @property
    def bound(self) -> float:
        """The upper bound on the best log score, recomputed from the messages."""
        return float(upper_bound_of(self.flat, self.messages).sum())

    def candidates(self, rng: np.random.Generator | None = None, clock: Clock | None = None) -> Iterator[IntArray]:
        """Yield assignments [V] decoded from the messages, each improved by single moves, until the clock stops."""
        for states in self.decoded(rng, clock):
            yield self.polished(states, clock)

    def decoded(self, rng: np.random.Generator | None = None, clock: Clock | None = None) -> Iterator[IntArray]:
        """Yield assignments [V]: the best state of every variable alone, and variables decoded one after another.

        The orders are by number, by number backwards, and the clearest variable first. With `rng` there are three
        random orders instead. Each variable is decoded given those before it. If the clock has stopped, only the
        best states alone are decoded.
        """
        count = self.flat.num_vars
        orders: Iterable[IntArray]
        if rng is not None:
            orders = (rng.permutation(count) for _ in range(3))
        else:
            ascending = np.arange(count)
            alone, margin = best_states(self.total, self.flat.var_ptr)
            yield alone
            orders = ascending, ascending[::-1].copy(), np.argsort(-margin, kind="stable")
        for order in orders:
            states = self._in_order(order, clock)
            if states is None:
                return
            yield states

    def polished(self, states: IntArray, clock: Clock | None = None) -> IntArray:
        """Improve the assignment by single moves until the clock stops, in place, and return it."""
        graph = plain(self.layout), plain(self.around)
        held = np.zeros(0, np.int64)
        if self.kinds is not None and not (clock is not None and clock.stopped):
            held = literals_held(self.layout.factors, self.layout.slots, self.kinds, states)
        marks = np.zeros((2, self.flat.num_vars), np.int64)
        marks[0] = -1
        now = np.zeros(4, np.int64)
        arrays = self.kinds, self.flat.log_phi, self.unary, states, held, marks, now
        done = False
        while not done and not (clock is not None and clock.stopped):
            done = bool(decode.polish(*graph, *arrays, _CALL_SLOTS))
        return states

    def _in_order(self, order: IntArray, clock: Clock | None = None) -> IntArray | None:
        """Return one assignment [V], decoded variable after variable in this order; None if the clock stops first."""
        states = np.full(self.flat.num_vars, -1)
        values = np.where(self._ruled_out, -np.inf, self.back)
        graph = plain(self.layout), plain(self.around)
        out = np.empty(0 if self.kinds is None else len(values))
        asked = np.zeros(0 if self.kinds is None else self.flat.num_factors, np.int64)
        arrays = self.kinds, self.log_phi, self.total, values, states, out, asked
        parts = [order]
        if len(self.around.slots) > _CALL_SLOTS:
            slots = np.cumsum(np.diff(self.around.ptr)[order])
            cuts = np.searchsorted(slots, np.arange(_CALL_SLOTS, slots[-1], _CALL_SLOTS), "right")
            parts = np.split(order, np.unique(cuts))
        for part in parts:
            if clock is not None and clock.stopped:
                return None
            decode.decode_in_order(part, *graph, *arrays)
        return states

    @property
    def _records(self) -> tuple[Any, ...]:
        """Return the fields of `DualArrays` as a plain tuple; `log_phi` may be another array in the next sweep."""
        lay = self.layout
        return lay.factors, lay.slots, self.log_phi, self.back, self.total, self.out, self.at

    @property
    def _ruled_out(self) -> BoolArray:
        """Return which edge states [S] belong to a state that is ruled out."""
        return (self.total == -np.inf)[self.flat.state_of_edge_state]

    def _bound_of_totals(self) -> float:
        """Return the bound after every factor was renewed, so that the maximum of each factor is at most 0.

        An exception is a factor whose search was cut short: its max-marginals may be too low, and its maximum above 0.
        """
        if self.may_fall_short:
            return self.bound
        return float(duals.sum_of_maxima(self.flat.var_ptr, self.total)) + self.constant

    def _renew_total(self) -> None:
        """Recompute the sums of the messages; a state that one factor rules out is ruled out for all."""
        zeros = np.zeros(self.flat.num_states, np.int64)
        add_up(self.layout.edges, np.where(self.back == -np.inf, -np.inf, -self.back), self.total, zeros)
        self.total[zeros > 0] = -np.inf
        duals.spread_exclusions(self.layout.edges, self.back, self.total)


class FactorAscent(Ascent):
    """MPLP: factor after factor in the order of the model."""

    def sweep(self) -> float:
        """Take one block minimum per factor."""
        self._renew_total()
        duals.sweep_factors(self.layout.order, self._records, self.kinds, self.q, self.before)
        return self._bound_of_totals()


class VariableAscent(Ascent):
    """SRMP: variable after variable, forward by number and then back.

    At a variable, the factors that reach further along the direction of the sweep get equal shares of the sum it has
    collected, and the others get nothing. The share is 1 / max(factors ahead, factors behind), which on pairwise graphs
    is TRW-S.

    Parities, clauses and counts are read along the pass. Other structured factors are renewed for each of their
    variables, and each time this costs as much as all variables. If the scope is long, the factor takes its block
    minimum after the pass instead, as in MPLP.
    """

    def __init__(self, flat: FlatGraph[np.ndarray], messages: FloatArray | None = None) -> None:
        super().__init__(flat, messages)
        var = self.layout.slots[:, VAR]
        lowest, highest = np.full(flat.num_factors, flat.num_vars), np.full(flat.num_factors, -1)
        np.minimum.at(lowest, self.factor_of_slot, var)
        np.maximum.at(highest, self.factor_of_slot, var)
        first, last = var == lowest[self.factor_of_slot], var == highest[self.factor_of_slot]
        self.chains = None
        if self.kinds is not None:
            self.chains = pass_chains(self.layout.factors, self.log_phi, self.kinds, _LARGEST_CHAIN)
        self.long = self._long_factors()
        long = np.zeros(flat.num_factors, bool)
        long[self.long] = True
        in_long = long[self.factor_of_slot]
        first, last = first | in_long, last | in_long
        ahead = np.bincount(var[~last], minlength=flat.num_vars)
        behind = np.bincount(var[~first], minlength=flat.num_vars)
        share = 1.0 / np.maximum(1, np.maximum(ahead, behind))[var]
        # A direction has the variables in order, the slots to renew and the weights. The slot that comes first in its
        # direction was renewed by the pass before.
        ascending = np.arange(flat.num_vars)
        forward = ascending, ~first, np.where(last, 0.0, share)
        backward = ascending[::-1].copy(), ~last, np.where(first, 0.0, share)
        self.directions = [forward, backward]
        self.all_slots = ~in_long
        self.sweeps = 0
        self.stale = True  # tables or messages were set from outside: the next sweep renews all slots

    def sweep(self) -> float:
        """Pass over the variables in one direction; the next pass goes the other way."""
        order, renew, weight = self.directions[self.sweeps % 2]
        if self.stale:
            renew = self.all_slots
        self.stale = False
        self.sweeps += 1
        direction = order, *self.around, self.factor_of_slot, renew, weight
        bound = duals.sweep_variables(direction, self._records, self.kinds, self.chains, self.flat.var_ptr, self.unary)
        if not len(self.long) or bound == -np.inf:
            return self.bound if self.may_fall_short else float(bound) + self.constant
        long = self.long[:: 1 if self.sweeps % 2 else -1].copy()
        duals.sweep_factors(long, self._records, self.kinds, self.q, self.before)
        return self._bound_of_totals()

    def _long_factors(self) -> IntArray:
        """Return the factors that are renewed as a block, in the order of the model."""
        kinds = kinds_of(self.flat)
        if kinds is None or self.chains is None:
            return np.zeros(0, np.int64)
        arity = np.diff(self.layout.factors[:, SLOT])
        most = np.where(kinds_with("searches_maxima", kinds.kind), _LONG_SEARCH, _LONG)
        long = (kinds.kind != TABLE) & (self.chains[STATES] == 0) & (arity > most)
        return self.layout.order[long[self.layout.order]]


def best_states(values: FloatArray, ptr: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the first state [V] of the largest value of every variable, and its lead: 0 where all are ruled out."""
    from equifactor.factors.message_answers import beliefs

    if len(ptr) == 1:
        return np.zeros(0, np.int64), np.zeros(0)
    states = np.asarray(beliefs(ptr, values)[2])
    top = values[ptr[:-1] + states]
    rest = values.copy()
    rest[ptr[:-1] + states] = -np.inf
    second = np.where(top == -np.inf, 0.0, np.maximum.reduceat(rest, ptr[:-1]))
    return states, np.where(top == -np.inf, 0.0, top) - second
