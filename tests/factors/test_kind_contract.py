"""Every kind of factor x every solver x every task, on small graphs against enumeration."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from random_factors import random_mixture
from test_contract import CASES, check_exact, check_sound, is_forest

import equifactor
from equifactor import (
    AtMost,
    Clause,
    Count,
    Exactly,
    FactorGraph,
    ModelError,
    NoisyMax,
    NoisyOr,
    Parity,
    Potts,
    Result,
    SparseTable,
    Status,
    Task,
    TruncatedLinear,
    solve,
)
from equifactor.base.status import PLAIN_TASKS
from equifactor.graph.kinds import KINDS, kind_class, kind_name, kind_number
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.solvers import parse_solver

_RNG = np.random.default_rng(17)


def _noisy_max(num_causes: int, with_zeros: bool) -> NoisyMax:
    """Return an effect of three levels and causes of three states, of which state 0 brings about nothing."""
    causes = _RNG.dirichlet(np.ones(3), size=(num_causes, 3))
    if with_zeros:
        causes[:, 0] = [1.0, 0.0, 0.0]
    return NoisyMax([0.9, 0.1, 0.0] if with_zeros else [0.8, 0.1, 0.1], causes.tolist())


def _examples(kind: str) -> list[tuple[int, Any]]:
    """Return two factors of a kind and their numbers of variables: one with zeros if the kind can, one without."""
    r = _RNG
    return {
        "table": [(3, r.normal(size=(2, 2, 2))), (2, np.array([[-np.inf, 0.0], [0.3, -0.2]]))],
        "sparse": [(4, SparseTable(np.eye(4, dtype=int), r.normal(size=4))), (3, SparseTable([[0, 1, 1]], [1.5], 0.0))],
        "parity": [(5, Parity(odd=True)), (3, Parity(log_values=(0.7, -0.4)))],
        "clause": [(5, Clause([True, False, True, True, False])), (3, Clause(weight=1.2))],
        "count": [(5, AtMost(2)), (4, Exactly(2)), (4, Count(r.normal(size=5).tolist()))],
        "noisy_or": [(5, NoisyOr(0.0, [0.2, 0.5, 0.0, 0.9])), (3, NoisyOr(0.1, [0.3, 0.6]))],
        "noisy_max": [(4, _noisy_max(3, True)), (3, _noisy_max(2, False))],
        "potts": [(2, Potts(1.3)), (2, Potts(-np.inf))],
        "truncated_linear": [(2, TruncatedLinear(0.8, 1.0)), (2, TruncatedLinear(0.5, np.inf))],
    }[kind]


OWN = [name for name, place in KINDS.items() if isinstance(place, str)]


@pytest.mark.parametrize("kind", OWN)
def test_a_kind_of_the_package_has_a_public_class(kind: str) -> None:
    exported = [getattr(equifactor, name) for name in equifactor.__all__]
    classes = [c for c in exported if isinstance(c, type) and issubclass(c, StructuredFactor) and c.kind == kind]
    assert classes
    assert all(issubclass(c, kind_class(kind_number(kind))) for c in classes)


def test_random_mixtures_draw_every_kind() -> None:
    rng, drawn = np.random.default_rng(0), set()
    for _ in range(300):
        graph = random_mixture(rng)
        kinds = graph.structure.kinds
        drawn |= {"table"} if kinds is None else {kind_name(n) for n in kinds.kind.tolist()}
    assert drawn >= {"table", *(name for name in OWN if kind_class(kind_number(name)).has_kernels)}


def _tree(kind: str) -> FactorGraph:
    """Return factors of one kind in a row, each sharing one variable with the next, and a table on every variable."""
    factors, end = [], 0
    for arity, factor in _examples(kind):
        factors.append((list(range(end, end + arity)), factor))
        end += arity - 1
    card = _card(kind)
    return FactorGraph([card] * (end + 1), [*factors, *_fields(end + 1, card)], log=True)


def _loop(kind: str) -> FactorGraph:
    """Return factors of one kind over six variables, in scopes that overlap, and a table on every variable."""
    scopes = [[0, 1, 2, 3, 4], [5, 4, 1, 0], [2, 5, 3, 0]]
    factors = [(scope[:arity], f) for scope, (arity, f) in zip(scopes, _examples(kind), strict=False)]
    card = _card(kind)
    pairs = [([5, 4], _RNG.normal(size=(card, card))), ([1, 2], _RNG.normal(size=(card, card)))]
    return FactorGraph([card] * 6, [*factors, *pairs, *_fields(6, card)], log=True)


def _card(kind: str) -> int:
    return 3 if kind in ("potts", "truncated_linear", "noisy_max") else 2


def _fields(num_vars: int, card: int) -> list[tuple[list[int], np.ndarray]]:
    return [([i], 0.7 * _RNG.normal(size=card)) for i in range(num_vars)]


def _mixtures() -> dict[str, FactorGraph]:
    mixed: list[tuple[Any, Any]] = [
        (range(4), Parity()), ([3, 4, 5], Clause()), ([0, 5, 6, 7], AtMost(2)), ([7, 2, 1], NoisyOr(0.1, [0.4, 0.7])),
        ([6, 1], Potts(0.9)), ([4, 7, 0], SparseTable([[0, 0, 1], [1, 1, 0]], [0.5, 1.0], -1.0)),
    ]  # fmt: skip
    ragged: list[tuple[Any, Any]] = [
        ([0, 1], Potts(1.0)), ([1, 2], TruncatedLinear(0.4, 0.9)),
        ([0, 2, 3, 4], SparseTable([[0, 1, 1, 0], [2, 2, 0, 1], [1, 0, 1, 1]], [0.3, 1.0, -0.5], -2.0)),
        ([3, 4, 5], Clause([False, True, True])), ([3, 5], Parity(odd=True)),
    ]  # fmt: skip
    graph = FactorGraph([2] * 8, [*mixed, *_fields(8, 2)], log=True)
    return {
        "mixture": graph,
        "mixture with evidence": graph.condition({0: 1, 4: 0}),
        "ragged mixture": FactorGraph([3, 3, 3, 2, 2, 2], ragged, log=True),
        "random mixture": random_mixture(np.random.default_rng(5), 7, binary=True),
        "impossible by evidence": FactorGraph([2] * 4, [(range(4), Parity())]).condition({0: 1, 1: 0, 2: 0, 3: 0}),
        "impossible together": FactorGraph([2] * 5, [(range(5), Parity()), (range(5), Parity(odd=True))]),
    }


NAMES = [kind_name(n) for n in range(len(KINDS))]
GRAPHS = {
    **{f"{kind}, tree": _tree(kind) for kind in NAMES},
    **{f"{kind}, loop": _loop(kind) for kind in NAMES},
    **_mixtures(),
}


@pytest.fixture(scope="module")
def oracle() -> dict[Task, dict[str, Result]]:
    graphs = list(GRAPHS.values())
    return {task: dict(zip(GRAPHS, solve(graphs, task, "brute"), strict=True)) for task in PLAIN_TASKS}


def test_the_graphs_are_what_they_say() -> None:
    for name, graph in GRAPHS.items():
        assert graph.num_vars <= 11
        if name.endswith(("tree", "loop")):
            assert is_forest(graph) == name.endswith("tree")


# Their kernels for structured factors take two minutes to compile.
_COMPILED_LONG = (
    "meanfield", "mplp", "srmp", "trw", "blocks", "regions", "beam", "best-first", "local-search", "gibbs", "loop-bp",
    "mini-buckets", "conditioning", "bpnn(untrained)", "fgnn(untrained)", "ggnn(untrained)", "nebp(untrained)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(
            *case.values, marks=[*case.marks, *([pytest.mark.slow] if case.values[0] in _COMPILED_LONG else [])]
        )
        for case in CASES
    ],
    ids=lambda v: str(v),
)
def test_every_kind(name: str, task: Task, oracle: dict[Task, dict[str, Result]]) -> None:
    solver = parse_solver(name)
    if solver.takes:  # These are networks on tables: a few graphs, one by one, are enough.
        results = _results_of_those_taken(name, task)
    else:
        results = dict(zip(GRAPHS, solve(list(GRAPHS.values()), task, name), strict=True))
    for graph_name, got in results.items():
        check(solver.exact_on, task, GRAPHS[graph_name], got, oracle[task][graph_name])


def check(exact_on: str, task: Task, graph: FactorGraph, got: Result, want: Result) -> None:
    """Check that answers are sound, and exact if the solver reports it."""
    check_sound(graph, task, got, want)
    if want.status is Status.ZERO_PROBABILITY:
        return
    if got.status in (Status.EXACT, Status.OPTIMAL) or exact_on == "all":
        check_exact(task, got, want, 1e-9)
    elif exact_on == "trees" and is_forest(graph):
        assert got.status is Status.CONVERGED
        check_exact(task, got, want, 1e-6)


def _results_of_those_taken(name: str, task: Task) -> dict[str, Result]:
    """Return the answers of a solver that takes some graphs only."""
    results = {}
    for graph_name in ("parity, tree", "clause, loop", "mixture", "ragged mixture", "impossible together"):
        with contextlib.suppress(ModelError):
            results[graph_name] = solve(GRAPHS[graph_name], task, name)
    return results
