from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equifactor.base.errors import FormatError
from equifactor.formats import read_evidence, write_evidence
from equifactor.graph import FactorGraph

GRAPH = FactorGraph([2, 2, 3, 4], [])


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("", {}),
        ("\n \n", {}),
        ("0", {}),
        ("0\n", {}),
        ("1\n0\n", {}),  # one sample without observations
        ("2 0 1 3 0", {0: 1, 3: 0}),
        ("2\n0 1\n3 0\n", {0: 1, 3: 0}),
        ("1\n2 0 1 3 0\n", {0: 1, 3: 0}),
        ("1 2 0 1 3 0", {0: 1, 3: 0}),  # the same on one line
        ("1\r\n2 0 1 3 0\r\n", {0: 1, 3: 0}),
        ("1 2 0", {2: 0}),
        ("1\n1 2 0", {2: 0}),
        ("2 2 1 2 1", {2: 1}),  # observed twice in the same state
        ("\t3 0 1 2 2 1 1", {0: 1, 2: 2, 1: 1}),
    ],
)
def test_layouts(tmp_path, text, evidence):
    path = tmp_path / "m.uai.evid"
    path.write_bytes(text.encode())
    assert read_evidence(path, GRAPH) == evidence


def test_samples(tmp_path):
    path = tmp_path / "m.uai.evid"
    path.write_text("3\n1 0 1\n0\n2 1 0 2 2\n")
    assert [read_evidence(path, GRAPH, sample=n) for n in range(3)] == [{0: 1}, {}, {1: 0, 2: 2}]
    with pytest.raises(FormatError, match=r"found 3 samples \(0-2\)\. Choose one by its number"):
        read_evidence(path, GRAPH)
    with pytest.raises(FormatError, match="there is no sample 3; the file has 3 samples"):
        read_evidence(path, GRAPH, sample=3)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.dictionaries(st.integers(0, 3), st.integers(0, 1)))
def test_round_trip(tmp_path_factory, evidence):
    path = tmp_path_factory.mktemp("evidence") / "m.uai.evid.gz"
    write_evidence(evidence, path)
    assert read_evidence(path, GRAPH) == evidence


def test_a_row_of_a_table_is_evidence_by_names(tmp_path: Path) -> None:
    graph = FactorGraph({"rain": ["no", "yes"], "day": ["NA", "sun"], "die": 3})
    path = tmp_path / "rows.csv"
    path.write_text("day,die,rain\nNA,2,\nsun,,yes\n")
    assert read_evidence(path, graph, sample=0) == {1: 0, 2: 2}
    assert read_evidence(path, graph, sample=1) == {0: 1, 1: 1}
    with pytest.raises(FormatError, match=r"found 2 samples \(0-1\). Choose one"):
        read_evidence(path, graph)
    with pytest.raises(FormatError, match="there is no sample 2"):
        read_evidence(path, graph, sample=2)
    path.write_text("day,rain\nsun,yse\n")
    with pytest.raises(FormatError, match=r"rows\.csv:2: column rain: .*did you mean yes"):
        read_evidence(path, graph)
