"""The questions of the browser and who answers them: a model, results or training logs, whichever is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.view.model_picture import Answer
from equifactor.view.model_session import ModelSession
from equifactor.view.results_page import ResultsFolder
from equifactor.view.training_page import TrainingLogs

if TYPE_CHECKING:
    from equifactor.data import Instance

Page = ModelSession | ResultsFolder | TrainingLogs
_MOST_OPENED = 4  # So many models of a folder of results are kept with their answers.


class UnknownQuestionError(LookupError):
    """There is no such address, or it belongs to another page than the one shown."""


class Viewer:
    """What is shown now. From results the page can go into a model and back."""

    def __init__(self, page: Page) -> None:
        self.first = self.page = page
        self._opened: dict[str, ModelSession] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Do before the first question what would hold up all others: igraph does not share the processor."""
        if isinstance(self.page, ModelSession):
            _ = self.page.picture.places, self.page.solvers

    def answer(self, verb: str, route: str, asked: Mapping[str, Any]) -> Answer:
        """The answer to a question: `verb` is GET or POST, `route` what follows `api/`.

        Raises `UnknownQuestionError` where there is none, and the errors of the package for wrong questions.
        """
        page = self.page
        found: Callable[[], Answer] | None = {
            ("GET", "session"): lambda: {**page.session(), "back": page is not self.first},
            ("POST", "open"): lambda: self._open(asked),
            ("POST", "back"): self._back,
        }.get((verb, route))
        if found is None:
            found = _routes(page, asked).get((verb, route))
        if found is None:
            raise UnknownQuestionError(route)
        return found()

    def _open(self, asked: Mapping[str, Any]) -> Answer:
        if not isinstance(self.first, ResultsFolder):
            raise OptionError("models are opened from a folder of results, and this page shows something else")
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
    """The session of a model of a collection, with its evidence."""
    from equifactor.formats import read_evidence, read_graph

    graph = read_graph(instance.path).renamed(instance.key)
    evidence = {} if instance.evidence_path is None else read_evidence(instance.evidence_path, graph)
    return ModelSession(graph, title=instance.key, evidence=evidence)


def _routes(page: Page, asked: Mapping[str, Any]) -> dict[tuple[str, str], Callable[[], Answer]]:
    """The questions that one page answers."""
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
    }
