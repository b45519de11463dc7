"""Long strips and cylinders of spins, which are solved by transfer matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.argument_checks import check_size, spin_draws, truth, whole
from equifactor.generators.building_blocks import SPIN
from equifactor.generators.grids import grid_edges
from equifactor.generators.solved import SolvedModel, binary_marginals, ising_model

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_MAX_ROWS = 24  # The largest number of rows: each column keeps a vector of 2^rows entries.


def ising_strip(
    rows: int,
    cols: int,
    *,
    field_std: float = 0.25,
    coupling_std: float = 1.0,
    wrap: bool = False,
    seed: int = 0,
) -> SolvedModel:
    """Draw a spin glass on a grid of few rows and many columns, with ln Z and all marginals.

    A vector over the 2^rows states of a column is passed from column to column, forward and backward. The bonds of
    the rows are applied to it one after the other, so that a step costs rows * 2^rows. The forward vectors are kept.

    Args:
        rows: number of rows, at most 24; the computation takes 2^rows * cols * 8 bytes.
        cols: number of columns.
        field_std: standard deviation of the fields.
        coupling_std: standard deviation of the couplings.
        wrap: join the first row to the last row, which gives a cylinder; one or two rows are not joined.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.ising_strip(6, 40, seed=1)
        SolvedModel(strip-6x40-seed1, ln Z 331.138, 240 marginals known)
    """
    rows = whole("rows", rows, 1, _MAX_ROWS, "The sum runs over the 2^rows states of a column.")
    cols, wrap = whole("cols", cols, 1), truth("wrap", wrap)
    check_size(2**rows * cols)
    field_std, coupling_std, rng = spin_draws(field_std, coupling_std, seed)
    edges = grid_edges(rows, cols)
    if wrap and rows > 2:
        edges = np.concatenate((edges, np.stack(((rows - 1) * cols + np.arange(cols), np.arange(cols)), axis=1)))
    b, J = field_std * rng.standard_normal(rows * cols), coupling_std * rng.standard_normal(len(edges))
    shape = "cylinder" if wrap else "strip"
    graph = ising_model(b, edges, J, f"{shape}-{rows}x{cols}-seed{seed}")

    num_right = rows * (cols - 1)
    bond = J[:num_right].reshape(rows, cols - 1)
    down = np.zeros((rows, cols))  # the coupling of each spin to the spin below; the last row is above the first
    down[: rows - 1] = J[num_right : num_right + (rows - 1) * cols].reshape(rows - 1, cols)
    if wrap and rows > 2:
        down[rows - 1] = J[num_right + (rows - 1) * cols :]
    log_z, magnetization = _transfer(b.reshape(rows, cols), down, bond)
    p = (1.0 + magnetization.ravel()) / 2.0
    return SolvedModel(graph, log_z, binary_marginals(graph, p), np.ones(rows * cols, bool))


def _transfer(b: FloatArray, down: FloatArray, bond: FloatArray) -> tuple[float, FloatArray]:
    """Return ln Z and the mean of each spin [rows, cols].

    The arguments are the fields [rows, cols] and the couplings down [rows, cols] and to the right [rows, cols-1].
    """
    rows, cols = b.shape
    columns = [_column(b[:, c], down[:, c]) for c in range(cols)]
    forward, log_z = [], 0.0
    v = np.ones(2**rows)
    for c in range(cols):
        if c:
            v = _across(v, bond[:, c - 1])
        v = v * np.exp(columns[c] - columns[c].max())
        log_z += columns[c].max() + np.log(v.sum()) + (np.abs(bond[:, c - 1]).sum() if c else 0.0)
        v = v / v.sum()
        forward.append(v)
    mean = np.empty((rows, cols))
    back = np.ones(2**rows)
    for c in range(cols - 1, -1, -1):
        joint = (forward[c] * back).reshape((2,) * rows)
        joint /= joint.sum()
        for r in range(rows):
            one = np.moveaxis(joint, r, 0).reshape(2, -1).sum(axis=1)
            mean[r, c] = one[1] - one[0]
        if c:
            back = _across(back * np.exp(columns[c] - columns[c].max()), bond[:, c - 1])
            back /= back.sum()
    return float(log_z), mean


def _column(b: FloatArray, down: FloatArray) -> FloatArray:
    """Return the log weight [2^rows] of each state of one column; row 0 is the slowest axis."""
    rows = len(b)
    weight = np.zeros((2,) * rows)
    for r in range(rows):
        weight += (b[r] * SPIN).reshape([2 if a == r else 1 for a in range(rows)])
        if down[r] != 0.0:
            s = (r + 1) % rows
            pair = down[r] * np.outer(SPIN, SPIN)
            weight += pair.reshape([2 if a in (r, s) else 1 for a in range(rows)])
    return weight.ravel()


def _across(v: FloatArray, bond: FloatArray) -> FloatArray:
    """Apply the factor exp(J x y - |J|) of each bond [rows] to a vector [2^rows] over the states of a column."""
    for r, J in enumerate(bond):
        same, other = np.exp(J - abs(J)), np.exp(-J - abs(J))
        split = v.reshape(2**r, 2, -1)
        v = np.stack(
            (same * split[:, 0] + other * split[:, 1], other * split[:, 0] + same * split[:, 1]), axis=1
        ).ravel()
    return v
