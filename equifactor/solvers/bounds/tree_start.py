"""The first bound from above: that of `trw`, sweep by sweep, whose messages are a start for layers as well."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import picked, place_in_row, ptr_of
from equifactor.solvers.messages.trw import Reweighting, TreeReweighted

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.bounds.bucket_partition import Partition
    from equifactor.solvers.bounds.factor_layers import OrderedScopes

_MOST_SWEEPS = 16  # between two looks at the clock


class TreeStart:
    """Tree-reweighted messages on one graph of tables: `trw` with its own settings, which can be stopped and go on.

    Args:
        graph: the model, without observed variables.
        seed: seed of the forests.
    """

    def __init__(self, graph: FactorGraph, seed: int) -> None:
        from equifactor.graph import compile

        settings = TreeReweighted()
        self._flat = compile(graph)
        self._structure = graph.structure
        self._state = Reweighting(self._flat, settings.forests, settings.damping, seed)
        self._most, self._tolerance = settings.iterations, settings.tolerance
        self._each = 0.0  # seconds that a sweep takes
        self._change = math.inf
        self.best = math.inf  # the least bound so far
        self.seconds = 0.0  # that all of it took

    @property
    def settled(self) -> bool:
        """Whether nothing is left to gain, or `trw` would stop."""
        return self._change <= self._tolerance or self._state.sweeps >= self._most

    def advance(self, clock: Clock) -> None:
        """Sweep until the clock stops or nothing changes any more, once at least; then look at the bound."""
        began = clock.seconds
        while not self.settled:
            start = clock.seconds
            # Far from the deadline the number of sweeps does not depend on the clock: the same call, the same answer.
            count = min(self._state.sweeps + 1, _MOST_SWEEPS, max(1, int(min(clock.left / max(self._each, 1e-9), 1e9))))
            self._change = float(self._state.sweep(count).max(initial=0.0))
            self._each = (clock.seconds - start) / count
            if clock.left < self._each:
                break
        self.best = min(self.best, float(self._state.bound()[0]))
        self.seconds += clock.seconds - began

    def marginals(self) -> FloatArray:
        """[X] probabilities of all states."""
        from equifactor.factors.message_answers import beliefs

        p, _, _ = beliefs(self._flat.var_ptr, self._state.log_b_v)
        return self._flat.marginals(p)[0].values

    def shifts(self, scopes: OrderedScopes, part: Partition) -> FloatArray:
        """[L] shifts between the clusters of some layers, by which all of them see the messages of the trees.

        The model is prod_i exp(b_i) prod_a f_a exp(-rho_a sum_i m_ai) with b_i = sum_a rho_a m_ai. A layer takes its
        share of each of these factors instead of the original ones: clusters of the same variable then differ by a
        function of it alone.
        """
        from equifactor.graph.layout import MSG, SLOT
        from equifactor.solvers.bounds.layer_kernels import shift_clusters

        s, layout = self._structure, self._state.layout
        b, widest = self._state.log_b_v, int(s.card.max(initial=1))
        gone = np.isneginf(b)  # Tables rule these states out.
        # Messages of the model's edges, one after the other.
        slot = np.repeat(layout.factors[layout.order, SLOT] - s.scope_ptr[:-1], s.arity) + np.arange(s.num_edges)
        card = s.card[s.scope_vars]
        state_ptr = ptr_of(card)
        state = place_in_row(state_ptr)
        message = self._state.state.msg[np.repeat(layout.slots[slot, MSG], card) + state]
        message[gone[np.repeat(s.state_ptr[s.scope_vars], card) + state]] = 0.0
        # Each cluster gives up the messages of its layer's factors, and gets its share of their sum.
        layer, factor = np.nonzero(part.held)
        share = self._state.rho[layout.order][factor] / part.held.sum(axis=0)[factor]
        edge_ptr, edge = picked(s.scope_ptr, factor)
        cluster = part.cluster_of[np.repeat(layer, np.diff(edge_ptr)), scopes.place[s.scope_vars[edge]]]
        value_ptr, value = picked(state_ptr, edge)
        to = np.repeat(cluster * widest, np.diff(value_ptr)) + state[value]
        given = message[value] * np.repeat(np.repeat(share, np.diff(edge_ptr)), np.diff(value_ptr))
        gets = -np.bincount(to, given, minlength=len(part.share) * widest).astype(np.float64).reshape(-1, widest)
        total = np.zeros((s.num_vars, widest))
        total[np.repeat(scopes.place, s.card), place_in_row(s.state_ptr)] = np.where(gone, 0.0, b)
        gets += total[part.bucket_of] / part.share[:, None]
        shift = np.empty(part.num_shifts)
        shift_clusters(part.links, part.link_ptr, part.buckets.dim, gets, shift)
        return shift
