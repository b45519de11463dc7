"""The inputs of a chain: checked, with start and end added, and without the places outside the mask.

A mask may be false anywhere, for example at the second and later pieces of a word. The places within the mask are moved
to the front, the sums run on chains without gaps, and `at_places` moves answers back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from equifactor.base.errors import ModelError, brief


class Chains(NamedTuple):
    """Chains without gaps. Place k of a row is the k-th place of its mask."""

    emissions: Tensor  # [B, T, d] log potentials, including those of the start and the end
    transitions: Tensor  # [B or 1, T-1 or 1, d, d] from place k to place k + 1
    lengths: Tensor  # [B] the number of places within the mask
    mask: Tensor | None  # [B, T] the places that belong to each row; None: all
    order: Tensor | None  # [B, T] the places as given of the places here; None: the same

    def at_places(self, values: Tensor, outside: float) -> Tensor:
        """Return values [B, T, ..] or [B, T-1, ..] of places here at the places as given, others as `outside`.

        Values of pairs [B, T-1, ..] belong to their first place. They must be 0 beyond the last pair of a row.
        """
        if self.mask is None:
            return values
        mask = _like(self.mask[:, : values.shape[1]], values)
        if self.order is not None:
            rank = (self.mask.long().cumsum(1) - 1).clamp_min(0)[:, : values.shape[1]]
            values = values.gather(1, _like(rank, values).expand(values.shape))
        return torch.where(mask, values, outside)

    def labels(self, tags: Tensor) -> Tensor:
        """Return checked labels [B, T] of places here, from labels of the places as given; 0 beyond the ends."""
        if not isinstance(tags, Tensor):
            raise ModelError(f"tags must be a tensor, found {brief(tags)}.")
        batch, places, d = self.emissions.shape
        if tags.shape != (batch, places):
            found = tuple(tags.shape)
            raise ModelError(f"tags must have shape {(batch, places)}, like the emissions, found {found}.")
        if tags.dtype.is_floating_point or tags.dtype == torch.bool:
            raise ModelError(f"tags must be whole numbers, found a tensor of {tags.dtype}.")
        if self.order is not None:
            tags = tags.gather(1, self.order)
        tags = torch.where(self._within(), tags, 0).long()
        if seen((tags < 0) | (tags >= d)):
            raise ModelError(f"A tag is not one of the {d} states (0-{d - 1}).")
        return tags

    def log_scores(self, labels: Tensor) -> Tensor:
        """Return the log score [B] of one label sequence [B, T] per row: the sum of its potentials."""
        e, a, within = self.emissions, self.transitions, self._within()
        batch, places, d = e.shape
        score = torch.where(within, e.gather(2, labels[:, :, None]).squeeze(2), 0.0).sum(1)
        picked = labels[:, :-1] * d + labels[:, 1:]
        if a.shape[:2] == (1, 1):
            pair = a.reshape(-1).index_select(0, picked.reshape(-1)).reshape(picked.shape)
        else:
            tables = a.expand(batch, places - 1, d, d).reshape(batch, places - 1, -1)
            pair = tables.gather(2, picked[:, :, None]).squeeze(2)
        return score + torch.where(within[:, 1:], pair, 0.0).sum(1)

    def _within(self) -> Tensor:
        """Return [B, T] whether a place here lies before the end of its row."""
        return torch.arange(self.emissions.shape[1], device=self.lengths.device) < self.lengths[:, None]


def chains(
    num_states: int,
    emissions: Tensor,
    transitions: Tensor,
    mask: Tensor | None,
    start: Tensor | None,
    end: Tensor | None,
) -> Chains:
    """Return chains without gaps; raise `ModelError` for shapes and types that do not fit.

    Args:
        num_states: d.
        emissions: [B, T, d].
        transitions: [d, d], [T-1, d, d] or [B, T-1, d, d]; entry t leads from place t to the next one in the mask.
        mask: [B, T], true at least once in each row; None: all places.
        start: [d] log potentials of the first place of each row, or None.
        end: [d] log potentials of the last place of each row, or None.
    """
    d = num_states
    if not isinstance(emissions, Tensor) or emissions.layout != torch.strided:
        raise ModelError(f"emissions must be a dense tensor of shape [B, T, {d}], found {brief(emissions)}.")
    for name, given in (("mask", mask), ("transitions", transitions)):
        if given is not None and not (isinstance(given, Tensor) and given.layout == torch.strided):
            raise ModelError(f"{name} must be a dense tensor or None, found {brief(given)}.")
    if emissions.ndim != 3 or emissions.shape[2] != d or not emissions.shape[1]:
        raise ModelError(f"emissions must have shape [B, T, {d}] with T at least 1, found {tuple(emissions.shape)}.")
    batch, places, _ = emissions.shape
    a = transitions
    wanted = ((d, d), (places - 1, d, d), (batch, places - 1, d, d))
    if tuple(a.shape) not in wanted:
        raise ModelError(
            f"transitions must have shape [{d}, {d}], [{places - 1}, {d}, {d}] or "
            f"[{batch}, {places - 1}, {d}, {d}], found {tuple(a.shape)}."
        )
    a = a.reshape(*[1] * (4 - a.ndim), *a.shape)
    order = None
    if mask is None:
        lengths = torch.full((batch,), places, device=emissions.device)
    else:
        mask = _checked(mask, (batch, places))
        lengths, order = mask.sum(1), _order(mask)
    if order is not None:
        emissions = emissions.gather(1, order[:, :, None].expand(batch, places, d))
        if a.shape[1] > 1:  # A pair within the chain never begins at the last place.
            first = order[:, :-1].clamp_max(places - 2)[:, :, None, None].expand(batch, places - 1, d, d)
            a = a.expand(batch, places - 1, d, d).gather(1, first)
    if start is not None and end is not None:
        place = torch.arange(places, device=emissions.device)
        emissions = emissions + torch.where((place == 0)[:, None], start, 0.0)
        last = (place == lengths[:, None] - 1)[:, :, None]
        emissions = emissions + torch.where(last, end, 0.0)
    kind = torch.promote_types(emissions.dtype, a.dtype)
    if a.shape[1] == 0:  # A single place has no transitions.
        a = a.new_zeros(1, 1, d, d)
    return Chains(emissions.to(kind), a.to(kind), lengths, mask, order)


def _checked(mask: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return the mask as booleans; raise `ModelError` for another shape, or a row without any place."""
    if tuple(mask.shape) != shape:
        raise ModelError(f"The mask must have shape {shape}, like the emissions, found {tuple(mask.shape)}.")
    mask = mask.bool()
    if seen(~mask.any(1)):
        raise ModelError("Every row of a mask must be true at least once.")
    return mask


def _order(mask: Tensor) -> Tensor | None:
    """Return [B, T] the places of each row, those within the mask first; None if the mask is known to have no gap.

    On a GPU a mask is not read, because reading would wait.
    """
    if seen(~(mask[:, 1:] & ~mask[:, :-1]).any() & mask[:, 0].all()):
        return None
    return (~mask).to(torch.uint8).argsort(dim=1, stable=True)


def _like(values: Tensor, other: Tensor) -> Tensor:
    """Return values [B, T] with as many axes as the other tensor has."""
    return values.reshape(*values.shape, *[1] * (other.ndim - 2))


def seen(wrong: Any) -> bool:
    """Return whether any entry is true. Return False on a GPU, where reading would wait, and in a torch transform."""
    if torch.compiler.is_compiling() or wrong.device.type != "cpu":
        return False
    try:
        return bool(wrong.any())
    except RuntimeError:  # A tensor within vmap holds many values.
        return False
