"""A model whose variables are split until its tables stay within a bound, and the arrays to run it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES
from equifactor.base.typing import FloatArray, IntArray
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.program import Program, build_program

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CloneGroups(NamedTuple):
    """The variables that have several clones, and where their messages are."""

    dim: IntArray  # [S] states of each split variable
    state: IntArray  # [S] first state of each split variable in the original graph
    start: IntArray  # [S] first entry of each split variable in m and u, which go clone by clone
    clone_ptr: IntArray  # [S+1] pointer to the clones of each split variable
    p_start: IntArray  # [C'] first state of each of these clones in the relaxed graph


class TableLimits(NamedTuple):
    """The limits on the tables of a relaxation."""

    entries: float  # entries of all cluster tables
    kept: float  # entries of all messages, plus a second copy of those that one cluster receives
    largest: float  # log2 of the entries of the largest cluster table


class SplitRule(NamedTuple):
    """How eliminations are priced; see `splitting_kernels.split_graph`."""

    balance: float
    noise: float


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A splitting of the variables of a structure into clones.

    V, F, E, X count variables, factors, edges and states of the original; C and x count clones and their states. The
    relaxed graph has the factors of the original, and one more per clone of a split variable: its message u.
    """

    original: Structure
    clone_of_edge: IntArray  # [E]
    var_of_clone: IntArray  # [C] in the order of elimination

    @classmethod
    def make(
        cls, structure: Structure, bound: float, worth: FloatArray, rule: SplitRule, rng: NDArray[np.uint64]
    ) -> Relaxation:
        """Split variables so that no table except factors has over 2^bound entries; `worth` [V] prices the splits."""
        from equifactor.solvers.regions.splitting_kernels import split_graph

        s = structure
        return cls(s, *split_graph(s.scope_ptr, s.scope_vars, np.log2(s.card), worth, float(bound), *rule, rng))

    def merged(self, worth: FloatArray, limits: TableLimits, attempts: int) -> Relaxation:
        """Return the relaxation with clones joined again while tables stay within the limits; see `merge_clones`."""
        from equifactor.solvers.regions.merging_kernels import merge_clones

        s = self.original
        cost = worth * (self.num_splits > 0)
        by_worth = np.argsort(-cost, kind="stable")[: np.count_nonzero(self.num_splits)]
        arrays = s.scope_ptr, self.clone_of_edge, self.var_of_clone, np.log2(s.card), by_worth
        return Relaxation(s, *merge_clones(*arrays, tuple(limits), attempts))

    @cached_property
    def num_splits(self) -> IntArray:
        """[V] how often each variable was split: the number of its clones minus one."""
        return np.bincount(self.var_of_clone, minlength=self.original.num_vars) - 1

    @property
    def exact(self) -> bool:
        """Whether nothing was split, so that one pass gives the exact answer."""
        return len(self.var_of_clone) == self.original.num_vars

    @cached_property
    def _split_clones(self) -> IntArray:
        """[C'] clones of split variables, variable by variable."""
        split = np.flatnonzero(self.num_splits[self.var_of_clone])
        return split[np.argsort(self.var_of_clone[split], kind="stable")]

    @cached_property
    def structure(self) -> Structure:
        """The relaxed graph."""
        s, extra = self.original, self._split_clones
        scope_ptr = np.concatenate((s.scope_ptr, s.num_edges + 1 + np.arange(len(extra))))
        scope_vars = np.concatenate((self.clone_of_edge, extra))
        return Structure.build(s.card[self.var_of_clone], scope_ptr, scope_vars)

    @cached_property
    def order(self) -> Order:
        """The order in which the clones were made, subtree by subtree."""
        from equifactor.solvers.elimination import order_kernels as kernels

        # Only edges of the original join clones, and they are much cheaper to get than the whole structure.
        num = len(self.var_of_clone)
        graph = kernels.adjacency(num, self.original.scope_ptr, self.clone_of_edge)
        places = kernels.post_order(kernels.clusters(np.arange(num), *graph)[2])
        sep_ptr, separators, parent = kernels.clusters(places, *graph)
        return Order(places, sep_ptr, separators, parent, 1)

    @cached_property
    def _message_bits(self) -> FloatArray:
        own = np.log2(self.original.card[self.var_of_clone])[self.order.variables]
        running = np.concatenate(([0.0], np.cumsum(own[self.order.separators])))
        return running[self.order.sep_ptr[1:]] - running[self.order.sep_ptr[:-1]]

    @cached_property
    def entries(self) -> float:
        """Entries of all cluster tables: the work of one pass."""
        own = self.original.card[self.var_of_clone][self.order.variables]
        return float((np.exp2(self._message_bits) * own).sum())

    @cached_property
    def largest(self) -> float:
        """log2 of the entries of the largest cluster table."""
        own = np.log2(self.original.card[self.var_of_clone])[self.order.variables]
        return float((self._message_bits + own).max(initial=0.0))

    @cached_property
    def memory(self) -> float:
        """Bytes for one pass up and down: all messages, plus a second copy of those that one cluster receives."""
        message = np.exp2(self._message_bits)
        parent = self.order.parent
        received = np.bincount(parent[parent >= 0], message[parent >= 0])
        tables = 2.0 * self.original.num_entries
        return FLOAT_BYTES * (float(message.sum()) + float(received.max(initial=0.0)) + tables)

    @cached_property
    def program(self) -> Program:
        """Index arrays for the kernels of elimination."""
        return build_program(self.structure, self.order)

    @cached_property
    def groups(self) -> CloneGroups:
        """The clones of each split variable."""
        s, clones = self.original, self._split_clones
        variables = np.flatnonzero(self.num_splits)
        clone_ptr = ptr_of(self.num_splits[variables] + 1)
        dim = s.card[variables]
        start = ptr_of(dim * np.diff(clone_ptr))[:-1]
        return CloneGroups(dim, s.state_ptr[variables], start, clone_ptr, self.structure.state_ptr[clones])

    @cached_property
    def state_of_clone_state(self) -> IntArray:
        """[x] state of the original that each state of a clone stands for."""
        s = self.original
        first = np.repeat(s.state_ptr[:-1][self.var_of_clone] - self.structure.state_ptr[:-1], self.structure.card)
        return first + np.arange(len(first))
