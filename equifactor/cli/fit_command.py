"""`equifactor fit`: learn the potentials of a model from data."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.base.errors import OptionError
from equifactor.base.files import check_new
from equifactor.cli.completions import model_files, words
from equifactor.cli.exit_status import Exit, say, terminal_width
from equifactor.cli.shared_options import InputFormat, example, names_in

if TYPE_CHECKING:
    from equifactor.learning.fitting.fit_method import Fitted

EXAMPLE = example(
    "equifactor generate tree --num-vars 10 --card 2-3 -o tree.uai",
    "equifactor sample tree.uai -n 1000 --seed 1 -o tree.csv",
    "equifactor fit tree.uai tree.csv -o fitted.uai",
)


def fit(
    structure: Annotated[
        str,
        typer.Argument(
            metavar="STRUCTURE", autocompletion=model_files, help="Model file whose potentials are to be learned."
        ),
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A .csv or .tsv file with names in the first line; - is stdin.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Model file to write; - is stdout.")],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="NAME",
            autocompletion=words("auto", "counts", "em", "likelihood", "pseudo-likelihood", "max-margin"),
            help='counts, em, likelihood, pseudo-likelihood, max-margin or auto; with settings as in "em(restarts=3)".',
        ),
    ] = "auto",
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Variables without values, such as A,B; all others must then have a column."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(metavar="X", help="Equivalent sample size, or k2, bdeu, none; for counts and em."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the method, which `equifactor solvers em` lists; may be repeated.",
        ),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="X", help="Share of the rows to hold out, such as 0.1, or a .csv file.")
    ] = None,
    tied: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTORS", help="Factors that share one table, by number, such as 1,2,3; may be repeated."
        ),
    ] = None,
    fixed: Annotated[
        str | None, typer.Option(metavar="FACTORS", help="Factors that are not changed, such as 0,4.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of random starts and of the split.")] = 0,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, help="Seconds; afterwards the best model so far is written.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FILE", help="File for the progress; if it exists, the run continues from it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it exists.")] = False,
    format: InputFormat = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, with the history.")] = False,
) -> None:
    """Learn the potentials of a model from data: Bayesian networks by counts or EM, any graph by likelihood.

    Columns are variables and cells are names of states. Empty cells are missing values, and variables without a column
    are hidden. Ctrl-C and the time limit write the best model so far and exit with status 130 and 1. An existing FILE
    is replaced only with --overwrite, or if the run continues from its checkpoint.
    """
    from equifactor.base.options import parse_options, parse_value
    from equifactor.base.status import Status
    from equifactor.formats import check_target, read_graph, write_graph
    from equifactor.learning.fitting.fitter import fit as run_fit

    check_target(out)
    continues = checkpoint is not None and Path(checkpoint).exists()
    if out != "-" and not overwrite and not continues:
        check_new(out, "Add --overwrite to replace it, or name another file.")
    given = parse_options(f"fit by {method}", ", ".join(settings or []))
    if prior is not None:
        given["prior"] = parse_value(prior)
    fitted = run_fit(
        read_graph(structure, format=format), data, method,
        hidden=names_in(hidden), validation=_share_or_path(validation),
        tied=[_numbers("--tied", text) for text in tied or []], fixed=_numbers("--fixed", fixed or ""),
        seed=seed, time_limit=time_limit, checkpoint=checkpoint, progress=True, **given,
    )  # fmt: skip
    write_graph(fitted.graph, out)
    print(_summary(fitted, out, as_json), file=sys.stderr if out == "-" else sys.stdout)
    if fitted.status in (Status.TIME_LIMIT, Status.INTERRUPTED):
        more = "run it again with the same --checkpoint" if checkpoint else "use --checkpoint FILE"
        say(f"stopped before the end; to continue, {more}")
        raise typer.Exit(Exit.INTERRUPTED if fitted.status is Status.INTERRUPTED else Exit.UNSOLVED)


def _share_or_path(text: str | None) -> Any:
    from equifactor.base.options import parse_value

    value = parse_value(text) if text is not None else None
    return text if isinstance(value, (str, bool)) else value


def _numbers(flag: str, text: str) -> list[int]:
    try:
        return [int(part) for part in names_in(text) or []]
    except ValueError:
        raise OptionError(f"{flag} takes numbers of factors, such as 1,2,3, found {text!r}.") from None


def _summary(fitted: Fitted, out: str, as_json: bool) -> str:
    if not as_json:
        from equifactor.show.text_tables import labelled

        *facts, (_, message) = fitted.facts()
        return f"{labelled(f'{out}: fitted', facts, terminal_width())}\n{message}"
    values = {
        "model": out, "method": fitted.method, "status": fitted.status.value,
        "message": fitted.message or fitted.status.advice, "rows": fitted.num_rows,
        "log_likelihood": _finite(fitted.log_likelihood),
        "validation_log_likelihood": _finite(fitted.validation_log_likelihood),
        "iterations": fitted.iterations, "seconds": round(fitted.seconds, 6), "history": list(fitted.history),
    }  # fmt: skip
    return json.dumps(values)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
