"""A linear-chain conditional random field: sequences of any length with a label at every place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from equifactor.base.errors import OptionError, brief
from equifactor.kernels.segments import finite
from equifactor.learning.crf.chain_inputs import Chains, chains
from equifactor.learning.crf.chain_layer import chain_sums
from equifactor.learning.crf.chain_paths import best_paths, sampled_paths

MOST_STATES = 2**14  # States of a variable: the transitions of more would take gigabytes. Chosen by hand.


class CRFModule(nn.Module):
    """A module that answers the names of other packages for its methods with the name here."""

    def __getattr__(self, name: str) -> Any:
        if name in ("decode", "viterbi", "viterbi_decode", "viterbi_tags"):
            several = " The k best sequences are the method k_best." if hasattr(type(self), "k_best") else ""
            raise AttributeError(
                f"{type(self).__name__} has no {name}. The most probable labels are the method map.{several}"
            )
        return super().__getattr__(name)


class BestSequences(NamedTuple):
    """The result of `ChainCRF.k_best`."""

    log_scores: Tensor  # [B, k] in descending order, differentiable; -inf where fewer than k sequences are possible
    states: Tensor  # [B, k, T]; -1 outside the mask, and where fewer than k sequences are possible


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
        check_count("The number of states of a chain", num_states, MOST_STATES)
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
            tags: the labels [B, T]; labels outside the mask are ignored.
            mask: [B, T] true at the places that belong to each sequence, at least once. Places outside the mask are
                skipped, and the places before and after them are neighbours.
            transitions: replaces the transitions of this module, [d, d], [T-1, d, d] or [B, T-1, d, d]. Entry t is the
                table of place t and the next place within the mask.
        """
        found = self._inputs(emissions, mask, transitions)
        score = found.log_scores(found.labels(tags))
        log_z = chain_sums(found.emissions, found.transitions, found.lengths)[0]
        return score - finite(log_z)

    def log_z(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return ln of the sum over all label sequences of each row [B]."""
        found = self._inputs(emissions, mask, transitions)
        return chain_sums(found.emissions, found.transitions, found.lengths)[0]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return the probability [B, T, d] of every state at every place; 0 outside the mask."""
        found = self._inputs(emissions, mask, transitions)
        p = chain_sums(found.emissions, found.transitions, found.lengths, marginals=True)[1]
        return found.at_places(p, 0.0)

    def factor_marginals(
        self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None
    ) -> Tensor:
        """Return the joint probability [B, T-1, d, d] of each place and the next place in the mask; 0 elsewhere."""
        found = self._inputs(emissions, mask, transitions)
        places = found.emissions.shape[1]
        a = found.transitions.expand(-1, max(1, places - 1), -1, -1)
        pairs = chain_sums(found.emissions, a, found.lengths, marginals=True)[2]
        return found.at_places(pairs[:, : places - 1], 0.0)

    def entropy(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return the entropy [B] of each row in nats, -sum_y p(y) ln p(y) over all label sequences y.

        The entropy is ln Z minus the expected score, computed in float64 because the two may be large and nearly
        equal. It is differentiable once. A row without a possible sequence has entropy 0.
        """
        found = self._inputs(emissions, mask, transitions)
        e, a = found.emissions.double(), found.transitions.double()
        log_z, p, pairs = chain_sums(e, a, found.lengths, marginals=True)
        expected = (p * finite(e)).sum((1, 2)) + (pairs * finite(a)).sum((1, 2, 3))
        return (finite(log_z) - expected).clamp_min(0.0).to(found.emissions.dtype)

    @torch.no_grad()
    def map(self, emissions: Tensor, mask: Tensor | None = None, *, transitions: Tensor | None = None) -> Tensor:
        """Return the most probable label sequence [B, T] of each row (Viterbi); -1 outside the mask."""
        found = self._inputs(emissions, mask, transitions)
        states = best_paths(found.emissions, found.transitions, found.lengths)[1]
        return found.at_places(states[:, 0], -1)

    def k_best(
        self, emissions: Tensor, k: int, mask: Tensor | None = None, *, transitions: Tensor | None = None
    ) -> BestSequences:
        """Return the k most probable label sequences of each row with their log scores, the best first.

        The sequences are distinct. Among equal scores, the sequence with the smaller last label comes first, then the
        sequence with the smaller label before it. `log_scores - log_z(..)[:, None]` are their log probabilities.
        """
        check_count("k", k)
        found = self._inputs(emissions, mask, transitions)
        with torch.no_grad():
            order, states = best_paths(found.emissions, found.transitions, found.lengths, int(k))
        possible = order > -torch.inf
        scores = torch.stack([found.log_scores(states[:, r]) for r in range(int(k))], 1)
        states = torch.where(possible[:, :, None], found.at_places(states.transpose(1, 2), -1).transpose(1, 2), -1)
        return BestSequences(torch.where(possible, scores, -torch.inf), states)

    @torch.no_grad()
    def sample(
        self,
        emissions: Tensor,
        n: int,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Draw n independent label sequences [B, n, T] of each row from their exact distribution.

        Labels are -1 outside the mask, and in a row without a possible sequence. The same state of `generator` gives
        the same samples; None uses the default generator of torch.
        """
        check_count("n", n)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise OptionError(
                f"generator must be a torch.Generator such as torch.Generator().manual_seed(0), found "
                f"{brief(generator)}."
            )
        found = self._inputs(emissions, mask, transitions)
        states = sampled_paths(found.emissions, found.transitions, found.lengths, int(n), generator)
        return found.at_places(states.transpose(1, 2), -1).transpose(1, 2)

    def extra_repr(self) -> str:
        """Return the text that `print` shows."""
        return f"num_states={self.num_states}" + ("" if self.start is not None else ", boundaries=False")

    def _inputs(self, emissions: Tensor, mask: Tensor | None, transitions: Tensor | None) -> Chains:
        """Return the checked inputs, with start and end added to the emissions."""
        a = self.transitions if transitions is None else transitions
        return chains(self.num_states, emissions, a, mask, self.start, self.end)


def check_count(name: str, given: object, most: int = 2**31) -> None:
    """Raise `OptionError` unless a number is a whole number from 1 to `most`."""
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.timedelta64))
    if not whole or not 1 <= given <= most:  # type: ignore[operator]
        raise OptionError(f"{name} must be a whole number from 1 to {most}, found {brief(given)}.")
