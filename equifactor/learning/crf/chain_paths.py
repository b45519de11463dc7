"""Single paths of a batch of chains: the best path, the k best paths and samples.

emissions [B, T, d], transitions [B or 1, T-1 or 1, d, d] and lengths [B] are those of `chain_sums`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor.kernels.segments import finite
from equifactor.learning.crf.chain_layer import chain_tables, exact_chains, plan_of_chain
from equifactor.learning.crf.plan_layer import rows_apart, rows_of_transitions, rows_together, working


def best_paths(emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int = 1) -> tuple[Tensor, Tensor]:
    """Return the log scores [B, k] and the states [B, k, T] of the k best paths, the best first.

    Among equal scores, the path with the smaller last state comes first, then the path with the smaller state before
    it. If fewer than k paths are possible, the other scores are -inf. Their states and states beyond the end of a chain
    are not defined, but lie between 0 and d-1.
    """
    answer: tuple[Tensor, Tensor] = torch.ops.equifactor.chain_best(emissions, transitions, lengths, k)
    return answer


@torch.library.custom_op("equifactor::chain_best", mutates_args=())
def _best(emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    exact_chains(emissions, transitions, lengths)
    if emissions.device.type == "cpu":
        return _by_kernels(emissions, transitions, lengths, k)
    if k > 1:
        return _by_sorting(emissions, transitions, lengths, k)
    tables = chain_tables(working(emissions), working(transitions), lengths)
    score, states = plan_of_chain(*emissions.shape[1:]).best(tables)
    return score.to(emissions.dtype)[:, None].contiguous(), states.T[:, None].contiguous()


@_best.register_fake
def _(emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    batch, places, _ = emissions.shape
    return emissions.new_empty(batch, k), lengths.new_empty(batch, k, places)


def _by_kernels(emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    from equifactor.learning.crf.best_path_kernels import best_k_paths, best_path

    score, states = np.empty((len(emissions), k)), np.zeros((len(emissions), k, emissions.shape[1]), np.int64)
    e, a = (t.detach().double().contiguous().numpy() for t in (emissions, transitions))
    n = lengths.detach().contiguous().numpy()
    if k == 1:
        best_path(e, a, n, score[:, 0], states[:, 0])
    else:
        best_k_paths(e, a, n, score, states)
    return torch.from_numpy(score).to(emissions.dtype), torch.from_numpy(states)


def _by_sorting(emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return what the kernels return, by stable sorting of the k lists of all states before a place."""
    e, a = working(emissions), working(transitions)
    batch, places, d = e.shape
    delta = torch.cat((e[:, 0, :, None], e.new_full((batch, d, k - 1), -torch.inf)), 2)  # [B, d, k]
    own = torch.arange(d * k, device=e.device).reshape(d, k).expand(batch, d, k)
    origins = []
    for t in range(1, places):
        here = a[:, t - 1 if a.shape[1] > 1 else 0]
        before = (delta[:, :, :, None] + here[:, :, None, :]).reshape(batch, d * k, d)
        score, origin = (x[:, :k].transpose(1, 2) for x in before.sort(dim=1, descending=True, stable=True))
        within = (t < lengths)[:, None, None]
        delta = torch.where(within, score + e[:, t, :, None], delta)
        origins.append(torch.where(within, origin, own))
    score, place = (x[:, :k] for x in delta.reshape(batch, -1).sort(dim=1, descending=True, stable=True))
    states = [place // k]
    for origin in reversed(origins):
        place = origin.reshape(batch, -1).gather(1, place)
        states.append(place // k)
    return score.to(emissions.dtype).contiguous(), torch.stack(states[::-1], 2)


def _best_vmap(info: Any, in_dims: Any, emissions: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> Any:
    e, n = rows_together(info, (in_dims[0], in_dims[2]), emissions, lengths)
    return rows_apart(info, *_best(e, rows_of_transitions(info, in_dims[1], transitions, len(e)), n, k))


if hasattr(_best, "register_vmap"):  # torch 2.4 has no rules for vmap.
    _best.register_vmap(_best_vmap)


def sampled_paths(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, n: int, generator: torch.Generator | None
) -> Tensor:
    """Return n independent paths [B, n, T] of each chain: forward filtering, backward sampling.

    alpha_t(j) = ln of the sum over all beginnings that end in state j at place t. The last state is drawn from alpha,
    and every state before it from alpha_t(i) + A_t(i, y_t+1). Each draw takes one uniform number. Chains without a
    possible path get -1. States beyond the end of a chain are not defined.
    """
    exact_chains(emissions, transitions, lengths)
    e, a = emissions.detach().double(), transitions.detach().double()
    batch, places, d = e.shape
    alpha = [e[:, 0]]
    for t in range(1, places):
        here = a[:, t - 1 if a.shape[1] > 1 else 0]
        alpha.append(e[:, t] + (alpha[-1][:, :, None] + here).logsumexp(1))
    source = e.device if generator is None else generator.device
    uniform = torch.rand(places, batch, n, dtype=e.dtype, device=source, generator=generator).to(e.device)
    state = torch.zeros(batch, n, dtype=torch.int64, device=e.device)
    states, possible = [], torch.ones(batch, dtype=torch.bool, device=e.device)
    for t in range(places - 1, -1, -1):
        here = a[:, min(t, a.shape[1] - 1)].transpose(1, 2).expand(batch, d, d)  # [B, next state, state]
        onward = here.gather(1, state[:, :, None].expand(batch, n, d))
        is_last = (lengths == t + 1)[:, None, None]
        logits = alpha[t][:, None] + torch.where(is_last, 0.0, onward)
        possible &= ~is_last[:, 0, 0] | (logits[:, 0] > -torch.inf).any(-1)
        total = (logits - finite(logits.amax(-1, keepdim=True))).exp().cumsum(-1)
        # A draw below the total never picks a state of probability 0, because its sum equals that of the state before.
        draw = torch.minimum(uniform[t] * total[:, :, -1], total[:, :, -1].nextafter(total.new_zeros(())))
        state = (total <= draw[:, :, None]).sum(-1).clamp_max(d - 1)
        states.append(state)
    return torch.where(possible[:, None, None], torch.stack(states[::-1], 2), -1)
