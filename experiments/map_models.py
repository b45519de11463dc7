"""Model by model: who proves what, and how far a bound is from its answer where nobody does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from equifactor.data import Instance
from equifactor.text_tables import markdown
from experiments.map_answers import error_of
from experiments.map_cells import gap_of
from experiments.map_experiment import MapExperiment
from experiments.map_splits import ModelSplit
from experiments.run_store import Row

_DENSE = 0.5  # share of all pairs of variables from which a model counts as dense
_INTRODUCTION = (
    "Test models, and all models of the collections that are cross-validated; dense: at least half of all pairs of "
    "variables share a factor. The gap is relative to the score."
)


def describe(splits: Sequence[ModelSplit]) -> list[Row]:
    """What the index says about every model that is judged, the small ones of a collection first."""
    instances = {i.key: i for split in splits for i in split.test}
    order = list(dict.fromkeys(i.collection for i in instances.values()))
    rows = [_describe(i) for i in instances.values()]
    return sorted(
        rows, key=lambda r: (order.index(r["collection"]), r["variables"] or 0, r["factors"] or 0, r["model"])
    )


def _describe(instance: Instance) -> Row:
    variables, factors = instance.record.get("variables"), instance.record.get("factors")
    dense = None  # where the index does not say
    if variables and factors:
        dense = factors - variables >= _DENSE * variables * (variables - 1) / 2
    return {
        "collection": instance.collection, "model": instance.name, "variables": variables, "factors": factors,
        "dense": dense, "best_known": instance.map_log_score, "optimal": instance.map_is_optimal,
    }  # fmt: skip


def model_tables(experiment: MapExperiment, models: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Proofs by collection, sparse and dense models apart, and a table of all models; for the lines of `details`.

    A model that is in the test split and in a fold was solved once and is shown once.
    """
    found = {(r["line"], r["collection"], r["instance"]): r for r in rows if r["line"] in experiment.details}
    names = [n for n in experiment.details if any(key[0] == n for key in found)]
    if not names:
        return []
    parts = ["", "## Model by model", "", _INTRODUCTION, ""]
    parts += [markdown([("models", *names), *_summary(models, names, found)]), ""]
    table: list[tuple[object, ...]] = [("model", "variables", "factors", "best known", *names)]
    for m in models:
        mine = [found.get((n, m["collection"], m["model"])) for n in names]
        if any(mine):
            known = f"{m['best_known']:.4f}{', optimal' * bool(m.get('optimal'))}"
            title = f"{m['collection']}/{m['model']}"
            table.append((title, m["variables"] or "", m["factors"] or "", known, *(_verdict(r) for r in mine)))
    return [*parts, markdown(table)]


def _summary(models: Sequence[Row], names: Sequence[str], found: Mapping[tuple[str, str, str], Row]) -> list[list[str]]:
    lines = []
    for collection in dict.fromkeys(m["collection"] for m in models):
        kinds = {m.get("dense") for m in models if m["collection"] == collection}
        for kind in sorted(kinds, key=bool):
            chosen = [m["model"] for m in models if (m["collection"], m.get("dense")) == (collection, kind)]
            title = collection + (f", {'dense' if kind else 'sparse'}" if len(kinds) > 1 else "")
            answers = [[r for m in chosen if (r := found.get((n, collection, m)))] for n in names]
            lines.append([title, *(_proofs(mine) for mine in answers)])
    return lines


def _proofs(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    gaps = [math.inf if (g := gap_of(row)) is None else g for row in rows]
    proven = sum(bool(row.get("proven")) for row in rows)
    return f"{proven} of {len(rows)} proven" + ("" if proven == len(rows) else f", largest gap {max(gaps):.2g}")


def _verdict(row: Row | None) -> str:
    if row is None:
        return ""
    seconds, gap = f"{row['seconds']:.3g} s", gap_of(row)
    if row.get("proven"):
        return f"proven, {seconds}"
    return f"error {error_of(row):.2g}, {'no bound' if gap is None else f'gap {gap:.2g}'}, {seconds}"
