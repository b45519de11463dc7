"""Test models that are training models under other numbers and names: a table must say how many there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.io.files import write_text
from experiments.parts import Part

if TYPE_CHECKING:
    from equifactor.data import Instance
    from equifactor.graph import FactorGraph

_DIGITS = 9  # decimals of log tables that count: sums over factors come in different orders
FILE = "hashes.json"


def compute_hashes(parts: Sequence[Part], folder: Path) -> None:
    """Hash the models of the parts that are not hashed yet, into a file of the folder; nothing without igraph."""
    if find_spec("igraph") is None:  # canonical forms are made by it
        return
    known = _known(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        new = [i for i in (*part.train, *part.test) if i.key not in known]
        known |= {i.key: _hashes(i) for i in new}
        if new:
            write_text(folder / FILE, json.dumps(known, indent=1) + "\n")


def doubles(parts: Sequence[Part], folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Per part: test models isomorphic to a training model, and those that are so up to unary tables.

    Compared is what evidence leaves: free variables, sliced tables, the unary ones of a variable added up. One model
    under two observations differs in unary tables only. The sentences name what was not looked at.
    """
    known, found, words = _known(folder), [], []
    for part in parts:
        if any(i.key not in known for i in (*part.train, *part.test)):
            words.append(
                f"isomorphic models of {part.collection}: not looked for yet (--parts doubles and the package igraph)"
            )
            continue
        whole, larger = ({known[i.key][n] for i in part.train} for n in range(2))
        found.append(
            {
                "collection": part.collection, "train": len(part.train), "test": len(part.test),
                "isomorphic": [i.name for i in part.test if known[i.key][0] in whole],
                "same_larger_tables": [i.name for i in part.test if known[i.key][1] in larger],
            }
        )  # fmt: skip
    return found, words


def _known(folder: Path) -> dict[str, Sequence[str]]:
    path = folder / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _hashes(instance: Instance) -> tuple[str, str]:
    from equifactor.symmetry import graph_hash

    graph = instance.graph()
    return graph_hash(remainder(graph), digits=_DIGITS), graph_hash(remainder(graph, unary=False), digits=_DIGITS)


def remainder(graph: FactorGraph, *, unary: bool = True) -> FactorGraph:
    """What evidence leaves of a graph: free variables renumbered, at most one unary table each, or none at all.

    Constants are dropped, and each unary table is moved to a maximum of 0, since neither changes the best assignment.
    """
    from equifactor.graph import FactorGraph

    free = graph.free_vars.tolist()
    number = {i: n for n, i in enumerate(free)}
    card = graph.card[free].tolist()
    alone = [np.zeros(d) for d in card]
    factors: list[tuple[list[int], Any]] = []
    for scope, table in graph.linear_factors():
        if len(scope) == 1:
            alone[number[scope[0]]] = alone[number[scope[0]]] + table
        elif scope:
            factors.append(([number[i] for i in scope], table))
    if unary:
        factors += [([n], table - table.max()) for n, table in enumerate(alone)]
    return FactorGraph(card, factors, log=True)
