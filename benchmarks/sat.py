"""Random formulas near the threshold: messages per second of `bp`, and violated clauses of a search over time.

A message is one literal in one iteration. The search is the focused walk with which `local-search` begins on violated
clauses. Times are CPU time on one thread. A large formula takes longer to draw and to compile than to measure.

    python -m benchmarks.sat
    python -m benchmarks.sat --variables 100000 --seconds 20
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import equifactor as ef
from benchmarks.checks import rate
from equifactor.factors.move_model import MoveModel
from equifactor.solvers.search.focused_walk import FocusedWalk

MARKS = 1.0, 5.0, 20.0  # The seconds after which the state of the search is printed, besides at its end.


def walk_of(flat: ef.solvers.FlatGraph, seed: int = 0) -> FocusedWalk:
    """Return a walk from a random assignment of a formula."""
    model = MoveModel(flat)
    rng = np.random.default_rng(seed)
    return FocusedWalk(model, rng, model.random_assignment(rng))


def follow(walk: FocusedWalk, seconds: float) -> None:
    """Walk until no clause is violated or the time is over; print the number of violated clauses at every mark."""
    start, marks = time.process_time(), [mark for mark in MARKS if mark < seconds] + [seconds]
    spent = 0.0
    while marks:
        walk.step()
        spent = time.process_time() - start
        if spent >= marks[0] or not walk.num_zeros:
            least = round(-walk.best_score / walk.model.penalty)
            print(f"  {spent:6.1f} s: {least:,} violated, {walk.moves / spent / 1e6:.2f} M moves/s", flush=True)
            marks = [mark for mark in marks if mark > spent] if walk.num_zeros else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the search on each formula")
    parser.add_argument("--formulas", nargs="+", default=["3:4.2", "5:20"], help="k:ratio")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for text in args.formulas:
        k, ratio = int(text.split(":")[0]), float(text.split(":")[1])
        walk_of(ef.solvers.compile(ef.generators.random_ksat(50, ratio=3.0, k=k, seed=0))).step()  # loads the kernels
        start = time.process_time()
        flat = ef.solvers.compile(ef.generators.random_ksat(args.variables, ratio=ratio, k=k, seed=args.seed))
        print(
            f"{k}-SAT of {args.variables:,} variables, {ratio:g} clauses per variable, "
            f"drawn and compiled in {time.process_time() - start:.1f} s",
            flush=True,
        )
        print(f"  bp: {rate(flat, 'sum', 10) / 1e6:.0f} M messages/s", flush=True)
        start = time.process_time()
        walk = walk_of(flat, args.seed)
        print(f"  search: ready after {time.process_time() - start:.1f} s, {walk.num_zeros:,} violated", flush=True)
        follow(walk, args.seconds)


if __name__ == "__main__":
    main()
