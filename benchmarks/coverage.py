"""Measure whether the error bars of solvers are right, against exact answers on random graphs of ten kinds.

For each kind of graph and each solver it prints how often two standard errors cover the exact marginals and ln Z, the
root mean square of errors over that of standard errors, and how many of the runs that report `converged` are wrong:
some marginal errs by more than five standard errors and by more than 0.02. Two things do not count for or against:
runs that are exact, and marginals without a standard error that are right (states that zeros exclude). All runs are of
fixed length. `auto`, which works for a time, reads a clock that moves with each reading. So the table is the same on
every machine.

    python -m benchmarks.coverage                                  # 1,600 graphs; about 15 minutes of one core
    python -m benchmarks.coverage --graphs 8 --solvers blocks      # one solver, quickly
    python -m benchmarks.coverage --graphs 200 --solvers "auto, small" --jobs 16  # 100 graphs of each kind for `auto`
    python -m benchmarks.coverage --first-seed 910000              # other graphs: the settings were chosen on these
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from typing import Any

import numpy as np

import equifactor as ef
from equifactor.base.budget import set_machine_speed
from equifactor.base.clock import Clock
from equifactor.base.cores import THREADS
from equifactor.solvers.counting import search_state

_TICK = 8e-5  # Seconds that the clock of `auto` moves at each reading. Chosen by hand.
_WRONG = 5.0, 0.02  # Standard errors, and a distance, beyond which a converged answer is wrong.
_PART = 10  # Graphs that a process runs before it takes other graphs. Chosen by hand.
_ROUNDING = 1e-6  # The error of an exact answer that rounding explains.


def pairs(rng: np.random.Generator, n: int, coupling: float, share: float, field: float = 0.5) -> ef.FactorGraph:
    """Return spins with normal couplings between a share of all pairs, and normal fields."""
    factors: list[Any] = [([i], np.exp([h, -h])) for i, h in enumerate(field * rng.standard_normal(n))]
    for i, j in itertools.combinations(range(n), 2):
        if rng.random() < share:
            c = coupling * rng.standard_normal()
            factors.append(([i, j], np.exp([[c, -c], [-c, c]])))
    return ef.FactorGraph([2] * n, factors)


def tables(
    rng: np.random.Generator, card: np.ndarray, scopes: list[list[int]], strength: float, zeros: float = 0.0
) -> ef.FactorGraph:
    """Return factors with normal log entries, of which a share is zero; each variable has a field."""
    factors: list[Any] = []
    for scope in [[i] for i in range(len(card))] + scopes:
        table = np.exp(strength * rng.standard_normal(tuple(card[scope])))
        if zeros and len(scope) > 1:
            table[rng.random(table.shape) < zeros] = 0.0
            table.flat[0] = max(table.flat[0], 0.1)  # The state 0 of all variables stays possible.
        factors.append((scope, table))
    return ef.FactorGraph(card.tolist(), factors)


def some(rng: np.random.Generator, n: int, count: int, arity: int) -> list[list[int]]:
    """Return random scopes."""
    return [rng.permutation(n)[:arity].tolist() for _ in range(count)]


def loops(rng: np.random.Generator, n: int) -> ef.FactorGraph:
    """Return a tree with a few more pairs, and ragged cardinalities."""
    tree = [[int(rng.integers(i)), i] for i in range(1, n)]
    return tables(rng, rng.integers(2, 4, n), tree + some(rng, n, n // 3, 2), 1.0)


def grid(rng: np.random.Generator, n: int, coupling: float) -> ef.FactorGraph:
    """Return a grid of spins."""
    rows = 3 if n < 40 else 10
    return ef.generators.ising_grid(rows, n // rows, coupling_std=coupling, seed=int(rng.integers(2**31)))


def potts(rng: np.random.Generator, n: int) -> ef.FactorGraph:
    """Return variables of two to four states that prefer, or avoid, the same state."""
    n = 2 * n // 3
    card = rng.integers(2, 5, n)
    factors: list[Any] = [([i], np.exp(0.5 * rng.standard_normal(card[i]))) for i in range(n)]
    for i, j in itertools.combinations(range(n), 2):
        if rng.random() < 0.5:
            factors.append(([i, j], np.exp(1.5 * rng.standard_normal() * np.eye(card[i], card[j]))))
    return ef.FactorGraph(card.tolist(), factors)


def zeros(rng: np.random.Generator, n: int) -> ef.FactorGraph:
    """Return tables of two and three variables of which a fifth of the entries is zero."""
    return tables(rng, rng.integers(2, 4, n), some(rng, n, n, 2) + some(rng, n, n // 4, 3), 1.0, 0.2)


def wide(rng: np.random.Generator, n: int) -> ef.FactorGraph:
    """Return tables of three and four variables."""
    return tables(rng, np.full(n, 2), some(rng, n, n // 2, 3) + some(rng, n, n // 3, 4), 1.5)


def structured(rng: np.random.Generator, n: int) -> ef.FactorGraph:
    """Return noisy-or factors, clauses and soft parities over spins with fields."""
    factors: list[Any] = [([i], np.exp(0.7 * rng.standard_normal(2))) for i in range(n)]
    for scope in some(rng, n, n // 2, 4):
        kind = int(rng.integers(3))
        if kind == 0:
            factors.append((scope, ef.NoisyOr(float(0.2 * rng.random()), rng.random(3).tolist())))
        elif kind == 1:
            factors.append((scope, ef.Clause(rng.integers(0, 2, 4).tolist())))
        else:
            factors.append((scope, ef.Parity(log_values=tuple(rng.standard_normal(2).tolist()))))
    return ef.FactorGraph([2] * n, factors)


Maker = Callable[[np.random.Generator, int], ef.FactorGraph]
KINDS: dict[str, tuple[Maker, int]] = {  # how a graph of n variables is drawn, and n for `auto` with small memory
    "trees with loops": (loops, 70),
    "grids, J = 0.5": (lambda rng, n: grid(rng, n, 0.5), 100),
    "grids, J = 2": (lambda rng, n: grid(rng, n, 2.0), 100),
    "all pairs, J = 1": (lambda rng, n: pairs(rng, n, 1.0, 1.0), 20),
    "all pairs, J = 2": (lambda rng, n: pairs(rng, n, 2.0, 1.0), 20),
    "some pairs, J = 4": (lambda rng, n: pairs(rng, n, 4.0, 0.4), 32),
    "Potts, 2 to 4 states": (potts, 30),
    "zeros": (zeros, 60),
    "noisy-or, clause, parity": (structured, 80),
    "tables of 3 and 4 variables": (wide, 60),
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A solver with fixed work, the size of its graphs, and how many of the graphs it gets."""

    spec: str
    log_z: bool = True
    large: bool = False  # whether its graphs are large, because `auto` enumerates small ones
    share: float = 1.0


ENTRIES = {
    "blocks": Entry("blocks(enumerate=false, sweeps=200)", share=0.15),
    "blocks, small memory": Entry("blocks(enumerate=false, sweeps=200, memory_limit=1e-7)"),
    "blocks, few sweeps": Entry("blocks(enumerate=false, sweeps=24, memory_limit=1e-6)", large=True, share=0.5),
    "gibbs": Entry("gibbs", log_z=False),
    "regions": Entry("regions(seconds=1)", share=0.15),
    "regions, small memory": Entry("regions(seconds=1, splittings=8, memory_limit=2e-6, start=2, bound=4)"),
    "auto": Entry("auto", share=0.15),
    "auto, small memory": Entry("auto(memory_limit=1e-6, seconds=0.12)", large=True, share=0.5),
}


@dataclass
class Cell:
    """The runs of one solver on graphs of one kind."""

    runs: int = 0
    exact: int = 0
    converged: int = 0
    wrong: int = 0  # converged runs with an answer far from the truth
    far: int = 0  # runs of any status with an answer far from the truth
    covered: list[float] = field(default_factory=list)  # share of marginals for each run
    squares: list[tuple[float, float]] = field(default_factory=list)  # of errors and standard errors, for each run
    log_z: list[tuple[float, float]] = field(default_factory=list)  # error and standard error of ln Z, for each run
    missing: int = 0  # runs that are not exact and have no errors
    bare: int = 0  # runs whose ln Z has neither an error nor bounds

    def add(self, got: ef.Result, want: ef.Result, with_log_z: bool) -> None:
        """Compare one answer with the exact one."""
        self.runs += 1
        off = np.abs(got.marginals.values - want.marginals.values)
        if got.status is ef.Status.EXACT:
            self.exact += 1
            if off.max() > _ROUNDING:
                raise RuntimeError(f"An exact answer is off by {off.max():.2g}.")
            return
        self.converged += got.status is ef.Status.CONVERGED
        if got.standard_errors is None:
            self.missing += 1
            error = np.zeros_like(off)
        else:
            error = got.standard_errors.values
            counts = (error > 0.0) | (off > _ROUNDING)
            if counts.any():
                self.covered.append(float(np.mean((off <= 2.0 * error + _ROUNDING)[counts])))
                self.squares.append((float(np.mean(off[counts] ** 2)), float(np.mean(error[counts] ** 2))))
        far = bool(np.any((off > _WRONG[0] * error) & (off > _WRONG[1])))
        self.far += far
        self.wrong += far and got.status is ef.Status.CONVERGED
        if with_log_z and hasattr(got, "log_z"):
            bounded = got.lower_bound is not None and got.upper_bound is not None
            stated = np.inf if got.log_z_error is None else got.log_z_error
            self.bare += stated == np.inf and not bounded
            if stated < np.inf:
                self.log_z.append((abs(got.log_z - want.log_z), stated))

    def merge(self, other: Cell) -> None:
        """Add the runs of another part: counts are added, lists are joined."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def row(self, name: str) -> str:
        """Return the line of the table."""
        cover = f"{100 * np.mean(self.covered):.1f} %" if self.covered else ""
        off, error = np.sqrt(np.mean(self.squares, axis=0)) if self.squares else (0.0, 0.0)
        ratio = f"{off / error:.2f}" if error else ""
        log_z, of_log_z = "", ""
        if self.log_z:
            far, wide = np.array(self.log_z).T
            log_z = f"{100 * np.mean(far <= 2.0 * wide + _ROUNDING):.1f} % of {len(far)}"
            of_log_z = f"{np.sqrt(np.mean(far**2) / np.mean(wide**2)):.2f}"
        extra = f" ({self.missing} without errors)" if self.missing else ""
        extra += f" ({self.bare} ln Z without error)" if self.bare else ""
        rmse = f"{off:.4f}" if self.squares else ""
        cells = name, self.runs, self.exact, cover + extra, ratio, log_z, of_log_z
        return f"| {' | '.join(map(str, (*cells, self.converged, self.wrong, self.far, rmse)))} |"


class MovingClock:
    """A time source that moves at each reading, so that work for a time is the same on every machine."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += _TICK
        return self.seconds


def part(name: str, kind: str, seeds: range) -> Cell:
    """Run one solver on the graphs of one kind with these seeds."""
    set_machine_speed(1.0)
    os.environ[THREADS] = "1"  # Threads would read the clock of `auto` in no certain order.
    cell, entry = Cell(), ENTRIES[name]
    make, large = KINDS[kind]
    for seed in seeds:
        rng = np.random.default_rng([seed, list(KINDS).index(kind)])
        graph = make(rng, large if entry.large else 10 + seed % 4)
        want = ef.solve(graph, "MAR", "exact(memory_limit=0.25)")
        if want.status is not ef.Status.EXACT:
            continue  # It has no possible assignment, or is too large to know the truth.
        if name.startswith("auto"):
            vars(search_state)["CALL_SECONDS"] = _TICK  # A call of the search for sums is one reading of this clock.
            Clock.now = Clock.cpu_now = MovingClock()  # Both, so that the machine never seems to be busy.
        try:
            got = ef.solve(graph, "MAR", entry.spec, seed=seed)
        finally:
            Clock.now, Clock.cpu_now = staticmethod(time.perf_counter), staticmethod(time.thread_time)
        if hasattr(got, "marginals"):
            cell.add(got, want, entry.log_z)
    return cell


def cells(
    graphs: int, first: int, solvers: list[str], kinds: list[str], jobs: int = 1
) -> Iterator[tuple[str, str, Cell]]:
    """Run all solvers on all kinds in `jobs` processes; yield each solver with each kind."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        begun = []
        for name, kind in itertools.product(solvers, kinds):
            count = max(1, round(ENTRIES[name].share * graphs))
            steps = [range(first + k, first + min(k + _PART, count)) for k in range(0, count, _PART)]
            begun.append((name, kind, [pool.submit(part, name, kind, seeds) for seeds in steps]))
        for name, kind, parts in begun:
            cell = Cell()
            for found in parts:
                cell.merge(found.result())
            yield name, kind, cell


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=160, help="graphs of each kind (default: 160)")
    parser.add_argument("--first-seed", type=int, default=0, help="the seed of the first graph (default: 0)")
    parser.add_argument("--solvers", nargs="*", default=list(ENTRIES), help="solvers whose names begin so")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="kinds whose names begin so")
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes (default: 1)")
    args = parser.parse_args()
    solvers = [name for name in ENTRIES if name.startswith(tuple(args.solvers))]
    kinds = [name for name in KINDS if name.startswith(tuple(args.kinds))]
    before = ""
    for name, kind, cell in cells(args.graphs, args.first_seed, solvers, kinds, args.jobs):
        if name != before:
            print(f"\n{name}: `{ENTRIES[name].spec}`\n")
            print("| graphs | runs | exact | marginals | ratio | ln Z | ratio | converged | wrong | far | RMSE |")
            print("|---|---|---|---|---|---|---|---|---|---|---|")
        before = name
        print(cell.row(kind), flush=True)


if __name__ == "__main__":
    main()
