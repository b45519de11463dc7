"""What the tests of docs/from-pgmpy.md share: the page in pieces, and the files that it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[1] / "docs" / "from-pgmpy.md").read_text(encoding="utf-8")


def snippets(library: str) -> dict[str, str]:
    """The programs of one library, by the title of their task."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        for name, program in re.findall(r"^(\w+):\n\n```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            if name == library:
                found[section.partition("\n")[0]] = program
    return found


def printed(program: str) -> list[str]:
    """What a program says that it prints."""
    return re.findall(r"^# (.*)$", program, re.MULTILINE)


def write_files(folder: Path) -> None:
    """`lawn.bif`, `lawn.csv` with 4,000 rows, and `gaps.csv`, where rain is missing on half of the wet days."""
    network = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    (folder / "lawn.bif").write_text(network, encoding="utf-8")
    rng = np.random.default_rng(3)
    count = 4_000
    season = _drawn(rng, [[0.6, 0.4]], np.zeros(count, int))
    sprinkler = _drawn(rng, [[0.4, 0.6], [0.9, 0.1]], season)
    rain = _drawn(rng, [[0.9, 0.1], [0.3, 0.7]], season)
    lawn = _drawn(rng, [[0.9, 0.1, 0.0], [0.1, 0.4, 0.5], [0.1, 0.3, 0.6], [0.0, 0.1, 0.9]], 2 * sprinkler + rain)
    states = (("dry", "rainy"), ("off", "on"), ("no", "yes"), ("dry", "damp", "wet"))
    rows = [
        [own[x] for own, x in zip(states, row, strict=True)]
        for row in np.stack((season, sprinkler, rain, lawn), axis=1).tolist()
    ]
    _write(folder / "lawn.csv", rows)
    lost = (lawn == 2) & (rng.random(count) < 0.5)
    _write(folder / "gaps.csv", [[s, p, "" if gone else r, x] for (s, p, r, x), gone in zip(rows, lost, strict=True)])


def _drawn(rng: np.random.Generator, table: list[list[float]], given: np.ndarray) -> np.ndarray:
    """A state for each row of parents."""
    reached = rng.random(len(given))[:, None] > np.cumsum(table, axis=1)[given][:, :-1]
    return reached.sum(axis=1)


def _write(path: Path, rows: list[list[str]]) -> None:
    lines = ["season,sprinkler,rain,lawn", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
