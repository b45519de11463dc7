"""The first upper bound, that of `trw`, sweep by sweep. Its messages also start the layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.kernels.pointers import picked, place_in_row, ptr_of
from equifactor.solvers.messages.trw import Reweighting, TreeReweighted

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.bounds.bucket_partition import Partition
    from equifactor.solvers.bounds.factor_layers import OrderedScopes

_MOST_SWEEPS = 16  # Sweeps between two checks of the clock at most. Halved or doubled: gap within 15 %.


class TreeStart:
    """Tree-reweighted messages on one graph of dense tables: `trw` with its defaults, which can be stopped and resumed.

    Args:
        graph: the model, without observed variables.
        seed: the seed of the forests.
        clock: the clock that ends the drawing of forests; None for no limit.
    """

    def __init__(self, graph: FactorGraph, seed: int, clock: Clock | None = None) -> None:
        from equifactor.graph import compile

        settings = TreeReweighted()
        self.flat = compile(graph)
        self._structure = graph.structure
        self._state = Reweighting(self.flat, settings.forests, settings.damping, seed, clock)
        self._most, self._tolerance = settings.iterations, settings.tolerance
        self._each = 0.0  # seconds of a sweep
        self._change = math.inf
        self.best = math.inf  # the lowest bound so far

    @property
    def settled(self) -> bool:
        """Whether messages no longer change, or `trw` would stop. Without weights for all factors it cannot sweep."""
        state = self._state
        return self._change <= self._tolerance or state.sweeps >= self._most or bool(state.left_out.any())

    def advance(self, clock: Clock) -> None:
        """Sweep until the clock stops or messages settle, at least once unless they have; then update the bound."""
        while not self.settled:
            start = clock.seconds
            # Far from the deadline the number of sweeps does not depend on the clock, so that answers repeat.
            count = min(self._state.sweeps + 1, _MOST_SWEEPS, max(1, int(min(clock.left / max(self._each, 1e-9), 1e9))))
            self._change = float(self._state.sweep(count).max(initial=0.0))
            clock.spend(Seconds.MESSAGE_SWEEP * (self.flat.num_entries + self.flat.num_edge_states) * count)
            self._each = (clock.seconds - start) / count
            if clock.left < self._each:
                break
        self.best = min(self.best, float(self._state.bound()[0]))

    def marginals(self) -> FloatArray:
        """Return [X] probabilities of all states."""
        from equifactor.factors.message_answers import beliefs

        p, _, _ = beliefs(self.flat.var_ptr, self._state.log_b_v)
        return self.flat.marginals(p)[0].values

    def shifts(self, scopes: OrderedScopes, part: Partition) -> FloatArray:
        """Return [L] shifts between the clusters of some layers that give the layers the messages of the trees.

        The model is prod_i exp(b_i) prod_a f_a exp(-rho_a sum_i m_ai) with b_i = sum_a rho_a m_ai. A layer takes its
        share of each of these factors instead of the original ones. Clusters of the same variable then differ by a
        function of that variable alone.
        """
        from equifactor.graph.layout import MSG, SLOT
        from equifactor.solvers.bounds.layer_kernels import shift_clusters

        s, layout = self._structure, self._state.layout
        b, widest = self._state.log_b_v, int(s.card.max(initial=1))
        gone = np.isneginf(b)  # states that tables exclude
        # The messages of the model's edges in order.
        slot = np.repeat(layout.factors[layout.order, SLOT] - s.scope_ptr[:-1], s.arity) + np.arange(s.num_edges)
        card = s.card[s.scope_vars]
        state_ptr = ptr_of(card)
        state = place_in_row(state_ptr)
        message = self._state.state.msg[np.repeat(layout.slots[slot, MSG], card) + state]
        message[gone[np.repeat(s.state_ptr[s.scope_vars], card) + state]] = 0.0
        # Each cluster gives away the messages of its layer's factors, and gets its share of their sum.
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
