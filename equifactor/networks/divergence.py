"""How far two models over the same variables are apart: Kullback-Leibler divergence and Hellinger distance.

KL(p || q) = E_p[ln p(x) - ln q(x)] is a sum of one term for each table, under the marginals of p over its scope. The
Hellinger distance is sqrt(1 - sum_x sqrt(p(x) q(x))), where the sum is ln Z of the model with half of all logs.
Both are exact where elimination fits. Elsewhere both models must be Bayesian networks. The divergence is then a mean
over samples of p, and the sum of roots a mean of 1 / cosh((ln p - ln q) / 2), which is at most 1, over samples of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.options import did_you_mean
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import children_of
from equifactor.networks.forward_samples import forward_samples
from equifactor.questions.solve import solve
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equifactor.base.typing import FloatArray, IntArray

_SAMPLES = 20_000  # Samples of an estimate: its error is below 1 % of the spread of ln p - ln q.
_ROUNDING = 1e-12  # Shares below this are rounding.
_SHOWN = 10  # Variables in a printed table.


@dataclass(frozen=True, eq=False, repr=False)
class Divergence:
    """How far a model q is from a model p over the same variables.

    `by_variable` splits the divergence of two Bayesian networks: the expected difference of the logs of the tables of
    each variable, the largest first. The terms sum to `kl`.
    """

    kl: float  # KL(p || q) in nats; infinite if q excludes what p allows
    hellinger: float  # between 0 and 1; the same in both directions
    by_variable: Mapping[str | int, float] = field(default_factory=dict)
    kl_error: float = 0.0  # standard errors of estimates; zero where elimination fits
    hellinger_error: float = 0.0
    is_exact: bool = True  # whether both numbers are exact up to rounding

    def __repr__(self) -> str:
        return f"Divergence(kl={self.kl:.6g}, hellinger={self.hellinger:.6g})"

    def __str__(self) -> str:
        errors = ("", "") if self.is_exact else (f" +- {self.kl_error:.2g}", f" +- {self.hellinger_error:.2g}")
        lines = [f"KL divergence {self.kl:.6g}{errors[0]}, Hellinger distance {self.hellinger:.6g}{errors[1]}"]
        if self.by_variable:
            rows = [["variable", "share of KL"]]
            rows += [[str(v), shown(x)] for v, x in list(self.by_variable.items())[:_SHOWN]]
            lines.append(aligned(rows, right=(1,), rule=True))
            more = len(self.by_variable) - _SHOWN
            lines += [f".. and {more:,} more"] if more > 0 else []
        return "\n".join(lines)


def divergence(p: FactorGraph, q: FactorGraph, *, memory_limit: float = 1.0, seed: int = 0) -> Divergence:
    """Return how far model q is from model p over the same variables, and which tables differ most.

    Args:
        p: the model whose expectation is taken, such as the true one.
        q: the other model. Variables are matched by name, and states by name in any order.
        memory_limit: GiB for exact sums. If they do not fit, both models must be Bayesian networks, and the numbers
            are means over samples with standard errors.
        seed: of these samples.

    Examples:
        >>> import equifactor as ef
        >>> p = ef.BayesianNetwork({"rain": [0.8, 0.2], "grass": ("rain", [[0.9, 0.1], [0.2, 0.8]])})
        >>> q = ef.BayesianNetwork({"rain": [0.8, 0.2], "grass": ("rain", [[0.9, 0.1], [0.4, 0.6]])})
        >>> print(p.divergence(q))
        KL divergence 0.0183032, Hellinger distance 0.0697667
        variable  share of KL
        ---------------------
        grass        0.018303
        rain         0.000000
    """
    for name, graph in (("p", p), ("q", q)):
        if not isinstance(graph, FactorGraph):
            raise ModelError(f"{name} must be a FactorGraph or a BayesianNetwork, found {brief(graph)}.")
    tables = _aligned_tables(p, q)
    own = [(p.structure.scope(a).tolist(), p.log_table(a)) for a in range(p.num_factors)]
    union = _graph(p, [*own, *((scope, np.zeros(table.shape)) for scope, table in tables)])
    solver = f"exact(memory_limit={float(memory_limit)!r})"
    result = solve(union, "MAR", solver)
    half = solve(_graph(p, [(scope, table / 2.0) for scope, table in (*own, *tables)]), "PR", solver)
    if not (result.status.solved and half.status.solved):
        return _sampled(p, q, own, tables, seed, str(result.status))
    marginals = result.factor_marginals
    log_z_q = _log_z(p, tables, solver)
    terms_p = [_mean(marginals[a], table) for a, (_, table) in enumerate(own)]
    terms_q = [_mean(marginals[len(own) + b], table) for b, (_, table) in enumerate(tables)]
    kl = sum(terms_p) - sum(terms_q) - result.log_z + log_z_q
    overlap = math.exp(min(0.0, half.log_z - (result.log_z + log_z_q) / 2.0))
    shares = _shares(p, q, terms_p, terms_q)
    return Divergence(max(kl, 0.0), math.sqrt(max(0.0, 1.0 - overlap)), shares)


def _log_z(p: FactorGraph, tables: list[tuple[list[int], FloatArray]], solver: str) -> float:
    result = solve(_graph(p, tables), "PR", solver)
    if not result.status.solved:
        raise SolveError(f"ln Z of the second model was not found: {result.status}. Raise memory_limit.")
    return result.log_z


def _mean(p: FloatArray, log_table: FloatArray) -> float:
    """Return E[log table], where entries that never occur do not count."""
    with np.errstate(invalid="ignore"):
        return float(np.where(p > 0.0, p * log_table, 0.0).sum())


def _shares(p: FactorGraph, q: FactorGraph, of_p: list[float], of_q: list[float]) -> dict[str | int, float]:
    """Return the share of each variable in the divergence of two Bayesian networks, the largest first."""
    child_p, child_q = children_of(p), children_of(q)
    if child_p is None or child_q is None:
        return {}
    place = _places(p, q)
    names = p.structure.variable_names or range(p.num_vars)
    share = np.zeros(p.num_vars)
    for i, term in zip(child_p, of_p, strict=True):
        share[i] += term
    for i, term in zip(child_q, of_q, strict=True):
        share[place[i]] -= term
    share = np.where(np.abs(share) < _ROUNDING, 0.0, share)
    return {names[i]: float(share[i]) for i in np.argsort(-share, kind="stable").tolist()}


def _sampled(
    p: FactorGraph,
    q: FactorGraph,
    of_p: list[tuple[list[int], FloatArray]],
    of_q: list[tuple[list[int], FloatArray]],
    seed: int,
    reason: str,
) -> Divergence:
    """Return estimates from samples of p; both models must be Bayesian networks, so that ln Z is 0."""
    if children_of(p) is None or children_of(q) is None:
        raise SolveError(
            f"The divergence needs exact sums, which ended {reason}, or two Bayesian networks, which are sampled. "
            "Raise memory_limit."
        )
    with np.errstate(over="ignore"):
        logs = [_logs(tables, forward_samples(_graph(p, own), _SAMPLES, seed + n)) for n, own in enumerate((of_p, of_q))
                for tables in (of_p, of_q)]  # fmt: skip
        ratio, other = (np.sum(logs[n], axis=0) - np.sum(logs[n + 1], axis=0) for n in (0, 2))  # ln p(x) - ln q(x)
        overlap = np.stack((1.0 / np.cosh(ratio / 2.0), 1.0 / np.cosh(other / 2.0)))
    shares = _shares(p, q, *([float(x.mean()) for x in own] for own in logs[:2]))
    kl, kl_error = float(ratio.mean()), 0.0  # A sample that q excludes proves that the divergence is infinite.
    if kl < math.inf:
        kl_error = math.hypot(float(ratio.std()) / math.sqrt(_SAMPLES), _largest_terms(of_p, of_q) / _SAMPLES)
    squared = max(0.0, 1.0 - float(overlap.mean()))
    error = math.sqrt(float(overlap.var(axis=1).sum()) / (4.0 * _SAMPLES) + 1.0 / _SAMPLES**2)
    hellinger = math.sqrt(squared)
    return Divergence(kl, hellinger, shares, kl_error, error / max(2.0 * hellinger, math.sqrt(error)), False)


def _logs(tables: list[tuple[list[int], FloatArray]], states: IntArray) -> list[FloatArray]:
    """Return the log entry of each table at samples [n, V]."""
    return [table[tuple(states[:, i] for i in scope)] for scope, table in tables]


def _largest_terms(of_p: list[tuple[list[int], FloatArray]], of_q: list[tuple[list[int], FloatArray]]) -> float:
    """Return the root of the summed squares of what one sample may add to ln p - ln q, for each table.

    Rows that no sample has seen have a probability of about one sample, so they add this to the error.
    """
    known = {tuple(sorted(scope)): table.transpose(np.argsort(scope)) for scope, table in of_p}
    squares = 0.0
    for scope, table in of_q:
        turned = table.transpose(np.argsort(scope))
        before = known.get(tuple(sorted(scope)), np.zeros(turned.shape))
        with np.errstate(invalid="ignore"):
            terms = np.abs(np.where(np.isneginf(before), 0.0, before - turned))
        squares += float(terms.max(initial=0.0)) ** 2
    return math.sqrt(squares)


def _graph(p: FactorGraph, tables: list[tuple[list[int], FloatArray]]) -> FactorGraph:
    return FactorGraph(p.card.tolist(), tables, log=True)


def _places(p: FactorGraph, q: FactorGraph) -> list[int]:
    """Return the variable of p for each variable of q."""
    names_p, names_q = p.structure.variable_names, q.structure.variable_names
    if p.num_vars != q.num_vars or (names_p is None) != (names_q is None):
        raise ModelError(f"The models have {p.num_vars} and {q.num_vars} variables. They must have the same variables.")
    if names_p is None or names_q is None:
        return list(range(p.num_vars))
    for name in names_q:
        if name not in names_p:
            raise ModelError(f"p has no variable {name!r}; {did_you_mean(name, names_p)}both need the same variables.")
    return [names_p.index(name) for name in names_q]


def _aligned_tables(p: FactorGraph, q: FactorGraph) -> list[tuple[list[int], FloatArray]]:
    """Return the log tables of q over the variables of p, with the states in the order of p."""
    if p.observed is not None or q.observed is not None:
        raise ModelError("A divergence compares whole models. Take both before they were conditioned on evidence.")
    place = _places(p, q)
    orders = []
    for i, to in enumerate(place):
        own, other = list(q.structure.states_of(i)), list(p.structure.states_of(to))
        if set(own) != set(other):
            raise ModelError(
                f"Variable {p.structure.variable_name(to)} has the states {', '.join(map(str, other))} in p and "
                f"{', '.join(map(str, own))} in q. They must be the same.",
                variable=to,
            )
        orders.append([own.index(x) for x in other])
    found = []
    for a in range(q.num_factors):
        scope = q.structure.scope(a).tolist()
        table = q.log_table(a)
        for axis, i in enumerate(scope):
            table = table.take(orders[i], axis=axis)
        found.append(([place[i] for i in scope], table))
    return found
