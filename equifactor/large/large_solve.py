"""Belief propagation on pairwise models of up to billions of edges whose factors share a few tables."""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.base.argument_types import is_real
from equifactor.base.clock import Clock
from equifactor.base.cores import Crew, num_threads
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.files import PathLike
from equifactor.base.progress import bar
from equifactor.base.run_context import Progress, check_run
from equifactor.base.status import Status
from equifactor.base.torch_threads import torch_threads
from equifactor.large.checkpoints import Checkpoints
from equifactor.large.exchange import Exchange, own_device
from equifactor.large.large_files import (
    MOST_VARIABLES,
    EdgeArrays,
    EdgeSource,
    PriorSource,
    check_time,
    read_edges,
    read_priors,
    write_beliefs,
)
from equifactor.large.message_scale import MessageScale, damping_steps, read_tables

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_CHECKED = 2**24  # Edges that are checked between two looks at the clock: about 10 ms.
_SAVED_EVERY = 600.0  # Seconds between two checkpoints. Chosen by hand.
_MOST_PROCESSES = 2**10  # A checkpoint tells models apart if at most this many processes share the edges.
_STATES = {0: None, 1: Status.TIME_LIMIT, 2: Status.INTERRUPTED}  # Why processes stop: the largest number counts.


@dataclass(frozen=True)
class LargeResult:
    """The beliefs of a large model.

    Attributes:
        log_odds: [V] ln P(1)/P(0) of each variable, as float32; infinite where the prior is 0 or 1. With K > 2 states
            [V, K] ln P(s)/(1 - P(s)) of each state s.
        status: `converged`, `iteration-limit`, `time-limit` or `interrupted`.
        iterations: complete iterations, with those before a checkpoint.
        change: the largest change of a probability in the last iteration.
        seconds: wall time of the iterations.
        num_edges: edges of the model.
    """

    log_odds: FloatArray = field(repr=False)
    status: Status
    iterations: int
    change: float
    seconds: float
    num_edges: int

    @property
    def beliefs(self) -> FloatArray:
        """The probability [V] of state 1 of each variable, as float32; with K > 2 states [V, K] of each state."""
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(-self.log_odds))

    def facts(self) -> dict[str, Any]:
        """Return what the command prints about the run, without the beliefs."""
        return {
            "status": str(self.status), "iterations": self.iterations,
            "change": self.change if np.isfinite(self.change) else None,
            "seconds": self.seconds, "edges": self.num_edges, "variables": len(self.log_odds),
        }  # fmt: skip

    def save(self, path: PathLike) -> None:
        """Write the beliefs to a .npy file, or beliefs and log odds to a Parquet file."""
        write_beliefs(path, self.beliefs, self.log_odds)


def solve(
    edges: EdgeSource,
    table: Any,
    *,
    priors: PriorSource | None = None,
    num_variables: int | None = None,
    table_of_edge: Any = None,
    damping: float = 0.0,
    iterations: int = 100,
    tolerance: float = 1e-4,
    bits: Literal[16, 32] = 16,
    device: str = "cpu",
    threads: int | None = None,
    time_limit: float | None = None,
    checkpoint: PathLike | None = None,
    checkpoint_every: float = _SAVED_EVERY,
    columns: Sequence[str] | None = None,
    prior_columns: Sequence[str] | None = None,
    progress: Progress | bool = False,
) -> LargeResult:
    """Return the beliefs of belief propagation on a pairwise model with shared tables.

    The model has variables 0 to V - 1 with states 0 to K - 1, a prior for each, and for each edge (i, j) a factor
    `table[state of i][state of j]`. All messages are updated at once in each iteration, as by
    `equifactor.solve(.., solver="bp")`. An edge takes 8 bytes, which may stay in a .npy file, and 4 (K - 1) bytes for
    its messages.

    Under `torchrun` the edges are divided among the processes, and every process returns the same result.

    Args:
        edges: a .npy file of an integer array [E, 2], a Parquet file, such an array, or a pair of arrays or .npy files
            with one end each. int32 is used as it is, other types are copied.
        table: [K, K] positive entries, or several tables [T, K, K], with 2 to 16 states.
        priors: with two states the probability of state 1: one number, an array [V], a .npy file of one, or a Parquet
            file with the columns variable and probability. With K > 2 states a row of K probabilities or weights takes
            the place of each number: [K], [V, K], or K columns. Default, and for variables that a Parquet file does not
            name: all states alike.
        num_variables: default the largest number of an edge or prior, plus 1.
        table_of_edge: [E] the number of the table of each edge, as an array or .npy file. In a Parquet file it is the
            third of `columns`.
        damping: the share of the old message that is kept.
        iterations: most iterations.
        tolerance: stop when no probability changes by more.
        bits: the bits of a message. With 16 the largest message has 32,767 steps, with 32 it has 8 million.
        device: cpu or cuda.
        threads: of the CPU; default all cores.
        time_limit: seconds; then the beliefs after the last complete iteration are returned.
        checkpoint: a folder. The run saves its state there, and continues from the state of an earlier call.
        checkpoint_every: seconds between two checkpoints.
        columns: of a Parquet file of edges: the two ends, and perhaps the table; default the first two.
        prior_columns: of a Parquet file of priors: variable and probability, or K of them; default the first columns.
        progress: True for a progress bar, or a function of the work done, the total and a note.
    """
    check_run(time_limit, 0, progress)
    _check_numbers(damping, iterations, tolerance, bits, checkpoint_every)
    clock = Clock(time_limit)
    tables = read_tables(table)
    if not isinstance(device, str):
        raise OptionError(f"device must be cpu or cuda, found {brief(device)}.")
    device, crew = own_device(device), num_threads(threads)
    if device != "cpu":
        from equifactor.base.torch_device import check_device

        check_device(device, "A large model on a GPU")
    exchange = Exchange(device)
    with clock.govern(), torch_threads(clock, device, crew) if exchange.connected else contextlib.nullcontext():
        scale = MessageScale.of(tables, bits)
        part, start, num_edges = read_edges(edges, table_of_edge, columns, (exchange.rank, exchange.size), clock)
        given, numbers = read_priors(priors, prior_columns, scale.states)
        highest = exchange.largest(_highest_variable(part, start, len(tables), clock))
        num_vars = _num_variables(num_variables, highest, given, numbers)
        odds = _prior_odds(given, numbers, num_vars, scale)
        engine = _engine(device, part, odds, scale, damping_steps(damping), exchange, crew)
        checkpoints = None
        if checkpoint is not None:
            model = _fingerprint(part, num_edges, odds, tables, bits) if exchange.rank == 0 else {}
            checkpoints = Checkpoints(checkpoint, model, start, exchange)
        try:
            with bar(progress if exchange.rank == 0 else False, "iterating", time_limit) as report:
                run = _LargeRun(engine, exchange, clock, checkpoints, checkpoint_every, report, num_edges, crew)
                return run.to_the_end(iterations, tolerance)
        finally:
            engine.close()


class _LargeRun:
    """The iterations of one call."""

    def __init__(
        self, engine: Any, exchange: Exchange, clock: Clock, checkpoints: Checkpoints | None, every: float,
        report: Progress | None, num_edges: int, threads: int,
    ) -> None:  # fmt: skip
        self.engine, self.exchange, self.clock, self.checkpoints = engine, exchange, clock, checkpoints
        self.every, self.report, self.num_edges, self.threads = every, report, num_edges, threads
        # Processes must stop together, and a checkpoint needs a whole iteration. Otherwise a run stops at once.
        self.whole = exchange.size > 1 or checkpoints is not None
        if engine.scale.states > 2:
            self._odds(np.zeros((0, engine.scale.states), np.float32))  # Compiled before a deadline can pass.

    def to_the_end(self, iterations: int, tolerance: float) -> LargeResult:
        """Iterate until convergence or a limit."""
        begun = saved = Clock.now()
        done = kept = 0
        if self.checkpoints is not None:
            done = kept = self.checkpoints.read(self.engine, self.engine.edges.num_edges)
        change, status, slowest = float("inf"), Status.ITERATION_LIMIT, 0.0
        while done < iterations:
            started = Clock.now()
            stop = self._reason_to_stop(slowest)
            if stop is not None:
                status = stop
                break
            report = functools.partial(self._tell, done, iterations, change)
            moved = self.engine.iterate(report, self._stopped)
            if moved is None:
                status = self.clock.status or Status.INTERRUPTED
                break
            change, done, slowest = moved, done + 1, max(slowest, Clock.now() - started)
            if change <= tolerance:
                status = Status.CONVERGED
                break
            if self.checkpoints is not None and self._is_due(saved):
                self._save(done)
                saved, kept = Clock.now(), done
        if self.checkpoints is not None and done > kept:
            self._save(done)
        seconds = Clock.now() - begun
        return LargeResult(self._odds(self.engine.answers()), status, done, change, seconds, self.num_edges)

    def _odds(self, answers: FloatArray) -> FloatArray:
        """Return log odds [V], or log odds [V, K] of log weights [V, K]."""
        if answers.ndim == 1:
            return answers
        from equifactor.large.large_kernels import odds_of_states

        odds = np.empty_like(answers)
        odds_of_states(0, 0, answers, odds)
        with Crew(self.threads) as crew:
            crew.divide(len(odds), _CHECKED // 16, lambda _, start, stop: odds_of_states(start, stop, answers, odds))
        return odds

    def _tell(self, done: int, iterations: int, change: float, edges: int) -> None:
        if self.report is not None:
            part = edges / max(1, self.engine.edges.num_edges)
            self.report(round((done + part) * 100), iterations * 100, f"change {change:.2g}")

    def _stopped(self) -> bool:
        return not self.whole and self.clock.stopped

    def _reason_to_stop(self, slowest: float) -> Status | None:
        """Return why no further iteration begins; the processes of a run agree about it."""
        code = 2 if self.clock.interrupted else int(self.clock.left <= (slowest if self.whole else 0.0))
        return _STATES[self.exchange.largest(code)]

    def _is_due(self, saved: float) -> bool:
        return bool(self.exchange.largest(int(Clock.now() - saved >= self.every)))

    def _save(self, done: int) -> None:
        assert self.checkpoints is not None
        messages, x = self.engine.state()
        self.checkpoints.write(done, messages, x, self.engine.answers())


def _check_numbers(damping: object, iterations: object, tolerance: object, bits: object, every: object) -> None:
    for name, value in (("damping", damping), ("tolerance", tolerance), ("checkpoint_every", every)):
        if not is_real(value) or not value >= 0.0:
            raise OptionError(f"{name} must be a number of at least 0, found {brief(value)}.")
    if not isinstance(iterations, (int, np.integer)) or isinstance(iterations, bool) or iterations < 0:
        raise OptionError(f"iterations must be a whole number of at least 0, found {brief(iterations)}.")
    if not isinstance(bits, (int, np.integer)) or bits not in (16, 32):
        raise OptionError(f"bits must be 16 or 32, found {brief(bits)}.")


def _engine(
    device: str, part: EdgeArrays, odds: IntArray, scale: MessageScale, keep: int, exchange: Exchange, threads: int
) -> Any:
    if device != "cpu":
        from equifactor.large.gpu_messages import GpuMessages

        return GpuMessages(part, odds, scale, keep, exchange, device)
    from equifactor.large.cpu_messages import CpuMessages

    return CpuMessages(part, odds, scale, keep, exchange, threads)


def _highest_variable(part: EdgeArrays, start: int, num_tables: int, clock: Clock) -> int:
    """Return the highest number of a variable, or -1 without edges; raise `ModelError` if an edge is wrong."""
    highest = -1
    edge_range: Any
    if isinstance(part.first, np.ndarray):
        from equifactor.large.large_kernels import edge_range
    else:
        from equifactor.large.gpu_messages import edge_range
    for begin in range(0, part.num_edges, _CHECKED):
        end = min(begin + _CHECKED, part.num_edges)
        if begin:
            check_time(clock)
        low, high, loop = edge_range(begin, end, part.first, part.second, part.step)
        if low < 0 or high > MOST_VARIABLES:
            raise ModelError(f"Variables are numbered from 0 to at most {MOST_VARIABLES:,}, found {low} and {high}.")
        if loop >= 0:
            raise ModelError(
                f"Edge {start + loop:,} joins variable {part.first[loop * part.step]} with itself. Remove such edges."
            )
        highest = max(highest, high)
    if len(part.table) and part.table.max() >= num_tables:
        raise ModelError(f"An edge has table {part.table.max()}, but tables are numbered from 0 to {num_tables - 1}.")
    if num_tables > 1 and part.num_edges and not len(part.table):
        raise ModelError(f"There are {num_tables} tables. State the table of each edge by table_of_edge.")
    return highest


def _num_variables(stated: object, highest: int, priors: FloatArray, numbers: IntArray | None) -> int:
    """Return the number of variables; raise an error if the stated number is too small."""
    least = highest + 1
    if numbers is not None:
        least = max(least, int(numbers.max(initial=-1)) + 1)
    elif not _is_shared(priors):
        if len(priors) < least:
            raise ModelError(f"There are {len(priors):,} priors, but an edge names variable {highest:,}.")
        least = len(priors)
    if stated is None:
        return least
    if (
        not isinstance(stated, (int, np.integer))
        or isinstance(stated, bool)
        or not least <= stated <= MOST_VARIABLES + 1
    ):
        raise OptionError(
            f"num_variables must be a whole number from {least:,}, the number of variables in edges and priors, to "
            f"{MOST_VARIABLES + 1:,}, found {brief(stated)}."
        )
    if not _is_shared(priors) and numbers is None and stated != least:
        raise OptionError(f"num_variables is {stated:,}, but there are {least:,} priors.")
    return int(stated)


def _is_shared(priors: FloatArray) -> bool:
    """Return whether priors are those of all variables: probabilities of shape [] or [1, K]."""
    return priors.ndim == 0 or (priors.ndim == 2 and len(priors) == 1)


def _prior_odds(given: FloatArray, numbers: IntArray | None, num_vars: int, scale: MessageScale) -> IntArray:
    """Return the priors of all variables in quanta: log odds [V], or log weights [V, K]."""
    one: Any = np.full(1, 0.5) if scale.states == 2 else np.full((1, scale.states), 1.0)
    if numbers is None and _is_shared(given):
        one = given.reshape(one.shape)
    odds = np.empty((num_vars, *one.shape[1:]), np.int32)
    odds[:] = scale.priors(one)
    if numbers is not None:
        odds[numbers] = scale.priors(given)
    elif not _is_shared(given):
        for start in range(0, num_vars, _CHECKED):  # in parts, since each step makes a copy in float64
            part = slice(start, start + _CHECKED)
            odds[part] = scale.priors(given[part])
    return odds


def _fingerprint(part: EdgeArrays, num_edges: int, odds: IntArray, tables: FloatArray, bits: int) -> dict[str, Any]:
    """Return numbers by which models differ; the first edges, which are always in process 0, stand for all."""
    number = num_edges // _MOST_PROCESSES
    ends = np.array([end[: number * part.step : part.step] for end in (part.first, part.second)])
    return {
        "edges": num_edges, "variables": len(odds), "bits": bits, "tables": tables.tolist(),
        "priors": zlib.crc32(odds.tobytes()), "first_edges": zlib.crc32(ends.tobytes()),
    }  # fmt: skip
