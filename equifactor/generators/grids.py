"""Pairwise fields on grids: Ising spin glasses, the paper's asymmetric binary field, Potts glasses.

Variable `r * cols + c` sits in row r and column c. Factor i is the unary factor of variable i; the pair
factors follow, the edges to the right first (row by row), then the edges downwards; wrapped edges come last
of each. All graphs of one call share one structure, and graph i does not depend on `count`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.generators.argument_checks import check_size, number_of_graphs, one_or_many, real, whole
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.typing import FloatArray, IntArray


_SPIN = np.array([-1.0, 1.0])  # state 0 is spin -1, state 1 is spin +1


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
    """Spin glass `p(x) ~ exp(sum_i b_i x_i + sum_ij J_ij x_i x_j)`, x in {-1, +1} (paper, section 4.1).

    Args:
        rows: number of rows.
        cols: number of columns.
        field_std: standard deviation of b_i ~ N(0, field_std^2).
        coupling_std: standard deviation of J_ij ~ N(0, coupling_std^2); each pair is counted once.
        wrap: join the borders into a torus; a side of length 1 or 2 has nothing to wrap.
        count: None gives one graph, N gives a list of N.
        seed: of the random numbers.

    Cost O(count * rows * cols); 100,000 grids of 4x4 take about a second.
    """
    structure, b, J = _draw(rows, cols, 2, 1, 1, field_std, coupling_std, wrap, count, seed)
    tables = (b * _SPIN, J * np.array([1.0, -1.0, -1.0, 1.0]))
    return one_or_many(structure, _flat(*tables), f"ising-{rows}x{cols}-seed{seed}", count)


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
    """Asymmetric binary field of the paper, section 4.2.

    The pair (i, j) has the log table `[[J_ij + J_ji, -2 J_ij], [-2 J_ji, J_ij + J_ji]]` with both couplings
    drawn from N(0, coupling_std^2); the unary factors are those of `ising_grid`. Arguments and cost as
    there.
    """
    structure, b, J = _draw(rows, cols, 2, 1, 2, field_std, coupling_std, wrap, count, seed)
    pair = J @ np.array([[1.0, -2.0, 0.0, 1.0], [1.0, 0.0, -2.0, 1.0]])  # rows: J_ij, J_ji
    return one_or_many(structure, _flat(b * _SPIN, pair), f"asymmetric-{rows}x{cols}-seed{seed}", count)


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
    """Potts glass `p(x) ~ exp(sum_i b_i(x_i) + sum_ij J_ij [x_i = x_j])` with `states` states.

    Every b_i(x) is drawn from N(0, field_std^2); the other arguments are those of `ising_grid`.
    """
    states = whole("states", states, 1)
    structure, b, J = _draw(rows, cols, states, states, 1, field_std, coupling_std, wrap, count, seed)
    stem = f"potts{states}-{rows}x{cols}-seed{seed}"
    return one_or_many(structure, _flat(b, J * np.eye(states).ravel()), stem, count)


def grid_edges(rows: int, cols: int, wrap: bool = False) -> IntArray:
    """[E, 2] neighbouring cells: rightward edges first, then downward ones."""
    cell = np.arange(rows * cols).reshape(rows, cols)
    right = [np.stack((cell[:, :-1].ravel(), cell[:, 1:].ravel()), axis=1)]
    down = [np.stack((cell[:-1].ravel(), cell[1:].ravel()), axis=1)]
    if wrap and cols > 2:
        right.append(np.stack((cell[:, -1], cell[:, 0]), axis=1))
    if wrap and rows > 2:
        down.append(np.stack((cell[-1], cell[0]), axis=1))
    return np.concatenate(right + down)


def _draw(
    rows: int,
    cols: int,
    states: int,
    num_fields: int,
    num_couplings: int,
    field_std: float,
    coupling_std: float,
    wrap: bool,
    count: int | None,
    seed: int,
) -> tuple[Structure, FloatArray, FloatArray]:
    """Structure, fields [N, V, num_fields] and couplings [N, E, num_couplings]."""
    rows, cols = whole("rows", rows, 1), whole("cols", cols, 1)
    field_std, coupling_std = real("field_std", field_std), real("coupling_std", coupling_std)
    n = number_of_graphs(count)
    rng = np.random.default_rng(whole("seed", seed, 0))
    num_vars = rows * cols
    check_size(n * num_vars * (states + 2 * states**2))

    edges = grid_edges(rows, cols, bool(wrap))
    scope_ptr = np.concatenate((np.arange(num_vars), num_vars + 2 * np.arange(len(edges) + 1)))
    structure = Structure.build(
        np.full(num_vars, states), scope_ptr, np.concatenate((np.arange(num_vars), edges.ravel()))
    )
    # One row per graph, so that graph i takes the same numbers from the stream whatever the count.
    cut = num_vars * num_fields
    noise = rng.standard_normal((n, cut + len(edges) * num_couplings))
    fields = field_std * noise[:, :cut].reshape(n, num_vars, num_fields)
    return structure, fields, coupling_std * noise[:, cut:].reshape(n, len(edges), num_couplings)


def _flat(unary: FloatArray, pair: FloatArray) -> FloatArray:
    """Log tables [N, T] from unary [N, V, d] and pair tables [N, E, d^2]."""
    n = len(unary)
    return np.concatenate((unary.reshape(n, -1), pair.reshape(n, -1)), axis=1)
