"""The command line: the table of all subcommands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from equifactor._version import __version__
from equifactor.cli.exit_status import Exit
from equifactor.cli.lazy_commands import LazyGroup
from equifactor.cli.plain_values import with_plain_values
from equifactor.cli.shared_options import example

COMPLETION = "_EQUIFACTOR_COMPLETE"  # the environment variable with which a shell asks for completions

# Plain help without boxes: rich is not imported, and examples are not wrapped, so that they can be copied.
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

# A new command needs a line here and a file NAME_command.py with its EXAMPLE and a function of the same name.
COMMANDS = {
    "solve": "Compute marginals, ln Z or MAP of models.",
    "sample": "Draw samples from a model, as CSV.",
    "info": "Describe a model and the cost of exact inference.",
    "view": "Show a model, results or training in the browser.",
    "compare": "Compare several solvers on one model.",
    "convert": "Convert a model to another format.",
    "generate": "Generate seeded models of many kinds.",
    "solvers": "List the solvers and their options.",
    "fit": "Learn the potentials of a model from data.",
    "train": "Train a learned solver on your models.",
    "model": "Describe a trained model file.",
    "evaluate": "Score solvers on models with known answers.",
    "large": "Score the variables of a graph with up to billions of edges.",
    "decode": "Decode shots of an error-correcting code.",
    "isomorphic": "Tell whether two models differ only in numbering.",
    "dedupe": "Find equal models in a folder.",
    "audit": "Check the symmetries that a solver claims.",
    "download": "Download the public UAI models.",
    "demo": "Solve and draw a small spin glass.",
    "doctor": "Check the installation.",
}


def _placeholder() -> None:
    """Stand for a command until it is loaded."""


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
    """Parse the arguments and run their subcommand; the caller handles exceptions."""
    command = with_plain_values(typer.main.get_command(app))
    try:
        if COMPLETION in os.environ:  # The shell asks for completions; the words are in other variables.
            command.main(args, prog_name="equifactor")
        with command.make_context("equifactor", args) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # from --install-completion and from completions
        return end.code if isinstance(end.code, int) else Exit.DONE
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # This class is not public in every release of typer.
            raise
        print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
        return Exit.USAGE
    return Exit.DONE
