"""Running work on a Dask cluster. No results are stored there: if a worker dies, another one repeats its work."""

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

from equifactor.base.cores import one_thread
from equifactor.base.errors import ClusterError, LostWorkError, OptionError
from equifactor.workers.code_version import code_version
from equifactor.workers.fleet import Answer, Item, Outcomes

_CONNECT_SECONDS = 30  # Seconds in which a scheduler must answer. Chosen by hand.
_WRITING_SECONDS = 1  # Seconds in which a scheduler writes all of its file, once it has begun. Chosen by hand.
_ITEMS_PER_THREAD = 2  # Items sent per thread of the cluster: a thread works on one while the next one is on its way.
# Items sent to a cluster at least: some clusters start workers only when there is work. Chosen by hand.
_MIN_ITEMS = 16
_COUNT_EVERY = 2.0  # Seconds between two counts of the threads of the cluster. Chosen by hand.

log = logging.getLogger("equifactor")


class DaskFleet:
    """The workers of one Dask scheduler, given by its address (`tcp://host:8786`) or its scheduler file."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            import distributed  # noqa: F401 - this sets up its loggers, which are then silenced
        except ImportError:
            raise OptionError('A cluster needs Dask. Install it with: pip install "equifactor[cluster]"') from None
        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet())
            self.client: Any = _connected(address)
            self._quiet = stack.pop_all()
        self._threads, self._counted = 0, -_COUNT_EVERY

    def __enter__(self) -> DaskFleet:
        if not self._num_threads():
            log.info("%s has no workers yet; waiting for the first one (Ctrl-C stops waiting)", self.address)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.close(timeout=5)
        self._quiet.close()

    def outcomes(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> Outcomes[Item, Answer]:
        """Implement `Fleet.outcomes`. Raises `ClusterError` if the scheduler is gone."""
        from distributed import as_completed

        waiting = iter(items)
        finished = as_completed(loop=self.client.loop, raise_errors=False)
        busy: dict[str, tuple[Any, Item]] = {}
        try:
            while True:
                free = max(_MIN_ITEMS, _ITEMS_PER_THREAD * self._num_threads()) - len(busy)
                for item in islice(waiting, max(0, free)):
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
            warnings.filterwarnings("ignore", "Sending large graph")  # the caller limits the size of models
            try:
                # A unique key, so that equal items of two commands are not merged.
                key = f"equifactor-{uuid.uuid4()}"
                return self.client.submit(_performed, work, item, code_version(), pure=False, key=key)
            except (OSError, RuntimeError, CancelledError):
                raise self._gone() from None

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return future.result()
        except KilledWorker:
            raise LostWorkError(f"{self.address}: several workers died while doing this work. Run it again.") from None
        except (CancelledError, CommClosedError):
            raise self._gone() from None
        except (ImportError, RuntimeError) as error:
            # A scheduler that cannot read the work raises a RuntimeError, a worker an ImportError.
            if isinstance(error, RuntimeError) and "deserialization" not in str(error):
                raise
            raise ClusterError(
                f"{self.address}: the scheduler or a worker cannot load this work. Both need the equifactor version of "
                "this command. Install it there."
            ) from None

    def _num_threads(self) -> int:
        """Return the number of threads of the cluster, which may grow and shrink; counted every two seconds."""
        now = time.monotonic()
        if now - self._counted >= _COUNT_EVERY and self.client.status == "running":
            self._counted = now
            with contextlib.suppress(Exception):  # a dead scheduler is noticed when futures are awaited
                self._threads = sum(self.client.nthreads().values())
        return self._threads

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"{self.address}: the Dask scheduler is gone. Finished work is saved; the same command continues with the "
            "rest."
        )


def _performed(work: Callable[[Item], Answer], item: Item, version: str) -> Answer:
    """Do the work, on a worker. Raise `ClusterError` if its code differs, since its results could differ too."""
    if code_version() != version:
        raise ClusterError(
            f"The worker on {socket.gethostname()} has equifactor {code_version()}, but this command is {version}. "
            "Install the same version on both and restart the worker."
        )
    with one_thread():  # The other threads of the worker have work of their own.
        return work(item)


def _connected(address: str) -> Any:
    from distributed import Client

    named = {"scheduler_file": address} if _is_file(address) else {"address": address}
    try:
        return Client(**named, timeout=_CONNECT_SECONDS, set_as_default=False, name="equifactor")
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(f"{address}: no Dask scheduler answers at this address: {why}") from None


def _is_file(address: str) -> bool:
    """Return whether this is a scheduler file rather than an address; wait for a file that is not yet written."""
    path = Path(address)
    try:
        if "://" in address or not (path.suffix == ".json" or path.is_file()):
            return False
    except (OSError, ValueError):  # a name that no file can have
        return False
    deadline, text = time.monotonic() + _CONNECT_SECONDS, b""
    while True:
        try:
            text = path.read_bytes()
            if isinstance(json.loads(text)["address"], str):
                return True
            why, final = "it has no address", True
        except FileNotFoundError:
            why, final = "no such file or directory", False
        except OSError as error:
            why, final = (error.strerror or str(error)).lower(), True
        except (ValueError, RecursionError):  # A half-written file begins as a whole one does.
            why, final = "it is not JSON", text.lstrip()[:1] not in (b"", b"{")
            deadline = min(deadline, time.monotonic() + _WRITING_SECONDS)
        except (KeyError, TypeError):
            why, final = "it has no address", True
        if final or time.monotonic() > deadline:
            raise ClusterError(f"{address}: this is not a file that `dask scheduler --scheduler-file` writes: {why}.")
        time.sleep(0.1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the loggers of Dask, which must be imported before; errors of this module tell what matters."""
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
