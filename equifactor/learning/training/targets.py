"""The targets of training graphs: exact marginals for MAR, the best known log score for MAP."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import write_bytes
from equifactor.base.status import Task
from equifactor.factors.dense_graph import with_tables
from equifactor.graph import FactorGraph
from equifactor.graph.reduction import ReducedGraph, without_impossible_states
from equifactor.questions.solve import solve
from equifactor.workers.fleet import fleet_at

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.data import Instance
    from equifactor.graph import Structure
    from equifactor.learning.training.data_sources import Source
    from equifactor.questions.result import Result
    from equifactor.solving.solver import Progress

_NETWORK = "a network in training"  # The words for the network in the error message for a factor that is too large.
# The number of graphs of one structure that one worker gets together: one second of work for the smallest graphs.
_AT_ONCE = 500
# The seconds of a search for an unknown best score. Training may find a better score. Chosen by hand.
_MAP_SECONDS = 5.0
# The seconds of `auto` for marginals of an evidence set whose exact answer does not fit. Chosen by hand.
_MAR_SECONDS = 5.0


def with_targets(
    source: Source, task: Task, report: Progress | None = None, cluster: str = ""
) -> tuple[list[FactorGraph], list[FloatArray], list[str]]:
    """Return graphs without impossible states, their targets, and one sentence for each graph that cannot be used.

    Targets for MAR are marginals [X] of the free variables; for MAP one number [1]. Graphs of one structure are solved
    together. Answers for models of a collection are cached in the user's cache folder. `cluster` is the address or the
    file of a Dask scheduler whose workers compute the targets.
    """
    kept_graphs: list[ReducedGraph] = []
    left_out: list[str] = []
    instances: list[Instance | None] = []
    given = _in_tables(list(source.graphs))
    for graph, reduced, instance in zip(given, without_impossible_states(given), source.instances, strict=True):
        if reduced is None:
            left_out.append(f"{graph.name}: every assignment has probability zero")
        elif not len(reduced.graph.free_vars):
            left_out.append(f"{graph.name}: no variable is free")
        else:
            kept_graphs.append(reduced)
            instances.append(instance)
    graphs = [r.graph for r in kept_graphs]
    targets = _published(kept_graphs, instances, task)
    _compute(targets, graphs, [i is not None for i in instances], task, report, cluster)
    if source.estimated and task is Task.MAR:
        _estimate(targets, graphs, report)
    kept = [n for n, t in enumerate(targets) if t is not None]
    why = "the exact answer does not fit into memory" if task is Task.MAR else "no possible assignment was found"
    left_out += [f"{graphs[n].name}: {why}" for n in sorted(set(range(len(graphs))) - set(kept))]
    if not kept:
        why = f"The first one is {left_out[0]}." if left_out else "The data is empty."
        raise OptionError(f"{source.text}: no graph can be used for training. {why}")
    return [graphs[n] for n in kept], [t for t in targets if t is not None], left_out


def _in_tables(graphs: list[FactorGraph]) -> list[FactorGraph]:
    """Return the graphs with dense tables in place of structured factors; shared structures stay shared."""
    if all(graph.structure.kinds is None for graph in graphs):
        return graphs
    known: dict[int, Structure] = {}
    found = []
    for graph in graphs:
        dense = with_tables(graph, _NETWORK)
        shared = known.setdefault(id(graph.structure), dense.structure)
        found.append(FactorGraph.trusted(shared, dense.log_phi, dense.observed, dense.name))
    return found


def _published(reduced: list[ReducedGraph], instances: list[Instance | None], task: Task) -> list[FloatArray | None]:
    """Return the answers that came with models; None for graphs without an answer."""
    answers: list[FloatArray | None] = [None] * len(reduced)
    for n, (graph, instance) in enumerate(zip(reduced, instances, strict=True)):
        if instance is None:
            continue
        if task is Task.MAP:
            known = instance.map_log_score
            answers[n] = None if known is None else np.array([known])
            continue
        published = instance.marginals()
        if published is not None and len(published.values) == graph.original.structure.state_ptr[-1]:
            answers[n] = free_values(graph.graph, graph.values_of_kept(published.values))
    return answers


def _compute(
    answers: list[FloatArray | None],
    graphs: list[FactorGraph],
    from_file: list[bool],
    task: Task,
    report: Progress | None,
    cluster: str,
) -> None:
    """Compute the missing answers. Answers for models of a collection are read from the cache if they are there."""
    what = "exact marginals" if task is Task.MAR else "best scores"
    for n, graph in enumerate(graphs):
        if answers[n] is None and from_file[n]:
            answers[n] = _from_cache(graph, task)
    todo = [n for n, answer in enumerate(answers) if answer is None]
    done = len(graphs) - len(todo)
    # Models from files are solved one at a time, so that an interrupt loses one answer; generated graphs together.
    runs = [[n] for n in todo if from_file[n]] + _runs(graphs, [n for n in todo if not from_file[n]], task)
    if cluster:
        runs = [run[at : at + _AT_ONCE] for run in runs for at in range(0, len(run), _AT_ONCE)]
    pieces = (_Piece(task, tuple(run), tuple(graphs[n] for n in run)) for run in runs)
    if report and done:
        report(done, len(graphs), what)
    if not runs:
        return
    with fleet_at(cluster) as fleet, contextlib.closing(fleet.outcomes(_solved_piece, pieces)) as outcomes:
        for piece, outcome in outcomes:
            for n, answer in zip(piece.numbers, outcome(), strict=True):
                answers[n] = answer
                if answer is not None and from_file[n]:
                    _to_cache(graphs[n], task, answer)
            done += len(piece.numbers)
            if report:
                report(done, len(graphs), what)


def _estimate(answers: list[FloatArray | None], graphs: list[FactorGraph], report: Progress | None) -> None:
    """Replace each missing answer for MAR by the estimate of `auto`, and log how many targets are estimates."""
    missing = [n for n, answer in enumerate(answers) if answer is None]
    for done, n in enumerate(missing):
        if report:
            report(done, len(missing), "estimated marginals")
        found = getattr(_solved(graphs[n], "MAR", "auto", _MAR_SECONDS), "marginals", None)
        answers[n] = None if found is None else free_values(graphs[n], found.values)
    if missing:
        logging.getLogger("equifactor").warning(
            "%d of %d targets are estimates of auto(%g s each), because the exact answer does not fit into memory.",
            len(missing), len(graphs), _MAR_SECONDS,
        )  # fmt: skip


@dataclass(frozen=True)
class _Piece:
    """Graphs that are solved together, possibly on another machine, and their numbers."""

    task: Task
    numbers: tuple[int, ...]
    graphs: tuple[FactorGraph, ...]


def _solved_piece(piece: _Piece) -> list[FloatArray | None]:
    """Return the answers of the graphs, None for a graph without an answer."""
    if piece.task is Task.MAP:
        return [_best_score(graph) for graph in piece.graphs]
    if len(piece.graphs) == 1:
        return [_exact(piece.graphs[0])]
    from equifactor.solvers.elimination.exact_batch import exact_marginals

    return list(exact_marginals(list(piece.graphs))[0])


def _runs(graphs: list[FactorGraph], numbers: list[int], task: Task) -> list[list[int]]:
    """Return the numbers of the graphs that can be eliminated together; for MAP each graph is solved by itself."""
    if task is Task.MAP:
        return [[n] for n in numbers]
    from equifactor.solvers.elimination.exact_batch import same_structure

    runs: list[list[int]] = []
    for n in numbers:
        if runs and same_structure(graphs[runs[-1][0]], graphs[n]):
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _exact(graph: FactorGraph) -> FloatArray | None:
    found = getattr(_solved(graph, "MAR", "exact"), "marginals", None)
    return None if found is None else free_values(graph, found.values)


def free_values(graph: FactorGraph, values: FloatArray) -> FloatArray:
    """Return the values of the states of free variables only."""
    return values if graph.observed is None else values[np.repeat(graph.observed < 0, graph.card)]


def _best_score(graph: FactorGraph) -> FloatArray | None:
    score = getattr(_solved(graph, "MAP", "auto", _MAP_SECONDS), "log_score", None)
    return None if score is None or np.isneginf(score) else np.array([score])  # The loss is relative to it.


def _solved(graph: FactorGraph, task: str, solver: str, time_limit: float | None = None) -> Result:
    """Return an answer, or raise KeyboardInterrupt, because the answer of an interrupted solver is not a target."""
    before = Clock.interrupts
    result = solve(graph, task, solver, time_limit=time_limit)
    if Clock.interrupts > before:
        raise KeyboardInterrupt
    return result


def _from_cache(graph: FactorGraph, task: Task) -> FloatArray | None:
    try:
        return np.load(_cache_file(graph, task), allow_pickle=False)
    except Exception:  # NumPy raises many types for damaged files.
        return None  # The file does not exist yet, or a crash left it incomplete.


def _to_cache(graph: FactorGraph, task: Task, answer: FloatArray) -> None:
    """Write an answer to the cache; ignore a folder that cannot be written."""
    data, path = io.BytesIO(), _cache_file(graph, task)
    np.save(data, answer, allow_pickle=False)
    with contextlib.suppress(OSError, FormatError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, data.getvalue())


def _cache_file(graph: FactorGraph, task: Task) -> Path:
    return cache_folder() / f"{fingerprint(task.value, [graph])[:32]}.npy"


def fingerprint(text: str, graphs: Iterable[FactorGraph]) -> str:
    """Return a hash of a text and of the contents of graphs, without their names, in hexadecimal."""
    digest = hashlib.sha256(text.encode())
    for graph in graphs:
        s = graph.structure
        for array in (s.card, s.scope_ptr, s.scope_vars, graph.log_phi, graph.observed):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return the folder of computed targets: `equifactor/targets` in XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "equifactor" / "targets"
