"""The blocks of code on a page, and a folder in which they run as a reader would run them.

A page runs from top to bottom: its `python` blocks share their names, and its `sh` and `console` blocks share one
folder with them. Comments directly above a block say how it differs:

    <!-- not run: needs a GPU -->   it does not run; the text of its section must give the same reason to the reader
    <!-- needs: pgmpy -->           it runs where this package is installed, by `make test-peers`
    <!-- file: lawn.bif -->         it is the content of a file, which is written and does not run

Lines of a `python` block that begin with `# ` are what the block prints.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"))
)
_FENCE = re.compile(r"((?:^<!-- .*? -->\n+)*)^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code with its marks and the text of its section up to it."""

    where: str
    language: str
    text: str
    marks: dict[str, str]
    section: str

    @property
    def printed(self) -> list[str]:
        """The lines that a Python block says that it prints."""
        return re.findall(r"^# (.*)$", self.text, re.MULTILINE)

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, without comments; a command may go on after a backslash."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if shlex.split(line, comments=True)]


def blocks(page: str) -> list[Block]:
    """Return all blocks of a page in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        marks = dict(re.findall(r"^<!-- ([\w ]+): (.*?) -->$", match[1], re.MULTILINE))
        above = text[: match.start()]
        where = f"{page}:{text[: match.start(2)].count(chr(10)) + 1}"
        found.append(Block(where, match[2], match[3], marks, " ".join(re.split(r"^#+ ", above, flags=re.MULTILINE)[-1].split())))
    return found


def run_python(block: Block, names: dict[str, object]) -> None:
    """Run a Python block with the names of the page."""
    exec(compile("\n" * int(block.where.partition(":")[2]) + block.text, block.where.partition(":")[0], "exec", dont_inherit=True), names)


def run_command(command: str) -> None:
    """Run one line of a shell block: ours in this process, others by a shell."""
    from equifactor.cli import main

    words = shlex.split(command, comments=True)
    if words[0] == "equifactor":
        status = int(main(list(_expanded(words[1:]))))
        assert status == 0, f"exit status {status}: {command}"
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        subprocess.run(["sh", "-e", "-c", command], check=True, env={**os.environ, "PATH": path}, timeout=300)


def _expanded(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from (sorted(glob.glob(word)) or [word]) if "*" in word else [word]  # noqa: PTH207 - as a shell does
