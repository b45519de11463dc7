"""The overhead of a Dask cluster over local processes, at one second per model.

The same runs go in turn to local processes and to the same number of workers of a Dask cluster on this machine. Every
run is a sampler that stops at its limit of one second. The first runs of every process, which load code and kernels, do
not count. Other work on the machine disturbs both sides, but not equally. So the result is the median of the rounds,
and the spread of the rounds shows its precision. The exit status is 1 if a run on the cluster takes more than 5 %
longer.

    python -m benchmarks.fleet                       # two processes, 5 rounds of 16 runs: about two minutes
    python -m benchmarks.fleet --workers 8 --runs 400
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks._venvs import environment
from equifactor.data import Instance
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.worker_pool import run_jobs
from equifactor.formats import write_graph
from equifactor.generators import ising_grid

_SOLVER = "gibbs(samples=1000000000)"  # A solver with far more work than a second allows.
_ALLOWED = 0.05  # The largest overhead of a run on the cluster, as a share. Chosen by hand.


def made_jobs(folder: Path, runs: int, limit: float) -> list[Job]:
    """Return jobs on different models, because equal models would be run once."""
    for n, graph in enumerate(ising_grid(20, 20, seed=0, count=runs)):
        write_graph(graph, folder / f"g{n}.uai")
    instances = [Instance("grids", f"g{n}", folder / f"g{n}.uai") for n in range(runs)]
    return make_jobs(instances, "MAR", [_SOLVER], limit)


def seconds_per_run(jobs: Sequence[Job], workers: int, cluster: str | None) -> float:
    """Return the seconds per run of a worker, measured from the end of its second run to the end of the last run."""
    ends = []
    for _, row in run_jobs(jobs, workers, cluster):
        if row["status"] != "time-limit":
            sys.exit(f"expected a run that stops at its limit, found {row['status']}: {row['message']}")
        ends.append(time.perf_counter())
    first = 2 * workers
    return (ends[-1] - ends[first - 1]) / (len(ends) - first) * workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes, and workers of the cluster (default 2)")
    parser.add_argument("--runs", type=int, default=16, help="runs on each side in a round (default 16)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of both sides (default 5)")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds per run (default 1)")
    args = parser.parse_args()
    if args.runs % args.workers or args.runs < 4 * args.workers:
        parser.error("--runs must be a multiple of --workers, and at least four times --workers.")
    try:
        from distributed import LocalCluster
    except ImportError:
        print("Nothing was measured: this benchmark needs Dask, the extra `cluster`.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        jobs = made_jobs(Path(folder), args.runs, args.limit)
        overheads = []
        with LocalCluster(
            n_workers=args.workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster:
            for _ in range(args.rounds):
                here = seconds_per_run(jobs, args.workers, None)
                there = seconds_per_run(jobs, args.workers, cluster.scheduler_address)
                overheads.append(there / here - 1.0)
                print(f"{args.workers} processes {here:.4f} s per run, Dask workers {there:.4f} s", flush=True)
    middle = median(overheads)
    print(f"{100 * middle:+.1f} %, from {100 * min(overheads):+.1f} to {100 * max(overheads):+.1f} % in the rounds")
    return int(middle > _ALLOWED)


if __name__ == "__main__":
    os.environ.update(environment())
    sys.exit(main())
