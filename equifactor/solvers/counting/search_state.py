"""One search for the sum of a formula: its arrays, how they grow within a memory limit, and bounds while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.clock import Clock
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.counting import search_arrays as places
from equifactor.solvers.counting.circuit import LiteralCircuit
from equifactor.solvers.counting.search_arrays import SearchArrays
from equifactor.solvers.counting.search_kernels import search

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.counting.formula import WeightedFormula

_MOST_LEARNED = 20_000  # Learned clauses that are kept; half of them are deleted when there are more. Chosen by hand.
_FIRST_CACHE = 2**14  # Sums in the first cache.
_CACHE_BYTES = 40  # Bytes of a cached sum, with its place in the hash table.
_FIRST_ARENA = 2**16  # Numbers in the first arena of the circuit.
_FIRST_WORK = 20_000  # Watches and clauses looked at in the first call: about 2 ms.
_SEED = 32  # Fingerprints of components are the same in every search.


class SumSearch:
    """A search that can be left and taken up again.

    Args:
        formula: the formula.
        priority: [n] how early to decide each variable.
        record: whether to keep the circuit, from which marginals follow.
        memory: bytes for the cache and the circuit.
    """

    def __init__(self, formula: WeightedFormula, priority: FloatArray, *, record: bool, memory: float) -> None:
        self.formula = formula
        self.memory = memory
        units = [next(iter(c)) for c in formula.clauses if len(c) == 1]
        clauses = [sorted(c) for c in formula.clauses if len(c) > 1]
        self.num_given = len(clauses)
        self.outcome = places.PAUSED
        self.is_full = False  # whether the circuit has reached the memory limit
        if any(not clause for clause in formula.clauses) or {x ^ 1 for x in units} & {*units}:
            self.outcome = places.IMPOSSIBLE
        self._work = _FIRST_WORK
        self.arrays = _arrays(formula, clauses, units, priority, record)

    @property
    def log_sum(self) -> float:
        """The log of the sum that was found; `-inf` for a formula without solutions."""
        if self.outcome == places.IMPOSSIBLE:
            return -np.inf
        return float(self.arrays.lv_sum[0, 1]) + self.formula.constant

    @property
    def done(self) -> bool:
        """Whether the sum is known."""
        return self.outcome in (places.FINISHED, places.IMPOSSIBLE)

    @property
    def num_nodes(self) -> int:
        """The number of nodes of the circuit so far."""
        return int(self.arrays.reg[places.NODES])

    @property
    def stats(self) -> dict[str, Any]:
        """Facts about the search."""
        reg = self.arrays.reg
        return {
            "variables": self.formula.num_vars,
            "clauses": self.num_given,
            "decisions": int(reg[places.DECISIONS]),
            "conflicts": int(reg[places.CONFLICTS]),
            "cache_hits": int(reg[places.HITS]),
            "cache_entries": int(reg[places.ENTRIES]),
        }

    def work(self) -> None:
        """Search for about `CALL_SECONDS`; `outcome` tells how it ended."""
        begin = Clock.now()
        self.outcome = search(tuple(self.arrays), self._work)
        seconds = Clock.now() - begin
        if self.arrays.reg[places.FULL]:  # The search ends there at once, so that it does not depend on the time.
            self._make_room_for_sums()
        elif self.outcome == places.PAUSED:
            self._work = int(self._work * min(4.0, max(0.25, CALL_SECONDS / max(seconds, 1e-6)))) + 1
        elif self.outcome == places.NEEDS_CLAUSES:
            self._forget_clauses()
        elif self.outcome == places.NEEDS_ROOM:
            self._set(pool=_longer(self.arrays.pool), side=_longer(self.arrays.side))
        elif self.outcome == places.NEEDS_ARENA:
            if 4 * len(self.arrays.arena) + 8 * len(self.arrays.node_ptr) > self.memory / 4:
                self.is_full = True
                return
            self._set(arena=_longer(self.arrays.arena), node_ptr=_longer(self.arrays.node_ptr))
        if not self.done:
            self.outcome = places.PAUSED

    def bounds(self) -> tuple[float, float]:
        """Return bounds on the log of the sum, from what was searched: what was not lies between 0 and all weights."""
        a = self.arrays
        if self.outcome == places.IMPOSSIBLE:
            return -np.inf, -np.inf
        if self.outcome == places.FINISHED:
            return self.log_sum, self.log_sum
        state, at = int(a.reg[places.STATE]), int(a.reg[places.LEVEL])
        if state != places.NEXT:
            return -np.inf, float(a.free.sum()) + self.formula.constant
        low, high = 0.0, 0.0  # of the component that is searched on the next level
        last = int(a.reg[places.COMPS])
        while True:
            first = int(a.lv[at, places.FIRST])
            rest = float(a.free[a.pool[a.comp_ptr[first] : a.comp_ptr[last]]].sum()) if last > first else 0.0
            low = -np.inf if last > first else low + float(a.lv_sum[at, 1])
            high += float(a.lv_sum[at, 1]) + rest
            if at == 0:
                return low + self.formula.constant, high + self.formula.constant
            last = int(a.lv[at, places.COMP])
            if a.lv[at, places.BRANCH] == 0:
                decision = int(a.trail[a.lv[at, places.TRAIL_AT]])
                own = a.pool[a.comp_ptr[last] : a.comp_ptr[last + 1]]
                other = float(a.free[own].sum()) - float(a.free[decision >> 1]) + float(a.weight[decision ^ 1])
                high = float(np.logaddexp(high, other))
            else:
                low = float(np.logaddexp(low, a.lv_sum[at, 0]))
                high = float(np.logaddexp(high, a.lv_sum[at, 0]))
            at -= 1

    def circuit(self) -> LiteralCircuit:
        """Return the circuit of a search that is done and was recorded."""
        a = self.arrays
        top, count, size = int(a.reg[places.ARENA]), int(a.reg[places.NODES]), int(a.reg[places.SIDE])
        arena = np.concatenate((a.arena[:top], [size, -1], a.side[:size])).astype(np.int32)
        node_ptr = np.append(a.node_ptr[:count], (top, len(arena)))
        return LiteralCircuit(node_ptr, arena, a.weight)

    def _set(self, **arrays: NDArray[Any]) -> None:
        self.arrays = self.arrays._replace(**arrays)

    def _make_room_for_sums(self) -> None:
        """Double the cache, or drop the older half of its sums if the memory is used up."""
        a = self.arrays
        count, size = int(a.reg[places.ENTRIES]), len(a.cache_sum)
        kept = np.arange(count)
        if 2 * size * _CACHE_BYTES <= self.memory / 2:
            size *= 2
        else:
            kept = kept[count // 2 :]
            a.lv[:, places.ENTRIES_AT] = np.maximum(0, a.lv[:, places.ENTRIES_AT] - count // 2)
        head, link = _chains((a.cache_a[kept] & np.uint64(size - 1)).astype(np.int64), size, size)
        names = ("cache_a", "cache_b", "cache_sum", "cache_node")
        self._set(cache_head=head, cache_link=link, **{name: _moved(getattr(a, name), kept, size) for name in names})
        a.reg[places.ENTRIES], a.reg[places.FULL] = len(kept), 0

    def _forget_clauses(self) -> None:
        """Delete half of the learned clauses, or add room for them; those that are reasons stay."""
        a = self.arrays
        count, given = int(a.reg[places.CLAUSES]), self.num_given
        size = np.diff(a.ptr[: count + 1])
        kept = np.ones(count, bool)
        worst = np.lexsort((-np.arange(given, count), size[given:], a.quality[given:count]))
        kept[given + worst[len(worst) // 2 :]] = False
        reasons = a.reason[a.trail[: a.reg[places.TRAIL]] >> 1]
        kept[reasons[reasons >= 0]] = True
        lits = a.lits[: a.ptr[count]][np.repeat(kept, size)]
        new = np.cumsum(kept) - 1
        a.reason[:] = np.where((a.reason >= 0) & (a.reason < count), new[np.clip(a.reason, 0, count - 1)], -1)
        a.lits[: len(lits)] = lits
        left = int(kept.sum())
        a.quality[:left] = a.quality[:count][kept]
        a.ptr[: left + 1] = ptr_of(size[kept])
        a.reg[places.CLAUSES] = left
        watched = np.stack((a.lits[a.ptr[:left]], a.lits[a.ptr[:left] + 1]), axis=1).ravel()
        if 2 * (left - given) > len(a.quality) - given:  # most of them are reasons
            self._set(ptr=np.append(a.ptr, np.zeros_like(a.ptr[1:])), quality=_longer(a.quality))
        if len(a.lits) < a.ptr[left] + 2 * len(a.value) + 8:
            self._set(lits=_longer(a.lits))
        head, link = _chains(watched, len(a.head), 2 * len(self.arrays.quality))
        self._set(head=head, link=link)


def _arrays(
    formula: WeightedFormula, clauses: list[list[int]], units: list[int], priority: FloatArray, record: bool
) -> SearchArrays:
    """Return the arrays of a search that has not begun."""
    n, count = formula.num_vars, len(clauses)
    size = np.array([len(clause) for clause in clauses], np.int64)
    flat = np.array([x for clause in clauses for x in clause], np.int64)
    most = count + _MOST_LEARNED
    ptr = np.zeros(most + 1, np.int64)
    ptr[: count + 1] = ptr_of(size)
    lits = _moved(flat.astype(np.int32), np.arange(len(flat)), len(flat) + 8 * n + 16 * _MOST_LEARNED)
    watched = np.stack((lits[ptr[:count]], lits[ptr[:count] + 1]), axis=1).ravel()
    head, link = _chains(watched, 2 * n, 2 * most)
    occ = np.repeat(np.arange(count, dtype=np.int32), size)[np.argsort(flat >> 1, kind="stable")]
    rng = np.random.default_rng(_SEED)
    mark_a, mark_b = rng.integers(0, 2**64 - 1, (2, 2 * n), np.uint64, endpoint=True) | np.uint64(1)
    reg = np.zeros(places.NUM_REG, np.int64)
    value, trail = np.zeros(2 * n, np.int8), np.zeros(n + 1, np.int32)
    trail[: len(units)] = units
    value[units], value[np.array(units, np.int64) ^ 1] = 1, -1
    reg[places.TRAIL], reg[places.STATE], reg[places.RECORD] = len(units), places.PROPAGATE, record
    reg[places.COMPS], reg[places.TOP], reg[places.CLAUSES] = 1, n, count
    lv, comp_ptr = np.zeros((n + 2, 9), np.int64), np.zeros(2 * n + 4, np.int64)
    lv[0, places.FIRST], lv[0, places.TOP_AT], comp_ptr[1] = 1, n, n
    pool = np.zeros(4 * n + 16, np.int32)
    pool[:n] = np.arange(n)
    act = np.zeros(n + 1)
    act[n] = 1.0
    cache = _FIRST_CACHE
    return SearchArrays(
        reg=reg, weight=formula.log_weights.copy(), prio=np.ascontiguousarray(priority, float), act=act,
        free=np.logaddexp(formula.log_weights[::2], formula.log_weights[1::2]), sign=np.zeros(n, np.int8),
        lits=lits, ptr=ptr, quality=np.zeros(most, np.int32), head=head, link=link,
        occ_ptr=ptr_of(np.bincount(flat >> 1, minlength=n)), occ=occ,
        value=value, level=np.zeros(n, np.int32), reason=np.full(n, -1, np.int32), trail=trail,
        seen=np.zeros(n, np.int8), buffer=np.zeros(2 * n + 2, np.int32), units=np.zeros(n + 1, np.int32),
        pool=pool, comp_ptr=comp_ptr, key_a=np.zeros(2 * n + 4, np.uint64), key_b=np.zeros(2 * n + 4, np.uint64),
        var_stamp=np.zeros(n, np.int64), clause_stamp=np.zeros(count, np.int64), mark_a=mark_a, mark_b=mark_b,
        lv=lv, lv_sum=np.zeros((n + 2, 2)),
        cache_head=np.full(cache, -1, np.int32), cache_link=np.zeros(cache, np.int32),
        cache_a=np.zeros(cache, np.uint64), cache_b=np.zeros(cache, np.uint64), cache_sum=np.zeros(cache),
        cache_node=np.zeros(cache, np.int64), side=np.zeros(8 * n + 16, np.int64),
        arena=np.zeros(_FIRST_ARENA if record else 1, np.int32), node_ptr=np.zeros(_FIRST_ARENA, np.int64),
    )  # fmt: skip


def _chains(bucket: IntArray, num_buckets: int, capacity: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first element of each bucket and the next one of each element; later elements come first."""
    head, link = np.full(num_buckets, -1, np.int32), np.full(capacity, -1, np.int32)
    order = np.argsort(bucket, kind="stable")[::-1]
    own = bucket[order]
    same = own[1:] == own[:-1]
    link[order[:-1][same]] = order[1:][same]
    begins = np.ones(len(own), bool)
    begins[1:] = ~same
    head[own[begins]] = order[begins]
    return head, link


def _moved(values: NDArray[Any], kept: IntArray, size: int) -> NDArray[Any]:
    """Return an array of another size that begins with some of the values."""
    new = np.zeros(size, values.dtype)
    new[: len(kept)] = values[kept]
    return new


def _longer(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of twice the size with the same beginning."""
    return np.concatenate((values, np.zeros_like(values)))
