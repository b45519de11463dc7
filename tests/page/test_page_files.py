"""The files of the page: vendored files agree with the manifest, and modules can be joined into one exported file."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "equifactor" / "page" / "static"
VENDORED = (PAGE / "vendor", ROOT / "docs" / "figures" / "vendor")
MODULES = sorted(PAGE.glob("*.js"))


@pytest.mark.parametrize("vendor", VENDORED, ids=lambda path: path.parent.name)
def test_vendored_files_are_what_the_manifest_says(vendor: Path) -> None:
    listed = {}
    for package in json.loads((vendor / "manifest.json").read_text()):
        assert package.keys() == {"name", "version", "licence", "files"}
        assert any(name.endswith(".LICENSE") for name in package["files"])
        listed |= package["files"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}
    del found["manifest.json"]
    assert found == listed


@pytest.mark.parametrize("vendor", VENDORED, ids=lambda path: path.parent.name)
def test_the_lock_pins_what_is_vendored_and_names_no_host(vendor: Path) -> None:
    text = (ROOT / "tools" / "page" / "package-lock.json").read_text()
    assert "://" not in text
    locked = json.loads(text)["packages"]
    for package in json.loads((vendor / "manifest.json").read_text()):
        entry = locked[f"node_modules/{package['name']}"]
        assert (entry["version"], entry["license"]) == (package["version"], package["licence"])
        assert entry["integrity"].startswith("sha512-")


def test_the_page_names_its_files_in_the_forms_that_exports_replace() -> None:
    lines = (PAGE / "index.html").read_text().splitlines()
    styles = [line for line in lines if "stylesheet" in line]
    scripts = [line for line in lines if "<script" in line]
    assert all(re.fullmatch(r'<link rel="stylesheet" href="\./[\w./]+\.css">', line) for line in styles)
    assert scripts[-1] == '<script type="module" src="./app.js"></script>'
    assert all(re.fullmatch(r'<script src="\./vendor/[\w.]+\.js" defer></script>', line) for line in scripts[:-1])
    assert not [line for line in lines if re.search(r"\son\w+=|style=", line)]


@pytest.mark.parametrize("path", [*MODULES, *PAGE.glob("*.css"), *PAGE.glob("vendor/*.js")], ids=lambda path: path.name)
def test_files_can_be_put_into_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "</script" not in text
    assert "</style" not in text
    assert "url(" not in text


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_keep_to_the_forms_that_exports_join(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for line in re.findall(r"^import\b.*$", text, re.MULTILINE):
        found = re.fullmatch(r'import \{ [\w$]+(?:, [\w$]+)* \} from "\./(\w+\.js)";', line)
        assert found, line
        assert (PAGE / found[1]).exists(), line
    for line in re.findall(r"^export\b.*$", text, re.MULTILINE):
        assert re.match(r"export (?:async function|function|const|let|class) [\w$]+", line), line
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert len(text.splitlines()) <= 300
    assert max(map(len, text.splitlines())) <= 120


def test_no_two_modules_share_a_name_and_every_import_is_exported() -> None:
    declared: Counter[str] = Counter()
    exported: dict[str, set[str]] = {}
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        form = r"^(export )?(?:async function|function|const|let|class) ([\w$]+|\[[^\]]*\]|\{[^}]*\})"
        names = [(bool(word), name) for word, name in re.findall(form, text, re.MULTILINE)]
        declared.update(name for _, name in names)
        exported[path.name] = {name for public, name in names if public}
    assert not [name for name, count in declared.items() if count > 1]
    for path in MODULES:
        for names, source in re.findall(r'^import \{ (.*) \} from "\./(.*)";$', path.read_text(), re.MULTILINE):
            assert set(names.split(", ")) <= exported[source], (path.name, source)


def test_no_module_waits_for_itself() -> None:
    needs = {
        path.name: set(re.findall(r'^import .* from "\./(.*)";$', path.read_text(), re.MULTILINE)) for path in MODULES
    }
    while needs:
        free = [name for name, needed in needs.items() if not needed & needs.keys()]
        assert free, f"modules import each other: {sorted(needs)}"
        for name in free:
            del needs[name]
