"""Families of random graphs on which the trust in a network is fitted: small enough for exact marginals.

No family is drawn from public models. Each is a function of a random generator, so graph n of a family has a seed of
its own and does not depend on how many are drawn. With `states` all variables have this number of states (in
pedigrees: alleles), so that a batch of many graphs has tables of few shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from equifactor import FactorGraph, generators
from equifactor.base.typing import FloatArray
from experiments.constraint_graphs import circuit, hard_constraints, joint_chains
from experiments.trust_draws import Draw, log_uniform, network, size

_PARENTS = 3  # Most parents of a variable in a Bayesian network, so that tables stay small.


def _seed(rng: Draw) -> int:
    return int(rng.integers(2**31))


def _tables(rng: Draw) -> Any:
    """Return the kind of the tables of `pairwise_field`."""
    return str(rng.choice(["potts", "full"]))


def spins(rng: Draw) -> FactorGraph:
    """Return spins on a grid or torus with weak to strong couplings."""
    rows, cols = size(rng, 3, 12), size(rng, 3, 12)
    wrap = min(rows, cols) <= 6 and rng.random() < 0.3
    options: dict[str, Any] = {
        "coupling_std": log_uniform(rng, 0.2, 8.0), "field_std": log_uniform(rng, 0.05, 2.0), "seed": _seed(rng)
    }  # fmt: skip
    if rng.random() < 0.25:
        return generators.asymmetric_grid(rows, cols, **options)
    return generators.ising_grid(rows, cols, wrap=wrap, **options)


def labels(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return a Potts model on a grid, as in segmentation."""
    states = states or size(rng, 2, 6)
    rows = size(rng, 3, {2: 12, 3: 8, 4: 6}.get(states, 5))
    return generators.potts_grid(
        rows, size(rng, 3, 12), states=states, coupling_std=log_uniform(rng, 0.2, 4.0),
        field_std=log_uniform(rng, 0.1, 3.0), seed=_seed(rng),
    )  # fmt: skip


def sparse_pairs(rng: Draw) -> FactorGraph:
    """Return pair factors on a random regular graph or a lattice of triangles."""
    card = size(rng, 2, 4)
    topology: Any = rng.choice(["regular", "triangles"])
    return generators.pairwise_field(
        2 * size(rng, 5, {2: 20, 3: 13, 4: 10}[card]), topology=topology, degree=size(rng, 3, 4), card=card,
        tables=_tables(rng), coupling_std=log_uniform(rng, 0.2, 4.0),
        field_std=log_uniform(rng, 0.1, 2.0), seed=_seed(rng),
    )  # fmt: skip


def dense_pairs(rng: Draw) -> FactorGraph:
    """Return a pair factor between all, or all across two sides, with up to ten states."""
    card = 2 if rng.random() < 0.4 else size(rng, 2, 10)
    topology: Any = rng.choice(["complete", "bipartite"])
    most = {2: 16, 3: 11, 4: 9, 5: 8, 6: 7}.get(card, 6)
    n = size(rng, 4, most if topology == "complete" else 2 * most - 2)
    return generators.pairwise_field(
        n, topology=topology, card=card, tables=_tables(rng),
        coupling_std=log_uniform(rng, 0.2, 15.0) / np.sqrt(n), coupling_mean=float(rng.choice([0.0, 0.0, 0.3, -0.3])),
        field_std=log_uniform(rng, 0.1, 3.0), seed=_seed(rng),
    )  # fmt: skip


def colourings(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return pair factors on a sparse random graph that prefer different states, as in soft constraint problems."""
    card = states or size(rng, 2, 5)
    n = size(rng, 8, {2: 36, 3: 24, 4: 18, 5: 15}[card])
    couples = list(itertools.combinations(range(n), 2))
    chosen = rng.choice(len(couples), min(len(couples), round(n * rng.uniform(1.2, 3.0))), replace=False)
    strength, spread = log_uniform(rng, 0.3, 8.0), float(rng.choice([0.0, 0.3, 1.0]))
    fields = rng.normal(0.0, log_uniform(rng, 0.02, 1.0), (n, card))
    factors: list[Any] = [([v], fields[v]) for v in range(n)]
    for c in chosen.tolist():
        table = -strength * np.eye(card) * max(0.0, 1.0 + spread * rng.normal())
        factors.append((list(couples[c]), table + spread * rng.normal(size=(card, card))))
    return FactorGraph([card] * n, factors, log=True)


def two_layers(rng: Draw) -> FactorGraph:
    """Return two sets of spins with couplings across, as in restricted Boltzmann machines."""
    small, large = size(rng, 5, 15), size(rng, 8, 32)
    n, share = small + large, float(rng.uniform(0.4, 1.0))
    strength, mean = log_uniform(rng, 0.5, 30.0) / np.sqrt(small), float(rng.normal(0.0, 0.3))
    fields = rng.normal(0.0, log_uniform(rng, 0.1, 4.0), n)
    factors: list[Any] = [([v], [0.0, fields[v]]) for v in range(n)]
    for i, j in itertools.product(range(small), range(small, n)):
        if rng.random() < share:
            w = strength * (rng.normal() + mean)
            factors.append(([i, j], np.array([[0.0, 0.0], [0.0, w]] if share < 0.7 else [[w, 0.0], [0.0, w]])))
    return FactorGraph([2] * n, factors, log=True)


def random_tables(rng: Draw) -> FactorGraph:
    """Return random tables of up to four variables, often with zeros."""
    n = size(rng, 8, 30)
    return generators.random_graph(
        n, round(n * rng.uniform(0.8, 1.6)), arity=(1, size(rng, 2, 4)), card=(2, size(rng, 2, 4)),
        strength=log_uniform(rng, 0.3, 4.0), zeros=float(rng.choice([0.0, 0.0, 0.2, 0.5])), seed=_seed(rng),
    )  # fmt: skip


def diagnosis(rng: Draw) -> FactorGraph:
    """Return causes and observed effects, joined by noisy-or factors."""
    causes = size(rng, 6, 50)
    effects = round(causes * rng.uniform(0.6, 2.0))
    graph = generators.noisy_or_network(
        causes, effects, parents=(1, size(rng, 2, min(8, causes))), prior=log_uniform(rng, 0.005, 0.4),
        leak=log_uniform(rng, 1e-5, 0.1), seed=_seed(rng),
    )  # fmt: skip
    seen, present = rng.uniform(0.2, 1.0), rng.uniform(0.0, 1.0)
    observed = np.flatnonzero(rng.random(effects) < seen).tolist()
    return graph.condition({causes + e: int(rng.random() < present) for e in observed})


def formulas(rng: Draw) -> FactorGraph:
    """Return a satisfiable random formula, or the decoding of a small parity-check code."""
    if rng.random() < 0.5:
        n = 4 * size(rng, 3, 6)
        return generators.ldpc(n, n // 2, snr_db=float(rng.uniform(-2, 4)), seed=_seed(rng))
    n = size(rng, 8, 24)
    return generators.random_graph(
        n, round(n * rng.uniform(0.8, 2.5)), arity=3, zeros=float(rng.choice([0.125, 0.25, 0.4])),
        strength=float(rng.choice([0.0, 0.5])), seed=_seed(rng),
    )  # fmt: skip


# ---- Bayesian networks ----------------------------------------------------------------------------------


def _rows(rng: Draw, shape: list[int], sharpness: float) -> FloatArray:
    """Return a conditional table whose rows are drawn from a Dirichlet distribution; sharp rows are near 0 or 1."""
    table = rng.gamma(sharpness, size=shape) + 1e-12
    return np.asarray(table / table.sum(-1, keepdims=True))


def bayesian_network(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return a random Bayesian network, from noisy to nearly deterministic, with evidence."""
    n, most = size(rng, 10, 80), size(rng, 2, 4)
    card = [states or size(rng, 2, most) for _ in range(n)]
    near = size(rng, 4, 10)  # Parents are among the last few variables, so that exact inference stays possible.
    parents = [
        sorted(rng.choice(np.arange(max(0, v - near), v), min(v, size(rng, 0, _PARENTS)), replace=False).tolist())
        for v in range(n)
    ]
    sharpness = log_uniform(rng, 0.03, 2.0)
    tables = [_rows(rng, [card[p] for p in [*above, v]], sharpness) for v, above in enumerate(parents)]
    return network(card, parents, tables, rng, float(rng.uniform(0.0, 0.4)), rng.random() < 0.5)


def two_slices(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return a dynamic Bayesian network: chains that depend on each other, with sharp tables and observations."""
    width, length = size(rng, 3, 10), size(rng, 4, 16)
    card = [states or size(rng, 2, 3) for _ in range(width)]
    above = [sorted({k, *rng.choice(width, size(rng, 1, 2), replace=False).tolist()}) for k in range(width)]
    sharpness = log_uniform(rng, 0.02, 1.0)
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
    return network(cards, parents, tables, rng, float(rng.uniform(0.2, 0.9)), True)


def or_gates(rng: Draw) -> FactorGraph:
    """Return causes and effects whose noisy-or is divided into gates of two inputs, as in medical diagnosis."""
    causes, effects = size(rng, 6, 40), size(rng, 6, 50)
    return _or_gates(rng, causes, effects, _rates(rng), size(rng, 2, 8))


def long_gates(rng: Draw) -> FactorGraph:
    """Return few effects with many causes each: messages need hundreds of iterations along such chains of gates."""
    causes, effects, most = size(rng, 60, 250), size(rng, 2, 9), size(rng, 40, 250)
    return _or_gates(rng, causes, effects, _rates(rng), most)


def _rates(rng: Draw) -> tuple[float, float]:
    """Return the probability of a cause, and of an effect without any cause."""
    return log_uniform(rng, 0.003, 0.3), log_uniform(rng, 1e-5, 0.05)


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
        chosen = rng.choice(causes, min(causes, size(rng, 1, most)), replace=False).tolist()
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
    graph = network(card, parents, tables, rng, 0.0, True)
    seen, present = rng.uniform(0.2, 1.0), rng.uniform(0.0, 1.0)
    return graph.condition({e: int(rng.random() < present) for e in ends if rng.random() < seen})


def pedigree(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return alleles in a family at some loci, with the meioses that pass them on and a share of observed genotypes."""
    people, founders = size(rng, 5, 20), size(rng, 2, 6)
    loci, alleles = size(rng, 1, 3), states or size(rng, 2, 4)
    couples = [rng.choice(max(2, min(p, founders + 3)), 2, replace=False).tolist() for p in range(people)]
    return _pedigree(rng, founders, couples, loci, alleles)


def large_pedigree(rng: Draw, states: int | None = None) -> FactorGraph:
    """Return a family of many generations in which few people have children, so that exact inference stays possible."""
    people, founders = size(rng, 20, 60), size(rng, 3, 8)
    couples = [
        sorted(rng.choice(np.arange(max(0, p - 8), max(2, p)), 2, replace=False).tolist()) for p in range(people)
    ]
    return _pedigree(rng, founders, couples, size(rng, 1, 2), states or size(rng, 2, 4))


def _pedigree(rng: Draw, founders: int, couples: list[list[int]], loci: int, alleles: int) -> FactorGraph:
    """Return the alleles of people with the given parents; the first `founders` have none."""
    people = len(couples)
    recombine = log_uniform(rng, 0.01, 0.4)
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
    return network(card, parents, tables, rng, float(rng.uniform(0.2, 0.8)), True)


FAMILIES: dict[str, Callable[[Draw], FactorGraph]] = {
    "spins": spins, "labels": labels, "sparse pairs": sparse_pairs, "dense pairs": dense_pairs,
    "random tables": random_tables, "diagnosis": diagnosis, "formulas": formulas,
    "Bayesian networks": bayesian_network, "two slices": two_slices, "or gates": or_gates, "pedigrees": pedigree,
    "colourings": colourings, "two layers": two_layers, "long gates": long_gates, "large pedigrees": large_pedigree,
    "hard constraints": hard_constraints, "circuits": circuit, "joint chains": joint_chains,
}  # fmt: skip


def draw(family: str, number: int, seed: int = 0) -> FactorGraph:
    """Return graph `number` of a family."""
    return FAMILIES[family](np.random.default_rng([seed, list(FAMILIES).index(family), number]))
