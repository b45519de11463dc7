"""`equifactor doctor`: whether the installation works, and what would improve it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.base.errors import EquifactorError, OptionError
from equifactor.base.files import reason
from equifactor.cli.exit_status import Exit, terminal_width
from equifactor.cli.shared_options import JsonLines, example
from equifactor.show.text_tables import labelled

if TYPE_CHECKING:
    from equifactor.cli.installation_checks import Checkup

EXAMPLE = example("equifactor doctor")


def doctor(
    as_json: JsonLines = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="First compile the kernels of all solvers, so that no run has to.")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="With --warm: save the kernels beside the package, for all users.")
    ] = False,
) -> None:
    """Check the installation: packages, processor, kernels and their cache, GPU, weights, plugins, data folders.

    Exit status 0: the installation works. 1: it does not, and the last lines tell what to do.
    """
    from equifactor.base.progress import bar
    from equifactor.cli.installation_checks import check_up

    if everyone and not warm:
        raise OptionError("--everyone needs --warm. Pass both.")
    if warm:
        _warm(everyone)
    with bar(True, "checking the installation"):
        found = check_up()
    print(json.dumps(found.to_dict(), allow_nan=False) if as_json else _as_text(found))
    if found.problems:
        raise typer.Exit(Exit.NO)


def _warm(everyone: bool) -> None:
    """Compile all kernels, into the folder of this user or into the one beside the package."""
    from equifactor.base.progress import bar
    from equifactor.cli.kernel_warming import warm
    from equifactor.kernels import kernel_folders

    if everyone:
        try:
            kernel_folders.use_shipped_folder()
        except OSError as error:
            raise EquifactorError(f"{kernel_folders.SHIPPED}: kernels cannot be saved here: {reason(error)}.") from None
    with bar(True, "compiling") as report:
        warm(report=report)


def _as_text(found: Checkup) -> str:
    parts = []
    for title, section in found.sections.items():
        rows = _ROWS[title](section) if title in _ROWS else [(name, _shown(value)) for name, value in section.items()]
        parts.append(labelled(title, rows or [("none", "")], terminal_width()))
    parts += [f"note: {note}" for note in found.notes]
    parts += [f"problem: {problem}" for problem in found.problems]
    parts.append("equifactor does not work here" if found.problems else "equifactor works here")
    return "\n".join(parts)


def _shown(value: Any) -> str:
    return "none" if value is None else ", ".join(value) if isinstance(value, list) else str(value)


def _extras(section: dict[str, Any]) -> list[tuple[str, str]]:
    absent = 'not installed: pip install "equifactor[{extra}]"'
    return [(name, row["version"] or absent.format(**row)) for name, row in section.items()]


def _kernels(section: dict[str, Any]) -> list[tuple[str, str]]:
    names = {"compile_seconds": "compile a line", "cold_seconds": "first small solve", "warm_seconds": "the next one"}
    times = [(name, _duration(section[key])) for key, name in names.items() if key in section]
    access = "" if section["writable"] else " (cannot be written)"
    cache = f"{section['cache']}{access}" if section.get("cache") else "none: no folder of this user can be written"
    rows = [*times, ("cache", cache)]
    if "ready" in section:
        left = section["seconds_left"]
        rest = f"; equifactor doctor --warm compiles the others in {_duration(left)} or more" if left else ""
        rows.append(("ready", f"{section['ready']} of {section['known']} kernels{rest}"))
    if section.get("shipped"):
        rows.append(("with the package", f"{section['shipped']} kernels in {section['shipped_folder']}"))
    return rows


def _duration(seconds: float) -> str:
    """Return a time in milliseconds, seconds or minutes."""
    if seconds < 1.0:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds / 60:.0f} minutes"


def _gpu(section: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (f"cuda:{n}", f"{d['name']}, {d['memory']}, driver {d['driver']}") for n, d in enumerate(section["devices"])
    ]
    if "triton_seconds" in section:
        rows.append(("Triton", f"kernels run, the first after {section['triton_seconds']:.2g} s"))
    return rows


def _weights(section: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, f"{row['kind']} for {row['task']}, {row['parameters']:,} parameters") for name, row in section.items()
    ]


_ROWS = {"extras": _extras, "kernels": _kernels, "gpu": _gpu, "weights": _weights}
