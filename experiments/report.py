"""Shared functions of the reports of all experiments: means, and files with results, tables and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from equifactor.base.files import write_text
from equifactor.evaluation.provenance import provenance
from experiments.run_store import Row, compact, plain

RESULTS = "results.json"
PAGE = "table.md"


def origin(folder: Path, *, changed: bool) -> Row:
    """Return the provenance of this call if it changed a run, otherwise the provenance of the results in the folder."""
    path = folder / RESULTS
    if not changed and path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8"))["provenance"])
    return provenance()


def write_report(folder: Path, texts: Mapping[str, str], figures: Mapping[str, Callable[[Path], None]]) -> list[Path]:
    """Write all files of an experiment; return their paths.

    Args:
        folder: the folder of the experiment.
        texts: the content of each text file, by name.
        figures: functions that draw each figure into a file, by name; not called without matplotlib.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)
    drawn = figures if find_spec("matplotlib") else {}
    for name, draw in drawn.items():
        draw(folder / name)
    return [folder / name for name in (*texts, *drawn)]


def line_by_line(results: Row) -> str:
    """Return JSON with one line per row, without fields that are null, false or empty."""
    parts = []
    for name, value in plain(results).items():
        text = json.dumps(value, allow_nan=False)
        if isinstance(value, list) and value:
            rows = [json.dumps(compact(v) if isinstance(v, dict) else v, allow_nan=False) for v in value]
            text = "[\n  " + ",\n  ".join(rows) + "\n ]"
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def mean(values: Sequence[float]) -> float:
    """Return the mean from an exact sum, so that tables are the same on every version of Python; NaN without values."""
    return math.fsum(values) / len(values) if values else math.nan


def mean_over_seeds(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Return the mean over seeds and its standard error.

    All seeds are judged on the same graphs or words, so `errors` over graphs or words do not shrink with more seeds.
    The mean of `errors` is combined with the standard error over seeds.
    """
    middle, shared = mean(values), mean(errors)
    over_seeds = deviation(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return middle, math.hypot(shared, over_seeds)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan
    middle = mean(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (len(values) - 1))
