"""The checks of `equifactor doctor`: packages, machine, kernels, GPU, weights, plugins and data, as plain values."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equifactor._version import __version__
from equifactor.base.optional_packages import EXTRAS, is_installed, missing

REQUIRED = ("numpy", "numba", "igraph", "rich", "typer")
_PATIENCE = 3  # seconds for the small solve; it takes longer if kernels must be compiled first. Chosen by hand.
_LATE = "it took too long"
_LIMIT = 60.0  # seconds for a process, enough on a busy machine. Chosen by hand.

# A kernel of one line shows whether Numba can compile; then Numba reports its cache folder, and a small solve runs.
_TRIAL = """
import json, signal, time
import numba
def line(x):
    return 2.0 * x + 1.0
begin = time.perf_counter()
assert numba.njit(line)(1.0) == 3.0
print(json.dumps({"compile_seconds": time.perf_counter() - begin}), flush=True)
from equifactor.kernels.kernel_folders import kernel_folder
folder = kernel_folder()
print(json.dumps({"cache": folder and str(folder)}), flush=True)
import equifactor as ef
graph = ef.generators.ising_grid(4, 4, seed=1)
if hasattr(signal, "alarm"):
    signal.alarm(PATIENCE)
begin = time.perf_counter()
assert ef.solve(graph, "MAR", "bp(damping=0.5)").answered
middle = time.perf_counter()
ef.solve(graph, "MAR", "bp(damping=0.5)")
print(json.dumps({"cold_seconds": middle - begin, "warm_seconds": time.perf_counter() - middle}), flush=True)
"""

# The Triton kernels decode detection events of a small code.
_GPU_TRIAL = """
import json, time, torch
print(json.dumps({"torch_sees": torch.cuda.is_available()}), flush=True)
begin = time.perf_counter()
from equifactor.decoding import Decoder
from equifactor.decoding.code_files import read_code
decoder = Decoder(read_code("bb72", basis=None, prior=0.02), method="min-sum", device="cuda")
decoder.logical_error_rate(64, seed=1)
print(json.dumps({"triton_seconds": time.perf_counter() - begin}), flush=True)
"""


@dataclass
class Checkup:
    """Sections of findings, problems that keep the package from working, and notes on possible improvements."""

    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"usable": not self.problems, "problems": self.problems, "notes": self.notes, **self.sections}


def check_up() -> Checkup:
    """Run all checks; this takes a few seconds, mostly for the solve in a new process."""
    found = Checkup()
    _packages(found)
    _machine(found)
    if not found.problems:
        _kernels(found)
    _gpu(found)
    _weights(found)
    _plugins(found)
    _data(found)
    return found


def _packages(found: Checkup) -> None:
    versions = {name: _version(name) for name in REQUIRED}
    found.sections["equifactor"] = {
        "version": __version__, "folder": str(Path(__file__).parents[1]),
        "python": platform.python_version(), **versions,
    }  # fmt: skip
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        found.problems.append(f"Python {platform.python_version()} is not supported: install Python 3.11, 3.12 or 3.13")
    absent = [name for name, known in versions.items() if known is None]
    if absent:
        found.problems.append(f"{', '.join(absent)} must be installed: pip install --upgrade equifactor")
    found.sections["extras"] = {name: {"version": _version(name), "extra": extra} for name, extra in EXTRAS.items()}
    if _version("torch") is None:
        found.notes.append(f"{missing('torch', 'training')}; so do GPUs and the solvers bpnn, nebp, ggnn and fgnn")


def _machine(found: Checkup) -> None:
    from equifactor.evaluation.provenance import memory_gib, processor

    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS") if name in os.environ}
    found.sections["machine"] = {
        "system": platform.platform(), "processor": processor(), "threads": threads, **limits,
        "memory_gib": memory_gib(),
    }  # fmt: skip


def _kernels(found: Checkup) -> None:
    told, error = _tried(_TRIAL.replace("PATIENCE", str(_PATIENCE)))
    folder = told.get("cache")
    told["writable"] = folder is not None and _writable(Path(folder))
    found.sections["kernels"] = told | _ready()
    if "compile_seconds" not in told:
        found.problems.append(f"kernels do not compile ({error}): pip install --upgrade numba llvmlite")
    elif "cache" in told and not told["writable"]:
        found.notes.append(
            "compiled kernels cannot be saved, so every process compiles them again: set NUMBA_CACHE_DIR to a "
            "folder that you can write"
        )
    if "compile_seconds" in told and "cold_seconds" not in told:
        if error == _LATE:
            found.notes.append(
                "kernels are not compiled yet: the first run of each solver waits for its kernels once; "
                "equifactor doctor --warm compiles all of them now, in a few minutes"
            )
        else:
            found.problems.append(f"a small model cannot be solved ({error}): pip install --upgrade equifactor")


def _ready() -> dict[str, Any]:
    """Return how many kernels have machine code on disk, and how long the others would take."""
    from equifactor.kernels import compile_costs, kernel_folders

    times = compile_costs.compile_times()
    known = {name for family in times.values() for name in family}
    found = {
        "ready": len(known & compile_costs.ready_kernels()), "known": len(known),
        "seconds_left": round(compile_costs.seconds_to_compile(*times), 1),
    }  # fmt: skip
    shipped = len(list(kernel_folders.SHIPPED.glob(f"*{kernel_folders.SUFFIX}")))
    return found | ({"shipped": shipped, "shipped_folder": str(kernel_folders.SHIPPED)} if shipped else {})


def _gpu(found: Checkup) -> None:
    """Find the GPUs of the driver. If there is one, a separate process imports torch."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    lines = []
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        lines = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True).stdout.splitlines()
    fields = [[part.strip() for part in line.split(",")] for line in lines if line.count(",") == 2]
    section: dict[str, Any] = {"devices": [dict(zip(("name", "memory", "driver"), f, strict=True)) for f in fields]}
    found.sections["gpu"] = section
    if not fields or _version("torch") is None:
        return
    told, error = _tried(_GPU_TRIAL)
    section |= told
    if told.get("torch_sees") is False:
        found.notes.append(
            f"torch {_version('torch')} does not see the GPU: install a CUDA build of torch that matches the driver"
        )
    elif "triton_seconds" not in told:
        found.notes.append(f"Triton kernels do not run on the GPU ({error}): decode on the CPU, or reinstall triton")


def _weights(found: Checkup) -> None:
    from equifactor.base.errors import EquifactorError
    from equifactor.solvers.learned.model_card import WEIGHTS, read_card

    section = found.sections["weights"] = {}
    for path in sorted(WEIGHTS.glob("*.safetensors")):
        try:
            card = read_card(path)
        except (EquifactorError, OSError) as error:
            found.notes.append(f"{str(error).rstrip('.')}: reinstall equifactor")
        else:
            section[path.stem] = {"kind": card.kind, "task": str(card.task), "parameters": card.parameters}


def _plugins(found: Checkup) -> None:
    from equifactor.base.errors import EquifactorError
    from equifactor.solving.plugins import entry_points

    found.sections["plugins"] = {}
    try:
        found.sections["plugins"] = {name: point.value for name, point in entry_points().items()}
    except EquifactorError as error:
        found.notes.append(str(error))


def _data(found: Checkup) -> None:
    from equifactor.base.errors import EquifactorError
    from equifactor.data.collections import FOLDER, collection_names

    folder = os.environ.get(FOLDER)
    section: dict[str, Any] = {FOLDER: folder}
    found.sections["data"] = section
    if folder is None:
        return
    try:
        section["collections"] = collection_names(folder)
    except (EquifactorError, OSError) as error:
        found.notes.append(f"{FOLDER}: {error}")


def _tried(program: str) -> tuple[dict[str, Any], str]:
    """Run a program; return the values that it printed as JSON lines, and its error, if any."""
    root = str(Path(__file__).parents[2])  # so that the process imports the same package
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    out, error = "", ""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=_LIMIT, env=environment
        )
        out = done.stdout
        if done.returncode:
            error = _LATE if done.returncode < 0 else (done.stderr.strip().splitlines() or [""])[-1]
    except subprocess.TimeoutExpired as late:
        out, error = (late.stdout or b"").decode(), _LATE
    told: dict[str, Any] = {}
    for line in out.splitlines():
        with contextlib.suppress(ValueError):
            told |= json.loads(line)
    return told, error


def _writable(folder: Path) -> bool:
    """Return whether files can be created in a folder, or the folder itself if it does not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _version(package: str) -> str | None:
    """Return the version of a package, given the name that is imported; None if it is not installed."""
    if not is_installed(package):
        return None
    names = {"pyagrum": "pyAgrum", "lightning_fabric": "lightning-fabric"}
    with contextlib.suppress(PackageNotFoundError):
        return version(names.get(package, package))
    return "unknown version"
