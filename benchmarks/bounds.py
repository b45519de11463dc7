"""The gap between certified bounds on ln Z: `mini-buckets` compared with `trw` above and `meanfield` below.

The program prints the bounds, the gaps and their ratio for every model and time limit. Then it prints medians over the
models at even places of the list and at odd places. So settings can be chosen on one half and judged on the other half.
The memory for exact elimination is 16 MiB by default, so that models of medium width are not solved exactly.

    EQUIFACTOR_DATA=models python -m benchmarks.bounds                      # Grids at 1 and 5 s
    EQUIFACTOR_DATA=models python -m benchmarks.bounds --collection MAR --models Promedus Pedigree --limits 5
    EQUIFACTOR_DATA=models python -m benchmarks.bounds --processor-time     # on a machine that others use too
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import equifactor as ef
from equifactor.base import clock
from equifactor.data import Instance, collection
from equifactor.show.text_tables import aligned

_HEAD = ["model", "s", "trw", "upper", "meanfield", "lower", "gap before", "gap", "ratio", "status"]
_NOISE = 1e-6  # Bounds that differ by less than this are equal. Chosen by hand.


class BoundsRow(NamedTuple):
    """The bounds on one model within one time limit. A missing bound is infinite."""

    model: str
    limit: float
    trees: float
    upper: float
    field: float
    lower: float
    status: str

    @property
    def ratio(self) -> float:
        """Return the gap between the bounds divided by the gap between `trw` and `meanfield`."""
        before, now = self.trees - self.field, self.upper - self.lower
        return now / before if np.isfinite(before) and before > 0.0 else np.nan

    def cells(self) -> list[str]:
        """Return the row as text."""
        numbers = self.trees, self.upper, self.field, self.lower, self.trees - self.field, self.upper - self.lower
        texts = [f"{x:.3f}" if np.isfinite(x) else "-" for x in numbers]
        return [
            self.model,
            f"{self.limit:g}",
            *texts,
            "-" if np.isnan(self.ratio) else f"{self.ratio:.4f}",
            self.status,
        ]


def main() -> None:
    """Print one line per model and time limit, then a summary of each half of the models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collection", default="Grids", help="the collection of models (default %(default)s)")
    parser.add_argument("--models", nargs="*", default=[""], help="only models whose names begin with one of these")
    parser.add_argument("--most", type=int, help="largest number of models for each name, evenly spread")
    parser.add_argument("--limits", type=float, nargs="+", default=[1.0, 5.0], help="time limits in seconds")
    parser.add_argument("--memory", type=float, default=1 / 64, help="GiB of tables (default 1/64)")
    parser.add_argument("--processor-time", action="store_true", help="limits are processor time, not wall time")
    settings = parser.parse_args()
    if settings.processor_time:
        vars(clock)["time"] = SimpleNamespace(perf_counter=time.process_time)
    for graph in (ef.generators.ising_grid(6, 6, seed=0), ef.generators.random_graph(8, 14, card=(2, 4), seed=0)):
        for name in ("mini-buckets(entries=8, iterations=20)", "trw", "meanfield"):
            ef.solve(graph, "PR", name)  # Imports and kernels are loaded outside the limits.
    rows: list[list[BoundsRow]] = []
    for instance in chosen(settings.collection, settings.models, settings.most):
        rows.append([compared(instance, limit, settings.memory) for limit in settings.limits])
        for row in rows[-1]:
            print("  ".join(row.cells()), flush=True)
    print(aligned([_HEAD, *(row.cells() for some in rows for row in some)], right=range(1, 9), rule=True))
    for half, some in (("even", rows[::2]), ("odd", rows[1::2])):
        for n, limit in enumerate(settings.limits):
            print(f"{half} places, {limit:g} s: {summary([row[n] for row in some])}")


def chosen(name: str, prefixes: list[str], most: int | None) -> Iterator[Instance]:
    """Return the models to measure."""
    instances = list(collection(name=name))
    for prefix in prefixes:
        some = [i for i in instances if i.name.startswith(prefix)]
        yield from some[:: max(1, len(some) // most)][:most] if most else some


def compared(instance: Instance, limit: float, memory: float) -> BoundsRow:
    """Return all bounds on one model."""
    graph = instance.graph()
    above = ef.solve(graph, "PR", "trw", time_limit=limit).upper_bound
    below = ef.solve(graph, "PR", "meanfield", time_limit=limit).lower_bound
    got = ef.solve(graph, "PR", f"mini-buckets(memory_limit={memory})", time_limit=limit)
    high = [np.inf if bound is None else bound for bound in (above, got.upper_bound)]
    low = [-np.inf if bound is None else bound for bound in (below, got.lower_bound)]
    return BoundsRow(instance.name, limit, high[0], high[1], low[0], low[1], str(got.status))


def summary(rows: list[BoundsRow]) -> str:
    """Return how often each side is better, and the median and the largest ratio."""
    if not rows:
        return "no models"
    above = np.array([row.trees - row.upper for row in rows])
    below = np.array([row.lower - row.field for row in rows])
    sides = (f"{np.sum(d > _NOISE)} better, {np.sum(d < -_NOISE)} worse" for d in (above, np.nan_to_num(below)))
    ratio = np.array([row.ratio for row in rows if not np.isnan(row.ratio)])
    share = f"ratio {np.median(ratio):.4f} in the median, {ratio.max():.4f} at most" if len(ratio) else "no ratio"
    return f"{len(rows)} models; above {next(sides)}; below {next(sides)}; {share}"


if __name__ == "__main__":
    main()
