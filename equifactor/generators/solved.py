"""Models of any size whose answers are known by other means than elimination.

These models test solvers at sizes that are too large for exact inference. Each generator returns a `SolvedModel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.building_blocks import SPIN, field_structure
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A graph with its exact answers.

    Attributes:
        graph: the model.
        log_z: its ln Z.
        marginals: the marginals of its variables; only marginals of variables in `known` are meaningful.
        known: [V] the variables whose marginals are known.
    """

    graph: FactorGraph
    log_z: float
    marginals: Marginals
    known: BoolArray

    def __repr__(self) -> str:
        return f"SolvedModel({self.graph.name}, ln Z {self.log_z:.6g}, {int(self.known.sum())} marginals known)"


def ising_model(b: FloatArray, pairs: IntArray, J: FloatArray, name: str) -> FactorGraph:
    """Return `p(x) ~ exp(sum_i b_i x_i + sum_ij J_ij x_i x_j)` with fields b [V] and couplings J on pairs [P, 2]."""
    log_phi = np.concatenate((np.outer(b, SPIN).ravel(), np.outer(J, np.outer(SPIN, SPIN)).ravel()))
    return FactorGraph.trusted(field_structure(np.full(len(b), 2), pairs), log_phi, None, name)


def binary_marginals(graph: FactorGraph, p: FloatArray) -> Marginals:
    """Return marginals from the probabilities [V] of state 1."""
    return Marginals(np.stack((1.0 - p, p), axis=1).ravel(), graph.structure.state_ptr)
