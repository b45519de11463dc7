"""The hash that identifies a model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from equifactor.base.files import write_text
from equifactor.data import Instance
from equifactor.evaluation.contents import content_of, file_content

TEXT = "MARKOV\n1\n2\n1\n1 0\n2 1 2\n"


def test_a_packed_file_is_its_text(tmp_path: Path) -> None:
    for name in ("a.uai", "b.uai.gz", "c.uai.xz"):
        write_text(tmp_path / name, TEXT)
    contents = {content_of(Instance("x", p.name, p)) for p in tmp_path.iterdir()}
    assert len(contents) == 1


def test_the_format_counts(tmp_path: Path) -> None:
    for name in ("a.uai", "b.lg"):  # equal text, but .lg files hold logarithms
        write_text(tmp_path / name, TEXT)
    assert len({content_of(Instance("x", p.name, p)) for p in tmp_path.iterdir()}) == 2


def test_evidence_and_every_change_count(tmp_path: Path) -> None:
    write_text(tmp_path / "a.uai", TEXT)
    plain = Instance("x", "a", tmp_path / "a.uai")
    seen = replace(plain, evidence_path=tmp_path / "a.evid")
    write_text(tmp_path / "a.evid", "1 0 1\n")
    found = [content_of(plain), content_of(seen)]
    write_text(tmp_path / "a.evid", "1 0 0\n")
    found.append(content_of(seen))
    write_text(tmp_path / "a.uai", TEXT.replace("1 2\n", "1 3\n"))
    found.append(content_of(seen))
    assert len(set(found)) == 4


def test_a_file_that_is_written_over_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.uai"
    path.write_text("one")
    os.utime(path, (1e9, 1e9))
    first = file_content(path)
    path.write_text("two")  # the same size, the same place
    os.utime(path, (1e9 + 1, 1e9 + 1))
    assert file_content(path) != first


def test_unreadable_files_are_told_apart(tmp_path: Path) -> None:
    gone = [content_of(Instance("x", name, tmp_path / name)) for name in ("a.uai", "b.uai")]
    assert len(set(gone)) == 2
    assert all("unreadable" in text for text in gone)
