"""`equifactor sample`: assignments drawn from a model, as CSV with names or as a numpy archive."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.completions import model_files, words
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import EvidencePaths, InputFormat, Plugins, Sample, example

if TYPE_CHECKING:
    from equifactor.questions.samples import Samples

EXAMPLE = example(
    "equifactor generate tree --num-vars 10 --card 2-3 -o tree.uai",
    "equifactor sample tree.uai -n 1000 --seed 1 -o tree.csv",
)


def sample(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", autocompletion=model_files, help="A model file, as for equifactor solve; - is stdin."
        ),
    ],
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=0, help="How many samples.")] = 1000,
    evidence: EvidencePaths = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same samples.")] = 0,
    solver: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            autocompletion=words("auto", "exact", "blocks"),
            help="auto, exact to have exact samples or none, or blocks for chains.",
        ),
    ] = "auto",
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds; then fewer samples come.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A .csv (also .gz, .xz) or .npz file; - is stdout.")
    ] = "-",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 unless the status is exact or converged.")
    ] = False,
    format: InputFormat = None,
    sample: Sample = None,
    plugin: Plugins = None,
) -> None:
    """Draw samples from a model, given evidence: a line of names, then a line of states for each.

    Samples are independent and exact where an elimination plan fits in memory. Elsewhere they are states of Markov
    chains; stderr says whether the chains agree.
    """
    from equifactor.base.files import check_writable, split_name, write_bytes, write_text
    from equifactor.questions.sample import sample as draw

    check_writable(output)
    suffix = split_name(output)[1]
    if output != "-" and suffix not in ("", ".csv", ".npz"):
        raise OptionError(f"{output}: samples are written as .csv (also .csv.gz, .csv.xz) or .npz, found {suffix}")
    graphs = ModelReader([model], evidence, format, sample)
    for path, graph in graphs:
        drawn = draw(graph, count, seed=seed, solver=solver, time_limit=time_limit, progress=True)
        if output.endswith(".npz"):
            write_bytes(output, _archive(drawn))
        else:
            write_text(output, drawn.csv_lines())
        if drawn.status != "exact":
            say(f"{path}: {len(drawn):,} samples: {drawn.status}: {drawn.message or drawn.status.advice}")
        if drawn.status == "interrupted":
            raise typer.Exit(Exit.INTERRUPTED)
        if strict and not drawn.status.solved:
            raise typer.Exit(Exit.UNSOLVED)
    if graphs.failed:
        raise typer.Exit(Exit.BAD_INPUT)


def _archive(drawn: Samples) -> bytes:
    """States [n, V] and the names of variables and states, without pickles."""
    import numpy as np

    s = drawn.graph.structure
    names = [str(state) for i in range(s.num_vars) for state in s.states_of(i)]
    file = io.BytesIO()
    np.savez(
        file, states=drawn.states, variables=np.array(drawn.names), state_names=np.array(names), state_ptr=s.state_ptr
    )
    return file.getvalue()
