"""Evidence is never guessed: the same table of cases in Python, for one graph and for several, and in the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef

WEIGHTS = [0.25, 0.75]  # of the two states of every variable
# The names of the states, the state that the user gives, and the number that it means, or the text of the error.
CASES: list[tuple[list[str] | int, Any, int | str]] = [
    (["TRUE", "FALSE"], "TRUE", 0),
    (["TRUE", "FALSE"], "FALSE", 1),
    (["TRUE", "FALSE"], True, 0),
    (["TRUE", "FALSE"], np.False_, 1),
    (["TRUE", "true"], True, "has no state True; its states are TRUE, true"),
    (["TRUE", "FALSE"], 1, "can be read as a name or as a place counted from 0; its states are TRUE, FALSE"),
    (["TRUE", "FALSE"], np.int64(0), "can be read as a name or as a place"),
    (["TRUE", "FALSE"], "true", "has no state 'true'; did you mean TRUE. its states are TRUE, FALSE"),
    (["True", "False"], True, 0),
    (["True", "False"], np.False_, 1),
    (["True", "False"], 1, "can be read as a name or as a place"),
    (["FALSE", "TRUE"], 1, 1),
    (["no", "yes"], 0, 0),
    (["yes", "no"], 0, "can be read as a name or as a place"),
    (["M", "F"], 1, 1),  # F is a word for false only beside a word for true.
    (["N", "Y"], 1, 1),
    (["T", "F"], 1, "can be read as a name or as a place"),
    (["1", "2"], "1", 0),
    (["1", "2"], 1, "can be read as a name or as a place counted from 0; its states are 1, 2"),
    (["1", "2"], np.uint8(2), 1),  # There is no place 2.
    (["1", "2"], 1.0, "can be read as a name or as a place"),
    (["0", "1"], 0, 0),
    (["0", "1"], 1, 1),
    (["0", "1"], "1", 1),
    (["0", "1"], False, "has no state False; its states are 0, 1"),
    (["low", "high"], np.int32(1), 1),
    (["low", "high"], 2, "state 2 of variable x is out of range. The variable has 2 states"),
    (["low", "high"], 1.0, 1),
    (["low", "high"], 0.5, "must be a whole number or a name, found 0.5"),
    (2, 1, 1),
    (2, True, 1),
    (2, "1", "its states have no names"),
]


class Labelled(dict):
    """A mapping of another library."""


@pytest.mark.parametrize(("states", "said", "meant"), CASES)
def test_python(states: Any, said: Any, meant: int | str) -> None:
    graph = ef.FactorGraph({"x": states, "y": 2}, [(["x"], WEIGHTS), (["x", "y"], [[1.0, 2.0], [3.0, 4.0]])])
    for evidence in ({"x": said}, Labelled(x=said), {0: said}):
        for solve in (
            lambda e: [ef.solve(graph, evidence=e)],
            lambda e: ef.solve([graph, graph], "MAR", "brute", evidence=e),
            lambda e: ef.solve([graph, graph], "MAR", "brute", evidence=[e, e]),
        ):
            if isinstance(meant, str):
                with pytest.raises(ef.ModelError, match=meant):
                    solve(evidence)  # type: ignore[no-untyped-call]
                continue
            for result in solve(evidence):  # type: ignore[no-untyped-call]
                assert result.marginals["x"].tolist() == [1.0 - meant, float(meant)]
                assert (
                    result.joint("x", "y")[{0: graph.structure.state_names[0][meant] if states != 2 else meant}] == 1.0
                )


@pytest.mark.parametrize(
    ("states", "said", "meant"), [case for case in CASES if isinstance(case[1], str) and case[0] != 2]
)
def test_the_command_reads_text_as_names(
    states: Any, said: str, meant: int | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from equifactor.cli import main

    path = str(tmp_path / "x.bif")
    ef.write_graph(ef.FactorGraph({"x": states}, [(["x"], WEIGHTS)]), path)
    status = main(["solve", path, "-e", f"x={said}", "--query", "x"])
    shown = capsys.readouterr()
    if isinstance(meant, str):
        assert status == 3
        assert "its states are" in shown.err
    else:
        assert status == 0
        assert [line.split()[-1] for line in shown.out.splitlines()[2:]] == [f"{n == meant:d}.000000" for n in range(2)]


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    graph = ef.FactorGraph({"x": ["TRUE", "FALSE"], "y": 3}, [(["x", "y"], np.arange(1, 7))])
    frame = pd.DataFrame({"x": ["TRUE", "FALSE"], "y": [2, 0]})
    rows = [row for _, row in frame.iterrows()]
    for each in (rows, frame.to_dict("records")):
        results = ef.solve([graph, graph], evidence=each)
        assert [result.graph.evidence for result in results] == [{0: 0, 1: 2}, {0: 1, 1: 0}]
    assert ef.solve(graph, evidence=pd.Series({"x": True})).graph.evidence == {0: 0}
    assert ef.solve(graph, evidence=pd.Series({"x": None, "y": 1.0})).graph.evidence == {1: 1}
    with pytest.raises(ef.ModelError, match="can be read as a name or as a place"):
        ef.solve(graph, evidence=pd.Series({"x": 1, "y": 0}))
