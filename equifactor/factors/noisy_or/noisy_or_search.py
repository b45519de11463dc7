"""Maxima of large noisy-ors: the compiled search chooses assignments on the CPU, torch scores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.factors.noisy_or.noisy_or_search_kernels import best_of_all, best_of_each_state
from equifactor.factors.noisy_or.noisy_or_tensors import no_search_while_captured
from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, ON
from equifactor.kernels.pointers import picked, ptr_of
from equifactor.kernels.segments import segment_sum
from equifactor.kernels.semirings import log1mexp, per_row

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.factors.noisy_or.noisy_or_tensors import NoisyOrTensors

_MOST_PARTS = 2**21  # States of assignments that are scored at once. Chosen by hand.


def searched_messages(kind: NoisyOrTensors, values: Tensor, q: Tensor, out: Tensor) -> Tensor:
    """Return `out` [s, ..] with the messages of the factors that are too large for a table."""
    if q.ndim > 1:
        columns = zip(values.unbind(1), q.unbind(1), out.unbind(1), strict=True)
        return torch.stack([searched_messages(kind, *column) for column in columns], dim=1)
    arity = np.diff(kind.group.edge_ptr)[kind.searched]
    part = np.cumsum(2 * arity * arity) // _MOST_PARTS
    for members in np.split(kind.searched, np.flatnonzero(np.diff(part)) + 1):
        out = _messages_of(kind, members, values, q, out)
    return out


def _messages_of(kind: NoisyOrTensors, members: IntArray, values: Tensor, q: Tensor, out: Tensor) -> Tensor:
    """Return `out` [s] with the messages of some factors."""
    rows = _SearchedRows(kind, members)
    arity = np.diff(rows.edge_ptr)
    asked = np.repeat(arity, 2 * arity)  # the length of each assignment, one per edge state
    chosen = np.empty(int(asked.sum()), np.int64)
    best_of_each_state(*rows.arrays(values, q), chosen)
    ptr = ptr_of(asked)
    query = np.repeat(np.arange(len(asked)), asked)
    factor = np.repeat(np.arange(len(arity)), 2 * arity)  # of each assignment
    edge = rows.edges[rows.edge_ptr[factor[query]] + np.arange(ptr[-1]) - ptr[query]]
    own = np.arange(len(asked)) - 2 * rows.edge_ptr[factor]
    is_own = np.arange(ptr[-1]) - ptr[query] == own[query] // 2
    found = _scored(kind, values, q, (query, edge, chosen), members[factor], is_own)
    return out.index_copy(0, kind.index((2 * rows.edges[:, None] + [0, 1]).ravel()), found)


def searched_maxima(kind: NoisyOrTensors, values: Tensor, q: Tensor, out: Tensor) -> Tensor:
    """Return `out` [N] with the maxima of the factors that are too large for a table, or with upper bounds on them."""
    rows = _SearchedRows(kind, kind.searched)
    chosen, gap = np.empty(len(rows.edges), np.int64), np.empty(len(kind.searched))
    best_of_all(*rows.arrays(values, q), chosen, gap)
    query = np.repeat(np.arange(len(gap)), np.diff(rows.edge_ptr))
    found = _scored(kind, values, q, (query, rows.edges, chosen), kind.searched, np.zeros(len(query), bool))
    return out.index_copy(0, kind.index(kind.searched), found + torch.tensor(gap).to(found))


class _SearchedRows:
    """Factors that are searched, as flat arrays of their own."""

    def __init__(self, kind: NoisyOrTensors, members: IntArray) -> None:
        group = kind.group
        self.edge_ptr, self.edges = picked(group.edge_ptr, members)
        self.value_ptr, self.places = picked(group.value_ptr, members)
        self.word_ptr, words = picked(group.word_ptr, members)
        self.words = group.words[words]

    def arrays(self, values: Tensor, q: Tensor) -> tuple[IntArray | FloatArray, ...]:
        """Return the arguments of the kernels, with log values and messages in double precision on the CPU."""
        no_search_while_captured(values)
        log_values = np.minimum(values.detach().double().cpu().numpy()[self.places], 0.0)
        messages = q.detach().double().cpu().numpy().reshape(-1, 2)[self.edges].ravel()
        return self.edge_ptr, self.value_ptr, self.word_ptr, self.words, log_values, messages


def _scored(
    kind: NoisyOrTensors,
    values: Tensor,
    q: Tensor,
    picks: tuple[IntArray, IntArray, IntArray],
    factor: IntArray,
    left_out: np.ndarray,
) -> Tensor:
    """Return [n] the value of each assignment plus the messages that its states receive.

    A part of an assignment is the state of one edge: `picks` holds the assignment, the edge and the state of each part.
    `factor` [n] is the factor of each assignment, and `left_out` marks the parts whose message does not count.
    """
    query, edge, state = (kind.index(a) for a in picks)
    owner = kind.index(factor)
    count = len(factor)
    received = torch.where(kind.index(left_out), 0.0, q.index_select(0, 2 * edge + state))
    active = state == kind.signs[edge]
    fails = torch.where(active, kind.of_edges(values).index_select(0, edge), 0.0)
    log_off = values.index_select(0, kind.first_value[owner]) + segment_sum(fails, query, count)
    heads = kind.heads[owner]
    first = kind.first_edge[owner]
    is_effect = edge == (first + heads - IN_SCOPE)[query]
    present = segment_sum((is_effect & active).long(), query, count) > 0
    present = torch.where(heads >= IN_SCOPE, present, heads == ON)
    value = torch.where(per_row(present, log_off), log1mexp(log_off), log_off)
    return segment_sum(received, query, count) + value
