"""What the pure graph networks see of a batch: tables and unary factors as plain feature vectors.

A table "as published" is laid out in the order of its scope, the same for all of its variables. An "oriented" table is
transposed so that the first axis belongs to the variable at the end of the edge. Only an oriented table shows a
variable which axis is its own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from equifactor.base.errors import ModelError
from equifactor.solvers.learned.wiring import Flat, Wiring

# Lowest log value seen, relative to the largest of the table; true zeros too. It is part of the network: trained
# weights depend on it.
_FLOOR = -30.0


def centred(log_values: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """Return rows relative to their largest entry, clamped at -30, minus their mean: finite, and without a scale."""
    top = log_values.amax(1, keepdim=True)
    top = torch.where(torch.isneginf(top), 0.0, top)
    bounded = (log_values - top).clamp_min(_FLOOR)
    return bounded - bounded.mean(1, keepdim=True)


def edge_tables(wiring: Wiring, card: int, arity: int, orient: bool) -> Float[Tensor, "E2 D"]:
    """Return the table of the factor of each edge, D = card^arity numbers; O(E2 D).

    The table of a factor with fewer variables is repeated along the missing axes, which come last. With `orient` the
    axis of the edge's own variable comes first and the others keep their order, so with three or more variables the
    result depends on the order of the scope.
    """
    blocks = []
    for group in wiring.groups:
        table = group.table(wiring.flat.log_phi)
        k = len(group.shape)
        for slot in range(k):
            own = table.movedim(slot + 1, 1) if orient else table
            wide = own.reshape(*own.shape, *[1] * (arity - k)).expand(-1, *[card] * arity)
            blocks.append(wide.reshape(group.num_factors, -1))
    return centred(torch.cat(blocks)) if blocks else wiring.unary.new_zeros(0, card**arity)


def factor_of_edge(wiring: Wiring) -> tuple[Int[Tensor, " E2"], int]:
    """Return the factor of each edge, numbered from 0 over the factors with two or more variables, and their number."""
    blocks, first = [], 0
    for group in wiring.groups:
        numbers = torch.arange(first, first + group.num_factors, device=wiring.unary.device)
        blocks += [numbers] * len(group.shape)
        first += group.num_factors
    return torch.cat(blocks) if blocks else wiring.edge.new_zeros(0), first


def position_of_edge(wiring: Wiring, arity: int) -> Float[Tensor, "E2 A"]:
    """Return the place of each edge in the scope of its factor, one-hot."""
    eye = torch.eye(arity, dtype=wiring.unary.dtype, device=wiring.unary.device)
    blocks = [eye[slot].expand(g.num_factors, -1) for g in wiring.groups for slot in range(len(g.shape))]
    return torch.cat(blocks) if blocks else eye[:0]


def variable_of_edge(wiring: Wiring) -> Int[Tensor, " E2"]:
    """Return the variable of each edge of the factors with two or more variables."""
    return wiring.flat.var_of_edge[wiring.flat.num_edges - wiring.num_edges :]


def unary_features(wiring: Wiring, card: int) -> Float[Tensor, "V D"]:
    """Return the product b_i of the unary factors of each variable, in the log."""
    return centred(wiring.unary.reshape(-1, card))


@torch.no_grad()
def rule_out(wiring: Wiring, msg_fv: Float[Tensor, " S2"]) -> Float[Tensor, " S2"]:
    """Return uniform messages with -inf for the states that a factor excludes: one round of arc consistency.

    A pure network sends no messages of its own, and impossible states must stay impossible in its answers. Graphs
    without zeros keep their messages.
    """
    if not wiring.flat.has_zeros:
        return msg_fv
    impossible = torch.isneginf(wiring.reduce(wiring.outgoing(msg_fv)))
    return torch.where(impossible, -torch.inf, msg_fv)


def with_support(wiring: Wiring, msg_fv: Float[Tensor, " S2"], out: Float[Tensor, " X"]) -> Float[Tensor, " X"]:
    """Return the predictions `out` for states that the messages of `rule_out` leave possible, -inf for all others."""
    if not wiring.flat.has_zeros:
        return out
    return torch.where(torch.isneginf(wiring.log_beliefs(msg_fv)), -torch.inf, out)


def check_arity(flat: Flat, kind: str, wanted: int, advice: str) -> None:
    """Raise `ModelError` unless every factor has at most `wanted` variables."""
    for group in flat.groups:
        if len(group.shape) > wanted:
            graph = flat.graphs[int(flat.graph_of_factor[int(group.factors[0])])]
            raise ModelError(
                f"{kind} was made for factors of at most {wanted} variables, and {graph.name or 'a graph'} has a "
                f"factor of {len(group.shape)}. {advice}"
            )
