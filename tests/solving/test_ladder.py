"""The ladder: steps run in order while they are worth starting, and each step gets the result of the last step."""

from __future__ import annotations

from equifactor.base.budget import Budget, Refusal
from equifactor.base.clock import Clock
from equifactor.solving.ladder import Ladder, Step, Steps


def test_steps_grow_while_they_are_worth_starting() -> None:
    own, seen = Budget(Clock(), seconds=10.0), []

    def run(work: float) -> float:
        own.spend(work)
        return work

    def steps() -> Steps[float]:
        work = 1.0
        while True:
            found = yield Step(run=lambda work=work: run(work), work=work)
            seen.append(found)
            if isinstance(found, Refusal):
                return
            work *= 2.0

    ladder = Ladder(steps(), own)
    assert ladder.run() == [1.0, 2.0, 4.0]  # 3 of 10 s are left, and the next step would take 8 s.
    assert ladder.finished
    assert isinstance(seen[-1], Refusal)


def test_a_refused_step_can_be_followed_by_a_smaller_one() -> None:
    def steps() -> Steps[str]:
        if isinstance((yield Step(run=lambda: "large", memory=200.0)), Refusal):
            yield Step(run=lambda: "small", memory=50.0)

    assert Ladder(steps(), Budget(Clock(), memory=100.0)).run() == ["small"]


def test_a_step_that_fails_gives_no_answer() -> None:
    def steps() -> Steps[str]:
        found = yield Step(run=lambda: Refusal("nothing was found"))
        assert found == Refusal("nothing was found")
        yield Step(run=lambda: "second")

    assert Ladder(steps(), Budget(Clock())).run() == ["second"]


def test_only_a_required_step_runs_after_the_deadline(driven_time) -> None:
    def steps() -> Steps[str]:
        yield Step(run=lambda: "first", work=1e9, required=True)
        yield Step(run=lambda: "second")

    assert Ladder(steps(), Budget(Clock(0.0))).run() == ["first"]


def test_two_ladders_take_turns(driven_time) -> None:
    def steps(seconds: float) -> Steps[float]:
        while True:
            yield Step(run=lambda: driven_time.advance(seconds) or seconds)

    clock = Clock(100.0)
    slow, quick = Ladder(steps(10.0), Budget(clock)), Ladder(steps(1.0), Budget(clock))
    while not clock.stopped:
        (slow if slow.seconds <= quick.seconds else quick).advance()
    assert abs(slow.seconds - quick.seconds) <= 10.0
    assert not slow.advance()
    assert slow.finished
