"""The command line: all subcommands put together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from equifactor._version import __version__
from equifactor.cli import audit_command as audit
from equifactor.cli import convert_command as convert
from equifactor.cli import decode_command as decode
from equifactor.cli import dedupe_command as dedupe
from equifactor.cli import demo_command as demo
from equifactor.cli import doctor_command as doctor
from equifactor.cli import download_command as download
from equifactor.cli import evaluate_command as evaluate
from equifactor.cli import fit_command as fit
from equifactor.cli import generate_command as generate
from equifactor.cli import info_command as info
from equifactor.cli import isomorphic_command as isomorphic
from equifactor.cli import model_command as model
from equifactor.cli import sample_command as sample
from equifactor.cli import solve_command as solve
from equifactor.cli import solvers_command as solvers
from equifactor.cli import train_command as train
from equifactor.cli.exit_status import Exit
from equifactor.cli.shared_options import example

# Plain help rather than boxes: nothing is wrapped or cut, so that an example can be copied, and rich stays out.
app = typer.Typer(
    name="equifactor",
    help="Marginals, ln Z and the most probable assignment of discrete factor graphs.",
    epilog=example("equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai", "equifactor solve grid.uai"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

for command, about in (
    (solve, "Marginals, ln Z or MAP of models."),
    (sample, "Samples of a model, as CSV."),
    (info, "What is in a model, and what exact costs."),
    (convert, "One model format to another."),
    (solvers, "The solvers and their options."),
    (fit, "The potentials of a model, from data."),
    (train, "A learned solver, trained on your models."),
    (model, "What a trained model file is."),
    (evaluate, "Solvers compared on models with known answers."),
    (decode, "Shots of an error-correcting code."),
    (isomorphic, "Whether two models are one up to numbering."),
    (dedupe, "Classes of equal models in a folder."),
    (audit, "The symmetries of a solver, claimed and measured."),
    (download, "The public UAI models, into a folder."),
    (demo, "Solve and draw a small spin glass."),
    (doctor, "Whether the installation works."),
):
    name = command.__name__.rpartition(".")[2].removesuffix("_command")
    app.command(name, short_help=about, epilog=command.EXAMPLE)(getattr(command, name))
app.add_typer(generate.app, name="generate", short_help="Seeded models of many kinds.", epilog=generate.EXAMPLE)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"equifactor {__version__}")
        raise typer.Exit


@app.callback()
def equifactor(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Marginals, ln Z and the most probable assignment of discrete factor graphs."""


def run(args: list[str]) -> int:
    """Parse the arguments and run the subcommand they name; exceptions are left to the caller."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("equifactor", args) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # not public in every release of typer
            raise
        print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
        return Exit.USAGE
    return Exit.DONE
