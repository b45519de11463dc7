"""`equifactor demo`: a seeded 5x5 spin glass, solved by several solvers, compared with the exact answer and drawn."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import MissingPackageError
from equifactor.cli.exit_status import terminal_width
from equifactor.cli.shared_options import Seed, example

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.questions.result import Result

EXAMPLE = example("equifactor demo -o demo-output")

SIZE = 5  # rows and columns
SOLVERS = ("exact", "bp", "bp(damping=0.5)", "fe-nbp", "fe-net")  # The first is the reference.


@dataclass(frozen=True)
class DemoRow:
    """One solver on the example: its MAR result, its MAP result, and the time of both runs."""

    solver: str
    mar: Result
    map: Result
    seconds: float


def demo(
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the picture; created if it does not exist."),
    ] = "demo-output",
    seed: Seed = 0,
) -> None:
    """Solve a seeded 5x5 spin glass with several solvers, compare them with the exact answer and draw the marginals."""
    from equifactor.base.progress import bar
    from equifactor.generators import ising_grid

    # One thread for torch: the model is small, and threads that wait for each other take ten times as long on a busy
    # machine.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    graph = ising_grid(SIZE, SIZE, seed=seed)
    print(f"Spin glass on a {SIZE}x{SIZE} grid (seed {seed}): {graph.num_vars} spins, {graph.num_factors} factors\n")
    rows, left_out = [], ""
    with bar(True, "solving") as report:
        for n, spec in enumerate(SOLVERS):
            if report is not None:
                report(n, len(SOLVERS), spec)
            try:
                rows.append(_measured(graph, spec))
            except MissingPackageError as error:
                left_out = left_out or f"{error}\n\n"
    print(_table(rows) + "\n")
    print(left_out, end="")
    print(_drawn(graph, rows, Path(output)))


def _measured(graph: FactorGraph, spec: str) -> DemoRow:
    """Run one solver on both tasks. The second run is timed, so that imports and compilation do not count."""
    from equifactor.questions.solve import solve

    for _ in range(2):
        start = time.perf_counter()
        mar, best = solve(graph, "MAR", spec), solve(graph, "MAP", spec)
        seconds = time.perf_counter() - start
    return DemoRow(spec, mar, best, seconds)


def _table(rows: list[DemoRow]) -> str:
    """Return one line per solver: errors of the marginals against the first row, ln Z, MAP score and time."""
    from equifactor.metrics import kl, max_error
    from equifactor.show.text_tables import fitted

    lines = [["solver", "status", "KL", "max error", "ln Z", "MAP score", "time"]]
    exact = getattr(rows[0].mar, "marginals", None)
    for row in rows:
        errors, found = ["-", "-"], getattr(row.mar, "marginals", None)
        if exact is not None and found is not None:
            errors = [f"{kl(exact, found):.2g}", f"{max_error(exact, found):.2g}"]
        numbers = getattr(row.mar, "log_z", None), getattr(row.map, "log_score", None)
        scores = ["-" if n is None else f"{n:.3f}" for n in numbers]
        lines.append([row.solver, str(row.mar.status), *errors, *scores, f"{1000 * row.seconds:.0f} ms"])
    return fitted(lines, terminal_width(), right=range(2, 7), rule=True)


def _drawn(graph: FactorGraph, rows: list[DemoRow], folder: Path) -> str:
    """Write the picture and return where it is, or what to install for one."""
    from equifactor.base.files import make_folder
    from equifactor.show.plot import plot_grid

    answers = {r.solver: r.mar.marginals for r in rows if hasattr(r.mar, "marginals")}
    try:
        ax = plot_grid(graph, SIZE, SIZE, answers)
    except MissingPackageError as error:
        return f"No picture is drawn: {error}"
    make_folder(folder)
    picture = folder / "spin-glass.png"
    ax.figure.savefig(picture, dpi=160)  # type: ignore[union-attr]
    return f"Picture: {picture}"
