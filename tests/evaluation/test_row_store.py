"""Finished runs on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from equifactor import FormatError
from equifactor.evaluation.row_store import RowStore

pytestmark = pytest.mark.usefixtures("plain_numpy")


def test_store_refuses_a_foreign_file(tmp_path: Path) -> None:
    for text in ("hello\n", "[" * 100_000 + "\n"):
        (tmp_path / "rows.jsonl").write_text(text)
        with pytest.raises(FormatError, match=r"rows\.jsonl:1"):
            RowStore(tmp_path)


def test_store_keeps_infinite_numbers(tmp_path: Path) -> None:
    with RowStore(tmp_path) as store:
        store.add("a | 1", {"kl": float("inf"), "status": "converged"})
    json.loads((tmp_path / "rows.jsonl").read_text(), parse_constant=pytest.fail)
    with RowStore(tmp_path) as store:
        assert store.rows == {"a | 1": {"kl": float("inf"), "status": "converged"}}
        assert store.without_version() == {"a": "a | 1"}


def test_answers_stay_on_disk(tmp_path: Path) -> None:
    with RowStore(tmp_path) as store:
        for n in range(3):
            store.add(f"content {n} | 1", {"status": "exact", "answer": "x" * n})
        assert store.rows["content 2 | 1"] == {"status": "exact"}
        assert store.with_answer("content 2 | 1")["answer"] == "xx"
    with (tmp_path / "rows.jsonl").open("a") as handle:
        handle.write('{"key": "content 4 | 1", "ans')  # the next row would be appended to it
    with RowStore(tmp_path) as store:
        store.add("content 3 | 1", {"answer": "new"})
        assert [store.with_answer(key)["answer"] for key in store.rows] == ["", "x", "xx", "new"]


def test_half_a_line_stays_because_another_process_may_be_writing_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowStore(tmp_path) as store:
        store.add("content 1 | 1", {"answer": "one"})
        with path.open("ab") as other:
            other.write(b'{"key": "content 2 | 1", ')
            other.flush()
            with RowStore(tmp_path) as reader:
                assert list(reader.rows) == ["content 1 | 1"]
            other.write(b'"answer": "two"}\n')
    with RowStore(tmp_path) as store:
        assert store.with_answer("content 2 | 1") == {"answer": "two"}


@pytest.mark.parametrize("torn", ['{"k', '{"key": "content 9 | 1", "answer": "n', "\n\n"])
def test_a_line_that_a_kill_tore_is_skipped(tmp_path: Path, torn: str) -> None:
    (tmp_path / "rows.jsonl").write_text(torn)
    with RowStore(tmp_path) as store:
        assert not store.rows
        store.add("content 1 | 1", {"answer": "one"})
        assert store.with_answer("content 1 | 1") == {"answer": "one"}
    with RowStore(tmp_path) as store:
        assert list(store.rows) == ["content 1 | 1"]


def test_a_row_is_found_where_it_was_moved_to_and_never_mistaken(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowStore(tmp_path) as store:
        store.add("content 1 | 1", {"answer": "one"})
        store.add("content 2 | 1", {"answer": "two"})
        path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
        assert [store.with_answer(f"content {n} | 1") for n in (1, 2)] == [{"answer": "one"}, {"answer": "two"}]
        path.write_text('{"key": "content 1 | 1", "answer": "one"}\n')
        with pytest.raises(FormatError, match=r"rows\.jsonl: the row of a finished run is missing: content 2"):
            store.with_answer("content 2 | 1")


def test_processes_that_share_a_folder_read_their_own_rows(tmp_path: Path) -> None:
    program = """
import sys
from equifactor.evaluation.row_store import RowStore

with RowStore(sys.argv[1]) as store:
    for n in range(600):
        answer = f"{sys.argv[2]} {n}" + "x" * (n * 37 % 1000)
        store.add(f"{sys.argv[2]} {n}", {"answer": answer})
        assert store.with_answer(f"{sys.argv[2]} {n}") == {"answer": answer}
"""
    both = [subprocess.Popen([sys.executable, "-c", program, tmp_path, name]) for name in ("a", "b")]
    assert [process.wait() for process in both] == [0, 0]
    with RowStore(tmp_path) as store:
        assert len(store.rows) == 1200


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with RowStore(tmp_path) as store:
        monkeypatch.setattr("os.write", full)
        with pytest.raises(FormatError, match=r"rows\.jsonl: cannot add a row: no space left on device"):
            store.add("content 1 | 1", {"answer": "one"})
        assert not store.rows
