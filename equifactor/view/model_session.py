"""What the page can ask about a model: its graph, answers by solver and evidence, iterations, plan, symmetries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor._version import __version__
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.base.status import Status, Task
from equifactor.graph import display
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.structure import numbered
from equifactor.questions.result import Result
from equifactor.questions.solve import solve
from equifactor.solvers.elimination.plan import Plan, plan
from equifactor.solving.registry import SOLVERS, parse_solver, solver_names
from equifactor.view.model_picture import Answer, ModelPicture
from equifactor.view.plain_json import number

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Progress
    from equifactor.view.message_trace import IterationTrace
    from equifactor.view.orbits import Orbits

Question = Mapping[str, Any]

MOST_SECONDS = 30.0
_SECONDS = 5.0  # where a question names no limit
_MOST_BELIEFS = 2e6  # numbers of a trace that are sent at once
_KEPT = 5e6  # numbers in all answers that are kept
_MEMORY = 4.0  # GiB for exact inference, as the solver itself has it
_MOST_WORK = 5e8  # of planning, about five seconds
_QUICK = 2.0  # An elimination of more seconds is not what the page begins with.


class SupersededError(Exception):
    """The page has asked the same anew and no longer waits for this answer."""


class ModelSession:
    """One model and the answers found for it so far. Questions may come from several threads at once."""

    def __init__(
        self, graph: FactorGraph, *, title: str = "", solver: str | None = None,
        evidence: Mapping[int, int] | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        """Take a model.

        Args:
            graph: the model; what it has observed itself stays observed.
            title: what the page is called; the name of the graph by default.
            solver: the text of the solver the page begins with.
            evidence: the observations the page begins with, which can be taken back, both by number.
            seed: of solvers and layouts that draw random numbers.
        """
        self.graph, self.seed, self.picture = graph, seed, ModelPicture(graph, seed)
        self.title = title or graph.name or "model"
        self.evidence = dict(self._checked({} if evidence is None else evidence))
        if solver is not None:
            parse_solver(solver)  # A wrong one is named before the page opens.
        self._solver = solver
        self._kept: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._latest: dict[tuple[str, str, str], int] = {}
        self._asked = 0
        self._lock = threading.Lock()

    # ---- what it is -------------------------------------------------------------------------------------

    @cached_property
    def solvers(self) -> list[str]:
        """The solvers that the page offers, the one it begins with first."""
        quick = self.plan_given({})
        exact = quick.fits(_MEMORY) and quick.seconds() < _QUICK
        offered = [*(["exact"] if exact else []), "bp(damping=0.5)", "bp"]
        if find_spec("torch") is not None:
            offered += ["fe-net", "fe-nbp"]
        offered += ["trw", "meanfield", *([] if exact else ["auto"])]
        offered += [name for name in solver_names() if name not in SOLVERS]  # of the user
        return list(dict.fromkeys([*([self._solver] if self._solver else []), *offered]))

    def session(self) -> Answer:
        """What the page must know first."""
        return {
            "version": __version__, "mode": "model", "title": self.title, "readonly": False, "solvers": self.solvers,
            "solver": self.solvers[0], "evidence": {str(i): x for i, x in self.evidence.items()},
            "fixed": {str(i): x for i, x in self.graph.evidence.items()}, "summary": display.one_line(self.graph),
        }  # fmt: skip

    # ---- answers ----------------------------------------------------------------------------------------

    def solve(self, asked: Question) -> Answer:
        """Marginals and ln Z by one solver given evidence."""
        text, method = self._solver_of(asked)
        task = next((t for t in (Task.MAR, Task.PR) if t in method.possible_tasks()), None)
        if task is None:
            method.check_task(Task.MAR)  # This says what it can do instead.
        result = self._result(asked, text, task or Task.MAR)
        log_z = result.log_z
        return {
            "solver": text, "status": result.status.value, "message": result.message or result.status.advice,
            "seconds": round(result.seconds, 6), "log_z": None if log_z is None else number(log_z),
            "log_z_error": number(result.log_z_error), "lower_bound": number(result.lower_bound),
            "upper_bound": number(result.upper_bound), "converged": result.status.solved,
            "iterations": result.iterations, "map": None,
            "marginals": None if result.marginals is None else [p.tolist() for p in result.marginals],
            # The distributions of a network sum to 1, so that what is left of the sum is the probability of evidence.
            "log_evidence": number(log_z) if self.picture.children is not None and log_z is not None else None,
        }  # fmt: skip

    def best(self, asked: Question) -> Answer:
        """The most probable assignment by one solver given evidence."""
        text, _ = self._solver_of(asked)
        result = self._result(asked, text, Task.MAP)
        if result.assignment is None:
            raise SolveError(f"{text}: {result.message or result.status.advice}")
        return {
            "solver": text, "status": result.status.value, "message": result.message or result.status.advice,
            "seconds": round(result.seconds, 6), "states": result.assignment, "score": number(result.log_score),
            "upper_bound": number(result.upper_bound),
        }  # fmt: skip

    def trace(self, asked: Question) -> Answer:
        """A run of one solver, iteration by iteration."""
        text, _ = self._solver_of(asked)
        found = self._trace(asked, text)
        best = self._likeliest(found)
        return {
            "solver": text, "status": found.status, "iterations": len(found.residuals),
            "residuals": np.round(found.residuals, 12),
            "beliefs": None if best.size > _MOST_BELIEFS else np.round(best.astype(float), 3),
            "marginals_at": None, "moving": found.moving,
            "cycle": None if found.cycle is None else {"period": found.cycle[0], "since": found.cycle[1]},
        }  # fmt: skip

    def trace_at(self, asked: Question) -> Answer:
        """All marginals of one iteration, counted from 0."""
        text, _ = self._solver_of(asked)
        found = self._trace(asked, text)
        t = asked.get("t")
        if not isinstance(t, int) or isinstance(t, bool) or not 0 <= t < len(found.beliefs):
            raise OptionError(
                f"there is no iteration {brief(t)}; the run has {numbered(len(found.beliefs), 'iteration')}"
            )
        ptr = self.graph.structure.state_ptr.tolist()
        row = np.round(found.beliefs[t].astype(float), 7).tolist()
        return {"marginals": [row[a:b] for a, b in pairwise(ptr)]}

    def plan(self, asked: Question) -> Answer:
        """What exact inference costs given evidence, and the order of elimination."""
        found = self.plan_given(self._evidence_of(asked))
        clusters = [(v, len(c)) for v, c in zip(found.order, found.clusters, strict=True) if v < self.graph.num_vars]
        return {
            "width": found.width, "largest_table": 2.0 ** min(found.log2_largest, 1000.0), "memory": found.memory,
            "order": [v for v, _ in clusters], "induced": [n for _, n in clusters], "operations": 2 * found.entries,
            "fits": found.fits(_MEMORY), "seconds": found.seconds(), "text": f"{found}.",
        }  # fmt: skip

    def symmetries(self) -> Answer:
        """Which variables and factors are interchangeable in the model without evidence."""
        return self._orbits.to_dict()

    def plan_given(self, evidence: Mapping[int, int]) -> Plan:
        """The plan of elimination given evidence."""

        def make() -> Plan:
            return plan(self._given(evidence), memory_limit=_MEMORY, most_work=_MOST_WORK)

        return self._remember(("plan", _key(evidence)), 4.0 * self.graph.num_vars, make)

    # ---- how they are found -----------------------------------------------------------------------------

    @cached_property
    def _orbits(self) -> Orbits:
        from equifactor.view.orbits import orbits_of

        return orbits_of(self.graph)

    def _result(self, asked: Question, text: str, task: Task) -> Result:
        evidence, seconds = self._evidence_of(asked), seconds_of(asked)

        def make() -> Result:
            return solve(
                self._given(evidence), task, text, time_limit=seconds, seed=self.seed,
                progress=self._turn(asked, task, text) or False,
            )  # fmt: skip

        key = task.value, text, _key(evidence)
        size = float(self.graph.structure.state_ptr[-1])
        # With more time the answer may be another one.
        return self._remember(key, size, make, lambda r: r.status not in (Status.TIME_LIMIT, Status.INTERRUPTED))

    def _trace(self, asked: Question, text: str) -> IterationTrace:
        from equifactor.view.message_trace import trace

        evidence, seconds = self._evidence_of(asked), seconds_of(asked, MOST_SECONDS)
        iterations = asked.get("iterations", 200)
        if not isinstance(iterations, int) or isinstance(iterations, bool) or not 1 <= iterations <= 10_000:
            raise OptionError(f"iterations must be a whole number from 1 to 10000, found {brief(iterations)}")

        def make() -> IterationTrace:
            turn = self._turn(asked, "trace", text)
            return trace(self._given(evidence), text, iterations=iterations, clock=Clock(seconds), progress=turn)

        size = iterations * float(self.graph.structure.state_ptr[-1])
        return self._remember(("trace", text, _key(evidence), iterations), min(size, _KEPT / 3), make)

    def _likeliest(self, found: IterationTrace) -> np.ndarray:
        """[T, V] in every iteration, the probability of the state that is most probable in the last one."""
        if not len(found.beliefs):
            return np.zeros((0, self.graph.num_vars))
        ptr, last = self.graph.structure.state_ptr, found.beliefs[-1]
        top = np.repeat(np.maximum.reduceat(last, ptr[:-1]), np.diff(ptr))
        at = np.where(last == top, np.arange(len(last)), len(last))
        return np.asarray(found.beliefs[:, np.minimum.reduceat(at, ptr[:-1])])

    def _remember(
        self, key: Any, size: float, make: Callable[[], Any], keeps: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """An answer from memory, or found now and kept where it fits; the one used longest ago is forgotten first."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        answer = make()
        if keeps(answer) and size < _KEPT / 2:
            with self._lock:
                self._kept[key] = size, answer
                while sum(s for s, _ in self._kept.values()) > _KEPT or len(self._kept) > 2000:
                    self._kept.popitem(last=False)
        return answer

    def _turn(self, asked: Question, what: str, text: str) -> Progress | None:
        """A function that is called during the run and ends it where the same client has asked the same anew."""
        client = asked.get("client")
        if client is None:
            return None
        key = str(client)[:64], what, text
        with self._lock:
            self._asked += 1
            if len(self._latest) > 1000:
                self._latest.clear()
            mine = self._latest[key] = self._asked

        def look(done: int, total: int | None, note: str) -> None:
            if self._latest.get(key, mine) != mine:
                raise SupersededError

        return look

    def _solver_of(self, asked: Question) -> tuple[str, Any]:
        text = asked.get("solver", self.solvers[0])
        if not isinstance(text, str) or len(text) > 1000:
            raise OptionError(f'the solver must be a text such as "bp(damping=0.5)", found {brief(text)}')
        return text, parse_solver(text)

    def _evidence_of(self, asked: Question) -> dict[int, int]:
        given = asked.get("evidence")
        if given is None:
            return self.evidence
        if not isinstance(given, dict):
            raise OptionError(
                f'evidence must be an object from variable to state, such as {{"3": 0}}, found {brief(given)}'
            )
        return self._checked(given)

    def _checked(self, given: Mapping[Any, Any]) -> dict[int, int]:
        """Evidence by number, in the order of the variables, without what the graph has observed itself."""
        card = self.graph.card
        found = {}
        for name, state in given.items():
            text = str(name)
            i = int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else -1
            if not 0 <= i < len(card):
                raise ModelError(f"there is no variable {brief(name)}; the model has {numbered(len(card), 'variable')}")
            whole = isinstance(state, (int, np.integer)) and not isinstance(state, bool)
            if not whole or not 0 <= state < card[i]:
                raise ModelError(f"variable {i} has {numbered(int(card[i]), 'state')}; evidence says {brief(state)}")
            if self.graph.evidence.get(i, state) != state:
                raise ModelError(f"variable {i} is already observed in state {self.graph.evidence[i]}, not {state}")
            found[i] = int(state)
        return dict(sorted(found.items()))

    def _given(self, evidence: Mapping[int, int]) -> FactorGraph:
        return self.graph.condition(StateNumbers(evidence)) if evidence else self.graph


def seconds_of(asked: Question, default: float = _SECONDS) -> float:
    """The time limit of a question, at most half a minute."""
    given = asked.get("seconds", default)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given >= 0:
        raise OptionError(f"seconds must be a number >= 0, found {brief(given)}")
    return min(float(given), MOST_SECONDS)


def _key(evidence: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(evidence.items()))
