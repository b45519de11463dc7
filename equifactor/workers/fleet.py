"""Where work is done: in this process, by an executor of this machine, or on a Dask cluster, behind one interface.

A fleet takes a function and items and gives back each item with its outcome as it is finished. It holds no state that
matters: whoever uses it keeps results as they come, and gives it only what is missing when it starts again.
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
Outcomes = Generator[tuple[Item, Callable[[], Answer]], None, None]  # may be closed before its end


class Fleet(Protocol):
    """What runs work: `SerialFleet` and `LocalFleet` here, `DaskFleet` in `equifactor.workers.cluster`."""

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """Yield each item with a function that returns its result, or raises what the work raised; in any order.

        Items are taken as they are needed, so that a bounded number is under way. Leaving the loop drops the rest.
        """
        ...


class SerialFleet:
    """Work in this process, one item after the other; an item is done when its outcome is asked for."""

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """See `Fleet`."""
        for item in items:
            yield item, functools.partial(work, item)


class LocalFleet:
    """Work by the threads or processes of an executor, with at most `window` items handed to it at a time."""

    def __init__(self, executor: Executor, window: int) -> None:
        self.executor = executor
        self.window = window

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """See `Fleet`."""
        waiting = iter(items)
        busy: dict[Future[Any], Any] = {}
        try:
            while True:
                for item in islice(waiting, self.window - len(busy)):
                    busy[self.executor.submit(work, item)] = item
                if not busy:
                    return
                wait(busy, return_when=FIRST_COMPLETED)
                # Those that are finished by now come in the order in which they were handed out.
                for future in [future for future in busy if future.done()]:
                    yield busy.pop(future), future.result
        finally:
            for future in busy:
                future.cancel()


@contextlib.contextmanager
def fleet_at(cluster: str | None, local: Fleet | None = None) -> Iterator[Fleet]:
    """The fleet at the address of a Dask scheduler; without an address the local one, which is serial by default."""
    if not cluster:
        yield local or SerialFleet()
        return
    from equifactor.workers.cluster import DaskFleet

    with DaskFleet(cluster) as fleet:
        yield fleet
