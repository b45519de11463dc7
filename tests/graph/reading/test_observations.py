"""Evidence and assignments by number and name: one meaning, or an error that names the choices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph, ModelError
from equifactor.formats.csv_columns import read_csv
from equifactor.graph.reading import state_rows
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.reading.state_rows import read_columns


@pytest.fixture
def graph() -> FactorGraph:
    variables = {
        "rain": 2, "day": 3, "history": ["TRUE", "FALSE"], "die": ["1", "2"], "swapped": ["1", "0"],
        "bit": ["0", "1"], "size": ["none", "1", "2"], "bins": ["0.5", "1.5"], "odd": ["nan", "inf"],
        "answer": ["No", "Yes", "unclear"],
    }  # fmt: skip
    card = FactorGraph(variables).card  # type: ignore[arg-type]
    return FactorGraph(variables, [([i], np.arange(1, 1 + d)) for i, d in enumerate(card)])  # type: ignore[arg-type]


class Series:
    """The part of `pandas.Series` that this package uses: labels and values, not a Mapping, and an array to numpy."""

    ndim = 1

    def __init__(self, labels: list, values: list) -> None:
        self.labels, self.values = labels, values
        self.index = labels

    def keys(self) -> list:
        return self.labels

    def items(self) -> Iterator[tuple]:
        return zip(self.labels, self.values, strict=True)

    def __len__(self) -> int:
        return len(self.labels)

    def to_numpy(self) -> np.ndarray:
        return np.array(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype)


@pytest.mark.parametrize(
    ("variable", "state", "number"),
    [
        ("rain", 1, 1), ("rain", True, 1), ("rain", np.False_, 0), ("rain", np.int8(1), 1), ("rain", np.uint64(0), 0),
        ("rain", 1.0, 1), ("rain", np.float64(0.0), 0),
        ("history", "TRUE", 0), ("history", np.str_("FALSE"), 1), ("answer", 1, 1),
        ("history", True, 0), ("history", np.False_, 1),
        ("answer", "Yes", 1),
        ("die", "1", 0), ("die", "2", 1), ("swapped", "0", 1), ("die", 2, 1), ("die", 2.0, 1),
        ("bins", 0.5, 0), ("bins", np.float64(1.5), 1),
        ("bit", 1, 1), ("bit", "1", 1), ("size", 2, 2), ("size", 0, 0), ("odd", 1, 1),
    ],
)  # fmt: skip
def test_one_meaning(graph: FactorGraph, variable: str, state: Any, number: int) -> None:
    i = graph.variable(variable)
    assert graph.state(variable, state) == number
    assert graph.condition({variable: state}).evidence == {i: number}
    assert graph.condition({i: state}).evidence == {i: number}
    assert [r.graph.evidence for r in ef.solve([graph, graph], evidence={variable: state})] == [{i: number}] * 2
    full: dict[int, Any] = {n: names[0] if names else 0 for n, names in enumerate(graph.structure.state_names or ())}
    full[i] = state
    assert np.isfinite(graph.log_score(full))


@pytest.mark.parametrize(
    ("variable", "state", "sentence"),
    [
        ("answer", True, "variable answer has no state True; its states are No, Yes, unclear. Give one of these."),
        ("history", "true", "variable history has no state 'true'; did you mean TRUE. its states are TRUE, FALSE"),
        ("history", 1, "state 1 of variable history can be read as a name or as a place counted from 0; its states"),
        ("history", np.int64(0), "its states are TRUE, FALSE. Give one of these as text"),
        ("bit", True, "variable bit has no state True; its states are 0, 1"),
        ("day", True, r"variable day has no state True; it has 3 states \(0-2\)"),
        ("die", 1, "state 1 of variable die can be read as a name or as a place counted from 0; its states are 1, 2"),
        ("die", np.int64(0), "state 0 of variable die can be read as a name or as a place"),
        ("swapped", 0, "its states are 1, 0. Give one of these as text"),
        ("bins", 1, "its states are 0.5, 1.5"),
        ("die", "3", "variable die has no state '3'; its states are 1, 2"),
        ("rain", "1", r"its states have no names, and it has 2 states \(0-1\)"),
        ("rain", 2, "state 2 of variable rain is out of range"),
        ("rain", -1, "state -1 of variable rain is out of range"),
        ("rain", 0.5, "must be a whole number or a name, found 0.5"), ("rain", b"1", "must be a"),
        ("die", 1.0, "can be read as a name or as a place"), ("rain", np.inf, "must be a whole number or a name"),
        ("rain", np.array(1), "must be a"), ("rain", 1j, "must be a"),
    ],
)  # fmt: skip
def test_no_meaning_or_two(graph: FactorGraph, variable: str, state: Any, sentence: str) -> None:
    for call in (
        lambda: graph.condition({variable: state}),
        lambda: ef.solve(graph, evidence={variable: state}),
        lambda: ef.solve([graph, graph], evidence={variable: state}),
        lambda: graph.state(variable, state),
        lambda: graph.log_score({variable: state}),
    ):
        with pytest.raises(ModelError, match=sentence):
            call()


@pytest.mark.parametrize("second", [0, 1, [0.5, 0.5]])
@pytest.mark.parametrize("keys", [("rain", 0), (0, "rain")])
def test_a_variable_is_given_once(graph: FactorGraph, keys: tuple, second: Any) -> None:
    with pytest.raises(ModelError, match=r"evidence names variable rain twice, as .* and as .*. Give it once"):
        graph.condition({keys[0]: 0, keys[1]: second})
    with pytest.raises(ModelError, match="an assignment names variable rain twice"):
        graph.log_score({keys[0]: 0, keys[1]: 0})


def test_names_of_variables_that_are_numbers() -> None:
    graph = FactorGraph({"1": 2, "2": 2, "x": 2})
    for key in (0, 1):
        with pytest.raises(ModelError, match=f"variable {key} can be read as a name or as a place"):
            graph.condition({key: 0})
    assert graph.condition({"1": 1, "x": 0}).evidence == {0: 1, 2: 0}
    with pytest.raises(ModelError, match="variable 2 can be read"):  # the place of x, and the name of another state
        graph.condition({2: 0})
    assert FactorGraph({"0": 2, "1": 2}).condition({1: 1}).evidence == {1: 1}


def test_one_evidence_per_graph_of_a_batch(graph: FactorGraph) -> None:
    each = [{"die": "1"}, {"die": "2"}]
    for given in (each, tuple(each), [Series(list(e), list(e.values())) for e in each]):
        results = ef.solve([graph, graph], evidence=given)  # type: ignore[call-overload]
        assert [r.marginals["die"].tolist() for r in results] == [[1, 0], [0, 1]]
    nothing, other = ef.solve([graph, graph], evidence=[None, {"day": 2}])
    assert (nothing.graph.evidence, other.graph.evidence) == ({}, {1: 2})
    assert ef.solve([], evidence=[]) == []
    for given in (each[:1], [*each, None], []):
        with pytest.raises(ModelError, match=f"Expected one evidence mapping for each of 2 graphs, found {len(given)}"):
            ef.solve([graph, graph], evidence=given)
    many = ef.solve(graph, evidence=each, targets=["die"])  # a list on one graph: many questions
    assert many.marginals["die"].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ModelError, match="evidence must be a mapping from variable to state"):
        graph.condition(each)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="evidence must be a mapping from variable to state"):
        ef.solve([graph], evidence=[[0, 1]])  # type: ignore[list-item]


def test_series_and_scalars_of_numpy(graph: FactorGraph) -> None:
    assert graph.condition(Series(["rain", 1], [np.int64(1), np.int32(2)])).evidence == {0: 1, 1: 2}  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="twice"):
        graph.condition(Series(["rain", "rain"], [0, 0]))  # type: ignore[arg-type]
    frame = Series(["rain"], [1])
    frame.ndim = 2
    with pytest.raises(ModelError, match="evidence must be a mapping"):
        graph.condition(frame)  # type: ignore[arg-type]


def test_pandas(graph: FactorGraph) -> None:
    pd = pytest.importorskip("pandas")
    assert graph.condition(pd.Series({"rain": 1, "day": 2})).evidence == {0: 1, 1: 2}
    assert graph.condition(pd.Series({"rain": 1, "history": "FALSE"})).evidence == {0: 1, 2: 1}
    weights = graph.condition({"history": pd.Series({"FALSE": 0.25, "TRUE": 0.75})}).log_table(10)
    np.testing.assert_allclose(np.exp(weights), [0.75, 0.25])
    with pytest.raises(ModelError, match=r"evidence on one graph must be one row such as .* found a data frame of 2"):
        graph.condition(pd.DataFrame({"rain": [0, 1]}))
    with pytest.raises(ModelError, match="it is a DataFrame, whose labels would be lost"):
        FactorGraph([2, 2], [([0, 1], pd.DataFrame([[1, 2], [3, 4]]))])


@pytest.mark.parametrize("labelled", [dict, lambda pairs: Series(list(dict(pairs)), list(dict(pairs).values()))])
def test_weights_by_state(graph: FactorGraph, labelled: Any) -> None:
    soft = graph.condition({"history": labelled({"FALSE": 0.25, "TRUE": 0.75})})
    np.testing.assert_allclose(np.exp(soft.log_table(10)), [0.75, 0.25])  # in the order of the states
    with pytest.raises(ModelError, match="must be a state or one weight >= 0 for each of its 2 states"):
        graph.condition({"history": labelled({"FALSE": 0.25})})
    with pytest.raises(ModelError, match="has no state 'no'"):
        graph.condition({"history": labelled({"no": 0.25, "TRUE": 0.5})})
    with pytest.raises(ModelError, match="can be read as a name or as a place"):
        graph.condition({"die": labelled({1: 0.25, 2: 0.5})})


@pytest.mark.parametrize("weights", [["1", "0"], [1j, 0], [None, 1], np.ma.masked_array([1.0, 2.0], [True, False])])
def test_weights_are_real_numbers(graph: FactorGraph, weights: Any) -> None:
    with pytest.raises(ModelError, match="one weight >= 0 for each of its 2 states"):
        graph.condition({"rain": weights})


@pytest.mark.parametrize("missing", [None, np.nan, np.float32("nan"), "pandas"])
def test_missing_values_are_not_observed(graph: FactorGraph, missing: Any) -> None:
    missing = pytest.importorskip("pandas").NA if missing == "pandas" else missing
    given = {"rain": 1, "day": missing, "history": missing}
    series = Series(list(given), list(given.values()))
    assert graph.condition(series).evidence == {0: 1}  # type: ignore[arg-type]
    (answer,) = ef.solve(graph, "PR", evidence=[series])  # type: ignore[list-item]
    assert answer.log_z == pytest.approx(ef.solve(graph, "PR", evidence={"rain": 1}).log_z)
    if missing is None:  # more likely a mistake than a missing value
        with pytest.raises(ModelError, match=r"None is not a state\. Leave out"):
            graph.condition(given)
    else:
        assert graph.condition(given).evidence == {0: 1}
    for call in (graph.state, lambda i, x: graph.log_score({i: x})):
        with pytest.raises(ModelError, match="must be a whole number or a name"):
            call("rain", missing)


def test_a_row_of_samples_is_evidence_and_so_are_all_rows(graph: FactorGraph) -> None:
    samples = ef.sample(graph, 3, seed=1)
    one = ef.solve(graph, evidence=samples.states[0])
    assert [one.graph.evidence[i] for i in range(graph.num_vars)] == samples.states[0].tolist()
    for given in (samples, samples.states, samples.to_frame()):
        many = ef.solve(graph, "PR", evidence=given)
        assert many.log_z == pytest.approx([graph.log_score(row) for row in samples.states])
    part = np.where(np.arange(graph.num_vars) < 2, samples.states[1], -1)
    assert graph.condition(part).evidence == {0: part[0], 1: part[1]}
    assert graph.condition(np.where(part < 0, np.nan, part)).evidence == {0: part[0], 1: part[1]}
    for bad, text in (
        (part[:3], "each of the 10 variables"),
        (part + 9, "out of range"),
        (part + 0.5, "Give a number"),
    ):
        with pytest.raises(ModelError, match=text):
            graph.condition(bad)


def test_what_pandas_reads_from_a_file_is_what_was_written(graph: FactorGraph, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    clear = ["rain", "day", "history", "die", "bit", "bins", "answer"]  # pandas cannot tell a state called nan
    samples = ef.sample(graph, 50, seed=0)
    frame = samples.to_frame()[clear]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    read = pd.read_csv(tmp_path / "rows.csv")
    wanted = ef.solve(graph, "PR", evidence=frame).log_z
    assert ef.solve(graph, "PR", evidence=read).log_z == pytest.approx(wanted)
    read.loc[0, ["day", "bit"]] = np.nan  # whole numbers become 1.0
    one = {name: state for name, state in frame.iloc[0].items() if name not in ("day", "bit")}
    known = read.drop(columns="die")  # 1 alone can be the name or the place
    one.pop("die")
    for row in (known.iloc[0], known.iloc[0].to_dict()):
        assert graph.condition(row).evidence == graph.condition(one).evidence


def test_a_column_of_numbers_is_read_in_one_way(graph: FactorGraph) -> None:
    pd = pytest.importorskip("pandas")
    many = ef.solve(graph, "MAR", evidence=pd.DataFrame({"die": [1, 2, np.nan]}))
    assert many.marginals["die"][:2].tolist() == [[1, 0], [0, 1]]
    for values in ([1, 1], [0, 1], [0, 2]):
        with pytest.raises(
            ModelError, match=r"column die: state . of variable die can be read as a name or as a place"
        ):
            ef.solve(graph, evidence=pd.DataFrame({"die": values}))


def test_numbers_in_a_table_are_names_if_one_of_them_can_only_be_a_name() -> None:
    pd = pytest.importorskip("pandas")
    names = {"a": ["1", "2", "3"], "b": ["1", "2"], "c": ["low", "high"], "d": 2, "e": ["10", "20"]}
    graph = FactorGraph(
        names, [([name], np.ones(len(own) if isinstance(own, list) else own)) for name, own in names.items()]
    )
    for row, wanted in (
        ({"a": 1, "b": 2, "d": 1}, {0: 0, 1: 1, 3: 1}),
        ({"a": 1, "b": 2.0, "c": "low"}, {0: 0, 1: 1, 2: 0}),
        ({"a": 1, "b": np.nan, "e": 20}, {0: 0, 4: 1}),
        ({"a": 1, "b": 1}, None),
        ({"a": 1, "b": 2, "c": 1}, None),  # the number of c is a place
        ({"a": 1, "b": 0, "e": 20}, None),  # there is no name 0
    ):
        frame = pd.DataFrame([row, row])
        if wanted is None:
            for given in (frame.iloc[0], frame, [frame.iloc[0]]):
                with pytest.raises(ModelError, match="can be read as a name or as a place"):
                    ef.solve(graph, evidence=given)
        else:
            assert graph.condition(frame.iloc[0]).evidence == wanted
            for given in (frame, [frame.iloc[0], frame.iloc[1]]):
                states = state_rows.states_of_sets(graph.structure, given)
                assert states.tolist() == [[wanted.get(i, -1) for i in range(graph.num_vars)]] * 2  # type: ignore[union-attr]
            with pytest.raises(ModelError, match="can be read as a name or as a place"):  # typed, not from a file
                graph.condition(row)


def test_numbers_of_files_and_graphs_are_no_names(tmp_path: Path) -> None:
    graph = FactorGraph({"2": ["1", "2"], "1": ["5", "6"]}, [(["2", "1"], np.ones((2, 2)))])
    (tmp_path / "a.evid").write_text("2 0 1 1 0")
    read = ef.read_evidence(tmp_path / "a.evid", graph)
    assert read == {0: 1, 1: 0}
    assert isinstance(read, StateNumbers)
    observed = graph.condition(read)
    assert observed.evidence == {0: 1, 1: 0}
    assert graph.condition(observed.evidence) == observed
    with pytest.raises(ModelError, match="out of range"):
        graph.condition(StateNumbers({0: 7}))


@pytest.mark.parametrize("names", [["1_1", "1_2"], ["\u00b2", "\u00b3"], ["\u0661", "\u0662"], ["9" * 400, "x"]])
def test_names_that_only_python_reads_as_numbers_are_names(names: list[str]) -> None:
    graph = FactorGraph({"gene": names}, [(["gene"], [0.25, 0.75])])
    assert graph.condition({"gene": 1}).evidence == {0: 1}
    assert graph.condition({"gene": names[0]}).evidence == {0: 0}
    named = FactorGraph({names[0]: 2, "b": 2}, [([0, 1], np.ones((2, 2)))])
    assert named.condition({0: 1}).evidence == {0: 1}


def test_cells_that_only_python_reads_as_numbers_are_names(tmp_path: Path) -> None:
    graph = FactorGraph({"gene": ["11", "12"]}, [(["gene"], [0.25, 0.75])])
    (tmp_path / "rows.csv").write_text("gene\n1_1\n")
    with pytest.raises(ef.FormatError, match="has no state '1_1'"):
        read_columns(graph.structure, read_csv(tmp_path / "rows.csv"))


@pytest.mark.parametrize("word", ["NA", "None", "nan", "N/A", "null"])
def test_a_state_that_pandas_reads_as_missing_is_never_unobserved(word: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    graph = FactorGraph({"a": [word, "low"], "b": ["x", "y"]}, [(["a"], [0.25, 0.75]), (["b"], [0.5, 0.5])])
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b\n{word},y\nlow,\n,x\n")
    frame = pandas.read_csv(path)
    for given in (frame, frame.iloc[0], frame.iloc[0].to_dict(), frame.astype("category"), frame[:1], frame.to_numpy()):
        with pytest.raises(ModelError, match=f"a value of variable a is missing.*'{word}'.*keep_default_na=False"):
            ef.solve(graph, "PR", "brute", evidence=given)
    assert ef.solve(graph, "PR", "brute", evidence=frame.iloc[1]).log_z == pytest.approx(math.log(0.75))
    kept = pandas.read_csv(path, keep_default_na=False)
    want = np.log([0.125, 0.75, 0.5])
    assert ef.solve(graph, "PR", "brute", evidence=kept).log_z == pytest.approx(want)
    assert [ef.solve(graph, "PR", "brute", evidence=kept.iloc[n]).log_z for n in range(3)] == pytest.approx(want)
    numbers = pandas.DataFrame({"a": [0, math.nan]})  # State numbers are clear beside missing values.
    assert ef.solve(graph, "PR", "brute", evidence=numbers).log_z == pytest.approx(np.log([0.25, 1.0]))


def test_rows_of_one_frame_are_read_as_the_frame() -> None:
    graph = ef.FactorGraph({"a": ["1", "2"], "b": ["no", "yes"]}, [(["a", "b"], [[1.0, 2.0], [3.0, 4.0]])])
    rows = [Series(["a", "b"], [x, "no"]) for x in (1, 2, 1)]
    assert np.allclose(ef.solve(graph, "PR", evidence=rows).log_z, np.log([1.0, 3.0, 1.0]))
    with pytest.raises(
        ef.ModelError, match="evidence set 0: state 1 of variable a can be read as a name or as a place"
    ):
        ef.solve(graph, evidence=rows[:1])
    with pytest.raises(ef.ModelError, match="evidence set 1: The model has no variable 'c'"):
        ef.solve(graph, evidence=[rows[0], Series(["c"], [1])])
