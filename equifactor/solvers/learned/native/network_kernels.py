# mypy: ignore-errors
"""Layers of the native networks as compiled loops over blocks of 32 columns, whose numbers stay in the nearest cache.

A block of K rows is K * 32 numbers. Matrices are flat, and their rows are padded with zeros to a multiple of four: four
outputs of 32 columns are eight vectors of 16 numbers, which the compiler keeps in registers.
"""

import numpy as np

from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel
from equifactor.kernels.vectors import vector_operations

LANES = 16
BLOCK = 2 * LANES
_OPS = vector_operations("float32", LANES)
_load, _store, _filled, _fma = _OPS.load, _OPS.store, _OPS.filled, _OPS.multiply_add
_add, _subtract, _multiply, _divide = _OPS.add, _OPS.subtract, _OPS.multiply, _OPS.divide
_minimum, _maximum, _exp = _OPS.minimum, _OPS.maximum, _OPS.exp_of


@fast_kernel
def _product(weight, num_out, num_in, given, begin, start, out):
    """Set a block to `start` plus a matrix times the block that begins at `given[begin]`."""
    for r in range(0, num_out, 4):
        w0 = r * num_in
        w1, w2, w3 = w0 + num_in, w0 + 2 * num_in, w0 + 3 * num_in
        o0, o1, o2, o3 = r * BLOCK, (r + 1) * BLOCK, (r + 2) * BLOCK, (r + 3) * BLOCK
        a0, b0 = _load(start, o0), _load(start, o0 + LANES)
        a1, b1 = _load(start, o1), _load(start, o1 + LANES)
        a2, b2 = _load(start, o2), _load(start, o2 + LANES)
        a3, b3 = _load(start, o3), _load(start, o3 + LANES)
        for k in range(num_in):
            x, y = _load(given, begin + k * BLOCK), _load(given, begin + k * BLOCK + LANES)
            f = _filled(get(weight, w0 + k))
            a0, b0 = _fma(f, x, a0), _fma(f, y, b0)
            f = _filled(get(weight, w1 + k))
            a1, b1 = _fma(f, x, a1), _fma(f, y, b1)
            f = _filled(get(weight, w2 + k))
            a2, b2 = _fma(f, x, a2), _fma(f, y, b2)
            f = _filled(get(weight, w3 + k))
            a3, b3 = _fma(f, x, a3), _fma(f, y, b3)
        _store(out, o0, a0)
        _store(out, o0 + LANES, b0)
        _store(out, o1, a1)
        _store(out, o1 + LANES, b1)
        _store(out, o2, a2)
        _store(out, o2 + LANES, b2)
        _store(out, o3, a3)
        _store(out, o3 + LANES, b3)


@inlined
def _read(values, place, width, block, to):
    """Copy up to 32 numbers of a row into a block; missing ones become 0."""
    if width == BLOCK:
        _store(block, to, _load(values, place))
        _store(block, to + LANES, _load(values, place + LANES))
    else:
        for n in range(BLOCK):
            put(block, to + n, get(values, place + n) if n < width else np.float32(0.0))


@inlined
def _write(block, begin, width, values, place):
    """Copy the first numbers of a row of a block."""
    if width == BLOCK:
        _store(values, place, _load(block, begin))
        _store(values, place + LANES, _load(block, begin + LANES))
    else:
        for n in range(width):
            put(values, place + n, get(block, begin + n))


@inlined
def _repeated(values, count):
    """Return a block [count, 32] with each of the values in a row."""
    block = np.zeros(count * BLOCK, np.float32)
    for n in range(len(values)):
        for m in range(BLOCK):
            block[n * BLOCK + m] = values[n]
    return block


@fast_kernel
def mean_mlp(given, size, first, card, count, own, mean, bias, last, last_bias, out):
    """Compute `MeanMlp` for all edges of one cardinality.

    Args:
        given: [K, size], flat.
        size: edge states of the batch.
        first: the first edge state of the edges.
        card: states d of the edges.
        count: edges n.
        own: [H, K] weights of the values of a state.
        mean: [H, K] weights of the means over states.
        bias: [H].
        last: [M, H] the last layer.
        last_bias: [M'], with M' up to M.
        out: [M', size], flat.
    """
    hidden_size, num_in, num_out = len(bias), len(own) // len(bias), len(last) // len(bias)
    states = np.empty((card + 1) * num_in * BLOCK, np.float32)
    start, last_start = _repeated(bias, hidden_size), _repeated(last_bias, num_out)
    of_mean, hidden = np.empty(hidden_size * BLOCK, np.float32), np.empty(hidden_size * BLOCK, np.float32)
    found = np.empty(num_out * BLOCK, np.float32)
    share, slope = _filled(np.float32(1.0 / card)), _filled(np.float32(0.01))
    for column in range(0, count, BLOCK):
        width = min(BLOCK, count - column)
        for k in range(num_in):
            total, other = _filled(np.float32(0.0)), _filled(np.float32(0.0))
            for x in range(card):
                to = (x * num_in + k) * BLOCK
                _read(given, k * size + first + x * count + column, width, states, to)
                total, other = _add(total, _load(states, to)), _add(other, _load(states, to + LANES))
            to = (card * num_in + k) * BLOCK
            _store(states, to, _multiply(total, share))
            _store(states, to + LANES, _multiply(other, share))
        _product(mean, hidden_size, num_in, states, card * num_in * BLOCK, start, of_mean)
        for x in range(card):
            _product(own, hidden_size, num_in, states, x * num_in * BLOCK, of_mean, hidden)
            for n in range(0, hidden_size * BLOCK, LANES):
                value = _load(hidden, n)
                _store(hidden, n, _maximum(value, _multiply(value, slope)))
            _product(last, num_out, hidden_size, hidden, 0, last_start, found)
            for m in range(len(last_bias)):
                _write(found, m * BLOCK, width, out, m * size + first + x * count + column)


@fast_kernel
def mlp(given, size, weights, biases, sizes, slope, out):
    """Compute linear layers with a leaky ReLU between them, for all columns.

    Args:
        given: [K, size], flat.
        size: the number of columns.
        weights: the matrices of all layers one after the other, with rows padded.
        biases: the biases of all layers, padded in the same way.
        sizes: the number of inputs of each layer and the outputs of the last, all but the first one padded.
        slope: of the leaky ReLU below zero.
        out: [M, size], flat, with M up to the last of the sizes.
    """
    widest = sizes.max()
    block, found = np.empty(widest * BLOCK, np.float32), np.empty(widest * BLOCK, np.float32)
    starts = _repeated(biases, len(biases))
    below = _filled(np.float32(slope))
    for column in range(0, size, BLOCK):
        width = min(BLOCK, size - column)
        for k in range(sizes[0]):
            _read(given, k * size + column, width, block, k * BLOCK)
        weight = bias = 0
        for n in range(len(sizes) - 1):
            num_in, num_out = sizes[n], sizes[n + 1]
            if n > 0:
                for m in range(0, num_in * BLOCK, LANES):
                    value = _load(block, m)
                    _store(block, m, _maximum(value, _multiply(value, below)))
            _product(weights[weight:], num_out, num_in, block, 0, starts[bias * BLOCK :], found)
            block, found = found, block
            weight, bias = weight + num_in * num_out, bias + num_out
        for m in range(len(out) // size):
            _write(block, m * BLOCK, width, out, m * size + column)


@fast_kernel
def graph_affine(values, size, starts, owner, scale, shift, slope):
    """Multiply and shift every row by numbers of the graph of each column, then take max(x, slope x), in place.

    Args:
        values: [H, size], flat.
        size: the number of columns.
        starts: the first column of each stretch of columns of one graph, and the end of the last.
        owner: the graph of each stretch.
        scale: [H, G], flat.
        shift: [H, G], flat.
        slope: 1 leaves values as they are.
    """
    num_rows = len(values) // size
    num_graphs = len(scale) // num_rows
    for row in range(num_rows):
        for s in range(len(owner)):
            a, b = scale[row * num_graphs + owner[s]], shift[row * num_graphs + owner[s]]
            for n in range(row * size + starts[s], row * size + starts[s + 1]):
                value = get(values, n) * a + b
                put(values, n, max(value, value * slope))


@reordering_kernel
def graph_means(values, size, starts, owner, share, center, out):
    """Set out [H, G] to the means over graphs of values, or with `center` [H, G] of squared distances from it."""
    num_graphs = len(share)
    for row in range(len(values) // size):
        for s in range(len(owner)):
            graph = row * num_graphs + owner[s]
            total = 0.0
            if center is None:
                for n in range(row * size + starts[s], row * size + starts[s + 1]):
                    total += get(values, n)
            else:
                middle = center[graph]
                for n in range(row * size + starts[s], row * size + starts[s + 1]):
                    total += (get(values, n) - middle) * (get(values, n) - middle)
            out[graph] += total * share[owner[s]]


@inlined
def _tanh(x):
    """Return tanh of a vector: 1 - 2 / (exp(2 x) + 1), which is 1 up to rounding from 9 on."""
    bound, one, two = _filled(np.float32(9.0)), _filled(np.float32(1.0)), _filled(np.float32(2.0))
    x = _maximum(_minimum(x, bound), _subtract(_filled(np.float32(0.0)), bound))
    return _subtract(one, _divide(two, _add(_exp(_add(x, x)), one)))


@fast_kernel
def gru(given, size, gates, again, channels, out):
    """Compute `Gru` for all columns; the first rows of the input are the hidden state.

    Args:
        given: [K, size], flat.
        size: the number of columns.
        gates: [3 C, K], rows padded.
        again: [C, C + 1] for the hidden state and a row of ones, rows padded.
        channels: C.
        out: [C, size], flat.
    """
    rows = (channels + 3) // 4 * 4
    gate_rows = (3 * channels + 3) // 4 * 4
    num_in, num_again = len(gates) // gate_rows, len(again) // rows
    block = np.empty(num_in * BLOCK, np.float32)
    zeros = np.zeros(gate_rows * BLOCK, np.float32)
    gate, new = np.empty(gate_rows * BLOCK, np.float32), np.empty(rows * BLOCK, np.float32)
    one, half = _filled(np.float32(1.0)), _filled(np.float32(0.5))
    for column in range(0, size, BLOCK):
        width = min(BLOCK, size - column)
        for k in range(num_in):
            _read(given, k * size + column, width, block, k * BLOCK)
        _product(gates, gate_rows, num_in, block, 0, zeros, gate)
        _product(again, rows, num_again, block, 0, zeros, new)
        for n in range(0, channels * BLOCK, LANES):
            reset, kept = _add(_tanh(_load(gate, n)), one), _add(_tanh(_load(gate, n + channels * BLOCK)), one)
            value = _tanh(_fma(reset, _load(new, n), _load(gate, n + 2 * channels * BLOCK)))
            kept = _multiply(_multiply(kept, half), _subtract(_load(block, n), value))
            _store(new, n, _add(value, kept))
        for c in range(channels):
            _write(new, c * BLOCK, width, out, c * size + column)
