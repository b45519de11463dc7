"""How good the weights of the package are, beside the best static damping of belief propagation.

    python -m experiments.judge MAR --data models --out experiments/weights
    python -m experiments.judge MAP --data models --out experiments/weights

MAR: mean KL to the exact marginals after T/2 to 8T steps, on graphs of other seeds, larger and other than those of
training, and on public models. *Best BP* is the best of 20 combinations of damping and iterations, chosen for each line
on these very graphs: more than a user can know. MAP: mean UAI error. With --weights DIR other files are judged.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor import FactorGraph, metrics, solve
from equifactor.evaluation.provenance import provenance
from equifactor.io.files import write_text
from equifactor.solvers.learned.model_card import read_card
from equifactor.training.data_sources import read_source

if TYPE_CHECKING:
    from equifactor.data import Instance

FAMILIES = {
    "Ising 4x4": "ising(4x4, n=300",
    "Ising 8x8": "ising(8x8, n=100",
    "Ising 12x12": "ising(12x12, n=50",
    "Ising 16x16": "ising(16x16, n=25",
    "Ising 8x8, J x2": "ising(8x8, coupling_std=2, n=100",
    "Ising 8x8, J x0.5": "ising(8x8, coupling_std=0.5, n=100",
    "asymmetric 4x4": "asymmetric(4x4, n=300",
    "asymmetric 8x8": "asymmetric(8x8, n=100",
    "regular, degree 3, 24 variables": "pairwise(num_vars=24, degree=3, structures=20, n=100",
    "regular, degree 4, 20 variables": "pairwise(num_vars=20, degree=4, structures=20, n=100",
    "Potts 4x4, 3 states": "potts(4x4, states=3, n=150",
    "Potts 4x4, 5 states": "potts(4x4, states=5, n=100",
    "Potts 4x4, 3 states, J x3": "potts(4x4, states=3, coupling_std=3, n=150",
    "Potts 4x4, 5 states, J x3": "potts(4x4, states=5, coupling_std=3, n=100",
    "random, arity to 3": "random(num_vars=16, num_factors=26, arity=1-3, n=150",
    "random, 30 variables, arity 2-3": "random(num_vars=30, num_factors=40, arity=2-3, n=80",
}
MAP_FAMILIES = {
    "Ising 8x8": "ising(8x8, n=60",
    "Ising 12x12": "ising(12x12, n=30",
    "Ising 8x8, J x10, fields x20": "ising(8x8, coupling_std=10, field_std=5, n=60",
    "asymmetric 8x8": "asymmetric(8x8, n=60",
    "regular, degree 3, 24 variables": "pairwise(num_vars=24, degree=3, structures=20, n=60",
    "Potts 5x5, 3 states": "potts(5x5, states=3, n=60",
    "Potts 4x4, 5 states": "potts(4x4, states=5, n=60",
    "random, arity to 3": "random(num_vars=16, num_factors=26, arity=1-3, n=80",
    "random, arity to 4, 15 % zeros": "random(num_vars=14, num_factors=18, arity=2-4, zeros=0.15, n=80",
}
FIRST_SEED = 9_000_000  # far from those of training
PUBLIC = ("Grids", "DBN", "Segmentation", "ObjectDetection")  # of the collection MAR
PUBLIC_MAP = ("Grids", "Segment", "DBN", "ObjDetect")
MOST_PUBLIC = 20
FACTORS = {0.5: "T/2", 1: "T", 2: "2T", 4: "4T", 8: "8T"}
KINDS = ("fe-net", "fe-nbp", "fe-gnn")
Row = dict[str, Any]


def graphs_of(task: str, data: str | None) -> dict[str, list[FactorGraph]]:
    """Graphs by family; the public ones where a folder is given."""
    texts = FAMILIES if task == "MAR" else MAP_FAMILIES
    found = {
        name: list(read_source(f"{text}, seed={FIRST_SEED + 1000 * (task == 'MAP') + n})").graphs)
        for n, (name, text) in enumerate(texts.items())
    }
    if data:
        from equifactor.data import collection

        for family in PUBLIC if task == "MAR" else PUBLIC_MAP:
            models = [i for i in collection(data, "MAR" if task == "MAR" else family) if i.family == family]
            if task == "MAP":
                models = [i for i in models if i.split == "test"]
            found[f"UAI {family}"] = [i.graph() for i in models[:MOST_PUBLIC]]
    return found


def judge_mar(graphs: Sequence[FactorGraph], weights: Path) -> Row:
    """KL of best BP and of every network after T/2 to 8T steps; differences graph by graph."""
    exact = [r.marginals for r in solve(list(graphs), "MAR", "exact")]

    def kl(solver: str) -> np.ndarray:
        answers = [solve(g, "MAR", solver) for g in graphs] if len(graphs) < 25 else solve(list(graphs), "MAR", solver)
        return np.array([metrics.kl(p, r.marginals) for p, r in zip(exact, answers, strict=True)])  # type: ignore[arg-type]

    grid = {
        (d, n): kl(f"bp(damping={d}, iterations={n})") for d in (0.3, 0.5, 0.7, 0.8, 0.9) for n in (10, 20, 50, 200)
    }
    best = min(grid, key=lambda key: float(grid[key].mean()))
    row: Row = {"n": len(graphs), "bp": _summary(grid[0.5, 200]), "best": _summary(grid[best]), "best_is": best}
    row["loops"] = _summary(kl("fe-net(untrained, iterations=16, tolerance=0)"))
    for kind in KINDS:
        file = weights / f"{kind}-mar.safetensors"
        if not file.is_file() or (kind == "fe-gnn" and any((g.card != 2).any() for g in graphs)):
            continue
        steps = read_card(file).settings["steps"]
        found = {f: kl(f"{kind}(weights='{file}', iterations={round(f * steps)}, tolerance=0)") for f in FACTORS}
        row[kind] = {name: _summary(found[f]) for f, name in FACTORS.items()}
        row[f"{kind} less best"] = _summary(found[1] - grid[best])
    return row


def judge_map(graphs: Sequence[FactorGraph], best: Sequence[float] | None, weights: Path) -> Row:
    """UAI error of BP and of every network, decoded in both ways; impossible answers count as 1."""
    if best is None:
        best = [r.log_score for r in solve(list(graphs), "MAP", "exact")]  # type: ignore[misc]
    row: Row = {"n": len(graphs)}
    files = {k: weights / f"{k}-map.safetensors" for k in ("fe-net", "fe-nbp")}
    solvers = {"bp": "bp(damping=0.5", **{k: f"{k}(weights='{f}'" for k, f in files.items() if f.is_file()}}
    for name, text in solvers.items():
        for decode in ("argmax", "sequential"):
            answers = [solve(g, "MAP", f"{text}, decode={decode})") for g in graphs]
            score = np.array([-np.inf if r.log_score is None else r.log_score for r in answers])
            error = np.minimum(metrics.map_error(score, np.array(best)), 1.0)
            row[f"{name} {decode}"] = {**_summary(error), "impossible": int(np.isneginf(score).sum())}
    return row


def _summary(values: np.ndarray) -> dict[str, float]:
    finite = values[np.isfinite(values)]  # means of finite ones; how many are not stands beside them
    spread = float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else 0.0
    return {
        "mean": float(finite.mean()) if len(finite) else float("inf"),
        "stderr": spread,
        "infinite": len(values) - len(finite),
    }


def _worse(cell: Row, than: Row) -> bool:
    return (cell["infinite"], cell["mean"]) > (than["infinite"], than["mean"])


def _shown(cell: Row | None) -> str:
    if cell is None:
        return ""
    more = f" ({cell['infinite']} infinite)" if cell.get("infinite") else ""
    return f"{cell['mean']:.3g} ± {cell['stderr']:.1g}{more}"


def table(task: str, rows: dict[str, Row]) -> str:
    """Markdown; bold is worse than best BP (MAR), than BP decoded in the same way (MAP)."""
    if task == "MAP":
        names = [k for k in next(iter(rows.values())) if k != "n"]
        lines = [f"| graphs | n | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
        for family, row in rows.items():
            cells = []
            for name in names:
                worse = row[name]["mean"] > row["bp " + name.split()[-1]]["mean"] + 1e-12
                cells.append(f"**{_shown(row[name])}**" if worse else _shown(row[name]))
            lines.append(f"| {family} | {row['n']} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"
    parts = []
    for kind in KINDS:
        if not any(kind in row for row in rows.values()):
            continue
        heads = [
            "graphs",
            "n",
            "`bp(damping=0.5)`",
            "best BP (damping, iterations)",
            "loops, untrained",
            *FACTORS.values(),
            "T less best BP",
        ]
        parts += ["", f"### `{kind}` after T/2 to 8T steps", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for family, row in rows.items():
            if kind not in row:
                continue
            cells = []
            for n in FACTORS.values():
                text = _shown(row[kind][n]) if n == "T" else f"{row[kind][n]['mean']:.3g}"
                cells.append(f"**{text}**" if _worse(row[kind][n], row["best"]) else text)
            best = f"{_shown(row['best'])} ({row['best_is'][0]}, {row['best_is'][1]})"
            known = [family, str(row["n"]), _shown(row["bp"]), best, f"{row['loops']['mean']:.3g}"]
            parts.append(f"| {' | '.join([*known, *cells, _shown(row[f'{kind} less best'])])} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Judge and write `TASK.md` and `TASK.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("MAR", "MAP"))
    parser.add_argument("--data", help="folder of the public models")
    parser.add_argument("--weights", type=Path, default=Path("equifactor/weights"))
    parser.add_argument("--out", type=Path, default=Path("experiments/weights"))
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    for family, graphs in graphs_of(options.task, options.data).items():
        start = time.perf_counter()
        if options.task == "MAR":
            rows[family] = judge_mar(graphs, options.weights)
        else:
            rows[family] = judge_map(graphs, _known(options.data, family), options.weights)
        print(f"{family}: {time.perf_counter() - start:.0f} s", flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        stem = options.task.lower()
        write_text(options.out / f"{stem}.md", table(options.task, rows))
        write_text(
            options.out / f"{stem}.json", json.dumps({"provenance": provenance(), "rows": rows}, indent=1) + "\n"
        )
    print(table(options.task, rows))


def _known(data: str | None, family: str) -> list[float] | None:
    """Best known scores of the public test models."""
    if data is None or not family.startswith("UAI "):
        return None
    from equifactor.data import collection

    models = [i for i in collection(data, family.removeprefix("UAI ")) if i.split == "test"]
    return [_score(i) for i in models[:MOST_PUBLIC]]


def _score(instance: Instance) -> float:
    if instance.map_log_score is None:
        raise SystemExit(f"the best score of {instance.key} is not known")
    return instance.map_log_score


if __name__ == "__main__":
    main()
