"""Faster compilation: parts that are inlined, and the collection of garbage."""

from __future__ import annotations

import copy
import gc

import numpy as np


def test_nested_parts_with_branches_are_inlined_twice_into_one_kernel() -> None:
    """Names of variables are the same in all parts and must not be mixed up."""
    from numba import njit

    from equifactor.kernels.jit import inlined

    @inlined
    def clipped(x, n):
        top = x[n]
        if top < 0.0:
            top = 0.0
        return top

    @inlined
    def total(x, n):
        top = 0.0
        for k in range(n):
            top += clipped(x, k) if k % 2 else 2.0 * clipped(x, k)
        return top

    @njit
    def kernel(x, n):
        top = total(x, n)
        return top - total(x, n - 1), clipped(x, 0)

    assert kernel(np.array([3.0, -1.0, 4.0, -5.0, 7.0]), 5) == (14.0, 3.0)


def test_copies_of_the_blocks_of_a_part_share_its_variables() -> None:
    """Copying the table of variables with every block made the cost of inlining quadratic."""
    from numba.core.compiler import DEFAULT_FLAGS, Compiler
    from numba.core.inline_closurecall import InlineWorker
    from numba.core.registry import cpu_target

    from equifactor.kernels import quick_compiling  # noqa: F401

    def part(x: float) -> float:
        return x if x > 0.0 else -x

    contexts, flags = (cpu_target.typing_context, cpu_target.target_context), DEFAULT_FLAGS.copy()
    worker = InlineWorker(*contexts, {}, Compiler(*contexts, None, None, None, flags, {}), flags)
    code = worker.run_untyped_passes(part)
    assert len(code.blocks) > 1
    assert len({id(copy.deepcopy(block).scope) for block in code.blocks.values()}) == 1


def test_garbage_is_collected_again_after_a_compilation() -> None:
    from numba import njit

    from equifactor.kernels import quick_compiling  # noqa: F401

    assert gc.isenabled()
    assert njit(lambda x: x + 1)(1) == 2
    assert gc.isenabled()
    gc.disable()
    try:
        assert njit(lambda x: x + 2)(1) == 3
        assert not gc.isenabled()
    finally:
        gc.enable()
