"""Queries on the Bayesian networks of the bnlearn repository, compared with pyAgrum and pgmpy.

The rows are all posteriors given random evidence (ten sets per network, each repeated), 1,000 sets of evidence with one
target, and the time from file to answer. Figures are CPU seconds on one thread, the best of several rounds. The files
come from the wheel of pgmpy 1.1.2. pyAgrum must be importable here; pgmpy may be in another interpreter.

    python -m benchmarks.networks --models site-packages/pgmpy/utils/example_models --pgmpy other/bin/python
    python -m benchmarks.networks --only alarm,mildew
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef

SETS = 10  # The number of sets of evidence of a network.
MANY = 1000  # The number of sets of evidence with one target.
_DENSE = (186, 724)  # The numbers of variables of munin1 and link, which get more evidence.
_SLOW = 1.0  # A network on which pyAgrum takes more seconds than this is asked one question. Chosen by hand.
_READ = ("asia", "alarm", "hailfinder", "win95pts")  # The networks that pgmpy answers in reasonable time.
_PGMPY = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from pgmpy.readwrite import BIFReader
from pgmpy.inference import VariableElimination
path, target, evidence, rounds = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
best = 1e9
for _ in range(rounds):
    start = time.process_time()
    model = BIFReader(path).get_model()
    VariableElimination(model).query([target], evidence=evidence, show_progress=False)
    best = min(best, time.process_time() - start)
print(best)
"""


def model_folder() -> Path | None:
    """Return the folder of the model files of an installed pgmpy, without importing pgmpy."""
    package = find_spec("pgmpy")
    origin = None if package is None else package.origin
    return None if origin is None else Path(origin).parent / "utils" / "example_models"


def as_bayes_net(graph: ef.FactorGraph) -> Any:
    """Return the network in pyAgrum, in double precision. The BIF reader of pyAgrum rounds to single precision."""
    gum = importlib.import_module("pyagrum")

    s = graph.structure
    net = gum.BayesNet()
    for i in range(graph.num_vars):
        net.add(gum.LabelizedVariable(f"v{i}", "", int(s.card[i])))
    net.beginTopologyTransformation()  # so that tables are not rebuilt with every arc
    for a in range(graph.num_factors):
        *parents, child = s.scope(a).tolist()
        for parent in parents:
            net.addArc(f"v{parent}", f"v{child}")
    net.endTopologyTransformation()
    for a in range(graph.num_factors):
        scope = s.scope(a).tolist()
        cpt = net.cpt(f"v{scope[-1]}")
        order = [scope.index(int(name[1:])) for name in cpt.names]
        table = np.exp(graph.log_table(a))
        cpt.fillWith(np.transpose(table, order).ravel(order="F").tolist())  # The first variable of pyAgrum is fastest.
    return net


def evidence_sets(graph: ef.FactorGraph, count: int, seed: int = 0) -> list[dict[int, int]]:
    """Return possible evidence: some variables of assignments drawn from the network itself.

    A third of the variables of link (724) and munin1 (186) is observed: with ten variables, pyAgrum needs more than
    10 GiB or many minutes.
    """
    rng = np.random.default_rng(seed)
    drawn = ef.sample(graph, count, seed=seed).states
    few = min(10, graph.num_vars // 5)
    observed = graph.num_vars // 3 if graph.num_vars in _DENSE else max(1, few)
    chosen = [np.sort(rng.choice(graph.num_vars, observed, replace=False)) for _ in range(count)]
    return [dict(zip(v.tolist(), x[v].tolist(), strict=True)) for v, x in zip(chosen, drawn, strict=True)]


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest run."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def named(graph: ef.FactorGraph, evidence: dict[int, int]) -> dict[str, str]:
    """Return evidence by name."""
    s = graph.structure
    return {s.variable_name(i): s.state_names[i][x] for i, x in evidence.items()}  # type: ignore[index]


def posteriors(engine: Any, num_vars: int, evidence: dict[int, int]) -> list[Any]:
    """Return all posteriors by an engine of pyAgrum."""
    engine.setEvidence({f"v{i}": x for i, x in evidence.items()})
    engine.makeInference()
    return [engine.posterior(f"v{i}").toarray() for i in range(num_vars)]


def warm_row(file: Path, rounds: int) -> str:
    """Return the row of one network: milliseconds of a query here and in pyAgrum."""
    graph = ef.read_graph(file)
    sets = evidence_sets(graph, SETS)
    asked = [partial(ef.solve, graph, "MAR", "exact", evidence=named(graph, e)) for e in sets]
    ours = [best_of(rounds + 1, ask) for ask in asked]
    name = file.name.partition(".")[0]
    if find_spec("pyagrum") is None:
        return f"{name:12} {1e3 * np.mean(ours):10.2f}   pyAgrum is not installed"
    gum = importlib.import_module("pyagrum")

    gum.setNumberOfThreads(1)
    engine = gum.LazyPropagation(as_bayes_net(graph))
    theirs: list[float] = []
    for e in sets:
        ask = partial(posteriors, engine, graph.num_vars, e)
        theirs.append(best_of(1, ask))
        if theirs[-1] > _SLOW:  # One question is enough for the ratio.
            break
        theirs[-1] = min(theirs[-1], best_of(rounds - 1, ask)) if rounds > 1 else theirs[-1]
    here, there = 1e3 * np.mean(ours[: len(theirs)]), 1e3 * np.mean(theirs)
    return f"{name:12} {here:10.2f} {there:10.2f} {there / here:8.1f}x"


def many_row(file: Path, rounds: int) -> str:
    """Return the row of 1,000 sets of evidence with one target: seconds here and in pyAgrum."""
    graph = ef.read_graph(file)
    target = graph.num_vars - 1
    sets = [{i: x for i, x in e.items() if i != target} for e in evidence_sets(graph, MANY)]
    by_name = [named(graph, e) for e in sets]
    ours = best_of(rounds, lambda: ef.solve(graph, evidence=by_name, targets=[target]))
    if find_spec("pyagrum") is None:
        return f"{MANY} sets of evidence, one target: {ours:.3f} s; pyAgrum is not installed"
    gum = importlib.import_module("pyagrum")

    engine = gum.LazyPropagation(as_bayes_net(graph))
    engine.addTarget(f"v{target}")

    def theirs() -> None:
        for e in sets:
            engine.setEvidence({f"v{i}": x for i, x in e.items()})
            engine.makeInference()
            engine.posterior(f"v{target}").toarray()

    other = best_of(rounds, theirs)
    return f"{MANY} sets of evidence, one target: {ours:.3f} s, pyAgrum {other:.3f} s, {other / ours:.1f}x"


def read_row(file: Path, rounds: int, python: str) -> str:
    """Return the row from file to answer: all posteriors here, one posterior in pgmpy."""
    graph = ef.read_graph(file)
    evidence = named(graph, evidence_sets(graph, 1)[0])
    target = next(name for name in graph.structure.variable_names or () if name not in evidence)
    ours = best_of(rounds, lambda: ef.solve(ef.read_graph(file), "MAR", "exact", evidence=evidence))
    with tempfile.TemporaryDirectory() as folder:  # pgmpy does not read compressed files.
        path = Path(folder, file.name.removesuffix(".gz"))
        path.write_bytes(gzip.decompress(file.read_bytes()))
        command = [python, "-c", _PGMPY, str(path), target, json.dumps(evidence), str(rounds)]
        alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # pgmpy has its own packages.
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    name = file.name.partition(".")[0]
    if ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:] or ["no answer"]
        return f"{name:12} {ours:8.3f}   pgmpy: {last[0][:80]}"
    theirs = float(ran.stdout.split()[-1])
    return f"{name:12} {ours:8.3f} {theirs:8.3f} {theirs / ours:8.1f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=model_folder(), help="folder of *.bif.gz; default: of pgmpy")
    parser.add_argument("--pgmpy", default=sys.executable, metavar="PYTHON", help="an interpreter that has pgmpy")
    parser.add_argument("--only", help="networks, as in alarm,mildew")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each question, the best of which counts")
    args = parser.parse_args()
    if args.models is None:
        parser.error("The networks come with pgmpy 1.1.2. Install pgmpy, or name their folder by --models.")
    files = {file.name.partition(".")[0]: file for file in sorted(args.models.glob("*.bif.gz"))}
    wanted = args.only.split(",") if args.only else list(files)
    print("all posteriors, warm        ms    pyAgrum    ratio")
    for name in wanted:
        print(warm_row(files[name], args.rounds), flush=True)
    if "alarm" in wanted:
        print(f"alarm, {many_row(files['alarm'], args.rounds)}", flush=True)
    print("from file to answer     s    pgmpy    ratio")
    for name in _READ:
        if name in wanted:
            print(read_row(files[name], args.rounds, args.pgmpy), flush=True)


if __name__ == "__main__":
    main()
