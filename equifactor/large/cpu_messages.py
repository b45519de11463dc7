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
from equifactor.large.large_kernels import (
    add_sums,
    update_edges,
    update_edges_of_states,
    update_variables,
    update_variables_of_states,
)
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

    S is the number of whole numbers of a message: K - 1 for variables with K states.

    Attributes:
        messages: [2, S, E] to the first and to the second variable of each edge, in quanta.
        log_odds: [V] log odds in nats; with more than two states [V, K] log weights, of which the largest is 0.
    """

    def __init__(
        self, edges: EdgeArrays, priors: IntArray, scale: MessageScale, keep: int, exchange: Exchange, threads: int
    ) -> None:
        self.edges, self.scale, self.keep, self.exchange = edges, scale, keep, exchange
        num_vars, held, added = len(priors), scale.held, scale.states - 1
        per_variable = 4 * (held + added) * threads + 8 * added + 8 * held
        _check_memory(edges.num_edges * added * scale.bits // 4 + num_vars * per_variable)
        self.crew = Crew(threads)
        self.messages = np.zeros((2, added, edges.num_edges), scale.dtype)
        self.priors, self.totals = priors, np.zeros((num_vars, added), np.int64)
        # [threads, V, held + S] the log odds of each variable in quanta, clamped, and the sums of each thread.
        self.nodes = np.zeros((threads, num_vars, held + added), np.int32)
        self.nodes[:, :, :held] = scale.start(priors).reshape(num_vars, held)
        self.log_odds = scale.nats(priors)
        self.lookup, self.logs = scale.lookup.reshape(-1), scale.logs.reshape(-1)
        self.spilled = np.zeros((threads, max(_SPILLED, 3 * scale.states), 2), np.int64)
        self.work = np.zeros((threads, 2, scale.states), np.int64)
        self.chances = np.zeros((threads, 2, scale.states))
        self.lock = threading.Lock()
        self._update_edges(0, 0, 0)  # Kernels are compiled in the thread that knows the deadline.
        self._update_variables(0, 0, 0)
        self._add_sums(0, 0, 0)

    def iterate(self, report: Callable[[int], object], stopped: Callable[[], bool]) -> float | None:
        """Update all messages once; return the largest change of a probability, or None if it was stopped before."""
        if not self.crew.divide(self.edges.num_edges, _EDGES, self._update_edges, report=report, stopped=stopped):
            return None
        num_vars = len(self.totals)
        self.crew.divide(num_vars, _VARIABLES, self._add_sums)
        self.exchange.add_up(self.totals)
        changes: list[float] = []
        self.crew.divide(num_vars, _VARIABLES, lambda *piece: changes.append(self._update_variables(*piece)))
        return max(changes, default=0.0)

    def _update_edges(self, thread: int, start: int, stop: int) -> None:
        e, s, spilled, nodes = self.edges, self.scale, self.spilled[thread], self.nodes[thread].reshape(-1)
        to_first, to_second = self.messages.reshape(2, -1)
        done = start
        while True:
            if s.states == 2:
                count, done = update_edges(
                    done, stop, e.first, e.second, e.step, e.table, to_first, to_second, nodes,
                    self.lookup, s.lookup.shape[-1], s.shift, s.half, self.keep, spilled,
                )  # fmt: skip
            else:
                count, done = update_edges_of_states(
                    done, stop, e.first, e.second, e.step, e.table, to_first, to_second, nodes, self.lookup, self.logs,
                    s.states, s.shift, 2 * s.half - 1, s.fine, self.keep, self.work[thread], spilled,
                )  # fmt: skip
            if count:
                variable, slot = np.divmod(spilled[:count, 0], self.nodes.shape[2])
                with self.lock:
                    np.add.at(self.totals, (variable, slot - s.held), spilled[:count, 1])
            if done >= stop:
                return

    def _add_sums(self, _: int, start: int, stop: int) -> None:
        add_sums(start, stop, self.nodes, self.totals, self.scale.held)

    def _update_variables(self, thread: int, start: int, stop: int) -> float:
        bound, quantum = self.scale.bound, self.scale.quantum
        if self.scale.states == 2:
            nodes = self.nodes.reshape(len(self.nodes), -1)
            return update_variables(
                start, stop, self.priors, self.totals.reshape(-1), OBSERVED, bound, quantum, nodes, self.log_odds
            )
        return update_variables_of_states(
            start, stop, self.priors, self.totals, -OBSERVED, bound, quantum, self.nodes, self.log_odds,
            self.chances[thread],
        )  # fmt: skip

    def answers(self) -> FloatArray:
        """Return `log_odds` after the last complete iteration."""
        return self.log_odds

    def state(self) -> tuple[IntArray, IntArray]:
        """Return what a checkpoint holds: the messages of this process, and the log odds in quanta [V, held]."""
        return self.messages, self.nodes[0, :, : self.scale.held]  # type: ignore[return-value]

    def restore(self, start: int, messages: IntArray) -> None:
        """Set the messages of the edges from `start` on, in the order of this process."""
        self.messages[..., start : start + messages.shape[-1]] = messages

    def restore_variables(self, x: IntArray, log_odds: FloatArray) -> None:
        """Set the log odds of all variables."""
        self.nodes[:, :, : self.scale.held], self.log_odds[:] = x, log_odds

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
