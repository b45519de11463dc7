"""One interface for work in this process, by an executor of this machine, or on a Dask cluster.

A fleet takes a function and items and yields each item with its outcome when it is finished. It stores no results:
the caller saves them as they come, and after a restart passes only the items that are still missing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import islice
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Outcomes = Generator[tuple[Item, Callable[[], Answer]], None, None]  # A generator that may be closed early.


class Fleet(Protocol):
    """The interface that `SerialFleet`, `LocalFleet` and `cluster.DaskFleet` implement."""

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """Yield each item, in any order, with a function that returns its result or raises the error of the work.

        Only a limited number of items is taken in advance. Leaving the loop discards the rest.
        """
        ...


class SerialFleet:
    """A fleet that works in this process, one item at a time, when the outcome of the item is called."""

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """Implement `Fleet.outcomes`."""
        for item in items:
            yield item, functools.partial(work, item)


class LocalFleet:
    """A fleet of the threads or processes of an executor, which holds at most `window` items at a time."""

    def __init__(self, executor: Executor, window: int) -> None:
        self.executor = executor
        self.window = window

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """Implement `Fleet.outcomes`."""
        waiting = iter(items)
        busy: dict[Future[Any], Any] = {}
        try:
            while True:
                for item in islice(waiting, self.window - len(busy)):
                    busy[self.executor.submit(work, item)] = item
                if not busy:
                    return
                wait(busy, return_when=FIRST_COMPLETED)
                # Finished items are yielded in the order in which they were submitted.
                for future in [future for future in busy if future.done()]:
                    yield busy.pop(future), future.result
        finally:
            for future in busy:
                future.cancel()


@contextlib.contextmanager
def fleet_at(cluster: str | None, local: Fleet | None = None) -> Iterator[Fleet]:
    """Yield the fleet at the address of a Dask scheduler, or without an address `local`, by default a serial fleet."""
    if not cluster:
        yield local or SerialFleet()
        return
    from equifactor.workers.cluster import DaskFleet

    with DaskFleet(cluster) as fleet:
        yield fleet
