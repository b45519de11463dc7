"""Random factors of every kind and random graphs that mix them."""

import numpy as np

import equifactor as ef

KINDS = ("parity", "clause", "count", "at most", "exactly", "at least", "noisy-or", "sparse", "potts", "linear")


def random_factor(rng: np.random.Generator, kind: str, card: tuple[int, ...]) -> ef.StructuredFactor | np.ndarray:
    """A factor of a kind over variables of these cardinalities; a table where the kind does not fit them."""
    k, binary = len(card), all(c == 2 for c in card)
    signs = None if rng.random() < 0.3 else rng.integers(0, 2, k).astype(bool)
    if kind in ("potts", "linear") and k == 2:
        every = max(card) + 2
        labels = tuple(rng.permutation(every)[:d].tolist() for d in card)
        if card[0] == card[1] and rng.random() < 0.5:
            labels = None
        if kind == "linear":
            return ef.TruncatedLinear(rng.random() * 2, rng.choice([np.inf, 1.5]), labels)
        weight = rng.choice([-np.inf, rng.normal(), 0.0])
        otherwise = rng.normal() if weight == -np.inf else rng.choice([-np.inf, 0.0, rng.normal()])
        return ef.Potts(weight, otherwise, labels)
    if kind == "sparse" and k > 1:
        size = int(np.prod(card))
        listed = np.array(np.unravel_index(rng.permutation(size)[: rng.integers(0, 8)], card)).T
        values = rng.normal(size=len(listed))
        values[rng.random(len(listed)) < 0.3] = -np.inf
        default = rng.choice([-np.inf, rng.normal()]) if len(listed) > 2 else rng.normal()
        return ef.SparseTable(listed, values, default)
    if not binary or k < 2 or kind in ("table", "potts", "linear"):
        return rng.normal(size=card)
    if kind == "parity":
        return ef.Parity(bool(rng.integers(2)), None if rng.random() < 0.6 else (rng.normal(), rng.normal()))
    if kind == "clause":
        return ef.Clause(signs, None if rng.random() < 0.5 else rng.normal())
    if kind == "count":
        values = rng.normal(size=k + 1)
        values[rng.random(k + 1) < 0.3] = -np.inf
        return ef.Count(values, signs)
    if kind == "at most":
        return ef.AtMost(int(rng.integers(0, k + 1)), signs)
    if kind == "at least":
        return ef.AtLeast(int(rng.integers(0, k)), signs)
    if kind == "exactly":
        return ef.Exactly(int(rng.integers(0, k + 1)), signs)
    inhibitors = rng.random(k - 1)
    inhibitors[rng.random(k - 1) < 0.2] = 0
    inhibitors[rng.random(k - 1) < 0.2] = 1
    return ef.NoisyOr(rng.choice([0.0, rng.random(), 1.0]), inhibitors, signs, place=int(rng.integers(k)))


def random_graph(rng: np.random.Generator, num_vars: int | None = None) -> ef.FactorGraph:
    """A small graph of tables and factors of any kind, over binary variables or variables of 1 to 3 states."""
    num_vars = num_vars or int(rng.integers(2, 9))
    card = [2] * num_vars if rng.random() < 0.6 else rng.integers(1, 4, num_vars).tolist()
    factors = []
    for _ in range(int(rng.integers(1, 6))):
        arity = int(rng.integers(0, num_vars + 1)) if rng.random() < 0.5 else 2
        scope = rng.permutation(num_vars)[:arity].tolist()
        kind = str(rng.choice([*KINDS, "table"]))
        factors.append((scope, random_factor(rng, kind, tuple(card[i] for i in scope))))
    return ef.FactorGraph(card, factors, log=True)


def as_tables(graph: ef.FactorGraph) -> ef.FactorGraph:
    """The same graph with a dense table for every factor."""
    scopes = [graph.structure.scope(a).tolist() for a in range(graph.num_factors)]
    tables = [(scope, graph.log_table(a)) for a, scope in enumerate(scopes)]
    dense = ef.FactorGraph(list(graph.card), tables, log=True)
    if graph.observed is None:
        return dense
    return dense.condition({int(i): int(graph.observed[i]) for i in np.flatnonzero(graph.observed >= 0)})
