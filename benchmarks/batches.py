"""Compare the time of a batch with the time of its members one by one, for easy graphs, hard graphs and mixtures.

The graphs are words of a regular (3, 6) code of length 1000 behind a binary symmetric channel, and Ising grids with
weak and with strong couplings. Easy words converge within tens of iterations, and hard words never. Every row runs the
same graphs one by one and as one list, in turn. It shows the best CPU time of each (on a GPU, wall time). `same` is the
number of members with the same number of iterations and the same answer both ways. The exit status is 1 if a batch
takes longer than its members by more than the share `--slack`.

The last rows are whole calls on 1,000 grids of 4x4 that share one structure: microseconds a graph, if no result is read
and if the marginals of all are read.

    python -m benchmarks.batches                    # about five minutes on one core
    python -m benchmarks.batches --solvers bp "bp(schedule=residual)" --count 50
    python -m benchmarks.batches --device cuda --solvers "bp(engine=torch)" fe-nbp
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import equifactor as ef

WORDS = ("bp", "bp MAP")  # The rows that decode words. Other solvers are not measured on hard checks.
GRIDS = (
    "bp", "bp MAP", "bp(damping=0.5)", "bp(schedule=sequential)", "bp(schedule=random)", "bp(schedule=residual)",
    "bp(engine=torch)", "trw", "meanfield", "mplp MAP", "srmp MAP", "fe-nbp(iterations=100)", "fe-net",
)  # fmt: skip
SMALL = ("exact", "auto", "bp", "bp(damping=0.5, iterations=20)")  # The rows of whole calls on small graphs.
_HARD = 10  # A mixture has one hard member in this number of members. Chosen by hand.


def words(count: int, crossover: float) -> list[ef.FactorGraph]:
    """Return the all-zero word of one code, received through a binary symmetric channel."""
    code = ef.generators.LdpcCode.random(1000, 500, seed=1)
    flipped = np.random.default_rng(2).random((count, code.n)) < crossover
    ratio = np.log((1 - crossover) / crossover) * np.where(flipped, 1.0, -1.0)
    checks = np.tile([0.0, -np.inf], len(code.check_ptr) - 1)
    evidence = np.stack((np.zeros_like(ratio), ratio), axis=-1).reshape(count, -1)
    return [ef.FactorGraph.trusted(code.structure, np.concatenate((row, checks))) for row in evidence]


def grids(count: int, coupling: float) -> list[ef.FactorGraph]:
    """Return Ising grids of 10 x 10."""
    return ef.generators.ising_grid(10, 10, coupling_std=coupling, seed=1, count=count)


def mixed(easy: Sequence[ef.FactorGraph], hard: Sequence[ef.FactorGraph]) -> list[ef.FactorGraph]:
    """Return the easy graphs with every tenth graph replaced by a hard graph."""
    return [hard[n] if n % _HARD == 0 else graph for n, graph in enumerate(easy)]


def families(count: int) -> dict[str, dict[str, list[ef.FactorGraph]]]:
    """Return the graphs of every row: `count` words or grids."""
    found = {}
    for name, make, easy, hard in (("words", words, 0.04, 0.1), ("grids", grids, 0.3, 2.0)):
        few, many = make(count, easy), make(count, hard)
        found[name] = {"easy": few, "hard": many, "mixed": mixed(few, many)}
    found["words"]["0.06"] = words(count, 0.06)
    return found


def best_of(
    runs: Sequence[Callable[[], list[ef.Result]]], rounds: int, clock: Callable[[], float]
) -> list[tuple[float, list[ef.Result]]]:
    """Return the best time and the last answer of each of several functions, run in turn."""
    times, answers = [np.inf] * len(runs), [run() for run in runs]  # the first time loads kernels
    for _ in range(rounds):
        for n, run in enumerate(runs):
            start = clock()
            answers[n] = run()
            times[n] = min(times[n], clock() - start)
    return list(zip(times, answers, strict=True))


def agree(one: ef.Result, other: ef.Result) -> bool:
    """Return whether two results have the same number of iterations and, up to rounding, the same answer."""
    if one.iterations != other.iterations or one.status != other.status:
        return False
    if hasattr(one, "marginals") and hasattr(other, "marginals"):
        return bool(np.allclose(one.marginals.values, other.marginals.values, atol=1e-6))
    if not (one.answered and other.answered):
        return one.answered == other.answered
    return bool(np.array_equal(one.assignment, other.assignment))


def row(family: str, mixture: str, graphs: list[ef.FactorGraph], spec: str, args: argparse.Namespace) -> float:
    """Print the time of the members one by one and as a batch. Return the ratio."""
    solver, _, task = spec.partition(" ")
    options = {"task": task or "MAR", "solver": solver, "device": args.device}
    clock = time.process_time if args.device == "cpu" else time.perf_counter
    alone, batch = best_of(
        (lambda: [ef.solve(graph, **options) for graph in graphs], lambda: ef.solve(graphs, **options)),
        args.rounds,
        clock,
    )
    same = sum(map(agree, alone[1], batch[1]))
    steps = [result.iterations or 0 for result in batch[1]]
    print(
        f"{family:6} {mixture:6} {spec:26} {len(graphs) / alone[0]:10,.0f} {len(graphs) / batch[0]:10,.0f} "
        f"{batch[0] / alone[0]:7.2f} {same:5}/{len(graphs):<5} {np.mean(steps):8.1f} {max(steps):6}",
        flush=True,
    )
    return float(batch[0] / alone[0])


def small_row(spec: str, graphs: list[ef.FactorGraph], args: argparse.Namespace) -> None:
    """Print the time of a whole call on many small graphs, without and with reading the marginals."""
    clock = time.process_time if args.device == "cpu" else time.perf_counter
    options = {"task": "MAR", "solver": spec, "device": args.device}

    def read() -> list[ef.Result]:
        results = ef.solve(graphs, **options)
        return [result for result in results if result.marginals is not None]

    found = best_of((lambda: ef.solve(graphs, **options), read), 5 * args.rounds, clock)
    unread, all_read = (seconds / len(graphs) * 1e6 for seconds, _ in found)
    print(f"small         {spec:32} {unread:8.1f} us a graph, {all_read:6.1f} if all results are read", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="members of a batch (default 200)")
    parser.add_argument("--rounds", type=int, default=2, help="timed runs of each, after a first run (default 2)")
    parser.add_argument("--solvers", nargs="+", metavar="SPEC", help="such as bp, or mplp MAP in quotes")
    names = ["words", "grids", "small"]
    parser.add_argument("--families", nargs="+", choices=names, default=names)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--slack", type=float, default=0.1, help="share by which a batch may be slower (default 0.1)")
    args = parser.parse_args()
    print("                                            graphs a second      time of                iterations")
    print(f"graphs mix    {'solver':26} one by one    a batch   ratio   same             mean   most")
    ratios = [0.0]
    members = families(args.count) if {"words", "grids"} & {*args.families} else {}
    for family in [name for name in members if name in args.families]:
        for spec in args.solvers or (WORDS if family == "words" else GRIDS):
            for mixture, graphs in members[family].items():
                ratios.append(row(family, mixture, graphs, spec, args))
    if "small" in args.families:
        graphs = ef.generators.ising_grid(4, 4, seed=1, count=1000)
        for spec in args.solvers or SMALL:
            small_row(spec, graphs, args)
    return int(max(ratios) > 1 + args.slack)


if __name__ == "__main__":
    sys.exit(main())
