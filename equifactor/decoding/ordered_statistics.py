"""Ordered statistics, for shots that belief propagation cannot explain [Fossorier95]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.decoding.problem import transposed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import IntArray
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore


class OrderedStatistics:
    """A decoder by linear algebra that takes the bits most likely in error first.

    It meets every syndrome that can be met.
    """

    def __init__(self, problem: DecodingProblem, method: DecodingMethod) -> None:
        from equifactor.decoding.osd_kernels import Columns

        self.problem = problem
        self.pairs = method.osd_order if method.osd == "cs" else -1
        # An upper bound of the rank of the checks, until the first shot has determined the rank.
        self.rank = problem.num_bits
        bit_ptr, check_of_edge = transposed(problem.check_ptr, problem.bit_of_edge, problem.num_bits)
        self.columns = Columns(problem.num_checks, bit_ptr, check_of_edge)

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled loops by a call without shots."""
        p, rank = self.problem, self.rank
        none, reals = np.zeros(0, np.int64), np.zeros((0, p.num_bits), np.float32)
        self.decode(store, none, reals, np.zeros((0, p.num_checks), np.uint8))
        self.rank = rank

    def decode(
        self, store: ShotStore, shots: IntArray, posterior: NDArray[np.float32], syndrome: NDArray[np.uint8]
    ) -> None:
        """Decode shots [B] of a store from their posteriors [B, V] and syndromes [B, M]."""
        from equifactor.decoding.osd_kernels import Statistics, reprocess
        from equifactor.kernels.jit import plain

        p, count = self.problem, len(shots)
        ratio = p.ratio.astype(np.float32)[None] if store.ratios is None else store.ratios[shots]
        order = np.argsort(posterior, axis=1, kind="stable")
        chosen = np.zeros((count, p.num_bits), np.uint8)
        found = Statistics(order, syndrome, ratio, chosen, np.zeros(count), np.zeros(count, bool))
        self.rank = reprocess(plain(self.columns), plain(found), self.rank, self.pairs)
        store.converged[shots], store.weight[shots] = found.solved, found.weight
        for n, (begin, end) in enumerate(zip(p.observable_ptr[:-1], p.observable_ptr[1:], strict=True)):
            store.flips[shots, n] = chosen[:, p.observable_bits[begin:end]].sum(axis=1) % 2
        if len(store.correction):
            store.correction[shots] = np.packbits(chosen, axis=1, bitorder="little")
