from __future__ import annotations

import numpy as np

from equifactor.kernels.fastmath import MIN_EXP, exp_, log_, log_ratio_
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def exp_all(x, out):
    for n in range(len(x)):
        out[n] = exp_(x[n])


@fast_kernel
def log_all(x, out):
    for n in range(len(x)):
        out[n] = log_(x[n])


@fast_kernel
def log_ratio_all(a, b, out):
    for n in range(len(a)):
        out[n] = log_ratio_(a[n], b[n])


def test_exp_is_right_to_two_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(MIN_EXP, 700, 200_001), np.linspace(-1, 1, 100_001), [0.0]])
    out = np.empty_like(x)
    exp_all(x, out)
    assert np.max(np.abs(out / np.exp(x) - 1)) < 5e-16


def test_log_is_right_to_a_few_units_in_the_last_place() -> None:
    x = np.concatenate([np.exp(np.linspace(-700, 700, 200_001)), np.linspace(0.5, 2, 100_002)])
    out = np.empty_like(x)
    log_all(x, out)
    want = np.log(x)
    assert np.max(np.abs(out - want) / np.maximum(np.abs(want), 1e-300)) < 1e-15


def test_log_of_a_ratio_is_right_to_a_few_units_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    b = np.exp(rng.uniform(-340, 340, 200_000))
    a = b * np.concatenate([np.exp(rng.uniform(-340, 340, 100_000)), rng.uniform(0.25, 4, 100_000)])
    out = np.empty_like(a)
    log_ratio_all(a, b, out)
    near = np.abs(a - b) < b / 2
    want = np.log(a) - np.log(b)
    assert np.max(np.abs(out - want)) < 1e-12
    want = np.log1p((a - b)[near] / b[near])
    assert np.max(np.abs(out[near] - want) / np.maximum(np.abs(want), 1e-300)) < 1e-15
