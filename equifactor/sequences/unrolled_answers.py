"""Answers about dynamic networks whose slices are too large for exact sums: the unrolled network, and any solver.

Smoothing and decoding solve the network of all slices at once. Filtering takes one slice after the other, and treats
the variables of the slice before as independent, each with its own distribution [Boyen98].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status
from equifactor.networks.bayesian_network import BayesianNetwork
from equifactor.questions.solve import solve
from equifactor.sequences.trajectory import StateSequence, Trajectory

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.questions.result import Result
    from equifactor.sequences.dynamic_network import DynamicNetwork

    Seen = list[dict[str, Any]]  # the evidence on each slice


def solved(network: DynamicNetwork, seen: Seen, task: str, options: dict[str, Any]) -> Result:
    """Return the answer of a solver about the network of all slices, given the evidence on each."""
    evidence = {f"{name}[{t}]": value for t, own in enumerate(seen) for name, value in own.items()}
    return solve(network.unroll(len(seen)), task, evidence=evidence, **options)


def smoothed(network: DynamicNetwork, seen: Seen, options: dict[str, Any]) -> Trajectory:
    """Return the distributions of all slices given the evidence on each, by solving the unrolled network."""
    result = solved(network, seen, "MAR", options)
    if result.status is Status.ZERO_PROBABILITY:
        return Trajectory({}, network.states, -np.inf, 0, result.status)
    marginals = {
        name: np.stack([np.asarray(result.marginals[f"{name}[{t}]"]) for t in range(len(seen))])
        for name in network.names
    }
    return Trajectory(marginals, network.states, log_z_of(result), 0, result.status)


def decoded(network: DynamicNetwork, seen: Seen, options: dict[str, Any]) -> StateSequence:
    """Return the best states of all slices given the evidence on each, by solving the unrolled network."""
    result = solved(network, seen, "MAP", options)
    if result.status is Status.ZERO_PROBABILITY:
        return StateSequence({}, np.empty((0, len(network.names)), np.int64), -np.inf, result.status)
    numbers = np.asarray(result.assignment).reshape(len(seen), -1)
    return StateSequence(network.columns(numbers), numbers, result.log_score, result.status)


def filtered(network: DynamicNetwork, seen: Seen, options: dict[str, Any]) -> Trajectory:
    """Return the distribution of every slice given the evidence up to it, slice by slice."""
    found: dict[str, list[FloatArray]] = {name: [] for name in network.names}
    log_z, worst = 0.0, Status.EXACT
    before: dict[str, FloatArray] = {}
    for t, evidence in enumerate(seen):
        graph: BayesianNetwork = network.first if t == 0 else network.after(before)
        result = solve(graph, "MAR", evidence=evidence, **options)
        if result.status is Status.ZERO_PROBABILITY:
            return Trajectory({}, network.states, -np.inf, 0, result.status)
        log_z += log_z_of(result)
        worst = result.status if not result.status.solved else worst
        before = {name: np.asarray(result.marginals[name]) for name in network.names}
        for name, p in before.items():
            found[name].append(p)
    status = Status.CONVERGED if worst is Status.EXACT else worst
    return Trajectory({n: np.stack(p) for n, p in found.items()}, network.states, log_z, 0, status)


def log_z_of(result: Result) -> float:
    """Return ln Z, NaN from a solver that does not give it."""
    return -np.inf if result.status is Status.ZERO_PROBABILITY else float(getattr(result, "log_z", np.nan))
