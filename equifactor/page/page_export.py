"""The page as one file that works without a server: style, scripts and answers to the requests that it may send."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.clock import Clock
from equifactor.base.errors import EquifactorError, FormatError
from equifactor.base.files import check_writable, write_text
from equifactor.page.model_picture import Answer
from equifactor.page.model_session import ModelSession
from equifactor.page.page_server import PAGE
from equifactor.page.plain_json import as_json
from equifactor.page.results_page import ResultsFolder
from equifactor.show.palette import page_palette

if TYPE_CHECKING:
    from equifactor.page.viewer import Viewer
    from equifactor.solving.solver import Progress

_SECONDS = 20.0  # time for all answers together. Chosen by hand.
_EACH = 5.0  # seconds for one answer. Chosen by hand.
_QUICK = 0.02  # seconds of a solver that also answers every single observation. Chosen by hand.
_MOST_VARIABLES = 60  # variables of a model whose single observations are all answered. Chosen by hand.
_MOST_FACTORS = 2000  # factors of a model whose tables go into the file. Chosen by hand.
_MOST_STEPS = 4e4  # iterations x variables of a run whose iterations all go into the file. Chosen by hand.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_STYLE = re.compile(r'<link rel="stylesheet" href="\./([\w./-]+\.css)">')
_SCRIPT = re.compile(r'<script src="\./([\w./-]+\.js)" defer></script>')
_MODULE = re.compile(r'<script type="module" src="\./([\w./-]+\.js)"></script>')
_IMPORT = re.compile(r'^import .*from "\./([\w./-]+\.js)";$')

Evidence = dict[int, int]


def export(viewer: Viewer, path: str, progress: Progress | None = None) -> list[str]:
    """Write the page of a viewer into one file, completely or not at all; return what the file lacks, in sentences.

    Args:
        viewer: the viewer of the page.
        path: the HTML file.
        progress: called with the number of finished answers and of all answers.
    """
    check_writable(path)
    page = viewer.page
    data: dict[str, Any]
    lacks: list[str] = []
    if isinstance(page, ModelSession):
        data, lacks = _model_answers(page, progress)
    elif isinstance(page, ResultsFolder):
        found = page.results()
        data = {"session": page.session(), "results": {**found, "models": _without_paths(found["models"])}}
    else:
        data = {"session": page.session(), "training": {"runs": _without_paths(page.training()["runs"])}}
    title = Path(data["session"]["title"]).name
    data["session"] = {**data["session"], "title": title, "readonly": True, "back": False, "palette": page_palette()}
    write_text(path, one_file(data))
    return lacks


def _without_paths(rows: list[Answer]) -> list[Answer]:
    """Remove the folders of this machine, which mean nothing to readers of the file."""
    return [{**row, "path": None} for row in rows]


def one_file(data: Answer) -> str:
    """Return the HTML of the page with everything in it; `data` holds the answers to its requests."""
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    # Text of a model cannot end the element, because every < is escaped.
    held = as_json(data).replace("<", "\\u003c")
    head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    element = f'<script type="application/json" id="equifactor-data">{held}</script>'
    text = _STYLE.sub(lambda m: f"<style>\n{_part(m[1])}</style>", text)
    scripts = "".join(f"<script>\n{_part(name)}</script>\n" for name in _SCRIPT.findall(text))
    modules = "".join(f'<script type="module">\n{joined_modules(name)}</script>\n' for name in _MODULE.findall(text))
    text = _MODULE.sub("", _SCRIPT.sub("", text))
    text = re.sub(r"<head>", lambda m: f"{m[0]}\n{head}", text, count=1)
    # At the end of the body, a classic script finds the whole page, as a deferred one does.
    return re.sub(r"</body>", lambda m: f"{element}\n{scripts}{modules}{m[0]}", text, count=1)


def joined_modules(name: str) -> str:
    """Return a module joined with the modules that it imports, imported ones first; names must be unique."""
    done: dict[str, str] = {}

    def add(module: str) -> None:
        if module in done:
            return
        done[module] = ""
        lines = []
        for line in _part(module).splitlines():
            if (found := _IMPORT.match(line)) is not None:
                add((Path(module).parent / found[1]).as_posix())
            else:
                lines.append(re.sub(r"^export ", "", line))
        done[module] = done.pop(module) + "\n".join(lines) + "\n"

    add(name)
    return "".join(done.values())


def _part(name: str) -> str:
    text = (PAGE / name).read_text(encoding="utf-8")
    if "</script" in text.lower():
        raise FormatError(f"{name}: this script contains </script, which would end its element in the page.")
    return text


def _model_answers(page: ModelSession, progress: Progress | None) -> tuple[dict[str, Any], list[str]]:
    """Return the answers that the page needs at its start and, if time allows, after each click; and what is missing.

    The first answer is computed even if the time is over, because without it the page has no numbers to show.
    """
    session = page.session()
    data: dict[str, Any] = {"session": session, "graph": page.picture.graph_columns(), "plan": page.plan({})}
    clock, skipped, refused = Clock(_SECONDS), 0, dict[str, str]()
    start, first = page.evidence, session["solver"]
    others = [name for name in session["solvers"] if name != first]
    sets = _single_changes(page, start) if page.graph.num_vars <= _MOST_VARIABLES else []
    wanted = [("solve", first, start), ("map", first, start), ("trace", first, start)]
    wanted += [(what, name, start) for name in others for what in ("solve", "trace")]
    wanted += [(what, first, e) for what in ("solve", "map") for e in sets]
    wanted += [("solve", name, e) for name in others for e in sets]
    for what in ("solve", "map", "trace", "trace_at"):
        data[what] = {}
    for n, (what, name, evidence) in enumerate(wanted):
        if n and clock.stopped:
            skipped = len(wanted) - n
            break
        known = data["solve"].get(_key(name, start), {"seconds": 0.0})
        if name != first and evidence is not start and known["seconds"] > _QUICK:
            continue
        if progress is not None:
            progress(n, len(wanted), name)
        asked = {"solver": name, "evidence": evidence, "seconds": min(_EACH, max(0.5, clock.left))}
        try:
            answer = {"solve": page.solve, "map": page.best, "trace": page.trace}[what](asked)
        except EquifactorError as error:  # The page then reports that the file has no answer.
            if what == "solve" and evidence is start:
                refused[name] = str(error)
            continue
        data[what][_key(name, evidence)] = answer
        if what == "trace" and answer["iterations"] * len(page.graph.card) <= _MOST_STEPS:
            rows = {t: page.trace_at({**asked, "t": t})["marginals"] for t in range(answer["iterations"])}
            data["trace_at"][_key(name, evidence)] = rows
    session["solvers"] = [name for name in session["solvers"] if _key(name, start) in data["solve"]]
    count = page.graph.num_factors
    data["factor"] = {a: page.picture.factor(a) for a in range(count)} if count <= _MOST_FACTORS else {}
    try:
        data["symmetries"] = page.symmetries()
    except EquifactorError:
        data["symmetries"] = None
    return data, _lacking(data["solve"].get(_key(first, start)), first, skipped, len(wanted), refused)


def _lacking(answer: Answer | None, first: str, skipped: int, count: int, refused: Mapping[str, str]) -> list[str]:
    """Return sentences on the answers that the file does not contain."""
    told = [f"{name} has no answer: {why}" for name, why in refused.items()]
    if answer is not None and not answer["answered"]:
        told.append(f"the file shows no marginals of {first}: {answer['message']}")
    if skipped:
        told.append(
            f"the file lacks {skipped:,} of {count:,} answers, because their time of {_SECONDS:g} s was over: the page "
            "reports this where they are needed"
        )
    return told


def _single_changes(page: ModelSession, start: Evidence) -> list[Evidence]:
    """Return all evidence sets after one click: one more variable observed, or one fewer."""
    fixed = page.graph.evidence
    sets: list[Evidence] = [{j: x for j, x in start.items() if j != i} for i in start]
    for i, card in enumerate(page.graph.card.tolist()):
        if i not in fixed:
            sets += [{**start, i: x} for x in range(card) if start.get(i) != x]
    return sets


def _key(solver: str, evidence: Mapping[int, int]) -> str:
    """Return the key under which the page looks for an answer."""
    return json.dumps([solver, sorted(evidence.items())], separators=(",", ":"), ensure_ascii=False)
