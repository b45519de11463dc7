"""Plain NumPy or kernels: what ends sooner, with the time to load and to compile kernels."""

from __future__ import annotations

import sys

import pytest

from equifactor.base.clock import Clock
from equifactor.kernels import readiness
from equifactor.kernels.readiness import plain_is_better


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds that kernels take to compile, in a process that has loaded none."""
    seconds = {"elimination": 10.0}
    monkeypatch.delenv("EQUIFACTOR_PLAIN")
    monkeypatch.setattr(Clock, "ignores_compiling", False)
    monkeypatch.setattr(readiness, "seconds_to_compile", lambda family: seconds[family])
    monkeypatch.setattr(readiness, "_ready", set())
    monkeypatch.setattr(readiness, "_spent", {"elimination": 0.0, "messages": 0.0})
    monkeypatch.delitem(sys.modules, readiness._MODULES["elimination"], raising=False)
    return seconds


def test_nothing_waits_for_a_compiler_that_takes_longer(compiling: dict[str, float]) -> None:
    assert plain_is_better(2.0, 0.1, "elimination")
    assert not plain_is_better(20.0, 0.1, "elimination")
    compiling["elimination"] = 0.0  # the kernels are on disk, and have to be loaded
    assert plain_is_better(0.2, 0.1, "elimination", count=False) is False  # 2 s were spent above
    readiness._spent["elimination"] = 0.0
    assert plain_is_better(0.2, 0.1, "elimination")


def test_many_questions_pay_for_kernels(compiling: dict[str, float]) -> None:
    answers = [plain_is_better(1.0, 0.01, "elimination") for _ in range(20)]
    assert answers == sorted(answers, reverse=True)
    assert 9 <= sum(answers) <= 11


def test_loaded_kernels_are_used(compiling: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    compiling["elimination"] = 0.0
    monkeypatch.setitem(sys.modules, readiness._MODULES["elimination"], sys)
    assert not plain_is_better(1e-9, 1.0, "elimination")
    compiling["elimination"] = 10.0  # it is not asked again
    assert not plain_is_better(1e-9, 1.0, "elimination")


def test_kernels_that_would_be_late_are_not_waited_for(compiling: dict[str, float], driven_time) -> None:
    with Clock(5.0).govern():
        assert plain_is_better(100.0, 0.1, "elimination")
        assert not readiness.kernels_in_time("elimination")
    with Clock(500.0).govern():
        assert not plain_is_better(100.0, 0.1, "elimination")
    assert readiness.kernels_in_time("elimination")


def test_a_busy_machine_has_no_time_to_load_numba(
    compiling: dict[str, float], driven_time, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling["elimination"] = 0.0
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(Clock, "cpu_now", lambda: 0.1 * driven_time.seconds)
    clock = Clock(6.0)
    driven_time.advance(1.0)
    with clock.govern():
        assert readiness.kernels_in_time("elimination")
        assert plain_is_better(3.0, 0.1, "elimination", count=False)  # Loading takes 3.5 s.
        driven_time.advance(2.0)
        assert not readiness.kernels_in_time("elimination")
        monkeypatch.setitem(sys.modules, "numba", sys)
        assert readiness.kernels_in_time("elimination")


@pytest.mark.parametrize(("value", "answer"), [("0", False), ("1", True)])
def test_the_choice_can_be_forced(
    compiling: dict[str, float], monkeypatch: pytest.MonkeyPatch, value: str, answer: bool
) -> None:
    monkeypatch.setenv("EQUIFACTOR_PLAIN", value)
    assert plain_is_better(1.0, 1.0, "elimination") is answer
