"""Messages of a large model in the memory of a CPU, updated by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.cores import Crew
from equifactor.base.errors import SolveError
from equifactor.base.sources import gibibytes
from equifactor.large.large_kernels import add_sums, update_edges, update_variables
from equifactor.large.message_scale import OBSERVED, MessageScale

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.large.exchange import Exchange
    from equifactor.large.large_files import EdgeArrays

_EDGES = 2**20  # Edges that a thread updates between two looks at the clock: about 10 ms.
_SPILLED = 2**10  # Sums of a thread that wait to be moved to 64 bits. Chosen by hand.
_VARIABLES = 2**18  # Variables, in the same way.


class CpuMessages:
    """The messages of the edges of this process, and the log odds of all variables.

    Attributes:
        messages: [2, E] to the first and to the second variable of each edge, in quanta.
        log_odds: [V] log odds in nats.
    """

    def __init__(
        self, edges: EdgeArrays, priors: IntArray, scale: MessageScale, keep: int, exchange: Exchange, threads: int
    ) -> None:
        self.edges, self.scale, self.keep, self.exchange = edges, scale, keep, exchange
        _check_memory(edges.num_edges * scale.bits // 4 + len(priors) * (24 + 8 * threads))
        self.crew = Crew(threads)
        self.messages = np.zeros((2, edges.num_edges), scale.dtype)
        self.priors, self.totals = priors, np.zeros(len(priors), np.int64)
        # [threads, 2V] the log odds of each variable in quanta, clamped, and the sum of messages of each thread.
        self.nodes = np.zeros((threads, 2 * len(priors)), np.int32)
        self.nodes[:, ::2] = np.clip(priors, -scale.bound, scale.bound)
        self.log_odds = np.empty(len(priors), np.float32)
        np.multiply(priors, scale.quantum, out=self.log_odds, casting="unsafe")
        known = np.abs(priors) == OBSERVED
        self.log_odds[known] = np.copysign(np.inf, self.log_odds[known])
        self.lookup = scale.lookup.reshape(-1)
        self.spilled = np.zeros((threads, _SPILLED, 2), np.int64)
        self.lock = threading.Lock()
        self._update_edges(0, 0, 0)  # Kernels are compiled in the thread that knows the deadline.
        self._update_variables(0, 0, 0)
        add_sums(0, 0, self.nodes, self.totals)

    def iterate(self, report: Callable[[int], object], stopped: Callable[[], bool]) -> float | None:
        """Update all messages once; return the largest change of a probability, or None if it was stopped before."""
        if not self.crew.divide(self.edges.num_edges, _EDGES, self._update_edges, report=report, stopped=stopped):
            return None
        num_vars = len(self.totals)
        self.crew.divide(num_vars, _VARIABLES, lambda _, start, stop: add_sums(start, stop, self.nodes, self.totals))
        self.exchange.add_up(self.totals)
        changes: list[float] = []
        self.crew.divide(num_vars, _VARIABLES, lambda *piece: changes.append(self._update_variables(*piece)))
        return max(changes, default=0.0)

    def _update_edges(self, thread: int, start: int, stop: int) -> None:
        e, s, spilled = self.edges, self.scale, self.spilled[thread]
        done = start
        while True:
            count, done = update_edges(
                done, stop, e.first, e.second, e.step, e.table, self.messages[0], self.messages[1], self.nodes[thread],
                self.lookup, s.lookup.shape[-1], s.shift, s.half, self.keep, spilled,
            )  # fmt: skip
            if count:
                with self.lock:
                    np.add.at(self.totals, spilled[:count, 0], spilled[:count, 1])
            if done >= stop:
                return

    def _update_variables(self, thread: int, start: int, stop: int) -> float:
        bound, quantum = self.scale.bound, self.scale.quantum
        return update_variables(
            start, stop, self.priors, self.totals, OBSERVED, bound, quantum, self.nodes, self.log_odds
        )

    def answers(self) -> FloatArray:
        """Return the log odds [V] after the last complete iteration."""
        return self.log_odds  # type: ignore[return-value]

    def state(self) -> tuple[IntArray, IntArray]:
        """Return what a checkpoint holds: the messages [2, E] of this process, and the log odds [V] in quanta."""
        return self.messages, self.nodes[0, ::2]  # type: ignore[return-value]

    def restore(self, start: int, messages: IntArray) -> None:
        """Set the messages of the edges from `start` on, in the order of this process."""
        self.messages[:, start : start + messages.shape[1]] = messages

    def restore_variables(self, x: IntArray, log_odds: FloatArray) -> None:
        """Set the log odds of all variables."""
        self.nodes[:, ::2], self.log_odds[:] = x, log_odds

    def close(self) -> None:
        """End the threads."""
        self.crew.__exit__()


def _check_memory(required: int) -> None:
    """Raise `SolveError` if messages and variables need more bytes than are free, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return
    if required > free:
        raise SolveError(
            f"This model needs {gibibytes(required)} of memory beside its edges, and {gibibytes(free)} are free. Use "
            "fewer threads, which share fewer copies of the variables, or several machines with torchrun."
        )
