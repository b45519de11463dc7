"""The page as one file: it contains everything, makes no requests, and escapes every name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from page_client import HOSTILE

import equifactor as ef
from equifactor import FactorGraph
from equifactor.cli import main
from equifactor.formats import write_graph
from equifactor.page import page_export
from equifactor.page.model_session import ModelSession
from equifactor.page.page_export import export, joined_modules, one_file
from equifactor.page.viewer import Viewer


def data_of(text: str) -> dict:
    (held,) = re.findall(r'<script type="application/json" id="equifactor-data">(.*?)</script>', text, re.DOTALL)
    return json.loads(held)


def test_a_model(network: FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSession, "solvers", ["exact", "bp"])
    target = tmp_path / "page.html"
    export(Viewer(ModelSession(network, evidence={0: 1})), str(target))
    text = target.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert text.count("</script") == text.count("<script")
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    data = data_of(text)
    assert data["session"]["readonly"]
    assert data["session"]["evidence"] == {"0": 1}
    assert data["graph"]["variables"]["names"][2] == HOSTILE
    changes = [[], [[0, 0]], [[0, 1]], *([[0, 1], [i, x]] for i, x in ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2)))]
    keys = {json.dumps(["exact", e], separators=(",", ":")) for e in changes}
    assert keys <= data["solve"].keys()
    assert keys <= data["map"].keys()
    given = network.condition({0: "yes", 2: "'soaked"})
    reply = data["solve"]['["exact",[[0,1],[2,2]]]']
    assert reply["log_z"] == ef.solve(given, "MAR", "exact").log_z
    trace = data["trace"]['["bp",[[0,1]]]']
    assert len(data["trace_at"]['["bp",[[0,1]]]']) == trace["iterations"]
    assert len(data["factor"]) == 3
    assert data["plan"]["fits"]
    assert data["symmetries"]["complete"]


def test_the_files_of_the_page_ask_nothing_of_the_network() -> None:
    text = one_file({"session": {}})
    assert not re.findall(r"""<[^>]*\s(?:src|href)\s*=\s*["'](?!data:|#)""", text)
    assert not re.findall(r"""(?:fetch|import|url)\s*\(\s*["']https?:""", text)
    assert "@import" not in text


def test_scripts_and_style_are_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_export, "PAGE", tmp_path)
    (tmp_path / "vendor").mkdir()
    (tmp_path / "index.html").write_text(
        "<!doctype html>\n<html>\n<head>\n"
        '<link rel="stylesheet" href="./app.css">\n<script src="./vendor/d.js" defer></script>\n'
        '<script type="module" src="./app.js"></script>\n</head>\n<body>\n<p></p>\n</body>\n</html>\n'
    )
    (tmp_path / "app.css").write_text("p { color: red }\n")
    (tmp_path / "vendor" / "d.js").write_text(r'const d = "\1 \\u";' + "\n")
    (tmp_path / "app.js").write_text('import { a } from "./a.js";\nimport { b } from "./b.js";\nb(a);\n')
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport const a = b(1);\n')
    (tmp_path / "b.js").write_text("export function b(x) { return x; }\n")
    assert joined_modules("app.js") == "function b(x) { return x; }\nconst a = b(1);\nb(a);\n"
    text = one_file({"name": HOSTILE})
    assert "<style>\np { color: red }\n</style>" in text
    assert "<script>\n" + r'const d = "\1 \\u";' + "\n</script>" in text
    assert '<script type="module">\nfunction b' in text
    assert "./" not in text
    assert data_of(text) == {"name": HOSTILE}
    order = [text.index(part) for part in ("<style>", "<p>", "equifactor-data", "const d", "function b", "</body>")]
    assert order == sorted(order)


def test_a_loaded_machine_still_gets_the_first_answer_and_a_sentence(
    network: FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page_export, "_SECONDS", 0.0)
    model, target = tmp_path / "rain.bif", tmp_path / "page.html"
    write_graph(network, model)
    assert main(["view", str(model), "--solver", "brute", "--export", str(target)]) == 0
    assert list(data_of(target.read_text(encoding="utf-8"))["solve"]) == ['["brute",[]]']
    told = capsys.readouterr().err
    assert re.search(r"the file lacks [\d,]+ of [\d,]+ answers, because their time of 0 s was over", told)


def test_an_export_reports_solvers_without_an_answer(
    network: FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelSession, "solvers", ["bpnn", "exact"])
    lacks = export(Viewer(ModelSession(network)), str(tmp_path / "page.html"))
    assert len(lacks) == 1
    assert lacks[0].startswith("bpnn has no answer: This package has no weights")
    monkeypatch.setattr(ModelSession, "solvers", ["exact"])
    assert export(Viewer(ModelSession(network)), str(tmp_path / "page.html")) == []
