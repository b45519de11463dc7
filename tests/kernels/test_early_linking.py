"""Kernels that only other kernels call have no entry for Python until Python calls them."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from equifactor.kernels import early_linking, kernel_folders, source_stamp

MODULE = """
import numpy as np

from equifactor.kernels.jit import kernel

@kernel
def root(x):
    if x < 0.0:
        raise ValueError("the root of a negative number")
    return x**0.5

@kernel
def root_of_sum(x):
    return root(x.sum())

@kernel
def with_roots(x):
    return x, np.sqrt(x)

@kernel
def sum_with_roots(x):
    return with_roots(x)[1].sum() + x.sum()

@kernel
def digits(n):
    return 1 if n < 10 else 1 + digits(n // 10)

@kernel
def more_digits(n):
    return digits(n) + 1
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports the kernels as a new process would, with an empty cache."""
    path = tmp_path / "roots.py"
    path.write_text(MODULE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def loaded() -> Any:
        source_stamp.module_stamp.cache_clear()
        spec = importlib.util.spec_from_file_location("roots", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "roots", module)
        spec.loader.exec_module(module)
        return module

    kernel_folders._made_folder.cache_clear()
    yield loaded
    kernel_folders._made_folder.cache_clear()


def linkable(kernel: Any) -> list[bool]:
    return [early_linking.is_linkable(made.library) for made in kernel.overloads.values()]


def test_a_called_kernel_gets_an_entry_when_python_calls_it(load: Any) -> None:
    import numpy as np

    roots = load()
    assert roots.root_of_sum(np.array([4.0, 5.0])) == 3.0
    assert linkable(roots.root) == [True]
    assert linkable(roots.root_of_sum) == [False]
    assert roots.root(16.0) == 4.0
    assert linkable(roots.root) == [False]


@pytest.mark.parametrize("first", ["root", "root_of_sum"])
def test_errors_of_a_linked_kernel_arrive(load: Any, first: str) -> None:
    """An exception lies among the Python objects of the kernel that raises it; its callers must find them."""
    import numpy as np

    given = {"root": -1.0, "root_of_sum": np.array([1.0, -2.0])}
    for _ in range(2):  # compiled, then read from the cache
        roots = load()
        for name in (first, *given):
            with pytest.raises(ValueError, match="the root of a negative number"):
                getattr(roots, name)(given[name])


def test_an_entry_of_a_linkable_kernel_serves_python_and_kernels(load: Any, tmp_path: Path) -> None:
    import numpy as np

    numbers = np.array([4.0, 5.0])
    load().root_of_sum(numbers)
    for path in tmp_path.rglob("*root_of_sum*.kernel"):
        path.unlink()
    again = load()
    assert again.root_of_sum(numbers) == 3.0
    assert sum(again.root.stats.cache_hits.values()) == 1
    called = load()
    assert called.root(16.0) == 4.0
    assert sum(called.root.stats.cache_misses.values()) == 0
    third = load()
    assert third.root(25.0) == 5.0
    assert third.root_of_sum(numbers) == 3.0
    assert linkable(third.root) == [False]


def test_a_caller_that_is_read_first_brings_fewer_constants(load: Any) -> None:
    """The entry for Python has constants that the caller was saved without, such as the types of arrays to return."""
    import numpy as np
    from numba.core.environment import Environment

    numbers, kernels = np.array([4.0, 9.0]), load()
    assert kernels.sum_with_roots(numbers) == 18.0
    kernels.with_roots(numbers)
    Environment._memo.clear()  # as in a new process
    again = load()
    assert again.sum_with_roots(numbers) == 18.0
    np.testing.assert_array_equal(again.with_roots(numbers)[1], [2.0, 3.0])
    assert sum(again.with_roots.stats.cache_misses.values()) == 0


def test_a_kernel_that_was_saved_for_its_callers_returns_arrays_to_python(load: Any) -> None:
    import numpy as np

    numbers = np.array([4.0, 9.0])
    load().sum_with_roots(numbers)
    again = load()
    same, roots = again.with_roots(numbers)
    assert same is not None
    np.testing.assert_array_equal(roots, [2.0, 3.0])
    assert sum(again.with_roots.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("first", ["digits", "more_digits"])
def test_a_kernel_may_call_itself(load: Any, first: str) -> None:
    kernels = load()
    getattr(kernels, first)(5)
    assert kernels.digits(1234) == 4
    assert kernels.more_digits(1234) == 5


def test_other_functions_of_numba_may_call_a_kernel(load: Any) -> None:
    from numba import njit

    root = load().root
    assert njit(lambda x: root(x) + 1.0)(9.0) == 4.0
    assert root(9.0) == 3.0


def test_an_unknown_numba_compiles_as_usual(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setattr(early_linking, "AVAILABLE", False)
    roots = load()
    assert roots.root_of_sum(np.array([4.0, 5.0])) == 3.0
    assert linkable(roots.root) == [False]
    assert roots.root(16.0) == 4.0


def test_an_interrupted_entry_leaves_the_constants_as_they_were(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of an entry finds its constants by their places, which must be the same in all processes."""
    import numpy as np
    from numba.core.cpu import CPUContext

    numbers, kernels = np.array([4.0, 9.0]), load()
    kernels.sum_with_roots(numbers)
    (made,) = kernels.with_roots.overloads.values()
    before = list(made.environment.consts)

    def interrupted(context: Any, *args: Any) -> None:
        complete(context, *args)
        raise KeyboardInterrupt

    complete = CPUContext.create_cpython_wrapper
    with monkeypatch.context() as patch:
        patch.setattr(CPUContext, "create_cpython_wrapper", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kernels.with_roots(numbers)
    assert made.environment.consts == before
    np.testing.assert_array_equal(kernels.with_roots(numbers)[1], [2.0, 3.0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork")
def test_a_forked_process_numbers_its_functions_by_itself() -> None:
    from numba.core.bytecode import FunctionIdentity

    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of a fork beside threads.
        child = os.fork()
    if child == 0:
        os.write(write, str(next(FunctionIdentity._unique_ids)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    other = int(os.read(read, 100))
    os.close(read)
    os.close(write)
    assert abs(other - next(FunctionIdentity._unique_ids)) > 1000  # two of 2^40 numbers
