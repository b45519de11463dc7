"""The engine of decoding on a GPU: thousands of shots at a time, iterations captured as CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.decoding.ordered_statistics import OrderedStatistics
from equifactor.errors import OptionError
from equifactor.graph.pointers import ptr_of
from equifactor.torch_device import check_device

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from numpy.typing import NDArray

    from equifactor.clock import Clock
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.problem import DecodingProblem
    from equifactor.decoding.shot_store import ShotStore
    from equifactor.typing import IntArray

_MOST_LANES = 16384
_FEWEST_LANES = 128
_SHARE = 0.5  # of the free memory
_ROUND = 8  # iterations between two looks of the host


@dataclass(eq=False)
class GpuLanes:
    """The state of B shots; rows of B lanes."""

    ratio: torch.Tensor  # [V] what the channel says to all shots, or [V, B]
    before: torch.Tensor  # [V, B] posteriors
    prior: torch.Tensor  # [V, B] what stands for the channel's word
    message: torch.Tensor  # [E, B] from checks to bits
    decided: torch.Tensor  # [V, B] bytes: the errors that the posteriors stand for
    best: torch.Tensor  # [V, B] bytes: the lightest errors found that meet the syndrome
    syndrome: torch.Tensor  # [M, B] bytes
    shot: torch.Tensor  # [B] number of the shot, -1 where there is none
    finished: torch.Tensor  # [B] 1 where there is nothing to do
    leg: torch.Tensor  # [B]
    iteration: torch.Tensor  # [B] of the leg
    total: torch.Tensor  # [B] iterations of the shot
    found: torch.Tensor  # [B] solutions
    keep: torch.Tensor  # [B] 0 in the first iteration of a leg, else 1
    unmet: torch.Tensor  # [B]
    event: torch.Tensor  # [B]
    action: torch.Tensor  # [B]
    weight: torch.Tensor  # [B] whole numbers
    best_weight: torch.Tensor  # [B]

    @property
    def width(self) -> int:
        """B."""
        return len(self.shot)

    def chosen(self, lanes: torch.Tensor) -> GpuLanes:
        """Copies of some lanes, side by side."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return GpuLanes(**{
            name: part if name == "ratio" and part.ndim == 1 else part.index_select(-1, lanes)
            for name, part in parts.items()
        })  # fmt: skip


class GpuEngine:
    """Decodes by belief propagation, up to 16,384 shots at a time; lanes of finished shots take new ones."""

    def __init__(self, problem: DecodingProblem, method: DecodingMethod, device: str) -> None:
        check_device(device)
        import torch

        try:
            import triton  # noqa: F401
        except ImportError:
            raise OptionError("decoding on a GPU needs Triton, which is not installed: pip install triton") from None
        if method.schedule == "serial":
            raise OptionError("the serial schedule is for the CPU: checks wait for each other; use schedule=parallel")
        self.problem, self.method, self.device = problem, method, torch.device(device)
        self.statistics = OrderedStatistics(problem, method) if method.osd != "none" else None
        bit_ptr = ptr_of(np.bincount(problem.bit_of_edge, minlength=problem.num_bits))
        edge_of_bit = np.argsort(problem.bit_of_edge, kind="stable")
        parts = (problem.check_ptr, problem.bit_of_edge, bit_ptr, edge_of_bit)
        self.check_ptr, self.bit_of_edge, self.bit_ptr, self.edge_of_bit = (
            torch.from_numpy(part.astype(np.int32)).to(self.device) for part in parts
        )
        self.gamma = torch.from_numpy(memories(method, problem.num_bits)).to(self.device)
        observables = np.zeros((problem.model.num_observables, problem.num_bits), np.float32)
        for n, (begin, end) in enumerate(zip(problem.observable_ptr[:-1], problem.observable_ptr[1:], strict=True)):
            observables[n, problem.observable_bits[begin:end]] = 1.0
        self.observables = torch.from_numpy(observables).to(self.device)

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Answer all shots of the store, or as many as the clock allows; `report` is told how many are done."""
        import torch

        with torch.cuda.device(self.device):
            lanes = self._lanes(self._width(store.count, store.ratios is not None), store.ratios is not None)
            arrivals = _Arrivals(self, store)
            self.iterate(lanes)  # compiles; the lanes are empty
            run = _Replay(self, lanes)
            while not clock.stopped:
                free = torch.nonzero(lanes.finished).flatten()
                self._take_out(store, lanes, free)
                self._fill(lanes, free, arrivals)
                live = lanes.width - int(lanes.finished.sum())
                report(arrivals.begun - live)
                if live == 0 and arrivals.over:
                    return
                if arrivals.over and 2 * live <= lanes.width > _FEWEST_LANES:
                    width = max(_FEWEST_LANES, 1 << (live - 1).bit_length())
                    lanes = lanes.chosen(torch.argsort(lanes.finished, stable=True)[:width])
                    run = _Replay(self, lanes)
                run()
            store.decoded[lanes.shot[lanes.finished == 0].cpu().numpy()] = False
            store.decoded[arrivals.shots] = False
            store.decoded[arrivals.seen :] = False

    def _width(self, count: int, own_ratios: bool) -> int:
        import torch

        p = self.problem
        per_lane = 4 * len(p.bit_of_edge) + p.num_bits * (14 if own_ratios else 10) + p.num_checks + 64
        room = int(_SHARE * torch.cuda.mem_get_info()[0]) // per_lane
        wanted = min(_MOST_LANES, 1 << max(0, count - 1).bit_length(), 1 << max(0, room.bit_length() - 1))
        return max(_FEWEST_LANES, wanted)

    def _lanes(self, width: int, own_ratios: bool) -> GpuLanes:
        import torch

        p = self.problem

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=self.device)

        rows = {"before": p.num_bits, "prior": p.num_bits, "message": len(p.bit_of_edge)}
        bits = {"decided": p.num_bits, "best": p.num_bits, "syndrome": p.num_checks}
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

    def _fill(self, lanes: GpuLanes, free: torch.Tensor, arrivals: _Arrivals) -> None:
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
            lanes.before[:, lane] = channel
            lanes.prior[:, lane] = channel
            lanes.shot[lane] = moved(shots)
            for counter in (lanes.finished, lanes.leg, lanes.iteration, lanes.total, lanes.found, lanes.unmet):
                counter[lane] = 0
            lanes.keep[lane] = 0.0

    def answer_trivial(self, store: ShotStore, shots: IntArray, likely: NDArray[np.bool_]) -> None:
        """Answer shots that are explained by the errors that the channel's word says are likely."""
        store.converged[shots] = True
        store.weight[shots] = np.minimum(self.problem.ratio, 0.0).sum()
        store.flips[shots] = self.observables.cpu().numpy() @ likely % 2
        if len(store.correction):
            store.correction[shots] = np.packbits(likely, bitorder="little")

    def _take_out(self, store: ShotStore, lanes: GpuLanes, free: torch.Tensor) -> None:
        """Write the answers of the finished lanes that have a shot."""
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
        """One iteration of all lanes."""
        from equifactor.decoding import gpu_kernels as kernels
        from equifactor.decoding.check_rules import LARGEST

        e, p, m = self, self.problem, self.method
        width, legs = s.width, m.legs + 1
        block, rows, shared = _FEWEST_LANES, 64, s.ratio.ndim == 1
        by_lane, tiles = (width // block,), (-(-p.num_bits // rows), width // 64)
        kernels.answer_checks[(p.num_checks, width // block)](
            s.before, s.message, s.keep, s.syndrome, s.iteration, e.check_ptr, e.bit_of_edge, float(m.scale), width,
            IS_SUM=m.rule == "sum-product", LARGEST=float(LARGEST), BLOCK=block,
        )  # fmt: skip
        kernels.add_up_bits[(p.num_bits, width // block)](
            s.before, s.prior, s.message, s.decided, s.ratio, e.gamma, s.leg, s.finished, e.bit_ptr, e.edge_of_bit,
            legs, width, SHARED=shared, BLOCK=block,
        )  # fmt: skip
        kernels.compare_syndromes[(p.num_checks, width // block)](
            s.decided, s.syndrome, s.unmet, e.check_ptr, e.bit_of_edge, width, BLOCK=block
        )
        kernels.count_iteration[by_lane](
            s.unmet, s.finished, s.keep, s.iteration, s.total, s.leg, s.event, s.weight,
            m.iterations, m.leg_iterations, BLOCK=block,
        )  # fmt: skip
        kernels.weigh[tiles](
            s.event, s.decided, s.ratio, s.weight, p.num_bits, width,
            UNIT=kernels.FIXED, SHARED=shared, ROWS=rows, BLOCK=64,
        )  # fmt: skip
        kernels.judge[by_lane](
            s.event, s.weight, s.best_weight, s.found, s.leg, s.iteration, s.keep, s.finished, s.action,
            m.legs, m.solutions, BLOCK=block,
        )  # fmt: skip
        kernels.apply[tiles](
            s.action, s.decided, s.best, s.before, s.prior, s.ratio, e.gamma, s.leg, p.num_bits, legs, width,
            SHARED=shared, CARRIES=m.carry, ROWS=rows, BLOCK=64,
        )  # fmt: skip


class _Arrivals:
    """The shots of a store that still wait for a lane; those that the channel's word alone explains are answered."""

    def __init__(self, engine: GpuEngine, store: ShotStore) -> None:
        self.engine, self.store, self.chunks = engine, store, store.chunks()
        self.seen = 0  # shots before this one have been looked at
        self.over = False
        self._next_chunk()

    @property
    def begun(self) -> int:
        """The shots that do not wait."""
        return self.seen - len(self.shots)

    def take(self, count: int) -> tuple[IntArray, NDArray[np.uint8], NDArray[np.float32]]:
        """Numbers [n], syndromes [n, M] and log ratios ([n, V] or [1, V]) of at most `count` shots, at least one."""
        taken = self.shots[:count], self.syndromes[:count], self.ratio if len(self.ratio) == 1 else self.ratio[:count]
        self.shots, self.syndromes = self.shots[count:], self.syndromes[count:]
        self.ratio = self.ratio if len(self.ratio) == 1 else self.ratio[count:]
        if len(self.shots) == 0:
            self._next_chunk()
        return taken

    def _next_chunk(self) -> None:
        """Read on until a shot waits."""
        p, self.shots = self.engine.problem, np.zeros(0, np.int64)
        while len(self.shots) == 0:
            chunk = next(self.chunks, None)
            if chunk is None:
                self.over = True
                return
            first, packed, self.ratio, _ = chunk
            self.seen = first + len(packed)
            self.shots = np.arange(first, self.seen)
            self.syndromes = np.unpackbits(packed, axis=1, bitorder="little", count=p.num_checks)
            if self.store.ratios is None:
                likely = self.ratio[0] < 0
                parity = np.add.reduceat(likely[p.bit_of_edge].astype(np.uint8), p.check_ptr[:-1]) % 2
                trivial = (self.syndromes == parity).all(axis=1)
                self.engine.answer_trivial(self.store, self.shots[trivial], likely)
                self.shots, self.syndromes = self.shots[~trivial], self.syndromes[~trivial]


class _Replay:
    """Some iterations over lanes, captured once and replayed."""

    def __init__(self, engine: GpuEngine, lanes: GpuLanes) -> None:
        import torch

        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(_ROUND):
                engine.iterate(lanes)

    def __call__(self) -> None:
        self.graph.replay()


def memories(method: DecodingMethod, num_bits: int) -> NDArray[np.float32]:
    """[V, 1 + legs] the memory of every bit in every leg, the same numbers as on the CPU."""
    leg = np.arange(1, method.legs + 1, dtype=np.uint64)
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = np.uint64(method.seed) * golden + (leg << np.uint64(32)) + np.arange(num_bits, dtype=np.uint64)[:, None]
        z = key * golden + golden
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = (z >> np.uint64(11)).astype(np.float64) / 2**53
    drawn = method.low + (method.high - method.low) * uniform
    return np.concatenate([np.full((num_bits, 1), method.memory), drawn], axis=1).astype(np.float32)
