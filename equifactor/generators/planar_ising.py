"""Planar spin glasses with fields along one side, which are solved by the determinant of Kac and Ward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.argument_checks import check_size, spin_draws, whole
from equifactor.generators.grids import grid_edges
from equifactor.generators.solved import SolvedModel, binary_marginals, ising_model

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


def planar_ising(
    rows: int, cols: int, *, field_std: float = 0.5, coupling_std: float = 1.0, seed: int = 0
) -> SolvedModel:
    """Draw a spin glass on a grid of any size, without wrap and with fields on the first column only.

    Without fields, Z of a planar Ising model is the square root of a determinant over directed edges [KacWard52], up to
    a known factor. A field is a coupling to one more spin that is fixed up. If this spin lies outside the grid, beside
    the first column, the graph stays planar. The determinant gives ln Z. The derivative of ln Z by a field is the mean
    of a spin of the first column. The matrix is banded by columns and is eliminated column by column: O(cols * rows^3).

    Args:
        rows: number of rows, at least 2; 80 rows and columns take a few seconds.
        cols: number of columns, at least 2.
        field_std: standard deviation of the fields on the first column.
        coupling_std: standard deviation of the couplings.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.planar_ising(12, 12, seed=1)
        SolvedModel(planar-12x12-seed1, ln Z 185.987, 12 marginals known)
    """
    rows, cols = whole("rows", rows, 2), whole("cols", cols, 2)
    check_size(10 * rows * cols)
    field_std, coupling_std, rng = spin_draws(field_std, coupling_std, seed)
    edges = grid_edges(rows, cols)
    first = cols * np.arange(rows)  # the spins of the first column
    b = np.zeros(rows * cols)
    b[first] = field_std * rng.standard_normal(rows)
    J = coupling_std * rng.standard_normal(len(edges))
    graph = ising_model(b, edges, J, f"planar-{rows}x{cols}-seed{seed}")

    # The spin that is fixed up comes last.
    cell = np.arange(rows * cols)
    position = np.concatenate((np.stack((cell % cols, cell // cols), axis=1), [[-float(rows), (rows - 1) / 2]]))
    fixed = np.stack((np.full(rows, rows * cols), first), axis=1)
    both, strength = np.concatenate((edges, fixed)), np.concatenate((J, b[first]))
    column = np.minimum(both[:, 0] % cols, both[:, 1] % cols)  # an edge belongs to the column of its left end
    column[len(edges) :] = 0
    log_det, slope = _kac_ward(position, both, strength, column)
    log_z = rows * cols * np.log(2.0) + np.logaddexp(strength, -strength).sum() - len(both) * np.log(2.0) + log_det / 2
    mean = np.tanh(b[first]) + slope[len(edges) :] / 2
    p = np.full(rows * cols, 0.5)
    p[first] = (1.0 + mean) / 2.0
    known = np.zeros(rows * cols, bool)
    known[first] = True
    return SolvedModel(graph, float(log_z), binary_marginals(graph, p), known)


def _kac_ward(position: FloatArray, edges: IntArray, J: FloatArray, column: IntArray) -> tuple[float, FloatArray]:
    """Return ln det(1 - W) of a planar graph with straight edges, and its derivative by some couplings of column 0.

    W maps a directed edge e to each edge f that begins where e ends, except e backwards. Its weight is tanh(J_e), and
    its phase is half the angle by which f turns away from e. Only edges of neighbouring columns may meet.

    Args:
        position: [V, 2] the coordinates of each vertex.
        edges: [E, 2] the edges.
        J: [E] the couplings of the edges.
        column: [E] the column of each edge, from 0.

    Returns:
        ln det, and [E] its derivatives by the couplings of edges that meet only edges of column 0.
    """
    num = len(edges)
    tail, head = edges.T.ravel(), edges[:, ::-1].T.ravel()  # [2E] edge e + num is edge e backwards
    t = np.tile(np.tanh(J), 2)
    step = position[head] - position[tail]
    angle = np.arctan2(step[:, 1], step[:, 0])
    by_tail = np.argsort(tail, kind="stable")
    start = np.searchsorted(tail[by_tail], np.arange(len(position) + 1))
    degree = np.diff(start)[head]
    e = np.repeat(np.arange(2 * num), degree)
    f = by_tail[np.repeat(start[head] - (np.cumsum(degree) - degree), degree) + np.arange(degree.sum())]
    forth = f != (e + num) % (2 * num)
    e, f = e[forth], f[forth]
    turn = np.angle(np.exp(1j * (angle[f] - angle[e])))
    phase = np.exp(0.5j * turn)

    of = np.tile(column, 2)
    rank = np.empty(2 * num, np.int64)  # the number of an edge within its column
    members = [np.flatnonzero(of == k) for k in range(of.max() + 1)]
    for which in members:
        rank[which] = np.arange(len(which))

    def part(k: int, m: int) -> np.ndarray:
        """Return the part of W from column k to column m, without its tanh."""
        found = np.zeros((len(members[k]), len(members[m])), complex)
        here = (of[e] == k) & (of[f] == m)
        found[rank[e[here]], rank[f[here]]] = phase[here]
        return found

    log_det, behind = 0.0, np.eye(0)  # behind: column k + 1 after the elimination of the columns behind it
    for k in range(len(members) - 1, -1, -1):
        tanh = t[members[k]][:, None]
        left = np.eye(len(members[k])) - tanh * part(k, k)
        if k + 1 < len(members):
            back = t[members[k + 1]][:, None] * part(k + 1, k)
            left = left - tanh * part(k, k + 1) @ np.linalg.solve(behind, back)
        log_det += float(np.linalg.slogdet(left)[1])
        behind = left
    # The inverse of the last remainder is the part of the inverse of 1 - W in column 0. All edges after a wanted edge
    # are in column 0.
    product = np.diagonal(part(0, 0) @ np.linalg.inv(behind)).real
    derivative = np.zeros(2 * num)
    derivative[members[0]] = -(1 - t[members[0]] ** 2) * product
    return log_det, derivative[:num] + derivative[num:]
