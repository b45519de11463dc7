"""Measure error against time for every solver of marginals and of MAP, and draw the front, the least error at a time.

The models have known answers and do not fit easy exact inference: solvers get 16 MiB of tables. The error of marginals
is the mean KL in nats, with a share of 1e-6 of the uniform distribution in each answer, so that it is finite. The error
of MAP is that of the log score, relative to the best known one. An answer after the limit counts as no answer: uniform
marginals, or an error of 1. All clocks count CPU seconds of one core without compiling, so that other programs do not
change a row. Rows are appended to a file. The same command continues there, and true answers are kept in a folder.

It prints two things for each family: the error of `auto` over the least error of a single solver at each limit (both
plus 1e-5), and the limits at which a learned solver is the best single solver. `auto` is tuned on models at even
places, so it prints the models at odd places too.

    python -m benchmarks.front --rows front.jsonl                            # families by generators: hours
    EQUIFACTOR_DATA=folder python -m benchmarks.front --rows front.jsonl     # public models too
    python -m benchmarks.front --rows a.jsonl --families Ising --last 1 --graphs 2
    python -m benchmarks.front --rows front.jsonl --graphs 0 --draw docs/figures   # only print and draw the rows
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef
from benchmarks._front_families import FAMILIES, LEARNED, SOLVERS, Family, limits_from
from benchmarks.constants import by_cpu_clock, read_rows
from equifactor.base.clock import Clock, Compiling
from equifactor.base.cores import THREADS
from equifactor.graph.marginals import Marginals
from equifactor.solvers.elimination import plan_cache

_UNIFORM = 1e-6  # The share of the uniform distribution in each answer.
_FLOOR = 1e-5  # Added to both errors of a ratio: smaller errors do not matter.
_LATE = 1.25, 0.003  # An answer is late after this many times its limit and this many seconds more.
_ASKED = 0.003  # Seconds between two system calls for CPU time.
_WARM_SECONDS = 0.3  # The limit of two first runs that load kernels.
_TWICE = 0.3  # Runs of shorter limits are made twice, and the second one counts: other limits need other kernels.
_ENDING = (
    "bp",
    "loop-bp",
    "trw",
    "meanfield",
    *LEARNED,
)  # Solvers whose answer does not depend on the limit if they end.
_TABLE = 0.01, 0.03, 0.1, 0.3, 1.0, 3.0  # Limits of the table in docs/front.md.
Row = dict[str, Any]


class CpuClock:
    """A time source of CPU seconds that is cheap to read: system calls for CPU time take up to 0.2 ms on some machines.

    It asks the system once in `_ASKED` seconds and counts plain seconds in between, at most `_ASKED` of them.
    """

    def __init__(self) -> None:
        self.cpu, self.asked, self.last = time.process_time(), time.perf_counter(), 0.0

    def __call__(self) -> float:
        now = time.perf_counter()
        if now - self.asked > _ASKED:
            self.cpu, self.asked = time.process_time(), time.perf_counter()
            now = self.asked
        self.last = max(self.last, self.cpu + now - self.asked)
        return self.last


def error_of(result: Any, family: Family, graph: ef.FactorGraph, truth: np.ndarray) -> float:
    """Return the error of a result; that of uniform marginals, or 1 for MAP, if it has no answer."""
    if family.task == "MAP":
        score = getattr(result, "log_score", None)
        return 1.0 if score is None else min(1.0, max(0.0, float(ef.metrics.map_error(min(score, truth), truth))))
    ptr = graph.structure.state_ptr
    uniform = np.repeat(1.0 / np.diff(ptr), np.diff(ptr))
    found = getattr(result, "marginals", None)
    values = uniform if found is None or not np.all(np.isfinite(found.values)) else found.values
    mixed = Marginals((1.0 - _UNIFORM) * values + _UNIFORM * uniform, ptr)
    return float(ef.metrics.kl(Marginals(truth, ptr), mixed, variables=graph.free_vars))


def run(family: Family, model: str, solver: str, limit: float, seed: int) -> tuple[Any, float]:
    """Return the result of a solver, None if it raises an error of the library, and its CPU seconds.

    The model is new to the process: what solvers keep of earlier questions about it does not help.
    """
    graph = family.graph(model)
    plan_cache.__dict__["_known"].clear()
    start, compiled = time.process_time(), Compiling.cpu
    try:
        result = ef.solve(graph, family.task, solver, time_limit=limit, seed=seed)
    except ef.EquifactorError:
        result = None
    return result, time.process_time() - start - (Compiling.cpu - compiled)


@dataclass(frozen=True)
class Job:
    """The rows of one solver on the models of a family, for one process."""

    name: str
    solver: str
    limits: Sequence[float]
    truths: dict[tuple[int, str], Path]  # by the place and name of a model
    known: dict[tuple[str, float], Row]  # by the name of a model and a limit

    def rows(self) -> Iterator[Row]:
        """Measure the rows that are not known.

        A solver that ended by itself before half of a limit, and does not adapt to it, is not run with longer limits.
        """
        family = FAMILIES[self.name]
        warm = False
        for (place, model), file in self.truths.items():
            graph, truth = family.graph(model), np.load(file)
            for limit in self.limits:
                row = self.known.get((model, limit))
                if row is None:
                    for _ in range(0 if warm else 2):
                        run(family, model, self.solver, _WARM_SECONDS, 0)
                    warm = True
                    if limit < _TWICE:
                        run(family, model, self.solver, limit, place)
                    result, seconds = run(family, model, self.solver, limit, place)
                    status = "none" if result is None else result.status.value
                    used = "" if result is None else str(result.stats.get("chosen", ""))
                    row = {"family": self.name, "graph": model, "solver": self.solver, "limit": limit}
                    row |= {"error": error_of(result, family, graph, truth), "seconds": seconds, "status": status}
                    row |= {"chosen": used, "place": place, "nothing": error_of(None, family, graph, truth)}
                    yield row
                ended = row["seconds"] < 0.5 * limit and row["status"] != "time-limit"
                if row["status"] in ("exact", "optimal") or (ended and self.solver.startswith(_ENDING)):
                    break

    def append(self, file: Path) -> None:
        """Append the rows to a file, each with one system call, so that processes may share the file."""
        prepare()
        for row in self.rows():
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


def prepare() -> None:
    """Let all clocks of this process count the CPU time of one thread."""
    os.environ[THREADS] = "1"
    by_cpu_clock()
    Clock.now = Clock.cpu_now = CpuClock()


def jobs_of(name: str, args: argparse.Namespace) -> Iterator[Job]:
    """Return the jobs of a family; true answers are computed first."""
    family, truths = FAMILIES[name], {}
    for place, model in enumerate(family.graphs(args.graphs)):
        if args.places in ("all", ("even", "odd")[place % 2]):
            truths[place, model] = args.cache / name / f"{model.replace('/', '_')}.npy"
            family.truth(model, truths[place, model])
    rows = [r for r in read_rows(args.rows) if r["family"] == name]
    for solver in (s for s in SOLVERS[family.task] if s.startswith(tuple(args.solvers))):
        known = {(r["graph"], r["limit"]): r for r in rows if r["solver"] == solver}
        yield Job(name, solver, limits_from(args.first, args.last), truths, known)


def curves(rows: Sequence[Row], graphs: Sequence[str], limits: Sequence[float]) -> dict[str, np.ndarray]:
    """Return the mean error of each solver at each limit. Before its first answer it has the error of no answer.

    The row at a limit is that of the longest limit up to it: a solver that ended early has no later rows.
    """
    found: dict[str, np.ndarray] = {}
    for solver in dict.fromkeys(r["solver"] for r in rows):
        total = np.zeros(len(limits))
        for graph in graphs:
            own = sorted((r for r in rows if r["solver"] == solver and r["graph"] == graph), key=lambda r: r["limit"])
            errors = []
            for limit in limits:
                before = [r for r in own if r["limit"] <= limit and r["seconds"] <= _LATE[0] * limit + _LATE[1]]
                errors.append(before[-1]["error"] if before else own[0]["nothing"] if own else np.nan)
            total += errors
        found[solver] = total / max(1, len(graphs))
    return found


def ratios(of: dict[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Return the error of `auto` over the least error of a single solver at each limit, and the best single solvers.

    A learned solver is the best one only if its error is less than that of every other single solver.
    """
    single = sorted((s for s in of if not s.startswith("auto")), key=lambda solver: solver.startswith(LEARNED))
    if not single:
        return np.full(len(next(iter(of.values()))), np.nan), ["auto"] * len(next(iter(of.values())))
    errors = np.stack([of[solver] for solver in single])
    best = errors.argmin(axis=0)
    auto = next(
        (values for solver, values in of.items() if solver.startswith("auto")), np.full(errors.shape[1], np.nan)
    )
    return (auto + _FLOOR) / (errors.min(axis=0) + _FLOOR), [single[n] for n in best]


def report(rows: list[Row]) -> None:
    """Print the table of each family."""
    for name in dict.fromkeys(r["family"] for r in rows):
        own = [r for r in rows if r["family"] == name]
        limits = sorted({r["limit"] for r in own})
        for half in ("all", "even", "odd"):
            graphs = list(dict.fromkeys(r["graph"] for r in own if half == "all" or r["place"] % 2 == (half == "odd")))
            if not graphs:
                continue
            of = curves(own, graphs, limits)
            ratio, best = ratios(of)
            if half == "all":
                print(f"\n{name}: {len(graphs)} models; limits in s: {' '.join(f'{x:g}' for x in limits)}")
                for solver, errors in of.items():
                    print(f"  {solver:36}" + " ".join(f"{e:9.2g}" for e in errors))
                span = [x for x, solver in zip(limits, best, strict=True) if solver.startswith(LEARNED)]
                said = f"{min(span):g} to {max(span):g} s" if span else "at no limit"
                print(f"  a learned solver is best: {said}; best: {', '.join(best)}")
            print(f"  {f'auto over the best, {half} places':36}" + " ".join(f"{r:9.2g}" for r in ratio))


def print_table(rows: list[Row]) -> None:
    """Print the Markdown table of docs/front.md: the error of `auto` over the best one, at even and at odd places."""
    print("| family |" + "".join(f" {limit:g} s |" for limit in _TABLE) + " learned |")
    print("|---|" + "---|" * (len(_TABLE) + 1))
    for name in (name for name in FAMILIES if any(r["family"] == name for r in rows)):
        own = [r for r in rows if r["family"] == name]
        cells: list[list[str]] = [[] for _ in _TABLE]
        for odd in range(2):
            graphs = list(dict.fromkeys(r["graph"] for r in own if r["place"] % 2 == odd))
            for cell, ratio in zip(cells, ratios(curves(own, graphs, _TABLE))[0].tolist(), strict=True):
                cell.append("over 1000" if ratio >= 1000.0 else f"{ratio:.{0 if ratio >= 10.0 else 1}f}")
        limits = sorted({r["limit"] for r in own if r["limit"] <= _TABLE[-1]})
        best = ratios(curves(own, list(dict.fromkeys(r["graph"] for r in own)), limits))[1]
        span = [x for x, solver in zip(limits, best, strict=True) if solver.startswith(LEARNED)]
        said = f"{min(span):g} to {max(span):g} s" if span else "-"
        print(f"| {name} | {' | '.join(', '.join(cell) for cell in cells)} | {said} |")


def draw(rows: list[Row], folder: Path) -> None:
    """Draw one picture for each family: the solvers that are within 1.2 times the front somewhere, and `auto`."""
    for name in dict.fromkeys(r["family"] for r in rows):
        own = [r for r in rows if r["family"] == name]
        limits = sorted({r["limit"] for r in own})
        of = curves(own, list(dict.fromkeys(r["graph"] for r in own)), limits)
        least = np.min([e for s, e in of.items() if not s.startswith("auto")], axis=0, initial=np.inf)
        near = {s: e for s, e in of.items() if s.startswith("auto") or np.any(e <= 1.2 * least)}
        draw_family(name, limits, {solver.partition("(memory")[0]: errors for solver, errors in near.items()}, folder)


def draw_family(name: str, limits: Sequence[float], of: dict[str, np.ndarray], folder: Path) -> None:
    """Draw the errors of solvers at the limits; learned solvers are dashed, and `auto` is a thick line."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from equifactor.show.canvas import legend
    from equifactor.show.palette import styles_of

    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    axes = figure.subplots()
    styles = styles_of(sorted(of, key=lambda solver: solver != "auto"))  # Its style is taken first.
    for solver, errors in of.items():
        colour, marker, _ = styles[solver]
        axes.plot(
            limits, np.maximum(errors, _FLOOR), color=colour, marker=marker, ms=5, label=solver,
            lw=2.5 if solver == "auto" else 1.2, ls="--" if solver.startswith(LEARNED) else "-",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="limit in CPU seconds", title=name)
    axes.set_ylabel("relative error of the score" if FAMILIES[name].task == "MAP" else "mean KL in nats")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    legend(axes)
    slug = "-".join(re.findall(r"[a-z0-9]+", name.lower()))
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": slug}):  # Text stays text: a fifth of the size.
        figure.savefig(folder / f"front-{slug}.svg", metadata={"Date": None})


def main() -> None:
    """Measure rows, print what the rows of the file show, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="the file of rows")
    parser.add_argument("--families", nargs="*", default=[""], help="families whose names begin so (default: all)")
    parser.add_argument("--solvers", nargs="*", default=[""], help="solvers whose names begin so (default: all)")
    parser.add_argument("--graphs", type=int, default=4, help="models of each family (default: 4)")
    parser.add_argument("--places", choices=("all", "even", "odd"), default="all", help="which of them (default: all)")
    parser.add_argument("--processes", type=int, default=1, help="processes that measure (default: 1)")
    parser.add_argument("--first", type=float, default=0.003, help="the first limit in seconds (default: 0.003)")
    parser.add_argument("--last", type=float, default=20.0, help="the last limit in seconds (default: 20)")
    parser.add_argument("--table", action="store_true", help="print the table of docs/front.md")
    parser.add_argument("--draw", type=Path, help="draw a picture of each family into this folder")
    kept = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "equifactor" / "front"
    parser.add_argument("--cache", type=Path, default=kept, help=f"the folder of true answers (default: {kept})")
    args = parser.parse_args()
    names = [name for name in FAMILIES if name.startswith(tuple(args.families))]
    jobs = [job for name in names for job in jobs_of(name, args)]
    jobs.sort(key=lambda job: not job.solver.startswith("auto"))  # What is interrupted has the rows that matter most.
    with ProcessPoolExecutor(args.processes, get_context("spawn")) as pool:
        for done in [pool.submit(job.append, args.rows) for job in jobs]:
            done.result()
    rows = [row for row in read_rows(args.rows) if row["family"] in names]
    report(rows)
    if args.table:
        print_table(rows)
    if args.draw:
        draw(rows, args.draw)


if __name__ == "__main__":
    main()
