"""docs/cluster.md: the commands for a laptop work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
PAGE = Path(__file__).parents[1] / "docs" / "cluster.md"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a shell")
def test_the_commands_for_a_laptop_run(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## A laptop")[1].split("\n## ")[0]
    script = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Output goes to files: the scheduler and the workers inherit it, and a pipe would stay open with them.
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, start_new_session=True,
            stdout=out, stderr=err,
        )  # fmt: skip
    try:
        assert shell.wait(timeout=600) == 0, (tmp_path / "err").read_text()[-2000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert "exact (computed)" in (tmp_path / "out").read_text()
    assert (tmp_path / "mine.safetensors").is_file()
