"""The requests of the browser, answered by the page that is shown: a model, results or training logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.page.model_picture import Answer
from equifactor.page.model_questions import question
from equifactor.page.model_session import ModelSession
from equifactor.page.results_page import ResultsFolder
from equifactor.page.training_page import TrainingLogs
from equifactor.show.palette import page_palette

if TYPE_CHECKING:
    from equifactor.data import Instance

Page = ModelSession | ResultsFolder | TrainingLogs
_MOST_OPENED = 4  # models of a folder of results that stay in memory with their answers. Chosen by hand.


class UnknownRouteError(LookupError):
    """The address does not exist, or it belongs to a page that is not shown."""


class Viewer:
    """The page that is shown now. A page of results can open a model and go back."""

    def __init__(self, page: Page) -> None:
        self.first = self.page = page
        self._opened: dict[str, ModelSession] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Compute the layout before the first request: igraph holds the GIL and would block all other threads."""
        if isinstance(self.page, ModelSession):
            _ = self.page.picture.places, self.page.solvers

    def answer(self, verb: str, route: str, asked: Mapping[str, Any]) -> Answer:
        """Return the answer to a request; `verb` is GET or POST, `route` is what follows `api/`.

        Raises `UnknownRouteError` for an unknown route, and the errors of the package for wrong requests.
        """
        page = self.page
        found: Callable[[], Answer] | None = {
            ("GET", "session"): lambda: {**page.session(), "back": page is not self.first, "palette": page_palette()},
            ("POST", "open"): lambda: self._open(asked),
            ("POST", "back"): self._back,
        }.get((verb, route))
        if found is None:
            found = _routes(page, asked).get((verb, route))
        if found is None:
            raise UnknownRouteError(route)
        return found()

    def _open(self, asked: Mapping[str, Any]) -> Answer:
        if not isinstance(self.first, ResultsFolder):
            raise OptionError("A model can be opened only from a folder of results, and this page does not show one.")
        instance = self.first.instance(asked.get("model"))
        with self._lock:
            if instance.key not in self._opened:
                while len(self._opened) >= _MOST_OPENED:
                    self._opened.pop(next(iter(self._opened)))
                self._opened[instance.key] = model_of(instance)
            self.page = self._opened[instance.key]
        return self.answer("GET", "session", {})

    def _back(self) -> Answer:
        self.page = self.first
        return self.answer("GET", "session", {})


def model_of(instance: Instance) -> ModelSession:
    """Return the session of a model of a collection, with its evidence."""
    from equifactor.formats import read_evidence, read_graph

    graph = read_graph(instance.path).renamed(instance.key)
    evidence = {} if instance.evidence_path is None else read_evidence(instance.evidence_path, graph)
    return ModelSession(graph, title=instance.key, evidence=evidence)


def _routes(page: Page, asked: Mapping[str, Any]) -> dict[tuple[str, str], Callable[[], Answer]]:
    """Return the routes of one page."""
    if isinstance(page, ResultsFolder):
        return {("GET", "results"): page.results}
    if isinstance(page, TrainingLogs):
        return {("GET", "training"): lambda: page.training(asked.get("since", 0))}
    return {
        ("GET", "graph"): page.picture.graph_columns,
        ("GET", "factor"): lambda: page.picture.factor(asked.get("index")),
        ("GET", "symmetries"): page.symmetries,
        ("POST", "solve"): lambda: page.solve(asked),
        ("POST", "map"): lambda: page.best(asked),
        ("POST", "trace"): lambda: page.trace(asked),
        ("POST", "trace/at"): lambda: page.trace_at(asked),
        ("POST", "plan"): lambda: page.plan(asked),
        ("POST", "question"): lambda: question(page, asked),
    }
