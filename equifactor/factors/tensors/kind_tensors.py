"""The base class of the tensors of a kind, by which its factors have messages of their own in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from equifactor.kernels.pointers import ptr_of, row_of
from equifactor.kernels.segments import finite
from equifactor.kernels.semirings import segment_total, total

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, Semiring
    from equifactor.graph.flat_graph import StructuredGroup


class KindTensors(ABC):
    """All factors of one kind in a batch: N factors, e edges, s edge states and t log values, counted from 0.

    An object holds index tensors, which follow from the structure alone, on one device. Log values [t] and messages [s]
    may have channels behind their first axis. Everything is differentiable in both, and true zeros make no NaN.
    """

    def __init__(self, group: StructuredGroup, device: torch.device) -> None:
        self.group, self.device = group, device
        self.num_factors, self.num_edges = group.num_factors, len(group.card)
        self.num_states = int(group.card.sum())
        cards = set(group.card.tolist())
        # The number of states of every edge, None if edges differ.
        self.card = cards.pop() if len(cards) == 1 else None
        self.first_value = self.index(group.value_ptr[:-1])  # [N]
        self.factor_of_edge = self.index(row_of(group.edge_ptr))  # [e]
        state_ptr = ptr_of(group.card)
        self.edge_of_state = self.index(row_of(state_ptr))  # [s]
        self.first_state = self.index(state_ptr[:-1])  # [e]
        first = group.edge_ptr[:-1]  # the first edge of each factor and its states
        self.first_edge = self.index(first)  # [N]
        count = group.card[first]
        self.state_of_first = self.index(
            np.repeat(state_ptr[first] - ptr_of(count)[:-1], count) + np.arange(count.sum())
        )
        self.factor_of_first = self.index(np.repeat(np.arange(self.num_factors), count))

    def index(self, values: np.ndarray) -> Tensor:
        """Return an array as a tensor on the device of this object."""
        return torch.tensor(values, device=self.device)

    @abstractmethod
    def messages(
        self, values: Float[Tensor, " t *H"], q: Float[Tensor, " s *H"], semiring: Semiring
    ) -> Float[Tensor, " s *H"]:
        """Return outgoing log messages from incoming ones, which must be scaled: sums of large logs lose digits."""

    @abstractmethod
    def log_scores(self, values: Float[Tensor, " t"], states: Int[Tensor, "A e"]) -> Float[Tensor, "A N"]:
        """Return log values of the factors at A assignments of states to their edges."""

    def totals(self, values: Float[Tensor, " t"], q: Float[Tensor, " s"], semiring: Semiring) -> Float[Tensor, " N"]:
        """Return the sum (or the maximum, never too low) over all assignments of each factor, messages included."""
        met = (q + self.messages(values, q, semiring)).index_select(0, self.state_of_first)
        return segment_total(met, self.factor_of_first, self.num_factors, semiring)

    def given(self, values: FloatArray | None, fixed: bool) -> KindTensors:
        """Return the same factors, for these log values [t]; None if they may not be read.

        A kind whose messages are cheaper for some values, such as a count whose values are equal from some number on,
        returns an object that relies on them. With `fixed` no gradient in the log values is asked for.
        """
        return self

    # ---- for all kinds ----------------------------------------------------------------------------------

    def over_states(self, values: Float[Tensor, " s *H"], semiring: Semiring) -> Float[Tensor, " e *H"]:
        """Return the sum of the semiring over the states of each edge."""
        if self.card is not None:
            return total(values.reshape(self.num_edges, self.card, *values.shape[1:]), 1, semiring)
        return segment_total(values, self.edge_of_state, self.num_edges, semiring)

    def normalized(self, values: Float[Tensor, " s *H"], semiring: Semiring) -> Float[Tensor, " s *H"]:
        """Return messages whose states sum to 1 (sum) or have maximum 1 (max); one without any support stays -inf."""
        return values - finite(self.over_states(values, semiring)).index_select(0, self.edge_of_state)
