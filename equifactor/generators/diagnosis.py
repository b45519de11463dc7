"""Two-layer networks of causes and effects, as in medical diagnosis: each effect is a noisy-or of a few causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.factors.noisy_or import NoisyOr
from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole, whole_range
from equifactor.generators.building_blocks import rows_of_kind
from equifactor.generators.random_graphs import random_subsets
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows, merged
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray

_EFFECT_FIRST = 2  # The first word of a noisy-or whose effect is the first variable of its scope.


class DiagnosisOptions(TypedDict, total=False):
    """Keyword arguments of `noisy_or_network`, for the type checker."""

    parents: int | tuple[int, int]
    prior: float
    leak: float
    observed: float
    seed: int


@overload
def noisy_or_network(
    num_causes: int, num_effects: int, *, count: None = None, **options: Unpack[DiagnosisOptions]
) -> FactorGraph: ...
@overload
def noisy_or_network(
    num_causes: int, num_effects: int, *, count: int, **options: Unpack[DiagnosisOptions]
) -> list[FactorGraph]: ...
def noisy_or_network(
    num_causes: int,
    num_effects: int,
    *,
    parents: int | tuple[int, int] = (2, 8),
    prior: float = 0.1,
    leak: float = 0.01,
    observed: float = 0.0,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw diseases and findings as in QMR-DT [Shwe91]: causes with priors, and effects as noisy-or of some causes.

    Variables 0 to `num_causes` - 1 are the causes, and the effects follow. Priors are drawn uniformly from 0 to twice
    `prior`, and inhibitors uniformly from 0 to 1. Observed effects take the states of one sample of the network. Graph
    i does not depend on `count`.

    Args:
        num_causes: the number of causes.
        num_effects: the number of effects.
        parents: number of causes of each effect, or `(low, high)` to draw the number per effect.
        prior: the mean probability of a cause, at most 0.5.
        leak: the probability of an effect if none of its causes is active.
        observed: the share of effects that are observed.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.noisy_or_network(20, 30, observed=0.5, seed=1).num_vars
        50
    """
    num_causes, num_effects = whole("num_causes", num_causes, 1), whole("num_effects", num_effects, 0)
    sizes = whole_range("parents", parents, 1)
    if sizes[1] > num_causes:
        raise OptionError(f"parents must be at most {num_causes}, the number of causes; found {sizes[1]}.")
    prior, leak = real("prior", prior, 0.0, 0.5), real("leak", leak, 0.0, 1.0)
    observed = real("observed", observed, 0.0, 1.0)
    check_size(number_of_graphs(count) * (num_causes + num_effects * (sizes[1] + 1)))
    rng = np.random.default_rng(whole("seed", seed, 0))
    graphs = []
    for i in range(number_of_graphs(count)):
        size = rng.integers(sizes[0], sizes[1], endpoint=True, size=num_effects)
        causes = random_subsets(num_causes, size, rng)
        probability = rng.uniform(0.0, 2 * prior, num_causes)
        inhibitor = rng.random(len(causes))
        rows = _rows(probability, leak, size, causes, inhibitor)
        structure = Structure.of_rows(np.full(num_causes + num_effects, 2), rows)
        name = f"noisy-or-{num_causes}-{num_effects}-seed{seed}-{i}"
        graph = FactorGraph.trusted(structure, rows.log_values, None, name)
        # The states are drawn even if nothing is observed, so that `observed` does not change the network.
        active = rng.random(num_causes) < probability
        off = np.ones(num_effects)
        np.multiply.at(off, row_of(ptr_of(size)), np.where(active[causes], inhibitor, 1.0))
        present = rng.random(num_effects) >= (1.0 - leak) * off
        seen = rng.permutation(num_effects)[: round(observed * num_effects)]
        graphs.append(graph.condition({num_causes + int(e): int(present[e]) for e in seen}))
    return graphs[0] if count is None else graphs


def _rows(probability: np.ndarray, leak: float, size: IntArray, causes: IntArray, inhibitor: np.ndarray) -> FactorRows:
    """Return the priors [causes] as tables, then the effects, which have `size` [effects] causes."""
    num_causes, num_effects = len(probability), len(size)
    is_effect = np.zeros(len(causes) + num_effects, bool)
    is_effect[ptr_of(size + 1)[:-1]] = True
    scopes = np.empty(len(is_effect), np.int64)
    scopes[is_effect], scopes[~is_effect] = num_causes + np.arange(num_effects), causes
    with np.errstate(divide="ignore"):
        values = np.full(len(is_effect), np.log1p(-leak))
        values[~is_effect] = np.log(inhibitor)
        priors = np.log(np.column_stack((1.0 - probability, probability)))
    words = np.ones(len(is_effect) + num_effects, np.int64)  # the position of the effect, then a sign per variable
    words[ptr_of(size + 2)[:-1]] = _EFFECT_FIRST
    effects = rows_of_kind(NoisyOr.number, size + 1, scopes, (size + 1, values), (size + 2, words))
    one = np.ones(num_causes, np.int64)
    tables = rows_of_kind(TABLE, one, np.arange(num_causes), (2 * one, priors.ravel()), (0 * one, one[:0]))
    order = np.arange(num_causes + num_effects)
    return merged([(order[:num_causes], tables), (order[num_causes:], effects)])
