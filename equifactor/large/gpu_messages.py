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
_BLOCK_OF_STATES = 256  # The same with more than two states, which need more registers. Chosen by hand.
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
        added = scale.states - 1
        self._check_memory(len(priors), edges.num_edges * (8 + added * scale.bits // 4 + bool(len(edges.table))))
        self.first, self.second, self.table = (self._placed(a) for a in (edges.first, edges.second, edges.table))
        if edges.step == 2:
            self.second = self.first[1:]
        self.messages = torch.zeros((2, added, edges.num_edges), dtype=kind, device=self.device)
        self.priors = self._placed(priors)
        self.x = self.priors.clamp(-scale.bound, scale.bound)
        self.sums = torch.zeros((len(priors), added), dtype=torch.int64, device=self.device)
        self.log_odds = torch.empty(priors.shape, dtype=torch.float32, device=self.device)
        for start in range(0, len(priors), _VARIABLES):
            part = slice(start, start + _VARIABLES)
            self.log_odds[part] = self._nats(self.priors[part], self.priors[part])
        self.lookup, self.logs = self._placed(scale.lookup.reshape(-1)), self._placed(scale.logs.reshape(-1))
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
        states, held = self.scale.states, self.scale.held
        required = edge_bytes + (12 * held + 8 * (states - 1)) * num_vars + 60 * states * min(num_vars, _VARIABLES)
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
        scale = self.scale
        if self.fused:
            import triton  # type: ignore[import-not-found, unused-ignore]

            from equifactor.large.large_gpu_kernels import update_edges

            block = _BLOCK if scale.states == 2 else _BLOCK_OF_STATES
            update_edges[(max(1, triton.cdiv(stop - start, block)),)](
                self.first, self.second, self.table, self.messages[0], self.messages[1], self.x, self.sums, self.lookup,
                self.logs, start, stop, self.edges.num_edges, scale.shift, scale.half, scale.fine, self.keep,
                SIZE=scale.lookup.shape[-1], K=scale.states, STEP=self.edges.step, MANY=len(self.table) > 0,
                DAMPED=self.keep > 0, JOINED=self.joined, B=block,
            )  # fmt: skip
            return
        if start == stop:
            return
        ends = slice(start * self.edges.step, (stop - 1) * self.edges.step + 1, self.edges.step)
        i, j = self.first[ends].long(), self.second[ends].long()
        table = self.table[start:stop].long() if len(self.table) else torch.zeros_like(i)
        send = self._through_table if scale.states == 2 else self._through_states
        old_first, old_second = self.messages[:, :, start:stop].long()
        new_second, new_first = send(2 * table, self.x[i], old_first), send(2 * table + 1, self.x[j], old_second)
        for k, (new, old, end) in enumerate(((new_first, old_first, i), (new_second, old_second, j))):
            if self.keep:
                new += ((old - new) * self.keep + 512) >> 10
            self.messages[k, :, start:stop] = new
            self.sums.index_add_(0, end, new.T)

    def _through_table(self, way: torch.Tensor, x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        """Return messages [1, n] by the numbers of tables and directions, log odds [n] and old messages [1, n]."""
        shift, half = self.scale.shift, self.scale.half
        odds = (x - old + half).clamp(0, 2 * half - 1)
        return self._looked_up(way * self.scale.lookup.shape[-1] + (odds >> shift), odds)

    def _through_states(self, way: torch.Tensor, x: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        """Return messages [K - 1, n] by the numbers of tables and directions, log weights [n, K] and old messages."""
        k, shift, fine, last = self.scale.states, self.scale.shift, self.scale.fine, 2 * self.scale.half - 1
        sender = x.T.long()
        sender[1:] -= old
        logs = (sender << fine)[:, None] + self.logs.reshape(-1, k, k)[way].permute(1, 2, 0)
        total = logs[0]
        for state in range(1, k):
            gap = (total - logs[state]).abs().clamp(max=last)
            total = torch.maximum(total, logs[state]) + self._looked_up(gap >> shift, gap)
        return (total[1:] - total[0] + ((1 << fine) >> 1)) >> fine

    def _looked_up(self, place: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return `lookup` between two of its entries."""
        shift = self.scale.shift
        low = self.lookup[place].long()
        rise = self.lookup[place + 1] - low
        return low + ((rise * (value & ((1 << shift) - 1)) + ((1 << shift) >> 1)) >> shift)

    def _nats(self, total: torch.Tensor, priors: torch.Tensor) -> torch.Tensor:
        """Return whole numbers in nats as float32, infinite where the prior is certain."""
        # As on a CPU, products of whole numbers and quanta are rounded from 64 bits.
        nats = (total.double() * self.scale.quantum).float()
        certain = torch.copysign(torch.tensor(torch.inf), priors)
        return torch.where(priors.abs() == OBSERVED, certain, nats)

    def _update_variables(self, part: slice) -> torch.Tensor:
        """Set the log odds of some variables and their sums to 0; return the largest change of a probability."""
        priors, before, bound = self.priors[part], self.log_odds[part].double(), self.scale.bound
        if self.scale.states == 2:
            total = priors + self.sums[part, 0].masked_fill(priors.abs() == OBSERVED, 0)
        else:
            total = priors.long()
            total[:, 1:] += self.sums[part]
            total.masked_fill_(priors == -OBSERVED, torch.iinfo(torch.int64).min // 2)
            total -= total.max(dim=1, keepdim=True).values
        self.sums[part] = 0
        self.x[part] = total.clamp(-bound, bound).int()
        self.log_odds[part] = self._nats(total, priors)
        after = self.log_odds[part].double()
        if self.scale.states == 2:
            return (after.sigmoid() - before.sigmoid()).abs().max()
        return (after.softmax(dim=1) - before.softmax(dim=1)).abs().max()

    def answers(self) -> FloatArray:
        """Return `log_odds` after the last complete iteration."""
        return self.log_odds.cpu().numpy()

    def state(self) -> tuple[IntArray, IntArray]:
        """Return what a checkpoint holds, as `CpuMessages`."""
        return self.messages.cpu().numpy(), self.x.reshape(-1, self.scale.held).cpu().numpy()

    def restore(self, start: int, messages: IntArray) -> None:
        """Set the messages of the edges from `start` on, in the order of this process."""
        self.messages[..., start : start + messages.shape[-1]] = torch.from_numpy(np.array(messages)).to(self.device)

    def restore_variables(self, x: IntArray, log_odds: FloatArray) -> None:
        """Set the log odds of all variables."""
        self.x.copy_(torch.from_numpy(x).reshape(self.x.shape))
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
