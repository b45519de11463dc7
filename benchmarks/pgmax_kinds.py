"""Compare with PGMax on its structured factors: OR, AND, pool and enumerated factors.

Both libraries build the same graph and send the same damped messages, all at once. A message is one edge in one
iteration. Times are CPU time on one thread, the best of several runs. The compared answers are marginals after the same
number of iterations for sum-product, and the decoded states for max-product. PGMax uses single precision, and
equifactor double precision.

On these graphs messages stay within the range of linear numbers. On ors, ands and pools over scopes drawn at random
from a single layer, messages become nearly certain. Then equifactor computes in logs: 4 to 5 million messages a second,
about twice PGMax.

    python -m benchmarks.peers --install
    python -m benchmarks.pgmax_kinds
    python -m benchmarks.pgmax_kinds --factors 2000 --arity 9 --kinds or pool
"""

from __future__ import annotations

import argparse
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
from equifactor.solvers.messages.bp_engine import BpSettings, new_engine
from equifactor.solving.solver import SolveContext

KINDS = ("or", "and", "pool", "enumerated")
_CLOSE = 1e-3  # The largest difference of equal marginals: single precision, and logs near zero. Chosen by hand.


def model(kind: str, factors: int, arity: int, configurations: int) -> dict[str, np.ndarray]:
    """Return scopes [F, k] of two layers and log evidence [V, 2]. Each factor has its own child, last in its scope.

    The other variables are drawn at random from a layer in which a variable has four factors on average. Enumerated
    factors would contradict each other in this layer, so they form a ring: each factor shares a variable with the next.
    """
    rng = np.random.default_rng(0)
    if kind == "enumerated":
        num_vars = factors * (arity - 1)
        rows = rng.permutation(2**arity)[:configurations]
        return {
            "scopes": (np.arange(factors)[:, None] * (arity - 1) + np.arange(arity)) % num_vars,
            "evidence": np.stack((np.zeros(num_vars), rng.normal(size=num_vars)), axis=1),
            "configurations": (rows[:, None] >> np.arange(arity)) & 1,
            "log_values": rng.normal(size=(factors, len(rows))),
        }
    others = factors * (arity - 1) // 4
    parents = np.stack([rng.choice(others, arity - 1, replace=False) for _ in range(factors)])
    scopes = np.concatenate((parents, others + np.arange(factors)[:, None]), axis=1)
    ratio = rng.normal(0.0, 1.0, others + factors)
    ratio[:others] += 2.0 if kind == "and" else -2.0
    evidence = np.stack((np.zeros(len(ratio)), ratio), axis=1)
    return {"scopes": scopes, "evidence": evidence}


def factor_of(kind: str, given: dict[str, np.ndarray], n: int) -> Any:
    """Return factor n as a factor of equifactor, over the same scope."""
    arity = given["scopes"].shape[1]
    if kind == "pool":  # Exactly one of the choices and of "the indicator is off".
        return ef.Exactly(1, signs=[True] * (arity - 1) + [False])
    if kind == "enumerated":
        return ef.SparseTable(given["configurations"], given["log_values"][n])
    signs = [kind == "or"] * arity  # AND is an OR of everything negated.
    return ef.NoisyOr(0.0, [0.0] * (arity - 1), signs=signs, place=arity - 1)


def our_graph(kind: str, given: dict[str, np.ndarray]) -> ef.FactorGraph:
    """Return the same graph in equifactor."""
    factors = [(scope, factor_of(kind, given, n)) for n, scope in enumerate(given["scopes"].tolist())]
    fields = [([i], row) for i, row in enumerate(given["evidence"])]
    return ef.FactorGraph([2] * len(given["evidence"]), [*factors, *fields], log=True)


def ours(graph: ef.FactorGraph, semiring: str, iterations: int, repeats: int) -> tuple[float, np.ndarray]:
    """Return the seconds per iteration, and marginals [V] of state 1 or states [V]."""
    flat, settings = ef.solvers.compile(graph), BpSettings(semiring, "parallel", 0.5, 0.0, 0)  # type: ignore[arg-type]
    best = np.inf
    new_engine(flat, settings, SolveContext(), "numba").sweep(1)
    for _ in range(repeats):
        engine = new_engine(flat, settings, SolveContext(), "numba")
        engine.sweep(2)
        start = time.process_time()
        engine.sweep(iterations)
        best = min(best, time.process_time() - start)
    answers = engine.answers()
    return best / iterations, answers.states if semiring == "max" else answers.probabilities[1::2]


def theirs(
    python: Path, kind: str, given: dict[str, np.ndarray], semiring: str, iterations: int, repeats: int
) -> tuple[float, np.ndarray]:
    """Return the seconds per iteration and the answer of PGMax, which runs in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        file, answer = Path(folder) / "model.npz", Path(folder) / "answer.npy"
        np.savez(file, **given)  # type: ignore[arg-type]
        request = {
            "model": str(file), "answer": str(answer), "kind": kind, "semiring": semiring, "iterations": iterations,
            "repeats": repeats,
        }  # fmt: skip
        words = [str(python), str(SCRIPTS / "kinds_of_pgmax.py"), json.dumps(request)]
        ran = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment())
        return float(json.loads(ran.stdout.splitlines()[-1])["seconds"]), np.load(answer)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factors", type=int, default=5000)
    parser.add_argument("--arity", type=int, default=9, help="variables of a factor, child or indicator included")
    parser.add_argument("--configurations", type=int, default=24, help="configurations of an enumerated factor")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--cache", type=Path, default=Path(".venv-peers"), help="folder of the peers' environments")
    args = parser.parse_args()
    python = python_of("pgmax", args.cache)
    different = 0
    print(f"{'kind':>11} {'semiring':>8} {'ours M/s':>9} {'pgmax M/s':>9} {'ratio':>6}  agreement")
    for kind in args.kinds:
        given = model(kind, args.factors, args.arity, args.configurations)
        graph = our_graph(kind, given)
        for semiring in ("sum", "max"):
            seconds, found = ours(graph, semiring, args.iterations, args.repeats)
            line = f"{kind:>11} {semiring:>8} {given['scopes'].size / seconds / 1e6:9.1f}"
            if python.exists():
                other, known = theirs(python, kind, given, semiring, args.iterations, args.repeats)
                if semiring == "sum":
                    gap = float(np.abs(found - known).max())
                    agreement, good = f"marginals within {gap:.1e}", gap < _CLOSE
                else:
                    share = float(np.mean(found == known))
                    agreement, good = f"{share:.2%} of the states equal", share > 0.99
                different += not good
                line += f" {given['scopes'].size / other / 1e6:9.2f} {other / seconds:6.1f}  {agreement}"
            print(line, flush=True)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
