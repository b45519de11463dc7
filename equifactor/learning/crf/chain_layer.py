"""Sums over all paths of a batch of chains as a torch operation: ln Z and marginals, differentiable twice.

On the CPU, forward-backward runs in compiled loops, and equal transitions are stored once. On a GPU, the chain is
treated as a graph and eliminated along its plan.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor.base.errors import ModelError
from equifactor.base.typing import FloatArray
from equifactor.graph import FactorGraph
from equifactor.learning.crf.plan_layer import exact_numbers, rows_apart, rows_of_transitions, rows_together, working
from equifactor.solvers.elimination.exact_batch import plan_structure
from equifactor.solvers.elimination.exact_batch_torch import Tangents, TorchBatch


def chain_sums(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, *, marginals: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ln Z [B], probabilities of states [B, T, d] and of pairs of neighbours [B, T-1 or 1, d, d].

    Args:
        emissions: log potentials [B, T, d], including the potentials of the start and the end of chains.
        transitions: log potentials [B or 1, T-1 or 1, d, d]. If all places share them, the probabilities of pairs are
            summed over the places.
        lengths: [B] of each chain, 1 to T; places beyond the end are ignored and have probability 0.
        marginals: whether probabilities are wanted; otherwise they may be zeros.
    """
    wanted = marginals or torch.is_grad_enabled()  # The probabilities are the gradient of ln Z.
    answer: tuple[Tensor, Tensor, Tensor]
    answer = _ChainSums.apply(emissions, transitions, lengths, wanted)  # type: ignore[no-untyped-call]
    return answer


# ---- a chain as a graph ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def plan_of_chain(length: int, states: int) -> TorchBatch:
    """Return the elimination of a chain with unary factors first, then pairs of neighbours."""
    unary, pair = np.ones(states), np.ones((states, states))
    factors = [([t], unary) for t in range(length)] + [([t, t + 1], pair) for t in range(length - 1)]
    return TorchBatch(plan_structure(FactorGraph([states] * length, factors)))


def _valid(lengths: Tensor, places: int) -> Tensor:
    """Return [B, T] whether a place lies within the chain."""
    return torch.arange(places, device=lengths.device) < lengths[:, None]


def chain_tables(emissions: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """Return tables [t, B] of chains of equal length; beyond its end a chain copies its last state."""
    batch, places, d = emissions.shape
    valid = _valid(lengths, places)
    copy = torch.zeros(d, d, dtype=emissions.dtype, device=emissions.device)
    copy = torch.where(torch.eye(d, dtype=torch.bool, device=copy.device), copy, -torch.inf)
    unary = torch.where(valid[:, :, None], emissions, 0.0)
    pair = torch.where(valid[:, 1:, None, None], transitions, copy)
    return torch.cat((unary.reshape(batch, -1), pair.reshape(batch, -1)), 1).T.contiguous()


def _apart(values: Tensor, shape: tuple[int, int, int], lengths: Tensor, per_place: bool) -> tuple[Tensor, Tensor]:
    """Return numbers of table entries [t, B] as [B, T, d] and [B, T-1 or 1, d, d], zero beyond the ends."""
    batch, places, d = shape
    valid = _valid(lengths, places)
    unary, pair = values.T[:, : places * d], values.T[:, places * d :]
    unary = torch.where(valid[:, :, None], unary.reshape(batch, places, d), 0.0)
    pair = torch.where(valid[:, 1:, None, None], pair.reshape(batch, places - 1, d, d), 0.0)
    return unary, pair if per_place else pair.sum(1, keepdim=True)


def exact_chains(emissions: Tensor, transitions: Tensor, lengths: Tensor) -> None:
    """Raise `ModelError` for NaN, +inf and empty chains on the CPU, where the check is cheap."""
    exact_numbers(emissions, transitions)
    if lengths.device.type == "cpu" and lengths.numel() and not bool(lengths.min() > 0):
        raise ModelError("A sequence has no place: every row of a mask must be true at least once.")


# ---- the operations -------------------------------------------------------------------------------------


@torch.library.custom_op("equifactor::chain_sums", mutates_args=())
def _sums(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, marginals: bool
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    exact_chains(emissions, transitions, lengths)
    if emissions.device.type == "cpu":
        return _forward_backward(emissions, transitions, lengths, marginals)
    return _eliminated(emissions, transitions, lengths)


def _eliminated(emissions: Tensor, transitions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = (emissions.shape[0], emissions.shape[1], emissions.shape[2])
    tables = chain_tables(working(emissions), working(transitions), lengths)
    answer = plan_of_chain(*shape[1:]).run(tables, factors=True)
    p, pairs = _apart(answer.entries, shape, lengths, transitions.shape[1] == shape[1] - 1)
    kind = emissions.dtype
    return answer.log_z.to(kind), p.to(kind).contiguous(), pairs.to(kind).contiguous()


def _forward_backward(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, marginals: bool
) -> tuple[Tensor, Tensor, Tensor]:
    from equifactor.learning.crf.forward_backward_kernels import forward_backward

    batch, places, d = emissions.shape
    log_z, p = np.empty(batch), np.zeros((batch, places, d))
    pairs = np.zeros((batch, transitions.shape[1], d, d))
    e, a = _float64(emissions), _float64(transitions)
    forward_backward(e, a, lengths.detach().contiguous().numpy(), marginals, log_z, p, pairs)
    kind = emissions.dtype
    return torch.from_numpy(log_z).to(kind), torch.from_numpy(p).to(kind), torch.from_numpy(pairs).to(kind)


@_sums.register_fake
def _(emissions: Tensor, transitions: Tensor, lengths: Tensor, marginals: bool) -> tuple[Tensor, Tensor, Tensor]:
    batch, _, d = emissions.shape
    pairs = emissions.new_empty(batch, transitions.shape[1], d, d)
    return emissions.new_empty(batch), emissions.new_empty(emissions.shape), pairs


@torch.library.custom_op("equifactor::chain_changes", mutates_args=())
def _changes(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, to_states: Tensor, to_pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the derivatives [B, T, d] and [B, T-1 or 1, d, d] of sum(to_states * states + to_pairs * pairs)."""
    if emissions.device.type == "cpu":
        return _changes_by_recursion(emissions, transitions, lengths, to_states, to_pairs)
    return _changes_eliminated(emissions, transitions, lengths, to_states, to_pairs)


def _changes_by_recursion(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, to_states: Tensor, to_pairs: Tensor
) -> tuple[Tensor, Tensor]:
    from equifactor.learning.crf.forward_backward_kernels import marginal_changes

    e, a, u, v = (_float64(t) for t in (emissions, transitions, to_states, to_pairs))
    of_states, of_pairs = np.zeros(u.shape), np.zeros(v.shape)
    marginal_changes(e, a, lengths.detach().contiguous().numpy(), u, v, of_states, of_pairs)
    kind = emissions.dtype
    return torch.from_numpy(of_states).to(kind), torch.from_numpy(of_pairs).to(kind)


def _float64(tensor: Tensor) -> FloatArray:
    """Return a CPU tensor as an array for a kernel."""
    return tensor.detach().double().contiguous().numpy()


def _changes_eliminated(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, to_states: Tensor, to_pairs: Tensor
) -> tuple[Tensor, Tensor]:
    batch, places, d = emissions.shape
    tables = chain_tables(working(emissions), working(transitions), lengths)
    valid = _valid(lengths, places)
    unary = torch.where(valid[:, :, None], working(to_states), 0.0)
    pair = torch.where(valid[:, 1:, None, None], working(to_pairs), 0.0)
    entries = torch.cat((unary.reshape(batch, -1), pair.reshape(batch, -1)), 1).T.contiguous()
    none = entries.new_zeros(places * d, batch)
    answer = plan_of_chain(places, d).run(tables, factors=True, tangents=Tangents(entries, none))
    per_place = transitions.shape[1] == places - 1
    p, pairs = _apart(answer.entries, (batch, places, d), lengths, per_place)
    return p.to(emissions.dtype).contiguous(), pairs.to(emissions.dtype).contiguous()


@_changes.register_fake
def _(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, to_states: Tensor, to_pairs: Tensor
) -> tuple[Tensor, Tensor]:
    return emissions.new_empty(emissions.shape), to_pairs.new_empty(to_pairs.shape)


def _sums_vmap(
    info: Any, in_dims: Any, emissions: Tensor, transitions: Tensor, lengths: Tensor, marginals: bool
) -> Any:
    e, n = rows_together(info, (in_dims[0], in_dims[2]), emissions, lengths)
    a = rows_of_transitions(info, in_dims[1], transitions, len(e))
    return rows_apart(info, *_sums(e, a, n, marginals))


def _changes_vmap(
    info: Any,
    in_dims: Any,
    emissions: Tensor,
    transitions: Tensor,
    lengths: Tensor,
    to_states: Tensor,
    to_pairs: Tensor,
) -> Any:
    dims = (in_dims[0], *in_dims[2:])
    e, n, u, w = rows_together(info, dims, emissions, lengths, to_states, to_pairs)
    a = rows_of_transitions(info, in_dims[1], transitions, len(e))
    return rows_apart(info, *_changes(e, a, n, u, w))


if hasattr(_sums, "register_vmap"):  # torch 2.4 has no rules for vmap, and raises an error if vmap meets the operation.
    _sums.register_vmap(_sums_vmap)
    _changes.register_vmap(_changes_vmap)


class _ChainSums(torch.autograd.Function):
    """The derivative rules. There are no third derivatives: `chain_changes` has no rule, and torch raises an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(emissions: Tensor, transitions: Tensor, lengths: Tensor, marginals: bool) -> Any:
        return torch.ops.equifactor.chain_sums(emissions, transitions, lengths, marginals)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], *output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        emissions, transitions, lengths, p, pairs = ctx.saved_tensors
        to_log_z, to_states, to_pairs = grads
        of_states, of_pairs = torch.zeros_like(p), torch.zeros_like(pairs)
        if to_log_z is not None:
            of_states, of_pairs = to_log_z[:, None, None] * p, to_log_z[:, None, None, None] * pairs
        if to_states is not None or to_pairs is not None:
            u = torch.zeros_like(p) if to_states is None else to_states
            w = torch.zeros_like(pairs) if to_pairs is None else to_pairs
            more = torch.ops.equifactor.chain_changes(emissions, transitions, lengths, u, w)
            of_states, of_pairs = of_states + more[0], of_pairs + more[1]
        if transitions.shape[0] == 1:
            of_pairs = of_pairs.sum(0, keepdim=True)
        return of_states, of_pairs.to(transitions.dtype), None, None
