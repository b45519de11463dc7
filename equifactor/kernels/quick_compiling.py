# mypy: ignore-errors
"""Faster compilation of kernels, with the same machine code. Importing this module changes Numba for this process.

**Inlined parts.** Numba copies the code of an `inlined` part block by block. With every block it copies the table of
all variables of the part (`Scope`), although it discards these copies. The cost grows with the product of blocks and
variables: 8 of 10 seconds of compiling `sweep_residual` went there. Here all blocks share one table. Numba also copies
the blocks themselves, twice, although they are made again for every place where a part is inlined. Here it does not.

**Constants.** Numba compiles a kernel again for every integer constant that another kernel passes to it, and for every
variable that begins with a constant. Here a kernel of this package is compiled once for all integers.

**Garbage.** Numba makes millions of small objects that live until the end of a compilation. Python's search for
unreachable cycles visits them again and again and took 8 % of the time. It waits until a compilation has ended.

**Bookkeeping.** Numba reports every call of LLVM to a listener for each compilation in progress, compares the options
of a function by a table of all options, and makes a list of the variables of every part of an instruction. Here calls
are not reported, options are compared as they are set, and variables go to one list.
"""

import gc

import llvmlite.binding
from numba import types
from numba.core import event, ir
from numba.core.dispatcher import Dispatcher
from numba.core.inline_closurecall import InlineWorker
from numba.core.targetconfig import TargetConfig

_PACKAGE = __name__.partition(".")[0]
_code_of = InlineWorker.run_untyped_passes
_template_of = Dispatcher.get_call_template
_inline = InlineWorker.inline_ir
_WITHOUT_VARIABLES = {str, int, float, bool, type(None), ir.Loc}  # The types of most parts of instructions.


def _code_with_shared_scope(self, func, enable_ssa=False):
    """Return the code of a part; copies of its blocks share its table of variables.

    Sharing is safe because the code is made again for every place where the part is inlined. With `enable_ssa` Numba
    may keep the code, and it is left alone.
    """
    code = _code_of(self, func, enable_ssa)
    if not enable_ssa:
        for block in code.blocks.values():
            block.scope.__deepcopy__ = _itself(block.scope)
            block.__deepcopy__ = _itself(block)
    return code


def _inline_without_copies(self, caller_ir, block, i, callee_ir, *args, **options):
    """Put the code of a part in the place of a call; its blocks are not copied on the way."""
    blocks = [*callee_ir.blocks.values()]
    made = _inline(self, caller_ir, block, i, callee_ir, *args, **options)
    for block in blocks:
        block.__dict__.pop("__deepcopy__", None)
    return made


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


def _equal_options(self, other):
    """Return whether two sets of options are the same; those that are not set have their defaults."""
    if not isinstance(other, TargetConfig):
        return NotImplemented
    mine, others = self._values, other._values
    if mine == others:
        return True
    if self.options is not other.options:
        return False
    for name in mine.keys() | others.keys():
        default = self.options[name].default
        if mine.get(name, default) != others.get(name, default):
            return False
    return True


def _variables_of(self, value):
    """Return the variables in a part of an instruction, in their order."""
    found = []
    _add_variables((value,), found)
    return found


def _add_variables(values, found):
    for value in values:
        if isinstance(value, ir.Var):
            found.append(value)
        elif type(value) not in _WITHOUT_VARIABLES:
            if isinstance(value, ir.Inst):
                found.extend(value.list_vars())
            elif isinstance(value, list | tuple):
                _add_variables(value, found)
            elif isinstance(value, dict):
                _add_variables(value.values(), found)


InlineWorker.run_untyped_passes = _code_with_shared_scope
InlineWorker.inline_ir = _inline_without_copies
ir.Inst._rec_list_vars = _variables_of
TargetConfig.__eq__ = _equal_options
TargetConfig.__hash__ = lambda self: hash(type(self))  # few sets of options differ in a process
for callbacks in tuple(llvmlite.binding.ffi.lib._lock._cblist):
    llvmlite.binding.ffi.unregister_lock_callback(*callbacks)
Dispatcher.get_call_template = _template_for_any_integer
event.register("numba:compile", _Collector())
