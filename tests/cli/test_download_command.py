"""`equifactor download`: its list and wrong usage; tests/data/test_public.py tests the download itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor.data.public import manifest


def test_list_counts_the_models_of_each_collection(command) -> None:
    lines = [line.split() for line in command("download", "--list").out.splitlines()]
    assert sum(int(count) for _, count, _ in lines) == len(manifest())
    assert [name for name, _, _ in lines] == list(dict.fromkeys(record["collection"] for record in manifest()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["download"], "Name the folder"), (["download", "x", "--collection", "Nope"], "no collection 'Nope'")],
)
def test_wrong_usage_is_a_sentence(command, arguments: list[str], message: str) -> None:
    ran = command(*arguments)
    assert ran.status == 2
    assert message in ran.err
    assert not Path("x").exists()
