"""What the graphs should come out as: exact marginals for MAR, the best known log score for MAP."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equifactor._solve import solve
from equifactor.clock import Clock
from equifactor.errors import FormatError, OptionError
from equifactor.graph.reduction import ReducedGraph, without_impossible_states
from equifactor.io.files import write_bytes
from equifactor.result import Task

if TYPE_CHECKING:
    from equifactor.data import Instance
    from equifactor.graph import FactorGraph
    from equifactor.result import Result
    from equifactor.solver import Progress
    from equifactor.training.data_sources import Source
    from equifactor.typing import FloatArray

_MAP_SECONDS = 5.0  # How long a best score that is not known is searched for; training improves on it.


def with_targets(
    source: Source, task: Task, report: Progress | None = None
) -> tuple[list[FactorGraph], list[FloatArray], list[str]]:
    """Graphs without impossible states, their targets, and a sentence for each graph that had to be left out.

    Targets for MAR are marginals [X] of the free variables; for MAP one number [1]. Graphs of one structure are solved
    together; answers for models from files are kept in the user's cache folder.
    """
    kept_graphs: list[ReducedGraph] = []
    left_out: list[str] = []
    instances: list[Instance | None] = []
    given = list(source.graphs)
    for graph, reduced, instance in zip(given, without_impossible_states(given), source.instances, strict=True):
        if reduced is None:
            left_out.append(f"{graph.name}: every assignment has probability zero")
        elif not len(reduced.graph.free_vars):
            left_out.append(f"{graph.name}: no variable is free")
        else:
            kept_graphs.append(reduced)
            instances.append(instance)
    graphs = [r.graph for r in kept_graphs]
    targets = _marginals(kept_graphs, instances, report) if task is Task.MAR else _scores(graphs, instances, report)
    kept = [n for n, t in enumerate(targets) if t is not None]
    why = "its exact answer does not fit the memory" if task is Task.MAR else "no possible assignment was found"
    left_out += [f"{graphs[n].name}: {why}" for n in sorted(set(range(len(graphs))) - set(kept))]
    if not kept:
        raise OptionError(f"{source.text}: no graph is left to train on: {left_out[0] if left_out else 'it is empty'}")
    return [graphs[n] for n in kept], [t for t in targets if t is not None], left_out


def _marginals(
    reduced: list[ReducedGraph], instances: list[Instance | None], report: Progress | None
) -> list[FloatArray | None]:
    graphs = [r.graph for r in reduced]
    answers: list[FloatArray | None] = [None] * len(graphs)
    for n, (graph, instance) in enumerate(zip(graphs, instances, strict=True)):
        if instance is None:
            continue
        published = instance.marginals()
        if published is not None and len(published.values) == reduced[n].original.structure.state_ptr[-1]:
            answers[n] = _free(graph, reduced[n].values_of_kept(published.values))
        else:
            answers[n] = _cached(graph, "MAR", _exact)
        if report:
            report(n + 1, len(graphs), "exact marginals")
    rest = [n for n, i in enumerate(instances) if i is None]
    for run in _runs(graphs, rest):
        if len(run) > 1:
            from equifactor.solvers.elimination.exact_batch import exact_marginals

            probabilities, _ = exact_marginals([graphs[n] for n in run])
            for n, row in zip(run, probabilities, strict=True):
                answers[n] = row
        else:
            answers[run[0]] = _exact(graphs[run[0]])
        if report:
            report(run[-1] + 1, len(graphs), "exact marginals")
    return answers


def _runs(graphs: list[FactorGraph], numbers: Iterable[int]) -> list[list[int]]:
    """The numbers of the graphs that can be eliminated together."""
    from equifactor.solvers.elimination.exact_batch import same_structure

    runs: list[list[int]] = []
    for n in numbers:
        if runs and same_structure(graphs[runs[-1][0]], graphs[n]):
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _exact(graph: FactorGraph) -> FloatArray | None:
    found = _solved(graph, "MAR", "exact").marginals
    return None if found is None else _free(graph, found.values)


def _free(graph: FactorGraph, values: FloatArray) -> FloatArray:
    """The values of the states of free variables only."""
    return values if graph.observed is None else values[np.repeat(graph.observed < 0, graph.card)]


def _scores(
    graphs: list[FactorGraph], instances: list[Instance | None], report: Progress | None
) -> list[FloatArray | None]:
    answers: list[FloatArray | None] = []
    for n, (graph, instance) in enumerate(zip(graphs, instances, strict=True)):
        known = instance.map_log_score if instance is not None else None
        if known is not None:
            answers.append(np.array([known]))
        elif instance is not None:
            answers.append(_cached(graph, "MAP", _best_score))
        else:
            answers.append(_best_score(graph))
        if report:
            report(n + 1, len(graphs), "best scores")
    return answers


def _best_score(graph: FactorGraph) -> FloatArray | None:
    score = _solved(graph, "MAP", "auto", _MAP_SECONDS).log_score
    return None if score is None or np.isneginf(score) else np.array([score])  # The loss is relative to it.


def _solved(graph: FactorGraph, task: str, solver: str, time_limit: float | None = None) -> Result:
    """An answer, or KeyboardInterrupt: what a solver has when it is interrupted is no target to be kept."""
    before = Clock.interrupts
    result = solve(graph, task, solver, time_limit=time_limit)
    if Clock.interrupts > before:
        raise KeyboardInterrupt
    return result


def _cached(graph: FactorGraph, task: str, compute: Callable[[FactorGraph], FloatArray | None]) -> FloatArray | None:
    """An answer from the cache folder, or computed and put there; a folder that cannot be written is no error."""
    path = cache_folder() / f"{fingerprint(task, [graph])[:32]}.npy"
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError):
        pass  # It is not there yet, or is half a file of an older crash.
    answer = compute(graph)
    if answer is not None:
        data = io.BytesIO()
        np.save(data, answer, allow_pickle=False)
        with contextlib.suppress(OSError, FormatError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data.getvalue())
    return answer


def fingerprint(text: str, graphs: Iterable[FactorGraph]) -> str:
    """A hash of a text and of the contents of graphs, names aside, in hexadecimal."""
    digest = hashlib.sha256(text.encode())
    for graph in graphs:
        s = graph.structure
        for array in (s.card, s.scope_ptr, s.scope_vars, graph.log_phi, graph.observed):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Where computed targets are kept: `equifactor/targets` in XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "equifactor" / "targets"
