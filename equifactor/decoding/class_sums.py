"""The engine of the method `class`: the likeliest flips of the observables, by exact sums over all sets of errors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.decoding.problem import transposed
from equifactor.decoding.shot_priors import CERTAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.decoding.class_sum_kernels import SumProgram
    from equifactor.decoding.methods import ClassDecoding
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_WIDEST = 40  # Orders that need larger tables are not completed: indices have 64 bits. Chosen by hand.
_AT_ONCE = 64  # The number of shots between two looks at the clock. Chosen by hand.


class ClassEngine:
    """An engine that adds up the probabilities of all sets of errors that flip the same observables.

    It is exact. Its time and memory grow with the number of checks that are open at a time, so that it suits codes of
    distance 3 with any number of rounds.
    """

    def __init__(self, problem: DecodingProblem, method: ClassDecoding) -> None:
        self.problem = problem
        if not problem.model.num_observables:
            raise OptionError("The code has no observables, so that the method class has nothing to choose among.")
        self.program, self.width = _program(problem)
        if self.width > method.width:
            raise OptionError(
                f"The method class needs tables of 2^{self.width} entries for this code, and the setting width allows "
                f"2^{method.width}. Use the method search, which compares the classes approximately."
            )

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops."""
        self._sums(np.zeros((0, self.problem.num_checks), np.uint8), self.problem.ratio[None])

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`."""
        p = self.problem
        labels = np.arange(2**p.model.num_observables)[:, None] >> np.arange(p.model.num_observables) & 1
        for first, packed, ratio, _ in store.chunks():
            bits = np.unpackbits(packed, axis=1, bitorder="little", count=p.num_checks)
            for begin in range(0, len(bits), _AT_ONCE):
                if clock.stopped:
                    store.decoded[first + begin :] = False
                    return
                own = p.ratio[None] if store.ratios is None else ratio[begin : begin + _AT_ONCE]
                sums = self._sums(bits[begin : begin + _AT_ONCE], own)
                rows = slice(first + begin, first + begin + len(sums))
                best = np.argmax(sums, axis=1)
                ordered = np.sort(sums, axis=1)
                store.converged[rows] = ordered[:, -1] > -np.inf
                store.flips[rows] = labels[best]
                with np.errstate(invalid="ignore"):  # Both are -inf for a shot that cannot be explained.
                    store.gap[rows] = np.nan_to_num(ordered[:, -1] - ordered[:, -2], nan=0.0, posinf=np.inf)
                # ln P of no error that may or may not have happened.
                nothing = -np.logaddexp(0.0, -own.astype(float)).sum(axis=1, where=np.abs(own) < CERTAIN)
                store.weight[rows] = np.where(store.converged[rows], nothing - ordered[:, -1], 0.0)
                report(rows.stop)

    def _sums(self, syndrome: NDArray[np.uint8], ratio: NDArray[np.floating]) -> FloatArray:
        """Return the log probabilities [C, 2^L] of shots with syndromes [C, M], from log ratios [C, V] or [1, V]."""
        from equifactor.decoding.class_sum_kernels import WIDE, sum_classes
        from equifactor.kernels.jit import plain

        found = np.zeros((len(syndrome), 2**self.problem.model.num_observables))
        probability = np.ascontiguousarray(np.exp(-np.logaddexp(0.0, ratio.astype(float))))
        table = np.zeros((2**self.width if len(syndrome) else 1, WIDE))
        sum_classes(plain(self.program), probability, np.ascontiguousarray(syndrome), table, found)
        return found


def _program(problem: DecodingProblem) -> tuple[SumProgram, int]:
    """Return the steps, and the largest number of observables and open checks.

    The check that opens the fewest others is closed next. Places of closed checks are used again, the lowest first.
    """
    from equifactor.decoding.class_sum_kernels import SumProgram

    p, count = problem, problem.model.num_observables
    if count > _WIDEST:
        return SumProgram(*np.zeros((4, 0), np.int64)), count
    bit_ptr, check_of_bit = transposed(p.check_ptr, p.bit_of_edge, p.num_bits)
    checks = [set(check_of_bit[a:b].tolist()) for a, b in itertools.pairwise(bit_ptr.tolist())]
    bits = [set(p.bit_of_edge[a:b].tolist()) for a, b in itertools.pairwise(p.check_ptr.tolist())]
    flips = np.zeros(p.num_bits, np.int64)
    for n, (a, b) in enumerate(itertools.pairwise(p.observable_ptr.tolist())):
        flips[p.observable_bits[a:b]] ^= 1 << n
    place: dict[int, int] = {}
    steps, left = [], set(range(p.num_checks))
    highest = count
    while left:
        new = {c: len(set().union(*(checks[v] for v in bits[c])) - place.keys()) for c in left}
        own = min(left, key=lambda c: (new[c], c))
        for v in sorted(bits[own], key=lambda v: (len(checks[v] - place.keys()), v)):
            for c in sorted(checks[v] - place.keys()):
                free = set(range(count, count + len(place) + 1)) - set(place.values())
                place[c] = min(free)
            mask = int(flips[v]) | sum(1 << place[c] for c in checks[v])
            highest = max(highest, 1 + max(place.values()))
            steps.append((mask, 1 << (mask.bit_length() - 1), v, 1 << (1 + max(place.values()))))
            for c in checks[v]:
                bits[c].discard(v)
        steps.append((0, 1 << place[own], own, 1 << (1 + max(place.values()))))
        del place[own]
        left.discard(own)
        if highest > _WIDEST:
            break
    unseen = np.flatnonzero((np.diff(bit_ptr) == 0) & (flips != 0))
    steps += [(int(flips[v]), 1 << (int(flips[v]).bit_length() - 1), int(v), 1 << count) for v in unseen]
    return SumProgram(*np.array(steps, np.int64).reshape(-1, 4).T.copy()), highest
