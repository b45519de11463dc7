"""Pairwise fields on grids: Ising spin glasses, the paper's asymmetric binary field, Potts glasses.

Variable `r * cols + c` is in row r and column c. Factor i is the unary factor of variable i. The pair factors follow:
first the edges to the right (row by row), then the edges downwards. In each of these two groups, wrapped edges come
last. All graphs of one call share one structure, and graph i does not depend on `count`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.generators.argument_checks import check_size, number_of_graphs, real, truth, whole
from equifactor.generators.building_blocks import SPIN, field_structure, one_or_many

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure


class GridOptions(TypedDict, total=False):
    """Keyword arguments of every grid, for the type checker."""

    field_std: float
    coupling_std: float
    wrap: bool
    seed: int


@overload
def ising_grid(rows: int, cols: int, *, count: None = None, **options: Unpack[GridOptions]) -> FactorGraph: ...
@overload
def ising_grid(rows: int, cols: int, *, count: int, **options: Unpack[GridOptions]) -> list[FactorGraph]: ...
def ising_grid(
    rows: int,
    cols: int,
    *,
    field_std: float = 0.25,
    coupling_std: float = 1.0,
    wrap: bool = False,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw spin glasses `p(x) ~ exp(sum_i b_i x_i + sum_ij J_ij x_i x_j)`, x in {-1, +1} (paper, section 4.1).

    Args:
        rows: number of rows.
        cols: number of columns.
        field_std: standard deviation of b_i ~ N(0, field_std^2).
        coupling_std: standard deviation of J_ij ~ N(0, coupling_std^2); each pair is counted once.
        wrap: join opposite borders into a torus; a side of length 1 or 2 is not wrapped.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Cost O(count * rows * cols); 100,000 grids of 4x4 take about a second.
    """
    grid = _Grid(rows, cols, field_std=field_std, coupling_std=coupling_std, wrap=wrap, count=count, seed=seed)
    structure, b, J = grid.draw(states=2, num_fields=1, num_couplings=1)
    return grid.graphs("ising", structure, b * SPIN, J * np.array([1.0, -1.0, -1.0, 1.0]))


@overload
def asymmetric_grid(rows: int, cols: int, *, count: None = None, **options: Unpack[GridOptions]) -> FactorGraph: ...
@overload
def asymmetric_grid(rows: int, cols: int, *, count: int, **options: Unpack[GridOptions]) -> list[FactorGraph]: ...
def asymmetric_grid(
    rows: int,
    cols: int,
    *,
    field_std: float = 0.25,
    coupling_std: float = 1.0,
    wrap: bool = False,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw asymmetric binary fields (paper, section 4.2).

    The pair (i, j) has the log table `[[J_ij + J_ji, -2 J_ij], [-2 J_ji, J_ij + J_ji]]` with both couplings
    drawn from N(0, coupling_std^2). The unary factors, the arguments and the cost are the same as for `ising_grid`.
    """
    grid = _Grid(rows, cols, field_std=field_std, coupling_std=coupling_std, wrap=wrap, count=count, seed=seed)
    structure, b, J = grid.draw(states=2, num_fields=1, num_couplings=2)
    pair = J @ np.array([[1.0, -2.0, 0.0, 1.0], [1.0, 0.0, -2.0, 1.0]])  # rows: J_ij, J_ji
    return grid.graphs("asymmetric", structure, b * SPIN, pair)


@overload
def potts_grid(
    rows: int, cols: int, *, states: int = 3, count: None = None, **options: Unpack[GridOptions]
) -> FactorGraph: ...
@overload
def potts_grid(
    rows: int, cols: int, *, states: int = 3, count: int, **options: Unpack[GridOptions]
) -> list[FactorGraph]: ...
def potts_grid(
    rows: int,
    cols: int,
    *,
    states: int = 3,
    field_std: float = 0.25,
    coupling_std: float = 1.0,
    wrap: bool = False,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw Potts glasses `p(x) ~ exp(sum_i b_i(x_i) + sum_ij J_ij [x_i = x_j])` with `states` states.

    Every b_i(x) is drawn from N(0, field_std^2); the other arguments are the same as for `ising_grid`.
    """
    states = whole("states", states, 1)
    grid = _Grid(rows, cols, field_std=field_std, coupling_std=coupling_std, wrap=wrap, count=count, seed=seed)
    structure, b, J = grid.draw(states=states, num_fields=states, num_couplings=1)
    return grid.graphs(f"potts{states}", structure, b, J * np.eye(states).ravel())


def grid_edges(rows: int, cols: int, wrap: bool = False) -> IntArray:
    """Return the pairs of neighbouring cells [E, 2]: edges to the right first, then edges downwards."""
    cell = np.arange(rows * cols).reshape(rows, cols)
    right = [np.stack((cell[:, :-1].ravel(), cell[:, 1:].ravel()), axis=1)]
    down = [np.stack((cell[:-1].ravel(), cell[1:].ravel()), axis=1)]
    if wrap and cols > 2:
        right.append(np.stack((cell[:, -1], cell[:, 0]), axis=1))
    if wrap and rows > 2:
        down.append(np.stack((cell[-1], cell[0]), axis=1))
    return np.concatenate(right + down)


@dataclass(frozen=True)
class _Grid:
    """The checked arguments that all grids share."""

    rows: int
    cols: int
    field_std: float
    coupling_std: float
    wrap: bool
    count: int | None
    seed: int

    def __post_init__(self) -> None:
        whole("rows", self.rows, 1)
        whole("cols", self.cols, 1)
        real("field_std", self.field_std)
        real("coupling_std", self.coupling_std)
        number_of_graphs(self.count)
        whole("seed", self.seed, 0)
        truth("wrap", self.wrap)

    def draw(self, states: int, num_fields: int, num_couplings: int) -> tuple[Structure, FloatArray, FloatArray]:
        """Return the structure, random fields [N, V, num_fields] and random couplings [N, E, num_couplings]."""
        n, num_vars = number_of_graphs(self.count), self.rows * self.cols
        check_size(n * num_vars * (states + 2 * states**2))
        edges = grid_edges(self.rows, self.cols, bool(self.wrap))
        structure = field_structure(np.full(num_vars, states), edges)
        # One row per graph, so that the random numbers of graph i do not depend on the count.
        cut = num_vars * num_fields
        noise = np.random.default_rng(self.seed).standard_normal((n, cut + len(edges) * num_couplings))
        fields = self.field_std * noise[:, :cut].reshape(n, num_vars, num_fields)
        return structure, fields, self.coupling_std * noise[:, cut:].reshape(n, len(edges), num_couplings)

    def graphs(
        self, stem: str, structure: Structure, unary: FloatArray, pair: FloatArray
    ) -> FactorGraph | list[FactorGraph]:
        """Return graphs with unary log tables [N, V, d] and pair log tables [N, E, d^2]; `stem` begins their names."""
        n = len(unary)
        log_phi = np.concatenate((unary.reshape(n, -1), pair.reshape(n, -1)), axis=1)
        return one_or_many(structure, log_phi, f"{stem}-{self.rows}x{self.cols}-seed{self.seed}", self.count)
