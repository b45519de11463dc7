"""Inference on discrete factor graphs: marginals, ln Z and MAP by exact, classical and learned solvers.

>>> import equifactor as ef
>>> graph = ef.FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 1.0], [1.0, 2.0]])])
>>> ef.solve(graph, "MAR", "brute").marginals[0]
array([0.25, 0.75])
"""

import importlib
from typing import TYPE_CHECKING, Any

from equifactor import generators
from equifactor._solve import solve
from equifactor._version import __version__
from equifactor.errors import EquifactorError, FormatError, ModelError, OptionError, SolveError
from equifactor.graph import FactorGraph, FlatGraph, compile
from equifactor.io import read_evidence, read_graph, write_graph
from equifactor.registry import parse_solver, register, solver_names
from equifactor.result import Result, Status, Task
from equifactor.solver import Solver

if TYPE_CHECKING:
    from equifactor.symmetry import Relabelling, canonical_form, equivariance_error, graph_hash, isomorphism, relabel
    from equifactor.training.trainer import train

__all__ = [
    "EquifactorError",
    "FactorGraph",
    "FlatGraph",
    "FormatError",
    "ModelError",
    "OptionError",
    "Relabelling",
    "Result",
    "SolveError",
    "Solver",
    "Status",
    "Task",
    "__version__",
    "canonical_form",
    "compile",
    "equivariance_error",
    "generators",
    "graph_hash",
    "isomorphism",
    "parse_solver",
    "read_evidence",
    "read_graph",
    "register",
    "relabel",
    "solve",
    "solver_names",
    "train",
    "write_graph",
]

# Loaded when first asked for: a plain `solve` is quicker without them.
_LATER = dict.fromkeys(
    ("Relabelling", "canonical_form", "equivariance_error", "graph_hash", "isomorphism", "relabel"),
    "equifactor.symmetry",
) | {"train": "equifactor.training.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'equifactor' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
