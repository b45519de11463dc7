"""Torch uses the stated number of threads, and with a time limit no cores that other programs use."""

from __future__ import annotations

import os

import pytest

from equifactor.base import torch_threads
from equifactor.base.clock import Clock
from equifactor.base.cores import THREADS

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("free", "limit", "device", "stated", "threads"),
    [(1, 1.0, "cpu", None, 1), (-7, 1.0, "cpu", None, 1), (2, 1.0, "cpu", None, 2), (64, 1.0, "cpu", None, 3),
     (1, None, "cpu", None, 3), (1, 1.0, "cuda", None, 3), (1, 1.0, "cpu", 2, 2), (1, None, "cpu", 4, 4),
     (1, 1.0, "cuda", 2, 3)],
)  # fmt: skip
def test_threads(
    monkeypatch: pytest.MonkeyPatch, free: int, limit: float | None, device: str, stated: int | None, threads: int
) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(torch_threads, "_num_free_cores", lambda: free)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with torch_threads.torch_threads(Clock(limit), device, stated):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 3
        monkeypatch.setenv(THREADS, "2")
        with torch_threads.torch_threads(Clock(limit), "cpu", None):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_busy_machine_has_no_free_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    assert torch_threads._num_free_cores() < 1
    monkeypatch.delattr(os, "getloadavg")
    assert torch_threads._num_free_cores() == 1
