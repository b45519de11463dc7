"""The loop of methods that answer early and improve their answer while time is left.

A method states its steps as a generator of `Step` objects: what to run, what it should cost, which share of the time
left it may take. `Ladder` asks the budget whether each step is worth starting, runs it, and sends its answer back to
the generator. For a step that is not run it sends a `Refusal`. The generator then offers a larger or a smaller step, or
ends. Each method decides how it grows: by larger tables (`regions`), longer loops (`loop-bp`), larger clusters
(`mini-buckets`), or another solver (`auto`). It also decides which of its answers is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from equifactor.base.budget import Refusal

if TYPE_CHECKING:
    from equifactor.base.budget import Budget

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Step(Generic[Answer]):
    """One step of a ladder and its estimated cost."""

    run: Callable[[], Answer | Refusal]
    work: float = 0.0  # reference seconds that it should take
    memory: float = 0.0  # bytes that it needs
    share: float = 1.0  # the share of the time left that it may take
    required: bool = False  # whether it is run at any cost, even after the deadline: there is no answer without it


Steps = Generator[Step[Answer], Answer | Refusal, None]


class Ladder(Generic[Answer]):
    """Runs steps in order while they are worth starting.

    Args:
        steps: the steps; each answer is sent back before the next step is asked for.
        budget: the time and the memory.
    """

    def __init__(self, steps: Steps[Answer], budget: Budget) -> None:
        self._steps = steps
        self._budget = budget
        self._last: Answer | Refusal | None = None  # the outcome of the last step; None before the first one
        self.answers: list[Answer] = []
        self.seconds = 0.0  # the time of all steps together
        self.finished = False

    def run(self) -> list[Answer]:
        """Run all steps that are worth starting; return their answers."""
        while self.advance():
            pass
        return self.answers

    def advance(self) -> bool:
        """Run the next step that is worth starting; return whether there was one."""
        clock = self._budget.clock
        began = clock.seconds
        ran = False
        while not ran and not self.finished:
            if self._last is not None and clock.stopped:
                self._end()
                break
            try:
                step = next(self._steps) if self._last is None else self._steps.send(self._last)
            except StopIteration:
                self._end()
                break
            if clock.stopped and not step.required:
                self._end()
            elif step.required or self._budget.worth_starting(step.work, step.share, step.memory):
                ran = True
                self._last = step.run()
                if not isinstance(self._last, Refusal):
                    self.answers.append(self._last)
            else:
                self._last = Refusal("it would take more time or memory than is left")
        self.seconds += clock.seconds - began
        return ran

    def _end(self) -> None:
        self._steps.close()
        self.finished = True
