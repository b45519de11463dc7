"""Inputs that are silent, endless or larger than the memory of the machine."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equifactor.base import files, sources
from equifactor.base.errors import FormatError
from equifactor.base.files import read_bytes
from equifactor.formats.evidence import read_evidence
from equifactor.formats.uai import parse_uai

TEXT = b"MARKOV\n1\n2\n0\n"


class Endless(io.RawIOBase):
    """An endless stream of the same line that counts the bytes that were read."""

    def __init__(self) -> None:
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        buffer[:] = (b"y\n" * len(buffer))[: len(buffer)]
        self.taken += len(buffer)
        return len(buffer)


def test_endless_stdin_is_refused_and_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    monkeypatch.setattr(sources, "PIPE_LIMIT", 2**21)
    with pytest.raises(FormatError, match=r"^<stdin>: the pipe delivered more than .* GiB\. Save its output to a file"):
        read_bytes("-")
    assert endless.taken < 2**23


def test_endless_pipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PIPE_LIMIT", 2**21)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(["sh", "-c", f"yes > {pipe}"], stderr=subprocess.DEVNULL),
        pytest.raises(FormatError, match="Save its output to a file"),
    ):
        read_bytes(pipe)


def test_pipe_without_a_writer_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sources, "_SILENT_WAIT", 50)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writers = []

    def write(record: logging.LogRecord) -> bool:
        """Start to write into the pipe when the message is logged, however late that is."""
        writers.append(subprocess.Popen(["sh", "-c", f"printf hello > {pipe}"]))
        return True

    caplog.handler.addFilter(write)
    with caplog.at_level(logging.INFO, logger="equifactor"):
        assert read_bytes(pipe) == b"hello"
    caplog.handler.removeFilter(write)
    assert [writer.wait() for writer in writers] == [0]
    assert [record.getMessage() for record in caplog.records] == [
        f"{pipe}: waiting for another process to write into this pipe (Ctrl-C stops waiting)"
    ]


def test_writer_that_closes_at_once_leaves_an_empty_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f": > {pipe}"]):
        assert read_bytes(pipe) == b""


def test_text_that_memory_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.file_limit() > 2**28
    monkeypatch.setattr(files, "file_limit", lambda: 2**20)
    path = tmp_path / "hole.uai"
    with path.open("wb") as handle:
        handle.truncate(2**40)  # a sparse file takes no space
    with pytest.raises(FormatError, match=r"hole.uai: the file has more than .* GiB of text"):
        read_bytes(path)


def test_byte_order_mark_is_left_out_of_every_format(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    assert read_bytes(path) == TEXT
    path.write_bytes(b"\xef\xbb\xbf1 0 1\n")
    assert read_evidence(path, parse_uai(TEXT, "m.uai")) == {0: 1}
