"""Commands from a cold start, as multiples of `python -c "import numpy"` in the same run.

Every run is a new process: it imports, reads, solves and writes.

    python -m benchmarks.cold                                # kernels are compiled and cached
    python -m benchmarks.cold --empty                        # and first ever calls: nothing is compiled yet
    python -m benchmarks.cold --limits 1,5,20                # how late solvers are without kernels; --cpu, --solvers
    python -m benchmarks.cold --against ../other-checkout    # both, in turn

The share of compiling in a run of the tests is in the last lines that `make test` prints.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks._alternate import HERE, Times, checkout, compared, environment_of, in_turn, spread

NUMPY = "import numpy"  # the row that the others are divided by
_QUIET = {"EQUIFACTOR_BACKGROUND": "0"}  # no process compiles beside the measurement


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands by the name of their row; `folder` holds the models of `write_models`."""
    ours = [sys.executable, "-m", "equifactor"]
    grid, chain, large = (str(folder / name) for name in ("grid.uai", "narrow.uai", "large.uai"))
    rows = {
        NUMPY: [sys.executable, "-c", "import numpy"],
        "import equifactor": [sys.executable, "-c", "import equifactor"],
        "--help": [*ours, "--help"],
        "solvers": [*ours, "solvers"],
        "info, 8x8": [*ours, "info", grid],
        "solve, 8x8": [*ours, "solve", grid],
        "solve --task MAP, 8x8": [*ours, "solve", grid, "--task", "MAP"],
        "solve --solver bp, 8x8": [*ours, "solve", grid, "--solver", "bp"],
        "solve, 8x125": [*ours, "solve", chain],
        "solve --task MAP, 8x125": [*ours, "solve", chain, "--task", "MAP"],
        "solve --solver bp, 8x125": [*ours, "solve", chain, "--solver", "bp"],
        "solve --query, network": [*ours, "solve", str(folder / "network.uai"), "--query", "5,6", "-e", "0=0"],
        "solve --time-limit 10, 30x30": [*ours, "solve", large, "--time-limit", "10"],
        "solve --task MAP --time-limit 10": [*ours, "solve", large, "--task", "MAP", "--time-limit", "10"],
        "sample -n 100, 8x8": [*ours, "sample", grid, "-n", "100", "-o", str(folder / "samples.csv")],
        "decode --sample 100, bb72": [*ours, "decode", "bb72", "--prior", "0.03", "--sample", "100"],
    }
    if (folder / "surface.dem").exists():
        rows["decode --sample 100, surface d5"] = [*ours, "decode", str(folder / "surface.dem"), "--sample", "100"]
    return rows


def write_models(folder: Path) -> None:
    """Write the models that the commands read."""
    from equifactor import generators, write_graph

    write_graph(generators.ising_grid(8, 8, seed=0), folder / "grid.uai")
    write_graph(generators.ising_grid(8, 125, seed=0), folder / "narrow.uai")
    write_graph(generators.ising_grid(30, 30, seed=0), folder / "large.uai")
    write_graph(generators.random_tree(40, card=(2, 4), seed=0), folder / "network.uai")
    with contextlib.suppress(ImportError):
        import stim

        circuit = stim.Circuit.generated(
            "surface_code:rotated_memory_z", distance=5, rounds=5, after_clifford_depolarization=0.005
        )
        circuit.detector_error_model().to_file(folder / "surface.dem")


def measure(folder: Path, clock: Callable[[], float], empty: bool, tree: Path) -> dict[str, float]:
    """Return the seconds of one run of each command, outside both checkouts.

    Args:
        folder: holds the models.
        clock: tells the time.
        empty: whether every command gets an empty folder for its kernels; then rows with a time limit are run too.
        tree: the checkout.
    """
    seconds = {}
    for name, command in commands(folder).items():
        if not empty and "--time-limit" in command:
            continue
        with tempfile.TemporaryDirectory() as kernels:
            own = {"NUMBA_CACHE_DIR": kernels} if empty else {}
            start = clock()
            subprocess.run(
                command, env={**environment_of(tree), **_QUIET, **own}, cwd=folder, check=True, capture_output=True
            )
            seconds[name] = clock() - start
    return seconds


def first_calls(run: Callable[[Path], dict[str, float]], trees: list[Path]) -> dict[Path, Times]:
    """Return one time for each row in each checkout."""
    return {tree: {row: [seconds] for row, seconds in run(tree).items()} for tree in trees}


def cpu_of_children() -> float:
    """Return the CPU seconds of all finished child processes."""
    import resource  # finer than os.times, and only on Unix

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


LATE = """
import sys, time
import equifactor as ef
from equifactor.base.clock import Clock
graph = ef.read_graph(sys.argv[1])
if sys.argv[5] == "cpu":
    Clock.now = staticmethod(time.process_time)
begin, cpu = time.perf_counter(), time.process_time()
try:
    result = ef.solve(graph, sys.argv[2], sys.argv[3], time_limit=float(sys.argv[4]))
    said = f"{result.status}, " + ("answered" if result.answered else "no answer")
except ef.EquifactorError as error:
    said = f"refused: {error}"[:80]
print(time.perf_counter() - begin, time.process_time() - cpu, said)
"""


def print_limits(folder: Path, limits: list[float], cpu: bool, solvers: list[str]) -> None:
    """Print how late solvers are on a 30x30 grid with an empty folder of kernels. Late is over 10 % and 1 s.

    With `cpu`, the clock of the package counts CPU time, so that other work on the machine does not matter.
    """
    from equifactor.solving.registry import parse_solver

    print(f"{'solver':13} {'task':4} {'limit':>6} {'seconds':>8} {'CPU':>8} {'late':>6}  status")
    rows = [(name, parse_solver(name)) for name in solvers]
    for name, task in [
        (name, task) for name, method in rows if not method.missing() for task in method.possible_tasks()
    ]:
        for limit in limits:
            with tempfile.TemporaryDirectory() as kernels:
                ran = subprocess.run(
                    [sys.executable, "-c", LATE, str(folder / "large.uai"), task, name, str(limit), "cpu" * cpu],
                    env={**environment_of(HERE), **_QUIET, "NUMBA_CACHE_DIR": kernels}, cwd=folder,
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
            taken, used, said = ran.stdout.strip().split(maxsplit=2)
            late = "LATE" if float(used if cpu else taken) > 1.1 * limit + 1.0 else ""
            print(f"{name:13} {task:4} {limit:6g} {float(taken):8.2f} {float(used):8.2f} {late:>6}  {said}", flush=True)


def print_table(folder: Path, args: argparse.Namespace, empty: bool) -> None:
    """Print the seconds of every command and their ratio to `import numpy`, of one checkout or of two."""
    clock = cpu_of_children if args.cpu else time.perf_counter
    trees = [HERE, *([args.against] if args.against else [])]
    run = partial(measure, folder, clock, empty)
    found = first_calls(run, trees) if empty else in_turn(run, trees, args.rounds)
    print("kernels are not compiled" if empty else "kernels are compiled")
    head = f"{'command':34} {'s':>7} {'x numpy':>8} {'spread':>7}"
    print(head + (f" {'other s':>8} {'x numpy':>8} {'spread':>7} {'ratio':>6}" if args.against else ""))
    start = {tree: min(times[NUMPY]) for tree, times in found.items()}
    least = max(start.values()) / min(start.values()) - 1.0  # NumPy itself is the same in both
    for row in found[HERE]:
        cells = [f"{row:34}"]
        for tree in trees:
            times = found[tree][row]
            cells.append(f"{min(times):7.3f} {min(times) / start[tree]:8.1f} {spread(times):7.1%}")
        if args.against:
            ratio, _, verdict = compared(found[HERE][row], found[args.against][row], least)
            cells.append(f"{ratio:6.2f} {verdict}")
        print(" ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command, the best of which counts")
    parser.add_argument("--against", type=checkout, metavar="TREE", help="another checkout, measured in turn")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, for a machine with other work")
    parser.add_argument("--empty", action="store_true", help="also measure first calls, once each: nothing is compiled")
    parser.add_argument("--limits", metavar="S,S", help="time limits at which to measure how late solvers are")
    parser.add_argument("--solvers", nargs="+", metavar="SPEC", help="of --limits; default: every registered solver")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_models(folder)
        os.environ.pop("NUMBA_CACHE_DIR", None)
        if args.limits:
            from equifactor.solving.registry import solver_names

            limits = [float(limit) for limit in args.limits.split(",")]
            print_limits(folder, limits, args.cpu, args.solvers or solver_names())
            return
        print_table(folder, args, empty=False)
        if args.empty:
            print_table(folder, args, empty=True)


if __name__ == "__main__":
    main()
