"""Codes as factor graphs for the page: the errors of a `.dem` or `.stim` file, the bits of a parity-check matrix."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.files import label, split_name
from equifactor.factors.parity import Parity
from equifactor.graph.factor_graph import FactorGraph
from equifactor.kernels.pointers import row_of

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray
    from equifactor.decoding.error_model import ErrorModel

CODE_SUFFIXES = (".alist", ".dem", ".npz", ".stim")


def is_code(path: PathLike) -> bool:
    """Return whether a path has the suffix of a code that the page can show."""
    return split_name(path)[1] in CODE_SUFFIXES


def read_code_graph(path: PathLike) -> FactorGraph:
    """Read a code as a factor graph.

    The graph of a matrix without probabilities (`.alist`, `.npz`) has a variable for each bit and a parity factor for
    each check: its assignments are the words of the code, all equally probable.
    """
    from equifactor.decoding.code_files import read_code

    is_matrix = split_name(path)[1] in (".alist", ".npz")
    model = read_code(path, prior=0.5 if is_matrix else None)
    if not is_matrix or (model.priors != 0.5).any():
        return graph_of_errors(model, label(path))
    scopes = _members(model.detectors, row_of(model.detector_ptr), model.num_detectors)
    names = {f"bit {i}": ["0", "1"] for i in range(model.num_errors)}
    factors: list[tuple[list[int], Any]] = [(scope, Parity()) for scope in scopes if scope]
    return FactorGraph(names, factors, name=label(path))


def graph_of_errors(model: ErrorModel, name: str) -> FactorGraph:
    """Return the graph of an error model, with variables E for errors, D for detectors and L for observables.

    Every error has its prior. A parity factor joins each detector, and each observable, to the errors that flip it:
    observing which detectors fired gives the probability of each error and of each logical flip.
    """
    states = {f"E{e}": ["absent", "present"] for e in range(model.num_errors)}
    states |= {f"D{d}": ["quiet", "fired"] for d in range(model.num_detectors)}
    states |= {f"L{k}": ["same", "flipped"] for k in range(model.num_observables)}
    factors: list[tuple[list[int], Any]] = [([e], [1.0 - p, p]) for e, p in enumerate(model.priors.tolist())]
    first = model.num_errors
    for ptr, targets, count in (
        (model.detector_ptr, model.detectors, model.num_detectors),
        (model.observable_ptr, model.observables, model.num_observables),
    ):
        flips = _members(targets, row_of(ptr), count)
        factors += [([*errors, first + k], Parity()) for k, errors in enumerate(flips)]
        first += count
    return FactorGraph(states, factors, name=name)


def _members(group: IntArray, member: IntArray, count: int) -> list[list[int]]:
    """Return the members of each of `count` groups."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(count + 1))
    return [member[order[a:b]].tolist() for a, b in pairwise(bounds.tolist())]
