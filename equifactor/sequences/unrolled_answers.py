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
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.sequences.dynamic_network import DynamicNetwork


def smoothed(network: DynamicNetwork, states: IntArray, options: dict[str, Any]) -> Trajectory:
    """Return the distributions of all slices given all observations [T, V], by solving the unrolled network."""
    result = solve(network.unroll(len(states)), "MAR", evidence=_evidence(network, states), **options)
    if result.status is Status.ZERO_PROBABILITY:
        return Trajectory({}, network.states, -np.inf, 0, result.status)
    marginals = {
        name: np.stack([np.asarray(result.marginals[f"{name}[{t}]"]) for t in range(len(states))])
        for name in network.names
    }
    return Trajectory(marginals, network.states, result.log_z, 0, result.status)


def decoded(network: DynamicNetwork, states: IntArray, options: dict[str, Any]) -> StateSequence:
    """Return the best states of all slices given the observations [T, V], by solving the unrolled network."""
    result = solve(network.unroll(len(states)), "MAP", evidence=_evidence(network, states), **options)
    if result.status is Status.ZERO_PROBABILITY:
        return StateSequence({}, states[:0], -np.inf, result.status)
    numbers = np.asarray(result.assignment).reshape(states.shape)
    return StateSequence(network.columns(numbers), numbers, result.log_score, result.status)


def filtered(network: DynamicNetwork, states: IntArray, options: dict[str, Any]) -> Trajectory:
    """Return the distribution of every slice given the observations [T, V] up to it, slice by slice."""
    found: dict[str, list[FloatArray]] = {name: [] for name in network.names}
    log_z, worst = 0.0, Status.EXACT
    before: dict[str, FloatArray] = {}
    for t, row in enumerate(states):
        graph: BayesianNetwork = network.first if t == 0 else network.after(before)
        seen = {name: network.states[name][x] for name, x in zip(network.names, row.tolist(), strict=True) if x >= 0}
        result = solve(graph, "MAR", evidence=seen, **options)
        if result.status is Status.ZERO_PROBABILITY:
            return Trajectory({}, network.states, -np.inf, 0, result.status)
        log_z += result.log_z
        worst = result.status if not result.status.solved else worst
        before = {name: np.asarray(result.marginals[name]) for name in network.names}
        for name, p in before.items():
            found[name].append(p)
    status = Status.CONVERGED if worst is Status.EXACT else worst
    return Trajectory({n: np.stack(p) for n, p in found.items()}, network.states, log_z, 0, status)


def _evidence(network: DynamicNetwork, states: IntArray) -> dict[str, Any]:
    return {
        f"{name}[{t}]": network.states[name][x]
        for t, row in enumerate(states.tolist())
        for name, x in zip(network.names, row, strict=True)
        if x >= 0
    }
