"""Messages of noisy-ors in torch.

Sums: a pair holds the log sums where no cause has fired and where some has; a tree over the causes joins the pairs.
Maxima: a small scope has its table. For a larger one, the search of the compiled kernels finds the best assignment for
each message on the CPU. Torch scores the assignment, so that gradients are those of this assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.base.errors import ModelError
from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, OFF, ON
from equifactor.factors.tensors.dense_tensors import DenseBlocks
from equifactor.factors.tensors.factor_trees import FactorTree
from equifactor.factors.tensors.signed_tensors import SignedTensors, first_only, none_or_some, some_of_two
from equifactor.kernels.pointers import ptr_of, row_of
from equifactor.kernels.segments import segment_sum
from equifactor.kernels.semirings import log1mexp, per_row, plus, segment_total

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray, Semiring
    from equifactor.graph.flat_graph import StructuredGroup

_LARGEST_TABLE = 10  # Most variables of a factor whose maxima are taken over its table. Chosen by hand.


class NoisyOrTensors(SignedTensors):
    """Noisy-ors of a batch; the message of an effect in the scope goes to the root, and the causes send it theirs."""

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        super().__init__(group, device)
        edge_ptr, word_ptr = group.edge_ptr, group.word_ptr
        heads = group.words[word_ptr[:-1]]
        signs = np.delete(group.words, word_ptr[:-1])
        factor = row_of(edge_ptr)
        has_effect = heads >= IN_SCOPE
        effect = (edge_ptr[:-1] + heads - IN_SCOPE)[has_effect]
        is_cause = np.ones(len(signs), bool)
        is_cause[effect] = False
        causes = np.flatnonzero(is_cause)
        cause_ptr = ptr_of(np.diff(edge_ptr) - has_effect)
        self.signs, self.heads = self.index(signs), self.index(heads)
        self.causes, self.effects = self.index(causes), self.index(effect)
        self.with_effect = self.index(np.flatnonzero(has_effect))
        # The inhibitors of a factor follow its leak, in the order of its causes.
        value = group.value_ptr[:-1][factor[causes]] + 1 + np.arange(len(causes)) - cause_ptr[factor[causes]]
        self.inhibitor = self.index(value)
        self.inhibitor_of_edge = self.index(np.where(is_cause, 0, group.value_ptr[-1]))
        self.inhibitor_of_edge[self.causes] = self.inhibitor
        self.order = self.index(np.argsort(np.concatenate((causes, effect))))
        self.tree = FactorTree.of(cause_ptr, device)
        small = np.diff(edge_ptr) <= _LARGEST_TABLE
        self.tables = DenseBlocks(group, np.flatnonzero(small), device)
        self.searched: IntArray = np.flatnonzero(~small)

    def messages(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Return the messages of either semiring."""
        if semiring == "sum":
            return self._sums(values, q)
        out = self._maxima_of_tables(values, q)
        if not len(self.searched):
            return out
        from equifactor.factors.noisy_or.noisy_or_search import searched_messages

        return searched_messages(self, values, q, out)

    def totals(self, values: Tensor, q: Tensor, semiring: Semiring) -> Tensor:
        """Return sums or maxima; a search that is cut short gives its bound, so a maximum is never too low."""
        if semiring == "sum" or not len(self.searched):
            return super().totals(values, q, semiring)
        met = (q + self._maxima_of_tables(values, q)).index_select(0, self.state_of_first)
        found = segment_total(met, self.factor_of_first, self.num_factors, semiring)
        from equifactor.factors.noisy_or.noisy_or_search import searched_maxima

        return searched_maxima(self, values, q, found)

    def _sums(self, values: Tensor, q: Tensor) -> Tensor:
        pairs = self.pairs(q)  # [e, 2, ..] resting, active
        of_cause, of_effect = pairs.index_select(0, self.causes), pairs.index_select(0, self.effects)
        leak, fails = values.index_select(0, self.first_value), values.index_select(0, self.inhibitor)
        present, fires = log1mexp(leak), log1mexp(fails)
        rest, active = of_cause[:, 0], of_cause[:, 1]
        leaves = torch.stack((plus(rest, active + fails, "sum"), active + fires), dim=1)
        identity = first_only(leaves)
        found = self.tree.up(leaves, identity, some_of_two("sum"))
        heads = per_row(self.heads, leak)
        none = torch.where(heads == ON, -torch.inf, torch.zeros_like(leak))
        some = torch.where(heads == OFF, -torch.inf, torch.zeros_like(leak))
        none = none.index_copy(0, self.with_effect, of_effect[:, 0])
        some = some.index_copy(0, self.with_effect, of_effect[:, 1])
        roots = torch.stack((plus(leak + none, present + some, "sum"), some), dim=1)
        none, some = self.tree.down(found, roots, identity, none_or_some("sum")).unbind(1)
        to_causes = torch.stack((none, plus(fails + none, fires + some, "sum")), dim=1)
        none, some = found[-1].index_select(0, self.with_effect).unbind(1)
        leak, present = (v.index_select(0, self.with_effect) for v in (leak, present))
        to_effects = torch.stack((leak + none, plus(some, present + none, "sum")), dim=1)
        return self.unpaired(torch.cat((to_causes, to_effects)).index_select(0, self.order))

    def _maxima_of_tables(self, values: Tensor, q: Tensor) -> Tensor:
        """Return messages [s, ..] of the factors with small scopes, -inf for the others."""
        tables = [self._scores(values, digits, members) for digits, members in self.tables.states]
        return self.tables.messages(tables, q, "max")

    def log_scores(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the log probability of the effect, or of its absence."""
        active = states == self.signs
        fails = torch.where(active, self.of_edges(values), 0.0)  # a product with 0 would make NaN of an infinite log
        log_off = values[self.first_value] + segment_sum(fails.T, self.factor_of_edge, self.num_factors).T
        return torch.where(self._is_present(active), log1mexp(log_off), log_off)

    def of_edges(self, values: Tensor) -> Tensor:
        """Return [e, ..] the log inhibitor of each cause, 0 for an effect."""
        padded = torch.cat((values, values.new_zeros(1, *values.shape[1:])))
        return padded.index_select(0, self.inhibitor_of_edge)

    def _is_present(self, active: Tensor) -> Tensor:
        """Return [A, N] whether the effect is present, from `active` [A, e] or because it is known."""
        known = (self.heads == ON).expand(len(active), -1)
        return known.index_copy(1, self.with_effect, active[:, self.effects])

    def _scores(self, values: Tensor, digits: Tensor, members: Tensor) -> Tensor:
        """Return [n, A, ..] log tables of some factors of one arity k, at the assignments [A, k]."""
        first = self.first_edge[members]
        edges = first[:, None] + torch.arange(digits.shape[1], device=self.device)  # [n, k]
        active = digits == self.signs[edges][:, None]  # [n, A, k]
        log_off = values.index_select(0, self.first_value[members]).unsqueeze(1)
        fails = self.of_edges(values)
        for j in range(digits.shape[1]):
            own = fails.index_select(0, edges[:, j]).unsqueeze(1)
            log_off = log_off + torch.where(per_row(active[:, :, j], own), own, 0.0)
        heads = self.heads[members][:, None, None]
        place = (heads - IN_SCOPE).clamp_min(0).expand(-1, len(digits), 1)
        present = torch.where(heads[:, :, 0] >= IN_SCOPE, active.gather(2, place)[:, :, 0], heads[:, :, 0] == ON)
        return torch.where(per_row(present, log_off), log1mexp(log_off), log_off)


def no_search_while_captured(values: Tensor) -> None:
    """Raise `ModelError` while a CUDA graph is captured, when the CPU cannot take part."""
    if values.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise ModelError(
            f"The maxima of a noisy_or over more than {_LARGEST_TABLE} variables are searched for on the CPU, which a "
            "captured CUDA graph cannot do."
        )
