"""Complete graphs of spins that share single spins and form a tree, which are solved clique by clique."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.generators.argument_checks import check_size, spin_draws, whole
from equifactor.generators.building_blocks import SPIN
from equifactor.generators.solved import SolvedModel, binary_marginals, ising_model

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_MAX_SIZE = 26  # The largest number of spins of a clique, which is summed over its 2^size states at once.


def glued_cliques(
    num_cliques: int, size: int, *, field_std: float = 0.25, coupling_std: float = 1.0, seed: int = 0
) -> SolvedModel:
    """Draw a tree of complete spin glasses with ln Z and all marginals. Each clique shares one spin with its parent.

    Each clique after the first takes its first spin from a random earlier clique. Elimination needs tables of
    2^(size-1) entries. Here a clique is split into two halves, and summed as a matrix of 2^(size/2) squared.

    Args:
        num_cliques: the number of cliques.
        size: the number of spins of each clique, at most 26.
        field_std: standard deviation of the fields.
        coupling_std: standard deviation of the couplings times the square root of `size`.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.glued_cliques(5, 10, seed=1)
        SolvedModel(cliques-5x10-seed1, ln Z 41.421, 46 marginals known)
    """
    num_cliques = whole("num_cliques", num_cliques, 1)
    size = whole("size", size, 2, _MAX_SIZE, "The sum runs over the 2^size states of a clique.")
    check_size(2 * num_cliques * size**2)
    field_std, coupling_std, rng = spin_draws(field_std, coupling_std, seed)
    scopes = np.arange(size)[None] + (size - 1) * np.arange(num_cliques)[:, None]  # [cliques, size]
    for c in range(1, num_cliques):
        scopes[c, 0] = rng.integers(scopes[c, 1])  # any spin of an earlier clique
    a, b = np.triu_indices(size, 1)
    pairs = np.stack((scopes[:, a], scopes[:, b]), axis=2)  # [cliques, pairs, 2]
    J = coupling_std / np.sqrt(size) * rng.standard_normal(pairs.shape[:2])
    field = field_std * rng.standard_normal((size - 1) * num_cliques + 1)
    graph = ising_model(field, pairs.reshape(-1, 2), J.ravel(), f"cliques-{num_cliques}x{size}-seed{seed}")
    log_z, p = _along_the_tree(field, scopes, J)
    return SolvedModel(graph, log_z, binary_marginals(graph, p), np.ones(len(field), bool))


def _along_the_tree(field: FloatArray, scopes: IntArray, J: FloatArray) -> tuple[float, FloatArray]:
    """Return ln Z and the probabilities [V] of spin up, by messages from the leaves to the root and back."""
    own = field.copy()  # fields plus the messages from the child cliques of each spin
    message = np.zeros(len(scopes))  # the message of each clique to its first spin, as a field
    log_z = 0.0
    for c in range(len(scopes) - 1, -1, -1):
        h = own[scopes[c]].copy()
        if c:
            h[0] = 0.0
        down, up = _sums(h, J[c])[0]
        if not c:
            log_z += np.logaddexp(down, up)
            break
        message[c] = (up - down) / 2.0
        log_z += (up + down) / 2.0
        own[scopes[c, 0]] += message[c]
    p = np.empty(len(field))
    total = own.copy()  # fields that represent the rest of the tree for the current clique
    for c in range(len(scopes)):
        h = total[scopes[c]].copy()
        if c:
            h[0] -= message[c]
        sums = _sums(h, J[c])
        ratio = sums[:, 1] - sums[:, 0]
        p[scopes[c]] = 1.0 / (1.0 + np.exp(-ratio))
        total[scopes[c]] = ratio / 2.0  # the field of a spin for its child cliques, including their own messages
    return float(log_z), p


def _sums(h: FloatArray, J: FloatArray) -> FloatArray:
    """Return log sums [size, 2] of a complete graph with fields h [size] and couplings J, per spin fixed down or up."""
    size = len(h)
    coupling = np.zeros((size, size))
    coupling[np.triu_indices(size, 1)] = J
    half = size // 2
    left, right = _states(half), _states(size - half)
    weight = (left @ coupling[:half, half:]) @ right.T
    weight += (left @ h[:half] + np.einsum("ni,ij,nj->n", left, coupling[:half, :half], left))[:, None]
    weight += right @ h[half:] + np.einsum("ni,ij,nj->n", right, coupling[half:, half:], right)
    top = weight.max()
    np.exp(weight - top, out=weight)
    of_left, of_right = weight.sum(axis=1), weight.sum(axis=0)
    up = np.concatenate((of_left @ (left > 0), of_right @ (right > 0)))
    down = np.concatenate((of_left @ (left < 0), of_right @ (right < 0)))
    return np.asarray(top + np.log(np.stack((down, up), axis=1)))


def _states(size: int) -> FloatArray:
    """Return all states [2^size, size] of `size` spins."""
    return SPIN[(np.arange(2**size)[:, None] >> np.arange(size)) & 1]
