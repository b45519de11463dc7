"""Measures how long the kernels of each family of solvers take to compile: `equifactor/kernels/compile_times.json`.

    python -m tools.compile_times              # all families, one process each, in empty folders: some minutes
    python -m tools.compile_times bp exact     # only these, the others stay as they are

The seconds are CPU seconds, without those of the kernels that a kernel calls, divided by the speed of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parents[1] / "equifactor" / "kernels" / "compile_times.json"

PROGRAM = """
import json, sys, time
from numba.core import event
from equifactor.cli import kernel_warming
from equifactor.kernels import jit
from equifactor.kernels.kernel_cache import KernelCache

class Recorder(event.Listener):
    begun, seconds = [], {}
    def on_start(self, e):
        self.begun.append([time.process_time(), 0.0])
    def on_end(self, e):
        start, inside = self.begun.pop()
        took = time.process_time() - start
        if self.begun:
            self.begun[-1][1] += took
        cache = e.data["dispatcher"]._cache
        if isinstance(cache, KernelCache):
            self.seconds[cache.name] = self.seconds.get(cache.name, 0.0) + took - inside
        elif self.begun:
            self.begun[-1][1] -= took - inside  # a function of Numba belongs to the kernel that calls it

event.register("numba:compile", Recorder())
kernel_warming.warm([sys.argv[1]])
from equifactor.base.budget import machine_speed
print(json.dumps({name: round(s * machine_speed(), 2) for name, s in sorted(Recorder.seconds.items())}))
"""


def main() -> None:
    """Measure the families that are named on the command line, or all, and write the file."""
    from equifactor.cli.kernel_warming import families

    order = list(families())
    for name in sys.argv[1:] or order:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "EQUIFACTOR_PLAIN": "0"}
            ran = subprocess.run(
                [sys.executable, "-c", PROGRAM, name], env=environment, check=True, capture_output=True, text=True
            )
        own = json.loads(ran.stdout)
        known = {**json.loads(FILE.read_text(encoding="utf-8"))["families"], name: own}
        lines = [f"{json.dumps(n)}: {json.dumps(known[n])}" for n in order if n in known]
        FILE.write_text('{"families": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
        print(f"{name:14} {sum(own.values()):6.1f} s, {len(own)} kernels", flush=True)


if __name__ == "__main__":
    main()
