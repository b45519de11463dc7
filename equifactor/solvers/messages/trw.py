"""Tree-reweighted belief propagation: an upper bound on ln Z from a convex combination of forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Task, impossible
from equifactor.solver import ALL_SYMMETRIES, Ending, IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.graph.layout import Layout
    from equifactor.solvers.messages.trw_kernels import Forest
    from equifactor.typing import FloatArray, IntArray


@register("trw")
@dataclass(frozen=True, kw_only=True)
class TreeReweighted(IterativeSolver["Reweighting"]):
    """Tree-reweighted sum-product: ln Z is a guaranteed upper bound, converged or not; exact on trees.

    Random forests of the factor graph, of any arity, cover every factor; rho_a is the share of them that hold factor a.
    Messages pass through tables f_a^(1/rho_a) and count rho_a times at their variables [Wainwright05]. The model is
    then a geometric mean of one tree-structured model per forest at *any* messages, so by Hoelder's inequality ln Z is
    at most the mean of the forests' ln Z, each computed exactly. Cost O(T) per iteration and per forest.
    """

    tasks = (Task.MAR, Task.PR)
    symmetries = ALL_SYMMETRIES - {"global", "local variable"}  # forests are drawn over the edges in their order
    exact_on = "trees"

    iterations: int = option(1000, "most iterations", low=0)
    damping: float = option(0.3, "share of the old log message that is kept, where there are loops", low=0.0, below=1.0)
    forests: int = option(16, "least number of forests; more are added until every factor is covered", low=1)

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """One graph after the other: the forests of a graph must not depend on its company."""
        return [super(TreeReweighted, self).run([graph], task, context)[0] for graph in graphs]

    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> Reweighting:
        """Draw the forests; messages start uniform."""
        return Reweighting(flat, self.forests, self.damping, context.seed)

    def step(self, state: Reweighting, count: int) -> FloatArray:
        """Sweep over all factors `count` times, there and back in turn."""
        return state.sweep(count)

    def finish(self, flat: FlatGraph[np.ndarray], state: Reweighting, task: Task, ending: Ending) -> list[Estimate]:
        """Pseudo-marginals and the bound."""
        from equifactor.numerics.message_answers import beliefs

        p, log_z_i, _ = beliefs(flat.var_ptr, state.log_b_v)
        bound = state.bound()
        dead = np.isneginf(bound)
        dead[flat.graph_of_var[np.isneginf(log_z_i)]] = True
        return [
            impossible() if dead[n]
            else Estimate(
                status=ending.status[n], iterations=ending.iterations, marginals=m, log_z=bound[n].item(),
                upper_bound=bound[n].item(), stats={"change": float(ending.residual[n]), "forests": len(state.forests)},
            )
            for n, m in enumerate(flat.marginals(p))
        ]  # fmt: skip


class Reweighting:
    """Messages [S], updated in place, and the forests that weight them."""

    def __init__(self, flat: FlatGraph[np.ndarray], least: int, damping: float, seed: int) -> None:
        from equifactor.graph.layout import ENTRY, SLOT, layout_of, tables_of
        from equifactor.numerics.factor_messages import message_state
        from equifactor.numerics.jit import plain
        from equifactor.solvers.messages.numba_engine import first_messages

        self.flat = flat
        self.layout = layout_of(flat)
        arity = np.diff(self.layout.factors[:, SLOT])
        self.forests, count = draw_forests(self.layout, arity, least, seed)
        self.rho = np.where(arity > 1, count / len(self.forests), 1.0)  # [F] in flat order
        size = np.diff(self.layout.factors[:, ENTRY])
        self.tables, self.phi = tables_of(flat.with_log_phi(flat.log_phi / np.repeat(self.rho, size)))
        msg = first_messages(flat, self.layout, False)
        for group in flat.groups:
            if len(group.shape) == 1:
                msg[group.slots[0]] = flat.log_phi[group.entries]  # not normalised: the bound counts it whole
        self.state = message_state(msg, self.layout)
        self.arrays = plain(self.layout), plain(self.tables), plain(self.state)
        self.damping = damping if self.rho.min(initial=1.0) < 1.0 else 0.0
        self.orders = self.layout.order.copy(), self.layout.order[::-1].copy()
        self.sweeps = 0

    def sweep(self, count: int) -> FloatArray:
        """Sweep over all factors `count` times, there and back in turn; [G] change of the last sweep."""
        from equifactor.solvers.messages.schedule_kernels import sweep_in_order

        change = np.zeros(self.flat.num_graphs)
        layout, tables, state = self.arrays
        for _ in range(count):
            change[:] = 0.0
            order = self.orders[self.sweeps % 2]
            sweep_in_order(layout, tables, self.phi, None, self.rho, state, self.damping, -np.inf, order, change)
            self.sweeps += 1
        return change

    @property
    def log_b_v(self) -> FloatArray:
        """[X] sum_a rho_a m_{a->i}, -inf where ruled out."""
        from equifactor.solvers.messages.schedule_kernels import add_up_weighted

        msg, total, zeros = self.state[:3]
        add_up_weighted(self.arrays[0], self.rho, msg, total, zeros)
        return np.where(zeros > 0, -np.inf, total)

    def bound(self) -> FloatArray:
        """[G] mean over the forests of their exact ln Z: an upper bound at any messages."""
        from equifactor.numerics.jit import plain
        from equifactor.solvers.messages.trw_kernels import forest_log_z

        flat, log_b_v, log_z = self.flat, self.log_b_v, np.zeros(self.flat.num_graphs)
        layout = self.arrays[0]
        for forest in self.forests:
            forest_log_z(plain(forest), layout, self.tables.log_phi, self.state.msg, log_b_v, log_z)
        log_z /= len(self.forests)
        for group in flat.groups:
            if not group.shape:
                np.add.at(log_z, flat.graph_of_factor[group.factors], flat.log_phi[group.entries])
        return log_z


def draw_forests(layout: Layout, arity: IntArray, least: int, seed: int) -> tuple[list[Forest], IntArray]:
    """At least `least` random forests that together hold every factor, and how many of them hold each [F].

    The factors held least so far come first, in random order, so that the shares come out even and a graph without
    cycles needs one forest only. Cost O(E) per forest.
    """
    from equifactor.numerics.jit import plain
    from equifactor.solvers.messages.trw_kernels import Forest, choose_forest, orient_forest

    graph = plain(layout)
    rng = np.random.default_rng(seed)
    needed = arity > 1
    count = np.zeros(len(arity), np.int64)
    forests: list[Forest] = []
    while not forests or len(forests) < least or not count[needed].all():
        chosen = choose_forest(np.lexsort((rng.random(len(arity)), count)), graph)
        count += chosen
        forests.append(Forest(*orient_forest(chosen, graph)))
        if count[needed].all() and len(forests) == 1:
            break
    return forests, count
