"""Questions about a model that the page answers with a table: k best, marginal MAP, findings, sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError, SolveError, brief
from equifactor.base.status import Status, Task
from equifactor.page.model_session import PAGE_MEMORY, ModelSession
from equifactor.page.plain_json import number
from equifactor.questions.findings import findings
from equifactor.questions.information import most_informative
from equifactor.questions.k_best import k_best
from equifactor.questions.sensitivity import sensitivity
from equifactor.questions.solve import solve

if TYPE_CHECKING:
    from equifactor.page.model_picture import Answer

MOST_SECONDS = 10.0  # Seconds that the runs of one question may take. Chosen by hand.
_MOST_BEST, _COLUMNS = 100, 8  # Most assignments, and most variables beside each. Chosen by hand.
_LEAST = 1e-12  # Change of a probability that is more than rounding.
_ROWS, _BARS = 20, 12  # Rows of a ranking, and bars of a tornado plot. Chosen by hand.

Request = Mapping[str, Any]


def question(session: ModelSession, asked: Request) -> Answer:
    """Return the answer to one question: a sentence, titles, and rows of cells.

    A title or a cell is a text, a number, `{"variable": i}` or `{"state": [i, x]}`: the page has their names.
    """
    what = asked.get("what")
    ask = _QUESTIONS.get(what) if isinstance(what, str) else None
    if ask is None:
        raise OptionError(f"`what` must be one of {', '.join(_QUESTIONS)}, found {brief(what)}")
    return ask(session, asked)


def _best(session: ModelSession, asked: Request) -> Answer:
    """Return the k best assignments, with the variables in which they differ."""
    k, apart = _count(asked, "k", 10, _MOST_BEST), _count(asked, "apart", 1, max(1, session.graph.num_vars))
    given = session.evidence_of(asked)
    graph = session.given(given)
    found = k_best(graph, k, apart=apart, time_limit=MOST_SECONDS, seed=session.seed)
    shown = found.shown_variables(_COLUMNS)
    p = found.probabilities if session.plan_given(given).fits(PAGE_MEMORY) else None
    titles = ["rank", "log score", *([] if p is None else ["probability"]), *({"variable": i} for i in shown)]
    rows = [
        [n + 1, number(score), *([] if p is None else [float(p[n])]), *({"state": [i, int(x[i])]} for i in shown)]
        for n, (score, x) in enumerate(zip(found.log_scores.tolist(), found.states, strict=True))
    ]
    told = f"{found.guarantee} {found.columns_shown(_COLUMNS)}".strip()
    return {"text": told, "titles": titles, "rows": rows}


def _best_sum(session: ModelSession, asked: Request) -> Answer:
    """Return the marginal MAP of the variables that the page names."""
    query = asked.get("query")
    if not isinstance(query, list) or not query:
        raise OptionError("Choose the variables whose most probable joint states you want to know.")
    given = session.evidence_of(asked)
    chosen = [session.variable_of(name) for name in dict.fromkeys(map(str, query))]
    found = solve(session.given(given), Task.MMAP, query=chosen, time_limit=MOST_SECONDS, seed=session.seed)
    if not found.answered:
        raise SolveError(found.message or found.status.advice)
    score, high = number(getattr(found, "log_score", None)), number(found.upper_bound)
    value = f"The log of the sum is {score:.4f}" if isinstance(score, float) else "The sum is not known"
    proven = found.status in (Status.OPTIMAL, Status.EXACT)
    bound = "" if proven or not isinstance(high, float) else f", and at most {high:.4f} for any states"
    rows = [[{"variable": i}, {"state": [i, int(found.assignment[i])]}] for i in chosen]
    return {"text": f"{value}{bound} ({found.status}).", "titles": ["variable", "state"], "rows": rows}


def _next(session: ModelSession, asked: Request) -> Answer:
    """Return the variables that would tell most about the target."""
    target, text = _target(session, asked), _solver(session, asked)
    given = session.given(session.evidence_of(asked))
    found = most_informative(given, target, solver=text, time_limit=MOST_SECONDS)
    graph, entropy = session.graph, found.entropy
    ranked = [(graph.variable(name), found[name]) for name in list(found)[:_ROWS]]
    rows = [[{"variable": i}, nats, nats / entropy if entropy else 0.0] for i, nats in ranked]
    said = f"The target has an entropy of {entropy:.4f} nats. An observation is expected to remove this much of it "
    said += f"({text}: {found.status})."
    return {"text": said, "titles": ["observe", "information", "share"], "rows": rows}


def _support(session: ModelSession, asked: Request) -> Answer:
    """Return what each observation adds to the probability of the most probable state of the target."""
    target, text = _target(session, asked), _solver(session, asked)
    given = session.evidence_of(asked)
    if not given:
        raise OptionError("Nothing is observed yet, so there is nothing that supports an answer.")
    _check_time(session, asked, 2 * len(given) + 2)
    s = session.graph.structure
    names = {s.variable_names[i] if s.variable_names else i: s.states_of(i)[x] for i, x in given.items()}
    found = findings(session.graph, target, evidence=names, solver=text)
    rows = []
    for row in found:
        i = session.graph.variable(row.variable)
        rows.append([{"variable": i}, {"state": [i, given[i]]}, row.without, row.change, row.conflict])
    return {
        "text": f"p({found.target} = {found.state}) = {found.probability:.4f}, and {found.prior:.4f} without "
        f"observations. Conflict between them: {found.conflict:+.3f}; above 0 they contradict each other "
        f"({text}: {found.status}).",
        "titles": ["observation", "state", "without it", "change", "conflict"], "rows": rows,
    }  # fmt: skip


def _influence(session: ModelSession, asked: Request) -> Answer:
    """Return the numbers of the model with the largest influence on the target, with the ends of their bars."""
    target, given = _target(session, asked), session.evidence_of(asked)
    cost = session.plan_given(given)
    states = int(session.graph.card[session.graph.variable(target)])
    if not cost.fits(PAGE_MEMORY) or states * cost.seconds() > MOST_SECONDS:
        raise SolveError("Sensitivity needs exact inference, which is too expensive for this model.")
    s = session.graph.structure
    names = {s.variable_names[i] if s.variable_names else i: s.states_of(i)[x] for i, x in given.items()}
    found = sensitivity(session.graph, target, evidence=names)
    bars = found.tornado(rows=_BARS)
    rows = [[row.name, row.value, row.derivative, row.turning, low, high] for row, low, high in bars
            if abs(high - low) > _LEAST]  # fmt: skip
    smallest = found.smallest_change
    turns = "" if smallest is None else f" The smallest change that turns it: {smallest.name} = {smallest.turning:.4g}."
    return {
        "text": f"p({found.target} = {found.state}) = {found.probability:.4f}. Bars: its value if one number of the "
        f"model is 10 % smaller or larger.{turns}",
        "titles": ["entry", "value", "derivative", "turns at"], "rows": rows, "bars": True,
        "middle": found.probability,
    }  # fmt: skip


_QUESTIONS: dict[str, Callable[[ModelSession, Request], Answer]] = {
    "best": _best, "next": _next, "support": _support, "influence": _influence, "best-sum": _best_sum,
}  # fmt: skip


def _count(asked: Request, name: str, default: int, most: int) -> int:
    value = asked.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise OptionError(f"`{name}` must be a whole number from 1 to {most}, found {brief(value)}")
    return value


def _target(session: ModelSession, asked: Request) -> int | str:
    """Return the name of the target, which must not be observed."""
    target = asked.get("target")
    if target is None:
        raise OptionError("Click the variable that you want to know about.")
    i = session.variable_of(target)
    s = session.graph.structure
    if i in session.evidence_of(asked) or i in session.graph.evidence:
        raise OptionError(f"{s.variable_name(i)} is observed. Click a variable that is not.")
    return s.variable_names[i] if s.variable_names else i


def _solver(session: ModelSession, asked: Request) -> str:
    """Return the text of a solver for marginals."""
    text, method = session.solver_of(asked)
    if Task.MAR not in method.possible_tasks():
        raise OptionError(f"{text} does not compute marginals. Choose another solver.")
    return text


def _check_time(session: ModelSession, asked: Request, runs: int) -> None:
    """Raise `SolveError` if this number of runs of the solver would take too long."""
    seconds = runs * float(session.solve(asked)["seconds"])
    if seconds > MOST_SECONDS:
        raise SolveError(f"{runs} runs of this solver would take about {seconds:.2g} s. Choose a quicker one.")
