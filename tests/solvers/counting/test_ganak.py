"""The adapter to Ganak, with a counter in its place that enumerates."""

from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor import Clause, FactorGraph, OptionError, Status
from equifactor.solvers.counting import ganak

COUNTER = """
from fractions import Fraction
from itertools import product
class WeightedCounter:
    def __init__(self):
        self.clauses, self.weights = [], {}
    def new_vars(self, count):
        self.count_vars = count
    def add_clauses(self, clauses):
        self.clauses += clauses
    def set_lit_weight(self, literal, weight):
        self.weights[literal] = weight
    def count(self):
        total = Fraction(0)
        for signs in product((-1, 1), repeat=self.count_vars):
            true = {sign * (v + 1) for v, sign in enumerate(signs)}
            if all(true & set(clause) for clause in self.clauses):
                product_of_weights = Fraction(1)
                for x in true:
                    product_of_weights *= Fraction(self.weights.get(x, 1.0))
                total += product_of_weights
        return float(total)
class Counter(WeightedCounter):
    pass
"""


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyganak.py").write_text(COUNTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ganak.Ganak, "missing", classmethod(lambda cls: None))


def test_ln_z_is_that_of_the_formula(counter) -> None:
    graph = FactorGraph([2, 2, 3], [([0, 1], Clause()), ([0], [2.0, 5.0]), ([1, 2], [[1, 0, 2], [0.5, 1, 1]])])
    got = ef.solve(graph, "PR", "ganak")
    assert got.status is Status.EXACT
    assert got.log_z == pytest.approx(ef.solve(graph, "PR", "brute").log_z)
    differ = 1.0 - np.eye(2)
    odd = FactorGraph([2] * 3, [([0, 1], differ), ([1, 2], differ), ([2, 0], differ)])
    assert ef.solve(odd, "PR", "ganak").status is Status.ZERO_PROBABILITY


def test_counts_below_the_range_of_numbers_are_no_proof(counter) -> None:
    unary = [([i], [1.0, 1e-200]) for i in range(4)]
    pairs = [([i, i + 1], np.eye(2)) for i in range(3)]
    graph = FactorGraph([2] * 4, [*unary, *pairs, ([0, 1], Clause([True, True]))])  # only 1, 1, 1, 1 is possible
    got = ef.solve(graph, "PR", "ganak")
    assert got.status is Status.EXACT
    assert got.log_z == pytest.approx(-800 * np.log(10))


def test_a_counter_that_does_not_end_or_fails(counter, tmp_path: Path) -> None:
    graph = FactorGraph([2, 2], [([0, 1], [[1, 2], [3, 0]])])
    (tmp_path / "pyganak.py").write_text("import time; time.sleep(60)")
    assert ef.solve(graph, "PR", "ganak", time_limit=0.05).status is Status.TIME_LIMIT
    (tmp_path / "pyganak.py").write_text("raise RuntimeError('no luck')")
    assert "The counter failed: RuntimeError: no luck" in ef.solve(graph, "PR", "ganak").message


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'equifactor\[ganak\]'"):
        ganak.Ganak().run([FactorGraph([2])], ef.Task.PR, None)  # type: ignore[arg-type]
