"""The fast path for parity checks and clauses: parallel belief propagation with one log ratio per message.

As in `binary_engine`, a message is `(1, e^lam)`: a unary factor adds its log ratio to its variable. If ratios grow
beyond the range of linear numbers, the general engine continues from the present messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.ratio_rows import LANES
from equifactor.graph.kinds import kind_class
from equifactor.kernels.jit import plain
from equifactor.solvers.messages.binary_engine import unary_factors
from equifactor.solvers.messages.bp_engine import BpAnswers, BpPart, BpSettings
from equifactor.solvers.messages.literal_kernels import BOUND, PART, Literals, signatures, sweep_literals
from equifactor.solvers.messages.numba_engine import NumbaEngine, answers_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.flat_graph import StructuredGroup


def applies_to(flat: FlatGraph[np.ndarray]) -> bool:
    """Return whether all variables are binary, and each factor is a unary table or of a kind that has ratio kernels."""
    if not flat.structured or np.any(np.diff(flat.var_ptr) != 2):
        return False
    if any(len(group.shape) > 1 or np.isneginf(flat.log_phi[group.entries]).any() for group in flat.groups):
        return False
    return all(_numbers(flat, group) is not None for group in flat.structured)


def _numbers(flat: FlatGraph[np.ndarray], group: StructuredGroup) -> FloatArray | None:
    """Return the number that the ratio kernels need of each factor; None if they do not take them."""
    return kind_class(group.kind).ratio_numbers(flat.log_phi[group.entries])


class LiteralEngine:
    """Log ratios of all messages of checks and clauses, block by block, by strips of factors and slot by slot."""

    name = "numba"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings) -> None:
        self.flat = flat
        self.settings = settings
        self.is_max = settings.semiring == "max"
        if "literals" not in flat.cache:  # these index arrays do not depend on the potentials
            flat.cache["literals"] = _Blocks(flat)
        self.blocks: _Blocks = flat.cache["literals"]
        unary = unary_factors(flat)[1][self.blocks.var]
        largest = np.abs(unary).max(initial=0.0)
        self.literals = Literals(
            blocks=self.blocks.rows,
            lam=np.zeros(len(self.blocks.edge)),
            unary=unary,
            reach=np.array([largest, self.blocks.degree, largest]),
            begun=self.blocks.begun,
            place_of_edge=self.blocks.place_of_edge,
            graph_of_factor=self.blocks.graph_of_factor,
            sign_of_edge=self.blocks.sign_of_edge,
            number=self._numbers(),
        )
        self.total = np.repeat(self.literals.unary, 2)  # all messages are 0
        self.side = 0
        self.general: NumbaEngine | None = None

    def _numbers(self) -> FloatArray:
        """Return [F] the field `number` of `Literals`."""
        number = np.zeros(len(self.blocks.factor))
        for group, place in zip(self.flat.structured, self.blocks.places, strict=True):
            number[place] = _numbers(self.flat, group)
        return number

    def sweep(self, count: int) -> FloatArray:
        """Update every message `count` times."""
        if self.general is not None:
            return self.general.sweep(count)
        s, change = self.settings, np.zeros(self.flat.num_graphs)
        check = s.tolerance > 0
        done = sweep_literals(count, plain(self.literals), self.total, self.side, s.damping, self.is_max, change, check)
        self.side = (self.side + done) % 2
        if done < count:
            self._go_general(self.messages())
            assert self.general is not None
            return self.general.sweep(count - done)
        return change if check else np.full_like(change, np.inf)

    def _go_general(self, msg: FloatArray) -> None:
        """Leave these messages [S] to the general engine from now on."""
        if self.general is None:
            self.general = NumbaEngine(self.flat, self.settings)
        pairs = self._pairs(msg)
        self._pairs(self.general.state.msg)[:] = pairs - np.logaddexp(pairs[:, :1], pairs[:, 1:])

    def _pairs(self, msg: FloatArray) -> FloatArray:
        """Return a view [e, 2] of the messages [S] of all factors but unary ones."""
        return msg[min(group.states.start for group in self.flat.structured) :].reshape(-1, 2)

    def messages(self) -> FloatArray:
        """Return [S] log ratios as log messages `(0, lam)`; unary factors send their tables."""
        if self.general is not None:
            return self.general.messages()
        msg = np.zeros(self.flat.num_edge_states)
        for group in self.flat.groups:
            if group.shape == (2,):
                msg[group.slots[0]] = self.flat.log_phi[group.entries]
        self._pairs(msg)[self.blocks.edge - self.blocks.edge.min(), 1] = self.literals.lam
        return msg

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the state of some graphs."""
        return BpPart(self.messages()[self.flat.edge_states_of(graphs)], 0)

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs."""
        msg = self.messages()
        msg[self.flat.edge_states_of(graphs)] = part.messages
        pairs = self._pairs(msg)
        if self.general is None and np.isfinite(pairs).all():
            literals = self.literals
            literals.lam[:] = (pairs[:, 1] - pairs[:, 0])[self.blocks.edge - self.blocks.edge.min()]
            literals.reach[BOUND] = np.inf  # The next sweep measures them.
            self._add_up()
        else:
            self._go_general(msg)

    def rest(self, graphs: IntArray) -> None:
        """Set unary ratios and messages to 0, so that the messages of decoded words do not grow indefinitely."""
        chosen = np.zeros(self.flat.num_graphs, bool)
        chosen[graphs] = True
        literals = self.literals
        literals.unary[chosen[self.flat.graph_of_var[self.blocks.var]]] = 0.0
        literals.lam[chosen[self.flat.graph_of_var[self.flat.var_of_edge[self.blocks.edge]]]] = 0.0
        self._add_up()

    def _add_up(self) -> None:
        """Compute the sums again, in the order of the kernels."""
        self.total = np.repeat(self.literals.unary, 2)
        np.add.at(self.total, self.literals.place_of_edge, self.literals.lam)
        self.side = 0

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs, ln Z, states and bound."""
        return answers_of(self.flat, self.messages(), self.is_max, with_log_z)


class _Blocks:
    """The checks and clauses of a batch by kind and arity: index arrays that do not depend on potentials."""

    def __init__(self, flat: FlatGraph[np.ndarray]) -> None:
        rows, edges, factors, signs = [], [], [], []
        self.places: list[IntArray] = []  # for each structured group the place of each factor among all blocks
        first_edge = first_factor = 0
        for group in flat.structured:
            arity = np.diff(group.edge_ptr)
            place = np.empty(group.num_factors, np.int64)
            for k in np.unique(arity).tolist():
                members = np.flatnonzero(arity == k)
                own = _in_strips(group.edge_ptr[members], k)
                rows.append([group.kind, k, len(members), first_edge, first_factor])
                edges.append(group.edges.start + own)
                signs.append(2 * group.words[own] - 1 if len(group.words) else np.ones(own.size, np.int64))
                factors.append(group.factors[members])
                place[members] = first_factor + np.arange(len(members))
                first_edge, first_factor = first_edge + own.size, first_factor + len(members)
            self.places.append(place)
        self.rows = np.array(rows)
        self.edge = np.concatenate(edges)  # [E] number among the edges of the FlatGraph
        self.factor = np.concatenate(factors)  # [F] batch-wide number
        self.sign_of_edge = np.concatenate(signs).astype(np.int8)
        var_of_edge = flat.var_of_edge[self.edge]
        self.degree = np.bincount(var_of_edge).max(initial=0)  # the largest one
        self.var, self.begun = _by_signature(var_of_edge, flat.num_vars)  # [V] batch-wide number by the engine's own
        place = np.empty(flat.num_vars, np.int32)
        place[self.var] = np.arange(0, 2 * flat.num_vars, 2)
        self.place_of_edge = place[var_of_edge]
        self.graph_of_factor = flat.graph_of_factor[self.factor].astype(np.int32)


def _in_strips(first: IntArray, arity: int) -> IntArray:
    """Return [N * k] the edges of N factors, `LANES` factors at a time and slot by slot within them."""
    whole = len(first) // LANES * LANES
    slots = np.arange(arity)[:, None]
    strips = first[:whole].reshape(-1, 1, LANES) + slots  # [N / LANES, k, LANES]
    return np.concatenate((strips.ravel(), (first[whole:] + slots).ravel()))


def _by_signature(var_of_edge: IntArray, num_vars: int) -> tuple[IntArray, IntArray]:
    """Number the variables so that those whose edges lie in the same parts of the engine's order are neighbours.

    While a part is updated, the sums of its variables are then read and written as whole cache lines that stay in the
    cache. In a random order, nearly every edge of a large graph would fetch a cache line of its own.

    Returns:
        [V] the variable of each new number, and [P] the number of variables whose first edge is in a part or before it.
    """
    num_parts = len(var_of_edge) // PART + 1
    key = np.zeros(num_vars, np.int64)
    signatures(var_of_edge, num_parts, key)
    order = np.argsort(key, kind="stable")
    first = key // (num_parts + 1) ** 2
    return order, np.cumsum(np.bincount(first, minlength=num_parts + 1))[1:]
