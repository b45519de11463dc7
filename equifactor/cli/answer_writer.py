"""The writer of answers: to stdout one by one, or to a file all at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from equifactor.base.files import check_writable, write_text
from equifactor.cli.exit_status import say


class AnswerWriter:
    """Collects one text per model.

    Stdout gets each answer as soon as it is available. A file is written at the end, and only if every model has an
    answer. Otherwise the file keeps its old content, and the answers so far go to FILE.partial beside it.

    Args:
        path: a file, or None or `-` for stdout.
        expected: the number of answers of a complete file.
        read: the files that the command reads, which it must not replace.
    """

    def __init__(self, path: str | None, expected: int, read: Iterable[str | None] = ()) -> None:
        self.path = None if path == "-" else path
        self.expected = expected
        self.texts: list[str] = []
        self.count = 0
        # Keep the stream of now: a progress bar on stderr may replace sys.stdout later.
        self.stream = sys.stdout
        if self.path is not None:
            check_writable(self.path, read)

    @property
    def complete(self) -> bool:
        """Whether every model has an answer."""
        return self.count == self.expected

    def add(self, text: str) -> None:
        """Add the answer for the next model."""
        self.count += 1
        if self.path is not None:
            self.texts.append(text)
        elif self.stream is not None:
            self.stream.write(text)
            self.stream.flush()

    def __enter__(self) -> AnswerWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Write the file, or its finished part, also after an error or Ctrl-C."""
        if self.path is None:
            return
        if self.complete:
            write_text(self.path, self.texts)
        elif self.texts:
            part = f"{self.path}.partial"
            write_text(part, self.texts)
            say(f"{self.path} was not written: {self.count} of {self.expected} models were answered, see {part}")
        elif self.expected > 1 and kind is None:
            say(f"{self.path} was not written: no model was answered")
