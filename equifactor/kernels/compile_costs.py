"""How long kernels take to load and compile and which are ready: the price of a solver that has not run here before.

`compile_times.json` beside this module has the kernels that each family of solvers needs, with the seconds that each
takes to compile on one core of the reference machine. `python -m tools.compile_times` measures them again. Importing
this module does not import Numba. It lets later imports of Numba look at the clock.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from equifactor.base.budget import machine_speed
from equifactor.base.clock import Clock, NotCompiledError, NotLoadedError
from equifactor.kernels import kernel_folders

_TIMES = Path(__file__).with_name("compile_times.json")
_UNKNOWN = 0.38  # Reference seconds of a kernel that is not in the table: the mean of the 278 that are.
# The share of the last pass, to machine code, in the time of a kernel: 55 to 80 % of those of local-search and mplp.
_LAST_PASS = 0.65
_GRACE = 0.5  # Seconds after the deadline at which loading, or a kernel that has begun, may end. Chosen by hand.
_LOAD_SECONDS = 0.35  # CPU seconds to import Numba and to load compiled kernels: 0.3 to 0.4 s on an AMD EPYC.


@dataclass
class _Begun:
    """A function that is being compiled."""

    kernel: str  # Its name; empty for a function of Numba, which counts as a part of the kernel that calls it.
    start: float
    cpu: float
    inside: float = 0.0  # Seconds of the kernels that it calls.
    cpu_inside: float = 0.0


# The share of the time left in which kernels must be expected to compile. They end in time even if they take three
# times as long, as on a machine with other work.
COMPILE_SHARE = 0.3
# The same for the last solver that could improve an answer, which is there already: nothing is lost if compiling is cut
# short. A third of the time left is for its work. Chosen by hand.
LAST_COMPILE_SHARE = 0.65


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
        if cls.expected > 0.0:
            return max(usual, cls.taken / cls.expected)
        return usual * Clock.crowding_of_call()


_begun: list[_Begun] = []  # The kernels in progress; each one was begun by the one before. Guarded by Numba's lock.
# CPU seconds of each kernel compiled in this process, once per signature, without the kernels that it calls.
cpu_seconds: dict[str, list[float]] = {}


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


def can_compile(clock: Clock, share: float, *families: str, compile_share: float = COMPILE_SHARE) -> bool:
    """Return whether the kernels of some families are ready, or soon compiled for work in a share of the time left."""
    return not clock.counts_compiling or seconds_to_compile(*families) <= compile_share * share * clock.left


def load_seconds() -> float:
    """Return the seconds to import Numba and to load kernels, on a machine as busy as it has been in this call."""
    return _LOAD_SECONDS * Clock.crowding_of_call()


class _NumbaWatch:
    """Raises `NotLoadedError` if importing Numba would end long after the deadline of the call."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Check the time before Numba is imported; find nothing, so that the usual finders go on."""
        if fullname == "numba":
            left, seconds = Clock.left_to_compile(), load_seconds()
            if seconds > left + _GRACE:
                raise NotLoadedError(seconds, left)


sys.meta_path.insert(0, _NumbaWatch())


def compilation_begins(kernel: str) -> None:
    """Note that a kernel, or with an empty name a function of Numba, begins to compile."""
    _begun.append(_Begun(kernel, Clock.now(), time.thread_time()))


def compilation_ends(succeeded: bool) -> None:
    """Note that what began to compile last has ended."""
    last = _begun.pop()
    seconds, cpu = Clock.now() - last.start, time.thread_time() - last.cpu
    if _begun:
        _begun[-1].inside += seconds if last.kernel else last.inside
        _begun[-1].cpu_inside += cpu if last.kernel else last.cpu_inside
    if last.kernel and succeeded:
        _Pace.add(last.kernel, seconds - last.inside)
        cpu_seconds.setdefault(last.kernel, []).append(cpu - last.cpu_inside)


def check_time(kernel: str) -> None:
    """Raise `NotCompiledError` if a kernel that is about to be compiled would miss the deadline of the call.

    The kernels that wait for it have to be compiled before the deadline, too.
    """
    left = Clock.left_to_compile()
    if left == float("inf"):
        return
    waiting = sum(compile_seconds_of(other.kernel) for other in _begun if other.kernel)
    seconds = _Pace.factor() * (compile_seconds_of(kernel) + waiting)
    if seconds > left:
        raise NotCompiledError(kernel, seconds, left)


def check_pass(is_last: bool) -> None:
    """Raise `NotCompiledError` if the next pass over the kernel in progress begins after the deadline or ends too late.

    Args:
        is_last: whether the pass is the last and longest one, which makes machine code and cannot be cut.
    """
    left = Clock.left_to_compile()
    kernel = next((other.kernel for other in reversed(_begun) if other.kernel), "")
    if left == float("inf") or not kernel:
        return
    seconds = _Pace.factor() * compile_seconds_of(kernel)
    if left <= 0.0 or (is_last and _begun[-1].kernel and _LAST_PASS * seconds > left + _GRACE):
        raise NotCompiledError(kernel, seconds, left)
