"""Errors that are proven to be the most likely ones: a decoder finds errors, and MAP solvers prove or improve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.status import Status, Task
from equifactor.decoding.lane_engine import LaneEngine
from equifactor.generators.ldpc import LdpcCode
from equifactor.graph.factor_graph import FactorGraph
from equifactor.kernels.pointers import row_of
from equifactor.solving.registry import parse_solver
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray
    from equifactor.decoding.methods import OptimalDecoding
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore
    from equifactor.solving.estimate import Estimate

# The shares of the time for a shot with which the solver runs, one after the other. The solver does not know that
# weights come in steps, so that its bound may be a proof long before it stops. Chosen by hand.
_STAGES = (0.05, 0.2, 1.0)
_BLOCK = 64  # The number of shots that are decoded first and then proven. Chosen by hand.
_SAME = 1e-6  # Weights that differ by less than this share are equal, as log ratios are rounded to single precision.
_BELOW_STEP = 1.0 - 1e-6  # A gap below this share of a step is smaller than a step even after rounding.


class OptimalEngine:
    """An engine that decodes by pooled and ordered statistics, and then proves or improves each shot by a MAP solver.

    A shot is a model with one factor for each bit and one parity for each check. Its MAP assignment is the likeliest
    set of merged errors, not the likeliest value of an observable. If all errors are equally likely, a bound that
    excludes a smaller number of errors is a proof.
    """

    def __init__(self, problem: DecodingProblem, method: OptimalDecoding) -> None:
        self.problem, self.method = problem, method
        self.first = LaneEngine(problem, method)
        self.solver = parse_solver(method.solver)
        self.solver.check_task(Task.MAP)
        bit, check = problem.bit_of_edge, row_of(problem.check_ptr)
        by_bit = np.argsort(bit, kind="stable")
        self.structure = LdpcCode.of_edges(bit[by_bit], check[by_bit], problem.num_bits).structure
        self.step = self._step(problem.ratio)
        self.is_prepared = False

    def _step(self, ratio: NDArray[np.floating]) -> float:
        """Return the smallest difference between the weights of two sets of errors that explain one shot.

        The result is 0 unless the log ratios [V] of all bits have the same size. If every bit is in an odd number of
        checks, the syndrome determines whether the number of errors is even, which doubles the difference.
        """
        size = np.abs(ratio)
        if not len(size) or size[0] == 0.0 or not np.allclose(size, size[0], rtol=1e-9, atol=0.0):
            return 0.0
        return float(2.0 * size[0] if (self.problem.degrees % 2 == 1).all() else size[0])

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled kernels of the first decoder and of the MAP solver, by solving a shot of one error."""
        self.first.prepare(store)
        if not self.is_prepared and self.problem.num_bits and self.method.seconds > 0.0:
            check = row_of(self.problem.check_ptr)[self.problem.bit_of_edge == 0]
            syndrome = np.isin(np.arange(self.problem.num_checks), check)
            self._solve(syndrome, self.problem.ratio, Clock(_STAGES[0], whole=Clock()))
        self.is_prepared = True

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store; `proven` marks the shots for which no likelier errors exist.

        When the clock stops, the shots that have begun keep the errors of the first decoder, which are not proven.
        """
        store.proven = np.zeros(store.count, bool)
        for first in range(0, store.count, _BLOCK):
            if clock.stopped:
                store.decoded[first:] = False
                return
            part = store.part(first, min(first + _BLOCK, store.count))
            self.first.decode(part, clock, lambda done: None)
            self._prove(part, clock, lambda done, first=first: report(first + done))  # type: ignore[misc]
            if not part.decoded.all():
                store.decoded[first + part.count :] = False
                return

    def _prove(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Prove or improve the errors that the first decoder has found."""
        assert store.proven is not None
        # The channel alone explains these shots: every other set of errors is heavier.
        store.proven[:] = store.converged & (store.iterations == 0) & store.decoded
        for first, packed, ratio, _ in store.chunks():
            bits = np.unpackbits(packed, axis=1, bitorder="little", count=self.problem.num_checks).astype(bool)
            self._prove_by_covering(store, first, bits)
            for n in range(len(bits)):
                if clock.stopped:
                    return
                if store.decoded[first + n] and store.explicable[first + n] and not store.proven[first + n]:
                    self._improve(store, first + n, bits[n], ratio[min(n, len(ratio) - 1)], clock)
                report(first + n + 1)

    def _prove_by_covering(self, store: ShotStore, first: int, syndromes: BoolArray) -> None:
        """Mark shots whose errors reach a lower bound on the weight of all sets of errors that touch every fired check.

        Every fired check contains an error. Let each error divide its weight equally among its fired checks. Then a
        fired check gets at least the smallest share that any of its bits would give. The bound is the sum of these
        smallest shares.
        """
        p = self.problem
        if store.ratios is not None or p.ratio.min(initial=np.inf) <= 0.0 or not p.num_bits:
            return
        assert store.proven is not None
        by_bit = np.argsort(p.bit_of_edge, kind="stable")
        begins = np.searchsorted(p.bit_of_edge[by_bit], np.arange(p.num_bits))
        check = row_of(p.check_ptr)
        seen = np.add.reduceat(syndromes[:, check[by_bit]], begins, axis=1, dtype=np.int64)
        share = p.ratio / np.maximum(seen, 1)
        least = np.minimum.reduceat(share[:, p.bit_of_edge], p.check_ptr[:-1], axis=1)
        shots = slice(first, first + len(syndromes))
        weight = store.weight[shots]
        room = np.maximum(self.step * _BELOW_STEP, _SAME * np.maximum(1.0, weight))
        store.proven[shots] |= store.converged[shots] & (weight - (least * syndromes).sum(axis=1) < room)

    def _improve(
        self, store: ShotStore, shot: int, syndrome: BoolArray, ratio: NDArray[np.float32], clock: Clock
    ) -> None:
        """Prove the errors found for a shot, or find likelier ones, until the time for the shot is over."""
        assert store.proven is not None
        own = ratio.astype(float)
        least = np.minimum(own, 0.0).sum()  # The weight of the likelier value of every bit, which scores 0.
        step = self.step if store.ratios is None else self._step(own)
        for share in _STAGES:
            result, score = self._solve(syndrome, own, Clock(share * self.method.seconds, whole=clock))
            known = store.weight[shot] - least if store.converged[shot] else np.inf
            slack = _SAME * max(1.0, known)
            found = -score
            if found < known - slack:
                known = found
                self._keep(store, shot, np.asarray(result.assignment), least + found)
            bound = -np.inf if result.upper_bound is None else -result.upper_bound  # A lower bound on the weight.
            is_best = result.status in (Status.EXACT, Status.OPTIMAL) or known - bound < max(slack, step * _BELOW_STEP)
            store.proven[shot] = np.isfinite(known) and is_best
            if store.proven[shot] or clock.stopped:
                return

    def _solve(self, syndrome: BoolArray, ratio: NDArray[np.floating], clock: Clock) -> tuple[Estimate, float]:
        """Return the likeliest bits that meet a syndrome, and their score; the likelier value of every bit scores 0.

        The clock is a part of the clock for all shots. If that one has no deadline, compiling does not count: the
        first run proves the same shots as the next one.
        """
        bits = np.stack((np.minimum(ratio, 0.0), np.minimum(-ratio, 0.0)), axis=1)
        checks = np.where(syndrome[:, None], [-np.inf, 0.0], [0.0, -np.inf])
        graph = FactorGraph.trusted(self.structure, np.concatenate((bits.ravel(), checks.ravel())))
        context = SolveContext(clock=clock, seed=self.method.seed)
        (found,) = estimates_of(self.solver, [graph], Task.MAP, context)
        return found, -np.inf if found.assignment is None else float(graph.log_score(found.assignment))

    def _keep(self, store: ShotStore, shot: int, errors: np.ndarray, weight: float) -> None:
        p = self.problem
        before, less = store.flips[shot].copy(), store.weight[shot] - weight
        was_found = store.converged[shot]
        store.converged[shot], store.weight[shot] = True, weight
        for n, (begin, end) in enumerate(zip(p.observable_ptr[:-1], p.observable_ptr[1:], strict=True)):
            store.flips[shot, n] = errors[p.observable_bits[begin:end]].sum() % 2
        if was_found and len(store.gap):  # The errors of the first decoder may be those with other flips.
            store.gap[shot] = less + (store.gap[shot] if (before == store.flips[shot]).all() else 0.0)
        if len(store.correction):
            store.correction[shot] = np.packbits(errors.astype(np.uint8), bitorder="little")
