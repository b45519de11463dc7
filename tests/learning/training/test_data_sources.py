"""Training data from text."""

from __future__ import annotations

import pytest

from equifactor import OptionError, generators
from equifactor.learning.training.data_sources import read_source


def test_a_generator_by_text() -> None:
    source = read_source("ising(3x4, n=5, coupling_std=0.5)", seed=3)
    want = generators.ising_grid(3, 4, count=5, seed=3, coupling_std=0.5)
    assert [g.log_phi.tolist() for g in source.graphs] == [g.log_phi.tolist() for g in want]
    assert source.text == "ising(seed=3, rows=3, cols=4, coupling_std=0.5, n=5)"
    ragged = read_source("random(num_vars=5, num_factors=6, card=2-3, arity=1-2, n=2)")
    assert {int(d) for g in ragged.graphs for d in g.card} <= {2, 3}


def test_several_texts_never_repeat_a_graph() -> None:
    source = read_source(["ising(2x2, n=3)", "ising(2x2, n=3)"])
    assert len({g.log_phi.tobytes() for g in source.graphs}) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("isng(4x4)", "no generator 'isng'"),
        ("ising(4x4, size=3)", "no option 'size'"),
        ("ising(4x4, n=0)", "n must be"),
        ("ising(n=3)", "rows"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_source(text)
