"""The lower bound as a climb: blocks of growing size, from the best assignment that local search finds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.solvers.bounds.block_field import BlockField

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph import FactorGraph
    from equifactor.solvers.bounds.factor_layers import OrderedScopes
    from equifactor.typing import IntArray

_FIRST_BITS = 8.0  # clusters of the first blocks have at most 256 entries
_BITS_MORE = 2.0  # and four times as many at every step
_SWEEPS = 20  # over all blocks of a field
_GAIN = 1e-4  # a field that gains less in a sweep has settled
_SHARE = 0.25  # of the time left that a new size may take
_SEARCH = 0.1  # share of the time left for the first assignment
_PHASES = 60  # of the local search for it
_SECONDS = 1e-8  # for an entry of a cluster in a sweep


class LowerSide:
    """The best lower bound so far and what it came from.

    Args:
        graph: the model, without observed variables.
        most_bits: log2 of the entries that a cluster may have.
        memory: GiB of tables.
        seed: seed of the search for an assignment.
    """

    def __init__(self, graph: FactorGraph, most_bits: float, memory: float, seed: int) -> None:
        self._graph = graph
        self._most_bits, self._memory, self._seed = most_bits, memory * 2**30, seed
        self.best = -math.inf
        self.finished = False
        self.largest = 0
        self.description = "nothing"
        self.seconds = 0.0  # that it has taken
        self._bits = 0.0
        self._start: IntArray | None = None
        self._cost = 0.0  # seconds of the last round
        self._entries = 0.0  # of all fields in it

    def advance(self, orders: list[tuple[str, OrderedScopes]], clock: Clock) -> None:
        """One round: fields of blocks along each order that is known, larger than before."""
        began = clock.seconds
        if self._start is None:
            self._find_start(clock)
        elif orders:
            self._round(orders, clock)
        self.seconds += clock.seconds - began

    def _round(self, orders: list[tuple[str, OrderedScopes]], clock: Clock) -> None:
        bits = min(max(_FIRST_BITS, self._bits + _BITS_MORE), self._most_bits)
        expected = self._cost + _SECONDS * _SWEEPS * 2.0**_BITS_MORE * self._entries
        if self._bits >= self._most_bits or (self._bits and expected > _SHARE * clock.left):
            self.finished = True
            return
        self._bits = bits
        self._entries = 0.0
        began = clock.seconds
        for name, scopes in orders:
            self._ascend(name, scopes, clock)
        self._cost = clock.seconds - began

    def _find_start(self, clock: Clock) -> None:
        from equifactor.solvers.optimise.local_search import improve

        nowhere = np.zeros(self._graph.num_vars, np.int64)
        states, score = improve(self._graph, nowhere, clock.part(_SEARCH), self._seed, phases=_PHASES)
        self._start = states
        if score == -math.inf:
            self.finished = True
            return
        size = float(np.abs(self._graph.log_phi[np.isfinite(self._graph.log_phi)]).sum())
        self.best = score - 2.0**-52 * self._graph.num_factors * (abs(score) + size)
        self.description = "one assignment"

    def _ascend(self, name: str, scopes: OrderedScopes, clock: Clock) -> None:
        """Sweep over the blocks of one field until it settles."""
        assert self._start is not None
        if clock.stopped:
            return
        field = BlockField(self._graph, scopes, self._bits, self._start)
        self._entries += field.entries
        before = -math.inf
        for _ in range(_SWEEPS):
            for number in range(len(field.blocks)):
                if not field.update(number, clock):
                    return
            bound = field.bound()
            if bound > self.best:
                self.best = bound
                self.largest = field.largest
                self.description = f"{len(field.blocks)} blocks in the order {name!r}"
            if bound < before + _GAIN or len(field.blocks) == 1:
                return
            before = bound
