"""`equifactor model`: the description of a trained model file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.cli.completions import trained_models
from equifactor.cli.shared_options import JsonLines, Plugins, example
from equifactor.show.text_tables import labelled

if TYPE_CHECKING:
    from equifactor.solvers.learned.model_card import ModelCard
    from equifactor.solving.solver import Solver

EXAMPLE = example("equifactor model mine.safetensors")


def model(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", autocompletion=trained_models, help="Model files (.safetensors).")
    ],
    as_json: JsonLines = False,
    plugin: Plugins = None,
) -> None:
    """Describe trained models: kind, settings, size, task, training data, measures, version and symmetries."""
    from equifactor.solvers.learned.model_card import read_card

    for n, path in enumerate(files):
        card = read_card(path)
        if _solver(card) is not None:  # A file that `solve` would refuse raises here too.
            from equifactor.solvers.learned.model_files import load_network

            load_network(path, card)
        print(_as_json(path, card) if as_json else ("\n" if n else "") + _as_text(path, card), flush=True)


def _as_text(path: str, card: ModelCard) -> str:
    solver = _solver(card)
    estimates_log_z = solver is not None and "PR" in solver.tasks
    rows = [
        ("kind", f"{card.kind}: {'unknown to this version' if solver is None else solver.summary()}"),
        ("settings", ", ".join(f"{name}={_value(value)}" for name, value in card.settings.items())),
        ("parameters", f"{card.parameters:,}"),
        ("task", "MAR, also used for PR" if card.task == "MAR" and estimates_log_z else str(card.task)),
        ("trained on", (_plain(card.data) or "not stated").replace(" + ", f"\n{'':16}+ ").replace("; ", f"\n{'':16}")),
        *([("started from", _plain(card.start))] if card.start else []),
        ("measures", ", ".join(f"{k} {'nan' if v is None else f'{v:.4g}'}" for k, v in card.metrics.items()) or "none"),
        ("gradient steps", "not stated" if card.updates is None else f"{card.updates:,}"),
        ("seed", "not stated" if card.seed is None else str(card.seed)),
        ("symmetries", ", ".join(_symmetries(card)) or "none"),
        ("written by", f"equifactor {card.version}"),
    ]
    return labelled(path, rows)


def _as_json(path: str, card: ModelCard) -> str:
    row: dict[str, Any] = {"file": path, **json.loads(card.to_json()), "symmetries": _symmetries(card)}
    return json.dumps(row, allow_nan=False)


def _solver(card: ModelCard) -> type[Solver] | None:
    """Return the class that runs models of this kind, or None for a kind that this version does not know."""
    from equifactor.solving.registry import is_solver, solver_class

    return solver_class(card.kind) if is_solver(card.kind) else None


def _symmetries(card: ModelCard) -> list[str]:
    """Return the symmetries that the solver declares, which hold for any weights."""
    from equifactor.symmetry import KINDS

    solver = _solver(card)
    return [] if solver is None else [kind for kind in KINDS if kind in solver.symmetries]


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _plain(str(value))


def _plain(text: str) -> str:
    """Return text of a file with its control characters escaped, because a terminal would obey them."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
