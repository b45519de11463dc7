"""Compiled circuits: many sets of evidence against `solve`, and sums of formulas beside Ganak.

Each row of the first table asks all marginals given 100,000 sets of evidence, of `ef.solve` and of a circuit, and
compares the answers. The sets are states of random variables in samples of the network. With `--models`, the networks
are alarm, hailfinder and win95pts of the bnlearn repository, as in `benchmarks.networks`. Without the files they are
the structure of alarm with random tables, and random networks of the sizes of the other two: variables and free
parameters. pyAgrum is asked 1,000 of the sets, and Ganak is run on random formulas, if they are installed. Figures are
CPU seconds on one thread; the better of several rounds counts.

    python -m benchmarks.circuits --rounds 3
    python -m benchmarks.circuits --models site-packages/pgmpy/utils/example_models --sets 10000
    python -m benchmarks.circuits --sets 100 --formulas counting/  # a folder of formulas: search-sum beside Ganak
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import equifactor as ef
from benchmarks.networks import as_bayes_net, best_of, evidence_sets, model_folder, posteriors

_NAMES = ("alarm", "hailfinder", "win95pts")
_ASKED = 1000  # The sets of evidence that pyAgrum is asked.
_TRIES = 300  # Random networks among which the one with the nearest number of parameters is taken.
_ALARM = """
HISTORY 2 LVFAILURE; CVP 3 LVEDVOLUME; PCWP 3 LVEDVOLUME; HYPOVOLEMIA 2; LVEDVOLUME 3 HYPOVOLEMIA LVFAILURE;
LVFAILURE 2; STROKEVOLUME 3 HYPOVOLEMIA LVFAILURE; ERRLOWOUTPUT 2; HRBP 3 ERRLOWOUTPUT HR; HREKG 3 ERRCAUTER HR;
ERRCAUTER 2; HRSAT 3 ERRCAUTER HR; INSUFFANESTH 2; ANAPHYLAXIS 2; TPR 3 ANAPHYLAXIS; EXPCO2 4 ARTCO2 VENTLUNG;
KINKEDTUBE 2; MINVOL 4 INTUBATION VENTLUNG; FIO2 2; PVSAT 3 FIO2 VENTALV; SAO2 3 PVSAT SHUNT; PAP 3 PULMEMBOLUS;
PULMEMBOLUS 2; SHUNT 2 INTUBATION PULMEMBOLUS; INTUBATION 3; PRESS 4 INTUBATION KINKEDTUBE VENTTUBE; DISCONNECT 2;
MINVOLSET 3; VENTMACH 4 MINVOLSET; VENTTUBE 4 DISCONNECT VENTMACH; VENTLUNG 4 INTUBATION KINKEDTUBE VENTTUBE;
VENTALV 4 INTUBATION VENTLUNG; ARTCO2 3 VENTALV; CATECHOL 2 ARTCO2 INSUFFANESTH SAO2 TPR; HR 3 CATECHOL;
CO 3 HR STROKEVOLUME; BP 3 CO TPR
"""  # Name, number of states and parents of each variable [Beinlich et al., 1989].


def alarm() -> ef.FactorGraph:
    """Return the network alarm with random conditional tables."""
    rng = np.random.default_rng(0)
    lines = [line.split() for line in _ALARM.split(";")]
    card = {name: int(states) for name, states, *_ in lines}
    factors = []
    for name, _, *parents in lines:
        table = np.exp(1.5 * rng.standard_normal([card[v] for v in (*parents, name)]))
        factors.append(([*parents, name], table / table.sum(axis=-1, keepdims=True)))
    return ef.FactorGraph(card, factors)


def parameters(graph: ef.FactorGraph) -> int:
    """Return the number of free parameters of a network whose factors have the child last."""
    s = graph.structure
    return sum(graph.log_table(a).size // d * (d - 1) for a in range(s.num_factors) for d in s.shape(a)[-1:])


def random_network(num_vars: int, size: int, parents: int, states: int) -> ef.FactorGraph:
    """Return the random network whose number of parameters is nearest to `size`."""
    drawn = ef.generators.random_network(
        num_vars, count=_TRIES, parents=(0, parents), card=(2, states), window=8, observed=0.0
    )
    return min(drawn, key=lambda graph: abs(parameters(graph) - size))


def networks(folder: Path | None) -> dict[str, ef.FactorGraph]:
    """Return the networks by name."""
    if folder is not None:
        return {name: ef.read_graph(folder / f"{name}.bif.gz") for name in _NAMES}
    return {
        "alarm, random tables": alarm(),
        "random 56, 2,656 (up to 11 states)": random_network(56, 2656, 2, 11),
        "random 56, 2,656 (up to 7 states)": random_network(56, 2656, 3, 7),
        "random 76, 574": random_network(76, 574, 4, 2),
    }


def row(name: str, graph: ef.FactorGraph, count: int, rounds: int) -> str:
    """Return the row of one network, in microseconds a set of evidence."""
    sets = evidence_sets(graph, count)
    rows = np.full((count, graph.num_vars), -1)
    for n, given in enumerate(sets):
        rows[n, list(given)] = list(given.values())
    compiling = best_of(1, lambda: ef.compile_circuit(graph))
    circuit = ef.compile_circuit(graph)
    found = ef.solve(graph, evidence=rows).marginals.table
    error = float(np.abs(circuit.marginals(rows) - found).max())
    solve = best_of(rounds, lambda: ef.solve(graph, evidence=rows)) * 1e6 / count
    ours = best_of(rounds, lambda: circuit.marginals(rows)) * 1e6 / count
    line = f"{name:36} {solve:8.2f} {ours:8.2f} {solve / ours:6.1f}x   {error:.0e} {compiling:8.2f}"
    if find_spec("pyagrum") is None:
        return line
    engine = importlib.import_module("pyagrum").LazyPropagation(as_bayes_net(graph))
    asked = sets[:_ASKED]
    theirs = best_of(1, lambda: [posteriors(engine, graph.num_vars, given) for given in asked]) * 1e6 / len(asked)
    return f"{line} {theirs / ours:8.0f}x"


def with_children(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a run with those of the processes that it starts and waits for."""
    start = os.times()
    work()
    end = os.times()
    return sum(end[:4]) - sum(start[:4])


def file_row(path: Path, seconds: float) -> str:
    """Return the row of one counting file: CPU seconds of `search-sum` and of Ganak, each up to the time limit."""
    graph = ef.read_graph(path)
    cells = []
    for solver in ("search-sum", "ganak"):
        taken = with_children(partial(ef.solve, graph, "PR", solver, time_limit=seconds))
        cells.append(f"{taken:9.2f}")
    return f"{path.name:40} {' '.join(cells)}"


def formula_row(clauses: float, rounds: int) -> str:
    """Return the row of one random formula: seconds of `search-sum`, of a circuit and of Ganak."""
    graph = ef.generators.random_ksat(60, clauses, seed=1)
    ours = best_of(rounds, lambda: ef.solve(graph, "PR", "search-sum"))
    circuit = best_of(rounds, lambda: ef.compile_circuit(graph))
    ganak = with_children(lambda: ef.solve(graph, "PR", "ganak"))
    return f"60 variables, {clauses:g} clauses a variable {ours:8.3f} {circuit:8.3f} {ganak:8.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=model_folder(), help="folder of *.bif.gz; default: of pgmpy")
    parser.add_argument("--sets", type=int, default=100_000, help="sets of evidence")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each question, the best of which counts")
    parser.add_argument("--formulas", type=Path, help="folder of .cnf files, which search-sum and Ganak count")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each count of a file")
    args = parser.parse_args()
    note = "" if find_spec("pyagrum") else " (pyAgrum is not installed)"
    print(f"{args.sets:,} sets, all marginals{note}\n{'us a set':36}    solve  circuit   ratio   error  compile")
    for name, graph in networks(args.models).items():
        print(row(name, graph, args.sets, args.rounds), flush=True)
    if find_spec("pyganak") is None:
        print("Ganak is not compared: the package pyganak is not installed.")
        return
    print("seconds                             search-sum circuit   ganak")
    for clauses in (2.0, 3.0, 4.0):
        print(formula_row(clauses, args.rounds), flush=True)
    for path in sorted(args.formulas.glob("*.cnf*")) if args.formulas is not None else ():
        print(file_row(path, args.seconds), flush=True)


if __name__ == "__main__":
    main()
