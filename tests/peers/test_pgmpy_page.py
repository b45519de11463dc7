"""docs/from-pgmpy.md: its statements about pgmpy hold, and data can be exchanged. Another test runs the page."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from page_blocks import run_page

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of the imports of pgmpy
    pytest.importorskip("pgmpy")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the names and files of the page."""
    monkeypatch.chdir(tmp_path)
    return run_page("docs/from-pgmpy.md", peers=True)


def test_em_of_pgmpy_makes_no_use_of_rows_with_gaps(names: dict[str, object]) -> None:
    import pandas as pd
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteEM, DiscreteMLE

    model, data = names["model"], pd.read_csv("gaps.csv")
    gaps, complete = DiscreteBayesianNetwork(model.edges()), DiscreteBayesianNetwork(model.edges())
    gaps.fit(data, DiscreteEM(state_names=model.states, seed=0, show_progress=False))
    complete.fit(data.dropna(), DiscreteMLE(state_names=model.states))
    for node in model.nodes():
        assert gaps.get_cpds(node) == complete.get_cpds(node)


@pytest.mark.usefixtures("names")
def test_a_pandas_frame_serves_as_data_and_as_evidence() -> None:
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
