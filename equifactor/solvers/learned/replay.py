"""Beliefs for many batches of one structure. On a GPU the whole network is captured once and replayed."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.base.argument_types import checks_types
from equifactor.base.typing import Semiring
from equifactor.solvers.learned.network import Network
from equifactor.solvers.learned.wiring import Flat, wire


class Replay:
    """`replay(log_phi)`: log beliefs [X] of the same graphs with other potentials [T], in flat order.

    A step of a network is about forty small operations. On a batch of a thousand small graphs, launching these
    operations takes most of the time. One CUDA graph for all steps avoids the launches. On the CPU the network simply
    runs. The next call overwrites the answer. If potentials may contain true zeros, those of `flat` must contain one
    too: on a GPU later potentials are not checked.
    """

    @checks_types("network", "flat", "steps")
    def __init__(self, network: Network, flat: Flat, semiring: Semiring = "sum", steps: int | None = None) -> None:
        network.accept(flat)
        self.network, self.semiring, self.steps = network, semiring, steps
        # The captured graph reads this copy, which must live as long as the graph.
        self.flat = replace(flat, log_phi=flat.log_phi.clone())
        self.graph: torch.cuda.CUDAGraph | None = None
        if flat.log_phi.device.type != "cuda":
            return
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._run(self.flat)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.answer = self._run(self.flat)

    @checks_types("log_phi")
    def __call__(self, log_phi: Float[Tensor, " T"]) -> Float[Tensor, " X"]:
        """Return the log beliefs [X], not normalised."""
        if self.graph is None:
            return self._run(self.flat.with_log_phi(log_phi.to(self.flat.log_phi)))
        self.flat.log_phi.copy_(log_phi)
        self.graph.replay()
        return self.answer

    def _run(self, flat: Flat) -> Tensor:
        with torch.no_grad():
            return self.network.unroll(self.network.start(wire(flat, self.semiring)), self.steps)[-1]
