"""The budget: which steps are worth starting, with and without a deadline, and the speed of the machine."""

from __future__ import annotations

import math

import pytest

from equifactor.base import budget
from equifactor.base.budget import Budget, Refusal, Seconds, machine_speed, planning_work, set_machine_speed
from equifactor.base.clock import Clock


def test_without_a_deadline_the_clock_is_not_read(driven_time) -> None:
    set_machine_speed(4.0)
    own = Budget(Clock(), seconds=10.0)
    driven_time.advance(1000.0)
    own.spend(4.0)
    assert own.left == 6.0
    assert own.worth_starting(6.0)
    assert not own.worth_starting(3.1, share=0.5)
    assert own.time_for(3.0) == 3.0


def test_with_a_deadline_the_time_left_counts_at_the_speed_of_the_machine(driven_time) -> None:
    set_machine_speed(2.0)
    own = Budget(Clock(10.0), seconds=1.0)
    driven_time.advance(4.0)
    assert own.left == 12.0
    assert own.time_for(6.0) == 3.0
    assert own.worth_starting(12.0)
    assert not own.worth_starting(12.1)


def test_a_fast_processor_does_not_make_preparation_faster(driven_time) -> None:
    set_machine_speed(4.0)
    own = Budget(Clock(1.0))
    assert own.worth_starting(4.0)
    assert own.ends_in_time(1.5)
    assert not own.ends_in_time(1.6)  # It is bound by memory.
    set_machine_speed(0.5)
    assert not Budget(Clock(1.0)).ends_in_time(0.8)


def test_a_busy_machine_does_less_until_the_deadline(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "cpu_now", lambda: 0.24 * driven_time.seconds)
    clock = Clock(10.0)
    own = Budget(clock)
    driven_time.advance(2.0)
    assert own.left == 8.0  # No call is in progress.
    before = planning_work(1.0)
    with clock.govern():
        assert own.left == 2.0  # The call got about a quarter of a core.
        assert not own.worth_starting(2.1)
        assert planning_work(1.0) == before / 4.0
        assert Budget(Clock(), seconds=5.0).left == 5.0  # without a deadline


def test_memory_is_part_of_it() -> None:
    own = Budget(Clock(), memory=100.0)
    assert own.worth_starting(1e9, memory=100.0)
    assert not own.worth_starting(0.0, memory=101.0)


def test_the_fastest_measurement_counts(driven_time) -> None:
    own = Budget(Clock(10.0))
    own.measure(work=1.0, seconds=4.0)
    assert own.speed == 0.25
    own.measure(work=1.0, seconds=2.0)
    own.measure(work=1.0, seconds=8.0)
    assert own.speed == 0.5


def test_the_pace_of_all_work_counts_once_it_is_followed(driven_time) -> None:
    own = Budget(Clock(100.0))
    driven_time.advance(10.0)
    own.spend(5.0)
    assert own.speed == 1.0
    own.follow_pace()
    assert own.left == 90.0 * 0.5
    own.spend(100.0)
    assert own.speed == 1.0  # never above the speed of the machine


def test_an_interrupt_leaves_nothing() -> None:
    clock = Clock()
    own = Budget(clock, seconds=10.0)
    clock.interrupted = True
    assert own.left == 0.0


@pytest.mark.parametrize(("seconds", "speed"), [(3.6e-5, 1.0), (2e-5, 2.0), (4e-5, 1.0), (1e-9, 4.0), (1.0, 0.25)])
def test_the_machine_is_measured_once(seconds: float, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Time:
        now = 0.0

        def perf_counter(self) -> float:
            self.now += seconds
            return self.now

    monkeypatch.setattr(budget, "time", Time())
    set_machine_speed(None)
    assert machine_speed() == speed
    monkeypatch.setattr(budget, "_measured_speed", lambda: pytest.fail("it is measured again"))
    assert machine_speed() == speed
    assert planning_work(2.0) == pytest.approx(2.0 * speed / Seconds.PLANNING)
    assert planning_work(math.inf) == math.inf


def test_a_refusal_reads_as_its_reason() -> None:
    assert str(Refusal("exact would take about 90 s")) == "exact would take about 90 s"
