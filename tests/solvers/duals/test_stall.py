"""The test of whether a bound has stalled."""

from __future__ import annotations

import math

from equifactor.solvers.duals.stall import Stall


def filled(stall: Stall, bounds: list[float]) -> Stall:
    for bound in bounds:
        stall.add(bound)
    return stall


def test_a_fall_is_measured_over_the_last_sweeps() -> None:
    stall = filled(Stall(2, share_of_gap=0.1), [10.0, 9.0])
    assert stall.fall == math.inf
    assert not stall.stalled(1000.0)
    stall.add(8.5)
    assert stall.fall == 1.5
    stall.add(8.0)
    assert stall.fall == 1.0
    assert stall.stalled(10.0)
    assert not stall.stalled(9.9)


def test_an_infinite_gap_counts_as_stalled_at_once() -> None:
    assert filled(Stall(5, share_of_gap=0.1), [1.0]).stalled(math.inf)


def test_a_share_of_the_bound_needs_no_gap() -> None:
    stall = filled(Stall(1, share_of_bound=1e-3), [100.05, 100.0])
    assert stall.stalled()
    assert not filled(stall, [99.0]).stalled()
    assert filled(Stall(1, share_of_bound=1e-3), [0.0005, 0.0]).stalled()  # small bounds are compared with 1


def test_a_bound_of_minus_infinity_has_not_stalled() -> None:
    assert not filled(Stall(3, share_of_bound=1e-9), [-math.inf]).stalled()


def test_cleared_bounds_are_forgotten() -> None:
    stall = filled(Stall(1, share_of_gap=1.0), [1.0, 1.0])
    assert stall.stalled(0.0)
    stall.clear()
    assert not stall.stalled(0.0)
