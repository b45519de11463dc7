"""Measures how long the kernels of each family of solvers take to compile: `equifactor/kernels/compile_times.json`.

    python -m tools.compile_times              # all families, one process each, in empty folders: 15 minutes of CPU
    python -m tools.compile_times bp exact     # only these, the others stay as they are
    python -m tools.compile_times --jobs 2     # two processes side by side

The seconds are CPU seconds of the thread that compiles, times the speed of this machine: other work on the machine does
not count. They are without the kernels that a kernel calls. Of several signatures the longest counts, because a model
needs only one. The file is written after each family, so that a run that is cut short is not lost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FILE = Path(__file__).parents[1] / "equifactor" / "kernels" / "compile_times.json"
_PROBES = 20  # Measurements of the speed of the machine, of which the fastest counts. Chosen by hand.

PROGRAM = """
import json, sys
from equifactor.cli import kernel_warming
from equifactor.kernels.compile_costs import cpu_seconds

kernel_warming.warm([sys.argv[1]])
print(json.dumps({name: max(seconds) for name, seconds in cpu_seconds.items()}))
"""


def speed() -> float:
    """Return the speed of this machine. Other work slows down most measurements of it, but not the fastest."""
    from equifactor.base.budget import machine_speed, set_machine_speed

    found = []
    for _ in range(_PROBES):
        set_machine_speed(None)
        found.append(machine_speed())
    return max(found)


def measured(family: str) -> dict[str, float]:
    """Return the CPU seconds of each kernel of a family, from a process with an empty folder of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "NUMBA_CACHE_DIR": folder, "EQUIFACTOR_PLAIN": "0", "EQUIFACTOR_BACKGROUND": "0",
        }  # fmt: skip
        ran = subprocess.run([sys.executable, "-c", PROGRAM, family], env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError((ran.stderr.strip() or f"exit status {ran.returncode}").splitlines()[-1])
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def write(family: str, seconds: dict[str, float], order: list[str]) -> None:
    """Replace one family in the file; families that no longer exist are removed."""
    known = json.loads(FILE.read_text(encoding="utf-8"))["families"] if FILE.exists() else {}
    known[family] = {name: round(s, 2) for name, s in sorted(seconds.items())}
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in order if name in known]
    FILE.write_text('{"families": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def main() -> int:
    """Measure the families that are named on the command line, or all, and write the file."""
    from equifactor.cli.kernel_warming import families

    order = list(families())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default 1)")
    args = parser.parse_args()
    unknown = [name for name in args.families if name not in order]
    if unknown:
        parser.error(f"unknown family {unknown[0]}; there are {', '.join(order)}")
    factor, failed = speed(), False
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = {name: pool.submit(measured, name) for name in args.families or order}
        for name, run in runs.items():
            try:
                own = {kernel: factor * seconds for kernel, seconds in run.result().items()}
            except RuntimeError as error:
                failed = True
                print(f"{name:14} failed and stays as it was: {error}", flush=True)
                continue
            write(name, own, order)
            print(f"{name:14} {sum(own.values()):6.1f} s, {len(own)} kernels", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
