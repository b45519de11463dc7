"""A program that uses the package without torch, safetensors and jaxtyping, and prints the results.

Run in an empty folder. Every classical solver, format and command has to work, and so do fe-net, fe-nbp and fe-gnn.
Code that needs torch raises a sentence.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import sys
from importlib.abc import MetaPathFinder

BLOCKED = ("torch", "safetensors", "jaxtyping")


class _Blocker(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for _name in BLOCKED:
    sys.modules[_name] = None  # type: ignore[assignment]  # what `find_spec` of the standard library understands
sys.meta_path.insert(0, _Blocker())

import equifactor as ef  # noqa: E402
from equifactor.base.clock import Clock  # noqa: E402
from equifactor.base.errors import MissingPackageError  # noqa: E402
from equifactor.cli import main  # noqa: E402

COMMANDS = """
generate ising --rows 3 --cols 3 --seed 1 -o grid.uai
generate tree --num-vars 6 --card 2-3 --count 2 -o trees
solve grid.uai --task PR
solve grid.uai --json --strict
info grid.uai
convert grid.uai grid.fg.gz
sample grid.uai -n 20 -o grid.csv
fit grid.uai grid.csv -o fitted.uai
fit grid.uai grid.csv --method max-margin --set iterations=2 -o margin.uai
decode bb72 --prior 0.02 --sample 20 --seed 1
decode bb72 --prior 0.02 --sample 20 --seed 1 --method learned-memory
isomorphic grid.uai grid.fg.gz --tolerance 1e-9
dedupe trees
audit --solver exact grid.uai --trials 1 --task PR
solve grid.uai --solver fe-net
solve grid.uai --task MAP --solver fe-nbp
solvers
solvers bp
solvers fe-nbp
doctor
demo
"""
SENTENCES = """
solve grid.uai --solver nebp(untrained)
solve grid.uai --solver fe-net(engine=torch)
solve grid.uai --solver fe-net --device cuda
solve grid.uai --solver bp(engine=torch)
solve grid.uai --device cuda --solver exact
train fe-nbp --data ising(3x3,n=4) --out mine.safetensors
solvers nebp
"""


def _run(line: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(line.split())
    return int(status), out.getvalue(), err.getvalue()


def _names() -> dict[str, str]:
    """Return the public names that need torch, with their errors."""
    found = {}
    for part in (ef, ef.answers, ef.learned, ef.solvers):
        for name in part.__all__:
            try:
                getattr(part, name)
            except MissingPackageError as error:
                found[name] = str(error)
    return found


def _solvers() -> dict[str, dict[str, str]]:
    """Return the status of every solver and task on a small grid, or the error of the solver.

    A tenth of a millisecond passes whenever a solver reads the clock, on a busy machine as on an idle one.
    """
    ticks = itertools.count()
    Clock.now = staticmethod(lambda: 1e-4 * next(ticks))  # type: ignore[assignment]
    Clock.cpu_now = Clock.now
    graph, found = ef.generators.ising_grid(3, 3, seed=1), {}
    for name in ef.solvers.solver_names():
        try:
            solver = ef.solvers.parse_solver(name)
            found[name] = {
                str(task): str(ef.solve(graph, task, solver, time_limit=0.2).status) for task in solver.possible_tasks()
            }
        except MissingPackageError as error:
            found[name] = {"error": str(error)}
        except ef.OptionError as error:  # toulbar2
            found[name] = {"skipped": str(error)}
    return found


def _formats() -> list[str]:
    """Return the formats through which a network passes unchanged."""
    network = ef.FactorGraph(
        {"a": ["x", "y"], "b": ["u", "v"]}, [(["a"], [0.25, 0.75]), (["a", "b"], [[0.5, 0.5]] * 2)]
    )
    passed = []
    for suffix in ("uai", "lg", "fg", "cnf", "wcsp", "cfn", "bif", "xmlbif", "net", "xdsl"):
        ef.write_graph(network, f"network.{suffix}")
        again = ef.solve(ef.read_graph(f"network.{suffix}"), "MAR").marginals
        passed += [suffix] if again is not None else []
    return passed


if __name__ == "__main__":
    report = {
        "names": _names(),
        "solvers": _solvers(),
        "formats": _formats(),
        "commands": {line: _run(line) for line in COMMANDS.strip().splitlines()},
        "sentences": {line: _run(line) for line in SENTENCES.strip().splitlines()},
    }
    print(json.dumps(report))
