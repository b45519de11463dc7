"""The engine for decoding on a GPU: thousands of shots at a time, with iterations captured as CUDA graphs."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from types import SimpleNamespace
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
    from contextlib import AbstractContextManager

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
_WORD = 32  # The number of signs in a word.
_WARPS = 1  # The number of warps of a program: a thread has four lanes side by side. With 4, 0.6 times the iterations.
_COMPARED = 512  # The number of lanes of a program that compares syndromes. With 128, 0.88 times the iterations.
_BITS = 4  # The number of bits that a program adds up. With 1, 0.94 times the iterations.
_UNROLL = 4  # The number of edges whose posteriors are requested together. With 1, 0.96 times the iterations.
_ROUND = 8  # The number of iterations between two checks of the host for finished shots. Chosen by hand.
_FEW_LANES = 1024  # Up to this number of lanes, a check of the host takes longer than a round. Chosen by hand.
_LAST_ROUNDS = 8  # The number of rounds between two checks if few lanes are left. Chosen by hand.


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
        self.is_sum = method.rule == "sum-product"
        bit_ptr = ptr_of(np.bincount(problem.bit_of_edge, minlength=problem.num_bits))
        edge_of_bit = np.argsort(problem.bit_of_edge, kind="stable")
        check_of_bit = row_of(problem.check_ptr)[edge_of_bit]
        arities = np.diff(problem.check_ptr)
        word_ptr = ptr_of(-(-arities // _WORD))  # The rows of signs of each check.
        slot = edge_of_bit - problem.check_ptr[check_of_bit]
        parts = {
            "check_ptr": problem.check_ptr, "bit_of_edge": problem.bit_of_edge, "bit_ptr": bit_ptr,
            "edge_of_bit": edge_of_bit, "check_of_bit": check_of_bit, "word_ptr": word_ptr, "slot_of_bit": slot,
            "word_of_bit": word_ptr[check_of_bit] + slot // _WORD,
        }  # fmt: skip
        self.at = SimpleNamespace(
            **{name: torch.from_numpy(part.astype(np.int32)).to(self.device) for name, part in parts.items()}
        )
        self.num_words, self.widest = int(word_ptr[-1]), int(arities.max(initial=0))
        self.ratio = torch.from_numpy(problem.ratio.astype(np.float32)).to(self.device)
        self.tilt = torch.from_numpy(tilts(problem.num_bits)).to(self.device)
        self.start = self.ratio * self.tilt
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
        self.observables, self.observables_here = torch.from_numpy(observables).to(self.device), observables

    def use_networks(self, weights: NDArray[np.float32]) -> None:
        """Set the networks [P, H+1, F+2] that choose memories; network n % P serves shot n."""
        import torch

        self.weights = torch.from_numpy(weights).to(self.device)

    def prepare(self, store: ShotStore) -> None:
        """Compile the kernels by running one iteration of empty lanes."""
        with self._chosen():
            self.iterate(self.lanes(_FEWEST_LANES, store.ratios is not None))
        if self.statistics is not None:
            self.statistics.prepare(store)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Decode the shots of the store, by the rules of `DecodingEngine`."""
        import torch

        with self._chosen(), Arrivals(self, store) as arrivals:
            lanes = self.lanes(self._width(store.count, store.ratios is not None), store.ratios is not None)
            run = CapturedIterations(self, lanes)
            while True:
                if not arrivals.over and clock.stopped:
                    arrivals.stop()
                free = torch.nonzero(lanes.finished).flatten()
                self._take_out(store, lanes, free)
                live = lanes.width - len(free) + self._fill(lanes, free, arrivals)
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
                for _ in range(_LAST_ROUNDS if arrivals.over and lanes.width <= _FEW_LANES else 1):
                    run()

    def _chosen(self) -> AbstractContextManager[object]:
        """Return a context in which torch uses the GPU; tests run the kernels on a CPU, in Triton's interpreter."""
        import torch

        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _width(self, count: int, own_ratios: bool) -> int:
        """Return the number of lanes for `count` shots: a power of 2 that fits into the memory of the GPU."""
        import torch

        p = self.problem
        own = 4 * own_ratios + 4 * self.is_learned
        answers = 4 * len(p.bit_of_edge) if self.is_sum else 12 * p.num_checks + 4 * self.num_words
        per_lane = answers + p.num_bits * (6 + own) + 2 * p.num_checks + 64
        room = int(_MEMORY_SHARE * torch.cuda.mem_get_info()[0]) // per_lane if self.device.type == "cuda" else 1
        wanted = min(_MOST_LANES, 1 << max(0, count - 1).bit_length(), 1 << max(0, room.bit_length() - 1))
        return max(_FEWEST_LANES, wanted)

    def lanes(self, width: int, own_ratios: bool) -> GpuLanes:
        """Return empty lanes; with `own_ratios` every shot has its own channel log ratios."""
        import torch

        p = self.problem

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=self.device)

        rows = {"before": p.num_bits, "value": 0 if self.is_sum else 2 * p.num_checks}
        rows["message"] = len(p.bit_of_edge) if self.is_sum else 0
        rows["gamma"] = p.num_bits if self.is_learned else 0
        bits = {"decided": p.num_bits, "best": p.num_bits, "syndrome": p.num_checks}
        bits["odd"] = p.num_checks if self.is_learned else 0
        counters = ("leg", "iteration", "total", "found", "unmet", "event", "action", "begins")
        places = next(t for t in (torch.int8, torch.int16, torch.int32) if self.widest <= torch.iinfo(t).max)
        return GpuLanes(
            ratio=zeros(p.num_bits, width, dtype=torch.float32) if own_ratios else self.ratio,
            sign=zeros(0 if self.is_sum else self.num_words, width),
            place=zeros(0 if self.is_sum else p.num_checks, width, dtype=places),
            shot=zeros(width, dtype=torch.int64) - 1,
            finished=zeros(width) + 1,
            weight=zeros(width, dtype=torch.int64),
            best_weight=zeros(width, dtype=torch.int64),
            **{name: zeros(count, width, dtype=torch.float32) for name, count in rows.items()},
            **{name: zeros(count, width, dtype=torch.int8) for name, count in bits.items()},
            **{name: zeros(width) for name in counters},
        )

    def _fill(self, lanes: GpuLanes, free: torch.Tensor, arrivals: Arrivals) -> int:
        """Put the next shots into free lanes, and return their number."""
        import torch

        from equifactor.decoding import gpu_kernels as kernels

        def moved(array: NDArray[Any]) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        begin = 0
        while begin < len(free) and not arrivals.over:
            shots, syndromes, ratio = arrivals.take(len(free) - begin)
            lane = free[begin : begin + len(shots)]
            begin += len(shots)
            lanes.syndrome[:, lane] = moved(syndromes.view(np.int8)).T
            if lanes.ratio.ndim == 2:
                lanes.ratio[:, lane] = moved(ratio.T)
            lanes.gamma[:, lane] = float(self.method.memory)
            lanes.shot[lane] = moved(shots)
            for counter in (lanes.finished, lanes.leg, lanes.iteration, lanes.total, lanes.found, lanes.unmet):
                counter[lane] = 0
            lanes.begins[lane] = kernels.ARRIVED.value
        return begin

    def answer_trivial(self, store: ShotStore, shots: IntArray, likely: NDArray[np.bool_]) -> None:
        """Answer shots that the errors with negative channel log ratios explain; runs while a graph is captured."""
        store.converged[shots] = True
        store.weight[shots] = np.minimum(self.problem.ratio, 0.0).sum()
        store.flips[shots] = self.observables_here @ likely % 2
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

        at, p, m = self.at, self.problem, self.method
        width, legs = s.width, m.legs + 1
        block, rows, shared, own = _FEWEST_LANES, _TILE_BITS, s.ratio.ndim == 1, self.is_learned
        by_lane, tiles = (width // block,), (-(-p.num_bits // rows), width // _TILE_LANES)
        if self.is_sum:
            kernels.answer_checks_exactly[(p.num_checks, width // block)](
                s.before, s.message, s.begins, s.syndrome, s.ratio, self.start, self.tilt, at.check_ptr,
                at.bit_of_edge, width, SHARED=shared, BLOCK=block,
            )  # fmt: skip
        else:
            kernels.answer_checks[(p.num_checks, width // block)](
                s.before, s.value, s.sign, s.place, s.begins, s.syndrome, s.iteration, s.ratio, self.start, self.tilt,
                at.check_ptr, at.word_ptr, at.bit_of_edge, float(m.scale), width,
                SHARED=shared, LARGEST=float(LARGEST), UNROLL=_UNROLL, BLOCK=block, num_warps=_WARPS,
            )  # fmt: skip
        together = _BITS if width > _FEW_LANES else 1
        kernels.add_up_bits[(-(-p.num_bits // together), width // block)](
            s.before, s.message, s.value, s.sign, s.place, s.decided, s.ratio, s.gamma if own else self.table, s.leg,
            s.begins, s.finished, at.bit_ptr, at.edge_of_bit, at.check_of_bit, at.slot_of_bit, at.word_of_bit,
            p.num_bits, legs, width,
            IS_SUM=self.is_sum, SHARED=shared, OWN=own, ROWS=together, BLOCK=block, num_warps=_WARPS,
        )  # fmt: skip
        wide = min(width, _COMPARED)
        kernels.compare_syndromes[(p.num_checks, width // wide)](
            s.decided, s.syndrome, s.odd, s.unmet, at.check_ptr, at.bit_of_edge, width,
            OWN=own, BLOCK=wide, num_warps=_WARPS,
        )  # fmt: skip
        kernels.count_iteration[by_lane](
            s.unmet, s.finished, s.begins, s.iteration, s.total, s.leg, s.event, s.weight,
            m.iterations, m.leg_iterations, BLOCK=block,
        )  # fmt: skip
        kernels.weigh[tiles](
            s.event, s.decided, s.ratio, s.weight, p.num_bits, width,
            UNIT=kernels.FIXED, SHARED=shared, ROWS=rows, BLOCK=_TILE_LANES,
        )  # fmt: skip
        kernels.judge[by_lane](
            s.event, s.weight, s.best_weight, s.found, s.leg, s.iteration, s.begins, s.finished, s.action,
            m.legs, m.solutions, RESTART=m.restart, TRUST_FIRST=m.trust_first, BLOCK=block,
        )  # fmt: skip
        kernels.keep_best[tiles](
            s.action, s.decided, s.best, s.before, s.ratio, s.gamma, self.table, s.leg, s.shot, s.odd, at.bit_ptr,
            at.check_of_bit, self.weights, len(self.weights), p.num_bits, legs, width, self.weights.shape[1] - 1,
            self.most, SHARED=shared, OWN=own, ROWS=rows, BLOCK=_TILE_LANES,
            SOFT=SOFT, SLOPE=SLOPE, LOW=LOW, HIGH=HIGH, WIDE=self.weights.shape[2],
        )  # fmt: skip


class CapturedIterations:
    """`_ROUND` iterations of all lanes, on a GPU captured once and replayed."""

    iterations = _ROUND

    def __init__(self, engine: GpuEngine, lanes: GpuLanes) -> None:
        import torch

        self.engine, self.lanes, self.graph = engine, lanes, None
        if engine.device.type == "cuda":
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._iterate()

    def __call__(self) -> None:
        """Make the iterations."""
        if self.graph is not None:
            self.graph.replay()
        else:
            self._iterate()

    def _iterate(self) -> None:
        for _ in range(_ROUND):
            self.engine.iterate(self.lanes)
