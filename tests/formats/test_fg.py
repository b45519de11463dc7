import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import small_graphs

from equifactor.base.errors import ModelError
from equifactor.formats.decimals import decimals
from equifactor.formats.fg import read_fg, write_fg
from equifactor.graph import FactorGraph

EXAMPLE = """# a comment
2

2
0 1
2 3
4
0 0.5   # x0 = 0, x1 = 0
1 0.25
4 2
5 3

1
1
3
2
0 1
2 4
"""


def read(tmp_path, text: str) -> FactorGraph:
    path = tmp_path / "model.fg"
    path.write_text(text)
    return read_fg(path)


def all_states(graph: FactorGraph) -> np.ndarray:
    return np.indices(graph.card.tolist()).reshape(graph.num_vars, graph.num_joint_states).T


def test_the_first_variable_runs_fastest(tmp_path):
    g = read(tmp_path, EXAMPLE)
    tables = dict(g.linear_factors())
    # Index 1 is x0 = 1, x1 = 0; index 4 is x0 = 0, x1 = 2.
    np.testing.assert_allclose(tables[0, 1], [[0.5, 0, 2], [0.25, 0, 3]])
    np.testing.assert_allclose(tables[(1,)], [1, 0, 4])
    assert g.card.tolist() == [2, 3]
    assert g.name == "model"
    assert g.structure.variable_names is None


def test_labels_with_gaps_become_names_in_ascending_order(tmp_path):
    g = read(tmp_path, "1\n2\n9 4\n3 2\n1\n1 5\n")
    assert g.structure.variable_names == ("4", "9")
    assert g.card.tolist() == [2, 3]
    assert g.log_score({"9": 1, "4": 0}) == pytest.approx(np.log(5))
    write_fg(g, tmp_path / "again.fg")
    assert read_fg(tmp_path / "again.fg") == g


def test_what_has_no_place_in_the_format_becomes_factors(tmp_path):
    g = FactorGraph([2, 3, 2], [([1], [0.2, 0.3, 0.5]), ([1, 2], np.arange(1.0, 7).reshape(3, 2))])
    conditioned = g.condition({1: 2})
    write_fg(conditioned, tmp_path / "a.fg")
    h = read_fg(tmp_path / "a.fg")
    assert h.card.tolist() == [2, 3, 2]  # variable 0 is in no factor
    np.testing.assert_allclose(h.log_score(all_states(g)), conditioned.log_score(all_states(g)))


def test_written_text(tmp_path):
    write_fg(FactorGraph([2, 2], [([0, 1], [[0.1, 0], [0.25, 1]])]), tmp_path / "a.fg")
    assert (tmp_path / "a.fg").read_text() == "1\n\n2\n0 1\n2 2\n3\n0 0.1\n1 0.25\n3 1\n"


def test_compressed_files(tmp_path):
    with gzip.open(tmp_path / "a.fg.gz", "wt") as f:
        f.write(EXAMPLE)
    assert read_fg(tmp_path / "a.fg.gz") == read(tmp_path, EXAMPLE)


@settings(max_examples=60, deadline=None)
@given(small_graphs(st.floats(0, 1e6).filter(lambda x: x == 0 or x > 1e-300)))
def test_round_trip(tmp_path_factory, g):
    path = tmp_path_factory.mktemp("fg") / "a.fg"
    write_fg(g, path)
    h = read_fg(path)
    assert np.array_equal(h.card, g.card)
    assert np.array_equal(h.log_phi[: len(g.log_phi)], g.log_phi)
    assert np.array_equal(h.structure.scope_vars[: g.structure.num_edges], g.structure.scope_vars)
    assert not h.log_phi[len(g.log_phi) :].any()  # ones for the variables in no factor


def test_decimals_are_short_and_exact():
    phi = np.array([0.1, 0.3, 1.0, 0.0, 2 / 3, 1e-300, 12345.678])
    with np.errstate(divide="ignore"):
        log_phi = np.log(phi)
        texts = list(decimals(log_phi))
        assert np.array_equal(np.log(np.array(texts, float)), log_phi)
    assert texts[:4] == ["0.1", "0.3", "1", "0"]
    assert texts[6] == "12345.678"


def test_decimals_of_any_logarithm_are_as_close_as_floats_allow():
    log_phi = np.random.default_rng(0).uniform(-700, 700, 70_000)
    back = np.log(np.array(list(decimals(log_phi)), float))
    np.testing.assert_allclose(back, log_phi, rtol=2e-16, atol=2e-16)


@pytest.mark.parametrize("log_value", [-1200.0, 800.0, -740.0])
def test_decimals_refuse_what_a_float_cannot_hold(log_value):
    with pytest.raises(ModelError, match=rf"exp\({log_value:g}\).*\.LG"):
        list(decimals(np.array([log_value])))


def test_a_graph_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.fg"
    path.write_text("old")
    with pytest.raises(ModelError):
        write_fg(FactorGraph([2], [([0], [-1200.0, 0.0])], log=True), path)
    assert path.read_text() == "old"
