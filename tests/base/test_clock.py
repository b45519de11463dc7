"""The clock of a call: how busy the machine is."""

from __future__ import annotations

import pytest

from equifactor.base.clock import Clock, NotCompiledError, WorkClock
from equifactor.base.status import Status


def test_a_busy_machine_shows_in_the_clock(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "cpu_now", lambda: 0.25 * driven_time.seconds)
    clock = Clock(5.0)
    assert clock.crowding == 1.0
    driven_time.advance(2.0)
    assert clock.crowding == 4.0
    assert Clock.crowding_of_call() == 1.0
    with clock.govern():
        assert Clock.crowding_of_call() == 4.0


def test_a_clock_of_work_does_not_read_the_time(driven_time) -> None:
    driven_time.tick = 100.0
    clock = WorkClock(10.0, Clock())
    first = clock.part(0.5)
    assert (clock.left, first.left, first.crowding) == (10.0, 5.0, 1.0)
    first.spend(4.0)
    assert (clock.seconds, clock.left, first.left) == (4.0, 6.0, 1.0)
    second = clock.within(2.0)
    second.spend(2.0)
    assert second.stopped
    assert first.stopped
    assert not clock.stopped
    assert clock.left == 4.0


def test_an_interrupt_stops_a_clock_of_work() -> None:
    whole = Clock()
    clock = WorkClock(10.0, whole).part(0.5)
    whole.interrupted = True
    assert clock.stopped
    assert clock.status is Status.INTERRUPTED


def test_seconds_of_compiling_have_no_exponent() -> None:
    assert "takes about 10 s, but only 0 s are left" in str(NotCompiledError("kernel", 12.3, -0.2))


def test_ctrl_c_while_a_kernel_is_missing_is_an_interrupt() -> None:
    clock = Clock()
    clock.interrupted = True
    with pytest.raises(KeyboardInterrupt), clock.govern():
        raise NotCompiledError("a kernel", 1.0, clock.left)
