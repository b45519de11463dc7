"""Files that are sent along with work."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from equifactor.workers.shipped_files import lasting_file

CODE = b"print('ours')\n"


def test_a_sent_file_is_found_again(tmp_path: Path) -> None:
    first = lasting_file(tmp_path / "mine.py", CODE)
    assert first.read_bytes() == CODE
    assert first.name == "mine.py"
    assert lasting_file(tmp_path / "mine.py", CODE) == first
    assert lasting_file(tmp_path / "mine.py", CODE + b"\n") != first


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_only_this_user_can_enter_the_folder(tmp_path: Path) -> None:
    folder = lasting_file(tmp_path / "mine.py", CODE).parents[1]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()


def test_code_that_somebody_placed_is_never_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for digest in (hashlib.blake2b(CODE, digest_size=12).hexdigest(), hashlib.sha256(CODE).hexdigest()):
        planted = tmp_path / f"equifactor-{digest}" / "mine.py"  # where earlier versions looked
        planted.parent.mkdir()
        planted.write_bytes(b"print('theirs')\n")
    target = lasting_file(Path("mine.py"), CODE)
    assert target.read_bytes() == CODE
    target.write_bytes(b"print('theirs')\n")
    assert lasting_file(Path("mine.py"), CODE).read_bytes() == CODE
