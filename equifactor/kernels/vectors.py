# mypy: ignore-errors
"""Vectors of numbers for kernels, of any width and float type, where the compiler does not vectorise by itself.

Numba turns LLVM's vectoriser of straight-line code off. LLVM's vectoriser of loops needs long loops over arrays that do
not overlap. A value of type `Vector` is one LLVM vector, which the compiler splits into the registers of the machine.

A module takes the operations that it needs by name, because Numba resolves global names only:

    _OPS = vector_operations("float64", 4)
    load, store, add = _OPS.load, _OPS.store, _OPS.add
"""

import functools
from types import SimpleNamespace

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.extending import intrinsic, models, register_model

from equifactor.kernels.jit import FLAGS, inlined

_INT32 = ir.IntType(32)


class Vector(types.Type):
    """The Numba type of a vector of `width` numbers of a float type, `float32` or `float64`."""

    def __init__(self, element, width):
        self.element, self.width = element, width
        super().__init__(name=f"Vector({element}, {width})")

    @property
    def number(self):
        """The LLVM type of one number."""
        return ir.FloatType() if self.element == "float32" else ir.DoubleType()

    @property
    def llvm(self):
        """The LLVM type of the vector."""
        return ir.VectorType(self.number, self.width)

    @property
    def bits(self):
        """The number of bits of one number."""
        return 32 if self.element == "float32" else 64


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, numba_type.llvm)


@functools.cache
def vector_operations(element, width):
    """Return the operations on vectors of `width` numbers of type `float32` or `float64`.

    Arrays are contiguous and of that type, and an index is the place of the first of `width` numbers. No operation
    tests its index. Only `dot` computes across the numbers of a vector.
    """
    vector = Vector(element, width)
    operations = {**_memory(vector), **_arithmetic(vector), **_choices(vector), **_signs(vector)}
    if element == "float32":
        operations |= _functions(vector)
    if width == 4:
        operations["transposed"] = _transposed(vector)
    return SimpleNamespace(width=width, **operations)


@functools.cache
def narrowing(width):
    """Return the operation that rounds a vector of doubles to single precision."""
    wide, narrow = Vector("float64", width), Vector("float32", width)

    @intrinsic
    def narrowed(typingctx, a):
        """Return the numbers in single precision."""

        def codegen(context, builder, signature, args):
            return builder.fptrunc(args[0], narrow.llvm)

        return narrow(wide), codegen

    return narrowed


def _constant(vector, value):
    return ir.Constant(vector.llvm, [value] * vector.width)


def _words(vector):
    """Return the LLVM type of a vector of integers that are as long as its numbers."""
    return ir.VectorType(ir.IntType(vector.bits), vector.width)


def _word(vector, value):
    return ir.Constant(_words(vector), [value] * vector.width)


def _spread(vector, builder, value):
    """Emit a vector of one number."""
    one = builder.insert_element(ir.Constant(vector.llvm, ir.Undefined), value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INT32, vector.width), [0] * vector.width))


def _pointer(vector, context, builder, array_type, array, index):
    a = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(a.data, [index], inbounds=True), vector.llvm.as_pointer())


def _operation(vector, doc, count, build):
    """Return an intrinsic of `count` vectors whose result is a vector, from a function of the builder and vectors."""

    def codegen(context, builder, signature, args):
        return build(builder, *args)

    signature = vector(*[vector] * count)
    # Numba reads the number of arguments from the signature of the function.
    if count == 1:

        def operation(typingctx, a):
            return signature, codegen

    elif count == 2:

        def operation(typingctx, a, b):
            return signature, codegen

    elif count == 3:

        def operation(typingctx, a, b, c):
            return signature, codegen

    else:

        def operation(typingctx, a, b, c, d):
            return signature, codegen

    operation.__doc__ = doc
    return intrinsic(operation)


def _memory(vector):
    alignment = vector.bits // 8
    number = getattr(types, vector.element)

    @intrinsic
    def load(typingctx, array, index):
        """Return array[index : index + width]."""

        def codegen(context, builder, signature, args):
            value = builder.load(_pointer(vector, context, builder, signature.args[0], args[0], args[1]))
            value.align = alignment
            return value

        return vector(array, types.int64), codegen

    @intrinsic
    def store(typingctx, array, index, value):
        """Set array[index : index + width] to a vector."""

        def codegen(context, builder, signature, args):
            pointer = _pointer(vector, context, builder, signature.args[0], args[0], args[1])
            builder.store(args[2], pointer).align = alignment
            return context.get_dummy_value()

        return types.void(array, types.int64, vector), codegen

    @intrinsic
    def filled(typingctx, value):
        """Return a vector of one number."""

        def codegen(context, builder, signature, args):
            return _spread(vector, builder, args[0])

        return vector(number), codegen

    return {"load": load, "store": store, "filled": filled}


def _arithmetic(vector):
    def of_instruction(doc, name):
        return _operation(vector, doc, 2, lambda builder, a, b: getattr(builder, name)(a, b, flags=FLAGS))

    add, multiply = of_instruction("a + b.", "fadd"), of_instruction("a b.", "fmul")
    number = getattr(types, vector.element)

    @inlined
    def multiply_add(a, b, c):
        """Return a b + c, one instruction if the machine has it."""
        return add(multiply(a, b), c)

    @intrinsic
    def dot(typingctx, a, b):
        """Return the sum of a b over the numbers of the vectors, always added in the same order."""

        def codegen(context, builder, signature, args):
            value, width = builder.fmul(*args, flags=FLAGS), vector.width
            while width > 1:
                width //= 2
                halves = [
                    builder.shuffle_vector(
                        value, value, ir.Constant(ir.VectorType(_INT32, width), list(range(k, k + width)))
                    )
                    for k in (0, width)
                ]
                value = builder.fadd(*halves, flags=FLAGS)
            return builder.extract_element(value, ir.Constant(_INT32, 0))

        return number(vector, vector), codegen

    return {
        "add": add, "multiply": multiply, "multiply_add": multiply_add, "dot": dot,
        "subtract": of_instruction("a - b.", "fsub"), "divide": of_instruction("a / b.", "fdiv"),
    }  # fmt: skip


def _choices(vector):
    def of_comparison(doc, comparison):
        def build(builder, a, b):
            return builder.select(builder.fcmp_ordered(comparison, a, b, flags=FLAGS), a, b)

        return _operation(vector, doc, 2, build)

    def where_equal(builder, a, b, then, otherwise):
        return builder.select(builder.fcmp_ordered("==", a, b), then, otherwise)

    def where_positive(builder, a, then, otherwise):
        return builder.select(builder.fcmp_ordered(">", a, _constant(vector, 0.0)), then, otherwise)

    return {
        "minimum": of_comparison("The smaller number of both vectors, place by place.", "<"),
        "maximum": of_comparison("The larger number of both vectors, place by place.", ">"),
        "where_equal": _operation(vector, "`c` where a equals b, otherwise `d`.", 4, where_equal),
        "where_positive": _operation(vector, "`b` where a is above 0, otherwise `c`.", 3, where_positive),
    }


def _signs(vector):
    """Return the operations on signs, which work on the bits of the numbers."""
    words, sign = _words(vector), 1 << (vector.bits - 1)
    mask = ir.IntType(vector.width)

    def masked(builder, a, mask):
        return builder.bitcast(builder.and_(builder.bitcast(a, words), _word(vector, mask)), vector.llvm)

    def mixed(builder, a, b):
        return builder.bitcast(builder.xor(builder.bitcast(a, words), builder.bitcast(b, words)), vector.llvm)

    @intrinsic
    def signs(typingctx, a):
        """Return a word in which bit n is set if number n is negative."""

        def codegen(context, builder, signature, args):
            negative = builder.icmp_signed("<", builder.bitcast(args[0], words), _word(vector, 0))
            return builder.zext(builder.bitcast(negative, mask), _INT32)

        return types.uint32(vector), codegen

    @intrinsic
    def of_signs(typingctx, bits):
        """Return -0.0 at the places whose bit is set, 0.0 at the others."""

        def codegen(context, builder, signature, args):
            chosen = builder.bitcast(builder.trunc(args[0], mask), ir.VectorType(ir.IntType(1), vector.width))
            return builder.bitcast(builder.select(chosen, _word(vector, sign), _word(vector, 0)), vector.llvm)

        return vector(types.uint32), codegen

    return {
        "signs": signs,
        "of_signs": of_signs,
        "size": _operation(vector, "|a|.", 1, lambda builder, a: masked(builder, a, sign - 1)),
        "flip": _operation(vector, "a, with its sign flipped where b is negative.", 2,
                           lambda builder, a, b: mixed(builder, a, masked(builder, b, sign))),
        "mix_signs": _operation(vector, "A number with the sign of a b; its size has no meaning.", 2, mixed),
    }  # fmt: skip


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # ln 2 in two parts, the first one with zero bits at its end.
_ROUND = 12582912.0  # 1.5 * 2^23: adding it to a single-precision number rounds to an integer in the low bits.
_EXP_SERIES = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)  # exp by Taylor's series, the highest power first.
_LOG_SERIES = (2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)  # ln((1 + s) / (1 - s)) / s in powers of s^2.
_MANTISSA = 23  # The number of bits of the mantissa of a single-precision number.


def _functions(vector):
    """Return exp, ln and the square root, for single precision."""
    words = _words(vector)

    def horner(builder, x, coefficients):
        value = _constant(vector, coefficients[0])
        for c in coefficients[1:]:
            value = builder.fadd(builder.fmul(value, x, flags=FLAGS), _constant(vector, c), flags=FLAGS)
        return value

    def shifted(builder, operation, value, count):
        return getattr(builder, operation)(value, _word(vector, count))

    def exp_of(builder, x):
        # No flags that reorder: adding and subtracting _ROUND is what rounds.
        rounded = builder.fadd(builder.fmul(x, _constant(vector, _LOG2_E)), _constant(vector, _ROUND))
        k = builder.fsub(rounded, _constant(vector, _ROUND))
        rest = builder.fadd(x, builder.fmul(k, _constant(vector, -_LN2_HIGH)), flags=FLAGS)
        rest = builder.fadd(rest, builder.fmul(k, _constant(vector, -_LN2_LOW)), flags=FLAGS)
        value = builder.bitcast(horner(builder, rest, _EXP_SERIES), words)
        exponent = shifted(builder, "shl", builder.bitcast(rounded, words), _MANTISSA)
        return builder.bitcast(builder.add(value, exponent), vector.llvm)

    def log_ratio(builder, a, b):
        words_a, words_b = builder.bitcast(a, words), builder.bitcast(b, words)
        # The difference of the bits, in units of an exponent and rounded, is log2(a / b) to less than one.
        half = _word(vector, 1 << (_MANTISSA - 1))
        k = shifted(builder, "ashr", builder.add(builder.sub(words_a, words_b), half), _MANTISSA)
        near = builder.bitcast(builder.sub(words_a, shifted(builder, "shl", k, _MANTISSA)), vector.llvm)
        s = builder.fdiv(builder.fsub(near, b), builder.fadd(near, b))
        tail = builder.fmul(s, horner(builder, builder.fmul(s, s, flags=FLAGS), _LOG_SERIES), flags=FLAGS)
        high = builder.fmul(builder.sitofp(k, vector.llvm), _constant(vector, _LN2_HIGH + _LN2_LOW), flags=FLAGS)
        return builder.fadd(high, tail, flags=FLAGS)

    def square_root(builder, a):
        of_vectors = ir.FunctionType(vector.llvm, [vector.llvm])
        return builder.call(get_or_insert_function(builder.module, of_vectors, f"llvm.sqrt.v{vector.width}f32"), [a])

    return {
        "square_root": _operation(vector, "The square root of a.", 1, square_root),
        "exp_of": _operation(vector, "exp(a) for -87 <= a <= 87, to two units in the last place.", 1, exp_of),
        "log_ratio": _operation(
            vector, "ln(a / b) of positive normal numbers, accurate where they are nearly equal.", 2, log_ratio
        ),
    }


def _transposed(vector):
    @intrinsic
    def transposed(typingctx, a, b, c, d):
        """Return four vectors that are the columns of the rows a, b, c and d."""

        def codegen(context, builder, signature, args):
            def pick(one, two, *places):
                return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(_INT32, 4), places))

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

        return types.UniTuple(vector, 4)(vector, vector, vector, vector), codegen

    return transposed
