"""Groups of commands whose files are imported only when a command runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from equifactor.base.options import choices
from equifactor.cli.plain_values import with_plain_values


class SuggestingGroup(TyperGroup):
    """A command group that suggests the closest name when a command is unknown."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names."""
        if args and args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {args[0]!r}; {choices(args[0], list(self.commands))}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """The commands of `equifactor`. Each is registered with one line of help; its file is imported on use."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, with its options."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else _loaded(name), rest


def _loaded(name: str) -> Any:
    """Return the command in the file of its name: a function with its example, or a group called `app`."""
    module = import_module(f"equifactor.cli.{name}_command")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, epilog=module.EXAMPLE)(getattr(module, name))
    return with_plain_values(typer.main.get_command(app))
