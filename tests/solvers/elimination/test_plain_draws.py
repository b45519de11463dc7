"""Samples in plain NumPy: the same as those of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor import generators
from equifactor.solvers.elimination import plain_elimination

MODELS = {
    "grid": lambda: generators.ising_grid(5, 5, seed=1),
    "tree": lambda: generators.random_tree(30, card=(1, 4), seed=2),
    "zeros": lambda: ef.FactorGraph(
        [2, 3, 2], [([0, 1], [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]), ([1, 2], [[1, 0], [0, 3], [1, 1]])]
    ),
    "no variables": lambda: ef.FactorGraph([], []),
}


def both(graph: ef.FactorGraph, monkeypatch: pytest.MonkeyPatch, **given: object) -> list[ef.Samples]:
    """Return 200 samples of the kernels, and of plain NumPy."""
    found = []
    for plain in ("0", "1"):
        monkeypatch.setenv("EQUIFACTOR_PLAIN", plain)
        found.append(ef.sample(graph, 200, seed=5, **given))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, plain = both(MODELS[name](), monkeypatch)
    assert kernels.status == plain.status
    assert np.array_equal(kernels.states, plain.states)


def test_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, plain = both(MODELS["grid"](), monkeypatch, evidence={0: 1, 12: 0})
    assert np.array_equal(kernels.states, plain.states)
    assert (plain.states[:, [0, 12]] == [1, 0]).all()


def test_tables_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large clusters are computed where the samples need them."""
    monkeypatch.setattr(plain_elimination, "_KEPT", 0)
    kernels, plain = both(MODELS["grid"](), monkeypatch)
    assert np.array_equal(kernels.states, plain.states)


def test_zero_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ef.FactorGraph([2, 2], [([0, 1], [[0.0, 1.0], [1.0, 0.0]]), ([0, 1], [[1.0, 0.0], [0.0, 1.0]])])
    for drawn in both(graph, monkeypatch):
        assert drawn.status.value == "zero-probability"
