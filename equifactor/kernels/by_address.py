# mypy: ignore-errors
"""Calls of a kernel by its address, so that its machine code is made once.

Numba links every function that a kernel calls into that kernel and optimises all of it there. A function of 500 kB that
ten kernels call is compiled ten times, a few seconds each. A `Separate` kernel has one signature and is compiled on
its own. Other kernels get its address at run time, so that they stay in the cache on disk. The call costs as much as
any call between kernels.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils, errors
from numba.core.extending import intrinsic


class Separate:
    """A compiled function of one signature: `address()` for Python, `call(address, args)` for kernels."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        """Take a kernel and its signature, `types.none(..)` or `types.float64(..)`; nothing is compiled yet."""
        self._function = function
        self._signature = signature
        self._address = 0
        self.call = _call_of(signature)

    def address(self) -> int:
        """Return the address of the machine code; the first call compiles it, or reads it from the cache."""
        if self._address == 0:
            self._function.compile(self._signature)
            made = self._function.overloads[self._signature.args]
            self._address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        return self._address


def _call_of(wanted: Any) -> Any:
    @intrinsic
    def call(typingctx, address, args):
        """Call the function at an address with the values of a tuple; their types must be those of the signature."""
        if [_shape(t) for t in args.types] != [_shape(t) for t in wanted.args]:
            raise errors.TypingError(f"A kernel compiled for {wanted.args} was called by address with {args.types}.")

        def codegen(context, builder, signature, values):
            function_type = context.call_conv.get_function_type(wanted.return_type, wanted.args)
            missing = builder.icmp_unsigned("==", values[0], values[0].type(0))
            with cgutils.if_unlikely(builder, missing):  # a call to address 0 would end the whole program
                context.call_conv.return_user_exc(builder, RuntimeError, ("a kernel was called without its address",))
            pointer = builder.inttoptr(values[0], function_type.as_pointer())
            given = cgutils.unpack_tuple(builder, values[1])
            status, result = context.call_conv.call_function(
                builder, pointer, wanted.return_type, wanted.args, given
            )  # fmt: skip
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return wanted.return_type(types.int64, args), codegen

    return call


def _shape(t: Any) -> Any:
    """Return the part of a type that decides how a value is passed; it ignores names and read-only flags."""
    if isinstance(t, types.Array):
        return t.dtype, t.ndim, t.layout
    if isinstance(t, types.BaseTuple):
        return tuple(_shape(item) for item in t.types)
    return types.unliteral(t)
