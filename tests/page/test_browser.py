"""The page in a real browser: numbers, clicks, keys, hostile names, large grids, exports, no outside requests."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from webdriver import Browser, missing

import equifactor as ef
from equifactor.cli import main
from equifactor.formats import write_graph
from equifactor.page.model_session import ModelSession
from equifactor.page.page_export import export
from equifactor.page.page_server import PageServer
from equifactor.page.results_page import ResultsFolder
from equifactor.page.training_page import TrainingLogs
from equifactor.page.viewer import Page, Viewer
from equifactor.show.palette import LIGHT, MARKERS, style_numbers

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

ENTER, ESCAPE, TAB, CONTROL = "\ue007", "\ue00c", "\ue004", "\ue009"
RIGHT, DOWN = "\ue014", "\ue015"
HOSTILE = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=1</script>",
    "\"quotes\" 'and' `more` \\ &amp;",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "x" * 200,
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_is_wrong(browser: Browser) -> Iterator[None]:
    yield
    assert browser.complaints() == []


@contextmanager
def served(page: Page) -> Iterator[str]:
    server = PageServer(Viewer(page))
    server.start()
    try:
        yield server.url
    finally:
        server.close()


def sprinkler() -> ef.FactorGraph:
    rng = np.random.default_rng(3)
    variables: dict[str, Any] = {
        "season": ["spring", "summer", "autumn", "winter"], "rain": ["no", "yes"], "sprinkler": ["off", "on"],
        "grass": ["dry", "wet"], "road": ["dry", "wet"], "accident": ["no", "yes"],
    }  # fmt: skip
    families = ["season", "season rain", "season sprinkler", "rain sprinkler grass", "rain road", "road accident"]
    factors = []
    for family in families:
        scope = family.split()
        table = rng.dirichlet(np.ones(len(variables[scope[-1]])), [len(variables[name]) for name in scope[:-1]])
        factors.append((scope, table))
    return ef.FactorGraph(variables, factors, name="sprinkler")


def quick_session(graph: ef.FactorGraph, **options: Any) -> ModelSession:
    """Return a session with two solvers that do not need torch, because an export asks all solvers."""
    session = ModelSession(graph, solver="exact", **options)
    vars(session)["solvers"] = ["exact", "bp"]
    return session


def shown_marginals(browser: Browser) -> list[float]:
    """Return the numbers beside the bars of the chosen variable, once the answer is there."""
    browser.wait("return !document.querySelector('.state .value.busy') && document.querySelector('.state .value')")
    return [
        float(text)
        for text in browser.run("return [...document.querySelectorAll('.state .value')].map(v => v.textContent)")
    ]


def figure(browser: Browser, name: str) -> str:
    browser.wait("return !document.querySelector('.answer .busy')")
    text: str = browser.run("return document.querySelector(`[data-figure='${arguments[0]}']`).textContent", name)
    return text.replace("\u2212", "-")


def choose(browser: Browser, variable: int) -> None:
    """Click the circle of a variable."""
    x, y = browser.run("return equifactorStage.placeOf(arguments[0])", variable)
    browser.click_at(x, y)
    browser.wait("return document.querySelector('.states') !== null")


def test_observing_by_clicks_gives_the_numbers_of_the_command(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = sprinkler()
    model = tmp_path / "sprinkler.bif"
    write_graph(graph, model)
    with served(ModelSession(graph, solver="exact")) as url:
        browser.open(url)
        assert browser.run("return document.querySelector('#title').textContent") == "sprinkler"
        choose(browser, 3)
        before = shown_marginals(browser)
        choose(browser, 1)
        browser.click(".state[data-state='1']")
        browser.wait("return document.querySelector(\".state[data-state='1']\").ariaPressed === 'true'")
        assert shown_marginals(browser) == [0.0, 1.0]
        assert "ms" in figure(browser, "milliseconds")
        found = {}
        for variable in (0, 3, 5):
            choose(browser, variable)
            found[str(variable)] = shown_marginals(browser)
        log_evidence = float(figure(browser, "ln P(e)"))
        browser.keys("z", held=CONTROL)
        choose(browser, 3)
        browser.wait("return document.querySelectorAll('.observed li').length === 0")
        assert shown_marginals(browser) == before
    assert main(["solve", str(model), "-e", "rain=yes", "--solver", "exact", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for variable, numbers in found.items():
        assert numbers == [round(p, 4) for p in told["marginals"][int(variable)]]
    assert log_evidence == round(told["log_z"], 4)


def test_solvers_iterations_plan_and_symmetries(browser: Browser) -> None:
    with served(quick_session(ef.generators.ising_grid(4, 4, seed=1))) as url:
        browser.open(url)
        browser.click("#tab-solvers")
        browser.run("document.querySelector('[aria-label=\"Another solver\"]').focus()")
        browser.keys(*"bp", ENTER)
        browser.wait("return document.querySelectorAll('.solver dl').length === 2")
        assert "largest diff." in browser.run("return document.querySelectorAll('.solver')[1].textContent")
        browser.run("document.querySelector('[aria-label=\"Another solver\"]').focus()")
        browser.keys(*"nothing", ENTER)
        assert "nothing" in browser.wait("return document.querySelector('.solver .problem')?.textContent")
        browser.click("[aria-label='Remove nothing']")
        browser.click("#tab-iterations")
        browser.wait("return document.querySelector('#panel-iterations .player')")
        browser.wait("return document.querySelector('#panel-iterations .u-over')")
        assert browser.run("return document.querySelector('#colour-by').value") == "iteration"
        browser.click("#tab-plan")
        assert "width" in browser.wait("return document.querySelector('#panel-plan .figures')?.textContent")
        browser.click("#tab-symmetry")
        browser.wait("return document.querySelector('#panel-symmetry .note:not(.busy)')")
        browser.click("#tab-inspect")
        assert browser.run("return document.querySelector('#colour-by').value") == "marginal"
    browser.complaints()  # The refused solver is one of them.


def run_iterations(browser: Browser, solver: str) -> str:
    """Run one solver in the panel of iterations; return the text of the panel about its end."""
    browser.click("#tab-iterations")
    boxes = "document.querySelectorAll('#panel-iterations form input')"
    browser.wait(f"return {boxes}.length === 2 && !document.querySelector('#panel-iterations .busy')")
    browser.run(f"const [a, b] = {boxes}; a.value = arguments[0]; b.value = ''; a.form.requestSubmit()", solver)
    text: str = browser.wait(
        "const told = document.querySelector('#panel-iterations .verdict')?.textContent;"
        "return !document.querySelector('#panel-iterations .busy') && told?.startsWith(arguments[0] + ' ') && told",
        solver,
    )
    return text


def test_panels_agree_on_how_a_solver_ended(browser: Browser) -> None:
    graph = ef.generators.ising_grid(4, 4, seed=1)
    end = ef.solve(graph, "MAR", "bp(damping=0.5)").iterations
    assert end is not None
    session = ModelSession(graph)
    limit = 3 * end // 4
    early = f"bp(damping=0.5,iterations={limit})"  # Its residual is small, and its status is iteration-limit.
    assert session.trace({"solver": early})["residuals"][-1] < 1e-3
    with served(session) as url:
        browser.open(url)
        assert f"had not converged at its limit of {limit} iterations" in run_iterations(browser, early)
        assert f"converged after {end} iterations" in run_iterations(browser, "bp(damping=0.5)")
        long = "bp(damping=0.999,iterations=9000)"
        assert "had not converged by iteration 200, the last one shown" in run_iterations(browser, long)


def test_a_solver_of_map_alone_colours_the_graph_by_its_assignment(browser: Browser) -> None:
    with served(ModelSession(sprinkler(), solver="mplp")) as url:
        browser.open(url)
        browser.wait("return document.getElementById('colour-by').value === 'map'")
        assert "This solver answers MAP only" in browser.run("return document.querySelector('#content').innerText")
        assert browser.run("return document.querySelector('.problem')") is None


def test_a_solver_has_one_colour_and_one_marker(browser: Browser) -> None:
    keys = "return Object.fromEntries([...document.querySelectorAll(`${arguments[0]} .key`)].map(key => ["
    keys += "(key.nextElementSibling ?? key.parentNode).textContent, key.dataset.marker + key.dataset.colour]))"
    with served(quick_session(ef.generators.ising_grid(4, 4, seed=1))) as url:
        browser.open(url)
        browser.click("#tab-solvers")
        for solver in ("trw", "bp", "bp(iterations=9)"):
            browser.run("document.querySelector('[aria-label=\"Another solver\"]').focus()")
            browser.keys(*solver, ENTER)
        browser.wait("return document.querySelectorAll('.solver dl').length === 4")
        listed = browser.run(keys, "#panel-solvers")
        numbers = style_numbers(("exact", "bp", "trw"))  # the rule of the library
        assert {text: MARKERS[number] + LIGHT[number] for text, number in numbers.items()}.items() < listed.items()
        assert len(set(listed.values())) == 4
        choose(browser, 5)
        assert browser.run(keys, "#panel-inspect") == listed
        run_iterations(browser, "bp")
        assert set(browser.run(keys, "#panel-iterations").items()) == {("bp", listed["bp"])}


def test_the_assignment_of_a_solver_is_not_shown_as_that_of_another(browser: Browser) -> None:
    with served(quick_session(sprinkler())) as url:
        browser.open(url)
        assert figure(browser, "MAP score").startswith("-")
        browser.click("#tab-solvers")
        browser.run("document.querySelector('[aria-label=\"Another solver\"]').focus()")
        browser.keys(*"nonsense", ENTER)
        browser.wait("return document.querySelector('.solver .problem')")
        for click, shown in (("show-nonsense", "\u2013"), ("drop-nonsense", "-")):
            browser.click(f"[data-focus='{click}']")
            browser.wait(
                "return document.querySelector(\"[data-figure='MAP score']\").textContent.replace('\u2212', '-')"
                ".startsWith(arguments[0])", shown,
            )  # fmt: skip
        assert browser.complaints()  # The server has refused the unknown solver.


def test_a_plan_without_an_order_is_a_bound(browser: Browser) -> None:
    with served(ModelSession(ef.generators.ising_grid(40, 40, seed=0), solver="bp")) as url:
        browser.open(url)
        browser.click("#tab-plan")
        figures = browser.wait(
            "const all = [...document.querySelectorAll('#panel-plan .figures dd')].map(dd => dd.textContent);"
            "return all.length && all"
        )
        assert all(text.startswith("\u2265 ") for text in figures)


def test_the_tip_follows_the_answers_and_the_view(browser: Browser) -> None:
    with served(quick_session(sprinkler())) as url:
        browser.open(url)
        choose(browser, 1)
        tip = "const tip = document.querySelector('.tip'); return !tip.hidden && tip.textContent"
        before = browser.wait(tip)
        assert before.startswith("rain")
        browser.keys("2")
        assert browser.wait(tip.replace("tip.textContent", "tip.textContent === 'rainyes 1.0000'"))
        browser.keys("+")
        browser.wait("return document.querySelector('.tip').hidden")


def test_a_grid_of_6400_variables_is_fluid(browser: Browser) -> None:
    with served(ModelSession(ef.generators.ising_grid(80, 80, seed=1), solver="bp(iterations=3)")) as url:
        browser.open(url)
        time = browser.run_async(
            """
            const done = arguments[0], stage = equifactorStage, times = [];
            stage.camera.zoom(3);
            const step = (now) => {
              times.push(now);
              stage.camera.pan(4, 3);
              if (times.length < 30) requestAnimationFrame(step);
              else done((times.at(-1) - times[0]) / (times.length - 1));
            };
            setTimeout(() => requestAnimationFrame(step), 400);
            """
        )
    print(f"a frame of a moving grid of 80 by 80 takes {time:.1f} ms")
    assert time > 0


def test_hostile_names_stay_names(browser: Browser, tmp_path: Path) -> None:
    variables = {name: [f"{name} 0", f"{name} 1"] for name in HOSTILE}
    pairs = [((a, b), [[2.0, 1.0], [1.0, 3.0]]) for a, b in itertools.pairwise(HOSTILE)]
    session = quick_session(ef.FactorGraph(variables, pairs, name=HOSTILE[0]))
    export(Viewer(session), str(tmp_path / "page.html"))
    with served(session) as url:
        for address in (url, (tmp_path / "page.html").as_uri()):
            browser.open(address)
            for variable, name in enumerate(HOSTILE):
                choose(browser, variable)
                assert browser.run("return document.querySelector('#panel-inspect h2').textContent") == name
            browser.click(".state[data-state='0']")
            browser.wait("return document.querySelectorAll('.observed li').length === 1")
            browser.click("#tab-symmetry")
            assert browser.run("return window.hacked") is None
            assert browser.run("return document.querySelectorAll('img').length") == 0
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_an_exported_file_answers_from_disk(browser: Browser, tmp_path: Path) -> None:
    graph = sprinkler()
    path = tmp_path / "page.html"
    export(Viewer(quick_session(graph, evidence={5: 1})), str(path))
    browser.open(path.as_uri())
    choose(browser, 1)
    browser.click(".state[data-state='0']")
    choose(browser, 3)
    answer = ef.solve(graph, solver="exact", evidence={5: 1, 1: 0})
    assert shown_marginals(browser) == [round(float(p), 4) for p in answer.marginals[3]]
    assert browser.run("return document.querySelector('.state').disabled")
    assert "has no answers" in browser.run("return document.querySelector('.states .note').textContent")
    browser.click("#undo")
    browser.wait("return !document.querySelector('.state').disabled")
    browser.click("#tab-plan")
    browser.wait("return document.querySelector('#panel-plan .figures')")
    assert (
        browser.run("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length")
        == 0
    )


def test_the_keyboard_is_enough(browser: Browser) -> None:
    with served(ModelSession(sprinkler(), solver="exact")) as url:
        browser.open(url)
        browser.keys("/")
        browser.keys(*"rain")
        browser.wait("return document.querySelectorAll('.hits li').length > 0")
        browser.keys(ENTER)
        assert browser.run("return document.activeElement.id") == "graph"
        assert browser.run("return document.querySelector('#panel-inspect h2').textContent") == "rain"
        browser.keys(ENTER)
        browser.wait("return document.querySelector('.observed li')?.textContent.startsWith('rainno')")
        browser.keys("2")
        browser.wait("return document.querySelector('.observed li')?.textContent.startsWith('rainyes')")
        browser.keys(RIGHT, DOWN)
        assert browser.run("return document.querySelector('#panel-inspect h2').textContent") != "rain"
        browser.keys("z", "z", held=CONTROL)
        browser.wait("return document.querySelectorAll('.observed li').length === 0")
        reached = set()
        for _ in range(30):
            browser.keys(TAB)
            reached.add(browser.run("const e = document.activeElement; return e.id || e.className"))
        assert {"colour-by", "tab-inspect", "state", "theme", "help"} <= reached
        browser.run("document.activeElement.blur()")  # In a box, a question mark is text.
        browser.keys("?")
        browser.wait("return document.querySelector('dialog').open")
        browser.keys(ESCAPE)
        browser.wait("return !document.querySelector('dialog').open")


def saved(browser: Browser, kind: str, button: str = "[data-save={}]") -> bytes:
    """Click the button that saves the drawing, or another button; the file."""
    browser.run(
        "window.savedFile = null; HTMLAnchorElement.prototype.click = function () { window.savedName = this.download };"
        "URL.createObjectURL = (blob) => { window.savedFile = blob; return 'blob:none' };"
    )
    browser.click(button.format(kind))
    browser.wait("return window.savedFile")
    assert browser.run("return window.savedName").endswith(f".{kind}")
    read = "const done = arguments[0], reader = new FileReader(); reader.onload = () => done(reader.result);"
    text: str = browser.run_async(read + "reader.readAsDataURL(window.savedFile)")
    return base64.b64decode(text.partition(",")[2])


def test_the_drawing_is_saved_as_png_and_svg(browser: Browser) -> None:
    graph = ef.FactorGraph(dict.fromkeys((*HOSTILE, "rain \ud800", "\x01"), 2), [([0, 1], [[0.5, 0.5], [0.9, 0.1]])])
    for session in (quick_session(sprinkler()), quick_session(graph), quick_session(ef.generators.ising_grid(3, 3))):
        with served(session) as url:
            browser.open(url)
            browser.wait("return !document.querySelector('.answer .busy')")
            drawing = ElementTree.fromstring(saved(browser, "svg"))
            texts = {
                text.text.strip("\u2068\u2069") for text in drawing.iter() if text.tag.endswith("text") and text.text
            }
            if session.title == "sprinkler":
                assert texts == set(sprinkler().structure.variable_names or ())
            assert not [tag for tag in drawing.iter() if tag.tag.endswith("script")]
            png = saved(browser, "png")
            assert png[:8] == b"\x89PNG\r\n\x1a\n"
            width, height = (int.from_bytes(png[k : k + 4], "big") for k in (16, 20))
            assert (width, height) == (2 * int(drawing.attrib["width"]), 2 * int(drawing.attrib["height"]))


def test_charts_are_saved_as_png_and_svg(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "a <run> &\x01.jsonl"
    log.write_text("".join(json.dumps({"epoch": n, "loss": 10.0**-n}) + "\n" for n in range(9)))
    results = results_folder(tmp_path)
    for session, button, words in (
        (TrainingLogs(log), "[data-save-chart={}]", {"epoch", "loss"}),
        (results, "[data-save-chart={}]", {"seconds", "bp, 5 s", "trw, 5 s"}),
        (results, ".scatter ~ .savebox [data-save-chart={}]", {"error of bp", "error of trw"}),
    ):
        with served(session) as url:
            browser.open(url)
            browser.wait("return document.querySelector('.u-over')")
            chart = ElementTree.fromstring(saved(browser, "svg", button))
            texts = {part.text for part in chart.iter() if part.tag.endswith("}text")}
            assert words <= texts
            assert len(texts) > len(words) + 2  # ticks
            shapes = [part for part in chart.iter() if part.tag.endswith(("}polyline", "}circle"))]
            assert shapes
            assert not [part for part in chart.iter() if {"class", "style", "onclick"} & part.attrib.keys()]
            png = saved(browser, "png", button)
            assert png[:8] == b"\x89PNG\r\n\x1a\n"
            width, height = (int.from_bytes(png[k : k + 4], "big") for k in (16, 20))
            assert (width, height) == (2 * int(chart.attrib["width"]), 2 * int(chart.attrib["height"]))


def results_folder(tmp_path: Path) -> ResultsFolder:
    """A folder of results of two solvers on three models."""
    common = {"collection": "grids", "family": "grids", "task": "MAR", "time_limit": 5.0, "status": "converged"}
    (tmp_path / "grids").mkdir()
    rows = []
    for n in range(3):
        write_graph(ef.generators.ising_grid(2, 3, seed=n), tmp_path / "grids" / f"grid{n}.uai")
        for solver in ("bp", "trw"):
            row = {
                "instance": f"grid{n}",
                "solver": solver,
                "seconds": 0.1 + n,
                "score": 90.0 - n,
                "error": 0.1 / (n + 1),
            }
            rows.append({**common, **row, "overrun": 0.0, "split": None})
    (tmp_path / "results.json").write_text(json.dumps({"command": "equifactor evaluate", "rows": rows}))
    return ResultsFolder(tmp_path, tmp_path / "grids")


def test_the_page_fits_into_400_pixels(browser: Browser, tmp_path: Path) -> None:
    browser.devtools("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    outside = (
        "return [...document.querySelectorAll('header *, main *')].filter(e => !e.closest('.scroll, .items, bdi')"
        " && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML)"
    )
    try:
        with served(quick_session(sprinkler())) as url:
            browser.open(url)
            choose(browser, 3)
            for tab in ("inspect", "solvers", "iterations", "plan", "symmetry"):
                browser.click(f"#tab-{tab}")
                browser.wait("return !document.querySelector('.tabpanel:not([hidden]) .busy')")
                assert browser.run(outside) == []
        results = tmp_path / "out"
        row = {"task": "MAR", "family": "f", "status": "converged", "score": 9.0, "time_limit": 5.0}
        rows = [
            {"key": f"{solver} {i}", **row, "solver": solver, "instance": f"model-{i}", "seconds": 0.1 + i, "error": i}
            for i in range(3)
            for solver in ("bp", "trw")
        ]
        results.mkdir()
        (results / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with served(ResultsFolder(results)) as url:
            browser.open(url)
            assert browser.run(outside) == []
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_light_and_dark_can_be_read(browser: Browser) -> None:
    """Every pair of text and background has the contrast that level AA of the WCAG requires."""
    script = """
        const light = (name) => {
          const probe = document.createElement('span');
          probe.style.color = `var(${name})`;
          document.body.append(probe);
          const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
            const c = part / 255;
            return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          });
          probe.remove();
          return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        };
        const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const found = [['--on-accent', '--accent', contrast(light('--on-accent'), light('--accent'))]];
        for (const ink of ['--ink', '--muted', '--accent', '--bad', '--good', '--warn'])
          for (const ground of ['--paper', '--panel', '--raised'])
            found.push([ink, ground, contrast(light(ink), light(ground))]);
        return found;
    """
    with served(ModelSession(sprinkler(), solver="exact")) as url:
        for theme in ("dark", "light"):
            browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            browser.open(url)
            assert browser.run("return document.documentElement.dataset.theme") == theme
            assert [pair for pair in browser.run(script) if pair[2] < 4.5] == []
        browser.click("#theme")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        browser.click("#theme")
        browser.run("localStorage.clear()")


def test_nothing_is_asked_outside_of_this_server(browser: Browser) -> None:
    with served(ModelSession(sprinkler(), solver="exact")) as url:
        browser.open(url)
        names = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
        assert len(names) > 20
        assert all(name.startswith((url, "data:")) for name in names)
        refused = browser.run_async(
            "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('went'), () => done('refused'));"
        )
        assert refused == "refused"
    assert any("Content Security Policy" in line for line in browser.complaints())


def test_training_logs_grow_while_they_are_watched(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    lines = [json.dumps({"epoch": n, "loss": 1 / (n + 1), "validation": 2 / (n + 1)}) + "\n" for n in range(30)]
    log.write_text("".join(lines[:10]))
    with served(TrainingLogs(log)) as url:
        browser.open(url)
        assert "10 rows" in browser.wait("return document.querySelector('.items')?.textContent")
        assert browser.run("return document.querySelectorAll('.u-over').length") == 2
        log.write_text("".join(lines))
        browser.wait("return document.querySelector('.items').textContent.includes('30 rows')")


def test_results_lead_into_a_model_and_back(browser: Browser, tmp_path: Path) -> None:
    with served(results_folder(tmp_path)) as url:
        browser.open(url)
        assert browser.run("return document.querySelectorAll('.scatter .point').length") == 3
        browser.wait("return document.querySelectorAll('.u-over').length === 1")
        browser.click("section:last-child th:nth-child(2) button")
        assert browser.run("return document.querySelector('[aria-sort]').ariaSort") == "ascending"
        browser.click("section:last-child td .link")
        browser.wait("return document.documentElement.dataset.ready === 'model'")
        assert "grid" in browser.run("return document.querySelector('#title').textContent")
        browser.click("#back")
        browser.wait("return document.documentElement.dataset.ready === 'results'")


def test_questions_are_answered_by_tables(browser: Browser) -> None:
    def rows(count: int) -> list[list[str]]:
        browser.wait("return document.querySelectorAll('#panel-questions tbody tr').length === arguments[0]", count)
        script = "return [...document.querySelectorAll('#panel-questions tbody tr')].map("
        found: list[list[str]] = browser.run(f"{script}row => [...row.cells].map(cell => cell.textContent))")
        return found

    def ask(what: str) -> None:
        script = "const s = document.querySelector('#question'); s.value = arguments[0]; "
        browser.run(f"{script}s.dispatchEvent(new Event('change'))", what)

    graph = sprinkler()
    with served(ModelSession(graph, solver="exact", evidence={1: 1, 3: 1})) as url:
        browser.open(url)
        browser.click("#tab-questions")
        best = ef.k_best(graph, 10, evidence={"rain": "yes", "grass": "wet"})
        found = rows(10)
        assert [row[0] for row in found] == [str(n + 1) for n in range(10)]
        shown = [graph.variable(name) for name in ("season", "sprinkler", "road", "accident")]
        states = [[best[n][graph.structure.variable_name(i)] for i in shown] for n in range(10)]
        assert [row[3:] for row in found] == states
        ask("next")
        x, y = browser.run("return equifactorStage.placeOf(0)")
        browser.click_at(x, y)
        info = ef.most_informative(graph, "season", evidence={"rain": "yes", "grass": "wet"})
        assert sorted(row[0] for row in rows(3)) == sorted(map(str, info))
        browser.click("#panel-questions tbody button")  # It shows the variable, and the target stays.
        assert browser.run("return document.querySelector('.question-options').textContent") == "About season"
        ask("support")
        assert sorted(row[0] for row in rows(2)) == ["grass", "rain"]
        ask("influence")
        rows(12)
        assert browser.run("return document.querySelectorAll('.tornado .larger').length") == 12
        ask("best-sum")
        browser.click_at(x, y)
        browser.wait("return document.querySelectorAll('.question-options li').length === 1")
        answer = ef.solve(graph, "MMAP", query=["season"], evidence={"rain": "yes", "grass": "wet"})
        assert rows(1) == [["season", answer.states["season"]]]
