# mypy: ignore-errors
"""Arithmetic on `LANES` neighbouring numbers at once, for kernels that work on that many rows side by side.

Every function reads or writes the lanes `array[i : i + LANES]` of one-dimensional, contiguous arrays of doubles. A loop
of sixteen steps would be unrolled and then not vectorised, because the arrays might overlap; these become vector
instructions on every machine.
"""

from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic

LANES = 16

_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_FLAGS = ("contract", "nsz", "nnan")


class _Lanes:
    """Vector loads and stores in the code that an intrinsic emits."""

    def __init__(self, context, builder, signature, args):
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def _pointer(self, k):
        """The address of the lanes that begin at element args[k+1] of array args[k]."""
        array = self.context.make_array(self.signature.args[k])(self.context, self.builder, self.args[k])
        at = self.builder.gep(array.data, [self.args[k + 1]], inbounds=True)
        return self.builder.bitcast(at, _VECTOR.as_pointer())

    def load(self, k):
        return self.builder.load(self._pointer(k), align=8)

    def store(self, k, vector):
        self.builder.store(vector, self._pointer(k), align=8)
        return self.context.get_dummy_value()

    def spread(self, value):
        """One number in all lanes."""
        one = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)

    def is_positive(self, vector):
        return self.builder.fcmp_ordered(">", vector, self.spread(ir.Constant(_DOUBLE, 0.0)))


@intrinsic
def fill_lanes(typingctx, to, i, value):
    """Set all of `to` to one number."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        return lanes.store(0, lanes.spread(lanes.args[2]))

    return types.void(to, types.int64, types.float64), codegen


@intrinsic
def scale_lanes(typingctx, to, i, given, j, factor):
    """Set `to` to `given` times one number."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        return lanes.store(0, lanes.builder.fmul(lanes.load(2), lanes.spread(lanes.args[4]), flags=_FLAGS))

    return types.void(to, types.int64, given, types.int64, types.float64), codegen


@intrinsic
def multiply_lanes(typingctx, to, i, given, j):
    """Multiply `to` by `given`."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        return lanes.store(0, lanes.builder.fmul(lanes.load(0), lanes.load(2), flags=_FLAGS))

    return types.void(to, types.int64, given, types.int64), codegen


@intrinsic
def add_lanes(typingctx, to, i, given, j):
    """Add `given` to `to`."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        return lanes.store(0, lanes.builder.fadd(lanes.load(0), lanes.load(2), flags=_FLAGS))

    return types.void(to, types.int64, given, types.int64), codegen


@intrinsic
def widen_lanes(typingctx, top, i, low, k, given, j):
    """Raise `top` to `given` where that is larger, and lower `low` to it where that is smaller and positive."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        builder = lanes.builder
        value, top, low = lanes.load(4), lanes.load(0), lanes.load(2)
        lanes.store(0, builder.select(builder.fcmp_ordered(">", value, top), value, top))
        smaller = builder.and_(builder.fcmp_ordered("<", value, low), lanes.is_positive(value))
        return lanes.store(2, builder.select(smaller, value, low))

    return types.void(top, types.int64, low, types.int64, given, types.int64), codegen


@intrinsic
def share_lanes(typingctx, to, i, given, j):
    """Set `to` to `given` divided by `to`, or by 1 where `to` is zero."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        total = lanes.load(0)
        one = lanes.spread(ir.Constant(_DOUBLE, 1.0))
        total = lanes.builder.select(lanes.is_positive(total), total, one)
        return lanes.store(0, lanes.builder.fdiv(lanes.load(2), total, flags=_FLAGS))

    return types.void(to, types.int64, given, types.int64), codegen


@intrinsic
def dot_lanes(typingctx, a, i, b, j):
    """The sum of a * b over the lanes."""

    def codegen(*parts):
        lanes = _Lanes(*parts)
        builder = lanes.builder
        vector, width = builder.fmul(lanes.load(0), lanes.load(2), flags=_FLAGS), LANES
        while width > 1:  # Halves are added until one number is left: always in the same order.
            width //= 2
            halves = [
                builder.shuffle_vector(
                    vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(k, k + width)))
                )
                for k in (0, width)
            ]
            vector = builder.fadd(*halves, flags=_FLAGS)
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

    return types.float64(a, types.int64, b, types.int64), codegen
