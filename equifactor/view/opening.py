"""What a path is, a model, results or a training log, and the page for it; `open_view` shows a graph from Python."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.evaluation.row_store import ROWS
from equifactor.graph.factor_graph import FactorGraph
from equifactor.questions.result import Result
from equifactor.solving.registry import MODEL_SUFFIX
from equifactor.view.model_session import ModelSession
from equifactor.view.page_server import PageServer
from equifactor.view.results_page import RESULTS, ResultsFolder
from equifactor.view.training_page import TrainingLogs, logs_in
from equifactor.view.viewer import Viewer


def open_view(shown: FactorGraph | Result, *, port: int | None = None, open_browser: bool = True) -> PageServer:
    """Show a graph, or the graph of a result with its solver, in the browser; for notebooks and programs.

    Args:
        shown: the graph, or what `solve` returned.
        port: of this machine; None takes a free one.
        open_browser: False only serves the page.

    Returns:
        The server: `url` is the address, and `close()` ends it. It also ends with the program.

    Examples:
        >>> import equifactor as ef
        >>> page = ef.open_view(ef.generators.ising_grid(3, 3), open_browser=False)
        >>> page.url.startswith("http://127.0.0.1:")
        True
        >>> page.close()
    """
    if isinstance(shown, Result):
        session = ModelSession(shown.graph, solver=shown.solver)
    elif isinstance(shown, FactorGraph):
        session = ModelSession(shown)
    else:
        raise ModelError(f"open_view shows a FactorGraph or a Result, found {brief(shown)}")
    viewer = Viewer(session)
    viewer.prepare()
    server = PageServer(viewer, port)
    server.start()
    if open_browser:
        browse(server.url)
    return server


def browse(url: str) -> bool:
    """Open an address in a browser with windows; False where there is none, or only one inside the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:  # It would take the terminal over.
        return False
    try:
        return browser.open(url)
    except (OSError, webbrowser.Error):
        return False


def collection_page(path: str, models: str | None = None) -> ResultsFolder | TrainingLogs | None:
    """The page of a folder or log; None for anything else, which is then a model."""
    place = Path(path)
    if place.is_dir():
        if (place / RESULTS).is_file() or (place / ROWS).is_file():
            return ResultsFolder(place, models)
        if logs_in(place):
            return TrainingLogs(place)
        raise FormatError(
            f"{path}: expected a model file, a folder of results ({RESULTS} or {ROWS}), or one with training logs "
            "(*.jsonl); found none of these"
        )
    if place.name in (RESULTS, ROWS, "results.csv"):
        return ResultsFolder(place.parent, models)
    if place.suffix == MODEL_SUFFIX:
        log = place.with_suffix(".jsonl")
        if not log.is_file():
            raise FormatError(f"{path}: there is no training log {log.name} beside it; equifactor model shows the file")
        return TrainingLogs(log)
    return TrainingLogs(place) if place.suffix == ".jsonl" else None
