"""The page of all commands, made of their help texts."""

from __future__ import annotations

import os
from pathlib import Path

from typer.main import get_command_name
from typer.testing import CliRunner

PAGE = "reference/commands.md"


def add(pages: Path) -> None:
    """Append the help texts to the page of commands."""
    page = pages / PAGE
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{help_texts()}", encoding="utf-8")


def help_texts() -> str:
    """Return the help texts of all commands, in the order of the help."""
    from equifactor.cli.app import app

    names = [c.name or get_command_name(c.callback.__name__) for c in app.registered_commands if c.callback]
    parts = [_fenced(_help([]))]
    for name in names:
        parts += [f"## equifactor {name}\n", _fenced(_help([name]))]
    for group in app.registered_groups:
        parts += [f"## equifactor {group.name}\n", _fenced(_help([group.name]))]
        for command in group.typer_instance.registered_commands if group.typer_instance else []:
            name = command.name or get_command_name(command.callback.__name__ if command.callback else "")
            parts += [f"### equifactor {group.name} {name}\n", _fenced(_help([group.name, name]))]
    return "\n".join(parts)


def _help(words: list[str | None]) -> str:
    from equifactor.cli.app import app

    os.environ["COLUMNS"] = "110"
    done = CliRunner().invoke(app, [*filter(None, words), "--help"], prog_name="equifactor")
    if done.exit_code:
        raise RuntimeError(f"equifactor {words} --help ended with {done.exit_code}: {done.output}")
    return done.output.strip()


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```\n"
