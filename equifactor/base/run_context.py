"""What all functions that may run long share: time limit, seed and progress, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from equifactor.base.argument_types import is_real
from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError, brief

# A function of the work done, the work in total (None if it is unknown), and a note.
Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The clock, the seed and the progress report of one run. Subclasses add what only their runs have."""

    clock: Clock = field(default_factory=Clock)  # A method stops when `clock.stopped`, with the best answer so far.
    seed: int = 0
    progress: Progress | None = None

    def report(self, done: int, total: int | None, note: str = "") -> None:
        """Report to the progress bar, if there is one; this is cheap enough for every iteration."""
        if self.progress is not None:
            self.progress(done, total, note)


def check_run(time_limit: object, seed: object, progress: object) -> None:
    """Raise `OptionError` unless the time limit, the seed and the progress of a run are valid."""
    if time_limit is not None:
        check_time_limit(time_limit)
    if not isinstance(seed, Integral) or isinstance(seed, np.timedelta64) or seed < 0:
        raise OptionError(f"The seed must be a whole number of at least 0, found {brief(seed)}.")
    if not isinstance(progress, (bool, np.bool_)) and not callable(progress):
        raise OptionError(f"progress must be True, False or a callable, found {brief(progress)}.")


def check_time_limit(time_limit: object) -> None:
    """Raise `OptionError` unless the time limit is a number of seconds."""
    if not (is_real(time_limit) and time_limit >= 0):
        raise OptionError(f"The time limit must be a number of seconds of at least 0, found {brief(time_limit)}.")
