"""Commands from a cold start, as multiples of the time that Python takes to start and exit.

Every run is a new process: it imports, reads, solves and writes. Kernels are already compiled and cached.

    python -m benchmarks.cold
    python -m benchmarks.cold --against ../other-checkout    # both, in turn
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks._alternate import HERE, checkout, compared, environment_of, in_turn, spread

PYTHON = "python -c pass"  # the row that the others are divided by


def commands(model: Path) -> dict[str, list[str]]:
    """Return the commands by the name of their row."""
    ours = [sys.executable, "-m", "equifactor"]
    return {
        PYTHON: [sys.executable, "-c", "pass"],
        "equifactor --help": [*ours, "--help"],
        "equifactor solvers": [*ours, "solvers"],
        "equifactor solve grid.uai": [*ours, "solve", str(model)],
        "equifactor solve grid.uai --solver bp": [*ours, "solve", str(model), "--solver", "bp"],
        "equifactor solve grid.uai --task MAP": [*ours, "solve", str(model), "--task", "MAP"],
    }


def measure(model: Path, clock: Callable[[], float], tree: Path) -> dict[str, float]:
    """Return the seconds of one run of each command, outside both checkouts."""
    seconds = {}
    for name, command in commands(model).items():
        start = clock()
        subprocess.run(command, env=environment_of(tree), cwd=model.parent, check=True, capture_output=True)
        seconds[name] = clock() - start
    return seconds


def cpu_of_children() -> float:
    """Return the CPU seconds of all finished child processes."""
    import resource  # finer than os.times, and only on Unix

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command, the best of which counts")
    parser.add_argument("--against", type=checkout, metavar="TREE", help="another checkout, measured in turn")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, for a machine with other work")
    args = parser.parse_args()
    from equifactor import generators, write_graph

    clock = cpu_of_children if args.cpu else time.perf_counter
    trees = [HERE, *([args.against] if args.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "grid.uai"
        write_graph(generators.ising_grid(10, 10, seed=0), model)
        found = in_turn(partial(measure, model, clock), trees, args.rounds)
    head = f"{'command':40} {'s':>7} {'x python':>9} {'spread':>7}"
    print(head + (f" {'other s':>8} {'x python':>9} {'spread':>7} {'ratio':>6}" if args.against else ""))
    start = {tree: min(times[PYTHON]) for tree, times in found.items()}
    least = max(start.values()) / min(start.values()) - 1.0  # Python itself is the same in both
    for row in found[HERE]:
        cells = [f"{row:40}"]
        for tree in trees:
            times = found[tree][row]
            cells.append(f"{min(times):7.3f} {min(times) / start[tree]:9.1f} {spread(times):7.1%}")
        if args.against:
            ratio, _, verdict = compared(found[HERE][row], found[args.against][row], least)
            cells.append(f"{ratio:6.2f} {verdict}")
        print(" ".join(cells).rstrip())


if __name__ == "__main__":
    main()
