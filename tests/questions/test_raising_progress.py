"""What happens if the caller's own progress function raises: the exception passes through, and Ctrl-C stops the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import equifactor as ef
from equifactor import Status
from equifactor.base.clock import Clock, NotCompiledError, TimeIsUp
from equifactor.base.progress import bar
from equifactor.generators import ising_grid

GRID = ising_grid(5, 5, coupling_std=2.0, seed=0)
SETS = [{0: n % 2} for n in range(40)]
CALLS: dict[str, Callable[[Callable[..., None]], Any]] = {
    "solve": lambda report: ef.solve(GRID, "MAR", "bp(tolerance=0)", progress=report),
    "solve a list": lambda report: ef.solve([GRID] * 3, "PR", "mini-buckets", progress=report),
    "solve rows": lambda report: ef.solve(GRID, "MAR", "bp", evidence=SETS, progress=report),
    "solve rows along one plan": lambda report: ef.solve(GRID, evidence=SETS, progress=report),
    "sample": lambda report: ef.sample(GRID, 10, solver="blocks", progress=report),
    "compare": lambda report: ef.compare(GRID, ["bp", "exact"], progress=report),
}


def raising(error: BaseException) -> Callable[..., None]:
    """Return a function that raises an error once."""
    errors = [error]

    def report(done: int, total: int | None, note: str = "") -> None:
        if errors:
            raise errors.pop()

    return report


@pytest.mark.parametrize("name", CALLS)
def test_an_exception_of_the_callers_function_passes_through(name: str) -> None:
    for error in (ValueError("mine"), MemoryError("mine"), NotCompiledError("k", 1.0, 0.0), ef.SolveError("mine")):
        with pytest.raises(type(error)) as raised:
            CALLS[name](raising(error))
        assert raised.value is error
        assert not Clock._governing
    CALLS[name](lambda done, total, note: None)  # Nothing is left behind.


def test_an_interrupt_in_the_callers_function_is_ctrl_c() -> None:
    before = Clock.interrupts
    found = CALLS["solve"](raising(KeyboardInterrupt()))
    assert found.status is Status.INTERRUPTED
    assert found.answered
    assert Clock.interrupts == before + 1
    assert CALLS["solve a list"](raising(KeyboardInterrupt()))[-1].status is Status.INTERRUPTED
    many = CALLS["solve rows"](raising(KeyboardInterrupt()))
    assert many.statuses[0] is not Status.INTERRUPTED
    assert many.statuses[-1] is Status.INTERRUPTED


def test_a_bar_inside_another_bar_keeps_exceptions_apart() -> None:
    def nested(error: BaseException) -> None:
        with bar(raising(error), "outer") as outer:
            assert outer is not None
            with contextlib.suppress(Exception), bar(outer, "inner") as inner:  # as a solver that answers to it
                assert inner is not None
                inner(1, 2, "")

    for error in (TimeIsUp(), MemoryError("mine"), KeyboardInterrupt()):  # No call is in progress to be interrupted.
        with pytest.raises(type(error)) as raised:
            nested(error)
        assert raised.value is error
