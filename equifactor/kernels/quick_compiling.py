# mypy: ignore-errors
"""Faster compilation of kernels, with the same machine code. Importing this module changes Numba for this process.

**Inlined parts.** Numba copies the code of an `inlined` part block by block. With every block it copies the table of
all variables of the part (`Scope`), although it discards these copies. The cost grows with the product of blocks and
variables: 8 of 10 seconds of compiling `sweep_residual` went there. Here all blocks share one table.

**Constants.** Numba compiles a kernel again for every integer constant that another kernel passes to it, and for every
variable that begins with a constant. Here a kernel of this package is compiled once for all integers.

**Garbage.** Numba makes millions of small objects that live until the end of a compilation. Python's search for
unreachable cycles visits them again and again and took 8 % of the time. It waits until a compilation has ended.
"""

import gc

from numba import types
from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.core.inline_closurecall import InlineWorker

_PACKAGE = __name__.partition(".")[0]
_code_of = InlineWorker.run_untyped_passes
_template_of = Dispatcher.get_call_template


def _code_with_shared_scope(self, func, enable_ssa=False):
    """Return the code of a part; copies of its blocks share its table of variables.

    Sharing is safe because the code is made again for every place where the part is inlined. With `enable_ssa` Numba
    may keep the code, and it is left alone.
    """
    code = _code_of(self, func, enable_ssa)
    if not enable_ssa:
        for block in code.blocks.values():
            block.scope.__deepcopy__ = _itself(block.scope)
    return code


def _itself(scope):
    return lambda memo: scope


def _template_for_any_integer(self, args, kws):
    """Return the compiled function that a call takes. Constants of other types than integers remain constants."""
    if self.py_func.__module__.partition(".")[0] == _PACKAGE:
        args = tuple(a.literal_type if isinstance(a, types.IntegerLiteral) else a for a in args)
    return _template_of(self, args, kws)


class _Collector(event.Listener):
    """Pauses the collection of cyclic garbage during a compilation; Numba's lock lets one thread compile at a time."""

    depth = 0
    was_on = False

    def on_start(self, event):
        if self.depth == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0 and self.was_on:
            gc.enable()


InlineWorker.run_untyped_passes = _code_with_shared_scope
Dispatcher.get_call_template = _template_for_any_integer
event.register("numba:compile", _Collector())
