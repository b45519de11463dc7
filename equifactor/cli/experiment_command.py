"""`equifactor experiment`: the comparisons of the paper and beyond, end to end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from equifactor.cli.exit_status import Exit
from equifactor.cli.shared_options import example

EXAMPLE = example("equifactor experiment asymmetric --quick --methods BP,FE-NBP --out asymmetric")


def experiment(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="ising, asymmetric, uai, .., or a .toml file of your own.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for results; default experiments/NAME.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small copy, two minutes on a CPU; no result.")] = False,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="cpu or cuda, for training.")] = "cpu",
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Runs side by side.", min=1)] = 1,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="A,B", help="Only these lines of the table.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="N,N", help="Only these numbers of training graphs.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="Start no run after this; go on later.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FOLDER", help="uai: folder of models; default EQUIFACTOR_DATA.")
    ] = None,
    collections: Annotated[
        str | None, typer.Option("--collections", metavar="A,B", help="uai: only these collections of the folder.")
    ] = None,
    train: Annotated[
        str, typer.Option("--train", metavar="yes|no|only", help="uai: networks too, none, or nothing else.")
    ] = "yes",
    parts: Annotated[
        str | None, typer.Option("--parts", metavar="A,B", help="uai: of split, folds, curve, doubles; default all.")
    ] = None,
) -> None:
    """Train every model, judge all methods on the same test graphs, write tables and a figure.

    Finished runs are kept in DIR/runs: the same command goes on where it was stopped. `uai` compares MAP solvers on a
    folder of models with known scores; any piece of it (--collections, --methods, --train, --parts) can be done at a
    time, and the tables show all that is done.
    """
    from experiments.map_config import is_map

    if is_map(name):
        from equifactor.cli.experiment_map_command import chosen, run_map

        how = chosen(data=data, device=device, processes=jobs, train=train, parts=parts, time_limit=time_limit)
        run_map(name, out, how, quick=quick, collections=collections, methods=methods)
        return
    from equifactor.progress import bar
    from experiments.config import load, selected
    from experiments.process_pool import perform_all
    from experiments.runs import all_runs, tuning_runs
    from experiments.tables_report import write

    config = selected(load(name), methods, sizes)
    config = config.quick() if quick else config
    folder = out or Path("experiments") / f"{config.name}{'-quick' * quick}"
    with bar(True, f"experiment {config.name}") as report:
        start = time.monotonic()
        tuned, trouble = perform_all(list(tuning_runs(config)), folder, device, jobs, time_limit, report)
        left = None if time_limit is None else time_limit - (time.monotonic() - start)
        rows, more = perform_all(list(all_runs(config, folder)), folder, device, jobs, left, report)
        trouble += more
    for sentence in trouble:
        print(f"missing: {sentence}", file=sys.stderr)
    if rows:
        written = write(config, rows, folder, tuned=tuned, figure=True)
        print(written[1].read_text(encoding="utf-8"))
        print("written: " + ", ".join(str(p) for p in written))
    if trouble:
        raise typer.Exit(Exit.UNSOLVED)
