"""Models whose answers are known by another road than elimination, however large they are.

They are for trying solvers beyond the size at which exact inference fits. Each generator gives a `SolvedModel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.building_blocks import field_structure
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray

SPIN = np.array([-1.0, 1.0])  # state 0 is spin -1, state 1 is spin +1


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A graph with its exact answers.

    Attributes:
        graph: the model.
        log_z: its ln Z.
        marginals: the marginals of its variables, meaningful where `known` says so.
        known: [V] which variables' marginals are known.
    """

    graph: FactorGraph
    log_z: float
    marginals: Marginals
    known: BoolArray

    def __repr__(self) -> str:
        return f"SolvedModel({self.graph.name}, ln Z {self.log_z:.6g}, {int(self.known.sum())} marginals known)"


def ising_model(b: FloatArray, pairs: IntArray, J: FloatArray, name: str) -> FactorGraph:
    """The graph `p(x) ~ exp(sum_i b_i x_i + sum_ij J_ij x_i x_j)` of fields b [V] on pairs [P, 2] with couplings J."""
    log_phi = np.concatenate((np.outer(b, SPIN).ravel(), np.outer(J, np.outer(SPIN, SPIN)).ravel()))
    return FactorGraph.trusted(field_structure(np.full(len(b), 2), pairs), log_phi, None, name)


def binary_marginals(graph: FactorGraph, p: FloatArray) -> Marginals:
    """Marginals from the probabilities [V] of state 1."""
    return Marginals(np.stack((1.0 - p, p), axis=1).ravel(), graph.structure.state_ptr)
