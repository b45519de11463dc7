"""Halve and double a numeric constant of `equifactor/solvers/`, and print how answers and CPU time change.

Clocks count CPU time, so that other programs on the machine do not change an answer. Each variant is compared with the
tree as it is, which is measured twice, model by model and seed by seed. The change is the mean of the log ratios, and
the spread its standard error; results below 1e-3 count as 1e-3. A constant that a compiled kernel reads is measured
only if it is named in full, in a process of its own that compiles again, which takes a minute or more.

    python -m benchmarks.constants sampling.blocks._COVERS             # one constant; about 20 s
    python -m benchmarks.constants sampling regions --times 4          # all choices of two folders
    EQUIFACTOR_DATA=folder python -m benchmarks.constants auto         # public models too
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from benchmarks._constant_runs import RUNS, runs_of
from equifactor.base.budget import set_machine_speed
from equifactor.base.clock import Clock

ROOT = Path(__file__).resolve().parents[1] / "equifactor" / "solvers"
_FLOOR = 1e-3  # Total variation or nats: better results count as this one.
_CHOICE = re.compile(r"[Bb]y hand|[Hh]alved")  # In the comment of a constant that is a choice, and not a fact.
_CLEAR = 3.0  # Standard errors beyond which a change is one; among 400 changes about one is so by chance.
_VARIANTS = {"half": 0.5, "twice": 2.0}


def choices(beginning: str) -> Iterator[tuple[str, str]]:
    """Yield the module and name of a constant that is named in full, or of all choices of a folder or module."""
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not beginning.startswith(module) and not module.startswith(beginning):
            continue
        lines = path.read_text(encoding="utf-8").split("\n")
        for node in ast.parse("\n".join(lines)).body:
            if not isinstance(node, ast.Assign):
                continue
            first = node.lineno - 1
            while lines[first - 1].startswith("#"):
                first -= 1
            comment = " ".join(lines[first : node.end_lineno]).partition("#")[2]
            for name in (n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name) and n.id.isupper()):
                chosen = _CHOICE.search(comment) and module.startswith(beginning)
                if chosen or f"{module}.{name}" == beginning:
                    yield module, name


def scaled(value: Any, factor: float) -> Any:
    """Return a number times a factor: whole numbers stay whole, shares stay below 1, ratios move away from 1."""
    if isinstance(value, tuple):
        return tuple(scaled(v, factor) for v in value)
    if isinstance(value, int):
        return max(1, int(value * factor))
    if 0.0 < value < 1.0:
        return min(value * factor, 1.0)
    return 1.0 + (value - 1.0) * factor if 1.0 < value < 2.0 else value * factor


def is_compiled(name: str, module: Any) -> bool:
    """Return whether a compiled kernel of any loaded module reads the constant."""
    return any(
        name in function.py_func.__code__.co_names and function.py_func.__globals__.get(name) is getattr(module, name)
        for other in list(sys.modules.values())
        if getattr(other, "__name__", "").startswith("equifactor")
        for function in vars(other).values()
        if hasattr(function, "py_func")
    )


def set_constant(module: Any, name: str, value: Any) -> None:
    """Set a constant in its module; public ones also where they were imported."""
    before = getattr(module, name)
    for other in [module] if name.startswith("_") else list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("equifactor") and vars(other).get(name) is before:
            setattr(other, name, value)


def measured(run: str, times: float) -> np.ndarray:
    """Return the results and CPU seconds [N, 2] of a run. Clocks count CPU time."""
    set_machine_speed(1.0)
    Clock.now = staticmethod(time.process_time)
    return RUNS[run].answers(times)


def executed(run: str) -> set[CodeType]:
    """Return the code of all Python functions that a run calls."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        found.add(frame.f_code)

    sys.setprofile(note)
    try:
        measured(run, 0.0)
    finally:
        sys.setprofile(None)
    return found


def in_new_process(module: str, name: str, factor: float, run: str, times: float) -> np.ndarray:
    """Return what `measured` returns in a process in which kernels are compiled with the changed constant."""
    command = [sys.executable, "-m", "benchmarks.constants", "--worker", module, name, str(factor), run, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def worker(module: str, name: str, factor: str, run: str, times: str) -> None:
    """Print the results of a run with a changed constant. Kernels are not taken from the cache."""
    import equifactor.kernels.jit as jit

    jit.__dict__["cache_of"] = lambda function: None
    found = importlib.import_module(f"equifactor.solvers.{module}")
    set_constant(found, name, scaled(getattr(found, name), float(factor)))
    measured(run, 0.0)  # Compilation takes CPU time, which the second run does not count.
    print(json.dumps(measured(run, float(times)).tolist()))


def change(new: np.ndarray, old: np.ndarray, floor: float = 0.0) -> tuple[float, float]:
    """Return the mean log ratio of positive numbers [N] to earlier ones [K, N], and its standard error.

    It is infinite if more or fewer of them are infinite, which stands for no answer.
    """
    lost, before = np.isinf(new).sum(), np.isinf(old).sum(axis=1)
    if not before.min() <= lost <= before.max():
        return (np.inf if lost > before.max() else -np.inf), 0.0
    finite = np.isfinite(new) & np.isfinite(old).all(axis=0)
    ratio = np.log(np.maximum(new[finite], floor)) - np.log(np.maximum(old[:, finite], floor)).mean(axis=0)
    return (float(ratio.mean()), float(ratio.std() / np.sqrt(len(ratio)))) if len(ratio) else (0.0, 0.0)


def percent(found: tuple[float, float]) -> str:
    """Return a change and its spread as text."""
    return f"{100 * np.expm1(found[0]):+.1f} % (spread {100 * found[1]:.1f})"


def sentence(found: dict[str, tuple[float, float]], what: str) -> str:
    """Return the clause of a comment on what halving and doubling changes, rounded up."""
    clear = {v: m for v, (m, s) in found.items() if abs(m) > max(_CLEAR * s, 0.02)}
    words = {"half": "halved", "twice": "doubled"}
    if clear:
        return ", ".join(f"{words[v]} {what} {100 * np.expm1(m):+.0f} %" for v, m in clear.items())
    most = 100 * np.expm1(max(abs(m) + 2 * s for m, s in found.values()))
    if all(m == s == 0.0 for m, s in found.values()):
        return f"{what} the same"
    limit = next((x for x in (1, 2, 5, 10, 15, 20, 30, 50, 100) if most < x), 0)
    return f"{what} within {limit} %" if limit else f"{what} uncertain"


def main() -> None:
    """Print a table with one row for each constant, variant and run, and a line for its comment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constants", nargs="*", help="such as sampling.blocks._COVERS, sampling.blocks or sampling")
    parser.add_argument("--times", type=float, default=1.0, help="multiply the draws of every model (default: 1)")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(*args.worker)
    calls: dict[str, set[CodeType]] = {}
    base: dict[tuple[str, str], np.ndarray] = {}
    for module, name in (found for beginning in args.constants for found in choices(beginning)):
        home = importlib.import_module(f"equifactor.solvers.{module}")
        before = getattr(home, name)
        print(f"\n{module}.{name} = {before}", flush=True)
        for run in runs_of(module):
            if run not in calls:
                measured(run, args.times)  # kernels are compiled
                calls[run] = executed(run)
            compiled = is_compiled(name, home)
            used = any(name in code.co_names and code.co_filename == home.__file__ for code in calls[run])
            if not (used or compiled or not name.startswith("_")):
                print(f"  {run}: not read")
                continue
            if compiled and f"{module}.{name}" not in args.constants:
                print(f"  {run}: compiled; name the constant in full to measure it")
                continue
            folder = module.partition(".")[0]
            if (folder, run) not in base:
                base[folder, run] = np.array([measured(run, args.times) for _ in range(2)])
            off: dict[str, tuple[float, float]] = {}
            pace: dict[str, tuple[float, float]] = {}
            for variant, factor in _VARIANTS.items():
                if compiled:
                    got = in_new_process(module, name, factor, run, args.times)
                else:
                    set_constant(home, name, scaled(before, factor))
                    try:
                        got = measured(run, args.times)
                    finally:
                        set_constant(home, name, before)
                old = base[folder, run]
                off[variant] = change(got[:, 0], old[:, :, 0], _FLOOR)
                pace[variant] = change(got[:, 1], old[:, :, 1])
                print(f"  {run}, {variant}: result {percent(off[variant])}, time {percent(pace[variant])}", flush=True)
            what = "gap" if RUNS[run].gap else "error"
            print(f"  # {run}: {sentence(off, what)}, {sentence(pace, 'time')}", flush=True)
    return None


if __name__ == "__main__":
    main()
