"""The number of threads, and work that threads share."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from equifactor.base import cores
from equifactor.base.cores import THREADS, Crew, Meeting, num_cores, num_free_threads, num_threads
from equifactor.base.errors import OptionError
from equifactor.workers.cluster import _performed
from equifactor.workers.code_version import code_version


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    assert num_threads() == num_cores()
    assert 1 <= num_free_threads() <= num_cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(num_cores()))
    assert num_threads() == 1  # Processes of torchrun share the cores.
    monkeypatch.setenv(THREADS, "3")
    assert (num_threads(), num_threads(2), num_free_threads()) == (3, 2, 3)
    assert num_threads(np.int32(2)) == 2
    for wrong in (0, -1, 1.5, True, "2", 10**9):
        with pytest.raises(OptionError, match="threads must be a whole number from 1 to 1024, found"):
            num_threads(wrong)
    monkeypatch.setenv(THREADS, "many")
    with pytest.raises(OptionError, match="found 'many'"):
        num_threads()


def test_work_on_a_cluster_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(cores, "num_cores", lambda: 8)
    found = _performed(lambda given: (num_threads(), num_threads(given), num_free_threads()), 3, code_version())
    assert found == (1, 3, 1)
    assert num_threads() == 8


@pytest.mark.parametrize("size", [1, 3])
def test_a_crew_does_all_of_the_work_once(size: int) -> None:
    done: list[tuple[int, int]] = []

    def fail(thread: int, start: int, stop: int) -> None:
        raise ZeroDivisionError

    with Crew(size) as crew:
        assert crew.divide(10, 4, lambda _, start, stop: done.append((start, stop)))
        assert sorted(done) == [(0, 4), (4, 8), (8, 10)]
        assert not crew.divide(10, 4, lambda *_: None, stopped=lambda: True)
        with pytest.raises(ZeroDivisionError):
            crew.divide(10, 4, fail)


def test_ctrl_c_in_the_waiting_thread_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, stopped = cores.wait, threading.Event()

    def interrupted(others: Any) -> Any:
        monkeypatch.setattr(cores, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(cores, "wait", interrupted)
    with Crew(2) as crew, pytest.raises(KeyboardInterrupt):
        crew.run(lambda thread: stopped.wait(60) if thread else None, stopped.set)
    assert stopped.is_set()


def test_threads_that_wait_for_each_other() -> None:
    steps: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for n in range(20):
            steps.append((n, thread))
            together.wait()
            if n == 10 and thread == 1:
                together.abort()
                raise ZeroDivisionError

    together = Meeting(3)
    with Crew(3) as crew, pytest.raises((threading.BrokenBarrierError, ZeroDivisionError)):
        crew.run(work, together.abort)
    assert [n for n, _ in steps[:33]] == [n for n in range(11) for _ in range(3)]
    with pytest.raises(threading.BrokenBarrierError):
        together.wait()
