# mypy: ignore-errors
"""What a check answers to its bits, for all shots at once: the two rules of belief propagation on parities.

Both read the messages of the bits of one check from `work`, slot s at `s LANES`, and leave the answers there.
"""

import numpy as np

from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.vectors import vector_operations

LANES = 16  # numbers
OPS = vector_operations("float32", LANES)
load, store, filled = OPS.load, OPS.store, OPS.filled
add, subtract, multiply, multiply_add, divide = OPS.add, OPS.subtract, OPS.multiply, OPS.multiply_add, OPS.divide
minimum, maximum, where_equal, where_positive = OPS.minimum, OPS.maximum, OPS.where_equal, OPS.where_positive
of_signs, size, flip, mix_signs = OPS.of_signs, OPS.size, OPS.flip, OPS.mix_signs
exp_of, log_ratio = OPS.exp_of, OPS.log_ratio
ROWS = 4  # rows of scratch per slot
LARGEST = np.float32(1e20)  # of a message of min-sum: what a check of one bit says, and where growing ones stop
LIMIT = np.float32(40.0)  # of a message of sum-product: a product of two such probabilities is a normal number
TINIEST = np.float32(1e-37)  # what a weight that has vanished is taken for
SHORT = 100  # up to this arity a product of sums between 1 and 2 is a normal number


@inlined
def answer_min_sum(work, arity, bits, scale):
    """The smallest size among the other bits, scaled, with the sign that the syndrome `bits` and the others ask for."""
    least = second = filled(LARGEST)
    sign = of_signs(bits)
    for s in range(arity):
        ratio = load(work, s * LANES)
        own = size(ratio)
        second = minimum(second, maximum(least, own))
        least = minimum(least, own)
        sign = mix_signs(sign, ratio)
    said_least, said_second = multiply(least, scale), multiply(second, scale)
    for s in range(arity):
        ratio = load(work, s * LANES)
        rest = where_equal(size(ratio), least, said_second, said_least)
        store(work, s * LANES, flip(flip(rest, sign), ratio))


@fast_kernel
def answer_sum_product(work, scratch, arity, bits):
    """ln of the weight of an even over that of an odd number of errors among the other bits, turned by the syndrome.

    A check is an automaton that reads its bits: even or odd so far. Its weights before and after a slot are sums of
    products, so that nothing cancels, which tanh does where bits are sure. The larger weight of a bit is 1.

    Rows of `scratch` per slot: the weights of 0 and of 1, of even and of odd before the slot.
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
