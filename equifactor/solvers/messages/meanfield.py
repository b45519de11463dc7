"""Naive mean field: the product of independent distributions that is closest to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph, FlatGraph


# Price of a violated factor in nats, one per sweep: doubled until a violation has a probability of e^-64.
SOFT_PENALTIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Smaller probabilities are set to zero before violations are forbidden. Halved or doubled: error within 10 %, CPU
# within 2 %.
_PART = 4096  # Variables of a part of a sweep: 0.08 s on a formula of 656,000 clauses.
NEGLIGIBLE = 1e-6


@register("meanfield")
@dataclass(frozen=True, kw_only=True)
class MeanField(GraphSolver):
    """Naive mean field by coordinate ascent with restarts: ln Z is a guaranteed lower bound.

    q(x) = prod_i q_i(x_i). Each q_i in turn takes the value that maximises E_q[ln f] + H(q), which never falls
    [Koller09]. If tables have zeros, q must avoid all of them to have a finite bound. Therefore starts first pay a
    growing price per violated factor, and one start is a decoded assignment. Cost O(T k) per sweep, arity k.
    """

    tasks = (Task.MAR, Task.PR)
    any_kind = True
    symmetries = frozenset()  # sweeps go through the variables in the order of the model

    iterations: int = option(500, "most sweeps per start", low=0)
    tolerance: float = option(1e-6, "stop when no probability changes by more", low=0.0)
    starts: int = option(4, "starts: uniform, then random; the best bound is returned", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the best of several starts."""
        from equifactor.graph import compile

        return self.run_flat(compile(graph), context)

    def run_flat(self, flat: FlatGraph[np.ndarray], context: SolveContext) -> Estimate:
        """Return the best of several starts on one compiled graph."""
        field = ProductField(flat)
        rng = np.random.default_rng(context.seed)
        best_q, best, best_done, settled = np.zeros(0), -np.inf, 0, False
        for n, start in enumerate(field.starts(self.starts, rng, context.clock)):
            q, done, converged = self._ascend(field, start, context)
            bound = field.bound(q)
            context.report(n + 1, self.starts, f"bound {bound:.6g}")
            if n == 0 or bound > best:
                best_q, best, best_done, settled = q, bound, done, converged
        status = Status.CONVERGED if settled else context.clock.status or Status.ITERATION_LIMIT
        found = bool(np.isfinite(best))
        if not found and proven_impossible(flat.graphs[0], context.clock):
            return impossible()
        return Estimate(
            status=status if found or not status.solved else Status.ITERATION_LIMIT,
            message="" if found else "No product of marginals was found that avoids every zero of the tables.",
            marginals=flat.marginals(best_q)[0],
            log_z=best,
            lower_bound=best if found else None,
            iterations=best_done,
        )

    def _ascend(self, field: ProductField, q: FloatArray, context: SolveContext) -> tuple[FloatArray, int, bool]:
        """Sweep until nothing changes; return the field, the number of sweeps, and whether it converged.

        With zeros, violations first have a growing price; then the probabilities that still violate are set to zero.
        """
        q = q.copy()
        done = 0
        if field.has_zeros and not np.isfinite(field.bound(q)):
            for penalty in SOFT_PENALTIES[: self.iterations]:
                if context.clock.stopped:
                    return q, done, False
                field.sweep(q, penalty, hard=False, clock=context.clock)
                context.clock.spend(field.sweep_work)
                done += 1
            q = field.cut(q)
        while done < self.iterations and not context.clock.stopped:
            change = field.sweep(q, 0.0, hard=field.has_zeros, clock=context.clock)
            context.clock.spend(field.sweep_work)
            done += 1
            if change <= self.tolerance:
                return q, done, True
        return q, done, False


class ProductField:
    """One graph as the arrays of the kernels; a field is a product q [X] of one distribution per variable."""

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        from equifactor.factors.expectation_kernels import field_sums
        from equifactor.factors.structured_kernels import kind_rows_of
        from equifactor.graph.kinds import kind_class
        from equifactor.graph.layout import kinds_of, layout_of, slots_around
        from equifactor.kernels.jit import plain
        from equifactor.solvers.messages.meanfield_kernels import SplitTables

        self.flat = flat
        self.sweep_work = Seconds.MESSAGE_SWEEP * (flat.num_entries + flat.num_edge_states)  # reference seconds
        layout = layout_of(flat)
        self.layout, self.around = plain(layout), plain(slots_around(layout))
        self.kinds = kind_rows_of(flat, None)
        kinds = kinds_of(flat)
        self.sums = None if kinds is None else plain(field_sums(layout, kinds, flat.log_phi))
        # Some kinds can be zero although none of their log values is -inf.
        hidden = any(kind_class(group.kind).nonlinear_values for group in flat.structured)
        self.has_zeros = flat.has_zeros or hidden
        zero = np.isneginf(flat.log_phi)
        self.tables = plain(SplitTables(np.where(zero, 0.0, flat.log_phi), zero.astype(np.float64)))

    def starts(self, count: int, rng: np.random.Generator, clock: Clock) -> Iterator[FloatArray]:
        """Yield fields to start from until the clock stops: uniform, a decoded assignment if there are zeros, random.

        Each field is made when it is asked for. There is always a first one.
        """
        flat = self.flat
        card = np.diff(flat.var_ptr)
        yield 1.0 / np.repeat(card, card)
        if self.has_zeros and not clock.stopped:
            yield self._decoded(clock)
        for _ in range(count - 1):
            if clock.stopped:
                return
            weight = rng.exponential(size=flat.num_states)
            yield weight / np.repeat(np.add.reduceat(weight, flat.var_ptr[:-1]), card) if len(card) else weight

    def _decoded(self, clock: Clock) -> FloatArray:
        """Return all probability on one assignment, of positive probability if a few passes of dual ascent find one."""
        from equifactor.solvers.duals.ascent import VariableAscent

        ascent = VariableAscent(self.flat)
        graph = self.flat.graphs[0]
        best, best_score = np.zeros(self.flat.num_vars, np.int64), -np.inf
        for _ in range(10):
            for states in ascent.candidates(clock=clock):
                score = graph.log_score(self.flat.assignments(states)[0])
                if score > best_score:
                    best, best_score = states, score
            if np.isfinite(best_score) or clock.stopped or np.isneginf(ascent.sweep()):
                break
        q = np.zeros(self.flat.num_states)
        q[self.flat.var_ptr[:-1] + best] = 1.0
        return q

    def sweep(self, q: FloatArray, penalty: float, *, hard: bool, clock: Clock | None = None) -> float:
        """Make one pass over all variables, in place; return the largest change of a probability.

        A pass that the clock stops returns infinity; every part of a pass raises the bound.
        """
        from equifactor.solvers.messages.meanfield_kernels import sweep_mean_field

        model = self.layout, self.around, self.tables, self.kinds, self.sums
        change, count = 0.0, self.flat.num_vars
        for first in range(0, count, _PART):
            if first and clock is not None and clock.stopped:
                return np.inf
            part = sweep_mean_field(*model, q, penalty, hard, first, min(count, first + _PART))
            change = max(change, float(part))
        return change

    def bound(self, q: FloatArray) -> float:
        """Return the lower bound on ln Z of a field."""
        from equifactor.solvers.messages.meanfield_kernels import evidence_lower_bound

        return float(evidence_lower_bound(self.layout, self.tables, self.kinds, self.sums, q))

    def cut(self, q: FloatArray) -> FloatArray:
        """Return the field without its negligible probabilities."""
        card = np.diff(self.flat.var_ptr)
        kept = np.where(q < NEGLIGIBLE, 0.0, q)
        return kept / np.repeat(np.add.reduceat(kept, self.flat.var_ptr[:-1]), card) if len(card) else kept
