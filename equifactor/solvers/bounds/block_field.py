"""A lower bound on ln Z from blocks of variables that are independent of each other and exact within.

q(x) = prod_B q_B(x_B). Each block in turn takes the q_B that is best given the others: the model over x_B alone, with
E_q[ln f] in place of every factor f that reaches out of the block. Its ln Z and marginals come from elimination. Some
variables may be fixed at one assignment, which slices the factors around them, so that zeros there do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import EPS, OTHER_STEPS, Seconds
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.bounds.factor_layers import Growth, OrderedScopes, OutOfTime

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.elimination.program import Program

# Nats of entropy times shared factors below which a variable is not split. Halved or doubled: gap within 10 %.
_CERTAIN = 1e-6


@dataclass(frozen=True, eq=False)
class FieldBlock:
    """The variables of one block and how the factors of the whole model fill its tables."""

    variables: IntArray  # [v] ascending
    states: IntArray  # [x] their states among all states
    program: Program
    entries: IntArray  # [t] entries of the factors that touch the block
    into: IntArray  # [t] entry of the block's tables that each of them goes to
    outside: IntArray  # [t, k] states of the variables outside the block, padded with X
    inside: IntArray  # [t] the state of one variable inside; a crossing factor has only one
    crossing: BoolArray  # [t] whether its factor reaches into another block
    num_entries: int  # entries of the block's tables

    @property
    def work(self) -> float:
        """The reference seconds of one update."""
        program = self.program
        own = float(program.message_sizes @ program.clusters.dim) + len(self.entries)
        return Seconds.FIELD_ENTRY * own + Seconds.BLOCK_VARIABLE * len(self.variables)


class BlockField:
    """Blocks over one graph without observed variables, and the current q.

    Args:
        graph: the model; all variables have two states or more.
        scopes: its scopes along an order.
        most_bits: log2 of the entries that a cluster of a block may have.
        start: [V] an assignment of positive probability, at which q begins.
        clock: if it stops while blocks are built, `OutOfTime` is raised.
    """

    def __init__(
        self, graph: FactorGraph, scopes: OrderedScopes, most_bits: float, start: IntArray, clock: Clock
    ) -> None:
        s = self.structure = graph.structure
        self.log_phi = graph.log_phi
        self._start = np.zeros(int(s.state_ptr[-1]) + 1)
        self._start[s.state_ptr[:-1] + start] = 1.0
        self._start[-1] = 1.0  # the value at the padding X
        self.q = self._start.copy()
        self.allowed = np.ones(len(self.q), bool)  # [X+1] states for q; without some it bounds a part of Z
        self._zero = np.isneginf(graph.log_phi)
        self._finite = np.where(self._zero, 0.0, graph.log_phi)
        self._slots = _states_of_entries(s)
        self.block_of = np.full(s.num_vars, -1)  # [V] the block of each variable, -1 if it is fixed
        groups = self._choose(scopes, most_bits, clock)
        self.blocks = [self._compile(variables, clock) for variables in groups]
        self._worth = np.full(len(groups), -np.inf)  # ln Z of each block minus the terms of crossing factors
        touched = self._factors_by_blocks()
        self._between = touched > 1  # [F]
        self._crossing = np.flatnonzero(np.repeat(touched > 1, np.diff(s.table_ptr)))
        alone = np.flatnonzero(np.repeat(touched == 0, np.diff(s.table_ptr)))
        self._fixed_score = float((self._finite[alone] * self.q[self._slots[alone]].prod(axis=1)).sum())
        self._slack = self._rounding()

    def begin(self, q: FloatArray | None) -> None:
        """Restart from the assignment or, for variables in blocks, from the marginals of another field [X+1]."""
        moves = np.append(np.repeat(self.block_of >= 0, self.structure.card), False)
        self.q[:] = self._start if q is None else np.where(moves, q, self._start)
        self._worth[:] = -np.inf

    def update(self, number: int, clock: Clock) -> bool:
        """Give one block its best q, given the others; return False if the clock stopped it or nothing was possible."""
        from equifactor.solvers.elimination.eliminate import sum_out

        block = self.blocks[number]
        weight = self.q[block.outside].prod(axis=1)
        value = weight * self._finite[block.entries]
        log_phi = np.bincount(block.into, value, minlength=block.num_entries).astype(np.float64)
        log_phi[block.into[self._zero[block.entries] & (weight > 0.0)]] = -np.inf
        if not self.allowed.all():
            slots = self._slots[block.entries]
            within = np.where(block.outside == slots, len(self.q) - 1, slots)  # [t, k] states inside the block
            log_phi[block.into[~self.allowed[within].all(axis=1)]] = -np.inf
        sums = sum_out(block.program, log_phi, clock)
        clock.spend(block.work)
        if sums is None or sums.p is None or not np.isfinite(sums.log_z):
            return False
        self.q[block.states] = sums.p
        for_others = value * self.q[block.inside]
        self._worth[number] = sums.log_z - float(for_others[block.crossing].sum())
        return True

    def doubtful(self) -> int | None:
        """Return the variable that should be split next; None if all are nearly certain.

        Blocks lose most where they ignore each other: at an uncertain variable that shares many factors with other
        blocks.
        """
        s = self.structure
        p = self.q[:-1]
        h = np.where(p > 0.0, -p * np.log(np.where(p > 0.0, p, 1.0)), 0.0)
        entropy = np.add.reduceat(h, s.state_ptr[:-1])
        common = np.bincount(s.scope_vars[self._between[s.factor_of_edge]], minlength=s.num_vars)
        score = np.where(self.block_of >= 0, entropy * common, 0.0)
        best = int(np.argmax(score)) if len(score) else 0
        return best if score.max(initial=0.0) > _CERTAIN else None

    def bound(self) -> float:
        """Return a lower bound on ln Z after every block was updated, minus the largest possible rounding error."""
        between = (self._finite[self._crossing] * self.q[self._slots[self._crossing]].prod(axis=1)).sum()
        total = float(self._worth.sum()) + float(between) + self._fixed_score
        return total - self._slack - EPS * abs(total)

    @property
    def largest(self) -> int:
        """Entries of the largest cluster of a block."""
        sizes = (int((b.program.message_sizes * b.program.clusters.dim).max(initial=1)) for b in self.blocks)
        return max(sizes, default=1)

    @property
    def entries(self) -> float:
        """Entries of all clusters of all blocks: the work of a sweep."""
        return sum(float(b.program.message_sizes @ b.program.clusters.dim) for b in self.blocks)

    def _choose(self, scopes: OrderedScopes, most_bits: float, clock: Clock) -> list[IntArray]:
        """Choose blocks until every variable is in a block or fixed."""
        allowed = np.ones(scopes.num_vars, bool)
        groups: list[IntArray] = []
        while allowed.any():
            places = Growth(scopes, most_bits, clock).take_variables(allowed)
            variables = np.sort(scopes.order[places])
            allowed &= ~places
            if not groups or self._may_move(variables):
                self.block_of[variables] = len(groups)
                groups.append(variables)
        return groups

    def _may_move(self, variables: IntArray) -> bool:
        """Return whether these variables can form a block beside the others.

        A factor that they share with other blocks must not have two variables in the same block, because their joint
        distribution is not kept. It must not have zeros, because its average would be minus infinity.
        """
        s = self.structure
        mine = np.zeros(s.num_vars, bool)
        mine[variables] = True
        of_edge, factor = self.block_of[s.scope_vars], s.factor_of_edge
        own = np.bincount(factor[mine[s.scope_vars]], minlength=s.num_factors)
        moving = np.bincount(factor[of_edge >= 0], minlength=s.num_factors)
        shared = np.flatnonzero((own > 0) & (moving > 0))
        if np.any(own[shared] > 1) or any(self._zero[s.table_ptr[a] : s.table_ptr[a + 1]].any() for a in shared):
            return False
        twice = [a for a in shared[moving[shared] > 1] if len(set(self._blocks_around(a))) < moving[a]]
        return not twice

    def _blocks_around(self, factor: int) -> list[int]:
        """Return the blocks of a factor's variables, without fixed variables."""
        s = self.structure
        around = self.block_of[s.scope_vars[s.scope_ptr[factor] : s.scope_ptr[factor + 1]]]
        return around[around >= 0].tolist()

    def _factors_by_blocks(self) -> IntArray:
        """Return [F] number of blocks that each factor touches."""
        s = self.structure
        of_edge = self.block_of[s.scope_vars]
        pairs = np.unique(np.column_stack((s.factor_of_edge, of_edge))[of_edge >= 0], axis=0)
        return np.bincount(pairs[:, 0], minlength=s.num_factors)

    def _compile(self, variables: IntArray, clock: Clock) -> FieldBlock:
        """Prepare a block. It costs O(T) and the planning of an elimination order."""
        from equifactor.solvers.elimination.orders import Order, PlanningLimits, best_order
        from equifactor.solvers.elimination.program import build_program

        if clock.stopped:
            raise OutOfTime
        s = self.structure
        inside = np.zeros(s.num_vars, bool)
        inside[variables] = True
        edges = np.flatnonzero(inside[s.scope_vars])
        count = np.bincount(s.factor_of_edge[edges], minlength=s.num_factors)
        factors = np.flatnonzero(count)
        small = Structure.build(s.card[variables], ptr_of(count[factors]), (np.cumsum(inside) - 1)[s.scope_vars[edges]])
        order = best_order(small, PlanningLimits(tries=8))
        assert isinstance(order, Order)  # Without limits there is always an order.
        sizes = np.diff(s.table_ptr)
        entries = np.flatnonzero(np.repeat(count > 0, sizes))
        clock.spend(Seconds.FIELD_BUILD * len(entries))
        row = np.repeat(np.arange(len(factors)), sizes[factors])
        slots = self._slots[entries]  # [t, k]
        state_inside = np.append(np.repeat(inside, s.card), False)
        step = np.zeros(s.num_edges + 1, np.int64)
        step[edges] = small.stride
        edge = np.minimum(s.scope_ptr[factors][row][:, None] + np.arange(slots.shape[1]), s.num_edges)
        here = state_inside[slots]
        first = np.append(np.repeat(s.state_ptr[:-1], s.card), 0)  # [X+1] the first state of the same variable
        into = small.table_ptr[row] + np.where(here, step[edge] * (slots - first[slots]), 0).sum(axis=1)
        absent = len(state_inside) - 1
        other = np.bincount(
            s.factor_of_edge[(self.block_of >= 0)[s.scope_vars] & ~inside[s.scope_vars]], minlength=s.num_factors
        )
        return FieldBlock(
            variables=variables,
            states=np.flatnonzero(state_inside),
            program=build_program(small, order),
            entries=entries,
            into=into,
            outside=np.where(here, absent, slots),
            inside=np.where(here, slots, -1).max(axis=1, initial=-1),
            crossing=(other > 0)[factors][row],
            num_entries=small.num_entries,
        )

    def _rounding(self) -> float:
        """Return how much rounding may have added to the bound.

        The relative error of a marginal or of ln Z is `EPS` for each operation of the elimination, and for the sizes
        of the logs in it. Every log of a factor is weighted by such numbers at most three times.
        """
        s = self.structure
        largest = np.maximum.reduceat(np.abs(self._finite), s.table_ptr[:-1]) if s.num_factors else np.zeros(0)
        size, steps = float(largest.sum()), float(np.diff(s.table_ptr).max(initial=1))
        for block in self.blocks:
            clusters = block.program.clusters
            steps += float(clusters.in_ptr[-1] + clusters.dim.sum()) + OTHER_STEPS * len(clusters.dim)
        return EPS * (steps + size) * (4.0 * size + 4.0 * len(self.blocks) + 1.0)


def _states_of_entries(s: Structure) -> IntArray:
    """Return [T, k] the state, among all states, of each variable of each table entry, padded with X."""
    most = int(s.arity.max(initial=0))
    sizes = np.diff(s.table_ptr)
    row = np.repeat(np.arange(s.num_factors), sizes)
    index = np.arange(s.num_entries) - s.table_ptr[:-1][row]
    slots = np.full((s.num_entries, most), int(s.state_ptr[-1]))
    for j in range(most):
        has = np.flatnonzero(s.arity[row] > j)
        edge = s.scope_ptr[:-1][row[has]] + j
        variable = s.scope_vars[edge]
        slots[has, j] = s.state_ptr[:-1][variable] + index[has] // s.stride[edge] % s.card[variable]
    return slots
