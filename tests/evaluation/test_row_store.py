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
        assert list(store.without_version()) == ["a"]
