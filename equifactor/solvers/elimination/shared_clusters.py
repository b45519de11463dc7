"""Threads that share the largest clusters of an elimination: each takes some blocks of a cluster's table.

The passes are those of `elimination_kernels.py`. A call of a pass ends after the given number of operations, so a
thread handles a range of blocks by a call from its first block with the operations of the range. The calling thread
handles the first block of a cluster alone, with what a pass does before all blocks.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.cores import Crew, crew_size
from equifactor.solvers.elimination.program import ClusterTables, Program, Workspace

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray

_SHARED = 2**17  # Entries of a cluster from which threads share it: it takes 0.5 ms, and to wake a thread 0.1 ms.
_PIECE = 2**22  # Operations that a thread takes at a time, about 4 ms, or a part of the blocks if that is less.
_PARTS = 2  # Parts of a small cluster for each thread. Chosen by hand.
_SLABS = 16  # Parts of the downward pass of a cluster at most. Chosen by hand.
_LEAST = 2**14  # Entries of a part of the downward pass at least: it takes 0.1 ms. Chosen by hand.
_COPIED = 2**16  # Entries that a thread clears or copies at a time: 512 KiB. Chosen by hand.
_NO_LIMIT = 2**62  # Operations that no pass uses up.


class SharedClusters:
    """The large clusters of one pass over a program.

    Args:
        program: the plan.
        work: the workspace of the calling thread.
        threads: of the CPU; None for all cores that are free.
    """

    def __init__(self, program: Program, work: Workspace, threads: int | None) -> None:
        self.program = program
        self.large: list[int] = []
        self.stops = [len(program.variables)]
        if program.largest < _SHARED:
            return
        entries = program.message_sizes * program.clusters.dim
        self.large = np.flatnonzero(entries >= _SHARED).tolist()
        # Before and after each of these clusters a pass stops.
        self.stops = sorted({*self.large, *(n + 1 for n in self.large), len(entries)})
        self._operations = 2 * entries * (1 + np.diff(program.clusters.in_ptr))  # [v] of the downward pass
        self._crew = Crew(crew_size(threads, program.largest // _SHARED + 1))
        more = [program.workspace(marginals=False) for _ in range(self._crew.size - 1)]
        more = [own._replace(scratch=work.scratch, scratch_start=work.scratch_start) for own in more]
        self._works: list[tuple[Any, ...]] = [tuple(own) for own in (work, *more)]

    def until(self, stop: int, tables: ClusterTables) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the records of clusters and tables for a pass upwards that ends before cluster `stop`."""
        if not self.large:
            return tuple(self.program.clusters), tuple(tables)
        clusters, size = self.program.clusters, tables.size[: self.program.num_groups + stop]
        return tuple(clusters._replace(dim=clusters.dim[:stop])), tuple(tables._replace(size=size))

    def collect(self, n: int, tables: ClusterTables, clock: Clock) -> tuple[int, int]:
        """Begin the upward pass of a large cluster; return the cluster and block from which it goes on, -1 for zero.

        Each thread also scales its part of the message to a largest entry in [1/2, 1). Divisors are powers of two, so
        the parts are brought to one scale without rounding.
        """
        from equifactor.solvers.elimination import elimination_kernels as kernels
        from equifactor.solvers.elimination.cluster_tables import scale_linear

        records, block = self.until(n + 1, tables), 0
        while block == 0:  # If products were lost, the first block is computed again in logs.
            _, block = kernels.collect(n, 0, 1, *records, self._works[0])
        if tables.mode[n] != kernels.LINEAR:  # A lost product would change how all blocks are computed.
            return n, block
        op, (rows, _, blocks) = self.program.num_groups + n, self._shape(n)
        each, out, arena = self._each(n, rows), int(tables.start[op]), tables.arena
        unscaled = self._without_sizes(tables, op + 1, [op])
        parts: list[tuple[int, int, int, float]] = []  # first entry, number of entries, exponent, smallest entry

        def work(thread: int, start: int, stop: int) -> None:
            first, last = start + (start > 0), stop + 1  # The first block is ready.
            kernels.collect(n, start + 1, (stop - start) * each, records[0], unscaled, self._works[thread])
            at, size, low = out + first * rows, (last - first) * rows, np.zeros(1)
            taken = scale_linear(0, at, size, arena, np.zeros(1, bool), low)
            if taken > -math.inf:
                parts.append((at, size, round(taken / math.log(2.0)), float(low[0])))

        def rescale(_: int, k: int, stop: int) -> None:
            at, size, exponent = parts[k][:3]
            if exponent < top:
                arena[at : at + size] *= 2.0 ** (exponent - top)

        self._crew.divide(blocks - 1, self._piece(blocks, each), work, stopped=lambda: clock.stopped)
        if not parts:
            return -1, 0
        top = max(exponent for *_, exponent, _ in parts)
        self._crew.divide(len(parts), 1, rescale)
        tables.is_log[op], tables.scale[1 + n] = False, top * math.log(2.0)
        tables.low[op] = min(low * 2.0 ** (exponent - top) for *_, exponent, low in parts)
        return n + 1, 0

    def _without_sizes(self, tables: ClusterTables, stop: int, operands: list[int]) -> tuple[Any, ...]:
        """Return the tables up to an operand, some with a size of 0: a pass does not scale, clear or copy these."""
        size = tables.size[:stop].copy()
        size[operands] = 0
        return tuple(tables._replace(size=size))

    def maximise(self, n: int, records: tuple[Any, ...], clock: Clock) -> None:
        """Make the upward pass of a large cluster for the best score.

        Args:
            n: the cluster.
            records: the last arguments of `maximise_clusters`, from `start` on.
            clock: after its deadline no further block begins.
        """
        from equifactor.solvers.elimination import elimination_kernels as kernels

        start, *rest = records
        rows, _, blocks = self._shape(n)
        each, start = self._each(n, rows), start[: self.program.num_groups + n + 1]
        own = self.program.clusters
        clusters = tuple(own._replace(dim=own.dim[: n + 1]))

        def work(thread: int, first: int, stop: int) -> None:
            kernels.maximise_clusters(n, first, (stop - first) * each, clusters, self._works[thread], start, *rest)

        self._crew.divide(blocks, self._piece(blocks, each), work, stopped=lambda: clock.stopped)

    def distribute(self, n: int, tables: ClusterTables, p: FloatArray, clock: Clock) -> bool:
        """Make the downward pass of a large cluster; return False if its blocks cannot be shared.

        The probabilities of the separators below are sums over blocks. Along an axis that all of them have, blocks go
        to different sums: these *slabs* are shared. Slabs that differ in an earlier axis follow each other, so that
        every sum has the order that a single thread gives it. The probabilities of the cluster's own variable are
        summed slab by slab, with any number of threads.
        """
        from equifactor.solvers.elimination import elimination_kernels as kernels

        rows, split, blocks = self._shape(n)
        rounds, slabs = self._slabs(n, split)
        if slabs < 2:
            return False
        each, inner = 2 * self._each(n, rows), blocks // (rounds * slabs)
        clusters, most, main = tuple(self.program.clusters), max(1, _PIECE // each), Workspace(*self._works[0])
        operands = self._operands(n)
        below = np.flatnonzero(operands >= self.program.num_groups)  # the operands that are messages
        unsized = self._without_sizes(tables, len(tables.size), operands[below].tolist())
        scratch, sizes = main.scratch, tables.size[operands]

        def clear(_: int, start: int, stop: int) -> None:
            scratch[start:stop] = 0.0

        def work(first: int, thread: int, start: int, stop: int) -> None:
            k = first + start
            block, end = max(1, k * inner), min(blocks - 1, (k + 1) * inner)
            while block < end and not clock.stopped:
                count = min(end - block, most)
                kernels.distribute(n, block, count * each, clusters, unsized, self._works[thread], sums[k])
                block += count

        def copy(e: int, _: int, start: int, stop: int) -> None:
            to, at = int(tables.start[operands[e]]), int(main.scratch_start[e])
            tables.arena[to + start : to + stop] = scratch[at + start : at + stop]

        alone = len(below) == 1  # Sizes tell a pass where the sums of each message begin.
        if alone:
            self._crew.divide(int(sizes[below[0]]), _COPIED, clear)
        kernels.distribute(n, 0, 1, clusters, unsized if alone else tuple(tables), self._works[0], p)
        sums = np.zeros((rounds * slabs, len(p)))
        for first in range(0, rounds * slabs, slabs):
            self._crew.divide(slabs, 1, functools.partial(work, first))
        own = slice(at := int(self.program.clusters.state_start[n]), at + int(self.program.clusters.dim[n]))
        p[own] += sums[:, own].sum(axis=0)
        kernels.distribute(n, blocks - 1, 1, clusters, unsized, self._works[0], p)
        for e in below.tolist():
            self._crew.divide(int(sizes[e]), _COPIED, functools.partial(copy, e))
        return True

    def _operands(self, n: int) -> IntArray:
        """Return the operands of cluster n."""
        c = self.program.clusters
        return c.in_op[c.in_ptr[n] : c.in_ptr[n + 1]]

    def work_above(self, n: int, block: int) -> int:
        """Return the operations of a downward pass from a block of cluster n to the end of the last small cluster."""
        if not self.large:
            return _NO_LIMIT
        below = max((m for m in self.large if m < n), default=-1)
        done = 2 * block * self._each(n, self._shape(n)[0]) if block else 0
        return int(self._operations[below + 1 : n + 1].sum()) - done

    def _piece(self, blocks: int, each: int) -> int:
        """Return the number of blocks that a thread takes at a time, if each has this many operations."""
        return max(1, min(_PIECE // each, blocks // (_PARTS * self._crew.size)))

    def _each(self, n: int, rows: int) -> int:
        """Return the operations of one block of cluster n in an upward pass."""
        c = self.program.clusters
        return int(rows * c.dim[n] * (1 + c.in_ptr[n + 1] - c.in_ptr[n]))

    def _shape(self, n: int) -> tuple[int, int, int]:
        """Return the rows of a block, the number of axes outside a block, and the number of blocks."""
        from equifactor.solvers.elimination.cluster_block import BLOCK

        c = self.program.clusters
        dims: list[int] = c.axis_dim[c.sep_ptr[n] : c.sep_ptr[n + 1]].tolist()
        rows, split = 1, len(dims)
        while split and rows * dims[split - 1] * int(c.dim[n]) <= BLOCK:
            split -= 1
            rows *= dims[split]
        return rows, split, math.prod(dims[:split])

    def _slabs(self, n: int, split: int) -> tuple[int, int]:
        """Return the number of rounds of a downward pass that follow each other, and of slabs in each round."""
        c = self.program.clusters
        first, width = int(c.sep_ptr[n]), int(c.sep_ptr[n + 1] - c.sep_ptr[n])
        steps = c.strides[c.stride_ptr[n] : c.stride_ptr[n + 1]].reshape(-1, width)
        common = (steps[self._operands(n) >= self.program.num_groups, :split] != 0).all(axis=0)
        dims: list[int] = c.axis_dim[first : first + split].tolist()
        if not common.any():
            return 1, 1
        begin = end = int(common.argmax())
        most = min(_SLABS, int(c.dim[n]) * int(self.program.message_sizes[n]) // _LEAST)
        while end < split and common[end] and math.prod(dims[begin:end]) < most:
            end += 1
        rounds, slabs = math.prod(dims[:begin]), math.prod(dims[begin:end])
        return (rounds, slabs) if rounds <= _SLABS else (1, 1)
