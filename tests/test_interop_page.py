"""The examples of docs/interop.md print what the page says."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "interop.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PEERS = ("pgmpy", "pyagrum", "torch_geometric")


def peer_of(example: str) -> str | None:
    return next((peer for peer in PEERS if re.search(rf"^(import|from) {peer}\b", example, re.MULTILINE)), None)


def cases() -> list:
    marks = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
    return [pytest.param(e, id=str(n), marks=marks if peer_of(e) else []) for n, e in enumerate(EXAMPLES)]


@pytest.mark.parametrize("example", cases())
def test_examples_print_what_they_say(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer = peer_of(example)
    if peer is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its imports
            pytest.importorskip(peer)
    capsys.readouterr()
    exec(compile(example, "docs/interop.md", "exec", dont_inherit=True), {})
    said = re.findall(r"^# (.*)$", example, re.MULTILINE)
    assert said
    assert capsys.readouterr().out.splitlines() == said
