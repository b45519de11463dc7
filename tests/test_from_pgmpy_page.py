"""docs/from-pgmpy.md: what it says about this package is so; tests/peers has the lines of pgmpy."""

from __future__ import annotations

from pathlib import Path

import pytest
from from_pgmpy_files import printed, snippets, write_files

TASKS = snippets("equifactor")
TITLES = list(TASKS)


def test_there_are_ten_tasks() -> None:
    assert [title.partition(".")[0] for title in TASKS] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize("title", [title for title in TASKS if "pgmpy(" not in TASKS[title]])
def test_a_task_prints_what_it_says(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    names: dict[str, object] = {}
    for each in (*TITLES[: min(2, TITLES.index(title))], title):  # all others go on from the first two
        capsys.readouterr()
        exec(compile(TASKS[each], f"docs/from-pgmpy.md, {each}", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.splitlines() == printed(TASKS[title])
