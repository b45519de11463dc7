"""A linear-chain conditional random field: sequences of any length with a label at every place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.kernels.segments import finite
from equifactor.learning.crf.chain_layer import best_paths, chain_sums

MOST_STATES = 2**14  # States of a variable: the transitions of more would take gigabytes. Chosen by hand.


class CRFModule(nn.Module):
    """A module that answers the names of other packages for its methods with the name here."""

    def __getattr__(self, name: str) -> Any:
        if name in ("decode", "viterbi", "viterbi_decode"):
            raise AttributeError(f"{type(self).__name__} has no {name}. The most probable labels are the method map.")
        return super().__getattr__(name)


class ChainCRF(CRFModule):
    """Sequences of T labels with d states: score(y) = start(y_1) + sum_t e_t(y_t) + sum_t A(y_t, y_t+1) + end(y_T).

    The emissions e [B, T, d] come from any network. The parameters of this module are start [d], end [d] and the
    transitions A [d, d] from row to column. Inference is exact by forward-backward. The gradient of ln Z is the
    marginals, which take one pass forward and one pass backward. The marginals are differentiable too. An impossible
    transition is `-inf` in `crf.transitions.data`. Training does not change it, and values and gradients do not become
    NaN. The module works with `torch.compile`, `torch.func.vmap` and `torch.func.grad`, on CPU and GPU, in every
    floating type (on the CPU, sums are computed in float64).

    Args:
        num_states: d, the number of labels.
        boundaries: whether the module has `start` and `end`; otherwise both are None.

    Examples:
        >>> import torch, equifactor as ef
        >>> crf = ef.ChainCRF(3)
        >>> emissions, tags = torch.zeros(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64)
        >>> mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)
        >>> crf.log_likelihood(emissions, tags, mask)  # 3^5 and 3^2 equal sequences
        tensor([-5.4931, -2.1972], grad_fn=<SubBackward0>)
        >>> crf.map(emissions, mask)
        tensor([[ 0,  0,  0,  0,  0],
                [ 0,  0, -1, -1, -1]])
    """

    def __init__(self, num_states: int, *, boundaries: bool = True) -> None:
        super().__init__()
        if not isinstance(num_states, (int, np.integer)) or num_states < 1:
            raise OptionError(
                f"The number of states of a chain must be a whole number of at least 1, found {brief(num_states)}."
            )
        if num_states > MOST_STATES:
            raise OptionError(f"The number of states of a chain must be at most {MOST_STATES}, found {num_states}.")
        if not isinstance(boundaries, (bool, np.bool_)):
            raise OptionError(f"boundaries must be True or False, found {brief(boundaries)}.")
        self.num_states = num_states
        self.transitions = nn.Parameter(torch.zeros(num_states, num_states))
        self.start = nn.Parameter(torch.zeros(num_states)) if boundaries else None
        self.end = nn.Parameter(torch.zeros(num_states)) if boundaries else None

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return the log likelihood [B] of each sequence, as `log_likelihood` does."""
        return self.log_likelihood(emissions, tags, mask, transitions=transitions)

    def log_likelihood(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return ln p(tags | emissions) [B] of each sequence.

        Args:
            emissions: log potentials [B, T, d] of the states at each place.
            tags: the labels [B, T]; labels beyond the end of a sequence are ignored.
            mask: [B, T] true up to the end of each sequence, at least once, and false after it.
            transitions: replaces the transitions of this module, [d, d], [T-1, d, d] or [B, T-1, d, d].
        """
        e, a, lengths = self._inputs(emissions, mask, transitions)
        score = _scores(e, a, self._labels(tags, e, lengths), lengths)
        log_z = chain_sums(e, a, lengths)[0]
        return score - finite(log_z)

    def log_z(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return ln of the sum over all label sequences of each row [B]."""
        return chain_sums(*self._inputs(emissions, mask, transitions))[0]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return the probability [B, T, d] of every state at every place; 0 beyond the end of a sequence."""
        return chain_sums(*self._inputs(emissions, mask, transitions), marginals=True)[1]

    def factor_marginals(
        self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None
    ) -> Tensor:
        """Return the joint probability [B, T-1, d, d] of the states of neighbours; 0 beyond the end."""
        e, a, lengths = self._inputs(emissions, mask, transitions)
        a = a.expand(-1, max(1, e.shape[1] - 1), -1, -1)
        return chain_sums(e, a, lengths, marginals=True)[2][:, : e.shape[1] - 1]

    @torch.no_grad()
    def map(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return the most probable label sequence [B, T] of each row (Viterbi); -1 beyond its end."""
        e, a, lengths = self._inputs(emissions, mask, transitions)
        return torch.where(_within(lengths, e.shape[1]), best_paths(e, a, lengths)[1], -1)

    def extra_repr(self) -> str:
        """Return the text that `print` shows."""
        return f"num_states={self.num_states}" + ("" if self.start is not None else ", boundaries=False")

    # ---- inputs -----------------------------------------------------------------------------------------

    def _inputs(
        self, emissions: Tensor, mask: Tensor | None, transitions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return emissions that include start and end, transitions [B or 1, T-1 or 1, d, d], and lengths [B]."""
        d = self.num_states
        if not isinstance(emissions, Tensor):
            raise ModelError(f"emissions must be a tensor of shape [B, T, {d}], found {type(emissions).__name__}.")
        for name, given in (("mask", mask), ("transitions", transitions)):
            if given is not None and not isinstance(given, Tensor):
                raise ModelError(f"{name} must be a tensor or None, found {brief(given)}.")
        if emissions.ndim != 3 or emissions.shape[2] != d or not emissions.shape[1]:
            raise ModelError(
                f"emissions must have shape [B, T, {d}] with T at least 1, found {tuple(emissions.shape)}."
            )
        batch, places, _ = emissions.shape
        if mask is None:
            lengths = torch.full((batch,), places, device=emissions.device)
        else:
            lengths = _lengths(mask, (batch, places))
        a = self.transitions if transitions is None else transitions
        wanted = ((d, d), (places - 1, d, d), (batch, places - 1, d, d))
        if tuple(a.shape) not in wanted:
            raise ModelError(
                f"transitions must have shape [{d}, {d}], [{places - 1}, {d}, {d}] or "
                f"[{batch}, {places - 1}, {d}, {d}], found {tuple(a.shape)}."
            )
        a = a.reshape(*[1] * (4 - a.ndim), *a.shape)
        if self.start is not None and self.end is not None:
            place = torch.arange(places, device=emissions.device)
            emissions = emissions + torch.where((place == 0)[:, None], self.start, 0.0)
            last = (place == lengths[:, None] - 1)[:, :, None]
            emissions = emissions + torch.where(last, self.end, 0.0)
        kind = torch.promote_types(emissions.dtype, a.dtype)
        if a.shape[1] == 0:  # A single place has no transitions.
            a = a.new_zeros(1, 1, d, d)
        return emissions.to(kind), a.to(kind), lengths

    def _labels(self, tags: Tensor, emissions: Tensor, lengths: Tensor) -> Tensor:
        if not isinstance(tags, Tensor):
            raise ModelError(f"tags must be a tensor, found {brief(tags)}.")
        if tags.shape != emissions.shape[:2]:
            found = tuple(tags.shape)
            raise ModelError(f"tags must have shape {tuple(emissions.shape[:2])}, like the emissions, found {found}.")
        if tags.dtype.is_floating_point or tags.dtype == torch.bool:
            raise ModelError(f"tags must be whole numbers, found a tensor of {tags.dtype}.")
        tags = torch.where(_within(lengths, tags.shape[1]), tags, 0)
        if seen((tags < 0) | (tags >= self.num_states)):
            raise ModelError(f"A tag is not one of the {self.num_states} states (0-{self.num_states - 1}).")
        return tags


def _within(lengths: Tensor, places: int) -> Tensor:
    return torch.arange(places, device=lengths.device) < lengths[:, None]


def _lengths(mask: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return the length of each sequence, from a mask that is true up to its end."""
    if tuple(mask.shape) != shape:
        raise ModelError(f"The mask must have shape {shape}, like the emissions, found {tuple(mask.shape)}.")
    mask = mask.bool()
    if seen((~mask[:, 0]).any() | (mask[:, 1:] & ~mask[:, :-1]).any()):
        raise ModelError("A mask must be true up to the end of each sequence, at least once, and false after it.")
    return mask.sum(1)


def seen(wrong: Any) -> bool:
    """Return whether any entry is true. Return False on a GPU, where reading would wait, and in a torch transform."""
    if torch.compiler.is_compiling() or wrong.device.type != "cpu":
        return False
    try:
        return bool(wrong.any())
    except RuntimeError:  # A tensor within vmap holds many values.
        return False


def _scores(e: Tensor, a: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
    """Return the log score of one label sequence per row: the sum of its potentials."""
    batch, places, d = e.shape
    within = _within(lengths, places)
    score = torch.where(within, e.gather(2, tags[:, :, None]).squeeze(2), 0.0).sum(1)
    picked = tags[:, :-1] * d + tags[:, 1:]
    if a.shape[:2] == (1, 1):
        pair = a.reshape(-1).index_select(0, picked.reshape(-1)).reshape(picked.shape)
    else:
        pair = a.expand(batch, places - 1, d, d).reshape(batch, places - 1, -1).gather(2, picked[:, :, None]).squeeze(2)
    return score + torch.where(within[:, 1:], pair, 0.0).sum(1)
