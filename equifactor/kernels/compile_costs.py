"""How long kernels take to compile and which of them are ready: the price of a solver that has not run here before.

`compile_times.json` beside this module has the kernels that each family of solvers needs, with the seconds that each
takes to compile on one core of the reference machine. `python -m tools.compile_times` measures them again. Importing
this module does not import Numba.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from equifactor.base.budget import machine_speed
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.kernels import kernel_folders

_TIMES = Path(__file__).with_name("compile_times.json")
_UNKNOWN = 0.5  # Reference seconds of a kernel that is not in the table: the mean of those that are.


class _Pace:
    """How much slower than expected kernels have compiled in this process."""

    expected = 0.0
    taken = 0.0

    @classmethod
    def add(cls, name: str, seconds: float) -> None:
        cls.expected += compile_seconds_of(name)
        cls.taken += seconds

    @classmethod
    def factor(cls) -> float:
        """Return seconds per reference second: of this process so far, but not below that of the machine."""
        usual = 1.0 / machine_speed()
        return max(usual, cls.taken / cls.expected) if cls.expected > 0.0 else usual


@functools.cache
def compile_times() -> dict[str, dict[str, float]]:
    """Return the reference seconds of each kernel that a family of solvers compiles, by family and kernel."""
    found: dict[str, dict[str, float]] = json.loads(_TIMES.read_text(encoding="utf-8"))["families"]
    return found


@functools.cache
def _seconds() -> dict[str, float]:
    return {name: seconds for family in compile_times().values() for name, seconds in family.items()}


def compile_seconds_of(kernel: str) -> float:
    """Return the reference seconds that a kernel takes to compile, without those that it calls."""
    return _seconds().get(kernel, _UNKNOWN)


def ready_kernels(native: bool = False) -> set[str]:
    """Return the names of the kernels that have machine code on disk, of this version or of an earlier one.

    Args:
        native: whether to leave out the kernels of a wheel, which are for a common denominator of processors.
    """
    own = [kernel_folders.names_in(folder) for folder in kernel_folders.user_folders()]
    return set().union(*own, kernel_folders.shipped_kernels(native))


def seconds_to_compile(*families: str, native: bool = False) -> float:
    """Return the seconds to compile the kernels of some families of solvers that are not ready; 0 for unknown names.

    With `native`, kernels that only a wheel has are not ready.
    """
    needed = {name: s for family in families for name, s in compile_times().get(family, {}).items()}
    if not needed:
        return 0.0
    ready = ready_kernels(native)
    return _Pace.factor() * sum(s for name, s in needed.items() if name not in ready)


def can_compile(clock: Clock, share: float, *families: str) -> bool:
    """Return whether the kernels of some families are ready, or compiled within a share of the time left."""
    return not clock.counts_compiling or seconds_to_compile(*families) <= share * clock.left


def compiled_in(kernel: str, seconds: float) -> None:
    """Note how long a kernel took to compile."""
    _Pace.add(kernel, seconds)


def check_time(kernel: str) -> None:
    """Raise `NotCompiledError` if a kernel that is about to be compiled would miss the deadline of the call."""
    left = Clock.left_to_compile()
    if left == float("inf"):
        return
    seconds = _Pace.factor() * compile_seconds_of(kernel)
    if seconds > left:
        raise NotCompiledError(kernel, seconds, left)
