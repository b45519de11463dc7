from __future__ import annotations

from dataclasses import dataclass

import pytest

import equifactor as ef
from equifactor.questions.comparison import Comparison


@pytest.fixture(scope="module")
def grid() -> ef.FactorGraph:
    return ef.generators.ising_grid(3, 3, seed=1)


@dataclass(frozen=True, kw_only=True)
class Broken(ef.solvers.GraphSolver):
    """A solver with a defect."""

    tasks = (ef.Task.MAR,)
    name = "broken"

    def run_one(self, graph, task, context):
        raise ZeroDivisionError("of its own")


def test_marginals(grid: ef.FactorGraph) -> None:
    found = ef.compare(grid, ["brute", "bp", "exact"])
    assert list(found) == ["brute", "bp", "exact"]
    assert found.reference is found["brute"]
    exact, bp = found["brute"].marginals, found["bp"].marginals
    measured = found.measures("bp")
    assert measured["max difference"] == ef.metrics.max_error(exact, bp)
    assert measured["mean difference"] == ef.metrics.mean_error(exact, bp)
    assert measured["ln Z"] == found["bp"].log_z
    assert found.measures("exact")["max difference"] < 1e-12
    first, titles, rule, *rows = str(found).splitlines()
    assert first == "MAR of ising-3x3-seed1-0, compared with brute"
    assert titles.split("  ")[0] == "solver"
    assert set(rule) == {"-"}
    assert len(rows) == 3


def test_ln_z_and_map(grid: ef.FactorGraph) -> None:
    found = ef.compare(grid, ["trw", "meanfield"], task="PR", reference="exact")
    assert list(found) == ["exact", "trw", "meanfield"]
    assert found.measures("trw")["difference"] > 0 > found.measures("meanfield")["difference"]
    found = ef.compare(grid, {"best": "exact", "beam": "beam"}, task="map", evidence={0: 1})
    assert found.task is ef.Task.MAP
    assert found["best"].assignment[0] == 1
    assert found.measures("best") == {
        "log score": found["best"].log_score, "difference": 0.0, "other states": 0,
        "upper bound": found["best"].upper_bound,
    }  # fmt: skip


def test_a_failing_solver_is_a_row(grid: ef.FactorGraph) -> None:
    found = ef.compare(grid, ["exact", "mplp", Broken()])
    assert [row.status for row in found.rows] == ["exact", "failed", "failed"]
    notes = "\n".join(found.notes)
    assert "mplp: mplp cannot do MAR. It does MAP." in notes
    assert "ZeroDivisionError: of its own" in notes
    assert list(found.results) == ["exact"]
    with pytest.raises(ef.SolveError, match="mplp has no result: mplp cannot do MAR"):
        found["mplp"]
    with pytest.raises(ef.OptionError, match="This comparison has no solver 'bp'"):
        found["bp"]


@pytest.mark.parametrize("solver", ["bpp", "bp(dampin=1)", "brute(", 3])
def test_a_misspelt_solver_is_refused(grid: ef.FactorGraph, solver: object) -> None:
    with pytest.raises(ef.OptionError, match=r"no solver 'bpp'|no option 'dampin'|Cannot read the solver"):
        ef.compare(grid, ["exact", solver])  # type: ignore[list-item]


def test_a_reference_that_fails_leaves_no_differences() -> None:
    impossible = ef.FactorGraph([2], [([0], [0, 0])])
    found = ef.compare(impossible, ["mplp", "exact"])
    assert found.reference is None
    assert found.measures("exact")["max difference"] is None
    found = ef.compare(impossible, ["exact", "brute"], task="PR")
    assert found.measures("brute")["difference"] == 0.0
    assert "nan" not in str(found)


def test_a_result_as_reference(grid: ef.FactorGraph) -> None:
    exact = ef.solve(grid, "MAR", "exact")
    found = ef.compare(grid, "bp", reference=exact)
    assert list(found) == ["bp"]
    assert found.reference is exact
    assert "compared with exact" in str(found)
    with pytest.raises(ef.ModelError, match="an answer on another model"):
        ef.compare(ef.FactorGraph([3]), "bp", reference=exact)
    with pytest.raises(ef.OptionError, match="The reference answers MAR, but the solvers are compared on PR"):
        ef.compare(grid, "bp", task="PR", reference=exact)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"solvers": []}, "Expected at least one solver"),
        ({"solvers": 3}, "Expected a list of solvers such as"),
        ({"solvers": ["bp", "bp"]}, "A solver is given twice"),
        ({"solvers": "bp", "reference": "exakt"}, "There is no solver 'exakt'"),
        ({"solvers": "bp", "reference": 3}, "The reference must be a solver or a Result"),
        ({"solvers": "bp", "task": "MIN"}, "There is no task"),
        ({"solvers": "bp", "time_limit": -1}, "time limit"),
    ],
)
def test_wrong_questions_are_errors(grid: ef.FactorGraph, arguments: dict, sentence: str) -> None:
    with pytest.raises(ef.OptionError, match=sentence):
        ef.compare(grid, **arguments)


def test_a_task_at_the_place_of_the_solvers(grid: ef.FactorGraph) -> None:
    with pytest.raises(ef.OptionError, match=r'as in compare\(graph, \["exact", "bp"\], task="MAR"\)'):
        ef.compare(grid, "MAR", ["bp"])  # type: ignore[arg-type]


def test_one_graph_at_a_time(grid: ef.FactorGraph) -> None:
    with pytest.raises(ef.ModelError, match="Use evaluate to compare on many models"):
        ef.compare([grid], "bp")
    with pytest.raises(ef.ModelError):
        ef.compare(grid, "bp", evidence={99: 0})


def test_an_interrupt_leaves_the_others_out(grid: ef.FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.questions import compare as _compare

    def interrupted(graph, task, solver, **_):
        return ef.Result(graph=graph, task=task, solver=str(solver), status=ef.Status.INTERRUPTED)

    monkeypatch.setattr(_compare, "solve", interrupted)
    found = ef.compare(grid, ["exact", "bp"])
    assert [row.status for row in found.rows] == ["interrupted", "failed"]
    assert "The solver was not run" in str(found)


def test_frame_and_html(grid: ef.FactorGraph) -> None:
    found = ef.compare(grid, {"<b>": "exact", "x": "mplp"})
    html = found._repr_html_()
    assert "<b>" not in html
    assert "x: mplp cannot do MAR" in html
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame["status"].tolist() == ["exact", "failed"]
    assert frame["max difference"][0] == 0.0


def test_pictures(grid: ef.FactorGraph) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    ax = ef.compare(grid, ["exact", "bp", "mplp"]).plot()
    assert len(ax.collections) == 1  # the reference is the diagonal
    assert len(ax.collections[0].get_offsets()) == 18
    ax = ef.compare(grid, ["exact", "trw"], task="PR").plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["exact", "trw"]
    ef.compare(grid, ["exact", "srmp"], task="MAP").plot(ax=ax)
    with pytest.raises(ef.SolveError, match="The comparison has nothing to draw"):
        ef.compare(grid, ["exact"]).plot()
    pyplot.close("all")


def test_kinds_of_factors_are_compared() -> None:
    graph = ef.FactorGraph([2] * 6, [([0, 1, 2, 3], ef.Parity()), ([3, 4, 5], ef.AtMost(1)), ([0], [1, 3])])
    found: Comparison = ef.compare(graph, ["brute", "exact", "bp"])
    assert found.measures("exact")["max difference"] < 1e-9
    assert found.measures("bp")["max difference"] < 1e-6  # a tree
