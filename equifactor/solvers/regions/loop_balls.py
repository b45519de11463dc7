"""Balls of loop-corrected belief propagation for one length, prepared for rounds of messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import by_number, picked, ptr_of
from equifactor.solvers.elimination.eliminate import sum_out
from equifactor.solvers.elimination.orders import FEW_TRIES, NoOrder, PlanningLimits, best_order
from equifactor.solvers.elimination.program import Program, build_program

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.solvers.regions.agreement import Rounds

# The share of its value at half as many rounds to which the change must fall, or damping rises. Certainty that builds
# up around loops changes like 1/n, and more damping would only delay it. Halved or doubled: error within 15 %.
_FALL = 0.7
# The rise of the damping if the change has not fallen enough. Halved or doubled: error within 15 %.
_DAMPING_STEP = 0.2
_MOST_DAMPING = 0.9  # The damping at most. Halved or doubled: error within 20 %.
# Rounds before the first check of the change; later checks come after 64, 128, .. rounds. Halved or doubled: error
# within 30 %.
_FIRST_CHECK = 32
# The change, in probability, above which rounds end: longer loops then help more. Halved or doubled: error within 15 %.
_WILD = 0.3
_LAST_CHECK = 128  # Rounds after which a change above `_WILD` ends the rounds. Halved or doubled: error within 20 %.


class LoopyPart(NamedTuple):
    """The factors of two or more variables of a graph, and for each variable the sum of its unary factors."""

    scope_ptr: IntArray  # [f+1]
    scope_vars: IntArray  # [e]
    var_ptr: IntArray  # [V+1] pointer to the factors of each variable
    var_factors: IntArray  # [e]
    begin: IntArray  # [f] first entry of each table in log_phi
    log_phi: FloatArray  # [T + X] all tables, then the fields
    has_field: BoolArray  # [V] whether the variable has a unary factor
    card: IntArray  # [V]
    field_start: IntArray  # [V] first entry of each field in log_phi

    @classmethod
    def of(cls, graph: FactorGraph) -> LoopyPart:
        """Return the part of a graph without observed variables."""
        s = graph.structure
        arity = np.diff(s.scope_ptr)
        kept, single = np.flatnonzero(arity > 1), np.flatnonzero(arity == 1)
        scope_ptr, edges = picked(s.scope_ptr, kept)
        scope_vars = s.scope_vars[edges]
        by_variable = by_number(scope_vars)
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
        """Return whether there is no loop: edges = nodes - components, in the graph of variables and factors."""
        from equifactor.solvers.elimination import order_kernels as kernels

        _, count = kernels.components(*kernels.adjacency(len(self.card), self.scope_ptr, self.scope_vars))
        return len(self.scope_vars) == len(self.card) + len(self.begin) - count


class Balls(NamedTuple):
    """The balls of all variables; see `loop_bp_kernels.grow_balls`."""

    ball_ptr: IntArray  # [V+1]
    ball: IntArray  # factors of all balls
    member_ptr: IntArray  # [V+1]
    member: IntArray  # variables of all balls
    is_outer: BoolArray  # whether a member has a factor outside the ball
    whole: BoolArray  # [V] whether a ball holds all that can be reached from its centre
    length: IntArray  # [V] the length of each ball

    @classmethod
    def grow(cls, part: LoopyPart, lengths: IntArray, size: int, most: int, seconds: float = math.inf) -> Balls | None:
        """Return balls of lengths [V], shorter for balls of more than `size` variables.

        Returns None if they would have more than `most` factors, or take more than about these reference seconds.
        """
        from equifactor.solvers.regions.loop_bp_kernels import grow_balls

        lengths = lengths.copy()
        ball_ptr, ball, member_ptr, member, is_outer, whole = grow_balls(
            *part.rows, lengths, size, most, float(seconds / Seconds.LOOP_VISIT)
        )
        found = cls(ball_ptr, ball, member_ptr, member, is_outer, whole, lengths)
        return None if len(found.member) < len(part.card) else found


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Parts of a model side by side in one elimination, and where the probabilities of their roots are."""

    program: Program
    entries: float  # entries of all cluster tables: the work of one pass
    edges: int  # edges of all parts: the work of planning
    clones: int  # clones of variables in all parts
    largest: float  # log2 of the entries of the largest table
    root_start: IntArray  # [C] first state of each root among the states of all clones


class PartLimits(NamedTuple):
    """The limits on the elimination of all parts."""

    entries: float  # entries of all cluster tables together
    factors: int  # factors of all parts together


@dataclass(frozen=True, eq=False)
class LoopMessages:
    """The parts for one length: cavities give messages, balls give beliefs."""

    part: LoopyPart
    cavities: SideBySide
    balls: SideBySide
    dim: IntArray  # [C] states of each message
    start: IntArray  # [C] first entry of each message in `full`
    full: FloatArray  # tables, fields, then the logs of the messages

    @classmethod
    def make(cls, part: LoopyPart, balls: Balls, limits: PartLimits) -> LoopMessages | None:
        """Return the parts for one length, with uniform messages; None if they are over the limits."""
        from equifactor.solvers.regions.loop_bp_kernels import grow_cavities

        arrays = balls.ball_ptr, balls.ball, balls.member_ptr, balls.member, balls.is_outer
        ptr, factors, name, root, cavity = grow_cavities(*part.rows, *arrays, limits.factors)
        if len(root) < np.count_nonzero(balls.is_outer):
            return None
        # Many balls have the same cavity beyond a variable: each cavity is eliminated once.
        _, first, same = np.unique(name, return_index=True, return_inverse=True)
        message = np.where(cavity >= 0, same[cavity], -1) if len(first) else cavity
        ptr, places = picked(ptr, first)
        root, dim = root[first], part.card[root[first]]
        start = len(part.log_phi) + ptr_of(dim)
        full = np.concatenate((part.log_phi, np.zeros(int(dim.sum()))))
        beyond = _Beyond(balls.member_ptr, balls.member, message, start)
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
    """The message that each member of a ball gets from beyond, and where it is."""

    member_ptr: IntArray
    member: IntArray
    message: IntArray  # number of the message to each member, -1 for none
    start: IntArray  # first entry of each message


def _side_by_side(
    part: LoopyPart, parts: tuple[IntArray, IntArray, IntArray], beyond: _Beyond, with_field: bool, entries: float
) -> SideBySide | None:
    from equifactor.solvers.regions.loop_bp_kernels import lay_side_by_side

    variable, ptr, scopes, number, root = lay_side_by_side(
        *parts, part.scope_ptr, part.scope_vars, beyond.member_ptr, beyond.member, beyond.message, part.has_field,
        with_field,
    )  # fmt: skip
    card = part.card[variable]
    bits = np.log2(card)
    size = np.round(np.exp2(np.add.reduceat(bits[scopes], ptr[:-1]))).astype(np.int64) if len(number) else ptr[:0]
    structure = Structure.trusted(card, ptr, scopes, ptr_of(size))
    order = best_order(structure, PlanningLimits(tries=FEW_TRIES, kept=entries, message=entries))
    if isinstance(order, NoOrder):
        return None
    running = np.concatenate(([0.0], np.cumsum(bits[order.variables][order.separators])))
    table = running[order.sep_ptr[1:]] - running[order.sep_ptr[:-1]] + bits[order.variables]
    total = float(np.exp2(table).sum())
    if total > entries:
        return None
    program = build_program(structure, order)
    f = len(part.begin)
    begin = np.empty(len(number) + 1, np.int64)
    begin[-1] = 0  # Only the first entries of tables are used.
    own, message, field = (number >= 0) & (number < f), number >= f, number < 0
    begin[:-1][own] = part.begin[number[own]]
    begin[:-1][message] = beyond.start[number[message] - f]
    begin[:-1][field] = part.field_start[-1 - number[field]]
    groups = program.groups._replace(table_ptr=begin)
    program = Program(program.clusters, groups, program.separators, program.size, program.variables)
    largest = float(table.max(initial=0.0))
    return SideBySide(program, total, len(scopes), len(variable), largest, structure.state_ptr[root])


class LoopBeliefs(NamedTuple):
    """The beliefs after the rounds of one length."""

    p: FloatArray  # [X] beliefs; empty if no assignment is possible
    change: float  # the largest change of a message in the last round
    rounds: int


def run_rounds(messages: LoopMessages, rounds: Rounds, clock: Clock) -> LoopBeliefs | None:
    """Pass messages until they settle, then return the beliefs of all centres; None if the clock stopped it."""
    from equifactor.solvers.regions.loop_bp_kernels import update_messages

    m = messages
    program, change, n = m.cavities.program, 0.0, 0
    memory = program.tables(reuse=False), program.workspace(marginals=True)
    damping, earlier, check = rounds.damping, np.inf, _FIRST_CHECK
    for n in range(1, rounds.iterations + 1 if len(m.dim) else 0):
        sums = sum_out(program, m.full, clock, memory=memory)
        if sums is None:
            return None
        if sums.p is None:
            return LoopBeliefs(np.zeros(0), 0.0, n)
        change = update_messages(sums.p, m.cavities.root_start, m.dim, m.start, damping if n > 1 else 0.0, m.full)
        if change <= rounds.tolerance:
            break
        if n == check:
            if change > _FALL * earlier:
                if n >= _LAST_CHECK and change > _WILD:
                    break
                damping = max(damping, min(damping + _DAMPING_STEP, _MOST_DAMPING))
            earlier, check = change, 2 * check
    sums = sum_out(m.balls.program, m.full, clock)
    if sums is None:
        return None
    if sums.p is None:
        return LoopBeliefs(np.zeros(0), 0.0, n)
    card = m.part.card
    first = ptr_of(card)
    places = np.repeat(m.balls.root_start - first[:-1], card) + np.arange(first[-1])
    return LoopBeliefs(sums.p[places], change, n)
