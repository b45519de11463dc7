# mypy: ignore-errors
"""Vectors of four doubles for kernels, where the compiler does not find them by itself.

Numba leaves LLVM's vectoriser of straight code off, and that of loops needs loops longer than a table's row. A value of
type `Vector` is one LLVM vector: in registers, whatever their width on the machine at hand.
"""

from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic, models, register_model

from equifactor.kernels.jit import FLAGS, inlined

LANES = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class Vector(types.Type):
    """The Numba type."""

    def __init__(self):
        super().__init__(name="Vector")


vector = Vector()


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def _pointer(context, builder, array_type, array, index):
    a = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(a.data, [index], inbounds=True), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """array[index : index + LANES], without any test."""

    def codegen(context, builder, signature, args):
        value = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]))
        value.align = 8
        return value

    return vector(array, types.int64), codegen


@intrinsic
def store(typingctx, array, index, value):
    """array[index : index + LANES] = value."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], pointer).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), codegen


@intrinsic
def filled(typingctx, value):
    """A vector of one value."""

    def codegen(context, builder, signature, args):
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(one, one, lanes)

    return vector(types.float64), codegen


def _arithmetic(operation, doc):
    """An intrinsic of two vectors from the name of an LLVM instruction."""

    def operator(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return getattr(builder, operation)(*args, flags=FLAGS)

        return vector(vector, vector), codegen

    operator.__doc__ = doc
    return intrinsic(operator)


add = _arithmetic("fadd", "a + b.")
multiply = _arithmetic("fmul", "a * b; with `add`, the compiler makes one instruction of both.")
divide = _arithmetic("fdiv", "a / b.")


@inlined
def multiply_add(a, b, c):
    """a * b + c."""
    return add(multiply(a, b), c)


@intrinsic
def minimum(typingctx, a, b):
    """The smaller one in each lane."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1], flags=FLAGS), args[0], args[1])

    return vector(vector, vector), codegen


@intrinsic
def transposed(typingctx, a, b, c, d):
    """Four vectors as the columns of what were the rows."""

    def codegen(context, builder, signature, args):
        def pick(one, two, *lanes):
            return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))

        a, b, c, d = args
        even_ab, odd_ab = pick(a, b, 0, 4, 2, 6), pick(a, b, 1, 5, 3, 7)
        even_cd, odd_cd = pick(c, d, 0, 4, 2, 6), pick(c, d, 1, 5, 3, 7)
        columns = [
            pick(even_ab, even_cd, 0, 1, 4, 5),
            pick(odd_ab, odd_cd, 0, 1, 4, 5),
            pick(even_ab, even_cd, 2, 3, 6, 7),
            pick(odd_ab, odd_cd, 2, 3, 6, 7),
        ]
        return context.make_tuple(builder, signature.return_type, columns)

    return types.UniTuple(vector, LANES)(vector, vector, vector, vector), codegen
