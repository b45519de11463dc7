# mypy: ignore-errors
"""The parts of a step of FE-Net between its layers, as compiled loops, for graphs without true zeros.

Columns are the n edges of one cardinality, as in `NativeWiring`, or the F pair factors of a group. Blocks of 16 columns
are vectors. The last block overlaps the one before it.
"""

import numpy as np

from equifactor.kernels.fastmath import exp_, get, put
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.vectors import narrowing, vector_operations

LANES = 16
_OPS = vector_operations("float32", LANES)
_load, _store, _filled = _OPS.load, _OPS.store, _OPS.filled
_add, _subtract, _multiply, _fma = _OPS.add, _OPS.subtract, _OPS.multiply, _OPS.multiply_add
_minimum, _maximum, _exp, _log_ratio = _OPS.minimum, _OPS.maximum, _OPS.exp_of, _OPS.log_ratio
_WIDE = vector_operations("float64", LANES)
_load_wide, _add_wide, _subtract_wide, _maximum_wide = _WIDE.load, _WIDE.add, _WIDE.subtract, _WIDE.maximum
_narrowed = narrowing(LANES)
_EIGHT = vector_operations("float64", 8)
_load_8, _store_8, _add_8, _multiply_8 = _EIGHT.load, _EIGHT.store, _EIGHT.add, _EIGHT.multiply
_size, _flip, _root = _OPS.size, _OPS.flip, _OPS.square_root
_FAR = -87.0  # exp of lower numbers is zero in single precision.


@inlined
def _number(value):
    return _filled(np.float32(value))


@inlined
def _squash(x):
    """Return arsinh of a vector, as `squash` does."""
    a = _minimum(_size(x), _number(1e4))
    return _flip(_log_ratio(_add(a, _root(_fma(a, a, _number(1.0)))), _number(1.0)), x)


@inlined
def _see(values, other, place, stride, card, is_max, keep, sent, block, out, to):
    """Normalise and squash one log message of 16 edges, the sum of two vectors; with `keep` also store it."""
    top = _load_wide(values, place)
    if other is not None:
        top = _add_wide(top, _load_wide(other, place))
    for x in range(1, card):
        value = _load_wide(values, place + x * stride)
        if other is not None:
            value = _add_wide(value, _load_wide(other, place + x * stride))
        top = _maximum_wide(top, value)
    scale = _number(0.0)
    for x in range(card):
        value = _load_wide(values, place + x * stride)
        if other is not None:
            value = _add_wide(value, _load_wide(other, place + x * stride))
        small = _narrowed(_subtract_wide(value, top))
        _store(block, x * LANES, small)
        scale = _add(scale, _exp(_maximum(small, _number(_FAR))))
    scale = _number(0.0) if is_max else _log_ratio(scale, _number(1.0))
    for x in range(card):
        value = _subtract(_load(block, x * LANES), scale)
        if keep:
            _store(sent, place + x * stride, value)
        _store(out, to + place + x * stride, _squash(value))


@fast_kernel
def see(msg_vf, old, new, unscaled, first, card, count, is_max, size, sent, out):
    """Normalise and squash the five log messages of every edge state; `sent` is the first of them, normalised.

    Args:
        msg_vf: [S2], like the following three.
        old: m_prev.
        new: m~.
        unscaled: m~ up to a constant per edge.
        first: the first edge state of these edges.
        card: states d.
        count: edges n, at least 16.
        is_max: whether the largest state has probability 1, and not the sum of all states.
        size: S2.
        sent: [S2], single precision.
        out: [5, S2], flat, single precision.
    """
    block = np.empty(card * LANES, np.float32)
    for begin in range(0, count, LANES):
        place = first + min(begin, count - LANES)
        _see(msg_vf, None, place, count, card, is_max, True, sent, block, out, 0)
        _see(old, None, place, count, card, is_max, False, sent, block, out, size)
        _see(new, None, place, count, card, is_max, False, sent, block, out, 2 * size)
        _see(msg_vf, old, place, count, card, is_max, False, sent, block, out, 3 * size)
        _see(unscaled, msg_vf, place, count, card, is_max, False, sent, block, out, 4 * size)


@inlined
def _receive(y, place, stride, card, is_max, given, to):
    """Take the messages of 16 factors from one side, relative to their largest entry."""
    top = _load(y, place)
    for x in range(1, card):
        top = _maximum(top, _load(y, place + x * stride))
    for x in range(card):
        value = _subtract(_load(y, place + x * stride), top)
        if not is_max:
            value = _exp(_maximum(value, _number(_FAR)))
        _store(given, to + x * LANES, value)


@inlined
def _send(found, begin, card, is_max, out, place, stride):
    """Store the messages of 16 factors to one side as features, and return the least linear number."""
    least, mean = _number(1.0), _number(0.0)
    for x in range(card):
        value = _load(found, begin + x * LANES)
        if not is_max:
            least = _minimum(least, value)
            value = _log_ratio(_maximum(value, _number(1e-37)), _number(1.0))
            _store(found, begin + x * LANES, value)
        mean = _add(mean, value)
    mean = _multiply(mean, _number(1.0 / card))
    for x in range(card):
        _store(out, place + x * stride, _squash(_subtract(_load(found, begin + x * LANES), mean)))
    return least


@fast_kernel
def pair_features(y, size, tables, channels, count, one, two, is_max, out):
    """Send y through pair tables in every channel; centre and squash what arrives. Return the least linear number.

    Args:
        y: [Q, S2], flat, single precision.
        size: S2.
        tables: [Q, d1, d2, F] logs (max) or linear numbers (sum), flat, single precision.
        channels: Q.
        count: factors F, at least 16.
        one: where the edge states of the first variables are: the first one, the distance between states, and d1.
        two: the same for the second variables.
        is_max: the semiring.
        out: [Q, S2], flat, single precision.
    """
    first_one, stride_one, d1 = one
    first_two, stride_two, d2 = two
    given_one, given_two = np.empty(d1 * LANES, np.float32), np.empty(d2 * LANES, np.float32)
    found = np.empty(d2 * LANES, np.float32)
    to_one = np.empty(d1 * LANES, np.float32)
    least = _number(1.0)
    for q in range(channels):
        for start in range(0, count, LANES):
            begin = min(start, count - LANES)
            place_one, place_two = q * size + first_one + begin, q * size + first_two + begin
            _receive(y, place_one, stride_one, d1, is_max, given_one, 0)
            _receive(y, place_two, stride_two, d2, is_max, given_two, 0)
            for z in range(d2):
                _store(found, z * LANES, _number(-3e38 if is_max else 0.0))
            for x in range(d1):
                total = _number(-3e38 if is_max else 0.0)
                here = _load(given_one, x * LANES)
                for z in range(d2):
                    entry = _load(tables, ((q * d1 + x) * d2 + z) * count + begin)
                    there, before = _load(given_two, z * LANES), _load(found, z * LANES)
                    if is_max:
                        total = _maximum(total, _add(entry, there))
                        _store(found, z * LANES, _maximum(before, _add(entry, here)))
                    else:
                        total = _fma(entry, there, total)
                        _store(found, z * LANES, _fma(entry, here, before))
                _store(to_one, x * LANES, total)
            least = _minimum(least, _send(to_one, 0, d1, is_max, out, place_one, stride_one))
            least = _minimum(least, _send(found, 0, d2, is_max, out, place_two, stride_two))
    block = np.empty(LANES, np.float32)
    _store(block, 0, least)
    return block.min()


@fast_kernel
def ring_sums(tables, count, corners, given, out):
    """Set the linear messages of N loops to their four corners, from the messages that the corners send.

    Args:
        tables: [d1, d2, d3, d4, N] linear, flat; d4 is 1 for a triangle.
        count: loops N, at least 8.
        corners: for each corner the place of its first state in `given` and `out`, the distance between states, and d.
        given: [S_L] linear.
        out: [S_L] linear.
    """
    (a, step_a, d_a), (b, step_b, d_b), (c, step_c, d_c), (d, step_d, d_d) = corners
    for begin in range(0, count, 8):
        at = min(begin, count - 8)
        for x in range(d_a):
            for y in range(d_b):
                for z in range(d_c):
                    for w in range(d_d):
                        entry = _load_8(tables, (((x * d_b + y) * d_c + z) * d_d + w) * count + at)
                        to_a, to_b = a + x * step_a + at, b + y * step_b + at
                        to_c, to_d = c + z * step_c + at, d + w * step_d + at
                        m_a, m_b = _load_8(given, to_a), _load_8(given, to_b)
                        m_c, m_d = _load_8(given, to_c), _load_8(given, to_d)
                        before = _multiply_8(entry, _multiply_8(m_a, m_b))
                        after = _multiply_8(entry, _multiply_8(m_c, m_d))
                        _add_to(out, to_a, _multiply_8(after, m_b), y + z + w == 0)
                        _add_to(out, to_b, _multiply_8(after, m_a), x + z + w == 0)
                        _add_to(out, to_c, _multiply_8(before, m_d), x + y + w == 0)
                        _add_to(out, to_d, _multiply_8(before, m_c), x + y + z == 0)


@inlined
def _add_to(out, place, value, is_first):
    _store_8(out, place, value if is_first else _add_8(_load_8(out, place), value))


@inlined
def _logistic(x):
    return 1.0 / (1.0 + exp_(min(max(-x, -700.0), 700.0)))


@fast_kernel
def update(out, bias, delta, has_loops, has_temper, new, old, first_alpha, first, card, count, size, msg):
    """Compute the next messages of all edges of one cardinality, step 7 of `FENet`, before `settle`.

    Args:
        out: [2 to 4, S2], flat, single precision: alpha, epsilon, kappa and tau.
        bias: of the rows of `out`.
        delta: [S2] corrections; not read without `has_loops`.
        has_loops: whether messages are corrected; kappa is the third row.
        has_temper: whether messages are raised to powers; tau is the last row.
        new: [S2] m~.
        old: [S2] m_prev.
        first_alpha: added to alpha.
        first: the first edge state of these edges.
        card: states d.
        count: edges n.
        size: S2.
        msg: [S2] the result.
    """
    gate, shift = np.zeros(count), np.zeros(count)
    tau = (len(bias) - 1) * size + first
    for x in range(card):
        for n in range(count):
            put(shift, n, get(shift, n) + get(out, size + first + x * count + n) / card)
            put(gate, n, get(gate, n) + get(out, tau + x * count + n) / card)
    for n in range(count):
        put(gate, n, 2.0 * _logistic(get(gate, n) + bias[-1]) if has_temper else 1.0)
    for x in range(card):
        begin = first + x * count
        for n in range(count):
            at = begin + n
            value = get(new, at)
            if has_loops:
                value += get(delta, at) * (1.0 + get(out, 2 * size + at) + bias[2])
            value *= get(gate, n)
            keep = _logistic(get(out, at) + bias[0] + first_alpha)
            put(msg, at, value + keep * (get(old, at) - value) + (get(out, size + at) - get(shift, n)))
