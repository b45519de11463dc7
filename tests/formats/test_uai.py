import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equifactor.base.errors import EquifactorError, FormatError, ModelError, OptionError
from equifactor.formats import read_evidence, read_graph, write_graph
from equifactor.formats.numbers import TokenList, TokenScanner
from equifactor.formats.results import read_mar
from equifactor.formats.uai import parse_uai, read_uai, write_uai
from equifactor.graph import FactorGraph

DATA = os.environ.get("EQUIFACTOR_DATA")
TEXT = b"MARKOV\n3\n2 2 3\n2\n2 0 1\n2 2 1\n\n4\n 1.0 0.5\n 0.5 0\n\n6\n 1 2\n 3 4\n 5 6\n"
GRAPH = FactorGraph([2, 2, 3], [([0, 1], [[1.0, 0.5], [0.5, 0.0]]), ([2, 1], [[1, 2], [3, 4], [5, 6]])])
READERS = {"list": 2**20, "scanner": 0}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace(b"MARKOV", b"BAYES"),
        TEXT.replace(b"MARKOV", b"markov"),
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.replace(b"\n", b" "),
        TEXT.replace(b" ", b"\n\t\n "),
        TEXT.replace(b"\n", b"\f\v\n"),
        TEXT.rstrip(),
        b"\n\n  " + TEXT + b"\n\n\n",
        TEXT.replace(b"0.5", b"+5.e-1").replace(b"1.0", b"10000000000000000000000E-22"),
        TEXT.replace(b"2 2 3", b"+2 02 3"),
    ],
)
def test_layouts(text, reader):
    assert parse_uai(text, "m.uai", small=READERS[reader]) == GRAPH


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("text", "graph"),
    [
        (b"MARKOV 0 0", FactorGraph([], [])),
        (b"MARKOV\n0\n\n1\n0\n1 7\n", FactorGraph([], [([], 7.0)])),
        (b"MARKOV\n2\n1 2\n0\n", FactorGraph([1, 2], [])),
        (b"MARKOV\n2\n1 2\n2\n1 0\n0\n1 3\n1 0\n", FactorGraph([1, 2], [([0], [3.0]), ([], 0.0)])),
    ],
    ids=["nothing", "constant", "no factors", "arity 0"],
)
def test_smallest(text, graph, reader):
    assert parse_uai(text, "m.uai", small=READERS[reader]) == graph


def test_name_and_log_form_come_from_the_file_name(tmp_path):
    text = b"MARKOV\n1\n2\n1\n1 0\n2 -1.5 -1e20\n"
    for name in ("a.b.LG", "a.b.lg"):
        (tmp_path / name).write_bytes(text)
        graph = read_uai(tmp_path / name)
        assert graph.log_phi.tolist() == [-1.5, -np.inf]
        assert graph.name == "a.b"
    with pytest.raises(FormatError, match=r"'-1\.5'"):
        read_uai(tmp_path / "a.b.lg", log=False)
    assert parse_uai(text.replace(b"-1e20", b"-inf"), "m", log=True) == graph


# ---- numbers --------------------------------------------------------------------------------------------


def _read_both(words: list[str]) -> None:
    data = f"{len(words)}\n{' '.join(words)}".encode()
    ptr = np.array([0, len(words)])
    wanted = np.array([float(w) for w in words]).view(np.int64)
    assert np.array_equal(TokenScanner(data).tables(ptr).view(np.int64), wanted)
    assert np.array_equal(TokenList(data).tables(ptr).view(np.int64), wanted)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=False), max_size=20), st.sampled_from([".17g", ".6g", ".16e", ".20g", ".3f"]))
def test_floats_are_those_of_python(values, form):
    _read_both([format(x, form) for x in values])


def test_floats_between_two_neighbours():
    """Draw decimals at or near the middle of two floats, where rounding is hardest, with many digits and odd forms."""
    rng = np.random.default_rng(0)
    words = [
        "0",
        "-0",
        "-0.0",
        ".5",
        "5.",
        "+3",
        "000.10",
        "1e-320",
        "5e-324",
        "1e308",
        "inf",
        "-inf",
        "0e99999",
    ]
    words += [str((2 * int(m) + 1) << e) for m in rng.integers(2**52, 2**53, 300) for e in (0, 1, 3)]
    for m in rng.integers(2**53, 2**59, 1000).tolist():
        words += [f"{m}e{rng.integers(-30, 30)}", f"{m}{rng.integers(10**9)}e-40", f"0.{m:030}{m}"]
    for x in rng.random(500).tolist():
        middle = f"{x:.60g}", f"{np.nextafter(x, 1):.60g}"
        words += [f"{x:.18e}", f"{x:.25f}", *middle]
    _read_both(words)


# ---- writing --------------------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    card = draw(st.lists(st.integers(1, 4), max_size=5))
    value = st.floats(0, 1e300) | st.sampled_from([0.0, 0.3, 1.0, 1 / 3, 1e-300, 0.1 + 0.2])
    factors = []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.permutations(range(len(card))))[: draw(st.integers(0, min(3, len(card))))]
        size = int(np.prod([card[i] for i in scope], dtype=int))
        table = np.array(draw(st.lists(value, min_size=size, max_size=size)))
        factors.append((scope, np.where(table < 1e-300, 0.0, table)))
    return FactorGraph(card, factors)


@pytest.mark.parametrize("suffix", [".uai", ".LG", ".uai.gz", ".LG.xz"])
@settings(derandomize=True, max_examples=60, deadline=None)
@given(graph=graphs())
def test_round_trip(tmp_path_factory, suffix, graph):
    path = tmp_path_factory.mktemp("uai") / f"m{suffix}"
    write_uai(graph, path)
    back = read_uai(path)
    assert back == graph  # the logarithms are also equal, to the last bit
    assert back.name == "m"


def test_text(tmp_path):
    path = tmp_path / "m.uai"
    write_uai(GRAPH, path)
    assert path.read_bytes() == b"MARKOV\n3\n2 2 3\n2\n2 0 1\n2 2 1\n\n4\n1 0.5\n0.5 0\n\n6\n1 2\n3 4\n5 6\n"
    write_uai(FactorGraph([2], [([], 0.5), ([0], [-np.inf, -0.25])], log=True), tmp_path / "m.LG")
    text = (tmp_path / "m.LG").read_text()
    assert text == "MARKOV\n1\n2\n2\n0\n1 0\n\n1\n0.5\n\n2\n-1e+20 -0.25\n"
    with pytest.raises(ModelError, match=r"-2e\+20 would be read as zero"):
        write_uai(FactorGraph([2], [([0], [0.0, -2e20])], log=True), tmp_path / "m.LG")


def test_numbers_stay_as_they_were_typed(tmp_path):
    words = ["0.3", "0.1", "2.5", "1e-05", "0.123456", "7", "0.333333333333333", "0.3333333333333333"]
    data = f"MARKOV 1 8 1 1 0 8 {' '.join(words)}".encode()
    write_uai(parse_uai(data, "m"), tmp_path / "m.uai")
    assert (tmp_path / "m.uai").read_text().split()[-8:] == words


def test_evidence_is_written_as_factors(tmp_path):
    graph = GRAPH.condition({1: 0})
    write_uai(graph, tmp_path / "m.uai")
    back = read_uai(tmp_path / "m.uai")
    assert back.evidence == {}
    for x in np.ndindex(2, 2, 3):
        assert back.log_score(x) == pytest.approx(graph.log_score(x))


@pytest.mark.parametrize("value", [1000.0, -1000.0])
def test_what_floats_cannot_hold_is_refused(tmp_path, value):
    graph = FactorGraph([2], [([0], [0.0, value])], log=True)
    path = tmp_path / "m.uai"
    path.write_text("old")
    with pytest.raises(EquifactorError, match=r"\.LG"):
        write_uai(graph, path)
    assert path.read_text() == "old"
    write_uai(graph, tmp_path / "m.LG")
    assert read_uai(tmp_path / "m.LG") == graph


# ---- choosing the format --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.uai", "m.UAI.gz", "m.LG", "m.fg", "m.fg.xz"])
def test_dispatch_by_suffix(tmp_path, name):
    write_graph(GRAPH, tmp_path / name)
    assert read_graph(tmp_path / name) == GRAPH


def test_dispatch_by_content_and_by_name(tmp_path):
    path = tmp_path / "model"
    write_graph(GRAPH, path, format="uai")
    assert read_graph(path) == GRAPH
    write_graph(GRAPH, path, format="LG")
    assert read_graph(path, format=".lg") == GRAPH
    path.write_text("hello")
    with pytest.raises(FormatError, match=r"neither the suffix .* with one of: uai \(.uai\), lg"):
        read_graph(path)
    for name, advice in (
        ("a.dem", "use `equifactor decode`"),
        ("a.safetensors.gz", "use `equifactor model`"),
        ("a.csv", "fit"),
        ("a.b8", "shots"),
    ):
        path.rename(path := tmp_path / name)
        with pytest.raises(FormatError, match=f": this is .* {advice}"):
            read_graph(path)
    path = path.with_name("model")
    with pytest.raises(FormatError, match="does not belong to a known format"):
        write_graph(GRAPH, path)
    with pytest.raises(OptionError, match="no format 'xml'; did you mean xmlbif\\? choose from: uai, lg, fg"):
        read_graph(path, format="xml")


def test_stdin_and_stdout(capsys):
    write_graph(GRAPH, "-")
    text = capsys.readouterr().out
    code = "import equifactor.formats as io; print(io.read_graph('-'))"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "FactorGraph(3 variables, 2 factors, 2-3 states, arity 2, 1 zero)\n"


def test_small_files_are_read_without_numba(tmp_path):
    write_uai(GRAPH, tmp_path / "m.uai")
    code = (
        "import sys; from equifactor.formats.uai import read_uai; read_uai(sys.argv[1]);"
        "assert not {'numba', 'torch', 'matplotlib', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.uai")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- public models --------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="EQUIFACTOR_DATA is not set")
def test_public_models():
    folder = Path(DATA or "")
    records = json.loads((folder / "index.json").read_text())
    assert records
    for record in records:
        path = folder / record["collection"] / f"{record['name']}.uai.gz"
        graph = read_uai(path)
        found = {
            "name": graph.name,
            "variables": graph.num_vars,
            "factors": graph.num_factors,
            "max_cardinality": int(graph.card.max()),
            "max_arity": int(graph.structure.arity.max()),
            "has_zero_potentials": bool(np.isneginf(graph.log_phi).any()),
        }
        assert found == {key: record[key] for key in found}, path
        observed = path.with_suffix(".evid")
        evidence = read_evidence(observed, graph) if observed.exists() else {}
        assert len(evidence) == record["evidence_count"], path
        marginals = path.with_name(f"{record['name']}.MAR.gz")
        if marginals.exists():
            assert np.array_equal(np.diff(read_mar(marginals).ptr), graph.card), path
