"""Calls whose kernels cannot be compiled before the deadline: each has its answer or its sentence, and nothing raw."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.errors import SolveError
from equifactor.decoding import Decoder

GRID = ef.generators.ising_grid(3, 3, seed=0)


def _late(*args: Any, **settings: Any) -> NoReturn:
    raise NotCompiledError("some.kernel", 2.0, 0.5)


def _interrupted(method: object, graphs: object, task: object, context: Any) -> NoReturn:
    context.clock.interrupted = True
    _late()


def test_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.questions.solve.with_possibility", _late)
    assert ef.solve(GRID, "PR", "exact").status is ef.Status.EXACT
    monkeypatch.setattr("equifactor.questions.solve.estimates_of", _late)
    got = ef.solve(GRID, "PR", "exact", time_limit=1.0)
    assert (got.status, got.answered) == (ef.Status.TIME_LIMIT, False)
    assert "some.kernel" in got.message
    monkeypatch.setattr("equifactor.questions.solve.estimates_of", _interrupted)
    got = ef.solve(GRID, "MAR", "exact", time_limit=1.0)
    assert (got.status, got.message) == (
        ef.Status.INTERRUPTED,
        "The run was interrupted before the solver found marginals.",
    )


def test_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.questions.sample._drawn", _late)
    got = ef.sample(GRID, 5, time_limit=1.0)
    assert got.status is ef.Status.TIME_LIMIT
    assert got.states.shape == (0, 9)
    assert "some.kernel" in got.message


def test_many_sets_of_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equifactor.questions.many_answers._one_plan", _late)
    got = ef.solve(GRID, evidence=[{0: 0}, {0: 1}], time_limit=1.0)
    assert set(got.statuses) == {ef.Status.TIME_LIMIT}


def test_everything_else_raises_one_sentence() -> None:
    def whole() -> None:
        with Clock(5.0).govern():
            try:
                with Clock(1.0).govern():
                    _late()
            except NotCompiledError:  # The whole call can still answer.
                left.append(Clock.left_to_compile())
            _late()

    left: list[float] = []
    with pytest.raises(SolveError, match=r"A compiled kernel is missing \(some.kernel\)"):
        whole()
    assert len(left) == 1


def test_decoding_counts_loading_against_the_limit_and_not_as_decoding(
    driven_time, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(np.array([[1, 1, 0], [0, 1, 1]]), [0.1, 0.1, 0.1])
    prepare, decode = decoder.engine.prepare, decoder.engine.decode
    left = []

    def slow_prepare(store: Any) -> None:
        driven_time.advance(4.0)
        prepare(store)

    def watched(store: Any, clock: Clock, report: Any) -> None:
        left.append(clock.left)
        decode(store, clock, report)

    monkeypatch.setattr(decoder.engine, "prepare", slow_prepare)
    monkeypatch.setattr(decoder.engine, "decode", watched)
    result = decoder.decode([[0, 1]], time_limit=10.0)
    assert left == [6.0]
    assert result.seconds == 0.0
    monkeypatch.setattr(decoder.engine, "prepare", _late)
    with pytest.raises(SolveError, match=r"A compiled kernel is missing \(some.kernel\)"):
        decoder.decode([[0, 1]], time_limit=10.0)
