"""docs/from-pgmpy.md: the lines of pgmpy print what the page shows, and objects can be exchanged."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from from_pgmpy_files import printed, snippets, write_files

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its imports
    pytest.importorskip("pgmpy")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The names of a program that runs beside the files of the page."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return {}


def run(program: str, title: str, names: dict[str, object]) -> None:
    exec(compile(program, f"docs/from-pgmpy.md, {title}", "exec", dont_inherit=True), names)


def test_the_snippets_of_pgmpy_print_what_they_say(
    names: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = snippets("pgmpy")
    assert len(tasks) == 9  # the conversion has one side
    for title, program in tasks.items():
        capsys.readouterr()
        run(program, title, names)
        assert capsys.readouterr().out.splitlines() == printed(program), title


def test_the_conversion_prints_what_it_says(names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = snippets("pgmpy"), snippets("equifactor")
    for title in ("1. Read a file", "9. Convert the object itself"):
        if title in theirs:
            run(theirs[title], title, names)
        capsys.readouterr()
        run(ours[title], title, names)
        assert capsys.readouterr().out.splitlines() == printed(ours[title]), title


def test_em_of_pgmpy_makes_no_use_of_rows_with_gaps(names: dict[str, object]) -> None:
    run(snippets("pgmpy")["1. Read a file"], "1", names)
    import pandas as pd
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteEM, DiscreteMLE

    model, data = names["model"], pd.read_csv("gaps.csv")
    gaps, complete = DiscreteBayesianNetwork(model.edges()), DiscreteBayesianNetwork(model.edges())
    gaps.fit(data, DiscreteEM(state_names=model.states, seed=0, show_progress=False))
    complete.fit(data.dropna(), DiscreteMLE(state_names=model.states))
    for node in model.nodes():
        assert gaps.get_cpds(node) == complete.get_cpds(node)


def test_a_pandas_frame_serves_as_data_and_as_evidence(names: dict[str, object]) -> None:
    import pandas as pd

    import equifactor as ef

    graph = ef.read_graph("lawn.bif")
    seen = pd.DataFrame({"season": ["dry", "rainy", "dry"], "lawn": ["wet", "wet", None]})
    answers = ef.solve(graph, evidence=seen, targets=["rain"])
    assert answers.marginals["rain"][:, 1].round(4).tolist() == [0.1859, 0.9545, 0.1]
    assert len(answers.to_frame()) == 3
    drawn = ef.sample(graph, 50, seed=1).to_frame()
    assert list(drawn.columns) == ["season", "sprinkler", "rain", "lawn"]
    assert set(drawn["lawn"]) <= {"dry", "damp", "wet"}
    by_frame, by_file = ef.fit(graph, pd.read_csv("lawn.csv"), "counts"), ef.fit(graph, "lawn.csv", "counts")
    assert by_frame.graph == by_file.graph
