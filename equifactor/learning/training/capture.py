"""A whole gradient step as one CUDA graph: about a hundred launches become one replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equifactor.learning.training.compiled_batches import Batch, CompiledBatch

# The number of runs before the first capture, for the allocator and lazily compiled kernels. Later captures need one
# run. Chosen by hand.
_WARM_UP = 3


class Captures:
    """Gradient steps by key, captured on first use and replayed later.

    Weights and optimizer state are restored after the warm-up, so that capturing does not change them.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.captured: dict[Any, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def replay(self, key: Any, step: Callable[[], Tensor]) -> Tensor:
        """Run a step, which reads and writes the same tensors in every call. The next call overwrites its loss."""
        if key not in self.captured:
            self.captured[key] = self._capture(step)
        graph, loss = self.captured[key]
        graph.replay()
        return loss

    def _capture(self, step: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Return the captured step and the loss it writes."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        weights = [p.detach().clone() for p in parameters]
        before = {p: {k: v.clone() for k, v in self.optimizer.state[p].items()} for p in parameters}
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(1 if self.captured else _WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.captured.values()))[0].pool() if self.captured else None
        with torch.cuda.graph(graph, pool=pool):
            loss = step()
        with torch.no_grad():
            for p, weight in zip(parameters, weights, strict=True):
                p.copy_(weight)
                for name, value in self.optimizer.state[p].items():
                    old = before[p].get(name)
                    value.zero_() if old is None else value.copy_(old)
        return graph, loss


class CapturedSteps:
    """Gradient steps by compiled batch and number of steps.

    `gradient_step(batch, steps, read_at) -> loss` runs forward, backward and the optimizer.
    """

    def __init__(
        self, gradient_step: Callable[[Batch, int, tuple[int, ...]], Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        self.gradient_step = gradient_step
        self.captures = Captures(optimizer)
        self.rows: dict[Any, Tensor] = {}  # The rows that a captured step reads.

    def __call__(self, compiled: CompiledBatch, rows: Tensor, steps: int, read_at: tuple[int, ...]) -> Tensor:
        """Run one gradient step on these rows. The next call with the same shape overwrites the returned loss."""
        key = id(compiled), steps, read_at
        own = self.rows.setdefault(key, rows.clone()).copy_(rows)
        return self.captures.replay(key, lambda: self.gradient_step(compiled.fill(own), steps, read_at))
