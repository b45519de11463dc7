"""The examples of docs/solvers/counting.md run as they are written."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "solvers" / "counting.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_run_and_print_what_the_page_shows(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "import torch" in example:
        pytest.importorskip("torch")
    exec(compile(example, "counting.md", "exec", dont_inherit=True), {})
    shown = [line[2:] for line in example.splitlines() if line.startswith("# ")]
    assert not shown or capsys.readouterr().out.splitlines() == shown
