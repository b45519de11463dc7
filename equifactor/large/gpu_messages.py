"""Messages of a large model in the memory of a GPU. Torch without Triton does the same with more memory traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from equifactor.base.errors import SolveError
from equifactor.base.sources import gibibytes
from equifactor.base.torch_device import may_fuse
from equifactor.large.message_scale import OBSERVED, MessageScale

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.large.exchange import Exchange
    from equifactor.large.large_files import EdgeArrays

_FUSED_EDGES = 2**28  # Edges between two looks at the clock: about 0.1 s on an H200.
_TORCH_EDGES = 2**24  # The same without Triton, which needs about 100 bytes of other memory for each of them.
_VARIABLES = 2**24  # Variables that are updated together, with about 60 bytes of other memory for each.
_BLOCK = 1024  # Edges of one program of the kernel. 256 to 2,048 differ by less than 5 %.
_SAMPLED = 2**20  # The first edges, which show whether edges are sorted by their first ends.
_RUNS = 0.5  # The share of edges with the first end of the edge before, from which such edges are joined. By hand.


class GpuMessages:
    """The messages of the edges of this process, and the log odds of all variables; as `CpuMessages`."""

    def __init__(
        self, edges: EdgeArrays, priors: IntArray, scale: MessageScale, keep: int, exchange: Exchange, device: str
    ) -> None:
        self.edges, self.scale, self.keep, self.exchange = edges, scale, keep, exchange
        self.device = torch.device(device)
        self.fused = may_fuse(self.device)
        kind = torch.int16 if scale.bits == 16 else torch.int32
        self._check_memory(len(priors), edges.num_edges * (8 + scale.bits // 4 + bool(len(edges.table))))
        self.first, self.second, self.table = (self._placed(a) for a in (edges.first, edges.second, edges.table))
        if edges.step == 2:
            self.second = self.first[1:]
        self.messages = torch.zeros((2, edges.num_edges), dtype=kind, device=self.device)
        self.priors = self._placed(priors)
        self.known = self.priors.abs() == OBSERVED
        self.x = self.priors.clamp(-scale.bound, scale.bound)
        self.sums = torch.zeros(len(priors), dtype=torch.int64, device=self.device)
        # As on a CPU, products of whole numbers and quanta are rounded from 64 bits.
        self.log_odds = (self.priors.double() * scale.quantum).float()
        self.log_odds[self.known] = torch.copysign(torch.tensor(torch.inf), self.log_odds[self.known])
        self.lookup = self._placed(scale.lookup).reshape(-1)
        sample = self.first[: edges.step * _SAMPLED : edges.step]
        self.joined = bool((sample[1:] == sample[:-1]).float().mean() > _RUNS) if len(sample) > 1 else False
        self._update_edges(0, 0)  # Triton compiles the kernel.

    def _placed(self, array: Any) -> torch.Tensor:
        """Return an array as a tensor on the device, copied in pieces."""
        if isinstance(array, torch.Tensor):
            return array.to(self.device)
        placed = torch.empty(array.shape, dtype=getattr(torch, array.dtype.name), device=self.device)
        for start in range(0, len(array), _FUSED_EDGES):
            placed[start : start + _FUSED_EDGES] = torch.from_numpy(np.array(array[start : start + _FUSED_EDGES]))
        return placed

    def _check_memory(self, num_vars: int, edge_bytes: int) -> None:
        """Raise `SolveError` if the model does not fit on the GPU."""
        if self.device.type != "cuda":
            return
        if isinstance(self.edges.first, torch.Tensor):
            edge_bytes -= 8 * self.edges.num_edges
        required = edge_bytes + 24 * num_vars + 60 * min(num_vars, _VARIABLES)
        free = torch.cuda.mem_get_info(self.device)[0]
        if required > free:
            raise SolveError(
                f"This model needs {gibibytes(required)} of the memory of the GPU, and {gibibytes(free)} are free. Use "
                "several GPUs with torchrun, or device='cpu'."
            )

    def iterate(self, report: Callable[[int], object], stopped: Callable[[], bool]) -> float | None:
        """Update all messages once; return the largest change of a probability, or None if it was stopped before."""
        count, piece = self.edges.num_edges, _FUSED_EDGES if self.fused else _TORCH_EDGES
        for start in range(0, count, piece):
            if stopped():
                return None
            self._update_edges(start, min(start + piece, count))
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            report(min(start + piece, count))
        self.exchange.add_up(self.sums)
        change = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, len(self.x), _VARIABLES):
            change = torch.maximum(change, self._update_variables(slice(start, start + _VARIABLES)))
        return float(change)

    def _update_edges(self, start: int, stop: int) -> None:
        if self.fused:
            import triton  # type: ignore[import-not-found, unused-ignore]

            from equifactor.large.large_gpu_kernels import update_edges

            update_edges[(max(1, triton.cdiv(stop - start, _BLOCK)),)](
                self.first, self.second, self.table, self.messages[0], self.messages[1], self.x, self.sums, self.lookup,
                start, stop, self.scale.shift, self.scale.half, self.keep, SIZE=self.scale.lookup.shape[-1],
                STEP=self.edges.step, MANY=len(self.table) > 0, DAMPED=self.keep > 0, JOINED=self.joined,
                B=_BLOCK,
            )  # fmt: skip
            return
        if start == stop:
            return
        ends = slice(start * self.edges.step, (stop - 1) * self.edges.step + 1, self.edges.step)
        i, j = self.first[ends].long(), self.second[ends].long()
        row = self.table[start:stop].long() * (2 * self.scale.lookup.shape[-1]) if len(self.table) else 0
        old = self.messages[:, start:stop].long()
        new_second = self._through_table(row, self.x[i] - old[0])
        new_first = self._through_table(row + self.scale.lookup.shape[-1], self.x[j] - old[1])
        for k, (new, end) in enumerate(((new_first, i), (new_second, j))):
            if self.keep:
                new += ((old[k] - new) * self.keep + 512) >> 10
            self.messages[k, start:stop] = new
            self.sums.index_add_(0, end, new)

    def _through_table(self, row: torch.Tensor | int, log_odds: torch.Tensor) -> torch.Tensor:
        shift, half = self.scale.shift, self.scale.half
        odds = (log_odds + half).clamp(0, 2 * half - 1)
        place = row + (odds >> shift)
        low = self.lookup[place].long()
        rise = self.lookup[place + 1] - low
        return low + ((rise * (odds & ((1 << shift) - 1)) + ((1 << shift) >> 1)) >> shift)

    def _update_variables(self, part: slice) -> torch.Tensor:
        """Set the log odds of some variables and their sums to 0; return the largest change of a probability."""
        known, before = self.known[part], self.log_odds[part].double()
        total = self.priors[part] + self.sums[part].masked_fill(known, 0)
        after = torch.where(known, before, (total.double() * self.scale.quantum).float().double())
        self.sums[part] = 0
        self.x[part] = total.clamp(-self.scale.bound, self.scale.bound).int()
        self.log_odds[part] = after.float()
        return (after.sigmoid() - before.sigmoid()).abs().max()

    def answers(self) -> FloatArray:
        """Return the log odds [V] after the last complete iteration."""
        return self.log_odds.cpu().numpy()

    def state(self) -> tuple[IntArray, IntArray]:
        """Return what a checkpoint holds: the messages [2, E] of this process, and the log odds [V] in quanta."""
        return self.messages.cpu().numpy(), self.x.cpu().numpy()

    def restore(self, start: int, messages: IntArray) -> None:
        """Set the messages of the edges from `start` on, in the order of this process."""
        self.messages[:, start : start + messages.shape[1]] = torch.from_numpy(np.array(messages)).to(self.device)

    def restore_variables(self, x: IntArray, log_odds: FloatArray) -> None:
        """Set the log odds of all variables."""
        self.x.copy_(torch.from_numpy(x))
        self.log_odds.copy_(torch.from_numpy(log_odds))

    def close(self) -> None:
        """End nothing: a GPU has no threads to end."""


def edge_range(start: int, stop: int, first: torch.Tensor, second: torch.Tensor, step: int) -> tuple[int, int, int]:
    """Return the smallest and largest number of a variable, and the first edge of a variable to itself or -1."""
    ends = slice(start * step, (stop - 1) * step + 1, step)
    loops = first[ends] == second[ends]
    low = int(torch.minimum(first[ends].min(), second[ends].min()))
    high = int(torch.maximum(first[ends].max(), second[ends].max()))
    return low, high, start + int(loops.int().argmax()) if bool(loops.any()) else -1
