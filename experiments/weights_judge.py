"""The errors of the weights of the package, compared with the best fixed damping of belief propagation.

The measure for MAR is the mean KL to the exact marginals after T/2 to 8T steps. The graphs have other seeds than in
training, are larger or different, or are public models. *Best BP* is the best of 20 combinations of damping and
iterations. It is chosen for each line on the test graphs themselves, which a user cannot do. The measure for MAP is the
mean UAI error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equifactor import FactorGraph, OptionError, metrics, solve
from equifactor.base.typing import FloatArray
from equifactor.data import Instance, collection
from equifactor.evaluation.provenance import provenance
from equifactor.learning.training.data_sources import read_source
from equifactor.show.text_tables import markdown
from experiments.network_files import file_hash, steps_of
from experiments.report import PAGE, RESULTS, write_report
from experiments.run_store import Row, RunStore, run_key
from experiments.runner import Effort, run_all
from experiments.weights_training import KINDS, weights_config

TASKS = ("MAR", "MAP")
# The seeds of the first family of test graphs; they differ from all seeds of training. Chosen by hand.
_FIRST_SEED = {"MAR": 9_000_000, "MAP": 9_001_000}
_MOST_PUBLIC = 20  # The largest number of public models of a family that are judged. Chosen by hand.
_FEW = 25  # The graphs of families with fewer graphs than this are large and solved one by one. Chosen by hand.
_FACTORS = {0.5: "T/2", 1: "T", 2: "2T", 4: "4T", 8: "8T"}  # The judged multiples of T, and their names in tables.


@dataclass(frozen=True)
class FamilyJudgement:
    """The weights on one family of graphs; an `ExperimentRun`.

    Attributes:
        task: "MAR" or "MAP".
        family: name of the line.
        generator: generator of the graphs; empty for public models.
        weights: folder of the model files.
        data: folder of the public models.
    """

    task: str
    family: str
    generator: str
    weights: Path
    data: str | None = None

    @property
    def key(self) -> str:
        """The name under which its row is stored."""
        return run_key(self.task, self.family)

    def files(self) -> dict[str, str]:
        """Return hashes of the model files that are judged, by kind."""
        paths = {kind: self.weights / f"{kind}-{self.task.lower()}.safetensors" for kind in KINDS}
        return {kind: file_hash(path) for kind, path in paths.items() if path.is_file()}

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row judges the present files."""
        return row.get("weights") == self.files()

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Judge all files on the family."""
        if self.generator:
            graphs, best = list(read_source(self.generator).graphs), None
        else:
            models = self._public_models()
            graphs, best = [i.graph() for i in models], [_best_score(i) for i in models] if self.task == "MAP" else None
        row = self.judge_mar(graphs) if self.task == "MAR" else self.judge_map(graphs, best)
        return {**row, "weights": self.files()}

    def _public_models(self) -> list[Instance]:
        name = self.family.removeprefix("UAI ")
        models = [i for i in collection(self.data, "MAR" if self.task == "MAR" else name) if i.family == name]
        return [i for i in models if self.task == "MAR" or i.split == "test"][:_MOST_PUBLIC]

    def judge_mar(self, graphs: Sequence[FactorGraph]) -> Row:
        """Return the KL of best BP, of every network after T/2 to 8T steps, and of their differences graph by graph."""
        exact = [getattr(r, "marginals", None) for r in solve(list(graphs), "MAR", "exact")]

        def kl(solver: str) -> FloatArray:
            together = len(graphs) >= _FEW
            answers = solve(list(graphs), "MAR", solver) if together else [solve(g, "MAR", solver) for g in graphs]
            pairs = zip(exact, (getattr(r, "marginals", None) for r in answers), strict=True)
            return np.array([np.inf if p is None or q is None else metrics.kl(p, q) for p, q in pairs])

        grid = {
            (d, n): kl(f"bp(damping={d}, iterations={n})") for d in (0.3, 0.5, 0.7, 0.8, 0.9) for n in (10, 20, 50, 200)
        }
        best = min(grid, key=lambda key: float(grid[key].mean()))
        row: Row = {"n": len(graphs), "bp": _summary(grid[0.5, 200]), "best": _summary(grid[best]), "best_is": best}
        row["loops"] = _summary(kl("fe-net(untrained, iterations=16, tolerance=0)"))
        for kind in KINDS:
            file = self.weights / f"{kind}-mar.safetensors"
            if not file.is_file() or (kind == "fe-gnn" and any((g.card != 2).any() for g in graphs)):
                continue
            steps = steps_of(file)
            found = {f: kl(f"{kind}(weights='{file}', iterations={round(f * steps)}, tolerance=0)") for f in _FACTORS}
            row[kind] = {name: _summary(found[f]) for f, name in _FACTORS.items()}
            row[f"{kind} less best"] = _summary(found[1] - grid[best])
        return row

    def judge_map(self, graphs: Sequence[FactorGraph], best: Sequence[float] | None) -> Row:
        """Return the UAI error of BP and of every network, decoded in both ways; impossible answers count as 1.

        Args:
            graphs: the models.
            best: best known log scores; None to compute them exactly.
        """
        if best is None:
            best = [getattr(r, "log_score", np.nan) for r in solve(list(graphs), "MAP", "exact")]
        row: Row = {"n": len(graphs)}
        files = {k: self.weights / f"{k}-map.safetensors" for k in ("fe-net", "fe-nbp")}
        solvers = {"bp": "bp(damping=0.5", **{k: f"{k}(weights='{f}'" for k, f in files.items() if f.is_file()}}
        for name, text in solvers.items():
            for decode in ("argmax", "sequential"):
                answers = [solve(g, "MAP", f"{text}, decode={decode})") for g in graphs]
                score = np.array([getattr(r, "log_score", -np.inf) for r in answers])
                error = np.minimum(metrics.map_error(score, np.array(best)), 1.0)
                row[f"{name} {decode}"] = {**_summary(error), "impossible": int(np.isneginf(score).sum())}
        return row


def judgements(task: str, weights: Path, data: str | None) -> list[FamilyJudgement]:
    """Return all families of a task; public families only if a folder is given."""
    config = weights_config()
    found = [
        FamilyJudgement(task, name, f"{text.removesuffix(')')}, seed={_FIRST_SEED[task] + n})", weights)
        for n, (name, text) in enumerate(config["judged"][task].items())
    ]
    public = config["public"][task] if data else []
    return found + [FamilyJudgement(task, f"UAI {name}", "", weights, data) for name in public]


def judge(runs: Sequence[FamilyJudgement], store: RunStore, effort: Effort) -> list[str]:
    """Judge the families that are not judged yet; return one sentence for each family that is not finished."""
    _, trouble = run_all(runs, store, effort)
    store.pack()
    return trouble


def write_judgement(task: str, store: RunStore) -> list[Path]:
    """Write the results of a task beside the results of the other task, and the tables of both; return the paths."""
    config = weights_config()
    names = [*config["judged"][task], *(f"UAI {name}" for name in config["public"][task])]
    keys = {name: FamilyJudgement(task, name, "", Path()).key for name in names}
    rows = {name: row for name, key in keys.items() if (row := store.get(key)) is not None}
    path = store.folder / RESULTS
    results: Row = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    about = provenance() if store.changed or task not in results else results[task]["provenance"]
    results[task] = {"provenance": about, "rows": rows}
    texts = {RESULTS: json.dumps(results, indent=1) + "\n", PAGE: judgement_page(results)}
    return write_report(store.folder, texts, {})


def judgement_page(results: Mapping[str, Row]) -> str:
    """Return the tables of the tasks that are judged."""
    parts = ["# The weights of the package"]
    if "MAR" in results:
        parts += ["\n## MAR: mean KL, ± its standard error", mar_table(results["MAR"].get("rows", {})).rstrip("\n")]
    if "MAP" in results:
        parts += ["\n## MAP: mean UAI error, ± its standard error\n", map_table(results["MAP"].get("rows", {}))]
    return "\n".join(parts).rstrip("\n") + "\n"


def map_table(rows: Mapping[str, Row]) -> str:
    """Return a table in Markdown; errors worse than the error of BP with the same decoding are bold."""
    names = list(dict.fromkeys(k for row in rows.values() for k in row if k not in ("n", "weights")))
    lines = [["graphs", "n", *names]]
    for family, row in rows.items():
        cells = []
        for name in names:
            worse = row[name]["mean"] > row["bp " + name.split()[-1]]["mean"] + 1e-12
            cells.append(f"**{_shown(row[name])}**" if worse else _shown(row[name]))
        lines.append([family, str(row["n"]), *cells])
    return markdown(lines) + "\n"


def mar_table(rows: Mapping[str, Row]) -> str:
    """Return a table in Markdown per kind of network; errors worse than the error of best BP are bold."""
    parts = []
    titles = ["graphs", "n", "`bp(damping=0.5)`", "best BP (damping, iterations)", "loops, untrained"]
    for kind in KINDS:
        lines = [[*titles, *_FACTORS.values(), "T less best BP"]]
        for family, row in rows.items():
            if kind not in row:
                continue
            cells = []
            for n in _FACTORS.values():
                text = _shown(row[kind][n]) if n == "T" else f"{row[kind][n]['mean']:.3g}"
                cells.append(f"**{text}**" if _worse(row[kind][n], row["best"]) else text)
            best = f"{_shown(row['best'])} ({row['best_is'][0]}, {row['best_is'][1]})"
            known = [family, str(row["n"]), _shown(row["bp"]), best, f"{row['loops']['mean']:.3g}"]
            lines.append([*known, *cells, _shown(row[f"{kind} less best"])])
        if len(lines) > 1:
            parts += ["", f"### `{kind}` after T/2 to 8T steps", "", markdown(lines)]
    return "\n".join(parts) + "\n"


def _best_score(instance: Instance) -> float:
    if instance.map_log_score is None:
        raise OptionError(f"{instance.key}: the best score is not known, so MAP cannot be judged on this model.")
    return instance.map_log_score


def _summary(values: FloatArray) -> dict[str, float]:
    """Return the mean and standard error of the finite values, and the number of other values."""
    finite = values[np.isfinite(values)]
    return {
        "mean": float(finite.mean()) if len(finite) else float("inf"),
        "stderr": float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else 0.0,
        "infinite": len(values) - len(finite),
    }


def _worse(cell: Row, than: Row) -> bool:
    return bool((cell["infinite"], cell["mean"]) > (than["infinite"], than["mean"]))


def _shown(cell: Row | None) -> str:
    if cell is None:
        return ""
    more = f" ({cell['infinite']} infinite)" if cell.get("infinite") else ""
    return f"{cell['mean']:.3g} ± {cell['stderr']:.1g}{more}"
