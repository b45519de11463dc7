"""MAP by dual ascent: the solvers `mplp` and `srmp`, and their loop of sweeping and decoding.

Both lower an upper bound by messages, factor by factor or variable by variable. On the way they decode assignments,
until the score of the best assignment meets the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from equifactor.base.budget import Budget
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph import compile
from equifactor.solvers.duals.stall import Stall
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import ALL_SYMMETRIES, GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph, FlatGraph


# Reference seconds for an edge, to lay out messages and compute a first bound: measured on 656,000 clauses.
_FIRST_BOUND = 7e-7
# Sweeps before the first decoding after that of the start. Halved or doubled: gap within 30 %, CPU within 20 %.
_FIRST_DECODING = 10
# Sweeps from one decoding to the next, at most. One decoding takes as long as 10 to 50 sweeps on grids and random
# graphs, or as 3 to 6 sweeps with cycles. Sweeps are counted, and not seconds, so that a call can be repeated.
_DECODING_INTERVAL = 64
_DECODING_INTERVAL_WITH_CYCLES = 10
# Decodings in random orders when the bound has stalled. Halved: CPU -14 %; doubled: CPU +20 %; gap within 30 %.
_RANDOM_DECODINGS = 10
# Sweeps over which the bound must fall by the tolerance. Halved or doubled: gap within 30 %, CPU within 20 %.
_PATIENCE = 10
# Sweeps over which a bound with cycles must fall by the tolerance: it may fall slowly until new cycles are found.
# Halved or doubled: gap within 5 %.
_PATIENCE_WITH_CYCLES = 200


@register("mplp")
@dataclass(frozen=True, kw_only=True)
class Mplp(GraphSolver):
    """MAP by dual descent factor by factor, with an upper bound that never rises [Globerson07].

    Every factor in turn shares its max-marginals equally among its variables, which is the block minimum of the dual of
    the local linear program. Assignments are decoded along the way and the best is kept. The status is `optimal` when
    its score meets the bound. The bound can stall above the optimum of the linear program. Cost O(T) per iteration.
    """

    tasks = (Task.MAP,)
    any_kind = True
    symmetries = ALL_SYMMETRIES - {"global"}  # sweeps go through the factors in the order of the model

    iterations: int = option(100_000, "most sweeps over all factors", low=0)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)
    tolerance: float = option(1e-9, "stop when ten sweeps lower the bound by less, relatively", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Sweep over factors, decode, and compare, until the gap is closed."""
        from equifactor.solvers.duals.ascent import FactorAscent

        limits = GapLimits(self.iterations, self.gap, _PATIENCE, self.tolerance, _DECODING_INTERVAL)
        flat = compile(graph)
        return _in_a_hurry(flat, context) or close_gap(FactorAscent(flat), limits, context)


@register("srmp")
@dataclass(frozen=True, kw_only=True)
class Srmp(GraphSolver):
    """MAP by dual ascent along the variables and back (TRW-S for any arity), with a bound that never rises.

    On pairwise graphs this is TRW-S [Kolmogorov06], in general close to SRMP [Kolmogorov15]: each variable collects the
    max-marginals of its factors and shares their sum among the factors ahead. Assignments are decoded along the way and
    the best is kept. The status is `optimal` when its score meets the bound. Cost O(T (k - 1)) per iteration, arity k.
    """

    tasks = (Task.MAP,)
    any_kind = True
    symmetries = ALL_SYMMETRIES - {"global"}  # sweeps go through the variables in the order of the model

    iterations: int = option(100_000, "most passes over all variables", low=0)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)
    tolerance: float = option(1e-9, "stop when ten passes lower the bound by less, relatively", low=0.0)
    cycles: bool = option(False, "tighten along frustrated cycles of pair factors: slower, closer bounds")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Sweep over variables, decode, and compare, until the gap is closed."""
        from equifactor.solvers.duals.ascent import VariableAscent
        from equifactor.solvers.duals.cycle_ascent import CycleAscent

        patience = _PATIENCE_WITH_CYCLES if self.cycles else _PATIENCE
        interval = _DECODING_INTERVAL_WITH_CYCLES if self.cycles else _DECODING_INTERVAL
        limits = GapLimits(self.iterations, self.gap, patience, self.tolerance, interval)
        if not self.cycles:
            flat = compile(graph)
            return _in_a_hurry(flat, context) or close_gap(VariableAscent(flat), limits, context)
        lowered = lower(graph, "max")  # cycles are searched for among pair tables
        return lowered.estimate(close_gap(CycleAscent(compile(lowered.graph)), limits, context))


class Dual(Protocol):
    """A dual for the loop: a bound that falls with every sweep, and assignments decoded on the way."""

    flat: FlatGraph[np.ndarray]

    @property
    def bound(self) -> float:
        """The upper bound on the best log score, recomputed from the messages."""
        ...

    def sweep(self) -> float:
        """Sweep once more; return the bound, up to rounding, or -inf if no assignment is possible."""
        ...

    def candidates(self, rng: np.random.Generator | None = None, clock: Clock | None = None) -> Iterator[IntArray]:
        """Yield assignments [V] of the free variables until the clock stops; without `rng`, at least one."""
        ...


@dataclass(frozen=True)
class GapLimits:
    """The limits at which the loop stops."""

    iterations: int  # most sweeps
    gap: float  # a difference of bound and score up to this share of the bound counts as a proof
    patience: int  # the bound has stalled when it has not fallen over this many sweeps
    tolerance: float  # a fall up to this share of the bound does not count as a fall
    decoding: int  # most sweeps from one decoding to the next


def close_gap(dual: Dual, limits: GapLimits, context: SolveContext) -> Estimate:
    """Sweep and decode until the best assignment meets the bound, the bound stalls, or time is up (one graph)."""
    best = _Best(dual, context.clock)
    best.update()
    lowest = dual.bound
    stall = Stall(limits.patience, share_of_bound=limits.tolerance)
    stall.add(lowest)
    done, next_decoding = 0, _FIRST_DECODING  # in sweeps
    status: Status | None = None
    while status is None:
        stalled = stall.stalled()
        last = stalled or done >= limits.iterations or context.clock.stopped
        if done and (done >= next_decoding or last):
            best.update()
            next_decoding = done + min(3 * done, limits.decoding)
        if stalled:  # several states may share a maximum: other orders break the ties in other ways
            rng = np.random.default_rng(context.seed)
            for _ in range(_RANDOM_DECODINGS):
                if best.meets(lowest, limits.gap) or context.clock.stopped:
                    break
                best.update(rng)
        if best.meets(lowest, limits.gap):
            status = Status.OPTIMAL
        elif stalled:
            status = Status.CONVERGED
        elif last:
            status = context.clock.status or Status.ITERATION_LIMIT
        else:
            bound = dual.sweep()
            done += 1
            if bound == -np.inf:  # `isneginf` is slow on a single number
                return zero_by_exclusion(dual.flat.graphs[0])
            lowest = min(lowest, bound)
            stall.add(lowest)
            context.report(done, limits.iterations, f"gap {lowest - best.score:.3g}")
    bound = max(dual.bound if done else lowest, best.score)  # recomputed, without the rounding of all sweeps
    return Estimate(
        status=status,
        assignment=best.assignment,
        lower_bound=best.score,
        upper_bound=bound,
        iterations=done,
        stats={"gap": bound - best.score},
    )


def _in_a_hurry(flat: FlatGraph[np.ndarray], context: SolveContext) -> Estimate | None:
    """Return the best state of each variable by its unary tables if there is no time for messages, otherwise None."""
    from equifactor.factors.message_answers import beliefs

    if Budget(context.clock).ends_in_time(_FIRST_BOUND * flat.num_edges):
        return None
    values = np.zeros(flat.num_states)
    for group in flat.groups:
        if len(group.shape) == 1:
            np.add.at(values, flat.state_of_edge_state[group.slots[0]], flat.log_phi[group.entries])
    assignment = flat.assignments(beliefs(flat.var_ptr, values)[2])[0]
    return Estimate(
        status=context.clock.status or Status.TIME_LIMIT,
        assignment=assignment,
        lower_bound=float(flat.graphs[0].log_score(assignment)),
        message="There was not enough time for messages or a bound. Each state is the best by unary tables alone.",
    )


class _Best:
    """The best assignment decoded from a dual so far."""

    def __init__(self, dual: Dual, clock: Clock) -> None:
        self.dual, self.clock = dual, clock
        self.assignment: IntArray | None = None
        self.score = -np.inf

    def update(self, rng: np.random.Generator | None = None) -> None:
        flat = self.dual.flat
        for states in self.dual.candidates(rng, self.clock):
            assignment = flat.assignments(states)[0]
            score = flat.graphs[0].log_score(assignment)
            if self.assignment is None or score > self.score:
                self.assignment, self.score = assignment, score
            if self.clock.stopped:
                break

    def meets(self, bound: float, gap: float) -> bool:
        return bound - self.score <= gap * max(1.0, abs(bound))
