"""Parity checks and clauses: the time to compile a graph, and messages per second.

The graphs are regular codes of 3 checks per bit and 6 or 30 bits per check, and random 3-SAT and 5-SAT near the
threshold. A message is one edge in one iteration. Times are CPU time on one thread, the best of several runs. If the
package `ldpc` is installed (`python -m benchmarks.peers --install`), its decoder runs the same codes, in turn.

    python -m benchmarks.checks
    python -m benchmarks.checks --bits 10000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import equifactor as ef
from benchmarks._venvs import SCRIPTS, environment, python_of
from equifactor.solvers.messages.bp_engine import BpSettings
from equifactor.solvers.messages.literal_engine import LiteralEngine

_METHODS = {"sum": "product_sum", "max": "minimum_sum"}


def code_graph(code: ef.generators.LdpcCode) -> ef.FactorGraph:
    """Return the graph of a code with the received value of every bit."""
    ratio = np.random.default_rng(1).normal(2.0, 2.0, code.n)
    evidence = np.stack((np.zeros(code.n), -ratio), axis=1).ravel()
    return ef.FactorGraph.trusted(
        code.structure, np.concatenate((evidence, np.tile([0.0, -np.inf], len(code.check_ptr) - 1)))
    )


def rate(flat: ef.solvers.FlatGraph, semiring: str, sweeps: int) -> float:
    """Return the messages per second of the parallel schedule."""
    engine = LiteralEngine(flat, BpSettings(semiring, "parallel", 0.0, 0.0, 0))  # type: ignore[arg-type]
    engine.sweep(1)
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        engine.sweep(sweeps)
        best = min(best, time.process_time() - start)
    return len(engine.literals.lam) * sweeps / best


def rate_of_ldpc(python: Path, checks: np.ndarray, bits: int, semiring: str) -> float:
    """Return the messages per second of the package ldpc on the same code."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checks.npy"
        np.save(file, checks)
        request = {"checks": str(file), "bits": bits, "method": _METHODS[semiring], "repeats": 3}
        words = [str(python), str(SCRIPTS / "run_ldpc.py"), json.dumps(request)]
        ran = subprocess.run(words, check=True, capture_output=True, text=True, env=environment())
    return float(checks.size / json.loads(ran.stdout.splitlines()[-1])["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--variables", type=int, default=100_000, help="variables of the random formulas")
    parser.add_argument("--cache", type=Path, default=Path(".venv-peers"), help="folder of the peers' environments")
    args = parser.parse_args()
    ldpc = python_of("ldpc", args.cache)
    for bits in args.bits:
        for per_check in (6, 30):
            start = time.process_time()
            code = ef.generators.LdpcCode.random(bits, bits - 3 * bits // per_check)
            drawn = time.process_time()
            graph = code_graph(code)
            built = time.process_time()
            flat = ef.solvers.compile(graph)
            print(
                f"(3,{per_check}) of {bits:,} bits: drawn {drawn - start:.2f} s, structure {built - drawn:.2f} s, "
                f"compiled {time.process_time() - built:.2f} s",
                flush=True,
            )
            for semiring in _METHODS:
                ours = rate(flat, semiring, max(2, 2_000_000 // bits))
                line = f"  {semiring}: {ours / 1e6:.0f} M messages/s"
                if ldpc.exists():
                    theirs = rate_of_ldpc(ldpc, code.bits.reshape(-1, per_check), bits, semiring)
                    line += f", ldpc {theirs / 1e6:.1f} M messages/s, ratio {ours / theirs:.1f}"
                print(line, flush=True)
    for k, ratio in ((3, 4.2), (5, 20.0)):
        formula = ef.generators.random_ksat(args.variables, ratio=ratio, k=k, seed=0)
        flat = ef.solvers.compile(formula)
        for semiring in _METHODS:
            found = rate(flat, semiring, 5)
            print(f"{k}-SAT of {args.variables:,} variables, {semiring}: {found / 1e6:.0f} M messages/s", flush=True)


if __name__ == "__main__":
    main()
