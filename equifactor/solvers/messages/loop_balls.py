"""Balls of one rung of loop-corrected belief propagation, made ready for rounds of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import picked, ptr_of
from equifactor.solvers.elimination.eliminate import sum_out
from equifactor.solvers.elimination.orders import Hopeless, PlanningLimits, best_order
from equifactor.solvers.elimination.program import Program, build_program

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.solvers.regions.agreement import Rounds

# After 32, 64, 128... rounds the change must have fallen to this share of what it was at half as many, otherwise the
# damping rises by a step. Certainty that builds up around loops changes like 1/n, and damping would only delay it.
_FALL, _STEP, _MOST_DAMPING, _FIRST_LOOK = 0.7, 0.2, 0.9, 32
# Where the change is still above this after so many rounds, longer loops are worth more than further rounds.
_WILD, _LAST_LOOK = 0.3, 128
_TRIES = 4  # Orders that are tried for each rung; balls are small, and the first is seldom far off.


class LoopyPart(NamedTuple):
    """A graph as the balls see it: factors of two variables or more, and the sum of the others."""

    scope_ptr: IntArray  # [f+1]
    scope_vars: IntArray  # [e]
    var_ptr: IntArray  # [V+1] pointer to the factors of each variable
    var_factors: IntArray  # [e]
    begin: IntArray  # [f] first entry of each table in log_phi
    log_phi: FloatArray  # [T + X] all tables, then the fields
    has_field: BoolArray  # [V] whether a factor has this variable alone
    card: IntArray  # [V]
    field_start: IntArray  # [V] first entry of each field in log_phi

    @classmethod
    def of(cls, graph: FactorGraph) -> LoopyPart:
        """The part of a graph without observed variables."""
        s = graph.structure
        arity = np.diff(s.scope_ptr)
        kept, single = np.flatnonzero(arity > 1), np.flatnonzero(arity == 1)
        scope_ptr, edges = picked(s.scope_ptr, kept)
        scope_vars = s.scope_vars[edges]
        by_variable = np.argsort(scope_vars, kind="stable")
        var_ptr = ptr_of(np.bincount(scope_vars, minlength=s.num_vars))
        factor_of_edge = np.repeat(np.arange(len(kept)), np.diff(scope_ptr))
        variable = s.scope_vars[s.scope_ptr[single]]
        _, entries = picked(s.table_ptr, single)
        size = s.card[variable]
        states = np.repeat(s.state_ptr[variable] - ptr_of(size)[:-1], size) + np.arange(int(size.sum()))
        field = np.zeros(int(s.state_ptr[-1]))
        np.add.at(field, states, graph.log_phi[entries])
        has_field = np.zeros(s.num_vars, bool)
        has_field[variable] = True
        return cls(
            scope_ptr, scope_vars, var_ptr, factor_of_edge[by_variable], s.table_ptr[kept],
            np.concatenate((graph.log_phi, field)), has_field, s.card, len(graph.log_phi) + s.state_ptr[:-1],
        )  # fmt: skip

    @property
    def rows(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Scopes of the factors and factors of the variables, as kernels take them."""
        return self.scope_ptr, self.scope_vars, self.var_ptr, self.var_factors

    def is_forest(self) -> bool:
        """Whether there is no loop: edges = nodes - components, in the graph of variables and factors."""
        from equifactor.solvers.elimination import order_kernels as kernels

        _, count = kernels.components(*kernels.adjacency(len(self.card), self.scope_ptr, self.scope_vars))
        return len(self.scope_vars) == len(self.card) + len(self.begin) - count


class Balls(NamedTuple):
    """The balls of all variables; see `loop_bp_kernels.grow_balls`."""

    ball_ptr: IntArray  # [V+1]
    ball: IntArray  # factors of all balls
    member_ptr: IntArray  # [V+1]
    member: IntArray  # variables of all balls
    is_outer: BoolArray  # whether a member has a factor outside of the ball
    whole: BoolArray  # [V] whether a ball holds all that can be reached from its centre
    length: IntArray  # [V] the length that each ball has reached

    @classmethod
    def grow(cls, part: LoopyPart, lengths: IntArray, size: int, most: int) -> Balls | None:
        """Balls of lengths [V], or less where they have more than `size` variables; None beyond `most` factors."""
        from equifactor.solvers.messages.loop_bp_kernels import grow_balls

        lengths = lengths.copy()
        ball_ptr, ball, member_ptr, member, is_outer, whole = grow_balls(*part.rows, lengths, size, most)
        found = cls(ball_ptr, ball, member_ptr, member, is_outer, whole, lengths)
        return None if len(found.member) < len(part.card) else found


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Parts of a model side by side in one elimination, and where the roots' probabilities are."""

    program: Program
    entries: float  # of all cluster tables: the work of one pass
    edges: int  # of all parts: the work of planning
    clones: int  # of variables in all parts
    largest: float  # log2 of the entries of the largest table
    root_start: IntArray  # [C] first state of each root among those of all clones


class PartLimits(NamedTuple):
    """What the elimination of all parts may use."""

    entries: float  # of all cluster tables together
    factors: int  # of all parts together


@dataclass(frozen=True, eq=False)
class LoopMessages:
    """The rounds of one rung: cavities give messages, balls give beliefs."""

    part: LoopyPart
    cavities: SideBySide
    balls: SideBySide
    dim: IntArray  # [C] states of each message
    start: IntArray  # [C] first entry of each message in `full`
    full: FloatArray  # tables, fields, then the logs of the messages

    @classmethod
    def make(cls, part: LoopyPart, balls: Balls, limits: PartLimits) -> LoopMessages | None:
        """Everything for one rung, with uniform messages; None where it is over the limits."""
        from equifactor.solvers.messages.loop_bp_kernels import grow_cavities

        arrays = balls.ball_ptr, balls.ball, balls.member_ptr, balls.member, balls.is_outer
        ptr, factors, name, root, cavity = grow_cavities(*part.rows, *arrays, limits.factors)
        if len(root) < np.count_nonzero(balls.is_outer):
            return None
        # Many balls see the same cavity beyond a variable: each is eliminated once.
        _, first, same = np.unique(name, return_index=True, return_inverse=True)
        told = np.where(cavity >= 0, same[cavity], -1) if len(first) else cavity
        ptr, places = picked(ptr, first)
        root, dim = root[first], part.card[root[first]]
        start = len(part.log_phi) + ptr_of(dim)
        full = np.concatenate((part.log_phi, np.zeros(int(dim.sum()))))
        beyond = _Beyond(balls.member_ptr, balls.member, told, start)
        inner = _side_by_side(part, (ptr, factors[places], root), beyond, False, limits.entries)
        if inner is None:
            return None
        centres = balls.ball_ptr, balls.ball, np.arange(len(part.card))
        outer = _side_by_side(part, centres, beyond, True, limits.entries)
        return None if outer is None else cls(part, inner, outer, dim, start[:-1], full)

    @property
    def largest(self) -> float:
        """log2 of the entries of the largest table."""
        return max(self.cavities.largest, self.balls.largest)


class _Beyond(NamedTuple):
    """Which message each member of a ball is told, and where it lies."""

    member_ptr: IntArray
    member: IntArray
    told: IntArray
    start: IntArray


def _side_by_side(
    part: LoopyPart, parts: tuple[IntArray, IntArray, IntArray], beyond: _Beyond, with_field: bool, entries: float
) -> SideBySide | None:
    from equifactor.solvers.messages.loop_bp_kernels import lay_side_by_side

    variable, ptr, scopes, number, root = lay_side_by_side(
        *parts, part.scope_ptr, part.scope_vars, beyond.member_ptr, beyond.member, beyond.told, part.has_field,
        with_field,
    )  # fmt: skip
    card = part.card[variable]
    bits = np.log2(card)
    size = np.round(np.exp2(np.add.reduceat(bits[scopes], ptr[:-1]))).astype(np.int64) if len(number) else ptr[:0]
    structure = Structure.trusted(card, ptr, scopes, ptr_of(size))
    order = best_order(structure, PlanningLimits(tries=_TRIES, kept=entries, message=entries))
    if isinstance(order, Hopeless):
        return None
    running = np.concatenate(([0.0], np.cumsum(bits[order.variables][order.separators])))
    table = running[order.sep_ptr[1:]] - running[order.sep_ptr[:-1]] + bits[order.variables]
    total = float(np.exp2(table).sum())
    if total > entries:
        return None
    program = build_program(structure, order)
    f = len(part.begin)
    begin = np.empty(len(number) + 1, np.int64)
    begin[-1] = 0  # Only the first entries of tables are looked up.
    own, told, field = (number >= 0) & (number < f), number >= f, number < 0
    begin[:-1][own] = part.begin[number[own]]
    begin[:-1][told] = beyond.start[number[told] - f]
    begin[:-1][field] = part.field_start[-1 - number[field]]
    groups = program.groups._replace(table_ptr=begin)
    program = Program(program.clusters, groups, program.separators, program.size, program.variables)
    largest = float(table.max(initial=0.0))
    return SideBySide(program, total, len(scopes), len(variable), largest, structure.state_ptr[root])


class LoopBeliefs(NamedTuple):
    """What the rounds of a rung ended with."""

    p: FloatArray  # [X] beliefs; empty where no assignment is possible
    change: float  # of the last round
    rounds: int


def run_rounds(messages: LoopMessages, rounds: Rounds, clock: Clock) -> LoopBeliefs | None:
    """Rounds of messages until none changes, then the beliefs of all centres; None when the clock stopped them."""
    from equifactor.solvers.messages.loop_bp_kernels import update_messages

    m = messages
    program, change, n = m.cavities.program, 0.0, 0
    memory = program.tables(reuse=False), program.workspace(marginals=True)
    damping, earlier, look = rounds.damping, np.inf, _FIRST_LOOK
    for n in range(1, rounds.iterations + 1 if len(m.dim) else 0):
        sums = sum_out(program, m.full, clock, memory=memory)
        if sums is None:
            return None
        if sums.p is None:
            return LoopBeliefs(np.zeros(0), 0.0, n)
        change = update_messages(sums.p, m.cavities.root_start, m.dim, m.start, damping if n > 1 else 0.0, m.full)
        if change <= rounds.tolerance:
            break
        if n == look:
            if change > _FALL * earlier:
                if n >= _LAST_LOOK and change > _WILD:
                    break
                damping = max(damping, min(damping + _STEP, _MOST_DAMPING))
            earlier, look = change, 2 * look
    sums = sum_out(m.balls.program, m.full, clock)
    if sums is None:
        return None
    if sums.p is None:
        return LoopBeliefs(np.zeros(0), 0.0, n)
    card = m.part.card
    first = ptr_of(card)
    places = np.repeat(m.balls.root_start - first[:-1], card) + np.arange(first[-1])
    return LoopBeliefs(sums.p[places], change, n)
