# mypy: ignore-errors
"""Vectors of `LANES` single-precision numbers, one per shot, for the kernels of decoding.

A value of type `Shots` is one LLVM vector, which the compiler cuts into as many registers as the machine needs (two on
AVX2). `LANES` numbers fill one line of cache, so that reading what all shots say of one bit touches one line.
"""

from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic, models, register_model

from equifactor.kernels.jit import FLAGS, inlined

LANES = 16
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_FLAGS_OF_LANES, _BITS = ir.VectorType(ir.IntType(1), LANES), ir.IntType(LANES)
_ALIGNMENT = 4
_SIGN, _SIZE = 0x80000000, 0x7FFFFFFF


class Shots(types.Type):
    """The Numba type of a vector."""

    def __init__(self):
        super().__init__(name="Shots")


shots = Shots()


@register_model(Shots)
class _ShotsModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def _constant(value, type_=_VECTOR):
    return ir.Constant(type_, [value] * LANES)


def _pointer(context, builder, array_type, array, index):
    a = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(a.data, [index], inbounds=True), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """array[index : index + LANES] of a contiguous float32 array, without any test."""

    def codegen(context, builder, signature, args):
        value = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]))
        value.align = _ALIGNMENT
        return value

    return shots(array, types.int64), codegen


@intrinsic
def store(typingctx, array, index, value):
    """array[index : index + LANES] = value."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], pointer).align = _ALIGNMENT
        return context.get_dummy_value()

    return types.void(array, types.int64, shots), codegen


def _unary(doc, build):
    def operator(typingctx, a):
        def codegen(context, builder, signature, args):
            return build(builder, args[0])

        return shots(shots), codegen

    operator.__doc__ = doc
    return intrinsic(operator)


def _binary(doc, build):
    def operator(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return build(builder, *args)

        return shots(shots, shots), codegen

    operator.__doc__ = doc
    return intrinsic(operator)


def _choose(comparison):
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(comparison, a, b, flags=FLAGS), a, b)


def _bitwise(builder, operation, a, b):
    words = getattr(builder, operation)(builder.bitcast(a, _WORDS), builder.bitcast(b, _WORDS))
    return builder.bitcast(words, _VECTOR)


def _masked(builder, a, mask):
    return builder.bitcast(builder.and_(builder.bitcast(a, _WORDS), _constant(mask, _WORDS)), _VECTOR)


add = _binary("a + b.", lambda builder, a, b: builder.fadd(a, b, flags=FLAGS))
subtract = _binary("a - b.", lambda builder, a, b: builder.fsub(a, b, flags=FLAGS))
multiply = _binary("a b.", lambda builder, a, b: builder.fmul(a, b, flags=FLAGS))
divide = _binary("a / b.", lambda builder, a, b: builder.fdiv(a, b, flags=FLAGS))
minimum = _binary("The smaller one in each lane.", _choose("<"))
maximum = _binary("The larger one in each lane.", _choose(">"))
size = _unary("|a|.", lambda builder, a: _masked(builder, a, _SIZE))
flip = _binary("a, its sign turned where b has one.", lambda b, x, y: _bitwise(b, "xor", x, _masked(b, y, _SIGN)))
mix_signs = _binary("Some number whose sign is that of a b.", lambda builder, a, b: _bitwise(builder, "xor", a, b))


@intrinsic
def filled(typingctx, value):
    """A vector of one value, float32."""

    def codegen(context, builder, signature, args):
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(_INT, 0))
        return builder.shuffle_vector(one, one, _constant(0, _WORDS))

    return shots(types.float32), codegen


@intrinsic
def where_equal(typingctx, a, b, then, otherwise):
    """`then` in the lanes in which a equals b, and `otherwise` in the others."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("==", args[0], args[1]), args[2], args[3])

    return shots(shots, shots, shots, shots), codegen


@intrinsic
def signs(typingctx, a):
    """Bit n of the result is set where lane n is negative."""

    def codegen(context, builder, signature, args):
        negative = builder.icmp_signed("<", builder.bitcast(args[0], _WORDS), _constant(0, _WORDS))
        return builder.zext(builder.bitcast(negative, _BITS), _INT)

    return types.uint32(shots), codegen


@intrinsic
def of_signs(typingctx, bits):
    """-0.0 in the lanes whose bit is set, 0.0 in the others."""

    def codegen(context, builder, signature, args):
        chosen = builder.bitcast(builder.trunc(args[0], _BITS), _FLAGS_OF_LANES)
        words = builder.select(chosen, _constant(_SIGN, _WORDS), _constant(0, _WORDS))
        return builder.bitcast(words, _VECTOR)

    return shots(types.uint32), codegen


@inlined
def multiply_add(a, b, c):
    """a b + c, one instruction where the machine has it."""
    return add(multiply(a, b), c)


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # ln 2 in two parts, the first with zero bits at its end
_ROUND = 12582912.0  # 1.5 * 2^23: adding it rounds to an integer in the low bits
_ROUND_BITS = 0x4B400000  # bits of _ROUND
_EXP_SERIES = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
_LOG_SERIES = (2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)


def _horner(builder, x, coefficients):
    value = _constant(coefficients[0])
    for c in coefficients[1:]:
        value = builder.fadd(builder.fmul(value, x, flags=FLAGS), _constant(c), flags=FLAGS)
    return value


def _shifted(builder, operation, words, count):
    return getattr(builder, operation)(words, _constant(count, _WORDS))


def _exp(builder, x):
    # No flags that reorder: adding and subtracting _ROUND is what rounds.
    rounded = builder.fadd(builder.fmul(x, _constant(_LOG2_E)), _constant(_ROUND))
    k = builder.fsub(rounded, _constant(_ROUND))
    rest = builder.fadd(x, builder.fmul(k, _constant(-_LN2_HIGH)), flags=FLAGS)
    rest = builder.fadd(rest, builder.fmul(k, _constant(-_LN2_LOW)), flags=FLAGS)
    value = builder.bitcast(_horner(builder, rest, _EXP_SERIES), _WORDS)
    return builder.bitcast(builder.add(value, _shifted(builder, "shl", builder.bitcast(rounded, _WORDS), 23)), _VECTOR)


def _log_ratio(builder, a, b):
    words_a, words_b = builder.bitcast(a, _WORDS), builder.bitcast(b, _WORDS)
    # The difference of the bits, in units of an exponent and rounded, is log2(a / b) to less than one.
    k = _shifted(builder, "ashr", builder.add(builder.sub(words_a, words_b), _constant(1 << 22, _WORDS)), 23)
    near = builder.bitcast(builder.sub(words_a, _shifted(builder, "shl", k, 23)), _VECTOR)
    s = builder.fdiv(builder.fsub(near, b), builder.fadd(near, b))
    tail = builder.fmul(s, _horner(builder, builder.fmul(s, s, flags=FLAGS), _LOG_SERIES), flags=FLAGS)
    whole = builder.sitofp(k, _VECTOR)
    high = builder.fmul(whole, _constant(_LN2_HIGH + _LN2_LOW), flags=FLAGS)
    return builder.fadd(high, tail, flags=FLAGS)


exp_of = _unary("exp(a) for -87 <= a <= 87, to two units in the last place.", _exp)
log_ratio = _binary("ln(a / b) of positive normal numbers, small where they are nearly equal.", _log_ratio)


@intrinsic
def where_positive(typingctx, a, then, otherwise):
    """`then` in the lanes in which a is above 0, and `otherwise` in the others."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(0.0)), args[1], args[2])

    return shots(shots, shots, shots), codegen
