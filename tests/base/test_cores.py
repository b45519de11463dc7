"""The number of threads, and work that threads share."""

from __future__ import annotations

import pytest

from equifactor.base.cores import THREADS, Crew, num_cores, num_free_threads, num_threads
from equifactor.base.errors import OptionError


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    assert num_threads() == num_cores()
    assert 1 <= num_free_threads() <= num_cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(num_cores()))
    assert num_threads() == 1  # Processes of torchrun share the cores.
    monkeypatch.setenv(THREADS, "3")
    assert (num_threads(), num_threads(2), num_free_threads()) == (3, 2, 3)
    for wrong in (0, 1.5, True, 10**9):
        with pytest.raises(OptionError, match="threads must be a whole number from 1 to 1024, found"):
            num_threads(wrong)
    monkeypatch.setenv(THREADS, "many")
    with pytest.raises(OptionError, match="found 'many'"):
        num_threads()


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
