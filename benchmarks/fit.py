"""Fit tables of Bayesian networks to samples: accuracy, and time compared with pgmpy.

The networks come with pgmpy and are read from its environment. Rows are drawn from a network, and tables are fitted to
the rows. On other rows, the log-likelihood is compared with the log-likelihood of the true tables. Times are CPU time
on one thread; for counts, the best of several runs. pgmpy runs in a separate process directly afterwards.

    python -m benchmarks.peers --install --only exact      # makes the environment of pgmpy, among others
    python -m benchmarks.fit
    python -m benchmarks.fit --networks alarm --rows 5000
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef
from benchmarks._venvs import SCRIPTS, environment, python_of
from benchmarks.networks import best_of
from equifactor.base.typing import IntArray
from equifactor.learning.fitting.data_rows import read_data
from equifactor.learning.fitting.row_likelihood import mean_log_likelihood
from equifactor.show.text_tables import aligned

COUNTS = 0.5  # The target of counts: the largest loss of held-out log-likelihood, in per cent.
EM = 1.0  # The target of EM: the largest loss of held-out log-likelihood, in per cent.
SPEED = 20.0  # The target of speed: the time of pgmpy divided by the time of counts.
HIDDEN = {"alarm": ("HYPOVOLEMIA", "LVEDVOLUME", "STROKEVOLUME")}  # The hidden variables, as in pgmpy's issue 1692.


def model_file(name: str, python: Path) -> Path | None:
    """Return the compressed file of a network that comes with pgmpy."""
    found = sorted(python.parent.parent.glob(f"[lL]ib/**/pgmpy/utils/example_models/{name}.bif.gz"))
    return found[0] if found else None


def pgmpy_seconds(python: Path, packed: Path, graph: ef.FactorGraph, rows: IntArray, repeats: int) -> dict[str, float]:
    """Return the seconds of the two estimators of pgmpy on the same rows."""
    s = graph.structure
    assert s.variable_names is not None
    assert s.state_names is not None
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder) / "model.bif", Path(folder) / "data.csv"
        model.write_bytes(gzip.decompress(packed.read_bytes()))
        names = [np.array(states, object)[rows[:, i]] for i, states in enumerate(s.state_names)]
        with data.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(s.variable_names)
            writer.writerows(zip(*names, strict=True))
        request = json.dumps({"model": str(model), "data": str(data), "repeats": repeats})
        command = [str(python), str(SCRIPTS / "fit_of_pgmpy.py"), request]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, args: argparse.Namespace, python: Path) -> list[dict[str, Any]]:
    """Measure counts, EM with missing values, and EM with hidden variables (if some are named) on one network."""
    packed = model_file(name, python)
    if packed is None:
        print(f"{name}: not found beside {python}; run python -m benchmarks.peers --install", file=sys.stderr)
        return []
    truth = ef.read_graph(packed)
    rows, held_out = (ef.sample(truth, args.rows, seed=args.seed + k).states for k in range(2))
    found = []

    def add(what: str, fitted: ef.answers.Fitted, seconds: float, target: float, scored: IntArray) -> dict[str, Any]:
        table = read_data(truth, scored)
        true = mean_log_likelihood(truth, table)
        score = fitted.score(table)
        row = {
            "network": name, "what": what, "seconds": seconds, "iterations": fitted.iterations or "", "true": true,
            "fitted": score, "target": target, "lost": 100.0 * (true - score) / abs(true),
        }  # fmt: skip
        found.append(row)
        return row

    first = ef.fit(truth, rows)
    row = add("counts", first, best_of(5 * args.repeats, lambda: ef.fit(truth, rows)), COUNTS, held_out)
    row.update(pgmpy_seconds(python, packed, truth, rows, args.repeats))
    gaps = np.where(np.random.default_rng(args.seed).random(rows.shape) < args.missing, -1, rows)
    ef.fit(truth, gaps[:100], iterations=1)  # loads the compiled kernels
    start = time.process_time()
    by_em = ef.fit(truth, gaps)
    add(f"em, {args.missing:.0%} missing", by_em, time.process_time() - start, EM, held_out)
    if name in HIDDEN:
        hidden = [truth.variable(v) for v in HIDDEN[name]]
        rows[:, hidden] = held_out[:, hidden] = -1
        start = time.process_time()
        by_em = ef.fit(truth, rows)
        add(f"em, {len(hidden)} hidden", by_em, time.process_time() - start, EM, held_out)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Tables of Bayesian networks from samples: held-out log-likelihood and time, beside pgmpy.",
        epilog="example: python -m benchmarks.fit --networks alarm",
    )
    parser.add_argument("--networks", nargs="+", default=["alarm", "hailfinder", "win95pts"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--missing", type=float, default=0.2, help="share of the values that EM does not see")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path(".venv-peers"), help="folder of the peers' environments")
    args = parser.parse_args()
    python = python_of("pgmpy", args.cache)
    if not python.exists():
        print(f"skipped: {python} does not exist; run python -m benchmarks.peers --install", file=sys.stderr)
        return
    titles = (
        "network",
        "what",
        "true",
        "fitted",
        "lost %",
        "target",
        "iterations",
        "seconds",
        "pgmpy mle, bdeu",
        "ratio",
    )
    table: list[tuple[Any, ...]] = [titles]
    for name in args.networks:
        for r in measure(name, args, python):
            peer = f"{r['mle']:.3f}, {r['bdeu']:.3f}" if "mle" in r else ""
            ratio = f"{min(r['mle'], r['bdeu']) / r['seconds']:.0f}x" if "mle" in r else ""
            scores = (f"{r['true']:.4f}", f"{r['fitted']:.4f}", f"{r['lost']:.3f}")
            table.append((name, r["what"], *scores, r["target"], r["iterations"], f"{r['seconds']:.4f}", peer, ratio))
    print(aligned(table, right=range(2, 10), rule=True))
    print(f"target: at most {COUNTS} % (counts) and {EM} % (em) of the log-likelihood lost, {SPEED:.0f}x pgmpy")


if __name__ == "__main__":
    main()
