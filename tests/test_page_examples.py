"""The examples of pages under docs/ print what their comments show."""

from __future__ import annotations

import ast
import json
import re
import warnings
from operator import attrgetter
from pathlib import Path

import pytest

import equifactor as ef

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("crf", "factors", "fit", "interop", "notebooks", "questions", "view")  # every example stands on its own
STORIES = (
    "auto",
    "factor-graphs",
    "formats",
    "index",
    "many",
    "networks",
    "start",
    "trust",
)  # examples go on from those before
PEERS = ("pgmpy", "pyagrum", "torch_geometric")


def examples(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def peer_of(example: str) -> str | None:
    return next((peer for peer in PEERS if re.search(rf"^(import|from) {peer}\b", example, re.MULTILINE)), None)


def cases() -> list:
    marks = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
    return [
        pytest.param(page, example, id=f"{page}-{n}", marks=marks if peer_of(example) else [])
        for page in PAGES
        for n, example in enumerate(examples(page))
    ]


def run(page: str, example: str, names: dict[str, object]) -> None:
    exec(compile(example, f"docs/{page}.md", "exec", dont_inherit=True), names)


def said(example: str) -> list[str]:
    return re.findall(r"^# (.*)$", example, re.MULTILINE)


@pytest.mark.parametrize(("page", "example"), cases())
def test_an_example_prints_what_it_says(page: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer = "pandas" if "to_frame" in example else peer_of(example)
    if peer is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its imports
            pytest.importorskip(peer)
    capsys.readouterr()
    run(page, example, {})
    assert said(example)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == said(example)


@pytest.mark.parametrize("page", STORIES)
def test_a_story_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert any(map(said, examples(page)))
    for example in examples(page):
        run(page, example, names)
        assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == said(example)


@pytest.mark.parametrize("page", sorted(path.relative_to(DOCS).as_posix()[:-3] for path in DOCS.rglob("*.md")))
def test_names_in_examples_exist(page: str) -> None:
    """Also in examples that are too slow to run, or need data or a GPU."""
    for example in examples(page):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.Attribute) and re.fullmatch(r"ef(\.\w+)+", ast.unparse(node)):
                attrgetter(ast.unparse(node).partition(".")[2])(ef)  # raises if a name does not exist


def test_the_layer_of_belief_propagation_has_gradients() -> None:
    pytest.importorskip("torch")
    example = next(text for text in examples("learned") if "ef.beliefs(" in text)
    names: dict[str, object] = {}
    run("learned", example, names)
    assert names["tables"].grad.isfinite().all()


@pytest.fixture
def public_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `models` of the form of the public collections, with one small grid."""
    graph = ef.generators.ising_grid(3, 3, seed=0)
    folder = tmp_path / "models" / "Grids"
    folder.mkdir(parents=True)
    ef.write_graph(graph, folder / "small.uai")
    best = ef.solve(graph, "MAP", "exact").log_score
    entry = {"collection": "Grids", "name": "small", "split": "test", "map_log_score": best}
    (folder.parent / "index.json").write_text(json.dumps([entry]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("public_models")
def test_public_models_are_read_as_on_their_page(capsys: pytest.CaptureFixture[str]) -> None:
    run("data", examples("data")[0], {})
    assert capsys.readouterr().out.startswith("Grids/small test None ")


@pytest.mark.slow
@pytest.mark.usefixtures("public_models")
def test_solvers_are_compared_as_on_their_page() -> None:
    names: dict[str, object] = {}
    run("evaluate", examples("evaluate")[0], names)
    assert names["rows"]
