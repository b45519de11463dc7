"""The engine for decoding on a GPU: thousands of shots at a time, with iterations captured as CUDA graphs."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.torch_device import check_device
from equifactor.decoding.gpu_lanes import Arrivals, GpuLanes, draws, memories
from equifactor.decoding.lane_engine import tilts
from equifactor.decoding.ordered_statistics import OrderedStatistics
from equifactor.decoding.shot_store import no_time_to_finish
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore

_MOST_LANES = 16384  # The largest number of lanes. Chosen by hand.
_FEWEST_LANES = 128  # The smallest number of lanes, and the number of lanes of one program of a kernel. Chosen by hand.
_TILE_LANES = 64  # The number of lanes of a tile of kernels that work on many bits at once. Chosen by hand.
_TILE_BITS = 64  # The number of bits of a tile of kernels that work on many bits at once. Chosen by hand.
_MEMORY_SHARE = 0.5  # The share of the free memory of the GPU that the lanes may take. Chosen by hand.
_ROUND = 8  # The number of iterations between two checks of the host for finished shots. Chosen by hand.


class GpuEngine:
    """An engine that decodes up to 16,384 shots at a time by belief propagation."""

    def __init__(self, problem: DecodingProblem, method: DecodingMethod, device: str) -> None:
        check_device(device, "decoding on a GPU")
        import torch

        if importlib.util.find_spec("triton") is None:
            raise OptionError("Decoding on a GPU needs Triton, which is not installed: pip install triton.")
        if method.schedule == "serial":
            raise OptionError("The serial schedule runs on the CPU only. Use schedule=parallel on a GPU.")
        self.problem, self.method, self.device = problem, method, torch.device(device)
        self.statistics = OrderedStatistics(problem, method) if method.osd != "none" else None
        bit_ptr = ptr_of(np.bincount(problem.bit_of_edge, minlength=problem.num_bits))
        edge_of_bit = np.argsort(problem.bit_of_edge, kind="stable")
        check_of_bit = row_of(problem.check_ptr)[edge_of_bit]
        parts = (problem.check_ptr, problem.bit_of_edge, bit_ptr, edge_of_bit, check_of_bit)
        self.check_ptr, self.bit_of_edge, self.bit_ptr, self.edge_of_bit, self.check_of_bit = (
            torch.from_numpy(part.astype(np.int32)).to(self.device) for part in parts
        )
        self.tilt = torch.from_numpy(tilts(problem.num_bits)).to(self.device)
        self.most = int(np.diff(bit_ptr).max(initial=0))
        self.weights = torch.from_numpy(method.weights_of_networks()).to(self.device)
        self.is_learned = len(self.weights) > 0
        if self.is_learned:
            drawn = np.concatenate(
                [np.zeros((problem.num_bits, 1)), 2.0 * draws(method, problem.num_bits) - 1.0], axis=1
            )
            self.table = torch.from_numpy(drawn.astype(np.float32)).to(self.device)
        else:
            self.table = torch.from_numpy(memories(method, problem.num_bits)).to(self.device)
        observables = np.zeros((problem.model.num_observables, problem.num_bits), np.float32)
        for n, (begin, end) in enumerate(zip(problem.observable_ptr[:-1], problem.observable_ptr[1:], strict=True)):
            observables[n, problem.observable_bits[begin:end]] = 1.0
        self.observables = torch.from_numpy(observables).to(self.device)

    def use_networks(self, weights: NDArray[np.float32]) -> None:
        """Set the networks [P, H+1, F+2] that choose memories; network n % P serves shot n."""
        import torch

        self.weights = torch.from_numpy(weights).to(self.device)

    def prepare(self, store: ShotStore) -> None:
        """Compile the kernels by running one iteration of empty lanes."""
        import torch

        with torch.cuda.device(self.device):
            self.iterate(self.lanes(_FEWEST_LANES, store.ratios is not None))
            torch.cuda.synchronize()
        if self.statistics is not None:
            self.statistics.prepare(store)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`."""
        import torch

        with torch.cuda.device(self.device):
            lanes = self.lanes(self._width(store.count, store.ratios is not None), store.ratios is not None)
            arrivals = Arrivals(self, store)
            run = CapturedIterations(self, lanes)
            while True:
                if not arrivals.over and clock.stopped:
                    arrivals.stop()
                free = torch.nonzero(lanes.finished).flatten()
                self._take_out(store, lanes, free)
                self._fill(lanes, free, arrivals)
                live = lanes.width - int(lanes.finished.sum())
                report(arrivals.begun - live)
                if live == 0 and arrivals.over:
                    return
                if arrivals.over and no_time_to_finish(clock):
                    store.abandon(lanes.shot[lanes.finished == 0].cpu().numpy())
                    return
                if arrivals.over and 2 * live <= lanes.width > _FEWEST_LANES:
                    width = max(_FEWEST_LANES, 1 << (live - 1).bit_length())
                    lanes = lanes.chosen(torch.argsort(lanes.finished, stable=True)[:width])
                    run = CapturedIterations(self, lanes)
                run()

    def _width(self, count: int, own_ratios: bool) -> int:
        """Return the number of lanes for `count` shots: a power of 2 that fits into the memory of the GPU."""
        import torch

        p = self.problem
        own = 4 * own_ratios + 4 * self.is_learned
        per_lane = 4 * len(p.bit_of_edge) + p.num_bits * (10 + own) + 2 * p.num_checks + 64
        room = int(_MEMORY_SHARE * torch.cuda.mem_get_info()[0]) // per_lane
        wanted = min(_MOST_LANES, 1 << max(0, count - 1).bit_length(), 1 << max(0, room.bit_length() - 1))
        return max(_FEWEST_LANES, wanted)

    def lanes(self, width: int, own_ratios: bool) -> GpuLanes:
        """Return empty lanes; with `own_ratios` every shot has its own channel log ratios."""
        import torch

        p = self.problem

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=self.device)

        rows = {"before": p.num_bits, "prior": p.num_bits, "message": len(p.bit_of_edge)}
        rows["gamma"] = p.num_bits if self.is_learned else 0
        bits = {"decided": p.num_bits, "best": p.num_bits, "syndrome": p.num_checks, "odd": p.num_checks}
        counters = ("leg", "iteration", "total", "found", "unmet", "event", "action")
        common = torch.from_numpy(p.ratio.astype(np.float32)).to(self.device)
        return GpuLanes(
            ratio=zeros(p.num_bits, width, dtype=torch.float32) if own_ratios else common,
            shot=zeros(width, dtype=torch.int64) - 1,
            finished=zeros(width) + 1,
            keep=zeros(width, dtype=torch.float32),
            weight=zeros(width, dtype=torch.int64),
            best_weight=zeros(width, dtype=torch.int64),
            **{name: zeros(count, width, dtype=torch.float32) for name, count in rows.items()},
            **{name: zeros(count, width, dtype=torch.int8) for name, count in bits.items()},
            **{name: zeros(width) for name in counters},
        )

    def _fill(self, lanes: GpuLanes, free: torch.Tensor, arrivals: Arrivals) -> None:
        """Put the next shots into free lanes."""
        import torch

        def moved(array: NDArray[Any]) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        begin = 0
        while begin < len(free) and not arrivals.over:
            shots, syndromes, ratio = arrivals.take(len(free) - begin)
            lane = free[begin : begin + len(shots)]
            begin += len(shots)
            lanes.syndrome[:, lane] = moved(syndromes.T.astype(np.int8))
            if lanes.ratio.ndim == 2:
                lanes.ratio[:, lane] = moved(ratio.T)
            channel = lanes.ratio[:, lane] if lanes.ratio.ndim == 2 else lanes.ratio[:, None].expand(-1, len(shots))
            lanes.before[:, lane] = channel * self.tilt[:, None]
            lanes.prior[:, lane] = channel
            lanes.gamma[:, lane] = float(self.method.memory)
            lanes.shot[lane] = moved(shots)
            for counter in (lanes.finished, lanes.leg, lanes.iteration, lanes.total, lanes.found, lanes.unmet):
                counter[lane] = 0
            lanes.keep[lane] = 0.0

    def answer_trivial(self, store: ShotStore, shots: IntArray, likely: NDArray[np.bool_]) -> None:
        """Answer shots that the errors with negative channel log ratios explain."""
        store.converged[shots] = True
        store.weight[shots] = np.minimum(self.problem.ratio, 0.0).sum()
        store.flips[shots] = self.observables.cpu().numpy() @ likely % 2
        if len(store.correction):
            store.correction[shots] = np.packbits(likely, bitorder="little")

    def _take_out(self, store: ShotStore, lanes: GpuLanes, free: torch.Tensor) -> None:
        """Write the answers of the finished lanes that hold a shot."""
        from equifactor.decoding.gpu_kernels import FIXED

        free = free[lanes.shot[free] >= 0]
        if len(free) == 0:
            return
        shots = lanes.shot[free].cpu().numpy()
        lanes.shot[free] = -1
        best = lanes.best[:, free]
        store.converged[shots] = (lanes.found[free] > 0).cpu().numpy()
        store.iterations[shots] = lanes.total[free].cpu().numpy()
        store.weight[shots] = lanes.best_weight[free].cpu().numpy() / FIXED
        store.flips[shots] = (self.observables @ best.float()).remainder(2.0).T.cpu().numpy()
        if len(store.correction):
            store.correction[shots] = np.packbits(best.T.cpu().numpy().astype(np.uint8), axis=1, bitorder="little")
        if self.statistics is not None:
            failed = free[lanes.found[free] == 0]
            if len(failed):
                which = shots[~store.converged[shots]]
                posterior = np.ascontiguousarray(lanes.before[:, failed].T.cpu().numpy())
                syndrome = np.ascontiguousarray(lanes.syndrome[:, failed].T.cpu().numpy().astype(np.uint8))
                self.statistics.decode(store, which, posterior, syndrome)

    def iterate(self, s: GpuLanes) -> None:
        """Make one iteration of all lanes."""
        from equifactor.decoding import gpu_kernels as kernels
        from equifactor.decoding.check_rules import LARGEST
        from equifactor.decoding.learned_memory import HIGH, LOW, SLOPE, SOFT

        e, p, m = self, self.problem, self.method
        width, legs = s.width, m.legs + 1
        block, rows, shared, own = _FEWEST_LANES, _TILE_BITS, s.ratio.ndim == 1, e.is_learned
        by_lane, tiles = (width // block,), (-(-p.num_bits // rows), width // _TILE_LANES)
        kernels.answer_checks[(p.num_checks, width // block)](
            s.before, s.message, s.keep, s.syndrome, s.iteration, e.check_ptr, e.bit_of_edge, float(m.scale), width,
            IS_SUM=m.rule == "sum-product", LARGEST=float(LARGEST), BLOCK=block,
        )  # fmt: skip
        kernels.add_up_bits[(p.num_bits, width // block)](
            s.before, s.prior, s.message, s.decided, s.ratio, s.gamma if own else e.table, s.leg, s.finished,
            e.bit_ptr, e.edge_of_bit, legs, width, SHARED=shared, OWN=own, BLOCK=block,
        )  # fmt: skip
        kernels.compare_syndromes[(p.num_checks, width // block)](
            s.decided, s.syndrome, s.odd, s.unmet, e.check_ptr, e.bit_of_edge, width, BLOCK=block
        )
        kernels.count_iteration[by_lane](
            s.unmet, s.finished, s.keep, s.iteration, s.total, s.leg, s.event, s.weight,
            m.iterations, m.leg_iterations, BLOCK=block,
        )  # fmt: skip
        kernels.weigh[tiles](
            s.event, s.decided, s.ratio, s.weight, p.num_bits, width,
            UNIT=kernels.FIXED, SHARED=shared, ROWS=rows, BLOCK=_TILE_LANES,
        )  # fmt: skip
        kernels.judge[by_lane](
            s.event, s.weight, s.best_weight, s.found, s.leg, s.iteration, s.keep, s.finished, s.action,
            m.legs, m.solutions, RESTART=m.restart, TRUST_FIRST=m.trust_first, BLOCK=block,
        )  # fmt: skip
        kernels.apply[tiles](
            s.action, s.decided, s.best, s.before, s.prior, s.ratio, e.tilt, s.gamma if own else e.table, e.table,
            s.leg, s.shot, s.odd, e.bit_ptr, e.check_of_bit, e.weights, len(e.weights), p.num_bits, legs,
            width, e.weights.shape[1] - 1, e.most,
            SHARED=shared, OWN=own, ROWS=rows, BLOCK=_TILE_LANES,
            SOFT=SOFT, SLOPE=SLOPE, LOW=LOW, HIGH=HIGH, WIDE=e.weights.shape[2],
        )  # fmt: skip


class CapturedIterations:
    """`_ROUND` iterations of all lanes, captured once and replayed."""

    iterations = _ROUND

    def __init__(self, engine: GpuEngine, lanes: GpuLanes) -> None:
        import torch

        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(_ROUND):
                engine.iterate(lanes)

    def __call__(self) -> None:
        """Replay the iterations."""
        self.graph.replay()
