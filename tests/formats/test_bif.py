"""Bayesian networks in .bif files: what the format can say, and names that need quotes."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, NoisyOr
from equifactor.base.errors import ModelError
from equifactor.formats.bif import read_bif, write_bif

WEATHER = """// a comment at the top
network weather {
  property "drawn by hand";
}
variable rain {
  type discrete [ 2 ] { no, yes };
  property position = (10, 20);
}
variable "wet grass" {
  type discrete[2] { "not wet", "wet" };
}
variable sprinkler {
  type discrete [ 3 ] { off, low, >5mm };  /* a comment
  over two lines */
}
probability ( rain ) {
  table 0.8, 0.2;
}
probability ( sprinkler | rain ) {
  (yes) 0.9, 0.1, 0;
  (no) 0.6 0.3 0.1;
}
probability ( "wet grass" | sprinkler, rain ) {
  default 0.1, 0.9;
  (off, no) 1.0, 0.0;
  (low, no) 0.25, 0.75;
  property "measured";
}
"""


def read(tmp_path: Path, text: str) -> FactorGraph:
    path = tmp_path / "model.bif"
    path.write_text(text)
    return read_bif(path)


def test_a_network_with_everything(tmp_path):
    g = read(tmp_path, WEATHER)
    s = g.structure
    assert s.variable_names == ("rain", "wet grass", "sprinkler")
    assert s.state_names == (("no", "yes"), ("not wet", "wet"), ("off", "low", ">5mm"))
    assert [s.scope(a).tolist() for a in range(3)] == [[0], [2, 0, 1], [0, 2]]
    np.testing.assert_allclose(np.exp(g.log_table(2)), [[0.6, 0.3, 0.1], [0.9, 0.1, 0.0]])
    wet = np.exp(g.log_table(1))
    np.testing.assert_allclose(wet[:, 0], [[1, 0], [0.25, 0.75], [0.1, 0.9]])
    np.testing.assert_allclose(wet[:, 1], [[0.1, 0.9]] * 3)
    assert g.name == "model"


def test_a_flat_table_has_the_child_slowest(tmp_path):
    text = "variable a { type discrete { x, y }; } variable b { type discrete { u, v, w }; }\n"
    g = read(
        tmp_path, text + "probability (a) { table 0.5 0.5; } probability (b | a) { table 0.1 0.2 0.3 0.4 0.6 0.4; }"
    )
    np.testing.assert_allclose(np.exp(g.log_table(1)), [[0.1, 0.3, 0.6], [0.2, 0.4, 0.4]])


def test_distributions_may_come_before_variables_and_words_in_capitals(tmp_path):
    g = read(tmp_path, "NETWORK n {}\nProbability ( a ) { TABLE .5 .5; }\nVARIABLE a { TYPE DISCRETE [2] { T, F }; }")
    assert g.structure.state_names == (("T", "F"),)


def test_letters_of_western_europe_in_one_byte(tmp_path):
    (tmp_path / "a.bif").write_bytes(
        "variable é { type discrete { a }; } probability ( é ) { table 1; }".encode("latin-1")
    )
    assert read_bif(tmp_path / "a.bif").structure.variable_names == ("é",)


def test_an_empty_file_is_a_network_without_variables(tmp_path):
    assert read(tmp_path, "network nothing { }\n").num_vars == 0


def test_published_rounding_is_kept_as_it_is(tmp_path):
    g = read(tmp_path, "variable a { type discrete { x, y, z }; } probability (a) { table 0.333, 0.333, 0.333; }")
    np.testing.assert_array_equal(g.log_phi, np.log([0.333] * 3))


def test_numbers_are_written_as_people_write_them(tmp_path):
    g = read(tmp_path, WEATHER)
    write_bif(g, tmp_path / "b.bif")
    text = (tmp_path / "b.bif").read_text()
    assert "  table 0.8, 0.2;\n" in text
    assert '  type discrete [ 2 ] { "not wet", wet };\n' in text
    assert "  (low, no) 0.25, 0.75;\n" in text
    assert read_bif(tmp_path / "b.bif") == g


def test_a_child_that_is_not_last_is_found(tmp_path):
    table = [[0.9, 0.2], [0.1, 0.8]]  # of the first variable given the second
    g = FactorGraph([2, 2], [([0, 1], table), ([1], [0.5, 0.5])])
    write_bif(g, tmp_path / "a.bif")
    h = read_bif(tmp_path / "a.bif")
    assert h.structure.scope(0).tolist() == [1, 0]
    x = np.indices((2, 2)).reshape(2, 4).T
    np.testing.assert_array_equal(h.log_score(x), g.log_score(x))


def test_factors_share_variables_so_that_each_has_one(tmp_path):
    both = [[0.5, 0.5], [0.5, 0.5]]  # a distribution of either variable
    g = FactorGraph([2] * 4, [([1, 0], both), ([2, 1], both), ([3, 2], both), ([0], [0.3, 0.7])])
    write_bif(g, tmp_path / "a.bif")
    assert read_bif(tmp_path / "a.bif").structure.scope(1).tolist() == [0, 1]


def test_other_kinds_become_tables(tmp_path):
    g = FactorGraph([2, 2, 2], [([0], [0.5, 0.5]), ([1], [0.2, 0.8]), ([2, 0, 1], NoisyOr(0.1, [0.5, 0.25]))])
    write_bif(g, tmp_path / "a.bif")
    h = read_bif(tmp_path / "a.bif")
    np.testing.assert_allclose(np.exp(h.log_table(2))[:, :, 0], [[0.9, 0.225], [0.45, 0.1125]])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (FactorGraph([2, 2], [([0], [0.5, 0.5])]), "has 1 factors for 2 variables"),
        (FactorGraph([2], [([0], [1.0, 3.0])]), "Factor 0 is not a distribution of variable 0 given the others"),
        (
            FactorGraph([2, 2], [([0], [0.5, 0.5]), ([0], [0.5, 0.5])]),
            "All variables of factor 1 have another factor already",
        ),
        (
            FactorGraph([2, 2], [([1, 0], np.eye(2)), ([0, 1], [[0.9, 0.1], [0.2, 0.8]])]),
            "directed cycle at variable 0",
        ),
        (FactorGraph([2], [([0], [0.5, 0.5])]).condition({0: 1}), "cannot hold evidence"),
    ],
)
def test_graphs_that_are_not_networks_are_refused(tmp_path, graph, message):
    with pytest.raises(ModelError, match=message):
        write_bif(graph, tmp_path / "a.bif")
    assert not (tmp_path / "a.bif").exists()


def test_the_example_by_hand(tmp_path):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "lawn.py"))
    (tmp_path / "lawn.bif").write_text(example["NETWORK"], encoding="utf-8")
    g = read_bif(tmp_path / "lawn.bif")
    assert g.structure.state_names[3] == ("dry", "damp", "very wet")
    sprinkler = np.exp(g.log_table(2))[..., 1]
    np.testing.assert_allclose(sprinkler, [[0.2, 0], [0.7, 0], [0, 0], [0, 0]])
