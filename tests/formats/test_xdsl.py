"""Networks of GeNIe: types of nodes, and noisy-max nodes against their definition."""

from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, NoisyMax, NoisyOr, solve
from equifactor.base.errors import FormatError
from equifactor.formats.xdsl import read_xdsl, write_xdsl

HEAD = "<?xml version='1.0' encoding='ISO-8859-1'?>\n<smile version='1.0' id='n'>\n<nodes>\n"
CAUSES = """<cpt id="A"><state id="yes"/><state id="no"/><probabilities>0.2 0.8</probabilities></cpt>
<cpt id="B"><state id="none"/><state id="some"/><state id="much"/><probabilities>0.5 0.3 0.2</probabilities></cpt>
"""
EFFECT = '<state id="high"/><state id="low"/><state id="absent"/>'


def read(tmp_path: Path, nodes: str) -> FactorGraph:
    (tmp_path / "model.xdsl").write_text(f"{HEAD}{nodes}</nodes>\n<extensions><genie/></extensions></smile>\n")
    return read_xdsl(tmp_path / "model.xdsl")


def test_tables_and_functions(tmp_path):
    nodes = (
        CAUSES
        + '<deterministic id="D"><state id="u"/><state id="v"/><parents>A B</parents>'
        + "<resultingstates>u u v v u v</resultingstates></deterministic>\n"
        + '<cpt id="C"><state id="s"/><state id="t"/><parents>D</parents>'
        + '<probabilities>0.1 0.9 0.6 0.4</probabilities><property id="source">a book</property></cpt>\n'
    )
    g = read(tmp_path, nodes)
    assert g.structure.variable_names == ("A", "B", "D", "C")
    assert g.structure.state_names[1] == ("none", "some", "much")
    np.testing.assert_array_equal(np.exp(g.log_table(2))[..., 0], [[1, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(np.exp(g.log_table(3)), [[0.1, 0.9], [0.6, 0.4]])


# The probabilities of Asia as GeNIe stores them, with `either bronc` as the parents of `dysp`. In the publication,
# bronchitis alone gives 0.8 and either of the other diseases alone gives 0.7, so the last parent runs fastest.
ASIA = (
    ("asia", "", "0.99 0.01"),
    ("tub", "asia", "0.99 0.01 0.95 0.05"),
    ("smoke", "", "0.5 0.5"),
    ("lung", "smoke", "0.99 0.01 0.9 0.1"),
    ("either", "tub lung", "1 0 0 1 0 1 0 1"),
    ("bronc", "smoke", "0.7 0.3 0.4 0.6"),
    ("dysp", "either bronc", "0.9 0.1 0.2 0.8 0.3 0.7 0.1 0.9"),
)


def test_the_last_parent_runs_fastest_as_in_the_files_of_genie(tmp_path):
    states = '<state id="no"/><state id="yes"/>'
    g = read(
        tmp_path,
        "".join(
            f'<cpt id="{name}">{states}<parents>{parents}</parents><probabilities>{p}</probabilities></cpt>\n'
            for name, parents, p in ASIA
        ),
    )
    every = np.indices(g.card).reshape(g.num_vars, -1).T
    weights = np.exp(g.log_score(every))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[every[:, -1] == 1].sum() == pytest.approx(0.43597, abs=1e-5)  # as published; 0.397 in other orders
    write_xdsl(g, tmp_path / "b.xdsl")
    assert f"<parents>either bronc</parents>\n    <probabilities>{ASIA[-1][2]}<" in (tmp_path / "b.xdsl").read_text()


def noisy_max_by_definition(columns: list[np.ndarray], leak: np.ndarray) -> np.ndarray:
    """Return the distribution of the strongest of independent effects, one per cause and one for the leak."""
    table = np.zeros([*(len(c) for c in columns), len(leak)])
    for given in np.ndindex(table.shape[:-1]):
        parts = [c[s] for c, s in zip(columns, given, strict=True)] + [leak]
        for effects in np.ndindex(*(len(p) for p in parts)):
            table[(*given, min(effects))] += np.prod([p[e] for p, e in zip(parts, effects, strict=True)])
    return table


def test_a_noisy_max_is_the_strongest_of_its_effects(tmp_path):
    # The states of B in the order of their strength are much, some, none: 2 1 0.
    g = read(
        tmp_path,
        CAUSES
        + f'<noisymax id="N">{EFFECT}<parents>A B</parents><strengths>0 1 2 1 0</strengths>\n'
        + "<parameters>0.3 0.3 0.4  0 0 1  0.5 0.25 0.25  0.1 0.2 0.7  0 0 1  0.05 0.1 0.85</parameters></noisymax>\n",
    )
    of_a = np.array([[0.3, 0.3, 0.4], [0, 0, 1]])
    of_b = np.array([[0, 0, 1], [0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    wanted = noisy_max_by_definition([of_a, of_b], np.array([0.05, 0.1, 0.85]))
    assert isinstance(g.factor(2), NoisyMax)
    assert g.variables["N"] == ("absent", "low", "high")
    np.testing.assert_allclose(np.exp(g.log_table(2)), wanted[..., ::-1], atol=1e-15)
    write_xdsl(g, tmp_path / "b.xdsl")
    h = read_xdsl(tmp_path / "b.xdsl")
    assert (h.variables, type(h.factor(2))) == (g.variables, NoisyMax)
    np.testing.assert_allclose(np.exp(h.log_table(2)), np.exp(g.log_table(2)), atol=1e-15)


def test_a_noisy_max_of_many_parents_is_read_and_may_be_a_parent(tmp_path):
    parents = "".join(f'<cpt id="C{i}">{EFFECT}<probabilities>0.1 0.2 0.7</probabilities></cpt>\n' for i in range(40))
    parameters = "0.2 0.3 0.5  0 0.4 0.6  0 0 1  " * 40
    g = read(
        tmp_path,
        f'{parents}<noisymax id="N">{EFFECT}<parents>{" ".join(f"C{i}" for i in range(40))}</parents>'
        f'<parameters>{parameters} 0 0.1 0.9</parameters></noisymax>\n<cpt id="M">{EFFECT}<parents>N</parents>'
        "<probabilities>1 0 0 0 1 0 0 0 1</probabilities></cpt>",
    )
    result = solve(g, "MAR", "exact", evidence={f"C{i}": 2 if i > 1 else 1 for i in range(40)})
    np.testing.assert_allclose(result.marginals["N"], [0.9 * 0.36, 1 - 0.9 * 0.36, 0], atol=1e-12)
    np.testing.assert_allclose(result.marginals["M"], [0, 1 - 0.9 * 0.36, 0.9 * 0.36], atol=1e-12)


def test_a_binary_noisy_max_is_a_noisy_or(tmp_path):
    nodes = "".join(
        f'<cpt id="C{i}"><state id="on"/><state id="off"/><probabilities>0.1 0.9</probabilities></cpt>\n'
        for i in range(40)
    )
    strengths = " ".join(["0 1", "1 0"] * 20)
    parameters = " ".join(f"{1 - i / 50} {i / 50} 0 1" for i in range(40))
    g = read(
        tmp_path,
        f'{nodes}<noisymax id="N"><state id="yes"/><state id="no"/>'
        f"<parents>{' '.join(f'C{i}' for i in range(40))}</parents><strengths>{strengths}</strengths>"
        f"<parameters>{parameters} 0.25 0.75</parameters></noisymax>\n",
    )
    factor = g.factor(40)
    assert isinstance(factor, NoisyOr)
    assert (factor.signs, factor.place) == ((*[False, True] * 20, False), 40)
    np.testing.assert_allclose([factor.leak, *factor.inhibitors], [0.25, *(i / 50 for i in range(40))], atol=1e-15)
    x = np.array([*[1, 0] * 20, 1])  # no cause is active
    assert g.log_score(x) == pytest.approx(np.log(0.75) + 20 * np.log(0.9) + 20 * np.log(0.1))
    write_xdsl(g, tmp_path / "b.xdsl")
    np.testing.assert_allclose(read_xdsl(tmp_path / "b.xdsl").log_phi, g.log_phi, atol=1e-15)


def test_a_noisy_or_with_the_effect_in_state_one_keeps_the_order_of_its_states(tmp_path):
    variables = {"grass": ["dry", "wet"], "rain": ["no", "yes"], "pipe": ["broken", "whole"], "tap": ["off", "on"]}
    causes = [(["rain"], [0.8, 0.2]), (["pipe"], [0.1, 0.9]), (["tap"], [0.5, 0.5])]
    factor = NoisyOr(0.1, [0.5, 0.25, 0.125], [True, True, False, True])
    after = (["lawn"], [1.0])
    g = FactorGraph({**variables, "lawn": ["here"]}, [*causes, (["grass", "rain", "pipe", "tap"], factor), after])
    write_xdsl(g, tmp_path / "a.xdsl")
    h = read_xdsl(tmp_path / "a.xdsl")
    assert h.structure.state_names == g.structure.state_names
    assert isinstance(h.factor(0), NoisyOr)
    x = np.indices(g.card).reshape(5, -1).T
    np.testing.assert_allclose(h.log_score(x), g.log_score(x), rtol=1e-15)
    assert '<state id="wet" />\n    <state id="dry" />' in (tmp_path / "a.xdsl").read_text()


def test_parents_come_first(tmp_path):
    g = FactorGraph({"b": ["u", "v"], "a": ["x", "y"]}, [(["a", "b"], [[0.1, 0.9], [0.2, 0.8]]), (["a"], [0.5, 0.5])])
    write_xdsl(g, tmp_path / "a.xdsl")
    text = (tmp_path / "a.xdsl").read_text()
    assert text.index('<cpt id="a">') < text.index('<cpt id="b">')
    assert read_xdsl(tmp_path / "a.xdsl") == g.renamed("a")


N = f'<noisymax id="N">{EFFECT}<parents>A</parents>'
FAULTS = [
    (N + "<strengths>0.5 1</strengths><parameters>1 0 0 0 0 1 0 0 1</parameters></noisymax>", 6, "each of the 2"),
    (N + "<parameters>&#x661; 0 0 0 0 1 0 0 1</parameters></noisymax>", 6, "found '\u0661'"),
    ('<cpt id="C"><state id="s"/><probabilities>1 2</probabilities></cpt>', 6, "1 probabilities of 'C', found 2"),
    ('<cpt id="C"><state id="s"/>\n<probabilities>x</probabilities></cpt>', 7, "a probability of 'C', found 'x'"),
    ('<cpt id="C"><state id="s"/><probabilities>0.5</probabilities></cpt>', 6, "sum to 0.5. They must"),
    ('<cpt id="C"><state id="s"/></cpt>', 6, "node 'C' has no <probabilities>"),
    ('<cpt id="C"><probabilities>1</probabilities></cpt>', 6, "variable 'C' has no states"),
    ("<cpt><state id='s'/></cpt>", 6, "the element <cpt> has no attribute 'id'"),
    ("<cpt id='C'><state/></cpt>", 6, "the element <state> has no attribute 'id'"),
    ('<cpt id="A"><state id="s"/></cpt>', 6, "the file declares variable 'A' twice"),
    ('<cpt id="C"><state id="s"/>\n<parents>Q</parents></cpt>', 7, "'Q', which it uses as a parent of 'C'"),
    ('<cpt id="C"><state id="s"/><parents>C</parents></cpt>', 6, "of 'C' names the variable 'C' twice"),
    ('<decision id="C"><state id="s"/></decision>', 6, "found <decision>, which is not supported"),
    ('<utility id="U"><parents>A</parents></utility>', 6, "found <utility>, which is not supported"),
    ('<deterministic id="D"><state id="u"/><resultingstates>w</resultingstates></deterministic>', 6, "found 'w'"),
    ('<deterministic id="D"><state id="u"/><resultingstates/></deterministic>', 6, "expected 1 states of 'D', found 0"),
    (f"{N}<strengths>0 1</strengths><parameters>1 0 0</parameters></noisymax>", 6, "9 parameters of 'N', found 3"),
    (f"{N}<strengths>0 0</strengths><parameters>1</parameters></noisymax>", 6, "the 2 parent states of 'N' once"),
    (f"{N}<strengths>0</strengths><parameters>1</parameters></noisymax>", 6, "the 2 parent states of 'N' once"),
    (f"{N}<parameters>1 0 0 0 0 1 .5 .5 .5</parameters></noisymax>", 6, "distribution 3 in the parameters of 'N' sums"),
    (f"{N}<parameters>1 0 0 0 0 1 2 -1 0</parameters></noisymax>", 6, "distribution 3 in the parameters of 'N' has"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "line", "message"), FAULTS)
def test_a_fault_is_one_sentence_with_its_line(tmp_path, nodes, line, message):
    with pytest.raises(FormatError) as error:
        read(tmp_path, CAUSES + nodes)
    assert str(error.value).startswith(f"{tmp_path / 'model.xdsl'}:{line}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<BIF/>", "a.xdsl:1: expected <smile> as the outermost element, found <BIF>"),
        ("<smile/>", "a.xdsl:1: the element <smile> has no <nodes>"),
        ("<smile><nodes/>\n<dynamic/></smile>", "a.xdsl:2: the network has plates"),
        ("", "a.xdsl:1: the file is not well-formed XML (no element found)"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    (tmp_path / "a.xdsl").write_text(text)
    with pytest.raises(FormatError) as error:
        read_xdsl(tmp_path / "a.xdsl")
    assert message in str(error.value)
