"""GGNN: a gated graph network on the variables, or on variables and factors [Yoon18]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
    rule_out,
    unary_features,
    variable_of_edge,
    with_support,
)
from equifactor.solvers.learned.wiring import Flat, Wiring
from equifactor.solving.registry import register
from equifactor.solving.solver import Symmetry


@dataclass(frozen=True, kw_only=True)
class GGNNConfig(NetworkConfig):
    """Settings of GGNN; the defaults are the published ones."""

    card: int = option(2, "number of states of every variable", low=2)
    graph: Literal["variables", "bipartite"] = option("variables", "nodes are the variables, or variables and factors")
    arity: int = option(
        2, "bipartite: variables of the largest factor; tables are seen as card^arity numbers", low=2, high=32
    )
    channels: int = option(5, "size D of the hidden vectors and messages", low=1)
    hidden: int = option(64, "width of the two hidden layers of each network", low=1)
    orient: bool = option(False, "show each variable the table with its own axis first")

    @property
    def largest_arity(self) -> int:
        """The number of variables of the largest factor that the network can take."""
        return self.arity if self.graph == "bipartite" else 2

    def more_symmetries(self) -> frozenset[Symmetry]:
        """Return local variable symmetry for oriented pair tables, which show each variable its own axis."""
        return frozenset(("local variable",) if self.orient and self.largest_arity == 2 else ())


class GGNN(Network):
    """`h_i = GRU(sum_j MLP1[h_i, h_j, b_i, b_j, table], h_i)`, beliefs MLP2[h_i, b_i].

    `graph=variables` joins the variables of each pair. `graph=bipartite` has factors as nodes too: the messages
    MLP1[h of the receiver, h of the sender, direction, b_i, table] go both ways, and the first channel of h starts at 1
    for factors. As published, both ends of a pair see the same table and cannot know which axis is theirs, unless
    `orient` is set. It respects global symmetry; with `orient` and arity 2 also local variable symmetry.
    """

    config_class = GGNNConfig

    def __init__(self, config: GGNNConfig) -> None:
        super().__init__(config)
        X, D, H = config.card, config.channels, config.hidden
        self.card, self.channels, self.orient = X, D, config.orient
        self.bipartite, self.arity = config.graph == "bipartite", config.largest_arity
        seen = X**self.arity + (X + 1 if self.bipartite else 2 * X)
        self.hidden_axes = ("nodes" if self.bipartite else "variables", "fixed", "fixed", "fixed")
        self.mlp1 = mlp((2 * D + seen, H, H, D), nn.ReLU)
        self.gru = nn.GRUCell(D, D)
        self.mlp2 = mlp((D + X, H, H, X), nn.ReLU)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` unless the model was made for this cardinality and for factors as large as these."""
        check_cardinality(flat, self.kind, self.card)
        advice = "Raise its setting arity" if self.bipartite else "Set graph=bipartite"
        check_arity(flat, self.kind, self.arity, f"{advice}, or use fe-net, which takes any arity.")

    def start(self, wiring: Wiring) -> NetworkState:
        """Return the start; hidden are vectors h of nodes, what each directed edge sees, its receiver and sender."""
        b, table = unary_features(wiring, self.card), edge_tables(wiring, self.card, self.arity, self.orient)
        variable = variable_of_edge(wiring)
        if self.bipartite:
            factor, num_factors = factor_of_edge(wiring)
            h = table.new_zeros(len(b) + num_factors, self.channels)
            h[len(b) :, 0] = 1.0
            ends = variable, len(b) + factor
            seen = torch.cat((b[variable], table), dim=1)
            direction = torch.arange(2, device=h.device, dtype=h.dtype).repeat_interleave(len(variable))
            seen = torch.cat((direction[:, None], seen.repeat(2, 1)), dim=1)
            receiver, sender = torch.cat(ends), torch.cat(ends[::-1])
        else:
            h = table.new_zeros(len(b), self.channels)
            # A group of pairs lists the edges of slot 0, then those of slot 1. Swapped, they are the other ends.
            blocks = [variable[g.edges[1 - slot]] for g in wiring.groups for slot in range(2)]
            receiver, sender = variable, torch.cat(blocks) if blocks else variable
            seen = torch.cat((b[receiver], b[sender], table), dim=1)
        return NetworkState(wiring, wiring.uniform_messages(), (h, seen, receiver, sender))

    def step(self, state: NetworkState) -> NetworkState:
        """Send messages along all edges, sum them at each node and update the node by the GRU."""
        h, seen, receiver, sender = state.hidden
        message = self.mlp1(torch.cat((h[receiver], h[sender], seen), dim=1))
        h = self.gru(segment_sum(message, receiver, len(h)), h)
        return NetworkState(state.wiring, rule_out(state.wiring, state.msg_fv), (h, seen, receiver, sender))

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Return MLP2 of the hidden vector and the unary factors; impossible states stay impossible."""
        b = unary_features(state.wiring, self.card)
        out = self.mlp2(torch.cat((state.hidden[0][: len(b)], b), dim=1)).reshape(-1)
        return with_support(state.wiring, state.msg_fv, out)


@register("ggnn")
@dataclass(frozen=True, kw_only=True)
class GGNNSolver(NeuralSolver):
    """Gated graph network that sees tables as features; one cardinality and largest arity per model (GGNN).

    Marginals and assignments are learned. It does not estimate ln Z. For MAP the score of the assignment is a lower
    bound, and the upper bound follows from the tables alone. Untrained weights are random.
    """

    network_class = GGNN
    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global",))
    takes = "graphs with the number of states it was trained for, and no larger factors"
