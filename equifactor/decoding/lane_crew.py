"""Engines that decode the shots of one call in several threads; compiled loops release the GIL."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.cores import Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from equifactor.decoding.lane_engine import LaneEngine
    from equifactor.decoding.shot_store import ShotStore

FEWEST_SHOTS = 64  # Shots for each thread: fewer would end before the other threads have begun. Chosen by hand.
_LEAST = 16  # Shots that a thread takes together at first, as many as it has lanes.
_SECONDS = 0.02  # A thread takes twice as many shots if they take less time than this, and half if twice the time.


class LaneCrew:
    """An engine for several threads, each of which decodes 16 shots at a time; their number does not change answers."""

    def __init__(self, engine: LaneEngine, threads: int) -> None:
        self.engines = [engine, *(engine.twin() for _ in range(threads - 1))]

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops."""
        self.engines[0].prepare(store)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`.

        If the clock stops, the threads have taken shots up to different places. Only the shots before the first that no
        thread has begun count.
        """
        waiting = _WaitingShots(store)
        views = [_view(store, waiting) for _ in self.engines]

        def work(thread: int) -> None:
            self.engines[thread].decode(views[thread], clock, report if thread == 0 else lambda done: None)

        with Crew(len(self.engines)) as crew:
            crew.run(work, waiting.close)
        end = min(1 + int(np.flatnonzero(view.decoded | view.undecided).max(initial=-1)) for view in views)
        for view in views:
            store.undecided[:end] |= view.undecided[:end]
        store.decoded &= ~store.undecided
        store.decoded[end:] = False
        report(end)


class _WaitingShots:
    """The shots of a store that no thread has taken yet."""

    def __init__(self, store: ShotStore) -> None:
        self.store, self.source, self.lock = store, store.chunks(), threading.Lock()
        self.rest: tuple[int, np.ndarray, np.ndarray] | None = None

    def take(self, count: int) -> tuple[int, np.ndarray, np.ndarray] | None:
        """Return the first, the syndromes and the log ratios of up to `count` shots, or None after the last one."""
        with self.lock:
            if self.rest is None:
                chunk = next(self.source, None)
                if chunk is None:
                    return None
                self.rest = chunk[:3]
            first, packed, ratio = self.rest
            common = self.store.ratios is None
            left = packed[count:], ratio if common else ratio[count:]
            self.rest = (first + count, *left) if len(left[0]) else None
            return first, packed[:count], ratio if common else ratio[:count]

    def close(self) -> None:
        """Let no thread take further shots."""
        with self.lock:
            self.source, self.rest = iter(()), None


def _view(store: ShotStore, waiting: _WaitingShots) -> ShotStore:
    """Return the store for one thread: it reads shots that no other thread has taken, and notes where it stopped."""
    view: Any = copy.copy(store)
    view.decoded, view.undecided = np.ones(store.count, bool), np.zeros(store.count, bool)

    def chunks() -> Iterator[tuple[int, np.ndarray, np.ndarray, bool]]:
        size = _LEAST
        while (taken := waiting.take(size)) is not None:
            begin = Clock.now()
            yield *taken, True
            seconds = Clock.now() - begin
            size = 2 * size if seconds < _SECONDS else max(_LEAST, size // 2) if seconds > 2.0 * _SECONDS else size
        nothing = np.zeros((0, -(-store.problem.num_checks // 8)), np.uint8)
        yield store.count, nothing, np.zeros((1, store.problem.num_bits), np.float32), False

    view.chunks = chunks
    return view
