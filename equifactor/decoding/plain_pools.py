"""Solutions of one shot put together, in plain NumPy: the rules are those of `pool_kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.decoding.problem import transposed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.decoding.problem import DecodingProblem

# As in `pool_kernels`, which cannot be imported without Numba.
KEPT, LONGEST, SURE, _LESS = 8, 192, 16.0, -1e-6


class SolutionPools:
    """The clusters kept for the shots that are being decoded."""

    def __init__(self, problem: DecodingProblem) -> None:
        self.ptr, self.checks = transposed(problem.check_ptr, problem.bit_of_edge, problem.num_bits)
        self.flips = problem.flip_keys()
        self.kept: dict[int, list[IntArray]] = {}

    def pool(
        self, shot: int, best: BoolArray, decided: BoolArray, ratio: NDArray[np.float32]
    ) -> tuple[bool, list[float]]:
        """Swap in `best` [V] the clusters in which `decided` is lighter; return whether there is one, and changes.

        The changes of the weight are in the order in which the kernels add them.
        """
        clusters = self._clusters(np.flatnonzero(best != decided))
        changes = [_change(best, ratio, cluster) for cluster in clusters]
        added = []
        for cluster, change in zip(clusters, changes, strict=True):
            if change < _LESS:
                best[cluster] ^= True
                added.append(change)
        improved = bool(added)
        for cluster, change in zip(clusters, changes, strict=True):
            if np.bitwise_xor.reduce(self.flips[cluster]):
                self._keep(shot, best, ratio, cluster, abs(change))
        swapped = improved
        while swapped:
            swapped = False
            for cluster in self.kept.get(shot, []):
                if (change := _change(best, ratio, cluster)) < _LESS:
                    best[cluster] ^= True
                    added.append(change)
                    swapped = True
                    break
        return improved, added

    def gap(self, shot: int, best: BoolArray, ratio: NDArray[np.float32], solutions: int, legs: int) -> float:
        """Return the smallest change of weight by a kept cluster, and forget the clusters of the shot.

        It is less if few legs met the syndrome.
        """
        changes = [_change(best, ratio, cluster) for cluster in self.kept.pop(shot, [])]
        most = np.inf if 2 * solutions > legs else SURE * solutions / (legs + 1)
        return max(0.0, min([most, *changes]))

    def _clusters(self, changed: IntArray) -> list[IntArray]:
        """Return the clusters of some bits, in the order of their first bits."""
        first: dict[int, int] = {}  # the place of a bit of every check
        parent = list(range(len(changed)))

        def root(n: int) -> int:
            while parent[n] != n:
                n = parent[n]
            return n

        for n, bit in enumerate(changed.tolist()):
            for check in self.checks[self.ptr[bit] : self.ptr[bit + 1]].tolist():
                a, b = root(first.setdefault(check, n)), root(n)
                parent[max(a, b)] = min(a, b)
        roots = np.asarray([root(n) for n in range(len(changed))], np.int64)
        return [changed[roots == own] for own in np.unique(roots)]

    def _keep(self, shot: int, best: BoolArray, ratio: NDArray[np.float32], cluster: IntArray, change: float) -> None:
        """Keep a cluster, in the place of the heaviest one if there are many."""
        kept = self.kept.setdefault(shot, [])
        if len(cluster) > LONGEST or any(np.array_equal(cluster, other) for other in kept):
            return
        if len(kept) < KEPT:
            kept.append(cluster)
            return
        place, heaviest = -1, change
        for k, other in enumerate(kept):
            if (weight := _change(best, ratio, other)) > heaviest:
                place, heaviest = k, weight
        if place >= 0:
            kept[place] = cluster


def _change(best: BoolArray, ratio: NDArray[np.float32], cluster: IntArray) -> float:
    """Return the change of weight if a cluster is swapped."""
    return float(sum(np.where(best[cluster], -ratio[cluster], ratio[cluster]).astype(float).tolist()))
