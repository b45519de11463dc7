"""FGNN: variable-to-factor and factor-to-variable modules whose weights depend on the edge [Zhang20]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.base.errors import OptionError
from equifactor.base.options import option
from equifactor.base.status import Task
from equifactor.kernels.segments import segment_sum
from equifactor.solvers.learned.layers import mlp
from equifactor.solvers.learned.learned_solver import NeuralSolver
from equifactor.solvers.learned.network import Network, NetworkConfig, NetworkState, check_cardinality
from equifactor.solvers.learned.table_features import (
    check_arity,
    edge_tables,
    factor_of_edge,
    position_of_edge,
    rule_out,
    unary_features,
    variable_of_edge,
    with_support,
)
from equifactor.solvers.learned.wiring import Flat, Wiring
from equifactor.solving.registry import register
from equifactor.solving.solver import Symmetry

Aggregate = Literal["max", "lse", "sum"]
_SHARPNESS = 3.0  # The aggregator lse is (1/3) ln sum exp 3x. It is part of the network: trained weights depend on it.


@dataclass(frozen=True, kw_only=True)
class FGNNConfig(NetworkConfig):
    """Settings of FGNN; the defaults are the small network of [Sun21].

    The published network has `widths=64+64+128+128+256+256+128+128+64+64, steps=1, form=types, rank=16,
    update=residual, position=true`.
    """

    card: int = option(2, "number of states of every variable", low=2)
    arity: int = option(2, "variables of the largest factor; tables are seen as card^arity numbers", low=2, high=32)
    widths: str = option("5", "sizes of the hidden vectors after each layer of one step, such as 64+128+64")
    hidden: int = option(64, "width of the hidden layers of all networks", low=1)
    form: Literal["matrix", "types"] = option("matrix", "matrix: Q is a matrix, M a vector; types: the other way round")
    rank: int = option(2, "matrix: size of Q; types: number of edge types that are mixed", low=1)
    aggregate: Aggregate = option("max", "how messages are combined at a node")
    update: Literal["gru", "residual"] = option("gru", "how a node is updated; gru needs equal widths")
    position: bool = option(False, "show each edge its place in the scope of the factor")
    orient: bool = option(False, "show each variable the table with its own axis first")

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.widths.split("+")
        if not all(w.isdecimal() and int(w) > 0 for w in sizes):
            raise OptionError(f"fgnn: widths must be whole numbers joined by +, found {self.widths!r}.")
        if self.update == "gru" and len(set(sizes)) > 1:
            raise OptionError(f"fgnn: update=gru needs equal widths, found {self.widths}. Use update=residual.")

    def more_symmetries(self) -> frozenset[Symmetry]:
        """Return local variable symmetry for oriented pair tables, which show each variable its own axis."""
        return frozenset(("local variable",) if self.orient and not self.position and self.arity == 2 else ())


class FGNN(Network):
    """`f_a <- U(max_i Q(t_ai) M[f_a, g_i], f_a)` for factors, then the same for the vectors g_i of variables.

    t_ai = [b_i, table of a] describes the edge; each direction has its own networks. A step runs all layers of
    `widths`, and beliefs are an MLP of g_i. As published, all variables of a factor see the same table and cannot know
    which axis is theirs, unless `position` or `orient` is set. It respects global symmetry; with `orient`, without
    `position` and with arity 2 also local variable symmetry.
    """

    config_class = FGNNConfig
    hidden_axes = ("variables", "larger factors", "fixed", "fixed", "fixed")

    def __init__(self, config: FGNNConfig) -> None:
        super().__init__(config)
        X = config.card
        self.card, self.arity, self.orient, self.position = X, config.arity, config.orient, config.position
        widths = [int(w) for w in config.widths.split("+")]
        seen = X + X**self.arity + (self.arity if self.position else 0)
        self.from_unary = nn.Linear(X, widths[-1])
        self.from_table = nn.Linear(seen, widths[-1])
        to_factor, to_variable = [], []
        for before, after in zip((widths[-1], *widths[:-1]), widths, strict=True):
            to_factor.append(_Module(before, before, after, seen, config))
            to_variable.append(_Module(before, after, after, seen, config))
        self.to_factor, self.to_variable = nn.ModuleList(to_factor), nn.ModuleList(to_variable)
        self.readout = mlp((widths[-1], config.hidden, config.hidden, X), nn.ReLU)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` unless the model was made for this cardinality and for factors as large as these."""
        check_cardinality(flat, self.kind, self.card)
        check_arity(flat, self.kind, self.arity, "Raise its setting arity, or use fe-net, which takes any arity.")

    def start(self, wiring: Wiring) -> NetworkState:
        """Return the start; hidden are vectors g of variables, f of factors, t of edges, and both ends of each edge."""
        b, variable = unary_features(wiring, self.card), variable_of_edge(wiring)
        factor, num_factors = factor_of_edge(wiring)
        parts = [b[variable], edge_tables(wiring, self.card, self.arity, self.orient)]
        if self.position:
            parts.append(position_of_edge(wiring, self.arity))
        seen = torch.cat(parts, dim=1)
        f = segment_sum(self.from_table(seen), factor, num_factors)
        return NetworkState(wiring, wiring.uniform_messages(), (self.from_unary(b), f, seen, variable, factor))

    def step(self, state: NetworkState) -> NetworkState:
        """Run all layers, one after the other."""
        g, f, seen, variable, factor = state.hidden
        for to_factor, to_variable in zip(self.to_factor, self.to_variable, strict=True):
            f = to_factor(f, g, seen, factor, variable)
            g = to_variable(g, f, seen, variable, factor)
        return NetworkState(state.wiring, rule_out(state.wiring, state.msg_fv), (g, f, seen, variable, factor))

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Return an MLP of g_i; impossible states stay impossible."""
        out = self.readout(state.hidden[0]).reshape(-1)
        return with_support(state.wiring, state.msg_fv, out)


class _Module(nn.Module):
    """One direction of a layer: nodes of size `own` receive from nodes of size `other` and become size `after`."""

    def __init__(self, own: int, other: int, after: int, seen: int, config: FGNNConfig) -> None:
        super().__init__()
        H, self.rank, self.aggregate = config.hidden, config.rank, config.aggregate
        self.matrix = config.form == "matrix"
        self.size = size = self.rank if self.matrix else after
        if self.matrix:
            self.Q: nn.Module = nn.Linear(seen, size * self.rank)
            self.M: nn.Module = mlp((own + other, H, H, self.rank), nn.ReLU)
        else:
            self.Q = mlp((seen, H, self.rank), nn.ReLU)
            self.M = nn.Linear(own + other, size * self.rank)
        self.gru = nn.GRUCell(size, after) if config.update == "gru" else None
        if self.gru is None:
            self.out = nn.Sequential(nn.Linear(size, after), nn.LayerNorm(after), nn.ReLU())
            self.skip: nn.Module = nn.Identity() if own == after else nn.Linear(own, after)

    def forward(self, own: Tensor, other: Tensor, seen: Tensor, receiver: Tensor, sender: Tensor) -> Tensor:
        """Return the new vectors [N, after] of nodes whose vectors were `own` [N, own]."""
        vector, matrix = self.M(torch.cat((own[receiver], other[sender]), dim=1)), self.Q(seen)
        if not self.matrix:
            vector, matrix = matrix, vector
        message = (matrix.reshape(-1, self.size, self.rank) * vector.unsqueeze(1)).sum(2)
        heard = _aggregate(message, receiver, len(own), self.aggregate)
        return self.gru(heard, own) if self.gru is not None else self.skip(own) + self.out(heard)


def _aggregate(values: Float[Tensor, "E D"], index: Tensor, count: int, how: Aggregate) -> Float[Tensor, "N D"]:
    """Return the sum, maximum or soft maximum of the rows of each node; 0 for a node without edges."""
    if how == "sum":
        return segment_sum(values, index, count)
    used = values if how == "max" else values.detach()
    top = values.new_full((count, values.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, index[:, None].expand_as(values), used, "amax")
    empty = torch.isneginf(top)
    top = torch.where(empty, 0.0, top)
    if how == "max":
        return top
    total = segment_sum((_SHARPNESS * (values - top[index])).exp(), index, count)
    return top + torch.where(empty, 1.0, total).log() / _SHARPNESS


@register("fgnn")
@dataclass(frozen=True, kw_only=True)
class FGNNSolver(NeuralSolver):
    """Graph network on variables and factors with edge-conditioned weights; one cardinality and arity (FGNN).

    Marginals and assignments are learned. It does not estimate ln Z. For MAP the score of the assignment is a lower
    bound, and the upper bound follows from the tables alone. Untrained weights are random.
    """

    network_class = FGNN
    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global",))
    takes = "graphs with the number of states it was trained for, and no larger factors"
