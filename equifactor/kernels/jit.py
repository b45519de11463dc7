"""Ways to compile a loop with Numba. Importing this module imports Numba (half a second): do it inside functions.

Kernels take their arrays in records, which are named tuples. A call from Python passes them as plain tuples, and the
kernel gives the fields their names back in its first lines, `layout = Layout(*layout)`. Numba takes 1 to 1.5 us a call
to recognise a named tuple. A call takes 1.7 us with 17 separate arguments, 2.2 us with three plain tuples of 23 fields
in all, and 5.2 us with three named ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from equifactor.base.clock import Compiling
from equifactor.kernels import quick_compiling  # noqa: F401 - importing it makes Numba compile faster
from equifactor.kernels.compile_costs import check_pass, compilation_begins, compilation_ends
from equifactor.kernels.compile_lock import compile_alone
from equifactor.kernels.early_linking import link_early
from equifactor.kernels.kernel_cache import KernelCache

# What loops over floating-point numbers need in order to vectorise: fused multiply-adds, division without Python's
# test for zero, minima and maxima without NaN (no kernel makes one). Sums keep their order: results are repeatable.
FLAGS = ("contract", "nsz", "arcp", "nnan")
FAST_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {*FLAGS}}


class CompileWatch(event.Listener):
    """Notes how long each kernel takes to compile, and announces the first one: it would look like a hang."""

    _announced = False

    def on_start(self, event: event.Event) -> None:
        """Begin a kernel, perhaps within another one."""
        Compiling.begin()
        cache = getattr(event.data["dispatcher"], "_cache", None)
        compilation_begins(cache.name if isinstance(cache, KernelCache) else "")
        if not self._announced:
            self._announced = True
            logging.getLogger("equifactor").info("compiling kernels: takes some seconds once, then they are cached")

    def on_end(self, event: event.Event) -> None:
        """End the kernel that began last."""
        # `Event.is_failed` of Numba 0.68 returns True for the events that did not fail.
        compilation_ends(succeeded=event._exc_details is None)
        Compiling.end()


class PassWatch(event.Listener):
    """Cuts off the compilation of a kernel that would miss the deadline of the call."""

    def on_start(self, event: event.Event) -> None:
        """Check the time before a pass."""
        check_pass(is_last=event.data["name"].startswith("native_lowering"))

    def on_end(self, event: event.Event) -> None:
        """Do nothing."""


event.register("numba:compile", CompileWatch())  # type: ignore[no-untyped-call]
event.register("numba:run_pass", PassWatch())  # type: ignore[no-untyped-call]


def plain(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the fields of a record for a call from Python into a kernel."""
    return tuple(record)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on its first call, without the GIL; cache the machine code on disk if a folder permits it."""
    return _compiled(function, {})


def fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a `kernel` for arithmetic: it vectorises, and is exact to rounding instead of bit for bit."""
    return _compiled(function, FAST_OPTIONS)


def reordering_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a `fast_kernel` whose sums may be taken in any order: dot products."""
    return _compiled(function, {**FAST_OPTIONS, "fastmath": {*FAST_OPTIONS["fastmath"], "reassoc"}})


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that is copied into the fast kernels that call it: a call would pass seven words per array."""
    compiled: Callable[..., Any] = numba.njit(**FAST_OPTIONS, inline="always")(function)
    return compiled


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = numba.njit(**options, nogil=True)(function)
    compiled._cache = KernelCache(function, options)  # type: ignore[attr-defined]
    link_early(compiled)
    compile_alone(compiled)
    return compiled
