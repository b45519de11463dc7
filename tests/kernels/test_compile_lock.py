"""Processes that start together compile a kernel once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from equifactor.kernels.jit import kernel

@kernel
def inner(x):
    return x + 1.0

@kernel
def outer(x):
    return inner(x) * 2.0
"""

PROGRAM = """
import sys
import kernels_of_two
print("ready", flush=True)
sys.stdin.readline()
assert kernels_of_two.outer(1.0) == 4.0
print(sum(sum(k.stats.cache_misses.values()) for k in (kernels_of_two.inner, kernels_of_two.outer)))
"""


def test_one_process_compiles_and_the_others_wait_for_it(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    (tmp_path / "kernels_of_two.py").write_text(MODULE)
    here = Path(__file__).parents[2]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{here}"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    compiled = [int(worker.communicate(timeout=600)[0]) for worker in workers]
    assert sum(compiled) == 2  # each of the two kernels is compiled by the first process that needs it
