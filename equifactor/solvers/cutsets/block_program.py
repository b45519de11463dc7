"""One block of variables prepared for sums and draws: its elimination, and how the cutset slices the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.solvers.elimination.program import (
    Clusters,
    ClusterTables,
    FactorGroups,
    Program,
    Workspace,
    build_program,
    read_only,
)

if TYPE_CHECKING:
    from equifactor.graph.structure import Structure
    from equifactor.solvers.cutsets.cutset_choice import Cut

_Record = TypeVar("_Record", bound=tuple[Any, ...])


class Slicing(NamedTuple):
    """How the states of the cutset move the first entry of every table."""

    table_ptr: IntArray  # [F] first entry of each table of the model
    begin: IntArray  # [F+1] first entry of each table given the cutset; a pass writes it, `FactorGroups` reads it
    factor: IntArray  # [E_c] factor of each edge to a cut variable
    variable: IntArray  # [E_c] the cut variable
    stride: IntArray  # [E_c] its stride in the table
    cut: IntArray  # the variables of the cutset
    constants: IntArray  # factors whose variables are all cut
    variables: IntArray  # [v] variable of the model that each cluster eliminates
    separators: IntArray  # places of the separator variables of all clusters
    group_scale: FloatArray  # [G] log of what was divided out of each group of factors


class BlockProgram(NamedTuple):
    """All arrays of one block, as kernels take them."""

    slicing: Slicing
    groups: FactorGroups
    clusters: Clusters
    tables: ClusterTables
    work: Workspace

    @property
    def records(self) -> tuple[tuple[object, ...], ...]:
        """The records as plain tuples, for a call from Python into a kernel."""
        return tuple(tuple(record) for record in self)

    def twin(self, memory: SharedMemory) -> BlockProgram:
        """Return the same block for another thread, with memory of its own."""
        arena, scratch = (
            theirs if len(theirs) >= len(own) else np.empty_like(own)
            for own, theirs in zip((self.tables.arena, self.work.scratch), memory, strict=True)
        )
        slicing, none = _copied(self.slicing), arena[:0]
        return BlockProgram(
            slicing, self.groups._replace(table_ptr=read_only(slicing.begin)), self.clusters,
            _copied(self.tables._replace(arena=none))._replace(arena=arena),
            _copied(self.work._replace(scratch=none))._replace(scratch=scratch),
        )  # fmt: skip


class SharedMemory(NamedTuple):
    """Memory that is shared by blocks, as they do not run at the same time."""

    arena: FloatArray  # tables and messages
    scratch: FloatArray  # scratch of a downward pass


def _copied(record: _Record) -> _Record:
    """Return a record with copies of its arrays; a copy of a read-only array could be written to, so it stays."""
    fields: Any = (a.copy() if isinstance(a, np.ndarray) and a.flags.writeable else a for a in record)
    return type(record)(*fields)


def shared_memory(structure: Structure, kept: float) -> SharedMemory:
    """Return memory for blocks whose messages have at most `kept` entries. Untouched pages cost nothing."""
    return SharedMemory(np.empty(int(kept) + 2 * structure.num_entries), np.empty(int(kept)))


def build_block(structure: Structure, cut: Cut, memory: SharedMemory) -> BlockProgram:
    """Return the arrays of one block.

    Args:
        structure: the structure of the model.
        cut: the cutset, and the order of the other variables.
        memory: memory for the tables; a block that needs more allocates its own.
    """
    s = structure
    stride = _strides(s)
    in_block = ~cut.is_cut[s.scope_vars]
    program = build_program(cut.structure, cut.order, stride[in_block])
    begin = s.table_ptr.copy()
    groups = program.groups._replace(table_ptr=read_only(begin))  # like the pointers of a graph
    variables = cut.variables[program.variables]
    clusters = program.clusters._replace(state_start=s.state_ptr[variables])
    edges = np.flatnonzero(~in_block)
    slicing = Slicing(
        table_ptr=s.table_ptr[:-1], begin=begin, factor=s.factor_of_edge[edges], variable=s.scope_vars[edges],
        stride=stride[edges], cut=np.flatnonzero(cut.is_cut),
        constants=np.flatnonzero(np.diff(cut.structure.scope_ptr) == 0), variables=variables,
        separators=program.separators, group_scale=np.zeros(program.num_groups),
    )  # fmt: skip
    work = program.workspace(marginals=True, inside=True)
    if len(work.scratch) <= len(memory.scratch):
        work = work._replace(scratch=memory.scratch)
    return BlockProgram(slicing, groups, clusters, _tables(program, memory.arena), work)


def _tables(program: Program, arena: FloatArray) -> ClusterTables:
    start, length = program.starts(reuse=False)
    operands, count = len(start), len(program.variables)
    if len(arena) < length:
        arena = np.empty(length)
    return ClusterTables(
        start=start, size=program.size, arena=arena, is_log=np.zeros(operands, bool), low=np.zeros(operands),
        mode=np.zeros(count, np.int64), scale=np.zeros(1 + count),
    )  # fmt: skip


def _strides(s: Structure) -> IntArray:
    from equifactor.solvers.elimination.program_kernels import table_strides

    strides: IntArray = table_strides(s.scope_ptr, s.scope_vars, s.card)
    return strides
