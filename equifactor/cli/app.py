"""The command line: all subcommands put together."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from equifactor._version import __version__
from equifactor.cli.exit_status import Exit
from equifactor.cli.lazy_commands import LazyGroup
from equifactor.cli.shared_options import example

COMPLETION = "_EQUIFACTOR_COMPLETE"  # the environment variable by which a shell asks for words

# Plain help rather than boxes: nothing is wrapped or cut, so that an example can be copied, and rich stays out.
app = typer.Typer(
    name="equifactor",
    help="Marginals, ln Z and the most probable assignment of discrete factor graphs.",
    epilog=example("equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai", "equifactor solve grid.uai"),
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

# A new command is a file NAME_command.py with a function of its name and its EXAMPLE, and a line here.
COMMANDS = {
    "solve": "Marginals, ln Z or MAP of models.",
    "sample": "Samples of a model, as CSV.",
    "info": "What is in a model, and what exact costs.",
    "view": "A page in the browser: a model, results, training.",
    "compare": "Several solvers on one model, side by side.",
    "convert": "One model format to another.",
    "generate": "Seeded models of many kinds.",
    "solvers": "The solvers and their options.",
    "fit": "The potentials of a model, from data.",
    "train": "A learned solver, trained on your models.",
    "model": "What a trained model file is.",
    "evaluate": "Solvers compared on models with known answers.",
    "decode": "Shots of an error-correcting code.",
    "isomorphic": "Whether two models are one up to numbering.",
    "dedupe": "Classes of equal models in a folder.",
    "audit": "The symmetries of a solver, claimed and measured.",
    "download": "The public UAI models, into a folder.",
    "demo": "Solve and draw a small spin glass.",
    "doctor": "Whether the installation works.",
}


def _placeholder() -> None:
    """Stands for a command until it is loaded."""


for _name, _about in COMMANDS.items():
    app.command(_name, short_help=_about)(_placeholder)


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
        if COMPLETION in os.environ:  # the shell asks, and the words stand in other variables
            command.main(args, prog_name="equifactor")
        with command.make_context("equifactor", args) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # of --install-completion and of what the shell asks
        return end.code if isinstance(end.code, int) else Exit.DONE
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # not public in every release of typer
            raise
        print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
        return Exit.USAGE
    return Exit.DONE
