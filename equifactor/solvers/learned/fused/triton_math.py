# mypy: ignore-errors
"""Small functions that the Triton kernels of FE-Net share. A tile has G edges of P states each: R = G P rows.

P is the number of states, rounded up to a power of two. `ok [R]` marks the rows of true states.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def squash(x):
    """Return arsinh of x within +-10,000, as `layers.squash` does."""
    x = tl.minimum(tl.maximum(x, -1e4), 1e4)
    size = tl.abs(x)
    out = tl.log(size + tl.sqrt(size * size + 1.0))
    return tl.where(x < 0, -out, out)


@triton.jit
def squash_slope(x):
    """Return the derivative of `squash`."""
    return tl.where(tl.abs(x) <= 1e4, 1.0 / tl.sqrt(x * x + 1.0), 0.0)


@triton.jit
def tanh(x):
    """Return the hyperbolic tangent."""
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def leaky(x):
    """Return the leaky ReLU of torch."""
    return tl.where(x > 0, x, 0.01 * x)


@triton.jit
def leaky_slope(x):
    """Return the derivative of `leaky`."""
    return tl.where(x > 0, 1.0, 0.01)


@triton.jit
def edge_sum(x, G: tl.constexpr, P: tl.constexpr):
    """Return [R] the sum over the states of each edge, repeated for each state."""
    total = tl.sum(tl.reshape(x, (G, P)), 1)
    return tl.reshape(tl.broadcast_to(total[:, None], (G, P)), (G * P,))


@triton.jit
def edge_sums(x, G: tl.constexpr, P: tl.constexpr, C: tl.constexpr):
    """Return [R, C] the sums over the states of each edge, repeated for each state."""
    total = tl.sum(tl.reshape(x, (G, P, C)), 1)
    return tl.reshape(tl.broadcast_to(total[:, None, :], (G, P, C)), (G * P, C))


@triton.jit
def log_softmax(x, ok, G: tl.constexpr, P: tl.constexpr):
    """Return [R] log values whose states add up to 1 on each edge, 0 in rows without a state."""
    rows = tl.reshape(tl.where(ok, x, -1e30), (G, P))
    top = tl.max(rows, 1)
    total = top + tl.log(tl.sum(tl.exp(rows - top[:, None]), 1))
    total = tl.reshape(tl.broadcast_to(total[:, None], (G, P)), (G * P,))
    return tl.where(ok, x - total, 0.0)


@triton.jit
def log_softmax_grad(grad, log_p, ok, G: tl.constexpr, P: tl.constexpr):
    """Return the gradient of `log_softmax` with respect to its input; `grad` is 0 in rows without a state."""
    return tl.where(ok, grad - tl.exp(log_p) * edge_sum(grad, G, P), 0.0)


@triton.jit
def matrix(w, at, K: tl.constexpr, N: tl.constexpr):
    """Return the [K, N] matrix that is stored from position `at`, row after row."""
    return tl.load(w + at + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])


@triton.jit
def vector(w, at, N: tl.constexpr):
    """Return the [N] numbers that are stored from position `at`."""
    return tl.load(w + at + tl.arange(0, N))


@triton.jit
def put_matrix(w, at, value, K: tl.constexpr, N: tl.constexpr):
    """Store a [K, N] matrix from position `at`."""
    tl.store(w + at + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :], value)


@triton.jit
def put_vector(w, at, value, N: tl.constexpr):
    """Store [N] numbers from position `at`."""
    tl.store(w + at + tl.arange(0, N), value)


@triton.jit
def dot(a, b, PREC: tl.constexpr):
    """Return a matrix product in a precision of Triton."""
    return tl.dot(a, b, input_precision=PREC)
