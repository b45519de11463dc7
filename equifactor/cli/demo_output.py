"""The demo: a seeded 5x5 spin glass, solved by several solvers and compared with the exact answer.

A new solver joins by a line in `SOLVERS`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor._solve import solve
from equifactor.errors import FormatError
from equifactor.generators import ising_grid
from equifactor.metrics import kl, max_error

if TYPE_CHECKING:
    from rich.table import Table

    from equifactor.graph import FactorGraph
    from equifactor.result import Result

SIZE = 5  # rows and columns
SEED = 17  # chosen: plain belief propagation does not settle on this one, and damping repairs it
SOLVERS = ("exact", "bp", "bp(damping=0.5)")  # the first is the reference for the others


@dataclass(frozen=True)
class Row:
    """One solver on the example: its marginals with ln Z, its best assignment, and the time of both runs."""

    solver: str
    mar: Result
    map: Result
    seconds: float


def run(graph: FactorGraph) -> list[Row]:
    """All solvers of the demo on one graph."""
    rows = []
    for spec in SOLVERS:
        for _ in range(2):  # the second run counts: imports and compilation are not what the table compares
            start = time.perf_counter()
            mar, best = solve(graph, "MAR", spec), solve(graph, "MAP", spec)
            seconds = time.perf_counter() - start
        rows.append(Row(spec, mar, best, seconds))
    return rows


def table(rows: list[Row]) -> Table:
    """Error against the first row, ln Z, MAP log-score, how it ended, time."""
    from rich import box
    from rich.table import Table

    view = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    view.add_column("solver", no_wrap=True)
    view.add_column("status", no_wrap=True)
    for name in ("KL", "max error", "ln Z", "MAP score", "time"):
        view.add_column(name, justify="right", no_wrap=True)
    exact = rows[0].mar.marginals
    for row in rows:
        found = row.mar.marginals
        errors = ("-", "-") if exact is None or found is None else (kl(exact, found), max_error(exact, found))
        numbers = [*errors, row.mar.log_z, row.map.log_score]
        formats = ("{:.2g}", "{:.2g}", "{:.3f}", "{:.3f}")
        cells = ["-" if n is None or n == "-" else f.format(n) for f, n in zip(formats, numbers, strict=True)]
        view.add_row(row.solver, str(row.mar.status), *cells, f"{1000 * row.seconds:.0f} ms")
    return view


def show(folder: str, seed: int = SEED) -> None:
    """Solve, print the table, write the picture and say where it is."""
    from rich.console import Console

    from equifactor.plot import plot_grid

    graph = ising_grid(SIZE, SIZE, seed=seed)
    rows = run(graph)
    console = Console()
    console.print(
        f"Spin glass on a {SIZE}x{SIZE} grid (seed {seed}): {len(graph.card)} spins, {graph.num_factors} factors"
    )
    console.print()
    console.print(table(rows))
    console.print()

    picture = Path(folder) / "spin-glass.png"
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: cannot make this folder: {(error.strerror or str(error)).lower()}") from None
    figure = plot_grid(graph, SIZE, SIZE, {r.solver: r.mar.marginals for r in rows if r.mar.marginals is not None})
    figure.savefig(picture)
    console.print(f"Picture: {picture}", soft_wrap=True)
