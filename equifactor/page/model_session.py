"""What the page can ask about a model: its graph, answers by solver and evidence, iterations, plan, symmetries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor._version import __version__
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.base.status import Status, Task
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.structure import numbered
from equifactor.page.model_picture import Answer, ModelPicture
from equifactor.page.plain_json import number
from equifactor.questions.result import Result
from equifactor.questions.solve import solve
from equifactor.show.graph_display import one_line
from equifactor.solvers.elimination.plan import Plan, plan
from equifactor.solving.registry import SOLVERS, parse_solver, solver_names

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.page.message_trace import IterationTrace
    from equifactor.page.orbits import Orbits
    from equifactor.solving.solver import Progress

Request = Mapping[str, Any]

MOST_SECONDS = 30.0  # longest time limit of a request. Chosen by hand.
_SECONDS = 5.0  # time limit of a request that names none. Chosen by hand.
_MOST_BELIEFS = 2e6  # numbers of a trace that are sent at once. Chosen by hand.
_KEPT = 5e6  # numbers in all cached answers together. Chosen by hand.
PAGE_MEMORY = 4.0  # GiB for exact inference, the default of the solver
_MOST_WORK = 5e8  # limit of the work of planning, about five seconds
_QUICK = 0.5  # seconds of elimination, at each click, up to which the page starts with `exact`. Chosen by hand.


class SupersededError(Exception):
    """The page has repeated this request and no longer waits for this answer."""


class ModelSession:
    """One model and its cached answers. Requests may come from several threads at once."""

    def __init__(
        self, graph: FactorGraph, *, title: str = "", solver: str | None = None,
        evidence: Mapping[int, int] | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        """Open a session for a model.

        Args:
            graph: the model; its own evidence cannot be removed.
            title: title of the page; the name of the graph by default.
            solver: text of the solver that the page starts with.
            evidence: state by variable, both as numbers; the page starts with it and can remove it.
            seed: seeds the random numbers of solvers and layouts.
        """
        self.graph, self.seed, self.picture = graph, seed, ModelPicture(graph, seed)
        self.title = title or graph.name or "model"
        self.evidence = dict(self._checked({} if evidence is None else evidence))
        if solver is not None:
            parse_solver(solver)  # A wrong solver raises before the page opens.
        self._solver = solver
        self._kept: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._latest: dict[tuple[str, str, str], int] = {}
        self._asked = 0
        self._lock = threading.Lock()

    # ---- what it is -------------------------------------------------------------------------------------

    @cached_property
    def solvers(self) -> list[str]:
        """The solvers that the page offers; it starts with the first."""
        quick = self.plan_given({})
        exact = quick.fits(PAGE_MEMORY) and quick.seconds() < _QUICK
        offered = [*(["exact"] if exact else []), "bp(damping=0.5)", "bp", "fe-net", "fe-nbp"]
        offered += ["trw", "meanfield", *([] if exact else ["auto"])]
        offered += [name for name in solver_names() if name not in SOLVERS]  # solvers of the user
        return list(dict.fromkeys([*([self._solver] if self._solver else []), *offered]))

    def session(self) -> Answer:
        """Return what the page needs first."""
        return {
            "version": __version__, "mode": "model", "title": self.title, "readonly": False, "solvers": self.solvers,
            "solver": self.solvers[0], "evidence": {str(i): x for i, x in self.evidence.items()},
            "fixed": {str(i): x for i, x in self.graph.evidence.items()}, "summary": one_line(self.graph),
        }  # fmt: skip

    # ---- answers ----------------------------------------------------------------------------------------

    def solve(self, asked: Request) -> Answer:
        """Return marginals and ln Z of one solver given evidence, or how a solver without either answers MAP."""
        text, method = self.solver_of(asked)
        task = next(t for t in (Task.MAR, Task.PR, Task.MAP) if t in method.possible_tasks())
        result = self._result(asked, text, task)
        log_z = getattr(result, "log_z", None)
        return {
            "solver": text, "status": result.status.value, "message": _sentence(result),
            "answered": result.answered, "seconds": round(result.seconds, 6),
            "log_z": None if log_z is None else number(log_z), "log_z_error": number(result.log_z_error),
            "lower_bound": number(result.lower_bound), "upper_bound": number(result.upper_bound),
            "converged": result.status.solved, "iterations": result.iterations,
            "marginals": [p.tolist() for p in result.marginals] if hasattr(result, "marginals") else None,
            # The conditional distributions of a network sum to 1, so Z is the probability of the evidence.
            "log_evidence": number(log_z) if self.picture.children is not None and log_z is not None else None,
        }  # fmt: skip

    def best(self, asked: Request) -> Answer:
        """Return the most probable assignment of one solver given evidence."""
        text, _ = self.solver_of(asked)
        result = self._result(asked, text, Task.MAP)
        if not result.answered:
            raise SolveError(f"{text}: {_sentence(result)}")
        return {
            "solver": text, "status": result.status.value, "message": result.message or result.status.advice,
            "seconds": round(result.seconds, 6), "states": result.assignment, "score": number(result.log_score),
            "upper_bound": number(result.upper_bound),
        }  # fmt: skip

    def trace(self, asked: Request) -> Answer:
        """Return a run of one solver, iteration by iteration."""
        text, _ = self.solver_of(asked)
        found = self._trace(asked, text)
        best = self._likeliest(found)
        return {
            "solver": text, "status": found.status, "iterations": len(found.residuals),
            "residuals": np.round(found.residuals, 12),
            "beliefs": None if best.size > _MOST_BELIEFS else np.round(best.astype(float), 3),
            "marginals_at": None, "moving": found.moving, "complete": found.complete,
            "cycle": None if found.cycle is None else {"period": found.cycle[0], "since": found.cycle[1]},
        }  # fmt: skip

    def trace_at(self, asked: Request) -> Answer:
        """Return all marginals of one iteration, counted from 0."""
        text, _ = self.solver_of(asked)
        found = self._trace(asked, text)
        t = asked.get("t")
        if not isinstance(t, int) or isinstance(t, bool) or not 0 <= t < len(found.beliefs):
            raise OptionError(
                f"There is no iteration {brief(t)}; the run has {numbered(len(found.beliefs), 'iteration')}"
            )
        ptr = self.graph.structure.state_ptr.tolist()
        row = np.round(found.beliefs[t].astype(float), 7).tolist()
        return {"marginals": [row[a:b] for a, b in pairwise(ptr)]}

    def plan(self, asked: Request) -> Answer:
        """Return the cost of exact inference given evidence, and the order of elimination."""
        found = self.plan_given(self.evidence_of(asked))
        fits = found.fits(PAGE_MEMORY)
        text = str(found).replace("elimination", "Elimination", 1)
        text += "." if fits else f". Exact inference does not fit {PAGE_MEMORY:g} GiB."
        clusters = [(v, len(c)) for v, c in zip(found.order, found.clusters, strict=True) if v < self.graph.num_vars]
        return {
            "width": found.width, "largest_table": 2.0 ** min(found.log2_largest, 1000.0), "memory": found.memory,
            "order": [v for v, _ in clusters], "induced": [n for _, n in clusters], "operations": 2 * found.entries,
            "finished": found.finished, "fits": fits, "seconds": found.seconds(), "text": text,
        }  # fmt: skip

    def symmetries(self) -> Answer:
        """Return which variables and factors are interchangeable in the model without evidence."""
        return self._orbits.to_dict()

    def plan_given(self, evidence: Mapping[int, int]) -> Plan:
        """Return the plan of elimination given evidence."""

        def make() -> Plan:
            return plan(self.given(evidence), memory_limit=PAGE_MEMORY, most_work=_MOST_WORK)

        return self._remember(("plan", _key(evidence)), 4.0 * self.graph.num_vars, make)

    # ---- how they are found -----------------------------------------------------------------------------

    @cached_property
    def _orbits(self) -> Orbits:
        from equifactor.page.orbits import orbits_of

        return orbits_of(self.graph)

    def _result(self, asked: Request, text: str, task: Task) -> Result:
        evidence, seconds = self.evidence_of(asked), seconds_of(asked)

        def make() -> Result:
            return solve(
                self.given(evidence), task, text, time_limit=seconds, seed=self.seed,
                progress=self._turn(asked, task, text) or False,
            )  # fmt: skip

        key = task.value, text, _key(evidence)
        size = float(self.graph.structure.state_ptr[-1])
        # With more time, the answer may differ.
        return self._remember(key, size, make, lambda r: r.status not in (Status.TIME_LIMIT, Status.INTERRUPTED))

    def _trace(self, asked: Request, text: str) -> IterationTrace:
        from equifactor.page.message_trace import trace

        evidence, seconds = self.evidence_of(asked), seconds_of(asked, MOST_SECONDS)
        iterations = asked.get("iterations", 200)
        if not isinstance(iterations, int) or isinstance(iterations, bool) or not 1 <= iterations <= 10_000:
            raise OptionError(f"`iterations` must be a whole number from 1 to 10000, found {brief(iterations)}")

        def make() -> IterationTrace:
            turn = self._turn(asked, "trace", text)
            return trace(self.given(evidence), text, iterations=iterations, clock=Clock(seconds), progress=turn)

        size = iterations * float(self.graph.structure.state_ptr[-1])
        return self._remember(("trace", text, _key(evidence), iterations), min(size, _KEPT / 3), make)

    def _likeliest(self, found: IterationTrace) -> np.ndarray:
        """Return for every iteration [T, V] the probability of the state that is most probable in the last one."""
        if not len(found.beliefs):
            return np.zeros((0, self.graph.num_vars))
        ptr, last = self.graph.structure.state_ptr, found.beliefs[-1]
        top = np.repeat(np.maximum.reduceat(last, ptr[:-1]), np.diff(ptr))
        at = np.where(last == top, np.arange(len(last)), len(last))
        return np.asarray(found.beliefs[:, np.minimum.reduceat(at, ptr[:-1])])

    def _remember(
        self, key: Any, size: float, make: Callable[[], Any], keeps: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """Return the cached answer, or compute it and cache it if it fits; the least recently used is dropped first."""
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

    def _turn(self, asked: Request, what: str, text: str) -> Progress | None:
        """Return a function that is called during a run and ends it if the same client repeats the request."""
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

    def solver_of(self, asked: Request) -> tuple[str, Any]:
        """Return the text and the solver that a request names."""
        text = asked.get("solver", self.solvers[0])
        if not isinstance(text, str) or len(text) > 1000:
            raise OptionError(f'the solver must be a string such as "bp(damping=0.5)", found {brief(text)}')
        return text, parse_solver(text)

    def evidence_of(self, asked: Request) -> dict[int, int]:
        """Return the observations of a request; those that the page starts with if it has none."""
        given = asked.get("evidence")
        if given is None:
            return self.evidence
        if not isinstance(given, dict):
            raise OptionError(
                f'evidence must be a JSON object from variable to state, such as {{"3": 0}}, found {brief(given)}'
            )
        return self._checked(given)

    def variable_of(self, name: Any) -> int:
        """Return the number of a variable that a request names by its number."""
        text, count = str(name), self.graph.num_vars
        i = int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else -1
        if not 0 <= i < count:
            raise ModelError(f"The model has no variable {brief(name)}. It has {numbered(count, 'variable')}.")
        return i

    def _checked(self, given: Mapping[Any, Any]) -> dict[int, int]:
        """Return the evidence by number, in the order of the variables; raise `ModelError` if it is wrong."""
        card = self.graph.card
        found = {}
        for name, state in given.items():
            i = self.variable_of(name)
            label = f"variable {self.graph.structure.variable_name(i)}"
            whole = isinstance(state, (int, np.integer)) and not isinstance(state, bool)
            if not whole or not 0 <= state < card[i]:
                raise ModelError(
                    f"{label} has {numbered(int(card[i]), 'state')}, but the evidence gives state {brief(state)}"
                )
            if self.graph.evidence.get(i, state) != state:
                raise ModelError(
                    f"The model itself observes {label} in state {self.graph.evidence[i]}, not in state {state}"
                )
            found[i] = int(state)
        return dict(sorted(found.items()))

    def given(self, evidence: Mapping[int, int]) -> FactorGraph:
        """Return the model with observations."""
        return self.graph.condition(StateNumbers(evidence)) if evidence else self.graph


def seconds_of(asked: Request, default: float = _SECONDS) -> float:
    """Return the time limit of a request in seconds, at most `MOST_SECONDS`."""
    given = asked.get("seconds", default)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given >= 0:
        raise OptionError(f"`seconds` must be a number of at least 0, found {brief(given)}")
    return min(float(given), MOST_SECONDS)


def _sentence(result: Result) -> str:
    """Return what the page writes about a result."""
    told = result.message or result.status.advice
    if result.answered and result.task is Task.MAP:
        return f"This solver answers MAP only, so there are no marginals. {told}"
    if result.answered and result.task is Task.PR:
        return f"This solver answers PR only, so there are no marginals. {told}"
    if hasattr(result, "marginals") and not hasattr(result, "log_z"):
        told += " There is no estimate of ln Z."
    return told


def _key(evidence: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(evidence.items()))
