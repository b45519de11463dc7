"""A cache of compiled kernels that is damaged, full or read-only costs time but never an answer."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from equifactor.kernels import kernel_cache
from equifactor.kernels.jit import kernel

Load = Callable[[], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Load]:
    """Return a function that decorates a kernel as a new process would, with its cache in `tmp_path / "cache"`."""
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2.0 * x\n")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_said", set())
    monkeypatch.delenv(kernel_cache.TEMPORARY, raising=False)
    kernel_cache.temporary_folder.cache_clear()
    caplog.set_level(logging.WARNING, "equifactor")

    def decorated() -> Any:
        spec = importlib.util.spec_from_file_location("doubling", tmp_path / "doubling.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return kernel(module.double)

    yield decorated
    os.environ.pop(kernel_cache.TEMPORARY, None)
    kernel_cache.temporary_folder.cache_clear()


def hits(loaded: Any) -> int:
    return sum(loaded.stats.cache_hits.values())


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xad" * len(data), flipped]
)
def test_a_damaged_entry_is_compiled_again_and_replaced(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    assert load()(1.5) == 3.0
    (path,) = tmp_path.rglob(f"*.{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    assert load()(1.5) == 3.0
    assert len(caplog.messages) == 1
    assert "a compiled kernel in this folder is damaged" in caplog.text
    again = load()
    assert again(1.5) == 3.0
    assert hits(again) == 1


def test_entries_of_numba_itself_are_read(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache.SealedFiles, "_dump", kernel_cache.IndexDataCacheFile._dump)
    assert load()(1.5) == 3.0
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    again = load()
    assert again(1.5) == 3.0
    assert hits(again) == 1


def test_a_full_disk_sends_kernels_to_a_private_folder(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save = kernel_cache.SealedFiles._save_data

    def full(self: Any, name: str, data: Any) -> None:
        if self._cache_path.startswith(str(tmp_path)):
            raise OSError(28, "No space left on device")
        save(self, name, data)

    monkeypatch.setattr(kernel_cache.SealedFiles, "_save_data", full)
    assert load()(1.5) == 3.0
    assert load()(1.5) == 3.0
    assert len(caplog.messages) == 1
    assert "cannot be saved in this folder: no space left on device" in caplog.text
    folder = os.environ[kernel_cache.TEMPORARY]
    assert Path(folder).stat().st_mode & 0o077 == 0
    child = load()  # a process that this one starts has the same environment
    assert child(1.5) == 3.0
    assert hits(child) == 1


def test_without_any_folder_kernels_still_compile(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", closed)
    monkeypatch.setattr("tempfile.mkdtemp", closed)
    assert load()(1.5) == 3.0
    assert load()(1.5) == 3.0
    assert caplog.messages == [
        "Compiled kernels cannot be saved: no folder for them can be written. Later runs compile them again. Set "
        "NUMBA_CACHE_DIR to a folder that can be written."
    ]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_temporary_folder_that_others_can_enter_is_not_used(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    monkeypatch.setenv(kernel_cache.TEMPORARY, str(tmp_path / "open"))
    assert kernel_cache.temporary_folder(os.getpid()) != str(tmp_path / "open")
