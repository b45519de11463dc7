"""Compare two checkouts on the same work, in turn, and name rows that are slower by more than the spread.

Each round runs all rows in a new process per checkout, on one thread. A time is CPU time, the best of several runs
after a first run that loads the kernels. The figure of a row is the best of all rounds. The exit status is 1 when a row
is slower by more than the spread.

    python -m benchmarks.compare ../other-checkout
    python -m benchmarks.compare ../other-checkout --rounds 9 --only "bp" "exact"
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 0.1  # The time spent on a row in each round, if three runs do not take longer. Chosen by hand.
EDGES = ("1e3", "1e5")  # The sizes for `benchmarks.scaling`, which runs in the version of each checkout.


def rows(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the work by name. It uses only public names that every version has."""
    import equifactor as ef

    grid = ef.generators.ising_grid
    small, middle, large = grid(5, 5, seed=0), grid(10, 10, seed=0), grid(20, 20, seed=0)
    many = grid(4, 4, seed=0, count=1000)
    ragged = ef.generators.random_graph(30, 40, arity=(1, 3), card=(2, 4), seed=0)
    questions = [{v: 0} for v in range(25)] * 8
    code = ef.decoding.bicycle_code("bb72", 0.03)
    ef.write_graph(large, folder / "large.uai")
    return {
        "exact MAR, 10x10": lambda: ef.solve(middle, "MAR", "exact"),
        "exact MAR, 1,000 of 4x4": lambda: ef.solve(many, "MAR", "exact"),
        "exact MAR, 200 rows of evidence": lambda: ef.solve(middle, "MAR", "exact", evidence=questions, targets=[99]),
        "exact, 1,000 samples, 10x10": lambda: ef.sample(middle, 1000, seed=0),
        "bp MAR, 20x20": lambda: ef.solve(large, "MAR", "bp(damping=0.5, iterations=100, tolerance=0)"),
        "bp MAR, residual, 20x20": lambda: ef.solve(large, "MAR", "bp(schedule=residual, iterations=50)"),
        "bp MAR, sequential, 20x20": lambda: ef.solve(large, "MAR", "bp(schedule=sequential, iterations=50)"),
        "bp MAR, ragged": lambda: ef.solve(ragged, "MAR", "bp(damping=0.5, iterations=100, tolerance=0)"),
        "bp MAR, 1,000 of 4x4": lambda: ef.solve(many, "MAR", "bp(damping=0.5, iterations=10, tolerance=0)"),
        "bp MAP, 20x20": lambda: ef.solve(large, "MAP", "bp(damping=0.5, iterations=100, tolerance=0)"),
        "trw PR, 10x10": lambda: ef.solve(middle, "PR", "trw(iterations=50)"),
        "trw PR, ragged": lambda: ef.solve(ragged, "PR", "trw(iterations=50)"),
        "meanfield MAR, 10x10": lambda: ef.solve(middle, "MAR", "meanfield"),
        "gibbs MAR, 5x5": lambda: ef.solve(small, "MAR", "gibbs"),
        "blocks MAR, 5x5": lambda: ef.solve(small, "MAR", "blocks(enumerate=false, sweeps=20, memory_limit=1e-6)"),
        "conditioning PR, 10x10": lambda: ef.solve(middle, "PR", "conditioning(memory_limit=1e-6)"),
        "mplp MAP, 10x10": lambda: ef.solve(middle, "MAP", "mplp(iterations=100)"),
        "srmp MAP, 10x10": lambda: ef.solve(middle, "MAP", "srmp(iterations=100)"),
        "branch MAP, 5x5": lambda: ef.solve(small, "MAP", "branch"),
        "local-search MAP, 5x5": lambda: ef.solve(small, "MAP", "local-search"),
        "beam MAP, 10x10": lambda: ef.solve(middle, "MAP", "beam"),
        "auto MAR, ragged": lambda: ef.solve(ragged, "MAR"),
        "auto MAP, 10x10": lambda: ef.solve(middle, "MAP"),
        "fe-nbp MAR, 100 of 4x4": lambda: ef.solve(many[:100], "MAR", "fe-nbp"),
        "fe-net MAR, 100 of 4x4": lambda: ef.solve(many[:100], "MAR", "fe-net"),
        "decode, relay, 1,000 shots": lambda: ef.decoding.Decoder(code, method="relay").logical_error_rate(1000),
        "read a file, 20x20": lambda: ef.read_graph(folder / "large.uai"),
        "graph_hash, 10x10": lambda: getattr(ef, "symmetry", ef).graph_hash(middle),
    }


def measure_here(only: list[str]) -> dict[str, float]:
    """Return the CPU seconds of the rows whose names contain one of the words."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in rows(Path(folder)).items():
            if only and not any(word in name for word in only):
                continue
            work()
            times: list[float] = []
            while len(times) < 3 or sum(times) < SECONDS:
                start = time.process_time()
                work()
                times.append(time.process_time() - start)
            seconds[name] = min(times)
    return seconds


def measure(tree: Path, only: list[str]) -> dict[str, float]:
    """Measure all rows in new processes that import `equifactor` from a checkout."""
    from benchmarks._alternate import environment_of

    def run(*arguments: str) -> dict[str, float]:
        command = [sys.executable, *arguments]
        own = {
            **environment_of(tree),
            "EQUIFACTOR_PLAIN": "0",
        }  # kernels, also where NumPy would be quicker than loading
        done = subprocess.run(command, env=own, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    # -P keeps the folder of this file off the path, since the checkout may be the other one.
    found = run("-P", __file__, str(tree), "--measure", "--only", *only)
    for edges in EDGES if not only or "scaling" in only else ():
        row = run("-m", "benchmarks.scaling", "--measure", edges, "--solver", "bp(damping=0.5, tolerance=0)")
        found |= {
            f"scaling, {edges} edges, iteration": row["seconds"],
            f"scaling, {edges} edges, compile": row["compile"],
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", metavar="TREE", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=7, help="times that each checkout is measured (default 7)")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="rows whose names contain a word")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_here(args.only)))
        return 0
    from benchmarks._alternate import HERE, checkout, compared, in_turn

    other = checkout(args.other)
    found = in_turn(lambda tree: measure(tree, args.only), [HERE, other], args.rounds)
    print(f"{'row':36} {'this s':>10} {'other s':>10} {'ratio':>6} {'spread':>7}")
    slower = 0
    for row, times in found[HERE].items():
        ratio, noise, verdict = compared(times, found[other][row])
        slower += verdict == "SLOWER"
        line = f"{row:36} {min(times):10.3e} {min(found[other][row]):10.3e} {ratio:6.2f} {noise:7.1%} {verdict}"
        print(line.rstrip(), flush=True)
    print(f"{slower} rows slower by more than the spread (lower quartile over minimum, the larger of both checkouts)")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
