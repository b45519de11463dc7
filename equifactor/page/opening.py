"""The page for a path: a model, results or a training log. `open_view` shows a graph from Python."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.evaluation.row_store import ROWS
from equifactor.graph.factor_graph import FactorGraph
from equifactor.page.model_session import ModelSession
from equifactor.page.page_server import PageServer
from equifactor.page.results_page import RESULTS, ResultsFolder
from equifactor.page.training_page import TrainingLogs, logs_in
from equifactor.page.viewer import Viewer
from equifactor.questions.result import Result
from equifactor.solving.registry import MODEL_SUFFIX


@checks_types("port", "open_browser")
def open_view(shown: FactorGraph | Result, *, port: int | None = None, open_browser: bool = True) -> PageServer:
    """Show a graph, or the graph and the solver of a result, in the browser; for notebooks and programs.

    Args:
        shown: a graph, or a result of `solve`.
        port: port of this machine; None takes any free port.
        open_browser: whether to open a browser; False only starts the server.

    Returns:
        The server: `url` is its address, and `close()` stops it. It also stops at the end of the program.

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
        raise ModelError(f"open_view expects a FactorGraph or a Result, found {brief(shown)}.")
    viewer = Viewer(session)
    viewer.prepare()
    server = PageServer(viewer, port)
    server.start()
    if open_browser:
        browse(server.url)
    return server


def browse(url: str) -> bool:
    """Open an address in a browser with windows; return False if only a text browser or no browser is installed."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:  # This browser would run inside the terminal.
        return False
    try:
        return browser.open(url)
    except (OSError, webbrowser.Error):
        return False


def collection_page(path: str, models: str | None = None) -> ResultsFolder | TrainingLogs | None:
    """Return the page of a folder or a log; None for anything else, which is then a model."""
    place = Path(path)
    if place.is_dir():
        if (place / RESULTS).is_file() or (place / ROWS).is_file():
            return ResultsFolder(place, models)
        if logs_in(place):
            return TrainingLogs(place)
        raise FormatError(
            f"{path}: expected a model file, a folder of results ({RESULTS} or {ROWS}), or a folder of training logs "
            "(*.jsonl); found a folder without any of these files."
        )
    if place.name in (RESULTS, ROWS, "results.csv"):
        return ResultsFolder(place.parent, models)
    if place.suffix == MODEL_SUFFIX:
        log = place.with_suffix(".jsonl")
        if not log.is_file():
            raise FormatError(
                f"{path}: the training log {log.name} is missing beside it. To describe the file itself, use "
                "equifactor model."
            )
        return TrainingLogs(log)
    return TrainingLogs(place) if place.suffix == ".jsonl" else None
