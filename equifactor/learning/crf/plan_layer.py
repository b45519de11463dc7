"""Sums along an elimination plan as a torch operation: ln Z and all marginals, differentiable twice.

The derivative of ln Z with respect to a log table is the marginal of the factor. So a pass up and a pass down give the
value and the gradient, and autograd records no intermediate steps. Losses on marginals and Hessians need the derivative
of the marginals. It takes one more pass up and down, along a direction (`TorchBatch.run` with tangents).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from equifactor.base.errors import ModelError
from equifactor.solvers.elimination.exact_batch_torch import Tangents, TorchBatch
from equifactor.solvers.elimination.factor_sums import FactorSums

if TYPE_CHECKING:
    from equifactor.solvers.elimination.plan import Plan


class PlanEngine:
    """One plan in the engines for CPU and GPU; the torch operations refer to it by a number."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sums = FactorSums(plan)
        self.batch = TorchBatch(plan)
        self.number = 1 + max(_ENGINES.keys(), default=0)
        _ENGINES[self.number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return PlanEngine, (self.plan,)

    def __deepcopy__(self, memo: dict[int, Any]) -> PlanEngine:
        return self  # The engine is immutable.


_ENGINES: WeakValueDictionary[int, PlanEngine] = WeakValueDictionary()


def plan_sums(engine: PlanEngine, log_phi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ln Z [B], probabilities of all states [B, X] and of all table entries [B, T] for log tables [B, T].

    All results are differentiable, and ln Z is differentiable twice.
    """
    answer: tuple[Tensor, Tensor, Tensor] = _PlanSums.apply(log_phi, engine.number)  # type: ignore[no-untyped-call]
    return answer


def exact_numbers(*tensors: Tensor) -> None:
    """Raise `ModelError` for NaN and +inf on the CPU, where the check is cheap; on a GPU they lead to NaN."""
    for tensor in tensors:
        if tensor.device.type == "cpu" and tensor.numel() and not bool(tensor.max() < torch.inf):
            raise ModelError(
                "A potential is NaN or +inf. Log potentials must be finite, or -inf for impossible states."
            )


def working(tensor: Tensor) -> Tensor:
    """Return the tensor in the precision of the computation, which is at least single."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


# ---- the operations -------------------------------------------------------------------------------------


@torch.library.custom_op("equifactor::plan_sums", mutates_args=())
def _sums(log_phi: Tensor, engine: int) -> tuple[Tensor, Tensor, Tensor]:
    exact_numbers(log_phi)
    found = _ENGINES[engine]
    if log_phi.device.type == "cpu":
        answer = found.sums.run(log_phi.detach().double().numpy())
        log_z, states, entries = (torch.from_numpy(array).to(log_phi.dtype) for array in answer)
        return log_z, states.contiguous(), entries
    on_device = found.batch.run(working(log_phi).T.contiguous(), factors=True)
    return (
        on_device.log_z.to(log_phi.dtype),
        on_device.states.T.to(log_phi.dtype).contiguous(),
        on_device.entries.T.to(log_phi.dtype).contiguous(),
    )


@_sums.register_fake
def _(log_phi: Tensor, engine: int) -> tuple[Tensor, Tensor, Tensor]:
    count = len(log_phi)
    num_states = int(_ENGINES[engine].sums.structure.state_ptr[-1])
    return log_phi.new_empty(count), log_phi.new_empty(count, num_states), log_phi.new_empty(log_phi.shape)


@torch.library.custom_op("equifactor::plan_changes", mutates_args=())
def _changes(log_phi: Tensor, to_states: Tensor, to_entries: Tensor, engine: int) -> Tensor:
    """Return the derivative [B, T] of sum(to_states * states + to_entries * entries), a change along that direction."""
    direction = Tangents(working(to_entries).T.contiguous(), working(to_states).T.contiguous())
    answer = _ENGINES[engine].batch.run(working(log_phi).T.contiguous(), factors=True, tangents=direction)
    return answer.entries.T.to(log_phi.dtype).contiguous()


@_changes.register_fake
def _(log_phi: Tensor, to_states: Tensor, to_entries: Tensor, engine: int) -> Tensor:
    return log_phi.new_empty(log_phi.shape)


def rows_together(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Return tensors in which the axis of vmap is merged into the first axis, the batch."""
    whole = []
    for axis, tensor in zip(in_dims, tensors, strict=False):
        moved = tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        whole.append(moved.reshape(-1, *moved.shape[2:]))
    return whole


def rows_of_transitions(info: Any, axis: int | None, transitions: Tensor, rows: int) -> Tensor:
    """Return transitions [rows or 1, T-1 or 1, d, d]; transitions that all rows share stay single."""
    if axis is None and len(transitions) == 1:
        return transitions
    moved = transitions[None] if axis is None else transitions.movedim(axis, 0)
    batch = rows // info.batch_size
    return moved.expand(info.batch_size, batch, *moved.shape[2:]).reshape(rows, *moved.shape[2:])


def rows_apart(info: Any, *tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Return answers in which the axis of vmap is the first axis again."""
    return tuple(t.reshape(info.batch_size, -1, *t.shape[1:]) for t in tensors), (0,) * len(tensors)


def _sums_vmap(info: Any, in_dims: Any, log_phi: Tensor, engine: int) -> Any:
    return rows_apart(info, *_sums(*rows_together(info, in_dims, log_phi), engine))


def _changes_vmap(info: Any, in_dims: Any, log_phi: Tensor, states: Tensor, entries: Tensor, engine: int) -> Any:
    (answer,), (axis,) = rows_apart(info, _changes(*rows_together(info, in_dims, log_phi, states, entries), engine))
    return answer, axis


if hasattr(_sums, "register_vmap"):  # torch 2.4 has no rules for vmap, and raises an error if vmap meets the operation.
    _sums.register_vmap(_sums_vmap)
    _changes.register_vmap(_changes_vmap)


class _PlanSums(torch.autograd.Function):
    """The derivative rules. There are no third derivatives: `plan_changes` has no rule, and torch raises an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(log_phi: Tensor, engine: int) -> tuple[Tensor, Tensor, Tensor]:
        answer: tuple[Tensor, Tensor, Tensor] = torch.ops.equifactor.plan_sums(log_phi, engine)
        return answer

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1], output[2])
        ctx.engine = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        log_phi, states, entries = ctx.saved_tensors
        to_log_z, to_states, to_entries = grads
        found = torch.zeros_like(log_phi) if to_log_z is None else to_log_z[:, None] * entries
        if to_states is not None or to_entries is not None:
            u = torch.zeros_like(states) if to_states is None else to_states
            w = torch.zeros_like(log_phi) if to_entries is None else to_entries
            found = found + torch.ops.equifactor.plan_changes(log_phi, u, w, ctx.engine)
        return found, None
