"""Messages through the factors of a batch, in one or several channels.

The tables of a group are [d1, .., dk, F], with the number of the factor last. Without true zeros a sum is computed in
linear numbers, with one exponential and one logarithm per edge state. If a result is so small that parts of it may be
lost, logs are used instead. Messages are right up to a constant per edge, and it is the same for sums and maxima.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.solvers.learned.native.native_wiring import finite, log_total

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.learned.native.native_wiring import NativeWiring

Mode = Literal["linear", "sum", "max"]


class NativeTables:
    """The factors of a batch with log values in any number of channels, and their messages.

    Args:
        wiring: the batch.
        log_phi: [T] or [H, T], in the order of the FlatGraph.
        dtype: of messages through tables; linear numbers need a range that fits.
        both: whether messages of both semirings are asked for.
    """

    def __init__(
        self, wiring: NativeWiring, log_phi: FloatArray, dtype: type = np.float64, *, both: bool = False
    ) -> None:
        self.wiring, self.dtype = wiring, dtype
        self.least = float(np.finfo(dtype).tiny) * 1e8  # Below it, terms that underflowed may matter.
        lead = log_phi.shape[:-1]
        self.tables: list[Any] = []
        for group in wiring.larger:
            table = log_phi[..., group.entries].reshape(*lead, group.num_factors, *group.shape)
            table = np.moveaxis(table, len(lead), -1)
            axes = tuple(range(len(lead), table.ndim - 1))
            self.tables.append((table - finite(table.max(axis=axes, keepdims=True))).astype(dtype, order="C"))
        self.linear: list[Any] | None = None if wiring.has_zeros else [np.exp(t) for t in self.tables]
        self.kinds = (
            _Structured(wiring, log_phi, (False, True) if both else (wiring.is_max,))
            if wiring.flat.structured
            else None
        )

    def messages(self, msg_vf: Any, is_max: bool | None = None) -> Any:
        """Return factor-to-variable messages [.., S2] (Eq. 3 of [Sun21]), each up to a constant."""
        wiring = self.wiring
        is_max = wiring.is_max if is_max is None else is_max
        given = wiring.normalize(msg_vf, True)
        if self.kinds is None and not is_max and self.linear is not None:
            out = self._through(self.linear, np.exp(given.astype(self.dtype)), "linear")
            if not out.size or out.min() > self.least:
                return np.log(out, out=out)
        out = self._through(self.tables, given.astype(self.dtype), "max" if is_max else "sum")
        if self.kinds is not None:
            self.kinds.put(given, out, is_max)
        return out

    def put_pair_features(self, y: Any, out: Any) -> bool:
        """Set `out` [H, S2] to centred and squashed messages by compiled loops; False if they do not apply.

        They apply to pair tables whose linear numbers have a range that fits.
        """
        from equifactor.solvers.learned.native.step_kernels import pair_features

        is_max = self.wiring.is_max
        tables: Any = self.tables if is_max else self.linear
        if tables is None or any(table.ndim != 4 or table.shape[-1] < 16 for table in tables):
            return False
        size = y.shape[1]
        for table, slots in zip(tables, self.wiring.slots, strict=True):
            one, two = (slot.place() for slot in slots)
            found = pair_features(
                y.ravel(), size, table.ravel(), len(y), table.shape[-1], one, two, is_max, out.ravel()
            )
            if not found > self.least:
                return False
        return True

    def _through(self, tables: Sequence[Any], given: Any, mode: Mode) -> Any:
        out = np.empty_like(given)
        for table, slots in zip(tables, self.wiring.slots, strict=True):
            sent = reduced(table, [slot.of(given) for slot in slots], mode)
            for slot, values in zip(slots, sent, strict=True):
                slot.of(out)[:] = values
        return out


def reduced(table: Any, messages: Sequence[Any], mode: Mode) -> Iterator[Any]:
    """Yield the messages [.., d, F] of each slot of tables [.., d1, .., dk, F] from the messages they receive.

    Slot after slot is absorbed into the table and reduced, so the first reduction touches T entries, the next T/d.
    """
    arity, lead = len(messages), messages[0].ndim - 2
    for j in range(arity):
        out = table
        for later in range(arity - 1, j, -1):
            out = _absorb(out, messages[later], lead + later - j, mode)
        yield out
        if j + 1 < arity:
            table = _absorb(table, messages[j], lead, mode)


def _absorb(table: Any, message: Any, axis: int, mode: Mode) -> Any:
    """Combine messages [.., d, F] with tables along one axis and reduce it."""
    lead = message.ndim - 2
    ones = (None,) * (axis - lead), (None,) * (table.ndim - 2 - axis)
    message = message[(slice(None),) * lead + ones[0] + (slice(None), *ones[1])]
    if mode == "linear":
        return np.add.reduce(table * message, axis)
    table = table + message
    return np.maximum.reduce(table, axis) if mode == "max" else log_total(table, False, axis)


class _Structured:
    """Messages of structured factors by the compiled kernels of their kinds, one channel after the other."""

    def __init__(self, wiring: NativeWiring, log_phi: FloatArray, semirings: Sequence[bool]) -> None:
        from equifactor.factors.structured_kernels import kind_rows_of
        from equifactor.graph.layout import layout_of

        self.wiring, self.layout = wiring, layout_of(wiring.flat)
        self.channels = []
        for values in log_phi.reshape(-1, log_phi.shape[-1]):
            # Some kinds lay out their factors by their log values.
            flat = wiring.flat.with_log_phi(np.ascontiguousarray(values, np.float64))
            self.channels.append((flat, {is_max: kind_rows_of(flat, is_max) for is_max in semirings}))
        start = min(group.states.start for group in wiring.flat.structured)
        self.places = np.arange(start, wiring.flat.num_edge_states)  # Their edge states come last.
        self.own = wiring.where[self.places]

    def put(self, given: Any, out: Any, is_max: bool) -> None:
        """Set `out` [.., S2] at the edge states of structured factors, from the scaled messages they receive."""
        from equifactor.solvers.learned.native.native_kernels import all_structured_messages

        size = given.shape[-1]
        rows = zip(self.channels, given.reshape(-1, size), out.reshape(-1, size), strict=True)
        for (flat, kinds), incoming, outgoing in rows:
            q, sent = np.zeros(flat.num_edge_states), np.empty(flat.num_edge_states)
            q[self.places] = incoming[self.own]
            all_structured_messages(self.layout.factors, self.layout.slots, flat.log_phi, kinds[is_max], q, sent)
            outgoing[self.own] = sent[self.places]
