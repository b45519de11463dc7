"""Local search on random formulas near the threshold: moves a second, and violated clauses over time.

Times are CPU time on one thread. The walk is the focused one that `local-search` begins with on violated clauses.

    python -m benchmarks.sat
    python -m benchmarks.sat --variables 10000 --seconds 60
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import equifactor as ef
from equifactor.graph.move_model import MoveModel
from equifactor.solvers.optimise.focused_walk import FocusedWalk


def walk_of(num_vars: int, k: int, ratio: float, seed: int = 0) -> FocusedWalk:
    """A walk from a random assignment of a random formula."""
    model = MoveModel(ef.compile(ef.generators.random_ksat(num_vars, ratio=ratio, k=k, seed=seed)))
    rng = np.random.default_rng(seed)
    return FocusedWalk(model, rng, model.random_assignment(rng))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="for each formula")
    parser.add_argument("--formulas", nargs="+", default=["3:4.2", "5:20"], help="k:ratio")
    args = parser.parse_args()
    for text in args.formulas:
        k, ratio = int(text.split(":")[0]), float(text.split(":")[1])
        walk_of(50, k, 3.0).step()  # loads the kernels
        start = time.process_time()
        walk = walk_of(args.variables, k, ratio)
        print(
            f"{k}-SAT of {args.variables:,} variables, {ratio:g} clauses per variable: "
            f"ready after {time.process_time() - start:.1f} s, {walk.num_zeros:,} violated",
            flush=True,
        )
        start, told = time.process_time(), 0.5
        while walk.num_zeros:
            walk.step()
            spent = time.process_time() - start
            if spent > told or not walk.num_zeros:
                least = round(-walk.best_score / walk.model.penalty)
                rate = walk.moves / spent / 1e6
                print(f"  {spent:6.1f} s, {walk.moves:,} moves, {rate:.2f} M/s, {least:,} violated", flush=True)
                told *= 2.0
            if spent > args.seconds:
                break


if __name__ == "__main__":
    main()
