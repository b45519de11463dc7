"""Random graphs with heavy-tailed degrees, for trials and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.cores import Crew, num_threads
from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.files import PathLike, check_writable, reason
from equifactor.base.run_context import check_run

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray

_QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # Those of the benchmark Graph 500.
_AT_ONCE = 2**20  # Edges with random numbers of their own generator. Another number would give other graphs.


def rmat_edges(scale: int, count: int, *, seed: int = 0, path: PathLike | None = None) -> IntArray:
    """Return the edges [count, 2] of a random R-MAT graph of 2^scale variables, as int32.

    Each edge falls `scale` times into one of four quadrants of the matrix of edges, with the probabilities .57, .19,
    .19 and .05. Few variables then have very many edges, as in networks of people and pages. An edge may be repeated.

    Args:
        scale: the base-2 logarithm of the number of variables, 1 to 30.
        count: the number of edges.
        seed: of the random numbers.
        path: a .npy file that holds the edges; the array returned is then mapped to it, and needs no memory.
    """
    for name, value, low, high in (("scale", scale, 1, 30), ("count", count, 0, 2**40)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not low <= value <= high:
            raise OptionError(f"{name} must be a whole number from {low} to {high}, found {brief(value)}.")
    check_run(None, seed, False)
    from equifactor.large.large_kernels import draw_rmat

    edges: Any = np.empty((count, 2), np.int32) if path is None else _mapped(path, count)
    a, ab, abc = (round(65536 * share) for share in np.cumsum(_QUADRANTS[:3]))
    states = np.random.SeedSequence(seed).generate_state(-(-count // _AT_ONCE) or 1, np.uint64) | 1

    def draw(_: int, start: int, stop: int) -> None:
        rng = states[start // _AT_ONCE : start // _AT_ONCE + 1]
        draw_rmat(edges[start:stop], scale, rng, a, ab, abc)

    draw(0, 0, 0)
    with Crew(num_threads()) as crew:
        crew.divide(count, _AT_ONCE, draw)
    return edges


def _mapped(path: PathLike, count: int) -> np.ndarray:
    check_writable(path)
    try:
        # Like numpy.save, but the numbers are written by the caller.
        return np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(count, 2))
    except OSError as error:
        raise FormatError(f"{path}: cannot write this file: {reason(error)}.") from None
