"""Halve and double the numeric constants of `equifactor/solvers/`, and print how answers and CPU time change.

All constants of a folder are measured together. Each row of the design solves one model; in it each constant is halved
or doubled with a probability of 1/4 each, at random. A least-squares fit of the logs of results and CPU seconds, with
an effect for each model, then gives the change by each constant and its standard error, averaged over the settings of
the others. So a row informs about all constants: 600 rows resolve an effect of 10 %. Results below 1e-3 count as 1e-3.
Clocks count CPU time, so that other programs on the machine do not change an answer. Rows are appended to a file, and
the same command continues there. The constants of compiled kernels change from process to process, and not row by row.

    python -m benchmarks.constants sampling.blocks --rows blocks.jsonl            # all choices of a module
    python -m benchmarks.constants sampling regions --number 600 --rows all.jsonl # 600 rows for each run of two folders
    python -m benchmarks.constants sampling.blocks._COVERS --rows covers.jsonl    # one constant
    python -m benchmarks.constants sampling --compiled 8 --rows kernels.jsonl     # kernels, in 8 processes that compile
    EQUIFACTOR_DATA=folder python -m benchmarks.constants auto --rows auto.jsonl  # public models too
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
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
_LOST = 10.0  # A run without an answer counts as this many times the worst result on its model.
_CHOICE = re.compile(r"[Bb]y hand|[Hh]alved|[Hh]alf")  # In the comment of a constant that is a choice, not a fact.
_CLEAR = 3.0  # Standard errors beyond which a change is one; among 400 changes about one is so by chance.
_FACTORS = {-1: 0.5, 1: 2.0}  # The factor at each level; 0 leaves a constant as it is.
_LEVELS = (-1, 0, 0, 1)  # Drawn with equal probability.

Levels = dict[str, int]  # The constants of a row that are changed.


def choices(beginning: str) -> Iterator[str]:
    """Yield a constant that is named in full, such as sampling.blocks._COVERS, or all choices of a folder or module."""
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
                    yield f"{module}.{name}"


def scaled(value: Any, factor: float) -> Any:
    """Return a number times a factor: whole numbers stay whole, shares stay below 1, ratios move away from 1."""
    if isinstance(value, tuple):
        return tuple(scaled(v, factor) for v in value)
    if isinstance(value, int):
        return max(1, int(value * factor))
    if 0.0 < value < 1.0:
        return min(value * factor, 1.0)
    return 1.0 + (value - 1.0) * factor if 1.0 < value < 2.0 else value * factor


def home(constant: str) -> tuple[Any, str]:
    """Return the module of a constant and its name there."""
    module, _, name = constant.rpartition(".")
    return importlib.import_module(f"equifactor.solvers.{module}"), name


def is_compiled(constant: str) -> bool:
    """Return whether a compiled kernel of any loaded module reads the constant."""
    module, name = home(constant)
    return any(
        name in function.py_func.__code__.co_names and function.py_func.__globals__.get(name) is getattr(module, name)
        for other in list(sys.modules.values())
        if getattr(other, "__name__", "").startswith("equifactor")
        for function in vars(other).values()
        if hasattr(function, "py_func")
    )


def is_read(constant: str, calls: set[CodeType]) -> bool:
    """Return whether one of these Python functions reads a constant."""
    module, name = home(constant)
    own = [code for code in calls if name in code.co_names]
    return any(code.co_filename == module.__file__ or not name.startswith("_") for code in own)


def set_constant(constant: str, value: Any) -> None:
    """Set a constant in its module; public ones also where they were imported."""
    module, name = home(constant)
    before = getattr(module, name)
    for other in [module] if name.startswith("_") else list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("equifactor") and vars(other).get(name) is before:
            setattr(other, name, value)


def executed(run: str) -> set[CodeType]:
    """Return the code of all Python functions that a run calls, and compile its kernels."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        found.add(frame.f_code)

    sys.setprofile(note)
    try:
        for model, _ in RUNS[run].cases(1):
            RUNS[run].answer(model, 0)
    finally:
        sys.setprofile(None)
    return found


def drawn_levels(constants: list[str], run: str, row: int, compiled: Levels) -> Levels:
    """Return the levels of all constants in a row of the design; those of compiled ones are given."""
    rng = np.random.default_rng([*run.encode(), row])
    drawn = {constant: int(rng.choice(_LEVELS)) for constant in constants}
    return {**drawn, **compiled}


def measure(run: str, constants: list[str], rows: range, compiled: Levels, file: Path, first_seed: int) -> None:
    """Append rows of the design to a file."""
    values = {constant: getattr(*home(constant)) for constant in constants}
    cases = [(model, first_seed + seed) for model, seed in RUNS[run].cases(RUNS[run].seeds)]
    for case in cases:
        RUNS[run].known(*case)  # The right answers are found before any constant is changed.
    for row in rows:
        levels = drawn_levels(constants, run, row, compiled)
        for constant in constants:
            if levels[constant]:
                set_constant(constant, scaled(values[constant], _FACTORS[levels[constant]]))
        model, seed = cases[row % len(cases)]
        try:
            result, seconds = RUNS[run].answer(model, seed)
        finally:
            for constant, value in values.items():
                set_constant(constant, value)
        text = {"run": run, "case": f"{model} {seed}", "levels": levels, "result": result, "seconds": seconds}
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(text) + "\n")


def fitted(
    rows: list[dict[str, Any]], constants: list[str], what: str, floor: float = 1e-3
) -> dict[tuple[str, int], tuple[float, float]]:
    """Return the change of the log of `result` or `seconds` by each constant at each level, and its standard error.

    Better results than `floor` count as `floor`. The standard errors allow a variance of its own for each row. A level
    that no row has is left out.
    """
    cases = sorted({row["case"] for row in rows})
    values = np.array([row[what] for row in rows])
    of_case = np.array([cases.index(row["case"]) for row in rows])
    for case in range(len(cases)):
        own = values[of_case == case]
        worst = own[np.isfinite(own)].max(initial=floor)
        values[(of_case == case) & ~np.isfinite(values)] = _LOST * worst
    y = np.log(np.maximum(values, floor))
    drawn = [(c, level) for c in constants for level in _FACTORS if any(row["levels"].get(c) == level for row in rows)]
    x = np.array([[row["levels"].get(c) == level for c, level in drawn] for row in rows], dtype=float)
    x = x.reshape(len(rows), len(drawn))
    for case in range(len(cases)):  # Each case has an effect of its own.
        own = of_case == case
        x[own] -= x[own].mean(axis=0)
        y[own] -= y[own].mean()
    inverse = np.linalg.pinv(x.T @ x)
    effect = inverse @ (x.T @ y)
    free = max(1, len(rows) - len(cases) - len(drawn))
    noise = (y - x @ effect) ** 2 * len(rows) / free
    error = np.sqrt(np.diag(inverse @ (x.T * noise) @ x @ inverse))
    return {key: (float(effect[i]), float(error[i])) for i, key in enumerate(drawn)}


def percent(found: tuple[float, float]) -> str:
    """Return a change and its standard error as text. A star marks a change of more than three standard errors."""
    star = "*" if abs(found[0]) > max(_CLEAR * found[1], 0.02) else " "
    return f"{100 * np.expm1(found[0]):+7.1f} % +- {100 * found[1]:4.1f}{star}"


def report(rows: list[dict[str, Any]], constants: list[str]) -> None:
    """Print a table with one line for each run, constant and level."""
    for run in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == run]
        seconds = sum(row["seconds"] for row in own)
        print(f"\n{run}: {len(own)} rows, {seconds:.0f} s of CPU; result ({RUNS[run].unit}), time")
        result, pace = fitted(own, constants, "result", RUNS[run].floor), fitted(own, constants, "seconds")
        for (constant, level), found in result.items():
            word = "half " if level < 0 else "twice"
            print(f"  {constant:45} {word} {percent(found)}   {percent(pace[constant, level])}")


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none if it does not exist."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def by_cpu_clock() -> None:
    """Let all clocks of this process count CPU time without that of compiling, and keep plain NumPy away."""
    os.environ["EQUIFACTOR_PLAIN"], os.environ["EQUIFACTOR_BACKGROUND"] = "0", "0"
    set_machine_speed(1.0)
    Clock.now = staticmethod(time.process_time)
    Clock.ignores_compiling = True


def in_new_process(process: int, names: list[str], number: int, file: Path, first_seed: int) -> None:
    """Append rows from a process in which kernels are compiled with changed constants."""
    command = [sys.executable, "-m", "benchmarks.constants", *names, "--process", str(process)]
    command += ["--number", str(number), "--rows", str(file), "--first-seed", str(first_seed)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure rows and print what the rows of the file show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constants", nargs="+", help="such as sampling.blocks._COVERS, sampling.blocks or sampling")
    parser.add_argument("--rows", type=Path, required=True, help="the file of rows")
    parser.add_argument("--number", type=int, default=600, help="rows for each run (default: 600)")
    parser.add_argument("--runs", nargs="*", help="only these runs")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="the seed of the first draw of each model (default: 0)"
    )
    parser.add_argument("--compiled", type=int, default=0, help="vary constants of kernels, in this many processes")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    by_cpu_clock()
    constants = [constant for beginning in args.constants for constant in choices(beginning)]
    if args.compiled:
        for process in range(args.compiled):
            in_new_process(process, args.constants, args.number // args.compiled, args.rows, args.first_seed)
        return report(read_rows(args.rows), constants)
    for constant in constants:
        home(constant)
    in_kernels = [constant for constant in constants if is_compiled(constant)]
    compiled: Levels = {}
    if args.process is not None:
        import equifactor.kernels.jit as jit

        jit.__dict__["cache_of"] = lambda function: None  # Kernels are not taken from the cache.
        compiled = drawn_levels(in_kernels, "", args.process, {})
        for constant, level in compiled.items():
            set_constant(constant, scaled(getattr(*home(constant)), _FACTORS.get(level, 1.0)))
    runs = dict.fromkeys(run for constant in constants for run in runs_of(constant))
    for run in runs if args.runs is None else args.runs:
        calls = executed(run)
        read = [c for c in constants if c not in in_kernels and run in runs_of(c) and is_read(c, calls)]
        for constant in (c for c in constants if run in runs_of(c) and c not in read and args.process is None):
            print(f"{run}: {constant} is {'compiled: use --compiled' if constant in in_kernels else 'not read'}")
        if args.process is not None:
            begun = args.process * args.number
            measure(run, [], range(begun, begun + args.number), compiled, args.rows, args.first_seed)
        elif read:
            begun = sum(row["run"] == run for row in read_rows(args.rows))
            measure(run, read, range(begun, args.number), {}, args.rows, args.first_seed)
            report([row for row in read_rows(args.rows) if row["run"] == run], constants)
    return None


if __name__ == "__main__":
    main()
