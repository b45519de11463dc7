"""`equifactor model`: what a trained model file is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.cli.command_options import example

if TYPE_CHECKING:
    from equifactor.solvers.learned.model_card import ModelCard

EXAMPLE = example("equifactor model mine.safetensors")


def model(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Model files (.safetensors).")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line and file.")] = False,
) -> None:
    """Describe trained models: kind, settings, size, task, training data and measures, version, symmetries."""
    from equifactor.solvers.learned.model_card import read_card

    for n, path in enumerate(files):
        card = read_card(path)
        print(_as_json(path, card) if as_json else ("\n" if n else "") + _as_text(path, card), flush=True)


def _as_text(path: str, card: ModelCard) -> str:
    tasks = "MAR, also used for PR" if card.task == "MAR" and _estimates_log_z(card.kind) else str(card.task)
    rows = [
        ("kind", f"{card.kind}: {_summary(card.kind) or 'unknown to this version'}"),
        ("settings", ", ".join(f"{name}={_value(value)}" for name, value in card.settings.items())),
        ("parameters", f"{card.parameters:,}"),
        ("task", tasks),
        ("trained on", (card.data or "not stated").replace(" + ", f"\n{'':18}+ ").replace("; ", f"\n{'':18}")),
        ("measures", ", ".join(f"{k} {'nan' if v is None else f'{v:.4g}'}" for k, v in card.metrics.items()) or "none"),
        ("gradient steps", "not stated" if card.updates is None else f"{card.updates:,}"),
        ("seed", "not stated" if card.seed is None else str(card.seed)),
        ("symmetries", ", ".join(_symmetries(card.kind)) or "none"),
        ("written by", f"equifactor {card.version}"),
    ]
    label_width = max(len(label) for label, _ in rows)
    return "\n".join([path, *(f"  {label:<{label_width}}  {value}" for label, value in rows)])


def _as_json(path: str, card: ModelCard) -> str:
    row: dict[str, Any] = {"file": path, **json.loads(card.to_json()), "symmetries": _symmetries(card.kind)}
    return json.dumps(row, allow_nan=False)


def _summary(kind: str) -> str:
    from equifactor.registry import solver_class, solver_names

    return solver_class(kind).summary() if kind in solver_names() else ""


def _symmetries(kind: str) -> list[str]:
    """Those the answers follow for any weights, as its solver declares them."""
    from equifactor.registry import solver_class, solver_names

    every = ("global", "local variable", "variable assignment")
    return [s for s in every if s in solver_class(kind).symmetries] if kind in solver_names() else []


def _estimates_log_z(kind: str) -> bool:
    from equifactor.registry import solver_class, solver_names

    return kind in solver_names() and "PR" in solver_class(kind).tasks


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
