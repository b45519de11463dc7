"""The blocks of code on the pages for users, and functions that run them as a reader would.

A page runs from top to bottom in one folder. Its `python` blocks share their names. Lines of a block that begin with
`# ` are the output of the block. Commands of `sh` and `console` blocks must end with exit status 0. A comment directly
above a block marks a block that differs:

    <!-- not run: needs a GPU -->   The block does not run. Its section must give the reason in the same words.
    <!-- needs: pgmpy -->           The block runs by `make test-peers`, which has this package.
    <!-- file: lawn.bif -->         The block is the content of a file, which is written and not run.
    <!-- data: models -->           The block runs with a small folder in place of the public models.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from unittest import mock

import equifactor as ef
from equifactor.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")))
RUNNABLE = {"python", "sh", "console"}
SAFE = {"echo", "printf", "stim"}  # Commands of others that may run: they install nothing and change nothing elsewhere.
_BLOCK = re.compile(r"((?:^<!-- .*? -->\n)*)^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Z_]+=")  # of a variable of the environment, in front of a command
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, the comments above it, and its section as a reader sees it: text and the block itself."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]
    section: str

    @property
    def printed(self) -> list[str]:
        """Return the lines that a Python block should print, according to its comments."""
        return re.findall(r"^# (.*)$", self.text, re.MULTILINE)

    @property
    def commands(self) -> list[str]:
        """Return the commands of a shell block; a backslash continues a command on the next line."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if shlex.split(line, comments=True)]

    def run_python(self, names: dict[str, object]) -> list[str]:
        """Run the block with the names of its page, and return the lines that it printed."""
        code = compile("\n" * self.line + self.text, self.page, "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        return [line.rstrip() for line in out.getvalue().splitlines()]

    def run_commands(self) -> None:
        """Run the commands one by one; commands of this package run in this process."""
        for command in self.commands:
            words = shlex.split(command, comments=True)
            given = dict(word.split("=", 1) for word in takewhile(_ASSIGNMENT.match, words))
            first, *words = words[len(given) :]
            if first == "equifactor":
                with mock.patch.dict(os.environ, given):
                    status = main([name for word in words for name in _expanded(word)])
                assert status == 0, f"{self.page}:{self.line}: {command.strip()}: exit status {status}"
            else:
                assert first in SAFE, f"{self.page}:{self.line}: mark a block that needs the command {first}"
                path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
                subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PATH": path}, timeout=600)


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are marked or can run, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = _BLOCK.split(text)  # text, comments, language, code, text, ..
    prose = parts[::4]
    found = []
    for n, (comments, language, code) in enumerate(zip(parts[1::4], parts[2::4], parts[3::4], strict=True)):
        marks = dict(re.findall(r"^<!-- ([a-z ]+): (.*?) -->$", comments, re.MULTILINE))
        above = _HEADING.split("".join(prose[: n + 1]))[-1]
        below = _HEADING.split("".join(prose[n + 1 :]))[0]
        line = text.count("\n", 0, text.index(code, len("".join(parts[: 4 * n + 3])))) if code else 0
        found.append(Block(page, line, language, code, marks, " ".join((above + code + below).split())))
    return [block for block in found if block.marks or block.language in RUNNABLE]


def run_page(page: str, *, peers: bool = False) -> dict[str, object]:
    """Run a page in the current folder, and return the names that its Python blocks made.

    Blocks that need another library run if `peers` is true and the library is installed.
    """
    names: dict[str, object] = {"__name__": page}
    for block in blocks(page):
        needs = block.marks.get("needs")
        if "file" in block.marks:
            Path(block.marks["file"]).write_text(block.text, encoding="utf-8")
            continue
        if "not run" in block.marks or (needs is not None and not (peers and find_spec(needs))):
            continue
        if "data" in block.marks:
            _write_models(Path(block.marks["data"]))
        if block.language == "python":
            said = block.run_python(names)
            assert not block.printed or said == block.printed, f"{page}:{block.line}: printed {said}"
        else:
            block.run_commands()
    return names


def _expanded(word: str) -> list[str]:
    """Return the files of a pattern, as a shell does."""
    return sorted(glob.glob(word)) or [word] if "*" in word else [word]  # noqa: PTH207


def _write_models(folder: Path) -> None:
    """Write a folder in the form of the public collections, with one small grid."""
    graph = ef.generators.ising_grid(3, 3, seed=0)
    (folder / "Grids").mkdir(parents=True)
    ef.write_graph(graph, folder / "Grids" / "small.uai")
    best = ef.solve(graph, "MAP", "exact").log_score
    entry = {"collection": "Grids", "name": "small", "split": "test", "map_log_score": best}
    (folder / "index.json").write_text(json.dumps([entry]), encoding="utf-8")
