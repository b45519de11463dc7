"""Work on a Dask cluster. Nothing is kept there: what a dead worker had begun is begun again by another one."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from equifactor.base.errors import ClusterError, LostWorkError, OptionError
from equifactor.evaluation.provenance import code
from equifactor.workers.fleet import Answer, Item, Outcomes

_PATIENCE = 30  # seconds in which a scheduler must answer
_AHEAD = 2  # items under way per thread of the cluster: one is worked on while the next is on its way
_AT_LEAST = 16  # items under way on a cluster that has few workers yet, for those that grow with their work
_COUNT_EVERY = 2.0  # seconds between two looks at how many threads there are

log = logging.getLogger("equifactor")


class DaskFleet:
    """The workers of one Dask scheduler, named by its address (`tcp://host:8786`) or by its scheduler file."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            import distributed  # noqa: F401 - it sets its loggers up, which are then kept quiet
        except ImportError:
            raise OptionError("a cluster needs Dask: install equifactor[cluster]") from None
        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet())
            self.client: Any = _connected(address)
            self._quiet = stack.pop_all()
        self._threads, self._counted = 0, -_COUNT_EVERY

    def __enter__(self) -> DaskFleet:
        if not self._window_now():
            log.info("%s has no workers yet: waiting for the first one (Ctrl-C ends it)", self.address)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.close(timeout=5)
        self._quiet.close()

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """See `equifactor.workers.fleet.Fleet`; a scheduler that is gone raises `ClusterError`."""
        from distributed import as_completed

        waiting = iter(items)
        finished = as_completed(loop=self.client.loop, raise_errors=False)
        busy: dict[str, tuple[Any, Item]] = {}
        try:
            while True:
                room = max(_AT_LEAST, _AHEAD * self._window_now()) - len(busy)
                for item in islice(waiting, max(0, room)):
                    future = self._submitted(work, item)
                    busy[future.key] = future, item
                    finished.add(future)
                if not busy:
                    return
                future = next(finished)
                item = busy.pop(future.key)[1]
                if future.status == "cancelled":
                    raise self._gone()
                yield item, functools.partial(self._result, future)
        finally:
            if busy and self.client.status == "running":
                with contextlib.suppress(Exception):
                    self.client.cancel([future for future, _ in busy.values()], reason="the command has ended")

    def _submitted(self, work: Callable[[Item], Answer], item: Item) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # the size of models is bounded by who ships them
            try:
                # A key of its own: equal items of two commands must not be taken for one.
                return self.client.submit(_performed, work, item, code(), pure=False, key=f"equifactor-{uuid.uuid4()}")
            except (OSError, RuntimeError, CancelledError):
                raise self._gone() from None

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return future.result()
        except KilledWorker:
            raise LostWorkError(f"{self.address}: several workers died with this work: run it again") from None
        except (CancelledError, CommClosedError):
            raise self._gone() from None
        except (ImportError, RuntimeError) as error:
            # A scheduler that cannot read the work says so by a RuntimeError of its own, a worker by an ImportError.
            if isinstance(error, RuntimeError) and "deserialization" not in str(error):
                raise
            raise ClusterError(
                f"{self.address}: its scheduler and workers need the equifactor of this command: install it there"
            ) from None

    def _window_now(self) -> int:
        """The number of threads of the cluster, which may grow and shrink; counted now and then."""
        now = time.monotonic()
        if now - self._counted >= _COUNT_EVERY and self.client.status == "running":
            self._counted = now
            with contextlib.suppress(Exception):  # a dead scheduler shows where futures are waited for
                self._threads = sum(self.client.nthreads().values())
        return self._threads

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"{self.address}: the Dask scheduler is gone; what is finished is kept, and the same command goes on with "
            "the rest"
        )


def _performed(work: Callable[[Item], Answer], item: Item, version: str) -> Answer:
    """The work, on a worker; other code would give other numbers under the name of ours."""
    if code() != version:
        raise ClusterError(
            f"the worker on {socket.gethostname()} has equifactor {code()}, this command is {version}: "
            "install the same version on both and start the worker again"
        )
    return work(item)


def _connected(address: str) -> Any:
    from distributed import Client

    named = {"scheduler_file": address} if _is_file(address) else {"address": address}
    try:
        return Client(**named, timeout=_PATIENCE, set_as_default=False, name="equifactor")
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(f"{address}: no Dask scheduler answers here: {why}") from None


def _is_file(address: str) -> bool:
    """Whether this is a scheduler file rather than an address; one that is still to be written is waited for."""
    path = Path(address)
    if "://" in address or not (path.suffix == ".json" or path.is_file()):
        return False
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if isinstance(json.loads(path.read_text(encoding="utf-8"))["address"], str):
                return True
            why, final = "it names no address", True
        except OSError as error:
            why, final = (error.strerror or str(error)).lower(), not isinstance(error, FileNotFoundError)
        except (ValueError, KeyError, TypeError) as error:  # a ValueError may be half a file
            why, final = "it names no address", not isinstance(error, ValueError)
        if final or time.monotonic() > deadline:
            raise ClusterError(f"{address}: expected the file that `dask scheduler --scheduler-file` writes: {why}")
        time.sleep(0.1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging: what matters of it is said by the one sentence of an error. It is imported before."""
    loud = {
        logger: logger.level
        for name, logger in logging.Logger.manager.loggerDict.items()
        if name.startswith("distributed") and isinstance(logger, logging.Logger)
    }
    for logger in loud:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in loud.items():
            logger.setLevel(level)
