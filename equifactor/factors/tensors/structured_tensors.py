"""Messages through structured factors of any kind in torch.

A kind names the class of its tensors in its attribute `tensors`. The factors of a kind without one are small dense
tables here (`TableTensors`).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.factors.structured_pairs import StructuredPairs
from equifactor.graph import FlatGraph
from equifactor.graph.kinds import kind_class
from equifactor.kernels.segments import finite, segment_sum

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring
    from equifactor.factors.tensors.kind_tensors import KindTensors
    from equifactor.graph.flat_graph import StructuredGroup

Flat = FlatGraph[Tensor]


@dataclass(frozen=True, eq=False)
class StructuredTensors:
    """The factors of one group of a batch, ready for its log values."""

    group: StructuredGroup
    kind: KindTensors

    def messages(
        self,
        log_phi: Float[Tensor, " T *H"],
        msg_vf: Float[Tensor, " S *H"],
        semiring: Semiring,
        *,
        first: int = 0,
        scaled_by: Semiring | None = None,
    ) -> Float[Tensor, " s *H"]:
        """Return log messages of the group, right up to a constant per edge.

        Received messages are scaled edge by edge to a sum (or a largest entry) of 1, because sums of a thousand large
        logs would lose digits. A constant does not matter to a message.

        Args:
            log_phi: the log values of all factors.
            msg_vf: the messages that all factors receive.
            semiring: of the messages.
            first: the number of the edge state that `msg_vf` begins with.
            scaled_by: the semiring of the scale, that of the messages unless stated; messages of both semirings are
                comparable where it is the same.
        """
        q, _ = self._shifted(msg_vf, first, scaled_by or semiring)
        return self.kind.messages(log_phi[self.group.entries], q, semiring)

    def log_totals(
        self, log_phi: Float[Tensor, " T"], messages: Float[Tensor, " S"], semiring: Semiring
    ) -> Float[Tensor, " N"]:
        """Return the sum (or an upper bound on the maximum) over all assignments of each factor, messages included."""
        q, top = self._shifted(messages, 0, semiring)
        found = self.kind.totals(log_phi[self.group.entries], q, semiring)
        return found + segment_sum(finite(top), self.kind.factor_of_edge, self.kind.num_factors)

    def normalized(self, values: Float[Tensor, " s"], semiring: Semiring) -> Float[Tensor, " s"]:
        """Return messages of the group, scaled edge by edge."""
        return self.kind.normalized(values, semiring)

    def _shifted(self, messages: Tensor, first: int, semiring: Semiring) -> tuple[Tensor, Tensor]:
        """Return the messages [s, ..] to the group, minus their sum or maximum on each edge [e, ..], and the latter."""
        states = self.group.states
        q = messages[states.start - first : states.stop - first]
        top = self.kind.over_states(q.detach(), semiring)
        return q - finite(top).index_select(0, self.kind.edge_of_state), top


def structured_of(g: Flat, fixed: bool | None = None) -> tuple[StructuredTensors, ...]:
    """Return the structured groups of a batch with index tensors, which are laid out once for a structure.

    Some kinds read the log values, which waits for the device and is impossible while a CUDA graph is captured. With
    `fixed` no gradient in the log values will be asked for; by default this follows from the log values.
    """
    if not g.structured:
        return ()
    if "kinds" not in g.cache:
        with torch.inference_mode(False):  # A later caller may want gradients.
            kinds = [_kind_tensors(group, g.log_phi.device) for group in g.structured]
            if g.log_phi.device.type == "cuda":  # While a CUDA graph is captured no index can be laid out.
                for kind in kinds:
                    kind.given(None, True)
            g.cache["kinds"] = kinds
    captured = g.log_phi.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    values = None if captured else g.log_phi.detach().double().cpu().numpy()
    if fixed is None:
        fixed = not (g.log_phi.requires_grad and torch.is_grad_enabled())
    with torch.inference_mode(False):
        return tuple(
            StructuredTensors(group, kind.given(None if values is None else values[group.entries], fixed))
            for group, kind in zip(g.structured, g.cache["kinds"], strict=True)
        )


def structured_scores(g: Flat, states: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return for each structured group its factors [N] and their log values [N] at the states [V] of the variables."""
    found = []
    for group, own in zip(g.structured, structured_of(g), strict=True):
        picked = states[g.var_of_edge[group.edges]][None]
        found.append((group.factors, own.kind.log_scores(g.log_phi[group.entries], picked)[0]))
    return found


class PairTables:
    """The small dense tables of structured factors over two variables. Index tensors are laid out once."""

    def __init__(self, kinds: Sequence[StructuredTensors]) -> None:
        self.places = StructuredPairs([own.group for own in kinds])
        self.index = [
            None if members is None else (own.kind.index(members[0]), own.kind.index(members[1]))
            for own, members in zip(kinds, self.places.members, strict=True)
        ]

    def values(self, kinds: Sequence[StructuredTensors], log_phi: Float[Tensor, " T"]) -> Float[Tensor, " n"]:
        """Return the entries of all tables."""
        found = [log_phi[:0]]
        for own, index in zip(kinds, self.index, strict=True):
            if index is not None:
                factors, states = index
                scores = own.kind.log_scores(log_phi[own.group.entries], states)  # [A, N]
                found.append(scores.T.index_select(0, factors).reshape(-1))
        return torch.cat(found)


def _kind_tensors(group: StructuredGroup, device: torch.device) -> KindTensors:
    """Return the tensors of one group; only the file of its own kind is imported."""
    place = kind_class(group.kind).tensors or "equifactor.factors.tensors.dense_tensors:TableTensors"
    module, _, name = place.partition(":")
    cls: type[KindTensors] = getattr(importlib.import_module(module), name)
    return cls(group, device)
