import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equifactor import AtMost, Clause, Parity
from equifactor.base.errors import FormatError, ModelError
from equifactor.formats.cnf import read_cnf, read_projected_cnf, write_cnf
from equifactor.graph import FactorGraph


def read(tmp_path: Path, text: str, suffix: str = "cnf") -> FactorGraph:
    path = tmp_path / f"formula.{suffix}"
    path.write_text(text)
    return read_cnf(path)


def all_states(num_vars: int) -> np.ndarray:
    return np.indices([2] * num_vars).reshape(num_vars, 2**num_vars).T


def weights(graph: FactorGraph) -> np.ndarray:
    """Return the weight of every assignment, with the first variable slowest."""
    return np.exp(graph.log_score(all_states(graph.num_vars)))


def count(num_vars: int, clauses: list[list[int]]) -> int:
    return sum(
        all(any((x[abs(lit) - 1] == 1) == (lit > 0) for lit in clause) for clause in clauses)
        for x in product((0, 1), repeat=num_vars)
    )


def test_a_clause_is_zero_where_it_is_false(tmp_path):
    g = read(tmp_path, "c hello\np cnf 3 2\n3 -1 0\n2\n-3\n0\n")
    factors = list(g.linear_factors())
    assert [scope for scope, _ in factors] == [(2, 0), (1, 2)]
    np.testing.assert_array_equal(factors[0][1], [[1, 0], [1, 1]])  # false where x3 = 0 and x1 = 1
    np.testing.assert_array_equal(factors[1][1], [[1, 0], [1, 1]])
    assert g.name == "formula"


@pytest.mark.parametrize("seed", range(5))
def test_z_is_the_model_count(tmp_path, seed):
    rng = random.Random(seed)
    num_vars = 6
    clauses = [[rng.choice((-1, 1)) * rng.randint(1, num_vars) for _ in range(rng.randint(1, 4))] for _ in range(8)]
    text = f"p cnf {num_vars} {len(clauses)}\n" + "".join(" ".join(map(str, [*c, 0])) + "\n" for c in clauses)
    assert weights(read(tmp_path, text)).sum() == count(num_vars, clauses)


def test_repeated_literals_tautologies_and_the_empty_clause(tmp_path):
    g = read(tmp_path, "p cnf 2 3\n1 1 2 1 0\n1 -1 2 0\n0\n")
    assert [scope for scope, _ in g.linear_factors()] == [(0, 1), ()]
    assert g.log_table(1) == -np.inf


def test_several_clauses_on_a_line_and_a_satlib_end(tmp_path):
    g = read(tmp_path, "p  cnf 3 3\n 1 2 0 -1 0 3\n 2 0\n%\n0\n")
    assert [scope for scope, _ in g.linear_factors()] == [(0, 1), (0,), (2, 1)]


def test_competition_weights(tmp_path):
    text = "c t wmc\nc p weight 1 0.3 0\np cnf 3 1\nc p weight -1 0.8 0\nc p weight 2 1/4 0\n1 2 0\nc p show 1 2 3 0\n"
    g = read(tmp_path, text)
    w1, w2 = (0.8, 0.3), (0.75, 0.25)
    expected = [w1[a] * w2[b] * (a or b) for a, b, _ in all_states(3)]
    np.testing.assert_allclose(weights(g), expected)


def test_cachet_weights(tmp_path):
    g = read(tmp_path, "p cnf 3 1\nw 1 0.3\nw 2 -1\nw -3 0.9 0\n1 2 3 0\n")
    w1, w3 = (0.7, 0.3), (0.9, 0.1)
    expected = [w1[a] * w3[c] * (a or b or c) for a, b, c in all_states(3)]
    np.testing.assert_allclose(weights(g), expected)


def test_wcnf_header_with_literal_weights_has_plain_clauses(tmp_path):
    g = read(tmp_path, "p wcnf 2 1\nw 1 0.3\n-2 0\n", "wcnf")
    np.testing.assert_allclose(weights(g), [0.7, 0, 0.3, 0])


def test_old_weighted_maxsat(tmp_path):
    g = read(tmp_path, "p wcnf 2 3 10\n10 1 2 0\n3 -1 0\n2 -2 0\n", "wcnf")
    np.testing.assert_array_equal(g.log_score(all_states(2)), [-np.inf, -2, -3, -5])
    assert g.log_score([0, 1]) == -2  # the cheapest assignment costs 2


def test_old_weighted_maxsat_without_hard_clauses(tmp_path):
    g = read(tmp_path, "p wcnf 1 2\n3 1 0\n0 -1 0\n", "wcnf")
    np.testing.assert_array_equal(g.log_score(all_states(1)), [-3, 0])
    assert not np.signbit(g.log_table(1)).any()  # weight 0 is 0, not -0


@pytest.mark.parametrize("suffix", ["cnf", "wcnf"])
def test_new_weighted_maxsat_has_no_header(tmp_path, suffix):
    g = read(tmp_path, "c new\nh 1 3 0\n3 -1 0\n2 -3 0\n", suffix)
    assert g.num_vars == 3
    assert g.log_score([1, 0, 0]) == -3
    assert g.log_score([0, 0, 0]) == -np.inf


def test_no_clauses_at_all(tmp_path):
    assert (
        repr(read(tmp_path, "p cnf 0 0\n"))
        == "FactorGraph(formula: 0 variables, 0 factors, none states, arity none, no zeros)"
    )
    assert weights(read(tmp_path, "p cnf 3 0\n")).sum() == 8


def test_a_clause_of_any_length(tmp_path):
    num_vars = 2000
    literals = " ".join(map(str, range(1, num_vars + 1)))
    g = read(tmp_path, f"p cnf {num_vars} 2\n{literals} 0\n-1 -2 0\n")
    assert [g.factor(a) for a in (0, 1)] == [Clause(), Clause((False, False))]
    assert g.log_score(np.zeros(num_vars, int)) == -np.inf
    assert g.log_score(np.eye(num_vars, dtype=int)[7]) == 0.0


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_clauses_in_bulk_are_those_read_line_by_line(tmp_path, end):
    rng = random.Random(1)
    clauses = [[rng.choice((-1, 1)) * rng.randint(1, 9) for _ in range(rng.randint(0, 4))] for _ in range(300)]
    words = [str(x) for clause in clauses for x in [*clause, 0]]
    lines = [" ".join(words[n : n + 5]) for n in range(0, len(words), 5)]  # clauses continue on the next line
    header = f"p cnf 9 {len(clauses)}"
    bulk = read(tmp_path, end.join([header, *lines, ""]))
    single = read(tmp_path, end.join([header, *[f"{line}{end}c x" for line in lines], ""]))
    assert bulk == single
    for x in all_states(9)[::37]:
        expected = all(any((x[abs(lit) - 1] == 1) == (lit > 0) for lit in clause) for clause in clauses)
        assert np.isfinite(bulk.log_score(x)) == expected


def test_a_fault_among_many_clauses_is_named_by_its_line(tmp_path):
    good = "1 2 0\n" * 7000
    with pytest.raises(FormatError, match=r"formula\.cnf:7003: expected a literal from -2 to 2, found '3'"):
        read(tmp_path, f"p cnf 2 14000\n{good} \n1 3 0\n{good}")


def test_the_tracks_of_the_counting_competition(tmp_path, caplog):
    assert read(tmp_path, "c t mc\nc to be or\np cnf 2 1\n1 2 0\n").num_factors == 1
    assert read(tmp_path, "c t pmc\np cnf 2 1\nc p show 1 0\nc p show 2 0\n1 2 0\n").num_factors == 1
    assert not caplog.records
    with pytest.raises(
        FormatError, match=r"cnf:1: .*projected counting, which needs a line `c p show` .* Write `c t mc`"
    ):
        read(tmp_path, "c t pwmc\np cnf 2 1\n1 2 0\n")


def test_a_missing_weight_is_warned_about(tmp_path, caplog):
    read(tmp_path, "c t wmc\np cnf 2 1\nc p weight 1 0.3 0\nc p weight -1 0.7 0\n1 2 0\n")
    assert not caplog.records
    read(tmp_path, "c t wmc\np cnf 3 1\nc p weight -2 0.3 0\nc p weight 3 0.5 0\n1 2 0\n")
    (record,) = caplog.records
    assert (
        "2 variables have a weight for only one literal; the first is variable 2. The other literal gets 1 minus"
        in record.message
    )


@pytest.mark.parametrize("announced", ["3", "0", "1000000000000"])
def test_a_header_with_another_number_of_clauses_is_warned_about(tmp_path, caplog, announced):
    assert read(tmp_path, f"p cnf 2 {announced}\n1 2 0\n-1 -2 0\n").num_factors == 2
    (record,) = caplog.records
    assert "formula.cnf: the header announces " in record.message
    assert record.message.endswith("clauses, but the file has 2. All clauses of the file are read.")


@pytest.mark.parametrize(
    "text",
    ["c ind 1 0\nc ind 2 0\np cnf 2 1\n1 2 0\n", "p pcnf 2 1 2\nvp 1 2 0\n1 2 0\n", "c ind is a word\np cnf 2 0\n"],
)
def test_older_lists_of_the_variables_to_count_over(tmp_path, text):
    assert read(tmp_path, text).num_vars == 2


def test_older_lists_of_some_variables_are_refused(tmp_path):
    for text in ("c ind 1 0\np cnf 2 1\n1 2 0\n", "p pcnf 2 1 1\nvp 1 0\n1 2 0\n"):
        with pytest.raises(FormatError, match="Projected counting is not a sum over assignments"):
            read(tmp_path, text)


def test_projected_files(tmp_path):
    path = tmp_path / "a.cnf"
    path.write_text("c t pmc\np cnf 3 1\nc p show 3 1 0\n1 2 0\n")
    assert read_projected_cnf(path)[1] == [0, 2]
    path.write_text("p cnf 3 1\n1 2 0\n")
    assert read_projected_cnf(path)[1] == [0, 1, 2]
    path.write_text("p cnf 3 1\nc p show 4 0\n1 2 0\n")
    with pytest.raises(FormatError, match=r"a\.cnf:2: expected variables from 1 to 3, found 4"):
        read_projected_cnf(path)


# ---- writing ----------------------------------------------------------------------------------------------


def test_written_text(tmp_path):
    g = FactorGraph([2, 2], [([1, 0], [[1, 0], [0, 1]]), ([0], [0.25, 0.75])])
    write_cnf(g, tmp_path / "a.cnf")
    assert (tmp_path / "a.cnf").read_text() == (
        "c t wmc\np cnf 2 2\nc p weight 1 0.75 0\nc p weight -1 0.25 0\n2 -1 0\n-2 1 0\n"
    )


def test_clauses_are_written_as_they_are(tmp_path):
    g = FactorGraph([2] * 40, [(range(40), Clause()), ([3, 5], Clause([False, True])), ([1], [0.25, 0.5])])
    write_cnf(g, tmp_path / "a.cnf")
    text = (tmp_path / "a.cnf").read_text()
    assert text.startswith("c t wmc\np cnf 40 2\nc p weight 2 0.5 0\nc p weight -2 0.25 0\n1 2 3 4 ")
    assert text.endswith(" 40 0\n-4 6 0\n")
    assert read_cnf(tmp_path / "a.cnf") == g


@pytest.mark.parametrize("name", ["a.cnf", "a.wcnf"])
def test_clauses_with_weights_are_weighted_maxsat(tmp_path, name):
    soft = [([0, 1], Clause(weight=2.0)), ([1, 2, 3], Clause([True, False, True], weight=0.1))]
    g = FactorGraph([2] * 5, [*soft, ([0, 3], Clause()), ([2], [0.5, 1]), ([4], [0, 1]), ([], 0.3), ([0, 4], Parity())])
    for h in (g, g.condition({2: 1, 0: 0})):
        write_cnf(h, tmp_path / name)
        np.testing.assert_allclose(weights(read_cnf(tmp_path / name)), weights(h))
    write_cnf(FactorGraph([2] * 3, [([0, 1], Clause(weight=2.0)), ([1, 2], Clause())]), tmp_path / name)
    assert (tmp_path / name).read_text() == "p wcnf 3 2 3\n2 1 2 0\n3 2 3 0\n"


def test_constants_scaled_tables_and_evidence(tmp_path):
    g = FactorGraph([2, 2, 2], [([], 3.0), ([0, 1], [[5, 0], [5, 5]]), ([2], [0.5, 2]), ([2], [0.1, 0.2])])
    for h in (g, g.condition({2: 1}), g.condition({0: 1, 1: 0, 2: 0})):
        write_cnf(h, tmp_path / "a.cnf")
        back = read_cnf(tmp_path / "a.cnf")
        np.testing.assert_allclose(weights(back), weights(h))


def test_contradictions(tmp_path):
    for g in (FactorGraph([2], [([], 0.0)]), FactorGraph([2], [([0], [0, 0])])):
        write_cnf(g, tmp_path / "a.cnf")
        assert weights(read_cnf(tmp_path / "a.cnf")).sum() == 0


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (FactorGraph([2, 3]), "Variable 1 has 3 states.*binary.*uai"),
        (FactorGraph([2, 2], [([0], [1, 0]), ([0, 1], [[1, 2], [3, 4]])]), "Factor 1 over 2 variables.*uai"),
        (FactorGraph([], [([], 0.5)]), "constant.*uai"),
        (FactorGraph([2] * 2, [([0], [2, 1]), ([0, 1], Clause(weight=1.0))]), "Factor 0 has a potential above 1.*uai"),
        (FactorGraph([2] * 21, [(range(21), AtMost(1))]), r"factor 0 is a count .* 2\^21 entries.*at most 2\^20"),
    ],
)
def test_what_is_not_a_formula_is_refused(tmp_path, graph, message):
    with pytest.raises(ModelError, match=message):
        write_cnf(graph, tmp_path / "a.cnf")
    assert not (tmp_path / "a.cnf").exists()


@st.composite
def formulas(draw) -> FactorGraph:
    num_vars = draw(st.integers(1, 4))
    weight = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
    factors: list = []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.permutations(range(num_vars)))[: draw(st.integers(0, 3))]
        bits = draw(st.lists(st.sampled_from((0.0, 1.0)), min_size=2 ** len(scope), max_size=2 ** len(scope)))
        factors.append((scope, bits))
    for i in draw(st.sets(st.integers(0, num_vars - 1))):
        factors.append(([i], [draw(weight), draw(weight)]))
    return FactorGraph([2] * num_vars, factors)


@settings(max_examples=60, deadline=None)
@given(formulas())
def test_round_trip(tmp_path_factory, g):
    path = tmp_path_factory.mktemp("cnf") / "a.cnf"
    write_cnf(g, path)
    back = read_cnf(path)
    np.testing.assert_allclose(weights(back), weights(g), rtol=1e-12)
    write_cnf(back, path)
    assert read_cnf(path) == back
