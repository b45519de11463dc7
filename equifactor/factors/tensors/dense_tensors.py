"""Factors of any kind through their dense tables, grouped by shape: for small scopes, and for kinds without more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.base.errors import ModelError
from equifactor.factors.tensors.kind_tensors import KindTensors
from equifactor.factors.tensors.tensor_messages import reduce_tables
from equifactor.graph.factor_rows import by_shape
from equifactor.graph.flat_graph import FactorGroup
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray, Semiring
    from equifactor.graph.flat_graph import StructuredGroup

_LARGEST = 2**16  # entries of the largest table that a kind without messages of its own gets


class DenseBlocks:
    """Some factors of a group, one block per table shape, and where their edge states are."""

    def __init__(self, group: StructuredGroup, members: IntArray, device: torch.device) -> None:
        rows = group.rows(np.zeros(int(group.value_ptr[-1]))).take(members)
        state_ptr = ptr_of(group.card)
        groups: list[FactorGroup] = []
        self.members: list[IntArray] = []  # of each block the factors of the group
        self.states: list[tuple[Tensor, Tensor]] = []  # of each block all assignments [A, k], and the members
        order = [np.zeros(0, np.int64)]
        slot = entry = 0
        for places in by_shape(rows):
            factors, count = members[places], len(places)
            shape = tuple(rows.card[rows.scope_ptr[places[0]] : rows.scope_ptr[places[0] + 1]].tolist())
            slots = []
            for j, d in enumerate(shape):
                order.append((state_ptr[group.edge_ptr[factors] + j][:, None] + np.arange(d)).ravel())
                slots.append(slice(slot, slot + count * d))
                slot = slots[j].stop
            block = slice(entry, entry + count * math.prod(shape))
            groups.append(FactorGroup(shape, np.arange(count), block, tuple(slots), ()))
            entry = block.stop
            digits = np.indices(shape).reshape(len(shape), -1).T
            self.members.append(factors)
            self.states.append((torch.tensor(digits, device=device), torch.tensor(factors, device=device)))
        self.groups = tuple(groups)
        self.order = torch.tensor(np.concatenate(order), device=device)  # [s'] edge states, slot after slot

    def messages(self, tables: Sequence[Tensor], q: Tensor, semiring: Semiring) -> Tensor:
        """Messages [s, ..] through tables [n, A, ..] of every block; -inf at the edge states of other factors."""
        if not self.groups:
            return torch.full_like(q, -torch.inf)
        flat = torch.cat([t.reshape(-1, *t.shape[2:]) for t in tables])
        found = reduce_tables(self.groups, flat, q.index_select(0, self.order), semiring)
        return torch.full_like(q, -torch.inf).index_copy(0, self.order, found)


class TableTensors(KindTensors):
    """What a kind gets that states no messages in torch: its tables, where they are small.

    They are made on the CPU from the log values, so that a gradient reaches the messages but not the values.
    """

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        rows = group.rows(np.zeros(int(group.value_ptr[-1])))
        largest = float(rows.sum_of_edges(np.log2(group.card)).max())
        if largest > math.log2(_LARGEST):
            raise ModelError(
                f"{kind_name(group.kind)} states no messages in torch, and one with 2^{largest:.0f} table entries is "
                "too large for its table; equifactor.solvers.lower(graph).graph is an equal graph of small tables"
            )
        self.blocks = DenseBlocks(group, np.arange(group.num_factors), device)

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """The messages through the tables of all factors, channel by channel where there are some."""
        if values.ndim == 1:
            return self.blocks.messages(self._tables(values), q, semiring)
        columns = zip(values.unbind(1), q.unbind(1), strict=True)
        return torch.stack([self.messages(v, column, semiring) for v, column in columns], dim=1)

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """By the class of the kind."""
        rows = self.group.rows(_numpy(values))
        scores = kind_class(self.group.kind).log_scores(rows, states.cpu().numpy())
        return torch.tensor(scores, dtype=values.dtype, device=values.device)

    def _tables(self, values: Tensor) -> list[Tensor]:
        rows, cls = self.group.rows(_numpy(values)), kind_class(self.group.kind)
        tables = [cls.tables(rows.take(members)).reshape(len(members), -1) for members in self.blocks.members]
        return [torch.tensor(t, dtype=values.dtype, device=values.device) for t in tables]


def _numpy(values: Tensor) -> FloatArray:
    return np.asarray(values.detach().double().cpu().numpy())
