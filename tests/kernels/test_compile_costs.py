"""What is known of kernels before they compile: how long they take, and which are ready."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from equifactor.base.clock import Clock, NotCompiledError, NotLoadedError
from equifactor.cli.kernel_warming import families
from equifactor.kernels import compile_costs, kernel_folders

TIMES = {"one": {"a.f": 2.0, "a.g": 1.0}, "two": {"a.g": 1.0, "b.h": 4.0}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's kernels, and a table of two families."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_folders, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(compile_costs, "compile_times", lambda: TIMES)
    monkeypatch.setattr(compile_costs._Pace, "expected", 0.0)
    monkeypatch.setattr(compile_costs._Pace, "taken", 0.0)
    monkeypatch.setattr(compile_costs, "cpu_seconds", {})
    monkeypatch.setattr(compile_costs, "_begun", [])
    monkeypatch.setattr(Clock, "ignores_compiling", False)
    compile_costs._seconds.cache_clear()
    yield tmp_path / "equifactor"
    compile_costs._seconds.cache_clear()


def test_kernels_on_disk_cost_nothing(folder: Path) -> None:
    assert compile_costs.seconds_to_compile("one") == 3.0
    assert compile_costs.seconds_to_compile("one", "two") == 7.0
    assert compile_costs.seconds_to_compile("nobody") == 0.0
    (folder / "a.g-0123.kernel").touch()
    assert compile_costs.seconds_to_compile("one", "two") == 6.0
    kernel_folders.SHIPPED.mkdir()
    (kernel_folders.SHIPPED / "b.h-4567.kernel").touch()
    assert compile_costs.seconds_to_compile("two") == 0.0


def test_a_slow_machine_is_noticed(folder: Path, driven_time) -> None:
    compile_costs.compilation_begins("a.f")
    driven_time.advance(2.0)
    compile_costs.compilation_begins("")  # A function of Numba is a part of the kernel that calls it,
    driven_time.advance(3.0)
    compile_costs.compilation_begins("b.h")  # but another kernel is not.
    driven_time.advance(12.0)
    compile_costs.compilation_ends(succeeded=False)  # What was cut off says nothing about the pace.
    driven_time.advance(1.0)
    compile_costs.compilation_ends(succeeded=True)
    compile_costs.compilation_ends(succeeded=True)
    assert compile_costs.seconds_to_compile("one") == 9.0  # "a.f" took 6 s in place of 2 s
    assert set(compile_costs.cpu_seconds) >= {"a.f"}
    assert "b.h" not in compile_costs.cpu_seconds


def test_what_a_limit_allows(folder: Path, driven_time) -> None:
    assert compile_costs.can_compile(Clock(), 0.1, "one", "two")  # without a limit there is time for everything
    assert compile_costs.can_compile(Clock(10.0), 0.5, "one")
    assert not compile_costs.can_compile(Clock(10.0), 0.2, "one")
    assert not compile_costs.can_compile(Clock(100.0, whole=Clock(4.0)), 0.5, "two")


def test_a_kernel_that_would_be_late_is_refused(folder: Path, driven_time) -> None:
    compile_costs.check_time("b.h")
    with Clock(5.0).govern():
        compile_costs.check_time("b.h")
        driven_time.advance(2.0)
        with pytest.raises(NotCompiledError, match=r"A compiled kernel is missing \(b.h\), and compiling it takes"):
            compile_costs.check_time("b.h")
        compile_costs.check_time("a.g")
    compile_costs.check_time("b.h")


def test_kernels_that_wait_for_another_one_count(folder: Path, driven_time) -> None:
    with Clock(2.5).govern():
        compile_costs.check_time("a.f")
        compile_costs.compilation_begins("a.f")
        with pytest.raises(NotCompiledError, match=r"\(a.g\), and compiling it takes about 3 s"):
            compile_costs.check_time("a.g")


def test_a_kernel_in_progress_is_cut_off_at_the_deadline(folder: Path, driven_time) -> None:
    compile_costs.compilation_begins("b.h")
    compile_costs.check_pass(is_last=True)
    with Clock(1.0).govern():
        compile_costs.check_pass(is_last=False)
        with pytest.raises(NotCompiledError, match=r"\(b.h\), and compiling it takes about 4 s"):
            compile_costs.check_pass(is_last=True)  # The last pass takes 2.6 s.
        driven_time.advance(1.0)
        with pytest.raises(NotCompiledError):
            compile_costs.check_pass(is_last=False)
    compile_costs.compilation_ends(succeeded=False)
    with Clock(0.0).govern():
        compile_costs.check_pass(is_last=True)  # a kernel of another package


@pytest.fixture
def crowded(driven_time, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock with 3 s left in a call that got a tenth of a core so far."""
    monkeypatch.setattr(Clock, "cpu_now", lambda: 0.1 * driven_time.seconds)
    clock = Clock(5.0)
    driven_time.advance(2.0)
    return clock


def test_numba_is_not_loaded_on_a_machine_too_busy_for_it(folder: Path, crowded: Clock) -> None:
    watch = next(finder for finder in sys.meta_path if isinstance(finder, compile_costs._NumbaWatch))
    assert watch.find_spec("numba", None) is None  # Without a call in progress there is time.
    with crowded.govern():
        assert compile_costs.load_seconds() == pytest.approx(3.5)
        assert watch.find_spec("numba", None) is None  # It may end half a second late.
        Clock.now.advance(0.1)
        with pytest.raises(NotLoadedError, match=r"takes about 4 s on this busy machine, but only 3 s are left"):
            watch.find_spec("numba", None)
        assert watch.find_spec("numpy", None) is None


def test_the_first_kernel_is_as_slow_as_the_call_so_far(folder: Path, crowded: Clock) -> None:
    with crowded.govern():
        assert compile_costs.seconds_to_compile("one") == pytest.approx(30.0)
        with pytest.raises(NotCompiledError):
            compile_costs.check_time("a.g")
        compile_costs._Pace.add("a.f", 2.0)  # Now the pace of compiling is known.
        compile_costs.check_time("a.g")


def test_numba_stops_in_the_middle_and_can_begin_again(
    folder: Path, driven_time, monkeypatch: pytest.MonkeyPatch
) -> None:
    from equifactor.kernels.jit import kernel

    @kernel
    def inner(x):
        return x + 1

    @kernel
    def outer(x):
        return 2 * inner(x)

    monkeypatch.setattr(compile_costs, "_UNKNOWN", 0.0)  # Both kernels may begin.
    driven_time.tick = 0.05  # Every pass reads the clock.
    with Clock(1.0).govern(), pytest.raises(NotCompiledError):
        outer(3)
    assert not compile_costs._begun
    assert not any("outer" in name for name in compile_costs.cpu_seconds)
    assert outer(3) == 8
    assert [len(s) for name, s in compile_costs.cpu_seconds.items() if "outer" in name] == [1]
    assert compile_costs._Pace.taken > 0.0


def test_the_table_names_what_there_is() -> None:
    """`python -m tools.compile_times` writes the table; a kernel that was renamed has to be measured again."""
    times = compile_costs.compile_times()
    assert list(times) == list(families())
    known = {name for family in times.values() for name in family}
    missing = []
    for name in known:
        module, _, function = name.rpartition(".")
        while (
            module
            and not Path(compile_costs.__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py").exists()
        ):
            module, _, outer = module.rpartition(".")
            function = f"{outer}.{function}"
        found = importlib.import_module(f"equifactor.{module}") if module else None
        if found is None or not hasattr(found, function.partition(".")[0]):
            missing.append(name)
    assert not missing


def test_an_unknown_kernel_counts_as_the_mean() -> None:
    known = {name: s for family in compile_costs.compile_times().values() for name, s in family.items()}
    mean = sum(known.values()) / len(known)
    assert mean / 1.5 < compile_costs._UNKNOWN < 1.5 * mean
