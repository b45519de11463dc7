from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import small_graphs

from equifactor import AtMost, Clause, Parity, SparseTable
from equifactor.base.errors import FormatError, ModelError, OptionError
from equifactor.formats.wcsp import read_wcsp, write_wcsp
from equifactor.graph import FactorGraph

EXAMPLE = """example 3 3 4 100
2 3 2
2 0 1 5 2
0 2 1
1 0 100
1 2 0 1
1 4
0 7 0
2 2 0 3 0
"""


def read(tmp_path: Path, text: str, **options) -> FactorGraph:
    path = tmp_path / "model.wcsp"
    path.write_text(text)
    return read_wcsp(path, **options)


def all_states(graph: FactorGraph) -> np.ndarray:
    return np.indices(graph.card.tolist()).reshape(graph.num_vars, graph.num_joint_states).T


def test_costs_become_log_potentials(tmp_path):
    g = read(tmp_path, EXAMPLE)
    assert g.card.tolist() == [2, 3, 2]
    np.testing.assert_array_equal(g.log_table(0), [[-5, -5, -1], [-np.inf, -5, -5]])
    np.testing.assert_array_equal(g.log_table(1), [0, -4])
    assert g.log_table(2) == -7
    np.testing.assert_array_equal(g.log_table(3), np.full((2, 2), -3))
    assert g.log_score([0, 2, 0]) == -11
    assert not np.signbit(g.log_table(1)[0])  # a cost of 0 is 0, not -0
    assert g.name == "model"


def test_the_scale_divides(tmp_path):
    np.testing.assert_array_equal(read(tmp_path, EXAMPLE, scale=10).log_table(1), [0, -0.4])
    g = read(tmp_path, "a:scale=1000:constant=2.5 1 2 1 10\n2\n1 0 0 1\n1 5\n")
    np.testing.assert_array_equal(g.log_score(all_states(g)), [2.5, 2.5 - 0.005])


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf")])
def test_a_senseless_scale_is_refused(tmp_path, scale):
    with pytest.raises(OptionError, match="scale must be a finite number above 0"):
        read(tmp_path, EXAMPLE, scale=scale)
    with pytest.raises(OptionError, match="scale must be a finite number above 0"):
        write_wcsp(FactorGraph([2]), tmp_path / "a.wcsp", scale=scale)


def test_shared_cost_functions(tmp_path):
    g = read(tmp_path, "s 3 2 2 100\n2 2 2\n-2 0 1 5 1\n0 0 1\n2 1 2 0 -1\n")
    np.testing.assert_array_equal(g.log_table(0), [[-1, -5], [-5, -5]])
    np.testing.assert_array_equal(g.log_table(1), g.log_table(0))
    assert g.structure.scope(1).tolist() == [1, 2]


def test_keywords_are_not_supported(tmp_path):
    with pytest.raises(FormatError, match=r"model\.wcsp:3: .*keyword 'salldiff'.*not supported"):
        read(tmp_path, "q 2 2 1 9\n2 2\n2 0 1 -1 salldiff var 10\n")


def test_a_short_list_of_tuples_stays_sparse(tmp_path):
    states = " ".join(["1"] * 30)
    g = read(
        tmp_path, f"s 30 2 2 9\n{' '.join(['2'] * 30)}\n30 {' '.join(map(str, range(30)))} 3 1\n{states} 9\n1 4 0 0\n"
    )
    assert g.factor(0) == SparseTable([[1] * 30], [-np.inf], -3.0)
    assert g.factor(1).tolist() == [0, 0]
    assert g.log_score([1] * 30) == -np.inf
    assert g.log_score([0] * 30) == -3


def test_sparse_only_where_it_is_smaller(tmp_path):
    tuples = "".join(f"{x} {y} 1\n" for x in range(9) for y in range(9) if x <= y)  # 45 tuples, 81 entries
    head = "s 3 9 3 9\n9 9 9\n"
    g = read(tmp_path, f"{head}2 0 1 0 45\n{tuples}-2 0 2 5 1\n3 3 0\n2 1 2 5 -1\n")
    assert g.structure.kinds.kind.tolist() == [0, 1, 1]
    assert g.factor(2) == g.factor(1) == SparseTable([[3, 3]], [0.0], -5.0)
    assert not np.signbit(g.factor(1).log_values).any()
    write_wcsp(g, tmp_path / "a.wcsp")
    assert read_wcsp(tmp_path / "a.wcsp") == g


def test_a_tuple_again_with_the_same_cost_counts_once(tmp_path):
    g = read(tmp_path, "s 7 2 1 9\n2 2 2 2 2 2 2\n7 0 1 2 3 4 5 6 0 2\n" + "0 0 0 0 0 0 0 1\n" * 2)
    assert g.factor(0) == SparseTable([[0] * 7], [-1.0], 0.0)


# ---- writing ----------------------------------------------------------------------------------------------


def test_whole_costs_are_written_as_they_are(tmp_path):
    g = read(tmp_path, EXAMPLE)
    write_wcsp(g, tmp_path / "a.wcsp")
    text = (tmp_path / "a.wcsp").read_text()
    # The sum of the largest finite costs is 5 + 4 + 7 + 3.
    assert text == "model 3 3 4 20\n2 3 2\n2 0 1 5 2\n0 2 1\n1 0 20\n1 2 0 1\n1 4\n0 7 0\n2 2 0 3 0\n"
    assert read_wcsp(tmp_path / "a.wcsp") == g


def test_potentials_above_one_leave_a_constant(tmp_path):
    g = FactorGraph([2, 2], [([0], [4, 1]), ([0, 1], [[1, 2], [3, 0]])], name="a b")
    write_wcsp(g, tmp_path / "a.wcsp")
    name, _, rest = (tmp_path / "a.wcsp").read_text().partition(" ")
    assert name == f"a_b:scale=1000000:constant={float(np.log(4) + np.log(3))!r}"
    assert "-" not in rest
    x = all_states(g)
    np.testing.assert_allclose(read_wcsp(tmp_path / "a.wcsp").log_score(x), g.log_score(x), atol=1e-6)


def test_sparse_tables_and_clauses_are_lists_of_tuples(tmp_path):
    arity = 40
    factors = [(range(arity), Clause(weight=2.0)), (range(arity), Clause([False] * arity, weight=-1.0))]
    g = FactorGraph(
        [2] * arity, [*factors, (range(arity), SparseTable([[1] * arity], [0.5], -1.0)), ([0, 1], Parity())]
    )
    write_wcsp(g, tmp_path / "a.wcsp", scale=2)
    h = read_wcsp(tmp_path / "a.wcsp")
    assert h.structure.kinds.kind.tolist() == [1, 1, 1, 0, 0]  # and the constant
    states = [np.zeros(arity, int), np.ones(arity, int), np.arange(arity) % 2, np.arange(arity) > 1]
    np.testing.assert_allclose(h.log_score(np.array(states)), g.log_score(np.array(states)))


def test_what_has_too_large_a_table_is_refused(tmp_path):
    g = FactorGraph([2] * 30, [(range(30), AtMost(1))])
    with pytest.raises(ModelError, match=r"factor 0 is a count over 30 variables. .* has 2\^30 entries"):
        write_wcsp(g, tmp_path / "a.wcsp")


def test_a_chosen_scale(tmp_path):
    g = FactorGraph([3], [([0], [-0.1234, -0.5, 0])], log=True)
    write_wcsp(g, tmp_path / "a.wcsp", scale=100)
    assert (tmp_path / "a.wcsp").read_text() == "model:scale=100 1 3 1 51\n3\n1 0 0 2\n0 12\n1 50\n"
    with pytest.raises(ModelError, match="smaller scale"):
        write_wcsp(g, tmp_path / "a.wcsp", scale=1e20)


@pytest.mark.parametrize("log_value", [-1e-12, -1e12, -1e300, -5e-324])
def test_any_magnitude_keeps_its_digits(tmp_path, log_value):
    g = FactorGraph([2], [([0], [0.0, log_value * 1.25])], log=True)
    write_wcsp(g, tmp_path / "a.wcsp")
    np.testing.assert_allclose(read_wcsp(tmp_path / "a.wcsp").log_phi, g.log_phi, rtol=1e-6, atol=1e-300)


def test_a_range_that_no_scale_holds_is_refused(tmp_path):
    g = FactorGraph([2, 3], [([0], [0.0, -1e20]), ([1], [0.0, -0.5, -1.25])], log=True)
    with pytest.raises(ModelError, match=r"reach 1e\+20, .* cannot also hold the cost 0\.5\. Write an \.LG file"):
        write_wcsp(g, tmp_path / "a.wcsp")
    assert not (tmp_path / "a.wcsp").exists()
    write_wcsp(g, tmp_path / "a.wcsp", scale=1e-3)  # the user's own choice


def test_a_wide_range_keeps_three_decimals(tmp_path):
    g = FactorGraph([2, 3], [([0], [0.0, -1e12]), ([1], [0.0, -0.5004, -1.25])], log=True)
    write_wcsp(g, tmp_path / "a.wcsp")
    np.testing.assert_allclose(read_wcsp(tmp_path / "a.wcsp").log_phi, g.log_phi, atol=5e-4)


def test_evidence_and_impossible_tables(tmp_path):
    g = FactorGraph([2, 3], [([0, 1], np.arange(1.0, 7).reshape(2, 3)), ([0], [0, 0])])
    for h in (g, g.condition({1: 2})):
        write_wcsp(h, tmp_path / "a.wcsp")
        assert np.isneginf(read_wcsp(tmp_path / "a.wcsp").log_score(all_states(g))).all()


@settings(max_examples=60, deadline=None)
@given(small_graphs(st.one_of(st.just(-np.inf), st.floats(-50, 50)), log=True))
def test_round_trip(tmp_path_factory, g):
    path = tmp_path_factory.mktemp("wcsp") / "a.wcsp"
    write_wcsp(g, path)
    h = read_wcsp(path)
    x = all_states(g)
    np.testing.assert_allclose(h.log_score(x), g.log_score(x), atol=1e-4)
    # Costs that were rounded once do not change when they are rounded again.
    write_wcsp(h, path)
    np.testing.assert_allclose(read_wcsp(path).log_score(x), h.log_score(x), rtol=1e-12, atol=1e-9)


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(3))
def test_toulbar2_finds_the_same_optimum(tmp_path, seed):
    toulbar2 = pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(seed)
    card = [2, 3, 4, 1, 2]
    pairs = [([i, j], rng.gamma(0.5, 3, (card[i], card[j]))) for i, j in ((0, 1), (2, 1), (2, 4), (3, 0))]
    hard = np.where(rng.random((3, 4, 2)) < 0.3, 0, rng.random((3, 4, 2)))
    g = FactorGraph(card, [*pairs, ([1, 2, 4], hard), ([], 0.3)])
    write_wcsp(g, tmp_path / "a.wcsp")
    problem = toulbar2.CFN()
    toulbar2.pytoulbar2.tb2.option.cfn = False  # The setting stays true after a .cfn file was read, even in a new CFN.
    problem.Read(str(tmp_path / "a.wcsp"))
    assignment, cost, _ = problem.Solve()
    scores = read_wcsp(tmp_path / "a.wcsp").log_score(all_states(g))
    assert g.log_score(np.array(assignment)) == pytest.approx(g.log_score(all_states(g)).max(), abs=1e-5)
    name = (tmp_path / "a.wcsp").read_text().split()[0]
    constant = float(name.partition(":constant=")[2] or 0)
    scale = float(name.partition(":scale=")[2].partition(":")[0])
    assert constant - cost / scale == pytest.approx(scores.max(), abs=1e-9)


def test_a_scale_that_makes_small_costs_integers_is_found_beside_large_costs(tmp_path: Path) -> None:
    graph = FactorGraph([2, 2], [([0], [0.0, -1e3]), ([1], [0.0, -2e-6])], log=True)
    write_wcsp(graph, tmp_path / "a.wcsp")
    assert read_wcsp(tmp_path / "a.wcsp").log_phi.tolist() == [0.0, -1e3, 0.0, -2e-6]
