"""The likeliest errors, proven: the package's MAP solvers after a decoder that finds good ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.decoding.lane_engine import LaneEngine
from equifactor.generators.ldpc import LdpcCode
from equifactor.graph.factor_graph import FactorGraph
from equifactor.kernels.pointers import row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray
    from equifactor.decoding.methods import OptimalDecoding
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore
    from equifactor.questions.result import Result

# A solver does not know that weights come in steps, and goes on when its bound is a proof already: look early.
_STAGES = (0.05, 0.2, 1.0)
_BLOCK = 64  # shots that are bounded together
_SAME = 1e-5  # weights that differ by less than this share are equal: those of lanes are single precision


def _step(problem: DecodingProblem) -> float:
    """By how much weights of errors of one shot differ at least, where all bits are equally likely; 0 where not.

    Where all bits are in an odd number of checks, the syndrome says whether the number of errors is even.
    """
    first = float(problem.ratio[0]) if problem.num_bits else 0.0
    if first <= 0.0 or not np.allclose(problem.ratio, first, rtol=1e-9):
        return 0.0
    odd = np.bincount(problem.bit_of_edge, minlength=problem.num_bits) % 2 == 1
    return 2.0 * first if odd.all() else first


class OptimalEngine:
    """Decodes by relay and ordered statistics first, and then shot by shot until nothing likelier can exist.

    A shot is a model of one factor per bit and one parity per check; its MAP assignment is the likeliest set of errors,
    not of an observable. Where all errors are equally likely, a bound that leaves no room for fewer is a proof.
    """

    def __init__(self, problem: DecodingProblem, method: OptimalDecoding) -> None:
        self.problem, self.method = problem, method
        self.first = LaneEngine(problem, method)
        bit, check = problem.bit_of_edge, row_of(problem.check_ptr)
        by_bit = np.argsort(bit, kind="stable")
        self.structure = LdpcCode.of_edges(bit[by_bit], check[by_bit], problem.num_bits).structure
        self.step = _step(problem)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Answer the shots of the store; `proven` says of which it is known that no errors are likelier."""
        self.first.decode(store, clock, lambda done: None)
        # What the channel says alone explains these: every other set of errors is heavier.
        store.proven = store.converged & (store.iterations == 0) & store.decoded
        for first, packed, ratio, _ in store.chunks():
            bits = np.unpackbits(packed, axis=1, bitorder="little", count=self.problem.num_checks).astype(bool)
            self._prove_by_covering(store, first, bits)
            for n in range(len(bits)):
                shot = first + n
                if clock.stopped:
                    return
                if store.explicable[shot] and not store.proven[shot]:
                    self._improve(store, shot, bits[n], ratio[min(n, len(ratio) - 1)], clock)
                report(shot + 1)

    def _prove_by_covering(self, store: ShotStore, first: int, syndromes: BoolArray) -> None:
        """Mark shots whose errors weigh no more than any that touch all fired checks must.

        Every fired check has an error. An error shares its weight among the fired checks that it is in, and so each of
        these carries at least the smallest share that any of its bits would give it.
        """
        p = self.problem
        if store.ratios is not None or p.ratio.min(initial=np.inf) <= 0.0 or not p.num_bits:
            return
        assert store.proven is not None
        by_bit = np.argsort(p.bit_of_edge, kind="stable")
        begins = np.searchsorted(p.bit_of_edge[by_bit], np.arange(p.num_bits))
        check = row_of(p.check_ptr)
        for begin in range(0, len(syndromes), _BLOCK):
            fired = syndromes[begin : begin + _BLOCK]
            seen = np.add.reduceat(fired[:, check[by_bit]], begins, axis=1, dtype=np.int64)
            share = p.ratio / np.maximum(seen, 1)
            least = np.minimum.reduceat(share[:, p.bit_of_edge], p.check_ptr[:-1], axis=1)
            shots = slice(first + begin, first + begin + len(fired))
            weight = store.weight[shots]
            room = np.maximum(self.step * (1.0 - 1e-6), _SAME * np.maximum(1.0, weight))
            store.proven[shots] |= store.converged[shots] & (weight - (least * fired).sum(axis=1) < room)

    def _improve(
        self, store: ShotStore, shot: int, syndrome: BoolArray, ratio: NDArray[np.float32], clock: Clock
    ) -> None:
        """Prove the errors found for a shot, or find likelier ones, or give up when its time is over."""
        from equifactor.questions.solve import solve

        bits = np.stack((np.zeros(len(ratio)), -ratio.astype(float)), axis=1)
        checks = np.where(syndrome[:, None], [-np.inf, 0.0], [0.0, -np.inf])
        graph = FactorGraph.trusted(self.structure, np.concatenate((bits.ravel(), checks.ravel())))
        assert store.proven is not None
        for share in _STAGES:
            limit = min(share * self.method.seconds, clock.left)
            result = solve(graph, "MAP", self.method.solver, time_limit=limit, seed=self.method.seed)
            self._take(store, shot, result)
            if store.proven[shot] or clock.stopped:
                return

    def _take(self, store: ShotStore, shot: int, result: Result) -> None:
        """Keep what a solver has found for a shot, if it is likelier, and whether nothing likelier can exist."""
        assert store.proven is not None
        known = store.weight[shot] if store.converged[shot] else np.inf
        slack = _SAME * max(1.0, abs(known))
        found = -np.inf if result.log_score is None else result.log_score
        if result.assignment is not None and -found < known - slack:
            known = -found
            self._keep(store, shot, np.asarray(result.assignment), known)
        bound = -np.inf if result.upper_bound is None else -result.upper_bound  # no errors weigh less
        store.proven[shot] = result.status.solved or known - bound < max(slack, self.step * (1.0 - 1e-6))

    def _keep(self, store: ShotStore, shot: int, errors: np.ndarray, weight: float) -> None:
        p = self.problem
        store.converged[shot], store.weight[shot] = True, weight
        for n, (begin, end) in enumerate(zip(p.observable_ptr[:-1], p.observable_ptr[1:], strict=True)):
            store.flips[shot, n] = errors[p.observable_bits[begin:end]].sum() % 2
        if len(store.correction):
            store.correction[shot] = np.packbits(errors.astype(np.uint8), bitorder="little")
