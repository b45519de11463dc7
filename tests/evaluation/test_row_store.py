"""Finished runs on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equifactor import FormatError
from equifactor.evaluation.row_store import RowStore


def test_store_refuses_a_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("hello\n")
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
        handle.write(
            '{"key": "content 4 | 1"}'
        )  # complete except for the newline: the next row would be appended to it
    with RowStore(tmp_path) as store:
        store.add("content 3 | 1", {"answer": "new"})
        assert [store.with_answer(key)["answer"] for key in store.rows] == ["", "x", "xx", "new"]
