"""What is known of kernels before they compile: how long they take, and which are ready."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from equifactor.base.clock import Clock, NotCompiledError
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


def test_a_slow_machine_is_noticed(folder: Path) -> None:
    compile_costs.compiled_in("a.f", 6.0)
    assert compile_costs.seconds_to_compile("one") == 9.0


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


def test_the_table_names_what_there_is() -> None:
    """`python -m tools.compile_times` writes the table; a kernel that was renamed has to be measured again."""
    times = compile_costs.compile_times()
    assert set(times) <= set(families())
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


def test_kernels_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are ready if the installed versions made them, together with those that only they call."""
    shipped = tmp_path / "wheel"
    shipped.mkdir()
    monkeypatch.setattr(kernel_folders, "SHIPPED", shipped)
    (shipped / "b.h-4567.kernel").touch()
    text = kernel_folders.contents([Path("b.h-4567.kernel"), Path("b.inner-89.kernel")])
    (shipped / kernel_folders.MADE_WITH).write_text(text)
    assert {"b.h", "b.inner"} <= compile_costs.ready_kernels()
    assert not {"b.h", "b.inner"} & compile_costs.ready_kernels(native=True)
    monkeypatch.setattr(kernel_folders, "_versions", lambda: {"python": "2.7"})
    assert not {"b.h", "b.inner"} & compile_costs.ready_kernels()
    (shipped / kernel_folders.MADE_WITH).write_text("{")
    assert not {"b.h", "b.inner"} & compile_costs.ready_kernels()


def test_kernels_for_everyone_are_saved_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_folders, "SHIPPED", tmp_path / "beside")
    monkeypatch.setattr(kernel_folders, "_instead", [])
    assert kernel_folders.kernel_folder() != tmp_path / "beside"
    kernel_folders.use_shipped_folder()
    assert kernel_folders.kernel_folder() == tmp_path / "beside"
