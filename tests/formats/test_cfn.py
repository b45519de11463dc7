"""Cost function networks of toulbar2: costs, bounds, names, and its relaxed form of JSON."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import small_graphs

from equifactor import Clause, FactorGraph, Parity, SparseTable
from equifactor.base.errors import FormatError, ModelError
from equifactor.formats.cfn import read_cfn, write_cfn

EXAMPLE = """{ "problem": { "name": "example", "mustbe": "<100.0" },
  "variables": { "A": ["low", "high"], "B": 3 },
# a comment
  "functions": {
    "f": { "scope": ["A", "B"], "costs": [0, 1.5, 100, 2, -2, 0.25] },
    "g": { "scope": ["A", "B"], "defaultcost": 5, "costs": ["low", 2, 1, "high", 0, 120] },
    "c": { "scope": [], "costs": [7] },
    "h": { "scope": ["A", "B"], "costs": "f" } } }
"""


def read(tmp_path: Path, text: str) -> FactorGraph:
    (tmp_path / "model.cfn").write_text(text)
    return read_cfn(tmp_path / "model.cfn")


def all_states(graph: FactorGraph) -> np.ndarray:
    return np.indices(graph.card.tolist()).reshape(graph.num_vars, graph.num_joint_states).T


def test_costs_become_log_potentials(tmp_path):
    g = read(tmp_path, EXAMPLE)
    assert g.structure.variable_names == ("A", "B")
    assert g.structure.state_names == (("low", "high"), None)
    np.testing.assert_array_equal(g.log_table(0), [[0, -1.5, -np.inf], [-2, 2, -0.25]])
    np.testing.assert_array_equal(g.log_table(1), [[-5, -5, -1], [-np.inf, -5, -5]])
    assert g.log_table(2) == -7
    np.testing.assert_array_equal(g.log_table(3), g.log_table(0))
    assert not np.signbit(g.log_table(0)[0, 0])


def test_what_toulbar2_lets_people_leave_out(tmp_path):
    plain = """{ problem { example <100.0 }
      variables [A [low high] B 3]
      functions {
        f {[A B] [0 1.5 100 2 -2 0.25]}
        g {[0 1] 5 [low 2 "1" high 0 120]}
        c {[] [7]}
        h { scope [A B] costs f }}}"""
    assert read(tmp_path, plain) == read(tmp_path, EXAMPLE)


def test_variables_and_functions_without_names(tmp_path):
    g = read(tmp_path, '{"problem": {}, "variables": [[u v] 2], "functions": [{scope: [1 0], costs: [1 2 3 4]}]}')
    assert g.structure.variable_names is None
    assert g.structure.state_names == (("u", "v"), None)
    np.testing.assert_array_equal(g.log_table(0), [[-1, -2], [-3, -4]])


def test_the_last_bracket_may_be_missing(tmp_path):
    assert read(tmp_path, EXAMPLE.rstrip().removesuffix("}")) == read(tmp_path, EXAMPLE)


def test_maximisation(tmp_path):
    g = read(
        tmp_path,
        '{problem: {name: m, mustbe: ">-5.0"}, variables: {v: 3}, functions: {c: {scope: [v], costs: [-5 -4 6]}}}',
    )
    np.testing.assert_array_equal(g.log_table(0), [-np.inf, -4, 6])


def test_default_costs_stay_sparse(tmp_path):
    scope = " ".join(f"v{i}" for i in range(30))
    variables = " ".join(f"v{i}: [a b]" for i in range(30))
    g = read(
        tmp_path,
        f"{{problem: {{name: s, mustbe: <9}}, variables: {{{variables}}}, "
        f"functions: {{f: {{scope: [{scope}], defaultcost: 3, costs: [{'b ' * 30} 9]}}}}}}",
    )
    assert g.factor(0) == SparseTable([[1] * 30], [-np.inf], -3.0)
    write_cfn(g, tmp_path / "b.cfn.gz")
    assert read_cfn(tmp_path / "b.cfn.gz") == g.renamed("b")


def test_clauses_and_other_kinds(tmp_path):
    g = FactorGraph([2] * 12, [(range(12), Clause(weight=2.0)), ([0, 1], Parity())])
    write_cfn(g, tmp_path / "a.cfn")
    h = read_cfn(tmp_path / "a.cfn")
    assert h.structure.kinds.kind.tolist() == [SparseTable.number, 0]
    x = np.random.default_rng(0).integers(0, 2, (50, 12))
    np.testing.assert_array_equal(h.log_score(x), g.log_score(x))


def test_what_is_written(tmp_path):
    g = FactorGraph(
        {"rain": ["no", "yes"], "level mm": ["<5", "5"]},
        [([0], [-0.25, 1e-7]), ([0, 1], [[0, -1.5], [-np.inf, -2]])],
        log=True,
    )
    write_cfn(g, tmp_path / "a.cfn")
    assert (tmp_path / "a.cfn").read_text() == (
        '{ "problem": { "name": "model", "mustbe": "<4.0000000" },\n'
        '  "variables": {\n    "rain": ["no", "yes"],\n    "level_mm": ["x5", "x5_2"]\n  },\n'
        '#equifactor ["level_mm", "level mm", ["<5", "5"]]\n'
        '  "functions": {\n'
        '    "f0": { "scope": ["rain"], "costs": [0.25, -0.0000001] },\n'
        '    "f1": { "scope": ["rain", "level_mm"], "costs": [0.0, 1.5, 4.0000000, 2.0] }\n  }\n}\n'
    )
    assert read_cfn(tmp_path / "a.cfn") == g.renamed("a")


def test_costs_that_toulbar2_cannot_add_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"more than 2\^60, so toulbar2 cannot add them"):
        write_cfn(FactorGraph([2], [([0], [0, -1e30])], log=True), tmp_path / "a.cfn")


@settings(max_examples=60, deadline=None)
@given(small_graphs(st.one_of(st.just(-np.inf), st.floats(-50, 50)), log=True))
def test_round_trip(tmp_path_factory, g):
    path = tmp_path_factory.mktemp("cfn") / "a.cfn"
    write_cfn(g, path)
    assert read_cfn(path) == g.renamed("a")


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(3))
def test_toulbar2_finds_the_same_optimum(tmp_path, seed):
    toulbar2 = pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(seed)
    card = {"a": ["1", "2"], "b b": ["x", "y", "z"], "c": ["<5", "5-7", ">7", "other"]}
    pairs = [([i, j], rng.gamma(0.5, 3, (i + 2, j + 2))) for i, j in ((0, 1), (2, 1), (2, 0))]
    g = FactorGraph(card, [*pairs, ([1, 2], np.where(rng.random((3, 4)) < 0.3, 0, 1.0)), ([], 0.3)])
    write_cfn(g, tmp_path / "a.cfn")
    problem = toulbar2.CFN()
    problem.Read(str(tmp_path / "a.cfn"))
    assignment, cost, _ = problem.Solve()
    best = g.log_score(all_states(g)).max()
    assert g.log_score(np.array(assignment)) == pytest.approx(best, abs=1e-4)
    assert -cost == pytest.approx(best, abs=1e-4)


P = '{ "problem": {"name": "n", "mustbe": "<9.0"},\n'
V = P + '"variables": {"A": ["u", "v"], "B": 2, "C": ["1", "2"]},\n'


def function(fields: str) -> str:
    return f'{V}"functions": {{"f": {{{fields}}}}}}}'


FAULTS = [
    ("", 1, "expected '{', found the end of the file"),
    ("network n { }", 1, "expected '{', found 'network'"),
    ('{ "variables": {} }', 1, "expected 'problem', found '\"variables\"'"),
    ('{ "problem": {"name": "n", "mustbe": "9"} }', 1, "expected a bound as in \"<10.5\" or \">0\", found '9'"),
    ('{ "problem": {"name": "n", "mustbe": "<1.2.3"} }', 1, "expected a bound"),
    (P + '"variables": {"A": 2, "A": 3}', 2, "the file declares variable 'A' twice"),
    (P + '"variables": {"A": -5}', 2, "variable 'A' has an interval (-5), which is not supported"),
    (P + '"variables": {"A": 0}', 2, "A variable needs at least one value"),
    (P + '"variables": {"A": []}', 2, "A variable needs at least one value"),
    (P + '"variables": {"A": ["u", "u"]}', 2, "variable 'A' has the value 'u' twice"),
    (P + '"variables": {"A": many}', 2, "expected the values of 'A' or their number, found 'many'"),
    (P + '"variables": {"A": 99999999999999999999}', 2, "expected the values of 'A' or their number"),
    (function('"scope": ["D"], "costs": [1]'), 3, "the scope of 'f' names variable 'D', which"),
    (function('"scope": ["A", "A"], "costs": [1]'), 3, "the scope of 'f' names variable 'A' twice"),
    (function('"scope": ["A"], "costs": [1]'), 3, "expected 2 costs of 'f', found 1"),
    (function('"scope": ["A"], "costs":\n[1,\nx]'), 5, "expected a cost of 'f', found 'x'"),
    (function('"scope": ["A"], "costs": [1, nan]'), 3, "expected a cost of 'f', found 'nan'"),
    (function('"scope": ["A"], "costs": [1, [2]]'), 3, "expected a list without inner brackets"),
    (function('"scope": ["A"], "costs": "g"'), 3, "the name of a function with costs, found 'g'"),
    (function('"costs": [1]'), 3, "cost function 'f' has no scope before its costs"),
    (function('"scope": ["A"]'), 3, "cost function 'f' has no costs"),
    (function('"scope": ["A"], "type": "salldiff"'), 3, "'type' instead of costs, which is not supported"),
    (function('"scope": ["A"], "defaultcost": 1, "costs": ["u"]'), 3, "1 words, not a multiple of 2"),
    (function('"scope": ["A"], "defaultcost": x, "costs": []'), 3, "the default cost of 'f', found 'x'"),
    (function('"scope": ["A"], "defaultcost": 1, "costs":\n["w", 1]'), 4, "2 values of variable 0 in 'f', found 'w'"),
    (function('"scope": ["B"], "defaultcost": 1, "costs": [2, 1]'), 3, "2 values of variable 1 in 'f', found '2'"),
    (function('"scope": ["C"], "defaultcost": 1, "costs": ["1", 1]'), 3, "the name of one value of variable 2"),
    (function('"scope": ["B"], "defaultcost": 1, "costs": [1, 1, 1, 2]'), 3, "tuple 2 of 'f' repeats an earlier tuple"),
    (function('"scope": [], "costs": [1]},\n"f": {"scope": [], "costs": [1]'), 4, "two cost functions 'f'"),
    (V + '"functions": {"f": {"scope": ["A"], "costs": [1, 2]}', 3, "found the end of the file"),
    (V + '"functions": {}}\n}', 4, "expected the end of the file, found '}'"),
    (V + '#equifactor ["A"]\n"functions": {}}', 3, "expected the names of a variable and its states after #equifactor"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), FAULTS)
def test_a_fault_is_one_sentence_with_its_line(tmp_path, text, line, message):
    with pytest.raises(FormatError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'model.cfn'}:{line}: ")
    assert message in str(error.value)


def test_a_table_too_large_for_memory_stays_a_list(tmp_path):
    variables = ", ".join(f'"v{i}": 1000' for i in range(5))
    scope = ", ".join(f'"v{i}"' for i in range(3))
    tuples = ", ".join(f"{i}, 0, 0, 1" for i in range(10))
    text = f'{{"problem": {{}}, "variables": {{{variables}}},\n"functions": {{"f": {{"scope": [{scope}], '
    g = read(tmp_path, text + f'"defaultcost": 0, "costs": [{tuples}]}}}}}}')
    assert isinstance(g.factor(0), SparseTable)
    many = ", ".join("0, 0, 0, 1" for i in range(10))
    with pytest.raises(FormatError, match="tuple 2 of 'f' repeats an earlier tuple"):
        read(tmp_path, text + f'"defaultcost": 0, "costs": [{many}]}}}}}}')
