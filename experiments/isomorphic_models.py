"""Test models that are training models under other numbers and names: a table must say how many there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equifactor import FactorGraph, graph_hash
from equifactor.data import Instance
from equifactor.io.files import write_text
from equifactor.typing import FloatArray
from experiments.map_splits import ModelSplit

HASHES = "hashes.json"  # name of the file with the hashes of all models
_DIGITS = 9  # decimals of log tables that count, since sums over factors come in different orders


def compute_hashes(splits: Sequence[ModelSplit], folder: Path) -> None:
    """Hash the models of the splits that are not hashed yet, into a file of the folder."""
    known = _read_hashes(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        new = [i for i in (*split.train, *split.test) if i.key not in known]
        known |= {i.key: _hashes(i) for i in new}
        if new:
            write_text(folder / HASHES, json.dumps(known, indent=1) + "\n")


def isomorphic_models(splits: Sequence[ModelSplit], folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Per split: test models isomorphic to a training model, and those that are so up to unary tables.

    Compared is what evidence leaves (`remainder`). One model under two observations differs in unary tables only. The
    sentences name the collections that were not looked at.
    """
    known, found, missing = _read_hashes(folder), [], []
    for split in splits:
        if any(i.key not in known for i in (*split.train, *split.test)):
            missing.append(f"isomorphic models of {split.collection}: not looked for yet (--parts doubles)")
            continue
        whole, larger = ({known[i.key][n] for i in split.train} for n in range(2))
        found.append(
            {
                "collection": split.collection, "train": len(split.train), "test": len(split.test),
                "isomorphic": [i.name for i in split.test if known[i.key][0] in whole],
                "same_larger_tables": [i.name for i in split.test if known[i.key][1] in larger],
            }
        )  # fmt: skip
    return found, missing


def remainder(graph: FactorGraph, *, unary: bool = True) -> FactorGraph:
    """What evidence leaves of a graph: free variables renumbered, larger tables, and one unary table per variable.

    The unary tables of a variable are multiplied into one, which is left out where `unary` is False. Constants are
    dropped, and every table is scaled to a maximum of 1, since neither changes the best assignment.
    """
    free = graph.free_vars.tolist()
    number = {i: n for n, i in enumerate(free)}
    card = graph.card[free].tolist()
    log_unary = [np.zeros(states) for states in card]
    factors: list[tuple[list[int], FloatArray]] = []
    for a in range(graph.num_factors):
        scope, log_table = graph.structure.scope(a).tolist(), graph.log_table(a)
        if len(scope) == 1:
            log_unary[number[scope[0]]] = log_unary[number[scope[0]]] + log_table
        elif scope:
            factors.append(([number[i] for i in scope], _scaled(log_table)))
    if unary:
        factors += [([n], _scaled(log_table)) for n, log_table in enumerate(log_unary)]
    return FactorGraph(card, factors, log=True)


def _scaled(log_table: FloatArray) -> FloatArray:
    top = log_table.max()
    return log_table - top if np.isfinite(top) else log_table


def _read_hashes(folder: Path) -> dict[str, Sequence[str]]:
    path = folder / HASHES
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _hashes(instance: Instance) -> tuple[str, str]:
    graph = instance.graph()
    return graph_hash(remainder(graph), digits=_DIGITS), graph_hash(remainder(graph, unary=False), digits=_DIGITS)
