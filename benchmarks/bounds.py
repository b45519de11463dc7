"""How far apart certified bounds on ln Z are: `mini-buckets` beside `trw` above and `meanfield` below.

For every model and time limit, the distance of each bound from the known ln Z where there is one, and the gap. The
memory for exact elimination is limited to 16 MiB by default, so that models of medium width are not simply solved.

    EQUIFACTOR_DATA=models python -m benchmarks.bounds                      # Grids at 1, 5 and 20 s
    EQUIFACTOR_DATA=models python -m benchmarks.bounds --limits 5 --collection DBN --memory 1
"""

from __future__ import annotations

import argparse

import equifactor as ef
from equifactor.data import collection
from equifactor.text_tables import aligned


def main() -> None:
    """Print one line per model and time limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collection", default="Grids", help="which models (default %(default)s)")
    parser.add_argument("--limits", type=float, nargs="+", default=[1.0, 5.0, 20.0], help="time limits in seconds")
    parser.add_argument("--memory", type=float, default=1 / 64, help="GiB of tables (default 1/64)")
    settings = parser.parse_args()
    solver = f"mini-buckets(memory_limit={settings.memory})"
    warm = ef.generators.ising_grid(6, 6, seed=0)
    for name in ("mini-buckets(entries=8, iterations=20)", "trw", "meanfield"):
        ef.solve(warm, "PR", name)  # Imports and kernels are loaded outside of the limits.
    rows = []
    for instance in collection(name=settings.collection):
        graph = instance.graph()
        truth = instance.log_z
        for limit in settings.limits:
            above = ef.solve(graph, "PR", "trw", time_limit=limit).upper_bound
            below = ef.solve(graph, "PR", "meanfield", time_limit=limit).lower_bound
            got = ef.solve(graph, "PR", solver, time_limit=limit)
            before = None if above is None or below is None else above - below
            rows.append([
                instance.name, f"{limit:g}", _from(got.lower_bound, truth), _from(got.upper_bound, truth),
                _number(got.gap), _number(before), _ratio(got.gap, before), str(got.status),
            ])  # fmt: skip
            print("  ".join(rows[-1]), flush=True)
    head = ["model", "s", "lower", "upper", "gap", "trw-meanfield", "ratio", "status"]
    print(aligned([head, *rows], right=range(1, 7), rule=True))


def _from(bound: float | None, truth: float | None) -> str:
    """A bound as its distance from the truth, or itself where that is not known."""
    return "-" if bound is None else f"{bound:.2f}" if truth is None else f"{bound - truth:+.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ratio(gap: float | None, before: float | None) -> str:
    return "-" if gap is None or not before else f"{gap / before:.4f}"


if __name__ == "__main__":
    main()
