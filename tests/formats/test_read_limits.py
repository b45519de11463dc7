"""Small files that ask for much memory or time are refused in one sentence, before memory is allocated."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest

from equifactor.base.errors import FormatError
from equifactor.formats import read_graph

VARIABLE = "EQUIFACTOR_READ_LIMIT"
FG = "1\n\n2\n0 1\n5000 8000\n1\n0 1.0\n"  # 40 million entries, of which one is listed
STATES = ", ".join(f"s{k}" for k in range(5000))
PARENTS = [f"p{k}" for k in range(30)]
BINARY = [*PARENTS, "c"]
BIF = "".join(f"variable {v} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for v in BINARY) + (
    f"probability ( c | {', '.join(PARENTS)} ) {{ default 0.5, 0.5; }}\n"
)
NET = "".join(f'node {v} {{ states = ("a" "b"); }}\n' for v in BINARY) + (
    f"potential ( c | {' '.join(PARENTS)} ) {{ data = (0.5 0.5); }}\n"
)
XMLBIF = "<BIF><NETWORK>{}<DEFINITION><FOR>c</FOR>{}<TABLE>0.5 0.5</TABLE></DEFINITION></NETWORK></BIF>".format(
    "".join(f"<VARIABLE><NAME>{v}</NAME><OUTCOME>a</OUTCOME><OUTCOME>b</OUTCOME></VARIABLE>" for v in BINARY),
    "".join(f"<GIVEN>{p}</GIVEN>" for p in PARENTS),
)
HALF = "<probabilities>0.5 0.5</probabilities>"
XDSL = "<smile><nodes>{}<cpt id='c'><state id='a'/><state id='b'/><parents>{}</parents>{}</cpt></nodes></smile>".format(
    "".join(f"<cpt id='{p}'><state id='a'/><state id='b'/>{HALF}</cpt>" for p in PARENTS),
    " ".join(PARENTS),
    HALF,
)
CFN = '{{ "problem": {{ "name": "n" }}, "variables": {{ "a": {} }}, "functions": {{ {} }} }}'
FILES = {
    "table.fg": FG,
    "variables.cnf": "p cnf 100000000 1\n1 0\n",
    "literal.wcnf": "h 100000000 0\n",
    "domain.wcsp": "x 1 100000000 0 9\n100000000\n",
    "table.wcsp": "x 2 8000 1 9\n5000 8000\n2 0 1 0 0\n",
    "domain.cfn": CFN.format(100000000, ""),
    "states.uai": "MARKOV\n1\n100000000\n0\n",
    "states.lg": "MARKOV\n2\n60000000 60000000\n0\n",
    "default.bif": BIF,
    "table.net": NET,
    "table.xmlbif": XMLBIF,
    "table.xdsl": XDSL,
}
SPARSE = ("table.wcsp",)  # Its default cost needs no dense table.


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_small_file_does_not_fill_the_memory(name: str, suffix: str, tmp_path: Path) -> None:
    content = FILES[name].encode()
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](content))
    tracemalloc.start()
    try:
        if name in SPARSE:
            assert read_graph(path).num_vars == 2
        else:
            with pytest.raises(
                FormatError, match=f"at most 0.125 GiB beyond what it lists. Set .* {VARIABLE}"
            ) as caught:
                read_graph(path)
            assert len(str(caught.value)) < 600
        assert tracemalloc.get_traced_memory()[1] < 2**26  # a file is read in pieces of 16 MiB
    finally:
        tracemalloc.stop()


def test_the_limit_can_be_raised_and_what_a_file_lists_is_not_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.fg").write_text("1\n\n2\n0 1\n100 100\n1\n0 1.0\n")
    (tmp_path / "b.fg").write_text("1\n\n1\n0\n100\n100\n" + "".join(f"{k} 1\n" for k in range(100)))
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(FormatError, match="at most 0 GiB"):
        read_graph(tmp_path / "a.fg")
    assert read_graph(tmp_path / "b.fg").structure.num_entries == 100
    monkeypatch.setenv(VARIABLE, "0.001")
    assert read_graph(tmp_path / "a.fg").structure.num_entries == 10000


@pytest.mark.parametrize("shape", ["200", "4 50"])
def test_functions_that_share_their_costs_count_each(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = shape.split()
    scope = " ".join(str(i) for i in range(len(card)))
    tuples = "".join(f"{k if len(card) == 1 else f'{k // 50} {k % 50}'} {k}\n" for k in range(150))
    head = f"x {len(card)} 200 {{}} 999\n{shape}\n-{len(card)} {scope} 1 150\n{tuples}"
    monkeypatch.setenv(VARIABLE, "0.0001")  # 13,421 numbers
    (tmp_path / "a.wcsp").write_text(head.format(41) + f"{len(card)} {scope} 1 -1\n" * 40)
    assert read_graph(tmp_path / "a.wcsp").num_factors == 41
    (tmp_path / "a.wcsp").write_text(head.format(201) + f"{len(card)} {scope} 1 -1\n" * 200)
    with pytest.raises(FormatError, match="entries in total"):
        read_graph(tmp_path / "a.wcsp")


@pytest.mark.parametrize("suffix", [".xmlbif", ".xdsl"])
def test_default_attributes_of_a_dtd_are_not_copied_to_every_element(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text(f"<!DOCTYPE a [<!ATTLIST b c CDATA '{'x' * 10_000}'>]><a>{'<b/>' * 5000}</a>")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="as the outermost element, found <a>"):
            read_graph(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    path.write_text(f"<!DOCTYPE a [{''.join(f'<!ATTLIST b c{k} CDATA #IMPLIED>' for k in range(101))}]><a/>")
    with pytest.raises(FormatError, match=r":1: the DTD declares more than 100 attributes"):
        read_graph(path)


def test_the_dtd_of_the_specification_of_xmlbif_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        """<?xml version="1.0"?>
        <!DOCTYPE BIF [
          <!ELEMENT BIF ( NETWORK )*><!ATTLIST BIF VERSION CDATA #REQUIRED>
          <!ELEMENT VARIABLE ( NAME, ( OUTCOME | PROPERTY )* ) ><!ATTLIST VARIABLE TYPE (nature|decision) "nature">
        ]>
        <BIF VERSION="0.3"><NETWORK><NAME>n</NAME>
        <VARIABLE><NAME>a</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE>
        <DEFINITION><FOR>a</FOR><TABLE>0.25 0.75</TABLE></DEFINITION></NETWORK></BIF>"""
    )
    assert read_graph(tmp_path / "a.xml").structure.state_names == (("u", "v"),)
