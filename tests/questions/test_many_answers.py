"""Many sets of evidence at once give the same answers as `solve` for each set, in every form of evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError, OptionError
from equifactor.generators import ising_grid
from equifactor.graph.reading.state_rows import states_of_sets


def weather() -> ef.FactorGraph:
    return ef.FactorGraph(
        {"rain": ["no", "yes"], "sprinkler": 2, "grass": ["dry", "damp", "wet"]},
        [
            (["rain"], [0.8, 0.2]),
            (["rain", "sprinkler"], [[0.6, 0.4], [1.0, 0.0]]),
            (["rain", "sprinkler", "grass"], np.reshape([9, 1, 0, 1, 2, 7, 1, 3, 6, 0, 1, 9], (2, 2, 3)) / 10),
        ],
    )


def many(graph: ef.FactorGraph, sets: Any, targets: Any = None, solver: str = "auto", **more: Any) -> Any:
    return ef.solve(graph, more.pop("task", "MAR"), solver, evidence=sets, targets=targets, **more)


SETS: list[dict[Any, Any]] = [{"grass": "wet"}, {}, {"rain": "yes", "sprinkler": 1}, {"sprinkler": 1, "grass": "dry"}]


def check(answers: ef.answers.ManyResults, graph: ef.FactorGraph, sets: list[dict[Any, Any]]) -> None:
    for b, evidence in enumerate(sets):
        expected = ef.solve(graph, "MAR", "exact", evidence=evidence)
        assert answers[b].status is expected.status
        assert answers[b].log_z == pytest.approx(expected.log_z)
        for name, p in answers.marginals.items():
            np.testing.assert_allclose(p[b], expected.marginals[name] if expected.answered else 0.0, atol=1e-12)
            assert not expected.answered or answers[b].marginals[name].tolist() == p[b].tolist()


@pytest.mark.parametrize("solver", ["auto", "exact", "brute"])
def test_mappings_by_name(solver: str) -> None:
    answers = many(weather(), SETS, solver=solver)
    check(answers, weather(), SETS)
    assert answers.statuses[2] is ef.Status.ZERO_PROBABILITY
    assert answers.solved.tolist() == [True, True, False, True]
    assert answers.message.startswith("1 of 4 sets: Every assignment has probability zero")
    assert list(answers.marginals) == ["rain", "sprinkler", "grass"]
    assert answers.marginals["grass"].shape == (4, 3)


def test_targets_come_in_the_order_in_which_they_are_asked_for() -> None:
    answers = many(weather(), SETS, ["grass", 0], solver="brute")
    assert list(answers.marginals) == ["grass", "rain"]
    np.testing.assert_allclose(
        answers.marginals.table, many(weather(), SETS, ["grass", "rain"]).marginals.table, atol=1e-12
    )
    with pytest.raises(KeyError, match="sprinkler is not among the targets"):
        answers.marginals["sprinkler"]


def test_an_array_of_states() -> None:
    states = np.array([[-1, -1, 2], [-1, -1, -1], [1, 1, -1], [-1, 1, 0]])
    check(many(weather(), states), weather(), SETS)


def test_other_arrays_and_other_lists() -> None:
    wanted = many(weather(), SETS[1:]).marginals.table
    masked = np.ma.MaskedArray([[0, 0, 0], [1, 1, 0], [0, 1, 0]], [[1, 1, 1], [0, 0, 1], [1, 0, 0]])
    names = np.array([[None, None, None], ["yes", 1, ""], [None, 1, "dry"]], object)
    for sets in (masked, names, masked.astype(float).filled(np.nan), iter(SETS[1:]), tuple(SETS[1:])):
        np.testing.assert_array_equal(many(weather(), sets).marginals.table, wanted)
    assert many(weather(), np.array([[0, 1, 2]], np.uint8)).solved.all()


def test_a_frame_of_evidence_and_one_of_answers() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"grass": ["wet", None, None, "dry"], "rain": [None, None, "yes", None], "sprinkler": [None, None, 1.0, 1.0]}
    )
    answers = many(weather(), frame, ["rain"])
    check(answers, weather(), SETS)
    check(many(weather(), frame.fillna({"rain": ""}).astype({"grass": "category"})), weather(), SETS)
    assert len(many(weather(), frame[[]])) == 4
    with pytest.raises(ModelError, match="evidence: two columns are called 'rain'"):
        many(weather(), pd.concat([frame, frame[["rain"]]], axis=1))
    with pytest.raises(ModelError, match="evidence, row 1, column grass: variable grass has no state 'moist'"):
        many(weather(), pd.DataFrame({"grass": ["wet", "moist"]}))
    table = answers.to_frame()
    assert list(table.columns) == ["status", "log_z", "rain=no", "rain=yes"]
    assert table["rain=yes"][0] == answers.marginals["rain"][0, 1]


def test_weights_are_evidence_too() -> None:
    sets = [*SETS, {"grass": {"dry": 0.1, "damp": 0.5, "wet": 1.0}}, {"rain": [0.5, 1.0], "grass": "wet"}]
    check(many(weather(), sets), weather(), sets)


def test_evidence_of_the_graph_holds_and_is_not_contradicted() -> None:
    graph = weather().condition({"rain": "no"})
    check(many(graph, [{"grass": "wet"}, {}]), graph, [{"grass": "wet"}, {}])
    with pytest.raises(ModelError, match="evidence set 1: variable rain is already observed in state no, not yes"):
        many(graph, [{}, {"rain": "yes"}])


def test_a_model_too_large_for_one_plan() -> None:
    graph = ising_grid(6, 6, seed=1)
    sets = [{n: 1} for n in range(3)]
    answers = many(graph, sets, [7], solver="exact(memory_limit=1e-6)")
    assert set(answers.statuses) == {ef.Status.TOO_LARGE}
    assert not answers.marginals[7].any()
    by_bp = many(graph, sets, [7], solver="bp")
    expected = ef.solve(graph, "MAR", "bp", evidence=sets[2])
    assert expected.marginals is not None
    np.testing.assert_array_equal(by_bp.marginals[7][2], expected.marginals[7])


def test_the_deadline_leaves_the_rest_open() -> None:
    graph = ising_grid(6, 6, seed=1)
    answers = many(graph, [{n: 1} for n in range(36)], solver="bp", time_limit=0.0)
    assert set(answers.statuses) == {ef.Status.TIME_LIMIT}
    assert len(answers) == 36


def test_no_sets_at_all() -> None:
    answers = many(weather(), [])
    assert len(answers) == 0
    assert answers.marginals["rain"].shape == (0, 2)
    assert "0 sets" in str(answers)


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ([{"grass": "moist"}], "variable grass has no state 'moist'"),
        ([{"rain": True}], "variable rain has no state True"),
        ([{"sprinkler": 1}, {"sprinkler": True}, {"sprinkler": 1.5}], "must be a whole number or a name, found 1.5"),
        ([{"grass": "dry", 2: 0}], "names variable grass twice"),
        ([["dry"]], r"evidence set 0: Evidence sets must be a list .* This one is \['dry'\]"),
        (
            [{}, {"grass": None}],
            "evidence set 1: evidence on variable grass must be a state, and None is not a state. Leave out",
        ),
        ([{"grass": [1, 1, 1]}, {"rain": "maybe"}], "evidence set 1: variable rain has no state 'maybe'"),
        (np.zeros((2, 2), int), r"expected shape \[N, 3\], found \(2, 2\)"),
        (np.full((1, 3), 3), "evidence, row 0, column rain: expected a state from 0 to 1, .* found 3"),
    ],
)
def test_what_is_wrong_is_said(sets: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        many(weather(), sets)


def test_targets_and_solvers_are_checked() -> None:
    with pytest.raises(ModelError, match="The model has no variable 'snow'"):
        many(weather(), SETS, ["snow"])
    with pytest.raises(ModelError, match="Targets name variable rain twice"):
        many(weather(), SETS, ["rain", 0])
    with pytest.raises(ModelError, match="Targets must be a list"):
        many(weather(), SETS, "rain")  # type: ignore[arg-type]
    numbers = ef.FactorGraph({"1": 2, "0": 2}, [(["1", "0"], [1, 2, 3, 4])])
    for call in (lambda: many(numbers, [{}], [1]), lambda: ef.solve(numbers).probability(1, 0)):
        with pytest.raises(ModelError, match="variable 1 can be read as a name or as a place"):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(OptionError):
        many(weather(), SETS, solver="nothing")


def test_the_other_tasks() -> None:
    by_mar = many(weather(), SETS)
    by_pr = many(weather(), SETS, task="PR")
    assert not hasattr(by_pr, "marginals")
    np.testing.assert_allclose(by_pr.log_z, by_mar.log_z)
    best = many(weather(), SETS, task="MAP")
    assert not hasattr(best, "log_z")
    for b, evidence in enumerate(SETS):
        expected = ef.solve(weather(), "MAP", evidence=evidence)
        assert best[b].status is expected.status
        if not expected.answered:
            assert best.assignments[b].tolist() == [-1, -1, -1]
        else:
            assert best[b].log_score == pytest.approx(expected.log_score)
            assert best[b].assignment.tolist() == expected.assignment.tolist()


def test_strict_looks_at_every_set() -> None:
    with pytest.raises(ef.SolveError, match="1 of 4 sets"):
        many(weather(), SETS, strict=True)
    assert many(weather(), SETS[:2], strict=True).solved.all()


def test_settings_are_keywords_or_text() -> None:
    graph = ising_grid(4, 4, seed=3)
    by_text, by_word = ef.solve(graph, "MAR", "bp(damping=0.5)"), ef.solve(graph, "MAR", "bp", damping=0.5)
    assert by_text.solver == by_word.solver == "bp(damping=0.5)"
    np.testing.assert_array_equal(by_text.marginals.values, by_word.marginals.values)
    with pytest.raises(OptionError, match="Neither solve nor bp has an option dampin"):
        ef.solve(graph, "MAR", "bp", dampin=0.5)


def test_states_of_many_sets_take_one_byte_each() -> None:
    graph = ef.generators.ising_grid(2, 3, seed=0)
    assert states_of_sets(graph.structure, [{0: 1}, {5: 0}]).dtype == np.int8
    wide = ef.FactorGraph([300], [([0], np.ones(300))])
    assert states_of_sets(wide.structure, [{0: 299}])[0, 0] == 299
