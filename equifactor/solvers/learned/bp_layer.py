"""Belief propagation as a differentiable layer: marginals and ln Z as functions of the potentials.

```python
import equifactor as ef

flat = ef.solvers.compile(graphs).to(device, dtype)  # The structure is compiled once.
answer = ef.beliefs(flat, log_phi)  # log_phi [T] comes from any network, in flat order.
loss = (answer.log_z - ef.learned.log_scores(flat.with_log_phi(log_phi), labels)).mean()
loss.backward()

layer = ef.learned.BPLayer(graph)  # The same as a module, for one structure.
answer = layer(tables)  # tables [B, T] in the order of the graph's own tables
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.typing import Semiring
from equifactor.factors import tensors
from equifactor.graph import FactorGraph, compile
from equifactor.graph.kinds import kind_class
from equifactor.kernels.segments import (
    finite,
    logsumexp,
    safe_log,
    segment_logsumexp,
    segment_max,
    segment_sum,
)
from equifactor.solvers.learned.wiring import Flat, Wiring, wire

Gradient = Literal["unrolled", "implicit"]


class Beliefs(NamedTuple):
    """What `beliefs` returns; everything but the last two carries a gradient. `*B` are the axes of a batch."""

    log_probabilities: Float[Tensor, "*B X"]  # The log belief of every variable state, -inf where impossible.
    log_factors: Float[Tensor, "*B T"]  # The log belief of every table entry, or other log value, ordered as `log_phi`.
    log_z: Float[Tensor, "*B G"]  # The Bethe ln Z; for `max` the log score of the best assignment.
    change: Float[Tensor, "*B G"]  # The largest change of a message in the last step, in probability.
    iterations: int

    @property
    def probabilities(self) -> Float[Tensor, "*B X"]:
        """The marginals. For a cross-entropy use `log_probabilities`, which is more precise."""
        return self.log_probabilities.exp()

    @property
    def factors(self) -> Float[Tensor, "*B T"]:
        """The joint marginals of the variables of each factor.

        For structured factors, the derivative of ln Z with respect to each of their log values. This is the probability
        of an even and an odd number of ones, of a violated clause, of each number of ones, of each listed configuration
        and of all others, or of equal and different labels. For a truncated linear factor, it is the mean distance
        below the limit and the probability of reaching the limit. For a factor that is not linear in its log values it
        is not defined, and the entries are 0.
        """
        return self.log_factors.exp()


@checks_types("damping", "iterations", "tolerance")
def beliefs(
    flat: Flat,
    log_phi: Float[Tensor, "*B T"],
    *,
    damping: float = 0.5,
    iterations: int = 50,
    tolerance: float = 1e-6,
    semiring: Semiring = "sum",
    gradient: Gradient = "unrolled",
) -> Beliefs:
    """Return the beliefs and the Bethe ln Z of damped parallel BP (Eq. 2 to 6 of [Sun21]); exact on forests.

    Args:
        flat: structure of one graph or a batch, `compile(graphs).to(device, dtype)`; its own potentials are not used.
        log_phi: potentials in flat order, `-inf` for true zeros; for structured factors their log values. Leading axes
            are a batch of potentials for the same structure, and the answers have them too.
            `tables[.., torch.tensor(flat.entry_order)]` puts tables in the graphs' own order into flat order.
        damping: share of the old log message that is kept.
        iterations: number of steps; on a tree with damping 0, the diameter of the tree suffices for exact answers.
        tolerance: `implicit` stops when no message changes by more, in probability.
        semiring: `sum` for marginals; `max` for max-marginals, scaled to sum to 1, and the best score.
        gradient: how the gradient is computed, see below. Values are the same up to `tolerance`.

    `unrolled` runs all steps and differentiates them one by one. This gives derivatives of any order of what was
    computed, whether or not the messages settled. Memory O(iterations T). It never stops early, because derivatives
    settle after the values: uniform potentials settle at once, but their effect on neighbours takes many steps.

    `implicit` runs without recording until the messages settle, and differentiates the fixed point. With J the Jacobian
    of one step, v = g + J^T v is iterated from the incoming gradient g until it settles. Memory O(T). The Bethe ln Z is
    stationary in the messages at a fixed point, so its gradient is `factors` and needs no iteration. `implicit` gives
    first derivatives only, and wrong ones where BP did not settle: check `change`.
    """
    _check(flat, log_phi, damping, iterations, tolerance, semiring, gradient)
    if log_phi.ndim > 1:
        copies = _Copies(flat, log_phi.shape[:-1])
        settings: dict[str, Any] = {"tolerance": tolerance, "semiring": semiring, "gradient": gradient}
        return copies.apart(
            beliefs(copies.flat, copies.joined(log_phi), damping=damping, iterations=iterations, **settings)
        )
    flat = replace(flat.with_log_phi(log_phi), has_zeros=_has_zeros(log_phi) or flat.has_zeros)
    wiring = wire(flat, semiring)
    keep = log_phi.new_full((), float(damping))
    if gradient == "unrolled":
        old, msg, done = _iterate(wiring, keep, iterations)
        seen_by_log_z = msg_fv = wiring.messages(msg)
    else:
        with torch.no_grad():
            _, old, done = _iterate(wiring, keep, iterations - 1, tolerance * (1.0 - damping))
        msg, done = _fixed_point(wiring, old, keep, iterations, tolerance), done + 1
        msg_fv = wiring.messages(msg)
        seen_by_log_z = msg_fv.detach()
    log_b_v = tensors.variable_log_beliefs(flat, msg_fv)
    top = finite(segment_max(log_b_v.detach(), flat.var_of_state, flat.num_vars))  # Large logs would cost precision.
    log_b_v = log_b_v - top.index_select(0, flat.var_of_state)
    scale = finite(segment_logsumexp(log_b_v, flat.var_of_state, flat.num_vars))
    log_b_v = log_b_v - scale.index_select(0, flat.var_of_state)
    log_factors, _ = _factor_beliefs(flat, msg_fv, semiring)
    with torch.no_grad():
        change = segment_max((msg.exp() - old.exp()).abs(), wiring.graph, flat.num_graphs, empty=0.0)
    # Damping hides part of the change. The change of an undamped step is larger by this factor.
    return Beliefs(log_b_v, log_factors, _log_z(flat, seen_by_log_z, semiring), change / (1.0 - damping), done)


class BPLayer(torch.nn.Module):
    """`beliefs` as a module for one structure, on the device and in the precision of the potentials.

    Potentials and `log_factors` are in the order of the graphs' own tables, so no index of the compiled graph is
    needed. `ef.CRF(graph, engine="bp")` takes one tensor for each block of tables instead.

    Args:
        graphs: the structure, one graph or several; its own potentials are not used.
        options: those of `beliefs`, such as `damping`.

    Examples:
        >>> import torch, equifactor as ef
        >>> layer = ef.learned.BPLayer(ef.generators.ising_grid(3, 3), iterations=20)
        >>> answer = layer(torch.zeros(5, 66))  # 9 tables of 2 entries, then 12 tables of 4
        >>> answer.probabilities.shape, answer.log_z.shape
        (torch.Size([5, 18]), torch.Size([5, 1]))
    """

    order: Tensor  # [T] the place of each flat entry in the graphs' own tables
    place: Tensor  # [T] the place of each entry of these tables among the flat entries

    def __init__(self, graphs: FactorGraph | Sequence[FactorGraph], **options: Any) -> None:
        super().__init__()
        self._compiled = compile(graphs)
        self._moved: dict[tuple[torch.device, torch.dtype], Flat] = {}
        self.options = options
        order = torch.tensor(self._compiled.entry_order)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("place", torch.argsort(order), persistent=False)

    def forward(self, log_phi: Float[Tensor, "*B T"]) -> Beliefs:
        """Return the beliefs of potentials [*B, T], which follow the graphs' own tables."""
        flat = self._flat(log_phi)
        _check_shape(flat, log_phi)
        in_order = log_phi.index_select(-1, self.order.to(log_phi.device))
        answer = beliefs(flat, in_order, **self.options)
        return answer._replace(log_factors=answer.log_factors.index_select(-1, self.place.to(log_phi.device)))

    def _flat(self, like: Tensor) -> Flat:
        if not isinstance(like, Tensor) or not like.is_floating_point():
            raise ModelError(f"log_phi must be a tensor of floating-point numbers, found {brief(like)}.")
        key = like.device, like.dtype
        if key not in self._moved:
            self._moved[key] = self._compiled.to(str(like.device), str(like.dtype).removeprefix("torch."))
        return self._moved[key]

    def extra_repr(self) -> str:
        """Return the text that `print` shows."""
        return ", ".join([repr(self._compiled), *(f"{name}={value!r}" for name, value in self.options.items())])


class _Copies:
    """Copies of one structure as a larger batch, and the order of their numbers in it."""

    def __init__(self, flat: Flat, batch: torch.Size) -> None:
        self.batch, self.count = batch, math.prod(batch)
        kept = flat.cache.setdefault("copies", {})
        if self.count not in kept:
            while len(kept) >= _KEPT:
                kept.pop(next(iter(kept)))
            kept[self.count] = self._made(flat)
        self.flat, self._order, self._back = kept[self.count]
        # The structure is kept, and potentials are not: `flat` may have got others since.

    def _made(self, flat: Flat) -> tuple[Flat, Tensor, Tensor]:
        """Return the batch, and the places [B T] of its entries among those of the copies, and the reverse."""
        device, dtype = flat.log_phi.device, str(flat.log_phi.dtype).removeprefix("torch.")
        larger = compile(flat.graphs * self.count).to(str(device), dtype)
        copy = flat.num_entries * torch.arange(self.count, device=device)[:, None]
        blocks = [g.entries for g in flat.groups] + [g.entries for g in flat.structured]
        # The factors of a group lie copy after copy, so each block of the batch is that of every copy in turn.
        places = [(copy + torch.arange(b.start, b.stop, device=device)).reshape(-1) for b in blocks]
        order = torch.cat(places) if places else copy.new_zeros(0)
        return larger, order, torch.argsort(order)

    def joined(self, log_phi: Tensor) -> Tensor:
        """Return potentials [*B, T] in the order of the larger batch."""
        return log_phi.reshape(-1).index_select(0, self._order)

    def apart(self, answer: Beliefs) -> Beliefs:
        """Return the answer of the larger batch with the axes of the batch."""

        def rows(values: Tensor) -> Tensor:
            return values.reshape(*self.batch, len(values) // max(1, self.count))

        factors = rows(answer.log_factors.index_select(0, self._back))
        return Beliefs(
            rows(answer.log_probabilities), factors, rows(answer.log_z), rows(answer.change), answer.iterations
        )


_KEPT = 4  # The number of compiled batches that are kept: full and last batches of training and of validation.

# ---- the iteration --------------------------------------------------------------------------------------


def _step(wiring: Wiring, msg: Tensor, keep: Tensor) -> Tensor:
    """Return the messages [S2] of factors with two or more variables after one damped update."""
    return wiring.damp(wiring.normalize(wiring.reduce(wiring.outgoing(msg))), msg, keep)


def _iterate(wiring: Wiring, keep: Tensor, iterations: int, tolerance: float = 0.0) -> tuple[Tensor, Tensor, int]:
    """Return the last two messages and the number of steps; with a tolerance, stop once the messages have settled."""
    old = msg = wiring.uniform_messages()
    for n in range(1, iterations + 1):
        old, msg = msg, _step(wiring, msg, keep)
        check = tolerance > 0 and n % _CHECK_EVERY == 0
        if check and (msg.numel() == 0 or bool((msg.exp() - old.exp()).abs().amax() <= tolerance)):
            return old, msg, n
    return old, msg, iterations


# Steps between two checks for convergence, each of which waits for the device: three steps are wasted at most.
_CHECK_EVERY = 4


def _fixed_point(wiring: Wiring, msg: Tensor, keep: Tensor, iterations: int, tolerance: float) -> Tensor:
    """Return the messages [S2] one step after a fixed point, with the gradient of the fixed point."""
    last = _step(wiring, msg, keep)
    if not last.requires_grad:
        return last
    point = msg.detach().requires_grad_()
    # J^T needs its own recorded step, since the hook below would otherwise run within itself.
    after = _step(wiring, point, keep)

    def solved(g: Tensor) -> Tensor:
        """Iterate v = g + J^T v until it settles, and return v."""
        v = g
        for n in range(1, iterations + 1):
            old, v = v, g + torch.autograd.grad(after, point, v, retain_graph=True)[0]
            if n % _CHECK_EVERY == 0 and bool((v - old).abs().amax() <= tolerance * v.abs().amax()):
                break
        return v

    last.register_hook(solved)  # type: ignore[no-untyped-call]
    return last


# ---- answers --------------------------------------------------------------------------------------------


def _factor_beliefs(flat: Flat, msg_fv: Tensor, semiring: Semiring) -> tuple[Tensor, Tensor]:
    """Return the normalised log belief of each table entry [T], and the sum of ln Z_a (`max`: of best entries) [G]."""
    msg_vf = tensors.sum_of_other_factors(flat, msg_fv)
    blocks, log_z = [], msg_fv.new_zeros(flat.num_graphs)
    for group in flat.groups:
        log_b = tensors.with_messages(group, flat.log_phi, msg_vf).reshape(group.num_factors, -1)
        total = logsumexp(log_b, -1)
        blocks.append((log_b - finite(total)[:, None]).reshape(-1))
        log_z_a = log_b.amax(-1) if semiring == "max" else total
        log_z = log_z + segment_sum(log_z_a, flat.graph_of_factor[group.factors], flat.num_graphs)
    for own in tensors.structured_of(flat, fixed=False):
        log_z_a, log_b = _structured_beliefs(own, flat.log_phi, msg_vf, semiring)
        blocks.append(log_b)
        log_z = log_z + segment_sum(log_z_a, flat.graph_of_factor[own.group.factors], flat.num_graphs)
    return torch.cat(blocks) if blocks else msg_fv.new_zeros(0), log_z


def _structured_beliefs(
    own: tensors.StructuredTensors, log_phi: Tensor, msg_vf: Tensor, semiring: Semiring
) -> tuple[Tensor, Tensor]:
    """Return ln Z_a [N] of structured factors, and the logs [t] of its derivatives with respect to their log values."""
    log_z_a = own.log_totals(log_phi, msg_vf, semiring)
    kind = kind_class(own.group.kind)
    if kind.nonlinear_values or not kind.tensors:  # Its derivatives have either sign, or it has none in torch.
        return log_z_a, torch.full_like(log_phi[own.group.entries], -torch.inf)
    wanted = torch.is_grad_enabled() and log_z_a.requires_grad
    with torch.inference_mode(False), torch.enable_grad():
        values = log_phi.clone() if wanted else log_phi.detach().clone().requires_grad_()
        total = own.log_totals(values, msg_vf if wanted else msg_vf.detach().clone(), semiring)
        total = torch.where(torch.isneginf(total), 0.0, total)
        (slope,) = torch.autograd.grad(total.sum(), values, create_graph=wanted)
        return log_z_a, safe_log(slope[own.group.entries])


def _log_z(flat: Flat, msg_fv: Tensor, semiring: Semiring) -> Float[Tensor, " G"]:
    """Return the Bethe ln Z for both semirings."""
    if semiring == "sum":
        return tensors.bethe_log_z(flat, msg_fv)
    best = segment_max(tensors.variable_log_beliefs(flat, msg_fv), flat.var_of_state, flat.num_vars)
    degree = segment_sum(torch.ones_like(flat.var_of_edge), flat.var_of_edge, flat.num_vars)
    terms = torch.where(degree == 1, 0.0, (1 - degree) * best)  # 0 times -inf is meant as 0.
    of_vars = segment_sum(terms, flat.graph_of_var, flat.num_graphs)
    of_factors = _factor_beliefs(flat, msg_fv, semiring)[1]
    empty = torch.isneginf(of_factors) | (tensors.count_empty(best, flat.graph_of_var, flat.num_graphs) > 0)
    return torch.where(empty, -torch.inf, of_factors + of_vars)


# ---- checks ---------------------------------------------------------------------------------------------


def _has_zeros(log_phi: Tensor) -> bool:
    """Return whether there are true zeros, and raise `ModelError` for NaN and +inf.

    While a CUDA graph is captured, values cannot be read: the answer is False, and NaN leads to NaN.
    """
    if not log_phi.numel() or (log_phi.device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        return False
    low, high = torch.stack(torch.aminmax(log_phi.detach())).tolist()
    if not high < math.inf:  # NaN is not below anything.
        raise ModelError(
            "beliefs: a potential is NaN or +inf. Log potentials must be finite, or -inf for impossible states."
        )
    return bool(low == -math.inf)


def _check_shape(flat: Flat, log_phi: Any) -> None:
    if not isinstance(log_phi, Tensor) or log_phi.shape[-1:] != flat.log_phi.shape or not math.prod(log_phi.shape[:-1]):
        found = f"shape {tuple(log_phi.shape)}" if isinstance(log_phi, Tensor) else type(log_phi).__name__
        raise ModelError(
            f"log_phi must be a tensor of shape [.., {flat.num_entries}], one number per table entry; found {found}."
        )


def _check(
    flat: Flat, log_phi: Any, damping: float, iterations: int, tolerance: float, semiring: str, gradient: str
) -> None:
    if not isinstance(getattr(flat, "log_phi", None), Tensor):
        found = "numpy arrays" if hasattr(flat, "log_phi") else brief(flat)
        raise ModelError(
            f"beliefs needs a compiled graph of torch tensors and found {found}. Pass compile(graphs).to(device)."
        )
    _check_shape(flat, log_phi)
    if log_phi.device != flat.log_phi.device or not log_phi.is_floating_point():
        raise ModelError(
            f"log_phi must be floating point and on the device of the graph, {flat.log_phi.device}; "
            f"found {log_phi.dtype} on {log_phi.device}."
        )
    if not 0 <= damping < 1:
        raise OptionError(f"beliefs: damping must be at least 0 and below 1, found {damping}.")
    if iterations < 1:
        raise OptionError(f"beliefs: iterations must be at least 1, found {iterations}.")
    if not 0 <= tolerance < math.inf:
        raise OptionError(f"beliefs: tolerance must be a number of at least 0, found {tolerance}.")
    for name, value, known in (("semiring", semiring, Semiring), ("gradient", gradient, Gradient)):
        if not isinstance(value, str) or value not in get_args(known):
            raise OptionError(f"beliefs: {name} must be one of {', '.join(get_args(known))}, found {brief(value)}.")
