"""Detector error models as text (`.dem`), the format of Stim, read without Stim."""

from __future__ import annotations

import re

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.decoding.error_model import ErrorModel
from equifactor.kernels.pointers import ptr_of, row_of

_LINE = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?(?:\((?P<arguments>[^)]*)\))?(?P<targets>(?:\s[^{}]*)?)(?P<open>\{)?"
)
_IGNORED = ("detector", "logical_observable")
_LARGEST = 10**8  # The largest number of targets after repeated blocks are expanded. Chosen by hand.


def parse_dem(text: str, where: str = "<dem>") -> ErrorModel:
    """Read a model from a text of `error`, `detector`, `logical_observable`, `shift_detectors` and `repeat` blocks.

    `^`, which suggests how to decompose an error, is ignored: the targets on both sides belong to one error.
    """
    return _DemReader(where).read(text)


class _DemReader:
    """The errors read so far, as flat lists."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.offset = 0  # The sum of all `shift_detectors` so far.
        self.num_detectors = self.num_observables = 0
        self.priors: list[float] = []
        self.counts: tuple[list[int], list[int]] = ([], [])  # detectors and observables of each error
        self.targets: tuple[list[int], list[int]] = ([], [])

    def read(self, text: str) -> ErrorModel:
        lines = [
            (n, line) for n, raw in enumerate(text.splitlines(), start=1) if (line := raw.partition("#")[0].strip())
        ]
        self.run(lines, 0, len(lines))
        edges = [(row_of(ptr_of(c)), np.array(t, np.int64)) for c, t in zip(self.counts, self.targets, strict=True)]
        return ErrorModel.of_edges((self.num_detectors, self.num_observables), self.priors, edges[0], edges[1])

    def run(self, lines: list[tuple[int, str]], begin: int, end: int) -> None:
        """Read lines[begin:end]; a block is read as often as its `repeat` says."""
        at = begin
        while at < end:
            number, line = lines[at]
            match = _LINE.fullmatch(line)
            if match is None:
                raise self.error(number, f"expected an instruction such as error(0.1) D0 D1 L0, found {line!r:.60}.")
            name, words = match["name"].lower(), match["targets"].split()
            if name == "repeat":
                if not match["open"] or len(words) != 1 or not words[0].isdigit():
                    raise self.error(number, f"expected repeat N {{, found {line!r:.60}.")
                close = self.closing(lines, at, end)
                for _ in range(int(words[0])):
                    self.run(lines, at + 1, close)
                at = close + 1
                continue
            self.take(number, name, match["arguments"], words)
            at += 1

    def closing(self, lines: list[tuple[int, str]], at: int, end: int) -> int:
        """Return the number of the line that closes the block which line `at` opens."""
        depth = 0
        for n in range(at, end):
            depth += lines[n][1].endswith("{") - (lines[n][1] == "}")
            if depth == 0:
                return n
        raise self.error(lines[at][0], "the block is not closed. Add a line with }.")

    def take(self, number: int, name: str, arguments: str | None, words: list[str]) -> None:
        """Read one instruction that is not a block."""
        if name == "shift_detectors":
            if len(words) != 1 or not words[0].isdigit():
                raise self.error(number, f"expected shift_detectors N, found {' '.join(words)!r}.")
            self.offset += int(words[0])
            return
        if name != "error" and name not in _IGNORED:
            known = ", ".join(("error", *_IGNORED, "shift_detectors", "repeat"))
            raise self.error(number, f"unknown instruction {name!r}. The known instructions are {known}.")
        found: tuple[list[int], list[int]] = ([], [])
        for word in words:
            kind, digits = word[:1].upper(), word[1:]
            if word == "^" and name == "error":
                continue
            if kind not in ("D", "L") or not digits.isdigit():
                raise self.error(number, f"expected targets such as D0 or L0, found {word!r}.")
            found[kind == "L"].append(int(digits) + (self.offset if kind == "D" else 0))
        self.num_detectors = max(self.num_detectors, *(n + 1 for n in found[0]), 0)
        self.num_observables = max(self.num_observables, *(n + 1 for n in found[1]), 0)
        if name == "error":
            self.priors.append(self.probability(number, arguments))
            for counts, targets, own in zip(self.counts, self.targets, found, strict=True):
                counts.append(len(own))
                targets.extend(own)
            if len(self.targets[0]) > _LARGEST:
                raise self.error(
                    number, f"the expanded blocks have more than {_LARGEST:,} targets, which is the limit."
                )

    def probability(self, number: int, arguments: str | None) -> float:
        try:
            p = float(arguments or "")
        except ValueError:
            p = -1.0
        if not 0.0 <= p <= 1.0:
            raise self.error(number, f"expected error(p) with a probability from 0 to 1, found {arguments!r}.")
        return p

    def error(self, number: int, text: str) -> FormatError:
        return FormatError(f"{self.where}:{number}: {text}")
