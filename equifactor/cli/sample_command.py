"""`equifactor sample`: samples of a model, as CSV with names or as a NumPy archive."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.completions import words
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import (
    Do,
    EvidencePaths,
    InputFormat,
    ModelPath,
    Plugins,
    Sample,
    Seed,
    Strict,
    example,
)

if TYPE_CHECKING:
    from equifactor.questions.samples import Samples

EXAMPLE = example(
    "equifactor generate tree --num-vars 10 --card 2-3 -o tree.uai",
    "equifactor sample tree.uai -n 1000 --seed 1 -o tree.csv",
)


def sample(
    model: ModelPath,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=0, help="Number of samples.")] = 1000,
    evidence: EvidencePaths = None,
    do: Do = None,
    seed: Seed = 0,
    solver: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            autocompletion=words("auto", "exact", "blocks"),
            help="exact for exact samples or an error, blocks for Markov chains, or auto.",
        ),
    ] = "auto",
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds; then the samples drawn so far are written.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A .csv (also .gz, .xz) or .npz file; - is stdout.")
    ] = "-",
    strict: Strict = False,
    format: InputFormat = None,
    sample: Sample = None,
    plugin: Plugins = None,
) -> None:
    """Draw samples from a model, given evidence: a line of names, then one line of states per sample.

    Samples are independent and exact if an elimination plan fits in memory. Otherwise they are states of Markov
    chains, and a note on stderr tells whether the chains agree. If nothing can be drawn, no file is written, and the
    exit status is 1.
    """
    from equifactor.base.files import check_writable, split_name, write_bytes, write_text
    from equifactor.questions.sample import sample as draw

    check_writable(output)
    suffix = split_name(output)[1]
    if output != "-" and suffix not in ("", ".csv", ".npz"):
        raise OptionError(
            f"{output}: samples are written to a .csv (also .csv.gz, .csv.xz) or .npz file, found the suffix {suffix}."
        )
    graphs = ModelReader([model], evidence, format, sample, do)
    for path, graph in graphs:
        drawn = draw(graph, count, seed=seed, solver=solver, time_limit=time_limit, progress=True)
        if len(drawn) or not count:
            if output.endswith(".npz"):
                write_bytes(output, _archive(drawn))
            else:
                write_text(output, drawn.csv_lines())
        if drawn.status != "exact":
            say(f"{path}: {len(drawn):,} samples: {drawn.status}: {drawn.message or drawn.status.advice}")
        if drawn.status == "interrupted":
            raise typer.Exit(Exit.INTERRUPTED)
        if (count and not len(drawn)) or (strict and not drawn.status.solved):
            raise typer.Exit(Exit.UNSOLVED)
    graphs.exit_if_failed()


def _archive(drawn: Samples) -> bytes:
    """Return an archive of the states [n, V] and of the names of variables and states, without pickles."""
    import numpy as np

    s = drawn.graph.structure
    names = [str(state) for i in range(s.num_vars) for state in s.states_of(i)]
    file = io.BytesIO()
    np.savez(
        file, states=drawn.states, variables=np.array(drawn.names), state_names=np.array(names), state_ptr=s.state_ptr
    )
    return file.getvalue()
