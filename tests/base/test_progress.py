"""Bars on a terminal: they appear if a run is long, show the remaining time, and never overlap."""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable

import pytest

from equifactor.base import progress
from equifactor.base.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(progress, "_DELAY", 0.01)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    return stream


def _wait_for_the_bar() -> None:
    _wait_until(lambda: progress._Bar.shown is not None and progress._Bar.shown.bar is not None)


def _wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread, ten minutes at most."""
    for _ in range(60_000):
        if condition():
            break
        time.sleep(0.01)


def test_time_left_by_speed(terminal: Terminal) -> None:
    with contextlib.redirect_stderr(terminal), bar(True, "solving [bold]x[/bold]") as report:
        assert report is not None
        report(1, 4, "a note that is much too long for a terminal of sixty columns")
        _wait_for_the_bar()
        report(2, 4, "a note that is much too long for a terminal of sixty columns")
        _wait_until(lambda: "2/4" in terminal.text and " left" in terminal.text)
    assert "[bold]" in terminal.text
    assert "2/4" in terminal.text
    assert re.search(r"\d:\d\d left", terminal.text)
    assert max(map(len, re.split(r"[\r\n]", terminal.text))) <= 60


def test_a_run_that_reports_nothing(terminal: Terminal) -> None:
    with contextlib.redirect_stderr(terminal), bar(True, "solving", time_limit=3599.0), bar(True, "inside") as inner:
        assert inner is None
        _wait_for_the_bar()
        _wait_until(lambda: " left" in terminal.text)
    assert re.search(r"solving .* 5\d:\d\d left", terminal.text)
    assert "inside" not in terminal.text
    assert progress._Bar.shown is None


def test_a_short_run_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", 30.0)
    with contextlib.redirect_stderr(terminal), bar(True, "solving") as report:
        assert report is not None
        report(1, 2)
    assert terminal.text == ""


def test_nothing_is_shown_elsewhere() -> None:
    with contextlib.redirect_stderr(io.StringIO()), bar(True, "solving") as report:
        assert report is None
    own = []
    with bar(lambda *told: own.append(told), "solving") as report:
        assert report is not None
        report(1, None, "")
    assert own == [(1, None, "")]
