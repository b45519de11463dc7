"""Elimination of a batch with torch, for GPUs and for second derivatives; the last axis of tables is the graphs.

All work is in the log domain: a GPU waits for memory, not for exponentials. No value is read on the host, so that the
GPU never waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from equifactor.kernels.segments import finite, logsumexp
from equifactor.solvers.elimination.orders import Order

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.elimination.plan import Plan


_COPIES = 4.0  # Tensors of a cluster's size that are alive at once, beside the messages. Estimated from the code.


class Tangents(NamedTuple):
    """A direction in which the answers are differentiated: small changes of the log tables, and of log unaries."""

    entries: Float[Tensor, "t n"]
    states: Float[Tensor, "x n"]


class TorchSums(NamedTuple):
    """Answers for n graphs, or their derivatives. If no assignment is possible, log_z is -inf and the rest is zero."""

    log_z: Float[Tensor, " n"]
    states: Float[Tensor, "x n"]  # probabilities of the states of all variables
    entries: Float[Tensor, "t n"]  # probabilities of the table entries of all factors


class TorchBatch:
    """The clusters of one plan, ready to run any potentials on any device.

    The axes of a cluster's table are its separator, latest elimination first, its own variable, and the graphs.
    """

    def __init__(self, steps: Plan) -> None:
        if not isinstance(steps.found, Order):
            raise ValueError("An unfinished plan cannot be run. No elimination order within the limits was found.")
        self.steps = steps
        r, order = steps.reduced.graph.structure, steps.found
        self.card = r.card.tolist()
        self.order = order.variables.tolist()
        self.parent = order.parent.tolist()
        self.place = np.argsort(order.variables).tolist()
        self.scopes = [scope.tolist() for scope in np.split(r.scope_vars, r.scope_ptr[1:-1])]
        self.entries = [slice(a, b) for a, b in zip(r.table_ptr[:-1].tolist(), r.table_ptr[1:].tolist(), strict=True)]
        self.states = [slice(a, b) for a, b in zip(r.state_ptr[:-1].tolist(), r.state_ptr[1:].tolist(), strict=True)]
        separators = np.split(order.separators, order.sep_ptr[1:-1])
        self.clusters = [
            [*(self.order[k] for k in sep.tolist()), v] for sep, v in zip(separators, self.order, strict=True)
        ]
        self.children: list[list[int]] = [[] for _ in self.order]
        for n, parent in enumerate(self.parent):
            if parent >= 0:
                self.children[parent].append(n)
        self.factors_of: list[list[int]] = [[] for _ in self.order]
        self.constants: list[int] = []
        for a, scope in enumerate(self.scopes):
            if scope:
                self.factors_of[min(self.place[v] for v in scope)].append(a)
            else:
                self.constants.append(self.entries[a].start)

    def chunk(self, memory_limit: float, itemsize: int) -> int:
        """Return how many graphs fit into the memory (GiB) at once."""
        entries = self.steps.memory / 8.0 + _COPIES * 2.0**self.steps.log2_largest
        return max(1, int(memory_limit * 2**30 / (itemsize * entries)))

    def sums(
        self, log_phi: FloatArray, device: str, dtype: str, marginals: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return probabilities [n, x] (zero without `marginals`) and log_z [n] of the graphs with tables [n, t]."""
        phi = torch.as_tensor(log_phi, dtype=getattr(torch, dtype)).to(device).T.contiguous()
        if not marginals:
            log_z = phi[self.constants].sum(0) + self._way_up(phi, None, keep=False)[2][0]
            return np.zeros((len(log_phi), sum(self.card))), log_z.double().cpu().numpy()
        answer = self.run(phi)
        return answer.states.T.double().cpu().numpy(), answer.log_z.double().cpu().numpy()

    def run(self, phi: Float[Tensor, "t n"], *, factors: bool = False, tangents: Tangents | None = None) -> TorchSums:
        """Return ln Z and marginals; with `tangents` return their derivatives in that direction instead.

        Args:
            phi: log tables of n graphs.
            factors: whether to compute the probabilities of table entries too; they are zero otherwise.
            tangents: the direction.
        """
        messages, changes, total = self._way_up(phi, tangents)
        constant = phi[self.constants].sum(0)
        possible = constant + total[0] > -torch.inf
        states, entries = self._way_down(phi, messages, changes, tangents, factors)
        if tangents is None:
            entries[self.constants] = 1.0
            log_z = constant + total[0]
        else:
            log_z = torch.where(possible, tangents.entries[self.constants].sum(0) + total[1], 0.0)
        return TorchSums(log_z, torch.where(possible, states, 0.0), torch.where(possible, entries, 0.0))

    def best(self, phi: Float[Tensor, "t n"]) -> tuple[Float[Tensor, " n"], Int[Tensor, "v n"]]:
        """Return the best log score of each of n graphs, and the states of an assignment that has it."""
        messages: list[Tensor] = []
        choices = []
        score = phi[self.constants].sum(0)
        for n in range(len(self.order)):
            message, choice = self._table(phi, n, messages).max(-2)
            if self.parent[n] < 0:
                score = score + message.reshape(-1)
            messages.append(message)
            choices.append(choice.reshape(-1, phi.shape[1]))
        states = torch.zeros(len(self.card), phi.shape[1], dtype=torch.int64, device=phi.device)
        for n in range(len(self.order) - 1, -1, -1):
            row = torch.zeros_like(states[0])
            for v in self.clusters[n][:-1]:
                row = row * self.card[v] + states[v]
            states[self.order[n]] = choices[n].gather(0, row[None]).squeeze(0)
        return score, states

    def _way_up(
        self, phi: Tensor, tangents: Tangents | None, keep: bool = True
    ) -> tuple[list[Tensor], list[Tensor], tuple[Tensor, ...]]:
        """Return all messages, their changes along the tangents, and the sums of both at the roots.

        Unless `keep` is set, messages are emptied once they are read.
        """
        messages: list[Tensor] = []
        changes: list[Tensor] = []
        total = change_of_total = phi.new_zeros(phi.shape[1])
        for n in range(len(self.order)):
            table = self._table(phi, n, messages)
            messages.append(logsumexp(table, -2))
            for child in () if keep else self.children[n]:
                messages[child] = phi.new_zeros(0)
            if tangents is not None:
                given = (table - finite(messages[n]).unsqueeze(-2)).exp()  # P(x | separator, subtree)
                changes.append((given * self._change(tangents, n, changes)).sum(-2))
            if self.parent[n] < 0:
                total = total + messages[n].reshape(-1)
                change_of_total = change_of_total + (changes[n].reshape(-1) if changes else 0.0)
        return messages, changes, (total, change_of_total)

    def _way_down(
        self, phi: Tensor, messages: list[Tensor], changes: list[Tensor], tangents: Tangents | None, factors: bool
    ) -> tuple[Tensor, Tensor]:
        """Compute P(s, x) = P(s) q(s, x) / sum_x q(s, x) from the roots to the leaves, or its derivatives.

        Tables are computed again from the messages below them: time is cheaper than memory here.
        """
        states = phi.new_zeros(sum(self.card), phi.shape[1])
        entries = torch.zeros_like(phi)
        above: dict[int, tuple[Tensor, ...]] = {}
        for n in range(len(self.order) - 1, -1, -1):
            message = messages[n]
            given = (self._table(phi, n, messages) - finite(message).unsqueeze(-2)).exp()
            if self.parent[n] < 0:
                above[n] = ((message > -torch.inf).to(phi.dtype), torch.zeros_like(message))
            separator, change_of_separator = above.pop(n)
            joint = given * separator.unsqueeze(-2)
            answer = joint
            if tangents is not None:
                change = self._change(tangents, n, changes) - changes[n].unsqueeze(-2)
                answer = joint * change + given * change_of_separator.unsqueeze(-2)
            cluster = self.clusters[n]
            p = answer.reshape(-1, *answer.shape[-2:]).sum(0)
            total = p.sum(0)  # the downward pass has multiplied many probabilities
            states[self.states[cluster[-1]]] = p if tangents else p / torch.where(total > 0, total, 1.0)
            for a in self.factors_of[n] if factors else ():
                scope = self.scopes[a]
                axes = [cluster.index(v) for v in sorted(scope, key=lambda v: -self.place[v])]
                table = _onto(answer, axes).permute([*(_rank(scope, self.place)), len(scope)])
                entries[self.entries[a]] = table.reshape(-1, phi.shape[1])
            for child in self.children[n]:
                axes = [cluster.index(v) for v in self.clusters[child][:-1]]
                above[child] = (_onto(joint, axes), _onto(answer, axes))
        return states, entries

    def _table(self, phi: Tensor, n: int, messages: list[Tensor]) -> Tensor:
        """Return the log products of a cluster: its factors and the messages of its children."""
        cluster = self.clusters[n]
        table = phi.new_zeros([1] * (len(cluster) - 1) + [self.card[cluster[-1]], phi.shape[1]])
        for a in self.factors_of[n]:
            table = table + self._factor(phi, a, cluster)
        for child in self.children[n]:
            table = table + self._expand(messages[child], self.clusters[child][:-1], cluster)
        return table

    def _change(self, tangents: Tangents, n: int, changes: list[Tensor]) -> Tensor:
        """Return the change of a cluster's log products along the tangents."""
        return self._table(tangents.entries, n, changes) + tangents.states[self.states[self.order[n]]]

    def _factor(self, phi: Tensor, a: int, cluster: list[int]) -> Tensor:
        """Return a factor's table with its axes in the order of the cluster, absent ones of length one."""
        scope = self.scopes[a]
        table = phi[self.entries[a]].reshape([self.card[v] for v in scope] + [phi.shape[1]])
        by_place = sorted(range(len(scope)), key=lambda k: -self.place[scope[k]])
        return self._expand(table.permute([*by_place, len(scope)]), [scope[k] for k in by_place], cluster)

    def _expand(self, table: Tensor, scope: list[int], cluster: list[int]) -> Tensor:
        inside = set(scope)
        return table.reshape([self.card[v] if v in inside else 1 for v in cluster] + [table.shape[-1]])


def _onto(table: Tensor, axes: list[int]) -> Tensor:
    """Return the table summed over all axes except the last, the graphs, and the given ones, which ascend."""
    others = [k for k in range(table.ndim - 1) if k not in axes]
    return table.sum(others) if others else table


def _rank(scope: list[int], place: list[int]) -> list[int]:
    """Return the rank of each variable of a scope, the variable eliminated last first."""
    latest_first = sorted(scope, key=lambda v: -place[v])
    return [latest_first.index(v) for v in scope]
