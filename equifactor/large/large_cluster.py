"""A large run on the workers of a Dask cluster: Dask starts the processes, which then exchange sums by themselves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equifactor.base.errors import ClusterError, EquifactorError
from equifactor.workers.cluster import DaskFleet

_WAIT = 0.5  # Seconds between two looks at the other processes. Chosen by hand.
_SAID = 2000  # Characters of the last words of a process that an error repeats. Chosen by hand.


@dataclass(frozen=True)
class _ClusterProcess:
    """One process of a run."""

    environment: dict[str, str]
    run: str  # What `work` does, as JSON.
    stop: str  # The name of the event that ends all processes.


def run_on_cluster(address: str, edges: str, output: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Run `large.solve` on a cluster, one process for each worker, as `torchrun` does; return the facts of the run.

    The first worker writes the output, so that files must be on a file system that all workers share. If one process
    fails, the others are ended.

    Args:
        address: the address of a Dask scheduler, or its scheduler file.
        edges: a file.
        output: the file for the beliefs.
        settings: of `large.solve`, with plain values and names of files.

    Raises:
        ClusterError: if a process fails.
    """
    run = json.dumps({"edges": _placed(edges), "output": _placed(output), "settings": _all_placed(settings)})
    with DaskFleet(address) as fleet:
        from distributed import Event, as_completed

        client = fleet.client
        client.wait_for_workers(1)
        workers = sorted(client.nthreads())
        where = client.submit(_meeting_place, workers=[workers[0]], pure=False).result()
        stop = Event(f"equifactor-{uuid.uuid4()}", client=client)
        parts = _parts(workers, where, run, stop.name)
        futures = [
            client.submit(_run, part, workers=[worker], allow_other_workers=False, pure=False)
            for worker, part in zip(workers, parts, strict=True)
        ]
        found = ""
        try:
            for future in as_completed(futures, loop=client.loop, raise_errors=False):
                worker = workers[futures.index(future)]
                if future.status != "finished":
                    raise ClusterError(f"{worker}: this worker died during the run. A checkpoint continues it.")
                status, printed, said = future.result()
                if status:
                    raise ClusterError(f"{worker}: the process ended with status {status}. Its last words: {said}")
                found = printed or found
        finally:
            stop.set()  # Processes that still run end.
    return dict(json.loads(found))


def work() -> None:
    """Run one process: the run is in the first argument, and process 0 writes the beliefs and prints the facts."""
    from equifactor.large.exchange import Exchange, own_device
    from equifactor.large.large_solve import solve

    run = json.loads(sys.argv[1])
    try:
        result = solve(run["edges"], **run["settings"])
    except EquifactorError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    if Exchange(own_device(run["settings"]["device"])).rank == 0:
        result.save(run["output"])
        print(json.dumps(result.facts()))


def _placed(path: str) -> str:
    """Return a whole path: workers run in other folders."""
    return str(Path(path).resolve())


def _all_placed(settings: dict[str, Any]) -> dict[str, Any]:
    names = ("priors", "table_of_edge", "checkpoint")
    return {k: _placed(v) if k in names and isinstance(v, str) else v for k, v in settings.items()}


def _parts(workers: Sequence[str], where: str, run: str, stop: str) -> list[_ClusterProcess]:
    """Return the processes of a run, with the environment variables that `torchrun` sets."""
    hosts = [worker.rpartition("://")[2].rpartition(":")[0] for worker in workers]
    on_host, begun = Counter(hosts), Counter[str]()
    host, _, port = where.rpartition(":")
    parts = []
    for rank, name in enumerate(hosts):
        environment = {
            "RANK": rank, "WORLD_SIZE": len(workers), "LOCAL_RANK": begun[name], "LOCAL_WORLD_SIZE": on_host[name],
            "MASTER_ADDR": host, "MASTER_PORT": port,
        }  # fmt: skip
        begun[name] += 1
        parts.append(_ClusterProcess({key: str(value) for key, value in environment.items()}, run, stop))
    return parts


def _meeting_place() -> str:
    """Return the host and a free port of this worker, where the processes meet."""
    from distributed import get_worker

    host = get_worker().address.rpartition("://")[2].rpartition(":")[0]
    with socket.create_server((host, 0)) as free:
        return f"{host}:{free.getsockname()[1]}"


def _run(part: _ClusterProcess) -> tuple[int, str, str]:
    """Run one process on this worker; return its status, what it printed and its last words."""
    from distributed import Event

    stop: Any = Event(part.stop)
    program = "from equifactor.large.large_cluster import work; work()"
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", program, part.run], env={**os.environ, **part.environment}, stdout=printed,
            stderr=said,
        )  # fmt: skip
        try:
            while process.poll() is None and not stop.is_set():
                time.sleep(_WAIT)
        finally:
            if process.poll() is None:
                process.kill()
        status = process.wait()
        printed.seek(0)
        said.seek(0)
        return status, printed.read(), said.read()[-_SAID:].strip()
