"""Compare equifactor with other libraries on the same work, in one table.

Every peer runs in its own virtual environment and in a fresh process per row, on one thread. A time is the CPU time of
the best of several runs. All figures of a row are measured together, so that their ratio is meaningful. Peers that are
not installed and models that are missing are skipped with a note.

    python -m benchmarks.peers --install                # makes the environments first, about 2 GB
    EQUIFACTOR_DATA=models python -m benchmarks.peers   # with the public UAI models, see docs/data.md
    python -m benchmarks.peers --only batch exact --quick
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import _models
from benchmarks._venvs import PEERS, SCRIPTS, environment, install, python_of

US = "equifactor"
ITERATIONS = 50

# A message goes from a factor of arity 2 or more to one of its variables. Messages are counted as they are passed: 50
# iterations pass each message 50 times. 50 residual sweeps make the same number of updates, the most urgent first.
# SEQMAX of libDAI takes one message at a time, and computes the residuals of all messages that it affects. The public
# models are reduced in the same way for all libraries. Our rows then do the work of `solve`, which observes the
# variables that a zero forces (5 of 70 in rus_20_40_0_1). So fewer messages are passed, and only these are counted.
#
# libDAI has no package. Its figures were measured once on a 2.8 GHz Xeon core (git snapshot 6df66a8, g++ 12 -O3
# -march=native, CPU time, best of several runs). Unary tables are multiplied into a neighbour, so that libDAI passes
# the same messages. Each iteration of libDAI recomputes all beliefs. The figures are millions of messages per second:
# PARALL, PARALL with MAXPROD, and SEQMAX (with SUMPROD) as PARALL divided by the measured factor.
LIBDAI = {
    "grid20x20.f10": (2.2, 2.0, 2.2 / 3.3),
    "grid80x80.f10": (1.4, 1.2, 1.4 / 4.1),
    "rus_20_40_0_1": (1.5, 1.6, 1.5 / 20.5),
    "2_17_s.binary": (2.1, 2.0, 2.1 / 2.5),
    "ObjectDetection_11": (0.76, 0.76, 0.76 / 3.4),
}
# The seconds of HUGIN with MINFILL of libDAI.
LIBDAI_EXACT = {
    "grid10x10.f10": 0.0054,
    "Promedus_24": 0.0032,
    "Pedigree_11": 0.48,
    "Promedus_11": 1.51,
}
LIBDAI_BATCH = 333e-6  # The seconds per graph of libDAI for building, running and computing beliefs.
UAI = {
    "grid10x10.f10": "Grids", "grid20x20.f10": "Grids", "grid80x80.f10": "GridsLarge", "2_17_s.binary": "Segment",
    "rus_20_40_0_1": "DBN", "ObjectDetection_11": "MAR", "Pedigree_11": "MAR", "Promedus_11": "MAR",
    "Pedigree_12": "MAR", "Promedus_12": "MAR", "Promedus_24": "MAR",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row of the table. The work has `count` units, unless an answer reports another number."""

    name: str
    kind: str
    unit: str  # "M msg/s" (more is better), "us/graph" or "s" (less is better)
    peers: tuple[str, ...]
    request: dict[str, Any] = field(default_factory=dict)
    count: float = 1.0
    recorded: dict[str, float] = field(default_factory=dict)  # values measured elsewhere, in the unit
    group: str = ""

    def value(self, answer: dict[str, Any]) -> float:
        """Return the value in the unit of the row."""
        seconds = max(answer["seconds"], 1e-9)
        count = answer.get("count", self.count)
        if self.unit == "M msg/s":
            return count / seconds / 1e6
        return seconds / count * (1e6 if self.unit == "us/graph" else 1.0)


def rows(folder: Path) -> Iterator[Row]:
    """Yield all rows whose models exist. The files of the models are written into the folder."""
    models = _uai_models(folder)
    for name in ("grid80x80.f10", "2_17_s.binary", "rus_20_40_0_1", "ObjectDetection_11"):
        if name not in models:
            continue
        path, messages = models[name]
        request = {"model": str(path), "iterations": ITERATIONS}
        count = float(messages * ITERATIONS)
        parallel, maximum, residual = LIBDAI[name]
        peers: tuple[str, ...]
        for kind, peers, libdai in (
            ("sum-product", ("pgmax", "factorgraph"), parallel),
            ("max-product", ("pgmax",), maximum),
            ("residual sum-product", (), residual),
        ):
            yield Row(f"{kind} BP, {name}", kind, "M msg/s", peers, request, count, {"libDAI (recorded)": libdai}, "bp")
    for same in (True, False):
        path = _models.save(folder, f"batch-{same}", _models.batch(1000, same))
        request = {"model": str(path), "iterations": 10}
        recorded = {"libDAI (recorded)": LIBDAI_BATCH * 1e6}
        what = "4x4 Ising grids" if same else "graphs of different structure"
        peers = ("pgmax", "factorgraph", "pyagrum")
        yield Row(f"1,000 {what}, 10 iterations", "batch", "us/graph", peers, request, 1000, recorded, "batch")
        yield Row(f"1,000 {what}, whole call", "batch-call", "us/graph", (), request, 1000, recorded, "batch")
    yield Row(
        "exact marginals, 5x5 Ising grid", "exact", "s", ("pyagrum", "pgmpy", "cotengra"),
        {"model": str(_ising(folder, 5))}, group="exact",
    )  # fmt: skip
    for name in (
        "grid10x10.f10", "Promedus_24", "Pedigree_11", "Pedigree_12", "Promedus_11", "Promedus_12", "grid20x20.f10"
    ):  # fmt: skip
        if name in models:
            recorded = {"libDAI (recorded)": LIBDAI_EXACT[name]} if name in LIBDAI_EXACT else {}
            request = {"model": str(models[name][0])}
            yield Row(f"exact marginals, {name}", "exact", "s", ("pyagrum", "cotengra"), request, 1, recorded, "exact")
    for name in ("2_17_s.binary", "ObjectDetection_11", "grid10x10.f10"):
        if name in models:
            yield Row(f"MAP proved, {name}", "map", "s", ("pytoulbar2",), {"model": str(models[name][0])}, group="map")
    yield Row(
        "read a UAI file, 5x5 grid", "read", "s", ("pyagrum", "pgmpy"), {"file": str(_file(folder, 5))}, group="read"
    )
    yield Row("read a UAI file, 20x20 grid", "read", "s", ("pyagrum",), {"file": str(_file(folder, 20))}, group="read")


def _uai_models(folder: Path) -> dict[str, tuple[Path, int]]:
    """Return the reduced public models that exist, and their messages per iteration."""
    from equifactor.base.errors import EquifactorError
    from equifactor.data import collection

    try:
        instances = {(i.collection, i.name): i for i in collection()}
    except EquifactorError as error:
        print(f"rows on public models are skipped: {error}")
        return {}
    found = {}
    for name, where in UAI.items():
        if (where, name) not in instances:
            print(f"{name} is missing: its rows are skipped")
            continue
        arrays = _models.reduced(instances[where, name].graph())
        found[name] = _models.save(folder, name, arrays), len(arrays["scope_vars"])
    return found


def _ising(folder: Path, side: int) -> Path:
    from equifactor.generators import ising_grid

    return _models.save(folder, f"ising{side}", _models.reduced(ising_grid(side, side, seed=0)))


def _file(folder: Path, side: int) -> Path:
    from equifactor import write_graph
    from equifactor.generators import ising_grid

    path = folder / f"ising{side}.uai"
    graph = ising_grid(side, side, seed=0)
    write_graph(graph, path)
    return path


def measure(row: Row, who: str, cache: Path, repeats: int, timeout: float) -> dict[str, Any]:
    """Return the answer of one script; a failure is `{"skip": why}`."""
    python = python_of(who, cache)
    if not python.exists():
        return {"skip": "not installed (--install)"}
    request = json.dumps({**row.request, "kind": row.kind, "repeats": repeats})
    command = [str(python), str(SCRIPTS / f"run_{who}.py"), request]
    try:
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"skip": f"no answer in {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"skip": f"fails: {last[:100]}"}
    return json.loads(lines[-1].removeprefix("ANSWER "))


def cold_starts(cache: Path, folder: Path, repeats: int) -> list[tuple[str, str, float | None, str]]:
    """Return the wall times from process start: of imports, and of a command on a small grid with cached kernels."""
    lines: list[tuple[str, str, float | None, str]] = []
    for who, statement in [(US, f"import {US}"), *((p.name, p.imports) for p in PEERS)]:
        if python_of(who, cache).exists():
            wall = _wall([str(python_of(who, cache)), "-c", statement], repeats)
            lines.append(("import", who, wall, statement if statement.startswith("from") else ""))
    model = _file(folder, 10)
    program = (
        "import sys; from equifactor.cli import main; status = main(sys.argv[1:]); "
        "sys.exit(status or 9 * ('torch' in sys.modules))"
    )
    arguments = f"solve {model} --task MAR --solver bp -o {folder / 'x.MAR'}".split()
    command = [str(python_of(US, cache)), "-c", program, *arguments]
    _wall(command, 1)  # compiles where nothing is cached
    lines.append(("equifactor solve, 10x10 grid, bp", US, _wall(command, repeats), "torch is not imported"))
    return lines


def _wall(command: list[str], repeats: int) -> float | None:
    """Return the seconds of the best run; None if it fails."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        if subprocess.run(command, env=environment(), capture_output=True).returncode:
            return None
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _show(name: str, who: str, value: str, ratio: str, note: str) -> None:
    print(f"{name:52} {who:18} {value:>16} {ratio:>9}  {note}".rstrip(), flush=True)


def _ratio(row: Row, ours: float | None, theirs: float) -> str:
    """Return the ratio of speeds: above 1, equifactor is faster."""
    if ours is None:
        return ""
    return f"{ours / theirs if row.unit == 'M msg/s' else theirs / ours:.3g}x"


def _checked(answer: dict[str, Any], right: list[float] | None) -> str:
    """Return the note of a peer, with a remark if its answer differs, because the work was then not the same."""
    note: str = answer.get("note", "")
    found = answer.get("check")
    if right is None or found is None:
        return note
    gap = max(abs(a - b) for a, b in zip(right, found, strict=True))
    return note if gap < 1e-3 else f"{note}; OTHER ANSWER, by {gap:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make or complete the environments of the peers first")
    parser.add_argument("--cache", type=Path, default=Path(".venv-peers"), help="folder of the environments")
    parser.add_argument("--only", nargs="+", metavar="GROUP", help="some of bp, batch, exact, map, read, start")
    parser.add_argument("--repeats", type=int, default=5, help="runs, the best of which counts (default 5)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per peer and row (default 120)")
    parser.add_argument("--quick", action="store_true", help="two runs each")
    parser.add_argument("-o", "--output", type=Path, help="also write the values as JSON")
    args = parser.parse_args()
    cache, repeats = args.cache.resolve(), 2 if args.quick else args.repeats
    for peer in PEERS if args.install else ():
        why = install(peer, cache, 400.0)
        print(f"{peer.name}: {why or 'installed'}", flush=True)
    values: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        todo = list(rows(Path(scratch)))
        _show("work", "who", "value", "ratio", "(how many times better equifactor is)")
        for row in todo:
            if args.only and row.group not in args.only:
                continue
            ours: float | None = None
            right: list[float] | None = None
            for who in (US, *row.peers):
                answer = measure(row, who, cache, repeats, args.timeout)
                if "skip" in answer:
                    _show(row.name if who == US else "", who, "-", "", answer["skip"])
                    continue
                value = row.value(answer)
                ours = value if who == US else ours
                right = answer.get("check") if who == US else right
                ratio = "" if who == US else _ratio(row, ours, value)
                note = _checked(answer, right)
                _show(row.name if who == US else "", who, f"{value:.4g} {row.unit}", ratio, note)
                values.append({"row": row.name, "who": who, "value": value, "unit": row.unit})
            for who, value in row.recorded.items():
                _show("", who, f"{value:.4g} {row.unit}", _ratio(row, ours, value), "another run, see the source")
        if not args.only or "start" in args.only:
            for name, who, wall, note in cold_starts(cache, Path(scratch), repeats):
                _show(f"cold start: {name}", who, "fails" if wall is None else f"{wall:.3f} s wall", "", note)
                values.append({"row": f"cold start: {name}", "who": who, "value": wall, "unit": "s wall"})
    if args.output:
        args.output.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.update(environment())
    main()
