"""Families of random graphs on which the trust in a network is fitted: small enough for exact marginals.

No family is drawn from public models. Each is a function of a random generator, so graph n of a family has a seed of
its own and does not depend on how many are drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from equifactor import FactorGraph, generators
from equifactor.base.typing import FloatArray

Draw = np.random.Generator
_PARENTS = 3  # Most parents of a variable in a Bayesian network, so that tables stay small.


def _size(rng: Draw, low: int, high: int) -> int:
    return int(rng.integers(low, high, endpoint=True))


def _log_uniform(rng: Draw, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _seed(rng: Draw) -> int:
    return int(rng.integers(2**31))


def _tables(rng: Draw) -> Any:
    """Return the kind of the tables of `pairwise_field`."""
    return str(rng.choice(["potts", "full"]))


def spins(rng: Draw) -> FactorGraph:
    """Return spins on a grid or torus with weak to strong couplings."""
    rows, cols = _size(rng, 3, 12), _size(rng, 3, 12)
    wrap = min(rows, cols) <= 6 and rng.random() < 0.3
    options: dict[str, Any] = {
        "coupling_std": _log_uniform(rng, 0.2, 8.0), "field_std": _log_uniform(rng, 0.05, 2.0), "seed": _seed(rng)
    }  # fmt: skip
    if rng.random() < 0.25:
        return generators.asymmetric_grid(rows, cols, **options)
    return generators.ising_grid(rows, cols, wrap=wrap, **options)


def labels(rng: Draw) -> FactorGraph:
    """Return a Potts model on a grid, as in segmentation."""
    states = _size(rng, 2, 6)
    rows = _size(rng, 3, {2: 12, 3: 8, 4: 6}.get(states, 5))
    return generators.potts_grid(
        rows, _size(rng, 3, 12), states=states, coupling_std=_log_uniform(rng, 0.2, 4.0),
        field_std=_log_uniform(rng, 0.1, 3.0), seed=_seed(rng),
    )  # fmt: skip


def sparse_pairs(rng: Draw) -> FactorGraph:
    """Return pair factors on a random regular graph or a lattice of triangles."""
    card = _size(rng, 2, 4)
    topology: Any = rng.choice(["regular", "triangles"])
    return generators.pairwise_field(
        2 * _size(rng, 5, {2: 20, 3: 13, 4: 10}[card]), topology=topology, degree=_size(rng, 3, 4), card=card,
        tables=_tables(rng), coupling_std=_log_uniform(rng, 0.2, 4.0),
        field_std=_log_uniform(rng, 0.1, 2.0), seed=_seed(rng),
    )  # fmt: skip


def dense_pairs(rng: Draw) -> FactorGraph:
    """Return a pair factor between all, or all across two sides, with up to ten states."""
    card = 2 if rng.random() < 0.4 else _size(rng, 2, 10)
    topology: Any = rng.choice(["complete", "bipartite"])
    most = {2: 16, 3: 11, 4: 9, 5: 8, 6: 7}.get(card, 6)
    n = _size(rng, 4, most if topology == "complete" else 2 * most - 2)
    return generators.pairwise_field(
        n, topology=topology, card=card, tables=_tables(rng),
        coupling_std=_log_uniform(rng, 0.2, 15.0) / np.sqrt(n), coupling_mean=float(rng.choice([0.0, 0.0, 0.3, -0.3])),
        field_std=_log_uniform(rng, 0.1, 3.0), seed=_seed(rng),
    )  # fmt: skip


def colourings(rng: Draw) -> FactorGraph:
    """Return pair factors on a sparse random graph that prefer different states, as in soft constraint problems."""
    card = _size(rng, 2, 5)
    n = _size(rng, 8, {2: 36, 3: 24, 4: 18, 5: 15}[card])
    couples = list(itertools.combinations(range(n), 2))
    chosen = rng.choice(len(couples), min(len(couples), round(n * rng.uniform(1.2, 3.0))), replace=False)
    strength, spread = _log_uniform(rng, 0.3, 8.0), float(rng.choice([0.0, 0.3, 1.0]))
    fields = rng.normal(0.0, _log_uniform(rng, 0.02, 1.0), (n, card))
    factors: list[Any] = [([v], fields[v]) for v in range(n)]
    for c in chosen.tolist():
        table = -strength * np.eye(card) * max(0.0, 1.0 + spread * rng.normal())
        factors.append((list(couples[c]), table + spread * rng.normal(size=(card, card))))
    return FactorGraph([card] * n, factors, log=True)


def two_layers(rng: Draw) -> FactorGraph:
    """Return two sets of spins with couplings across, as in restricted Boltzmann machines."""
    small, large = _size(rng, 5, 15), _size(rng, 8, 32)
    n, share = small + large, float(rng.uniform(0.4, 1.0))
    strength, mean = _log_uniform(rng, 0.5, 30.0) / np.sqrt(small), float(rng.normal(0.0, 0.3))
    fields = rng.normal(0.0, _log_uniform(rng, 0.1, 4.0), n)
    factors: list[Any] = [([v], [0.0, fields[v]]) for v in range(n)]
    for i, j in itertools.product(range(small), range(small, n)):
        if rng.random() < share:
            w = strength * (rng.normal() + mean)
            factors.append(([i, j], np.array([[0.0, 0.0], [0.0, w]] if share < 0.7 else [[w, 0.0], [0.0, w]])))
    return FactorGraph([2] * n, factors, log=True)


def random_tables(rng: Draw) -> FactorGraph:
    """Return random tables of up to four variables, often with zeros."""
    n = _size(rng, 8, 30)
    return generators.random_graph(
        n, round(n * rng.uniform(0.8, 1.6)), arity=(1, _size(rng, 2, 4)), card=(2, _size(rng, 2, 4)),
        strength=_log_uniform(rng, 0.3, 4.0), zeros=float(rng.choice([0.0, 0.0, 0.2, 0.5])), seed=_seed(rng),
    )  # fmt: skip


def diagnosis(rng: Draw) -> FactorGraph:
    """Return causes and observed effects, joined by noisy-or factors."""
    causes = _size(rng, 6, 50)
    effects = round(causes * rng.uniform(0.6, 2.0))
    graph = generators.noisy_or_network(
        causes, effects, parents=(1, _size(rng, 2, min(8, causes))), prior=_log_uniform(rng, 0.005, 0.4),
        leak=_log_uniform(rng, 1e-5, 0.1), seed=_seed(rng),
    )  # fmt: skip
    seen, present = rng.uniform(0.2, 1.0), rng.uniform(0.0, 1.0)
    observed = np.flatnonzero(rng.random(effects) < seen).tolist()
    return graph.condition({causes + e: int(rng.random() < present) for e in observed})


def formulas(rng: Draw) -> FactorGraph:
    """Return a satisfiable random formula, or the decoding of a small parity-check code."""
    if rng.random() < 0.5:
        n = 4 * _size(rng, 3, 6)
        return generators.ldpc(n, n // 2, snr_db=float(rng.uniform(-2, 4)), seed=_seed(rng))
    n = _size(rng, 8, 24)
    return generators.random_graph(
        n, round(n * rng.uniform(0.8, 2.5)), arity=3, zeros=float(rng.choice([0.125, 0.25, 0.4])),
        strength=float(rng.choice([0.0, 0.5])), seed=_seed(rng),
    )  # fmt: skip


# ---- Bayesian networks ----------------------------------------------------------------------------------


def _network(
    card: list[int], parents: list[list[int]], tables: list[FloatArray], rng: Draw, share: float, leaves: bool
) -> FactorGraph:
    """Return a network with evidence: a share of its variables, or of its leaves, at the states of one sample."""
    states: list[int] = []
    for table, above in zip(tables, parents, strict=True):
        row = table[tuple(states[p] for p in above)]
        states.append(int(rng.choice(len(row), p=row / row.sum())))
    inner = set(itertools.chain(*parents))
    could = [v for v in range(len(card)) if not (leaves and v in inner)]
    seen = [v for v in could if rng.random() < share]
    graph = FactorGraph(card, [([*above, v], tables[v]) for v, above in enumerate(parents)])
    return graph.condition({v: states[v] for v in seen})


def _rows(rng: Draw, shape: list[int], sharpness: float) -> FloatArray:
    """Return a conditional table whose rows are drawn from a Dirichlet distribution; sharp rows are near 0 or 1."""
    table = rng.gamma(sharpness, size=shape) + 1e-12
    return np.asarray(table / table.sum(-1, keepdims=True))


def bayesian_network(rng: Draw) -> FactorGraph:
    """Return a random Bayesian network, from noisy to nearly deterministic, with evidence."""
    n, most = _size(rng, 10, 80), _size(rng, 2, 4)
    card = [_size(rng, 2, most) for _ in range(n)]
    near = _size(rng, 4, 10)  # Parents are among the last few variables, so that exact inference stays possible.
    parents = [
        sorted(rng.choice(np.arange(max(0, v - near), v), min(v, _size(rng, 0, _PARENTS)), replace=False).tolist())
        for v in range(n)
    ]
    sharpness = _log_uniform(rng, 0.03, 2.0)
    tables = [_rows(rng, [card[p] for p in [*above, v]], sharpness) for v, above in enumerate(parents)]
    return _network(card, parents, tables, rng, float(rng.uniform(0.0, 0.4)), rng.random() < 0.5)


def two_slices(rng: Draw) -> FactorGraph:
    """Return a dynamic Bayesian network: chains that depend on each other, with sharp tables and observations."""
    width, length = _size(rng, 3, 10), _size(rng, 4, 16)
    card = [_size(rng, 2, 3) for _ in range(width)]
    above = [sorted({k, *rng.choice(width, _size(rng, 1, 2), replace=False).tolist()}) for k in range(width)]
    sharpness = _log_uniform(rng, 0.02, 1.0)
    step = [_rows(rng, [card[p] for p in [*above[k], k]], sharpness) for k in range(width)]
    report = [_rows(rng, [card[k], card[k]], sharpness) for k in range(width)]
    cards, parents, tables = [], [], []
    for t in range(length):
        base = 2 * width * t
        for k in range(width):
            cards.append(card[k])
            parents.append([base - 2 * width + p for p in above[k]] if t else [])
            tables.append(step[k] if t else _rows(rng, [card[k]], 1.0))
        for k in range(width):
            cards.append(card[k])
            parents.append([base + k])
            tables.append(report[k])
    return _network(cards, parents, tables, rng, float(rng.uniform(0.2, 0.9)), True)


def or_gates(rng: Draw) -> FactorGraph:
    """Return causes and effects whose noisy-or is divided into gates of two inputs, as in medical diagnosis."""
    causes, effects = _size(rng, 6, 40), _size(rng, 6, 50)
    return _or_gates(rng, causes, effects, _rates(rng), _size(rng, 2, 8))


def long_gates(rng: Draw) -> FactorGraph:
    """Return few effects with many causes each: messages need hundreds of iterations along such chains of gates."""
    causes, effects, most = _size(rng, 60, 250), _size(rng, 2, 9), _size(rng, 40, 250)
    return _or_gates(rng, causes, effects, _rates(rng), most)


def _rates(rng: Draw) -> tuple[float, float]:
    """Return the probability of a cause, and of an effect without any cause."""
    return _log_uniform(rng, 0.003, 0.3), _log_uniform(rng, 1e-5, 0.05)


def _or_gates(rng: Draw, causes: int, effects: int, rates: tuple[float, float], most: int) -> FactorGraph:
    prior, leak = rates
    strong = float(rng.uniform(0.0, 1.0))
    card = [2] * causes
    parents: list[list[int]] = [[] for _ in range(causes)]
    tables: list[FloatArray] = []
    for _ in range(causes):
        p = min(0.9, prior * float(rng.uniform(0.2, 2.0)))
        tables.append(np.array([1 - p, p]))
    ends = []
    for _ in range(effects):
        chosen = rng.choice(causes, min(causes, _size(rng, 1, most)), replace=False).tolist()
        last = -1
        for c in chosen:  # the gate: the value so far or, with some probability, this cause
            q = float(rng.uniform(0.05, 1.0)) if rng.random() > strong else 1.0
            table = np.zeros((2, 2, 2))
            for before, cause in itertools.product((0, 1), (0, 1)):
                on = 1 - (1 - before) * (1 - q * cause)
                table[before, cause] = 1 - on, on
            first = np.array([table[0, 0] * (1 - leak) + [0, leak], table[0, 1] * (1 - leak) + [0, leak]])
            parents.append([c] if last < 0 else [last, c])
            tables.append(first if last < 0 else table)
            last = len(card)
            card.append(2)
        ends.append(last)
    graph = _network(card, parents, tables, rng, 0.0, True)
    seen, present = rng.uniform(0.2, 1.0), rng.uniform(0.0, 1.0)
    return graph.condition({e: int(rng.random() < present) for e in ends if rng.random() < seen})


def pedigree(rng: Draw) -> FactorGraph:
    """Return alleles in a family at some loci, with the meioses that pass them on and a share of observed genotypes."""
    people, founders = _size(rng, 5, 20), _size(rng, 2, 6)
    loci, alleles = _size(rng, 1, 3), _size(rng, 2, 4)
    couples = [rng.choice(max(2, min(p, founders + 3)), 2, replace=False).tolist() for p in range(people)]
    return _pedigree(rng, founders, couples, loci, alleles)


def large_pedigree(rng: Draw) -> FactorGraph:
    """Return a family of many generations in which few people have children, so that exact inference stays possible."""
    people, founders = _size(rng, 20, 60), _size(rng, 3, 8)
    couples = [
        sorted(rng.choice(np.arange(max(0, p - 8), max(2, p)), 2, replace=False).tolist()) for p in range(people)
    ]
    return _pedigree(rng, founders, couples, _size(rng, 1, 2), _size(rng, 2, 4))


def _pedigree(rng: Draw, founders: int, couples: list[list[int]], loci: int, alleles: int) -> FactorGraph:
    """Return the alleles of people with the given parents; the first `founders` have none."""
    people = len(couples)
    recombine = _log_uniform(rng, 0.01, 0.4)
    error = float(rng.choice([0.0, 0.0, 0.01]))
    card: list[int] = []
    parents: list[list[int]] = []
    tables: list[FloatArray] = []

    def add(states: int, above: list[int], table: FloatArray) -> int:
        card.append(states)
        parents.append(above)
        tables.append(table)
        return len(card) - 1

    eye = np.eye(alleles)
    copy = np.stack(  # [first, second, meiosis, child]: the meiosis chooses which allele is passed on
        [np.broadcast_to(eye[:, None], (alleles,) * 3), np.broadcast_to(eye[None], (alleles,) * 3)], axis=2
    )
    seen_rows = np.zeros((alleles, alleles, alleles * (alleles + 1) // 2))
    kinds = {pair: n for n, pair in enumerate(itertools.combinations_with_replacement(range(alleles), 2))}
    for i, j in itertools.product(range(alleles), repeat=2):
        seen_rows[i, j, kinds[min(i, j), max(i, j)]] = 1.0
    seen_rows = (1 - error) * seen_rows + error / seen_rows.shape[2]
    before: dict[tuple[int, int], int] = {}
    for _ in range(loci):
        frequency = rng.dirichlet(np.ones(alleles))
        pairs: list[tuple[int, int]] = []
        for p in range(people):
            if p < founders:
                pair = add(alleles, [], frequency), add(alleles, [], frequency)
            else:
                made = []
                for side, parent in enumerate(couples[p]):
                    turn = np.array([[1 - recombine, recombine], [recombine, 1 - recombine]])
                    old = before.get((p, side))
                    m = add(2, [] if old is None else [old], np.array([0.5, 0.5]) if old is None else turn)
                    before[p, side] = m
                    made.append(add(alleles, [*pairs[parent], m], copy))
                pair = made[0], made[1]
            pairs.append(pair)
        for pair in pairs:
            add(seen_rows.shape[2], list(pair), seen_rows)
    return _network(card, parents, tables, rng, float(rng.uniform(0.2, 0.8)), True)


FAMILIES: dict[str, Callable[[Draw], FactorGraph]] = {
    "spins": spins, "labels": labels, "sparse pairs": sparse_pairs, "dense pairs": dense_pairs,
    "random tables": random_tables, "diagnosis": diagnosis, "formulas": formulas,
    "Bayesian networks": bayesian_network, "two slices": two_slices, "or gates": or_gates, "pedigrees": pedigree,
    "colourings": colourings, "two layers": two_layers, "long gates": long_gates, "large pedigrees": large_pedigree,
}  # fmt: skip


def draw(family: str, number: int, seed: int = 0) -> FactorGraph:
    """Return graph `number` of a family."""
    return FAMILIES[family](np.random.default_rng([seed, list(FAMILIES).index(family), number]))
