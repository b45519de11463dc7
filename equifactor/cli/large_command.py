"""`equifactor large`: beliefs of pairwise models with up to billions of edges, whose factors share a few tables."""

from __future__ import annotations

import json
import re
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.base.errors import OptionError
from equifactor.base.status import Status
from equifactor.cli.completions import words
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.shared_options import Cluster, Strict, example, names_in

if TYPE_CHECKING:
    from equifactor.large.large_files import EdgeSource

EXAMPLE = example(
    'equifactor large rmat12 --table "0.6 0.4 0.4 0.6" --priors 0.45 -o beliefs.npy',
)
_TRIAL = re.compile(r"rmat(\d{1,2})")  # The name of a random graph for trials.
_EDGES_PER_VARIABLE = 16  # Of these graphs, as in the benchmark Graph 500.


def large(
    edges: Annotated[
        str,
        typer.Argument(
            metavar="EDGES",
            help="A .npy file of whole numbers [E, 2], or a Parquet file; for trials rmat20, a random graph of 2^20 "
            "variables.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .npy or .parquet file for the probability of state 1, or of each state.",
        ),
    ],
    table: Annotated[
        list[str],
        typer.Option(
            metavar="NUMBERS",
            help='The factor of an edge, "t00 t01 t10 t11" by the states of its two ends, or 9 numbers for 3 states, '
            "and so on; repeat it for more tables.",
        ),
    ],
    priors: Annotated[
        str | None,
        typer.Option(
            metavar="P|FILE",
            help="Probability of state 1 of all variables; a .npy file with one for each; or a Parquet file with the "
            "columns variable and probability. With K > 2 states K weights for each. By default all states are alike.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B[,T]", help="Columns of a Parquet file of edges: both ends, and the table if there are several."
        ),
    ] = None,
    prior_columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B[,..]", help="Columns of a Parquet file of priors: variable and probability, or K of them."
        ),
    ] = None,
    table_of_edge: Annotated[
        str | None, typer.Option(metavar="FILE", help="A .npy file with the number of the table of each edge, from 0.")
    ] = None,
    damping: Annotated[float, typer.Option(metavar="X", help="Share of the old message that is kept.")] = 0.0,
    iterations: Annotated[int, typer.Option(metavar="N", min=0, help="Most iterations.")] = 100,
    tolerance: Annotated[
        float, typer.Option(metavar="X", help="Stop when no probability changes by more in an iteration.")
    ] = 1e-4,
    bits: Annotated[int, typer.Option(metavar="16|32", help="Bits of a stored message.")] = 16,
    device: Annotated[str, typer.Option(metavar="NAME", autocompletion=words("cpu", "cuda"), help="cpu or cuda.")] = (
        "cpu"
    ),
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of the CPU; the default is all cores.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds; then the beliefs so far are written.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Save the state here, and continue from the state of an earlier run."),
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(metavar="S", help="Seconds between two checkpoints.")] = 600.0,
    cluster: Cluster = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the run.")] = False,
    strict: Strict = False,
) -> None:
    """Run belief propagation on a pairwise model whose factors share a few tables, such as guilt by association.

    An edge takes 12 bytes of memory, or 4 if EDGES is a .npy file of int32, which stays on the disk, and 4 more for
    each state beyond two. To divide the edges among processes, on one machine or several, start it by torchrun:
    torchrun --nproc-per-node 2 -m equifactor large ...
    --cluster starts one process on each worker of a Dask cluster; files must be on a disk that all workers share.
    """
    from equifactor.base.files import check_writable
    from equifactor.large.exchange import Exchange, own_device
    from equifactor.large.large_files import check_output
    from equifactor.large.large_solve import solve

    check_writable(output, (edges, priors, table_of_edge))
    check_output(output)
    settings: dict[str, Any] = {
        "table": [_table(text) for text in table], "priors": _numbers_or_file(priors), "table_of_edge": table_of_edge,
        "damping": damping, "iterations": iterations, "tolerance": tolerance, "bits": bits, "device": device,
        "threads": threads, "time_limit": time_limit, "checkpoint": checkpoint, "checkpoint_every": checkpoint_every,
        "columns": names_in(columns), "prior_columns": names_in(prior_columns),
    }  # fmt: skip
    about: dict[str, Any] | None = None
    if cluster is not None:
        from equifactor.large.large_cluster import run_on_cluster

        if not Path(edges).exists():
            raise OptionError(f"{edges}: there is no such file. A cluster reads the edges from a file.")
        about = run_on_cluster(cluster, edges, output, settings)
    else:
        result = solve(_file_or_trial(edges), progress=True, **settings)
        if Exchange(own_device(device)).rank == 0:
            result.save(output)
            about = result.facts()
        status = result.status
    if about is not None:
        status = Status(about["status"])
        if as_json:
            print(json.dumps(about))
        else:
            change = "" if about["change"] is None else f", last change {about['change']:.2g}"
            say(
                f"{edges}: {about['edges']:,} edges, {about['variables']:,} variables: {about['status']} after "
                f"{about['iterations']} iterations in {about['seconds']:.3g} s{change}"
            )
    if status is Status.INTERRUPTED:
        raise typer.Exit(Exit.INTERRUPTED)
    if strict and not status.solved:
        raise typer.Exit(Exit.UNSOLVED)


def _file_or_trial(text: str) -> EdgeSource:
    name = _TRIAL.fullmatch(text)
    if name is None or Path(text).exists():
        return text
    from equifactor.large.rmat import rmat_edges

    scale = int(name[1])
    return rmat_edges(scale, _EDGES_PER_VARIABLE * 2**scale)


def _table(text: str) -> list[list[float]]:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    states = isqrt(len(numbers))
    if states < 2 or states**2 != len(numbers):
        raise OptionError(f'--table must be 4, 9, 16 .. numbers such as "0.6 0.4 0.4 0.6", found "{text}".')
    return [numbers[row * states : (row + 1) * states] for row in range(states)]


def _numbers_or_file(text: str | None) -> Any:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()] if text is not None else None
    except ValueError:
        return text
    return numbers[0] if numbers is not None and len(numbers) == 1 else numbers
