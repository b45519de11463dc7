"""Ways to compile a loop with Numba. Importing this module imports Numba (half a second): do it inside functions.

Kernels take their arrays in records, which are named tuples. A call from Python passes them as plain tuples, and the
kernel gives the fields their names back in its first lines, `layout = Layout(*layout)`. Numba takes 1 to 1.5 us a call
to recognise a named tuple, so that three of them tripled the price of a call; as plain tuples they add 0.5 us (1.7 us
for 17 arguments one by one, 2.2 us for three plain tuples with 23 fields, 5.2 us for three named ones).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from equifactor.base.clock import Pause
from equifactor.kernels.compile_lock import compile_alone
from equifactor.kernels.kernel_cache import cache_of

# What loops over floating-point numbers need in order to vectorise: fused multiply-adds, division without Python's
# test for zero, minima and maxima without NaN (no kernel makes one). Sums keep their order: results are repeatable.
FLAGS = ("contract", "nsz", "arcp", "nnan")
FAST_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {*FLAGS}}


class _Announcer(event.Listener):
    """Says once that machine code is being made, and stops the clocks: it would look like a hang and eat deadlines."""

    def on_start(self, event: event.Event) -> None:
        Pause.begin()
        if not self.told:
            self.told = True
            logging.getLogger("equifactor").info("compiling kernels: takes some seconds once, then they are cached")

    def on_end(self, event: event.Event) -> None:
        Pause.end()

    told = False


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]


def plain(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the fields of a record for a call from Python into a kernel."""
    return tuple(record)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call, without the GIL; the machine code is cached on disk where a folder allows it."""
    return _compiled(function, {})


def fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a `kernel` for arithmetic: it vectorises, and is exact to rounding instead of bit for bit."""
    return _compiled(function, FAST_OPTIONS)


def reordering_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a `fast_kernel` whose sums may be taken in any order: dot products."""
    return _compiled(function, {**FAST_OPTIONS, "fastmath": {*FAST_OPTIONS["fastmath"], "reassoc"}})


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a part of a fast kernel that is copied into its callers: a call would pass seven words per array."""
    compiled: Callable[..., Any] = numba.njit(**FAST_OPTIONS, inline="always")(function)
    return compiled


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = numba.njit(**options, nogil=True)(function)
    cache = cache_of(function)
    if cache is not None:
        compiled._cache = cache  # type: ignore[attr-defined]
        compile_alone(compiled)
    return compiled
