"""A cache of compiled kernels that is damaged, full or read-only costs time but never an answer."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from equifactor.kernels import kernel_cache, kernel_folders, source_stamp
from equifactor.kernels.jit import fast_kernel, kernel

Load = Callable[[], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Load]:
    """Return a function that decorates a kernel as a new process would, with its cache in `tmp_path / "cache"`."""
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2.0 * x\n")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_said", set())
    kernel_folders._made_folder.cache_clear()
    monkeypatch.delenv(kernel_folders.TEMPORARY, raising=False)
    kernel_folders.temporary_folder.cache_clear()
    caplog.set_level(logging.WARNING, "equifactor")

    def decorated() -> Any:
        return kernel(imported(tmp_path / "doubling.py", monkeypatch).double)

    yield decorated
    kernel_folders._made_folder.cache_clear()
    os.environ.pop(kernel_folders.TEMPORARY, None)
    kernel_folders.temporary_folder.cache_clear()


def imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a file as a new process would."""
    source_stamp.module_stamp.cache_clear()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def hits(loaded: Any) -> int:
    return sum(loaded.stats.cache_hits.values())


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xad" * len(data), flipped]
)
def test_a_damaged_entry_is_compiled_again_and_replaced(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    assert load()(1.5) == 3.0
    (path,) = tmp_path.rglob("*.kernel")
    path.write_bytes(damage(path.read_bytes()))
    assert load()(1.5) == 3.0
    assert len(caplog.messages) == 1
    assert "a compiled kernel in this folder is damaged" in caplog.text
    again = load()
    assert again(1.5) == 3.0
    assert hits(again) == 1


def test_a_full_disk_sends_kernels_to_a_private_folder(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = kernel_cache._write

    def full(path: Path, data: bytes) -> None:
        if path.is_relative_to(tmp_path):
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(kernel_cache, "_write", full)
    assert load()(1.5) == 3.0
    assert load()(1.5) == 3.0
    assert len(caplog.messages) == 1
    assert "cannot be saved in this folder: no space left on device" in caplog.text
    folder = os.environ[kernel_folders.TEMPORARY]
    assert Path(folder).stat().st_mode & 0o077 == 0
    child = load()  # a process that this one starts has the same environment
    assert child(1.5) == 3.0
    assert hits(child) == 1


def test_without_any_folder_kernels_still_compile(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", closed)
    monkeypatch.setattr("tempfile.mkdtemp", closed)
    assert load()(1.5) == 3.0
    assert load()(1.5) == 3.0
    assert caplog.messages == [
        "Compiled kernels cannot be saved: no folder for them can be written. Later runs compile them again. Set "
        "NUMBA_CACHE_DIR to a folder that can be written."
    ]


def test_without_a_home_there_is_no_folder_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kernel_folders._made_folder("", "", "") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "equifactor" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert kernel_folders._made_folder("", str(tmp_path), "") is None
    folder.chmod(0o755)
    kernel_folders._made_folder.cache_clear()
    assert kernel_folders._made_folder("", str(tmp_path), "") == folder


def test_a_copy_at_another_place_uses_the_same_kernels(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load()(1.5) == 3.0
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "doubling.py"
    copy.write_bytes((tmp_path / "doubling.py").read_bytes())
    os.utime(copy, (1e9, 1e9))
    again = kernel(imported(copy, monkeypatch).double)
    assert again(1.5) == 3.0
    assert hits(again) == 1


def test_options_and_closures_are_told_apart(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "making.py").write_text("def times(n):\n    def by(x):\n        return n * x\n    return by\n")
    module = imported(tmp_path / "making.py", monkeypatch)
    assert [kernel(module.times(n))(2.0) for n in (2.0, 3.0)] == [4.0, 6.0]
    assert fast_kernel(module.times(3.0))(2.0) == 6.0
    assert len(list(tmp_path.rglob("*.kernel"))) == 3
    again = kernel(module.times(3.0))
    assert again(2.0) == 6.0
    assert hits(again) == 1


def test_a_kernel_is_compiled_again_when_what_it_calls_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stamp of a module covers what it imports from the package, in files of their own."""
    stamps = []
    for text in ("ONE = 1", "ONE = 2"):
        (tmp_path / "callee.py").write_text(text)
        imported(tmp_path / "callee.py", monkeypatch)
        monkeypatch.setitem(sys.modules, "equifactor.callee", sys.modules["callee"])
        (tmp_path / "caller.py").write_text("from equifactor.callee import (\n    ONE,\n)\n")
        module = types.ModuleType("caller")
        module.__file__ = str(tmp_path / "caller.py")
        monkeypatch.setitem(sys.modules, "caller", module)
        stamps.append(source_stamp.module_stamp("caller"))
    assert stamps[0] != stamps[1]


def test_kernels_that_nobody_uses_are_deleted(load: Load, tmp_path: Path) -> None:
    assert load()(1.5) == 3.0
    (path,) = tmp_path.rglob("*.kernel")
    old = path.with_name("old.kernel")
    old.write_bytes(b"")
    long_ago = time.time() - 100 * 86400
    os.utime(old, (long_ago, long_ago))
    kernel_folders._made_folder.cache_clear()
    assert kernel_folders.kernel_folder() == path.parent
    assert old.exists()  # the folder was searched today
    os.utime(path.with_name("searched"), (time.time() - 90000, time.time() - 90000))
    kernel_folders._made_folder.cache_clear()
    assert kernel_folders.kernel_folder() == path.parent
    assert path.exists()
    assert not old.exists()


def test_kernels_beside_the_package_are_found(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may come with kernels; a kernel for any processor serves if this processor has no kernel of its own."""
    assert load()(1.5) == 3.0
    (path,) = tmp_path.rglob("*.kernel")
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    path.rename(shipped / path.name)
    monkeypatch.setattr(kernel_folders, "SHIPPED", shipped)
    found = load()
    assert found(1.5) == 3.0
    assert hits(found) == 1
    here = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    portable = kernel_cache.portable_target(here[0])
    if portable is None:
        pytest.skip("this processor is older than those that kernels in a wheel are made for")
    made = load()
    signature = (numba.types.float64,)
    (shipped / path.name).rename(shipped / made._cache.file_name(signature, portable))
    assert made(1.5) == 3.0
    assert hits(made) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_temporary_folder_that_others_can_enter_is_not_used(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    monkeypatch.setenv(kernel_folders.TEMPORARY, str(tmp_path / "open"))
    assert kernel_folders.temporary_folder(os.getpid()) != str(tmp_path / "open")


def test_a_signature_with_a_return_type_has_the_same_file(load: Load) -> None:
    """A kernel that is called by its address and from Python is compiled once, and found once in a wheel."""
    cache, target = load()._cache, ("x86_64-linux", "any", "")
    whole, real = numba.types.int64, numba.types.float64
    assert cache.file_name(whole(whole), target) == cache.file_name((whole,), target)
    assert cache.file_name((whole,), target) != cache.file_name((real,), target)
