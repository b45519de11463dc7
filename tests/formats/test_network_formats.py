"""Tests of every format of Bayesian networks: round trips, names, and errors with file and line."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest

from equifactor import FactorGraph, read_graph, write_graph
from equifactor.base.errors import FormatError

FORMATS = ["bif", "xmlbif", "net", "xdsl", "cfn"]
BEFORE = {  # a network of `a`, and of `b` given `a`, in pieces that tests replace
    "bif": (
        "network n { }\n",
        "variable a { type discrete [ 2 ] { x, y }; }\n",
        "variable b { type discrete [ 2 ] { u, v }; }\n",
        "probability ( a ) { table 0.5, 0.5; }\n",
        "probability ( b | a ) { (x) 0.1, 0.9; (y) 0.2, 0.8; }\n",
        "",
    ),
    "xmlbif": (
        "<BIF VERSION='0.3'><NETWORK><NAME>n</NAME>\n",
        "<VARIABLE TYPE='nature'><NAME>a</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME></VARIABLE>\n",
        "<VARIABLE TYPE='nature'><NAME>b</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE>\n",
        "<DEFINITION><FOR>a</FOR><TABLE>0.5 0.5</TABLE></DEFINITION>\n",
        "<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN><TABLE>0.1 0.9 0.2 0.8</TABLE></DEFINITION>\n",
        "</NETWORK></BIF>\n",
    ),
    "net": (
        "net { }\n",
        'node a { states = ("x" "y"); }\n',
        'node b { states = ("u" "v"); }\n',
        "potential (a) { data = (0.5 0.5); }\n",
        "potential (b | a) { data = ((0.1 0.9)(0.2 0.8)); }\n",
        "",
    ),
}


def awkward(names: bool = True) -> FactorGraph:
    """Draw six variables with children before parents, true zeros, and names that are hard to write."""
    rng = np.random.default_rng(4)
    variables = {
        'a "quoted" \\ name': ["<5", "5-10", ">=10 %"],
        "b": ["1", "2"],
        "c&d<e>": ["true", "false", "x", "y"],
        "naïve ü": ["a b", "a_b", "a-b"],
        "class": ["only"],
        "5": ["yes", "no"],
    }
    card = [len(states) for states in variables.values()]
    scopes = [[3, 1, 0], [1], [0, 1, 2], [5, 3], [2, 4], [5]]
    factors = []
    for scope in scopes:
        table = rng.gamma(0.5, 1.0, [card[i] for i in scope]) * (rng.random([card[i] for i in scope]) > 0.2)
        table[..., 0] += 1e-3
        factors.append((scope, table / table.sum(axis=-1, keepdims=True)))
    return FactorGraph(variables if names else card, factors, name="test network")


def same(g: FactorGraph, h: FactorGraph) -> bool:
    names = h.structure.variable_names, h.structure.state_names
    return names == (g.structure.variable_names, g.structure.state_names) and h == g.renamed(h.name)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_round_trip_of_names_and_probabilities(tmp_path, format, packed):
    g = awkward()
    path = tmp_path / f"a.{format}{packed}"
    write_graph(g, path)
    h = read_graph(path)
    assert same(g, h)
    np.testing.assert_allclose(np.exp(h.log_phi), np.exp(g.log_phi), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(FORMATS, 2)))
def test_every_format_becomes_every_other(tmp_path, first, second):
    g = awkward()
    write_graph(g, tmp_path / f"a.{first}")
    write_graph(read_graph(tmp_path / f"a.{first}"), tmp_path / f"b.{second}")
    assert same(g, read_graph(tmp_path / f"b.{second}"))


@pytest.mark.parametrize("format", FORMATS)
def test_variables_without_names_get_some(tmp_path, format):
    g = awkward(names=False)
    write_graph(g, tmp_path / f"a.{format}")
    h = read_graph(tmp_path / f"a.{format}")
    assert h.structure.variable_names == (None if format == "cfn" else tuple(f"x{i}" for i in range(6)))
    np.testing.assert_array_equal(h.log_phi, g.log_phi)


@pytest.mark.parametrize("format", BEFORE)
def test_the_pieces_are_a_network(tmp_path, format):
    (tmp_path / f"a.{format}").write_text("".join(BEFORE[format]))
    g = read_graph(tmp_path / f"a.{format}")
    np.testing.assert_allclose(np.exp(g.log_table(1)), [[0.1, 0.9], [0.2, 0.8]])


P, N = "probability ( b | a ) { ", "potential (b | a) { "


def definition(child: str, parent: str, table: str, before: str = "") -> str:
    return f"<DEFINITION><FOR>{child}</FOR><GIVEN>{parent}</GIVEN>{before}<TABLE>{table}</TABLE></DEFINITION>"


FAULTS = [  # the piece to replace, its replacement, the line of the error, and its text
    ("bif", 4, P + "(x) 0.1, 0.8; (y) 0.2, 0.8; }", 5, "of 'b' given a=x sum to 0.9. They must"),
    ("bif", 4, P + "(x) -0.1, 1.1; (y) 0.2, 0.8; }", 5, "given a=x include a negative number"),
    ("bif", 4, P + "(x) 0.1, 0.9; }", 5, "the table of 'b' has no row for a=y"),
    ("bif", 4, P + "(x) 0.1, 0.9;\n(x) 0.2, 0.8; }", 6, "the row for (x) is given twice"),
    ("bif", 4, P + "(x) 0.1, 0.9;\ntable 1 0 1 0; }", 6, "the distribution of 'b' has both rows and a table"),
    ("bif", 4, P + "default 0.1, 0.9;\ndefault 1 0; }", 6, "the distribution of 'b' has a second default row"),
    ("bif", 4, P + "\n (x) 0.1, 0.9, 0; (y) 0.2, 0.8; }", 6, "expected 2 probabilities of 'b', found 3"),
    ("bif", 4, P + "\n (z) 0.1, 0.9; }", 6, "expected a state of 'a' (one of x, y), found 'z'"),
    ("bif", 4, P + "\n (x, y) 0.1, 0.9; }", 6, "a state for each of 1 parents, found 2 states"),
    ("bif", 4, P + "\n (x) 0.1, many; }", 6, "expected a probability, found 'many'"),
    ("bif", 4, P + "\n (x) 0.1, nan; }", 6, "expected a probability, found 'nan'"),
    ("bif", 4, P + "\n (x) 0.1, 0_9; }", 6, "expected a probability, found '0_9'"),
    ("bif", 4, "probability ( b | c ) { (x) 0.1, 0.9; }", 5, "does not declare 'c', which it uses as a parent of 'b'"),
    ("bif", 4, "probability ( c ) { table 1; }", 5, "the file does not declare 'c'"),
    ("bif", 4, "probability ( b | b ) { default 1, 0; }", 5, "the distribution of 'b' names the variable 'b' twice"),
    ("bif", 4, "probability ( a ) { table 1 0; }", 5, "the file has a second distribution of 'a'"),
    ("bif", 4, "", 3, "variable 'b' has no distribution"),
    ("bif", 3, "probability ( a | b ) { default 1, 0; }", 4, "the network has a directed cycle: 'a' -> 'b' -> 'a'"),
    ("bif", 4, P + "(x) 0.1,", 5, "expected '}', found the end of the file"),
    ("bif", 4, P + "(x) 0.1 }", 5, "expected ';', found the end of the file"),
    ("bif", 4, "probability ( b | a { (x) 0.1; }", 5, "expected a parent or ')', found '{'"),
    ("bif", 4, "probability b | a { (x) 0.1; }", 5, "expected '(', found 'b'"),
    ("bif", 4, "likelihood ( b ) { }", 5, "expected 'network', 'variable' or 'probability', found 'likelihood'"),
    ("bif", 1, "variable a { type discrete [ 3 ] { x, y }; }", 2, "expected 3 states of 'a', found 2"),
    ("bif", 1, "variable a { type discrete [ -1 ] { x, y }; }", 2, "expected the number of states, found '-1'"),
    ("bif", 1, "variable a { type discrete { x, x }; }", 2, "variable 'a' has the state 'x' more than once"),
    ("bif", 1, "variable a { type discrete { }; }", 2, "variable 'a' has no states"),
    ("bif", 1, "variable a { type continuous; }", 2, "variable 'a' is not discrete"),
    ("bif", 1, "variable a { }", 2, "variable 'a' has no line 'type discrete' with its states"),
    ("bif", 1, "variable b { type discrete { x }; }", 3, "the file declares variable 'b' twice"),
    ("bif", 0, "\x7fELF\x02", 1, "expected 'network', 'variable' or 'probability'"),
    ("bif", 0, '{"problem": 1}', 1, "expected 'network', 'variable' or 'probability', found '{'"),
    ("xmlbif", 4, definition("b", "a", "0.1 0.8 0.2 0.8"), 5, "a=x sum to 0.9"),
    ("xmlbif", 4, definition("b", "a", "1 0 1", "\n"), 6, "expected 4 probabilities of 'b', found 3"),
    ("xmlbif", 4, definition("b", "a", "1 0\nx 1", "\n"), 7, "a probability of 'b', found 'x'"),
    ("xmlbif", 4, definition("b", "c", "1"), 5, "does not declare 'c', which it uses as a parent of 'b'"),
    ("xmlbif", 4, "<DEFINITION><FOR>b</FOR></DEFINITION>", 5, "expected one <TABLE> in <DEFINITION>, found 0"),
    ("xmlbif", 4, "<DEFINITION><FOR>b</FOR><FOR>a</FOR></DEFINITION>", 5, "one <FOR> in <DEFINITION>, found 2"),
    ("xmlbif", 3, definition("a", "b", "1 0 1 0"), 4, "the network has a directed cycle: 'a' -> 'b' -> 'a'"),
    ("xmlbif", 2, "<VARIABLE TYPE='decision'><NAME>b</NAME></VARIABLE>", 3, "found 'decision', which is not supported"),
    ("xmlbif", 4, "", 3, "variable 'b' has no distribution"),
    ("xmlbif", 5, "</NETWORK>", 7, "the file is not well-formed XML (no element found)"),
    ("xmlbif", 5, "</BIF>", 6, "the file is not well-formed XML (mismatched tag)"),
    ("xmlbif", 0, "network n { }", 1, "the file is not well-formed XML"),
    ("xmlbif", 0, "<?xml version='1.0' encoding='no-such'?>", 1, "the encoding that the file declares cannot be read"),
    ("net", 4, N + "data = ((0.1 0.8)(0.2 0.8)); }", 5, "given a=x sum to 0.9. They must"),
    ("net", 4, N + "\ndata = ((0.1 0.9)(0.2)); }", 6, "expected 4 probabilities of 'b', found 3"),
    ("net", 4, N + "\ndata = ((0.1 0.9)(x 1)); }", 6, "expected a probability of 'b', found 'x'"),
    ("net", 4, N + "\ndata = (1 0 1 0); data = (1 0 1 0); }", 6, "the potential of 'b' has the attribute 'data' twice"),
    ("net", 4, "potential (b | c) { data = (1); }", 5, "does not declare 'c', which it uses as a parent of 'b'"),
    ("net", 4, N + "}", 5, "the potential of 'b' has no attribute 'data'"),
    ("net", 4, "potential (b a) { data = (1); }", 5, "expected ')', found 'a'"),
    ("net", 4, N + "model_data = (If (x, 1)); }", 5, "found model_data. Expressions are unsupported"),
    ("net", 4, "", 3, "variable 'b' has no distribution"),
    ("net", 3, "potential (a | b) { data = (1 0 1 0); }", 4, "the network has a directed cycle: 'a' -> 'b' -> 'a'"),
    ("net", 2, "utility u { }", 3, "expected a discrete chance node, found a utility node, which is not supported"),
    ("net", 2, "continuous node b { }", 3, "found a continuous node, which is not supported"),
    ("net", 2, "node b { label = \"x\"; }", 3, "node 'b' has no attribute 'states'"),
    ("net", 0, "class C {", 1, "Object-oriented networks are not supported"),
    ("net", 0, "<BIF>", 1, "expected 'net', 'node' or 'potential', found '<bif>'"),
]  # fmt: skip


@pytest.mark.parametrize(("format", "piece", "text", "line", "message"), FAULTS)
def test_a_fault_is_one_sentence_with_its_line(tmp_path, format, piece, text, line, message):
    pieces = list(BEFORE[format])
    pieces[piece] = f"{text}\n"
    path = tmp_path / f"a.{format}"
    path.write_text("".join(pieces))
    with pytest.raises(FormatError) as error:
        read_graph(path)
    sentence = str(error.value)
    assert sentence.startswith(f"{path}:{line}: ")
    assert message in sentence
    assert "\n" not in sentence


def test_entities_are_not_expanded(tmp_path):
    laughs = "<!ENTITY a 'ha'><!ENTITY b '" + "&a;" * 10 + "'>"
    (tmp_path / "a.xml").write_text(f"<?xml version='1.0'?>\n<!DOCTYPE BIF [\n{laughs}]>\n<BIF>&b;</BIF>")
    with pytest.raises(FormatError, match=r"a\.xml:3: the file declares or uses its own entity"):
        read_graph(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text("<!DOCTYPE BIF SYSTEM 'x.dtd'>\n<BIF>&b;</BIF>")
    with pytest.raises(FormatError, match=r"a\.xml:2: the file declares or uses its own entity"):
        read_graph(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text("<a>" * 5000)
    with pytest.raises(FormatError, match="more than 100 deep"):
        read_graph(tmp_path / "a.xml")


def test_a_declared_document_type_is_fine(tmp_path):
    text = "<?xml version='1.0' encoding='US-ASCII'?>\n<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>\n"
    (tmp_path / "a.xml").write_text(text + "".join(BEFORE["xmlbif"]))
    assert read_graph(tmp_path / "a.xml").num_vars == 2


def test_another_xml_file_is_named(tmp_path):
    (tmp_path / "a.xml").write_text("<smile><nodes/></smile>")
    with pytest.raises(
        FormatError, match=r"a\.xml:1: expected <BIF> .* found <smile>\. Pass format='xdsl' \(--format xdsl\)"
    ):
        read_graph(tmp_path / "a.xml")


@pytest.mark.parametrize(
    ("count", "states", "message"),
    [(30, 2, r"a\.bif:31: the tables .* have more than .* EQUIFACTOR_READ_LIMIT"), (70, 1, "'v0' has 69 parents")],
)
def test_a_table_too_large_for_memory_is_refused(tmp_path, count, states, message):
    names = [f"v{i}" for i in range(count)]
    listed = ", ".join(["a", "b"][:states])
    text = "".join(f"variable {v} {{ type discrete {{ {listed} }}; }}\n" for v in names)
    (tmp_path / "a.bif").write_text(text + f"probability ( v0 | {', '.join(names[1:])} ) {{ default 1, 0; }}\n")
    with pytest.raises(FormatError, match=message):
        read_graph(tmp_path / "a.bif")


@pytest.mark.parametrize("format", FORMATS)
def test_random_damage_is_never_more_than_a_sentence(tmp_path, format):
    rng = random.Random(format)
    write_graph(awkward(), tmp_path / f"a.{format}")
    whole = (tmp_path / f"a.{format}").read_text()
    pieces = re.findall(r"\w+|\s+|.", whole)
    path = tmp_path / f"b.{format}"
    sentences = []
    for _ in range(120):
        broken = list(pieces)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(broken))
            how = rng.randrange(4)
            if how == 0:
                del broken[at:]
            elif how == 1:
                del broken[at : at + rng.randint(1, 5)]
            elif how == 2:
                broken[at] = rng.choice(pieces)
            else:
                broken.insert(
                    at, rng.choice(['"', "{", "}", "\\", "-1", "1e999", "(", ")", "<", "\0", "é", "[", "&", "#"])
                )
            broken = broken or [""]
        path.write_text("".join(broken))
        try:
            g = read_graph(path)
        except FormatError as error:  # nothing else
            sentences.append(str(error))
        else:
            assert not np.isnan(g.log_phi).any()
    assert len(sentences) > 60
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize("format", ["bif", "net", "cfn"])
def test_open_quotes_and_comments_take_no_longer_than_the_file(tmp_path, format):
    for text in ('"\\' * 200_000, "/*" * 200_000, '"' * 400_001, "{" * 400_000):
        (tmp_path / f"a.{format}").write_text(text)
        with pytest.raises(FormatError):
            read_graph(tmp_path / f"a.{format}")
