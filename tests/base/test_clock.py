"""The clock of a call: how busy the machine is."""

from __future__ import annotations

import pytest

from equifactor.base.clock import Clock


def test_a_busy_machine_shows_in_the_clock(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "cpu_now", lambda: 0.25 * driven_time.seconds)
    clock = Clock(5.0)
    assert clock.crowding == 1.0
    driven_time.advance(2.0)
    assert clock.crowding == 4.0
    assert Clock.crowding_of_call() == 1.0
    with clock.govern():
        assert Clock.crowding_of_call() == 4.0
