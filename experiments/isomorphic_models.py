"""Test models that are isomorphic to training models. The tables state their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equifactor import FactorGraph
from equifactor.base.typing import FloatArray
from equifactor.data import Instance
from equifactor.symmetry import graph_hash
from experiments.map_splits import ModelSplit
from experiments.run_store import Row, RunStore

# The number of decimals of log tables that are compared, since sums over factors may differ in order. Chosen by hand.
_DIGITS = 9


def compute_hashes(splits: Sequence[ModelSplit], store: RunStore) -> None:
    """Hash the models of the splits that are not hashed yet, and store the hashes in the archive."""
    for split in splits:
        new = [i for i in (*split.train, *split.test) if _key(i) not in store.archived]
        store.put({_key(i): _hashes(i) for i in new})


def isomorphic_models(splits: Sequence[ModelSplit], store: RunStore) -> tuple[list[Row], list[str]]:
    """Return a row per split with the test models isomorphic to a training model, exactly or up to unary tables.

    Return also a sentence for each collection that was not compared. Models are compared after conditioning on evidence
    (`remainder`). The same model with other observations differs in unary tables only.
    """
    found, missing = [], []
    for split in splits:
        train, test = ([store.archived.get(_key(i)) for i in models] for models in (split.train, split.test))
        if None in train or None in test:
            missing.append(f"isomorphic models of {split.collection}: not looked for yet (--parts doubles)")
            continue
        found.append(
            {
                "collection": split.collection, "train": len(train), "test": len(test),
                "isomorphic": _shared(split, store, "whole"), "same_larger_tables": _shared(split, store, "larger"),
            }
        )  # fmt: skip
    return found, missing


def remainder(graph: FactorGraph, *, unary: bool = True) -> FactorGraph:
    """Return the graph of the free variables: renumbered, with larger tables and one unary table per variable.

    The unary tables of a variable are multiplied into one table, which is left out if `unary` is False. Constants are
    dropped, and every table is scaled to a maximum of 1. Neither changes the best assignment.
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


def _shared(split: ModelSplit, store: RunStore, part: str) -> list[str]:
    """Return the names of the test models that have the same hash as a training model."""
    known = {store.archived[_key(i)][part] for i in split.train}
    return [i.name for i in split.test if store.archived[_key(i)][part] in known]


def _key(instance: Instance) -> str:
    """Return the name under which the hashes of a model are archived."""
    return f"hash | {instance.key}"


def _hashes(instance: Instance) -> Row:
    """Return two hashes of a model conditioned on its evidence: of all tables, and of the larger tables alone."""
    graph = instance.graph()
    return {
        "whole": graph_hash(remainder(graph), digits=_DIGITS),
        "larger": graph_hash(remainder(graph, unary=False), digits=_DIGITS),
    }
