"""`Joint` and `Information`: names in, names out."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph, ModelError, OptionError, SolveError


@pytest.fixture
def result() -> ef.Result:
    variables = {"rain": ["no", "yes"], "day": 3, "die": ["1", "2"]}
    table = np.arange(1.0, 13.0).reshape(2, 3, 2)
    return ef.solve(FactorGraph(variables, [(["rain", "day", "die"], table)]), "MAR", "exact")


def test_by_name(result: ef.Result) -> None:
    joint = result.joint("die", "rain", "day")
    assert joint.variables == ("die", "rain", "day")
    assert joint.states == (("1", "2"), ("no", "yes"), (0, 1, 2))
    assert joint.values.shape == (2, 2, 3)
    p = np.arange(1.0, 13.0).reshape(2, 3, 2) / 78
    np.testing.assert_allclose(joint, p.transpose(2, 0, 1))
    assert joint["2", "yes", 0] == pytest.approx(8 / 78)
    assert joint[{"rain": "yes", "die": "2"}] == pytest.approx(30 / 78)
    assert joint[{0: "yes", 1: 0}] == pytest.approx(15 / 78)
    assert joint[{}] == pytest.approx(1.0)
    assert joint.marginal("day", "die").variables == ("day", "die")
    np.testing.assert_allclose(joint.marginal("day", "die"), p.sum(axis=0))
    given = joint.given({"rain": "no"})
    assert given.variables == ("die", "day")
    np.testing.assert_allclose(given, p[0].T / p[0].sum())
    assert joint.marginal("die")["1"] == pytest.approx(result.probability("die", "1"))
    assert repr(joint) == "Joint(die, rain, day: 2 x 2 x 3, exact, elimination)"
    assert str(joint).splitlines()[2].split() == ["1", "no", "0", "0.012821"]
    assert joint.to_dict()["states"] == [["1", "2"], ["no", "yes"], [0, 1, 2]]


def test_states_are_never_guessed(result: ef.Result) -> None:
    joint = result.joint("rain", "die")
    for key, sentence in (
        (("yes", 1), "can be read as a name or as a place"),
        (("maybe", "1"), "variable rain has no state 'maybe'; its states are no, yes"),
        ("yes", "Give one state for each of rain, die, not 1. A mapping such as"),
        ({"snow": 0}, "The model has no variable 'snow'"),
        ({1: 0}, "This joint has no variable 1. It is over rain, die"),
        ({"rain": "no", 0: "no"}, "Variable 0 is given twice"),
    ):
        with pytest.raises(ModelError, match=sentence):
            joint[key]
    with pytest.raises(ModelError, match="has probability 0, so there is no distribution"):
        ef.solve(result.graph, evidence={"rain": "no"}).joint("rain", "die").given({"rain": "yes"})


def test_numbers_that_are_names_are_refused() -> None:
    graph = FactorGraph({"1": 2, "0": 2}, [(["1", "0"], [[1.0, 2.0], [3.0, 4.0]])])
    result = ef.solve(graph, "MAR", "exact")
    for ask in (result.joint, result.mutual_information, lambda v: result.joint("1", "0")[{v: 0}]):
        with pytest.raises(ModelError, match=r"(?i)variable 1 can be read as a name or as a"):
            ask(1)
    np.testing.assert_allclose(result.factor_marginals[0], result.joint("1", "0").values)


def test_a_long_table_is_cut() -> None:
    result = ef.solve(FactorGraph([10, 10], []), "MAR", "exact")
    assert str(result.joint(0, 1)).splitlines()[-1] == ".. and 40 more"
    assert len(result.joint(0, 1).table().splitlines()) == 102


def test_information_by_name(result: ef.Result) -> None:
    info = result.mutual_information("rain")
    assert list(info) == sorted(("day", "die"), key=lambda v: -info[v])
    assert (len(info), info.target, info.status) == (2, "rain", "exact")
    assert info["day"] == pytest.approx(result.joint("rain", "day").mutual_information())
    assert info.entropy == pytest.approx(result.joint("rain").entropy())
    assert dict(info) == {v: info[v] for v in info}
    assert str(info).splitlines()[0] == f"about rain, entropy {info.entropy:.6f} nats (exact)"


def test_states_by_name(result: ef.Result) -> None:
    best = ef.solve(result.graph, "MAP", "exact")
    assert best.states == {"rain": "yes", "day": 2, "die": "2"}
    assert ef.solve(FactorGraph([2], [([0], [1.0, 2.0])]), "MAP").states == {0: 1}
    with pytest.raises(SolveError, match="answered MAR, so it has no assignment"):
        _ = result.states


def test_frames(result: ef.Result) -> None:
    pd = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability"]
    assert frame["state"].tolist() == ["no", "yes", 0, 1, 2, "1", "2"]
    np.testing.assert_allclose(frame.groupby("variable")["probability"].sum(), 1.0)
    assert ef.solve(result.graph, "MAP").to_frame()["state"].tolist() == ["yes", 2, "2"]
    joint = result.joint("rain", "die").to_frame()
    assert list(joint.columns) == ["rain", "die", "probability"]
    table = joint.pivot_table(index="rain", columns="die", values="probability")
    np.testing.assert_allclose(table.to_numpy(), result.joint("rain", "die").values)
    assert result.mutual_information("rain").to_frame()["variable"].tolist() == list(result.mutual_information("rain"))
    assert "standard_error" in ef.Result.of({**vars(result), "standard_errors": result.marginals}).to_frame()
    observed = ef.solve(result.graph, evidence=pd.Series({"rain": "yes"})).to_frame()
    assert observed["probability"].tolist()[:2] == [0.0, 1.0]


def test_a_variable_called_like_a_column() -> None:
    pytest.importorskip("pandas")
    graph = FactorGraph({"probability": 2, "state": 2}, [(["probability", "state"], [[1, 2], [3, 4]])])
    with pytest.raises(ModelError, match="A variable is called 'probability', like the column of the numbers"):
        ef.solve(graph, "MAR", "exact").joint("state", "probability").to_frame()


def test_frames_without_pandas_are_one_sentence(result: ef.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call in (result.to_frame, result.joint("rain").to_frame, result.mutual_information("rain").to_frame):
        with pytest.raises(OptionError, match=r"to_frame needs pandas: pip install"):
            call()
    with pytest.raises(SolveError, match="answered PR, so it has no marginals"):
        ef.solve(result.graph, "PR", "exact").to_frame()
