"""Tree-reweighted belief propagation: an upper bound on ln Z from a convex combination of forests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import EPS, LARGEST_LOG, Budget, Seconds
from equifactor.base.clock import TimeIsUp
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.marginals import Marginals
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import ALL_SYMMETRIES, Ending, IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.graph.layout import Layout
    from equifactor.graph.structure import Structure
    from equifactor.solvers.messages.trw_kernels import Forest

# A factor without powers of its kind is a dense table up to this many variables: 256 entries if they are binary.
_LARGEST_TABLE = 8
# Reference seconds for an edge, to compile a model and compute a first bound: a chain of 10^6 variables.
_START_EDGE = 1e-6
_START_ENTRY = 6e-8  # Reference seconds for a table entry, in the same: tables of 32 million entries.
_USUAL_FORESTS = 16  # Forests that are drawn at least. The bound of dense graphs needs more, and takes longer.
_NO_TIME = "There was no time for a first bound of trw, so ln Z is at most the sum of the largest entry of each factor."
# Seconds of the bound per second of drawing its forests: 0.4 on 656,000 clauses.
_BOUND_SHARE = 0.5
_TOO_LARGE = f"A table has log entries beyond {LARGEST_LOG:g}, and their sums may overflow. Use smaller units."


@register("trw")
@dataclass(frozen=True, kw_only=True)
class TreeReweighted(IterativeSolver["Reweighting"]):
    """Tree-reweighted sum-product: ln Z is a guaranteed upper bound, converged or not; exact on trees.

    Random forests of the factor graph, of any arity, cover every factor; rho_a is the share of forests that hold factor
    a. Messages pass through tables f_a^(1/rho_a) and count rho_a times at their variables [Wainwright05]. The model is
    then a geometric mean of one tree-structured model per forest at *any* messages. By Hoelder's inequality, ln Z is at
    most the mean of the forests' ln Z, each computed exactly. A structured factor over more than eight variables whose
    power is of another kind is used without the power. Its values are at most 1, so the bound stays valid. If the time
    is up, a factor that no forest holds counts as its largest value, and the bound stays valid. Cost O(T) per iteration
    and per forest; structured factors cost as much as their messages.
    """

    tasks = (Task.MAR, Task.PR)
    any_kind = True
    symmetries = ALL_SYMMETRIES - {"global", "local variable"}  # forests are drawn over the edges in their order
    exact_on = "trees"

    iterations: int = option(1000, "most iterations", low=0)
    damping: float = option(0.3, "share of the old log message that is kept, if there are loops", low=0.0, below=1.0)
    forests: int = option(16, "least number of forests; more are added until every factor is covered", low=1)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Run one graph after another: the forests of a graph must not depend on the other graphs."""
        return [self._run_one(graph, task, context) for graph in graphs]

    def _run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        if np.any((np.abs(graph.log_phi) > LARGEST_LOG) & (graph.log_phi > -np.inf)):
            return Estimate(status=Status.NON_FINITE, message=_TOO_LARGE)
        tables = graph.structure.kinds is None
        if tables and not Budget(context.clock.root).ends_in_time(work_of_start(graph.structure)):
            return _without_trees(graph, context)
        return super().run([_with_powers(graph)], task, context)[0]

    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> Reweighting:
        """Draw the forests; messages start uniform."""
        return Reweighting(flat, self.forests, self.damping, context.seed, context.clock)

    def step(self, state: Reweighting, count: int) -> FloatArray:
        """Sweep over all factors `count` times, forwards and backwards in turn."""
        return state.sweep(count)

    def finish(self, flat: FlatGraph[np.ndarray], state: Reweighting, task: Task, ending: Ending) -> list[Estimate]:
        """Return pseudo-marginals and the bound."""
        from equifactor.factors.message_answers import beliefs

        p, _, _ = beliefs(flat.var_ptr, state.log_b_v)
        bounds = state.bound().tolist()
        return [
            impossible() if bounds[n] == -math.inf  # nothing overflows, so -inf comes from zeros only
            else Estimate(
                status=ending.status[n], iterations=ending.iterations[n], marginals=m, log_z=bounds[n],
                upper_bound=bounds[n], stats={"change": float(ending.residual[n]), "forests": len(state.forests)},
            )
            for n, m in enumerate(flat.marginals(p))
        ]  # fmt: skip


def work_of_start(s: Structure) -> float:
    """Return the reference seconds of a first bound, whose forests must hold every factor."""
    forests = int((s.arity - 1).clip(min=0).sum()) / max(1, s.num_vars - 1)
    return _START_EDGE * s.num_edges * max(1.0, forests / _USUAL_FORESTS) + _START_ENTRY * s.num_entries


def bound_by_maxima(graph: FactorGraph) -> float:
    """Return the upper bound on ln Z of a graph of tables from the largest entry of each, as if all states had it."""
    s = graph.structure
    top = np.maximum.reduceat(graph.log_phi, s.table_ptr[:-1]) if s.num_factors else np.zeros(0)
    logs = np.log(s.card[graph.free_vars])
    rounding = EPS * (len(top) + len(logs) + 1) * float(np.abs(top[top > -np.inf]).sum() + logs.sum())
    return float(top.sum() + logs.sum()) + (rounding if np.all(top > -np.inf) else 0.0)


def _without_trees(graph: FactorGraph, context: SolveContext) -> Estimate:
    """Return the bound from the largest entries, and uniform marginals: there is no time for messages."""
    bound, s = bound_by_maxima(graph), graph.structure
    if bound == -np.inf:
        return impossible()
    p = np.repeat(1.0 / s.card, s.card)
    if graph.observed is not None:
        seen = np.flatnonzero(graph.observed >= 0)
        p[np.repeat(graph.observed >= 0, s.card)] = 0.0
        p[s.state_ptr[seen] + graph.observed[seen]] = 1.0
    status = context.clock.status or Status.TIME_LIMIT
    return Estimate(
        status=status, marginals=Marginals(p, s.state_ptr), log_z=bound, upper_bound=bound, message=_NO_TIME
    )


def _with_powers(graph: FactorGraph) -> FactorGraph:
    """Return the graph with dense tables in place of small factors whose powers are not of their kind."""
    from equifactor.factors.dense_graph import tables_at
    from equifactor.graph.kinds import kinds_with

    kinds = graph.structure.kinds
    if kinds is None:
        return graph
    small = np.diff(graph.structure.scope_ptr) <= _LARGEST_TABLE
    return tables_at(graph, small & kinds_with("nonlinear_values", kinds.kind))


class Reweighting:
    """The messages [S], updated in place, and the forests that weight them.

    Args:
        flat: the compiled graphs.
        least: the least number of forests.
        damping: the share of the old log message that is kept.
        seed: the seed of the forests.
        clock: the clock that ends the drawing of forests; None for no limit.
    """

    def __init__(
        self, flat: FlatGraph[np.ndarray], least: int, damping: float, seed: int, clock: Clock | None = None
    ) -> None:
        from equifactor.factors.factor_messages import message_state
        from equifactor.factors.structured_kernels import kind_rows_of
        from equifactor.graph.layout import ENTRY, SLOT, layout_of, tables_of
        from equifactor.kernels.jit import plain
        from equifactor.solvers.messages.numba_engine import first_messages

        self.flat = flat
        self.layout = layout_of(flat)
        self.kinds = kind_rows_of(flat, False)
        arity = np.diff(self.layout.factors[:, SLOT])
        size = np.diff(self.layout.factors[:, ENTRY])
        self.forests, count = draw_forests(self.layout, arity, size, least, seed, clock)
        self.rho = np.where(arity > 1, count / len(self.forests), 1.0)  # [F] in flat order
        self.left_out = self.rho == 0.0  # [F] factors that no forest holds, because the time was up
        self.tables, self.phi = tables_of(flat.with_log_phi(flat.log_phi / np.repeat(self._shares(), size)))
        msg = first_messages(flat, self.layout, False)
        for group in flat.groups:
            if len(group.shape) == 1:
                # not normalised, since the bound needs the whole table
                msg[group.slots[0]] = flat.log_phi[group.entries]
        self.state = message_state(msg, self.layout)
        self.arrays = plain(self.layout), plain(self.tables), plain(self.state)
        self.damping = float(damping) if self.rho.min(initial=1.0) < 1.0 else 0.0
        self.orders = self.layout.order.copy(), self.layout.order[::-1].copy()
        self.sweeps = 0

    def _shares(self) -> FloatArray:
        """Return the numbers [F] by which to divide log values for f_a^(1/rho_a), or for an upper bound on it.

        The power of some factors is not of their kind. Their values are at most 1, so that such a factor is at least
        its own power and can replace it in the bound.
        """
        from equifactor.graph.kinds import kind_class

        shares = np.where(self.left_out, 1.0, self.rho)
        first = sum(group.num_factors for group in self.flat.groups)
        for group in self.flat.structured:
            own = shares[first : first + group.num_factors]
            own[~kind_class(group.kind).keeps_powers(group.rows(self.flat.log_phi[group.entries]))] = 1.0
            first += group.num_factors
        return shares

    def _tops(self) -> FloatArray:
        """Return upper bounds [F] on the log values of the factors, in flat order."""
        from equifactor.graph.kinds import kind_class

        log_phi = self.flat.log_phi
        parts = [group.table(log_phi).reshape(group.num_factors, -1).max(axis=1) for group in self.flat.groups]
        parts += [kind_class(group.kind).log_tops(group.rows(log_phi[group.entries])) for group in self.flat.structured]
        return np.concatenate(parts)

    def _graph_of_factor(self) -> IntArray:
        """Return the graph [F] of each factor, in flat order."""
        order = [group.factors for group in self.flat.groups] + [group.factors for group in self.flat.structured]
        return np.asarray(self.flat.graph_of_factor[np.concatenate(order)])

    def sweep(self, count: int) -> FloatArray:
        """Sweep over all factors `count` times, forwards and backwards in turn; return the last change [G].

        Raises `TimeIsUp` if some factors are in no forest: they have no weight, and the time is up.
        """
        from equifactor.solvers.messages.schedule_kernels import sweep_in_order

        if self.left_out.any():
            raise TimeIsUp

        change = np.zeros(self.flat.num_graphs)
        layout, tables, state = self.arrays
        for _ in range(count):
            change[:] = 0.0
            order = self.orders[self.sweeps % 2]
            sweep_in_order(
                layout, tables, self.phi, None, self.kinds, self.rho, state, self.damping, -np.inf, order, change
            )
            self.sweeps += 1
        return change

    def messages(self) -> FloatArray:
        """Return the factor-to-variable log messages [S] in flat order, not a copy."""
        return self.state.msg

    @property
    def log_b_v(self) -> FloatArray:
        """[X] sum_a rho_a m_{a->i}, -inf where ruled out."""
        from equifactor.solvers.messages.schedule_kernels import add_up_weighted

        msg, total, zeros = self.state[:3]
        add_up_weighted(self.layout.factors, self.layout.slots, self.rho, msg, total, zeros)
        return np.where(zeros > 0, -np.inf, total)

    def bound(self) -> FloatArray:
        """Return the upper bound [G]: the mean of the forests' exact ln Z, plus a bound on the rounding error.

        It holds at any messages. Large messages cost digits, which makes the bound looser but not wrong.
        """
        from equifactor.kernels.jit import plain
        from equifactor.solvers.messages.schedule_kernels import add_up_weighted
        from equifactor.solvers.messages.trw_kernels import forest_log_z

        flat, layout, msg = self.flat, self.arrays[0], self.state.msg
        factors, slots = self.layout.factors, self.layout.slots
        log_z, error = np.zeros((2, flat.num_graphs))
        log_b_v = self.log_b_v
        size_b_v, ignored = np.empty_like(log_b_v), np.empty_like(self.state.zeros)
        size = np.where(np.isneginf(msg), 0.0, np.abs(msg))
        add_up_weighted(factors, slots, self.rho, size, size_b_v, ignored)
        for forest in self.forests:
            forest_log_z(plain(forest), layout, self.kinds, self.tables.log_phi, msg, log_b_v, size_b_v, log_z, error)
        log_z /= len(self.forests)
        error /= len(self.forests)
        for group in flat.groups:
            if not group.shape:
                graphs, constants = flat.graph_of_factor[group.factors], flat.log_phi[group.entries]
                np.add.at(error, graphs, EPS * len(constants) * np.abs(constants) + EPS * np.abs(log_z[graphs]))
                np.add.at(log_z, graphs, constants)
        if self.left_out.any():
            tops, graphs = self._tops()[self.left_out], self._graph_of_factor()[self.left_out]
            np.add.at(error, graphs, EPS * len(tops) * np.abs(tops))
            np.add.at(log_z, graphs, tops)
        possible = ~np.isneginf(log_z)  # -inf has no rounding error.
        log_z[possible] += error[possible] + EPS * np.abs(log_z[possible])
        return log_z


def draw_forests(
    layout: Layout, arity: IntArray, size: IntArray, least: int, seed: int, clock: Clock | None = None
) -> tuple[list[Forest], IntArray]:
    """Draw at least `least` random forests that hold every factor; return them and how many of them hold each [F].

    There are fewer forests if the clock has no time left for another one and for the bound, whose cost grows with the
    table entries `size` [F] of the factors that it holds. At least one is drawn.

    The factors held least often so far come first, in random order. The shares are then nearly equal, and a graph
    without cycles needs only one forest. Cost O(E) per forest.
    """
    from equifactor.kernels.jit import plain
    from equifactor.solvers.messages.trw_kernels import Forest, choose_forest, orient_forest

    graph = plain(layout)
    rng = np.random.default_rng(seed)
    needed = arity > 1
    count = np.zeros(len(arity), np.int64)
    forests: list[Forest] = []
    start = clock.seconds if clock is not None else 0.0
    while not forests or len(forests) < least or not count[needed].all():
        chosen = choose_forest(np.lexsort((rng.random(len(arity)), count)), graph)
        count += chosen
        forests.append(Forest(*orient_forest(chosen, graph)))
        if count[needed].all() and len(forests) == 1:
            break
        if clock is not None:
            spent, drawn = clock.seconds - start, len(forests)
            entries = float(count @ size) * (1 + 1 / drawn)
            bound = max(_BOUND_SHARE * spent, Budget(clock).time_for(Seconds.MESSAGE_SWEEP * entries))
            if clock.left < spent / drawn + bound:
                break
    return forests, count
