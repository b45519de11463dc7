"""Results of a large batch, whose fields are made when somebody reads the first of them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from equifactor.questions.result import Result

_read = object.__getattribute__


class UnreadResult(Result):
    """A `Result` that nobody has read: it becomes a plain `Result` when somebody reads or pickles it.

    A batch of 100,000 graphs has its answers in a few arrays. An object with views of them takes ten microseconds, and
    most of a batch is often read as a whole or not at all.
    """

    def __getattribute__(self, name: str) -> Any:
        own = _read(self, "__dict__")
        maker = own.pop("_maker", None)
        if maker is not None:
            make, n = maker
            own.update(vars(make(n)))
            object.__setattr__(self, "__class__", Result)
        return _read(self, name)


def unread_results(count: int, make: Callable[[int], Result]) -> list[Result]:
    """Return results whose fields `make(n)` computes later."""
    new, put = UnreadResult.__new__, object.__setattr__
    results: list[Result] = []
    collecting = gc.isenabled()
    gc.disable()  # All new objects stay. Looking through them for rubbish takes four fifths of the time.
    try:
        for n in range(count):
            result = new(UnreadResult)
            put(result, "_maker", (make, n))
            results.append(result)
    finally:
        if collecting:
            gc.enable()
    return results
