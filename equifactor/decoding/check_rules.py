# mypy: ignore-errors
"""The two rules by which a check answers its bits, min-sum and sum-product, for all lanes at once.

Both rules read the messages of the bits of one check from `work`, slot s at `s LANES`, and write the answers there.
"""

import numpy as np

from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.vectors import vector_operations

LANES = 16  # The number of lanes: 16 single-precision numbers fill one line of cache (64 bytes).
OPS = vector_operations("float32", LANES)
load, store, filled = OPS.load, OPS.store, OPS.filled
add, subtract, multiply, multiply_add, divide = OPS.add, OPS.subtract, OPS.multiply, OPS.multiply_add, OPS.divide
minimum, maximum, where_equal, where_positive = OPS.minimum, OPS.maximum, OPS.where_equal, OPS.where_positive
of_signs, size, flip, mix_signs = OPS.of_signs, OPS.size, OPS.flip, OPS.mix_signs
exp_of, log_ratio = OPS.exp_of, OPS.log_ratio
ROWS = 4  # The number of rows of scratch for each slot.
LARGEST = np.float32(1e20)  # The largest message of min-sum, which is also the answer of a check of one bit.
LIMIT = np.float32(40.0)  # The largest message of sum-product: the product of two such odds is a normal number.
TINIEST = np.float32(1e-37)  # Replaces a weight that has underflowed to zero; close to the smallest normal number.
SHORT = 100  # Up to this arity a product of numbers between 1 and 2 does not overflow (2^100 < 3e38).


@inlined
def answer_min_sum(work, arity, bits, scale):
    """Answer every bit with the smallest absolute message of the other bits, times `scale`.

    The sign of the answer is the one that meets the syndrome `bits`.
    """
    least = second = filled(LARGEST)
    sign = of_signs(bits)
    for s in range(arity):
        ratio = load(work, s * LANES)
        own = size(ratio)
        second = minimum(second, maximum(least, own))
        least = minimum(least, own)
        sign = mix_signs(sign, ratio)
    scaled_least, scaled_second = multiply(least, scale), multiply(second, scale)
    for s in range(arity):
        ratio = load(work, s * LANES)
        rest = where_equal(size(ratio), least, scaled_second, scaled_least)
        store(work, s * LANES, flip(flip(rest, sign), ratio))


@fast_kernel
def answer_sum_product(work, scratch, arity, bits):
    """Answer every bit with ln(weight of an even / weight of an odd number of errors among the other bits).

    A set bit of the syndrome `bits` flips the sign. A check is an automaton that reads its bits and remembers whether
    the number of errors so far is even or odd. Its weights before and after a slot are sums of products of positive
    numbers, so that nothing cancels. The usual formula with tanh loses precision on bits that are nearly certain. The
    larger of the two weights of a bit is 1.

    Rows of `scratch` for each slot: the weights of 0 and of 1, and of even and of odd before the slot.
    """
    one, zero = filled(np.float32(1.0)), filled(np.float32(0.0))
    even, odd = one, zero
    for s in range(arity):
        at = s * ROWS * LANES
        ratio = load(work, s * LANES)
        small = exp_of(subtract(zero, minimum(size(ratio), filled(LIMIT))))
        p0, p1 = where_positive(ratio, one, small), where_positive(ratio, small, one)
        store(scratch, at, p0)
        store(scratch, at + LANES, p1)
        store(scratch, at + 2 * LANES, even)
        store(scratch, at + 3 * LANES, odd)
        even, odd = multiply_add(even, p0, multiply(odd, p1)), multiply_add(even, p1, multiply(odd, p0))
        if arity > SHORT:
            total = add(even, odd)
            even, odd = divide(even, total), divide(odd, total)
    even, odd = one, zero
    sign, floor = of_signs(bits), filled(TINIEST)
    for s in range(arity - 1, -1, -1):
        at = s * ROWS * LANES
        p0, p1 = load(scratch, at), load(scratch, at + LANES)
        even_before, odd_before = load(scratch, at + 2 * LANES), load(scratch, at + 3 * LANES)
        rest_even = multiply_add(even_before, even, multiply(odd_before, odd))
        rest_odd = multiply_add(even_before, odd, multiply(odd_before, even))
        store(work, s * LANES, flip(log_ratio(maximum(rest_even, floor), maximum(rest_odd, floor)), sign))
        even, odd = multiply_add(even, p0, multiply(odd, p1)), multiply_add(even, p1, multiply(odd, p0))
        if arity > SHORT:
            total = add(even, odd)
            even, odd = divide(even, total), divide(odd, total)
