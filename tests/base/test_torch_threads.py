"""A run with a time limit does not use cores that other programs use."""

from __future__ import annotations

import os

import pytest

from equifactor.base import torch_threads
from equifactor.base.clock import Clock
from equifactor.base.torch_threads import only_free_cores

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("free", "limit", "device", "threads"),
    [(1, 1.0, "cpu", 1), (-7, 1.0, "cpu", 1), (2, 1.0, "cpu", 2), (64, 1.0, "cpu", 3), (1, None, "cpu", 3),
     (1, 1.0, "cuda", 3)],
)  # fmt: skip
def test_threads(monkeypatch: pytest.MonkeyPatch, free: int, limit: float | None, device: str, threads: int) -> None:
    monkeypatch.setattr(torch_threads, "_num_free_cores", lambda: free)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with only_free_cores(Clock(limit), device):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_busy_machine_has_no_free_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    assert torch_threads._num_free_cores() < 1
    monkeypatch.delattr(os, "getloadavg")
    assert torch_threads._num_free_cores() == 1
