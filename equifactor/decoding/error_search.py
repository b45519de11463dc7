"""The engine of the method `search`: pooled first, then a beam search over sets of errors for uncertain shots."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.cores import Crew
from equifactor.decoding.lane_crew import LaneCrew
from equifactor.decoding.lane_engine import LaneEngine
from equifactor.decoding.problem import DecodingProblem, transposed
from equifactor.decoding.shot_store import CHUNK
from equifactor.kernels.pointers import picked, ptr_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.error_search_kernels import ErrorBeam, SearchedCode, SearchedShots
    from equifactor.decoding.methods import SearchDecoding
    from equifactor.decoding.shot_store import ShotStore

_AT_ONCE = 8  # The number of shots that a thread searches between two looks at the clock. Chosen by hand.
_FIRST = 1.0  # The largest gap of a shot that only the search explains: many are wrong. Chosen by hand.
_LARGEST = 1e6  # Infinite gaps count as this one, so that a larger `doubt` means all shots. A convention.
_SEEN = 4096  # The number of sets that explain the syndrome of a shot and are distinguished. Chosen by hand.


class SearchEngine:
    """An engine that decodes by pooled, and then searches the shots whose gap is small for lighter errors.

    The search works on the errors themselves, even if the first decoder works on parts of them.
    """

    def __init__(self, problem: DecodingProblem, method: SearchDecoding) -> None:
        self.first: LaneEngine | LaneCrew = LaneEngine(problem, method)
        self.method = method
        self.problem = DecodingProblem.of(problem.model) if problem.num_links else problem
        self.code: SearchedCode | None = None
        self.beams: list[ErrorBeam | None] = [None]  # one for each thread

    def with_threads(self, threads: int) -> SearchEngine:
        """Return an engine for several threads, which gives the same answers."""
        own = copy.copy(self)
        assert isinstance(self.first, LaneEngine)
        own.first, own.beams = LaneCrew(self.first, threads), [*self.beams, *[None] * (threads - 1)]
        return own

    def _searched_code(self) -> SearchedCode:
        """Return the code as the search reads it, which is made on the first call."""
        from equifactor.decoding.error_search_kernels import SearchedCode

        if self.code is None:
            p = self.problem
            bit_ptr, check_of_bit = transposed(p.check_ptr, p.bit_of_edge, p.num_bits)
            share = np.abs(p.ratio) / np.maximum(1, np.diff(bit_ptr))
            order = np.lexsort((share[p.bit_of_edge], row_of(p.check_ptr)))
            rng = np.random.default_rng(3)
            self.code = SearchedCode(
                p.check_ptr, p.bit_of_edge[order].astype(np.int32), bit_ptr, check_of_bit.astype(np.int32),
                *_neighbours(p.check_ptr, p.bit_of_edge, bit_ptr, check_of_bit), p.flip_keys(),
                rng.integers(1, 2**64, p.num_checks, np.uint64), rng.integers(1, 2**64, p.num_bits, np.uint64),
            )  # fmt: skip
        return self.code

    def _beam(self, thread: int) -> ErrorBeam:
        """Return the states of a thread, which are made on the first call."""
        from equifactor.decoding.error_search_kernels import LEVELS, ErrorBeam

        found = self.beams[thread]
        if found is None:
            p, B = self.problem, self.method.beam
            found = self.beams[thread] = ErrorBeam(
                np.zeros((2, B, -(-p.num_checks // 64)), np.uint64), np.zeros((2, B)), np.zeros((2, B)),
                np.zeros((2, B), np.uint64), np.zeros((2, B), np.uint64), np.zeros((2, B), np.uint64),
                np.zeros((LEVELS + 1, B), np.int32), np.zeros((LEVELS + 1, B), np.int32), np.full(B + 3, -np.inf),
                np.zeros(B, np.int64), np.zeros(B, np.int64), np.zeros(B, np.int32), np.zeros(B, np.int32),
                np.zeros(B), np.zeros(B), np.zeros(B, np.uint64), np.zeros(B, np.uint64),
                np.zeros(2 << (4 * B).bit_length(), np.int32), np.zeros(_SEEN, np.uint64),
                np.zeros(p.num_bits, np.int32), np.zeros(p.num_checks, np.int32), np.zeros(p.num_checks, np.int32),
                np.zeros((2, B, p.num_checks), np.float32), np.zeros(p.num_checks),
            )  # fmt: skip
        return found

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops."""
        self.first.prepare(store)
        if self.problem.num_bits:
            none = np.zeros((0, self.problem.num_checks), np.uint8)
            size = np.zeros((1, self.problem.num_bits), np.float32)
            self._search(none, size, np.zeros(0), np.zeros(0, np.uint64), 0, is_sorted=True)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`.

        When the clock stops, the shots that have begun keep the errors of the first decoder.
        """
        for first in range(0, store.count, CHUNK):
            if clock.stopped:
                store.decoded[first:] = False
                return
            part = store.part(first, min(first + CHUNK, store.count))
            self.first.decode(part, clock, lambda done: None)
            doubtful = (
                part.decoded
                & part.explicable
                & ((np.minimum(part.gap, _LARGEST) < self.method.doubt) | ~part.converged)
            )
            rows = np.flatnonzero(doubtful & (part.iterations > 0))
            if len(rows) and self.problem.num_bits:
                self._search_rows(part, rows, clock, lambda done, first=first: report(first + done))  # type: ignore[misc]
            report(first + part.count)
            if not part.decoded.all():
                store.decoded[first + part.count :] = False
                return

    def _search_rows(self, store: ShotStore, rows: IntArray, clock: Clock, report: Callable[[int], None]) -> None:
        """Search some shots of a chunk, and keep what is found."""
        p = self.problem
        packed, _ = p.syndromes(store.source(0, store.count)[rows])
        self._searched_code()

        def work(thread: int, begin: int, end: int) -> None:
            own = rows[begin:end]
            fired = np.unpackbits(packed[begin:end], axis=1, bitorder="little", count=p.num_checks)
            ratio = p.ratio[None] if store.ratios is None else store.ratios[own][:, : p.num_bits]
            base = ratio < 0.0  # Such bits are set unless the search changes them.
            least = np.minimum(ratio, 0.0).sum(axis=1)
            changed = _parities(base, p.check_ptr, p.bit_of_edge)
            known = np.where(store.converged[own], store.weight[own] - least, np.inf)
            flips = store.flips[own].astype(bool) ^ _parities(base, p.observable_ptr, p.observable_bits)
            words = np.bitwise_xor.reduce(np.where(flips, p.observable_words(), np.uint64(0)), axis=1)
            size = np.abs(ratio).astype(np.float32)
            found = self._search(fired ^ changed, size, known, words, thread, is_sorted=store.ratios is None)
            self._keep(store, own, found, base, least)

        with Crew(len(self.beams)) as crew:
            crew.divide(
                len(rows),
                _AT_ONCE,
                work,
                report=lambda done: report(int(rows[done - 1])),
                stopped=lambda: clock.stopped,
            )

    def _search(
        self, syndrome: NDArray[np.uint8], size: NDArray[np.float32], known: FloatArray, flipped: NDArray[np.uint64],
        thread: int, *, is_sorted: bool,
    ) -> SearchedShots:  # fmt: skip
        """Return the classes found for shots whose lightest known sets have weights and flip observables [C]."""
        from equifactor.decoding.error_search_kernels import (
            CLASSES,
            LEVELS,
            SearchedShots,
            SearchSettings,
            search_shots,
        )
        from equifactor.kernels.jit import plain

        m, count = self.method, len(syndrome)
        settings = SearchSettings(m.beam, float(m.margin), float(m.greed), float(m.surprise), is_sorted)
        weight = np.full((count, CLASSES), np.inf)
        weight[:, 0] = known
        words = np.zeros((count, CLASSES), np.uint64)
        words[:, 0] = flipped
        shots = SearchedShots(
            np.ascontiguousarray(syndrome), np.ascontiguousarray(size), weight, -weight, words,
            np.full((count, CLASSES), -1, np.int32), np.zeros((count, CLASSES, LEVELS), np.int32),
            np.zeros(count, np.int64),
        )  # fmt: skip
        search_shots(plain(self._searched_code()), plain(settings), plain(shots), plain(self._beam(thread)))
        return shots

    def _keep(self, store: ShotStore, rows: IntArray, found: SearchedShots, base: BoolArray, least: FloatArray) -> None:
        """Write the likeliest class of every shot to the store."""
        p = self.problem
        for n, shot in enumerate(rows.tolist()):
            value = found.log_sum[n] if self.method.sums else -found.weight[n]
            store.iterations[shot] += found.work[n]
            k = int(np.argmax(value))
            if value[k] == -np.inf:
                continue
            others = np.delete(value, k).max(initial=-np.inf)
            if others > -np.inf or not store.converged[shot]:
                store.gap[shot] = min(max(0.0, value[k] - others), np.inf if store.converged[shot] else _FIRST)
            if found.length[n, k] < 0:
                continue  # The errors that were known.
            errors = found.errors[n, k, : found.length[n, k]]
            own = base[min(n, len(base) - 1)].copy()
            np.logical_xor.at(own, errors, True)
            store.weight[shot] = found.weight[n, k] + least[min(n, len(least) - 1)]
            store.converged[shot] = True
            for i, (begin, end) in enumerate(zip(p.observable_ptr[:-1], p.observable_ptr[1:], strict=True)):
                store.flips[shot, i] = own[p.observable_bits[begin:end]].sum() % 2
            if len(store.correction):
                store.correction[shot] = 0
                bits = np.packbits(own, bitorder="little")
                store.correction[shot, : len(bits)] = bits


def _parities(bits: BoolArray, ptr: IntArray, members: IntArray) -> BoolArray:
    """Return [C, rows] whether an odd number of the members of each row are set in bits [C, V]."""
    sums = np.cumsum(bits[:, members], axis=1, dtype=np.int64)
    sums = np.concatenate((np.zeros((len(bits), 1), np.int64), sums), axis=1)
    return np.asarray(np.diff(sums[:, ptr], axis=1) % 2 == 1)


def _neighbours(
    check_ptr: IntArray, bit_of_edge: IntArray, bit_ptr: IntArray, check_of_bit: IntArray
) -> tuple[IntArray, NDArray[np.int32]]:
    """Return the checks that share a bit with every check, itself included: pointers [M+1] and checks."""
    near = []
    for begin, end in itertools.pairwise(check_ptr.tolist()):
        near.append(np.unique(check_of_bit[picked(bit_ptr, bit_of_edge[begin:end])[1]]))
    return ptr_of(np.array([len(own) for own in near], np.int64)), np.concatenate(near or [bit_of_edge]).astype(
        np.int32
    )
