"""Training data from text: a folder of models, one model file, or a generator such as `ising(4x4, n=1000)`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import EquifactorError, OptionError, brief
from equifactor.base.options import choices, did_you_mean, parse_value
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.training.evidence_sets import EvidenceSets

if TYPE_CHECKING:
    from equifactor.data import Instance

_GENERATOR = re.compile(r"\s*([a-z-]+)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Graphs, their instances with known answers, and the text that names the data."""

    graphs: Sequence[FactorGraph]
    instances: Sequence[Instance | None]
    text: str
    estimated: bool = False  # Whether `auto` estimates the targets that `exact` cannot compute.


def read_source(data: Any, seed: int = 0) -> Source:
    """Return the graphs of a text, of several texts, of instances of `equifactor.data.collection`, or given graphs.

    A folder may be followed by the names of its collections and of one split: `models:Grids,DBN:train`. A generator
    takes the options of `equifactor generate`, `n` for the number of graphs and `4x4` for rows and columns. Without
    the option `seed` it uses the seed of the run.
    """
    if isinstance(data, (str, Path)):
        return _from_text(str(data), seed)
    if isinstance(data, EvidenceSets):
        graphs = data.graphs(seed)[0]
        return Source(graphs, [None] * len(graphs), str(data), estimated=True)
    if not isinstance(data, (FactorGraph, Iterable)) or getattr(data, "ndim", 1) == 0:
        raise OptionError(f"Training data must be graphs, a folder, or a generator as text; found {brief(data)}.")
    items: list[Any] = [data] if isinstance(data, FactorGraph) else list(data)
    from equifactor.data import Instance

    if items and all(isinstance(i, Instance) for i in items):
        names = ", ".join(dict.fromkeys(i.collection for i in items))
        return Source([i.graph() for i in items], items, f"{len(items)} models of {names}")
    if items and all(isinstance(i, (str, Path)) for i in items):
        # Each text gets its own seed, so that two equal generators give different graphs.
        parts = [_from_text(str(text), seed + 1000 * n) for n, text in enumerate(items)]
        return Source(
            [g for p in parts for g in p.graphs],
            [i for p in parts for i in p.instances],
            " + ".join(p.text for p in parts),
        )
    for item in items:
        if not isinstance(item, FactorGraph):
            raise OptionError(
                "Training data must be a folder, a generator such as 'ising(4x4, n=1000)', a list of these, or a list "
                f"of graphs. Found a list with {item!r:.60}."
            )
    return Source(items, [None] * len(items), f"{len(items)} graphs")


def name_of(data: Any) -> str:
    """Return the name of data in the model file and the checkpoint, without reading the data."""
    if isinstance(data, (str, Path, int, float, np.number)):
        return str(data)
    items = [data] if isinstance(data, FactorGraph) else data
    return " + ".join(map(str, items)) if all(isinstance(i, (str, Path)) for i in items) else f"{len(items)} graphs"


def _from_text(text: str, seed: int) -> Source:
    match = _GENERATOR.fullmatch(text)
    if match and not exists(Path(text)):
        graphs, full = _generate(match[1], match[2], seed)
        return Source(graphs, [None] * len(graphs), full)
    folder, _, rest = text.partition(":")
    path = Path(folder)
    if exists(path) and path.is_file():
        from equifactor.formats import read_graph

        return Source([read_graph(path)], [None], path.name)
    from equifactor.data import collection

    names, _, split = rest.partition(":")
    instances = collection(path, [n.strip() for n in names.split(",")] if names else None)
    if split:
        instances = [i for i in instances if i.split == split]
    if not instances:
        raise OptionError(
            f"{text}: no model matches. The splits are train and test, if the index of the folder states them."
        )
    return Source([i.graph() for i in instances], instances, f"{path.name}{':' if rest else ''}{rest}")


def exists(path: Path) -> bool:
    """Return whether a file or folder exists; a name that no file can have is False."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


def _generate(kind: str, arguments: str, seed: int) -> tuple[list[FactorGraph], str]:
    from equifactor.generators import GENERATORS

    if kind not in GENERATORS:
        raise OptionError(f"There is no generator {kind!r}; {choices(kind, list(GENERATORS))}.")
    generator = GENERATORS[kind]
    known = [p for p in inspect.signature(generator).parameters if p != "count"]
    options: dict[str, Any] = {"n": 1000, "seed": seed}
    for part in filter(None, (p.strip() for p in arguments.split(","))):
        size = re.fullmatch(r"(\d+)x(\d+)", part)
        key, equals, value = (p.strip() for p in part.partition("="))
        if size:
            options |= {"rows": int(size[1]), "cols": int(size[2])}
        elif not equals or (key != "n" and key not in known):
            raise OptionError(
                f"{kind} has no option {key!r}; {did_you_mean(key, known)}it takes 4x4, n=1000, {', '.join(known)}."
            )
        else:
            bounds = re.fullmatch(r"(\d+)-(\d+)", value)
            options[key] = (int(bounds[1]), int(bounds[2])) if bounds else parse_value(value)
    count = options.pop("n")
    if not isinstance(count, int) or count < 1:
        raise OptionError(f"{kind}: n must be a whole number of at least 1, found {count!r}.")
    try:
        graphs = generator(count=count, **options)
    except TypeError as error:
        if isinstance(error, EquifactorError):
            raise
        raise OptionError(f"{kind}({arguments}): {error}. The options are {', '.join(known)}.") from None
    shown = ", ".join(f"{k}={v}" for k, v in options.items())
    return graphs, f"{kind}({shown}, n={count})"
