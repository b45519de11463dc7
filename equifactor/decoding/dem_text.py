"""Detector error models as text (`.dem`), the format of Stim, read without Stim."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from equifactor.base.errors import FormatError, brief
from equifactor.base.number_text import count_text, finite_number, whole_number
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.decoding.error_model import ErrorModel
from equifactor.kernels.pointers import ptr_of, row_of

_LINE = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?(?:\((?P<arguments>[^)]*)\))?(?P<targets>(?:\s[^{}]*)?)(?P<open>\{)?"
)
_IGNORED = ("detector", "logical_observable")
_MAX_DIGITS = 18  # Digits of a target at most: they fit into 64 bits.
MAX_DEPTH = 100  # The largest number of blocks inside each other; those of Stim have two or three. Chosen by hand.


def parse_dem(text: str, where: str = "<dem>") -> ErrorModel:
    """Read a model from a text of `error`, `detector`, `logical_observable`, `shift_detectors` and `repeat` blocks.

    `^`, which suggests how to decompose an error, is ignored: the targets on both sides belong to one error.
    """
    whole = _Parser(text, where).read()
    expanded = _ExpandedModel(where, most_numbers(len(text)))
    expanded.check(whole.size, "the repeated blocks expand to")
    expanded.run(whole)
    return expanded.model()


@dataclass
class _Block:
    """A part of the file that is repeated, the whole file once."""

    count: int
    number: int  # of its first line
    parts: list[_Block | _Instruction] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The instructions and targets of the block after all repetitions."""
        return self.count * sum(part.size for part in self.parts)


@dataclass(slots=True)
class _Instruction:
    """An error (with a prior), a declaration of detectors and observables, or a shift of all later detectors."""

    prior: float | None
    detectors: list[int]
    observables: list[int]
    shift: int = 0

    @property
    def size(self) -> int:
        """One, and the number of targets."""
        return 1 + len(self.detectors) + len(self.observables)


class _Parser:
    """A parser that reads every line once, however often it is repeated."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where

    def read(self) -> _Block:
        """Return the whole file as a block."""
        stack = [_Block(1, 1)]
        for number, raw in enumerate(self.text.splitlines(), start=1):
            line = raw.partition("#")[0].strip()
            if not line:
                continue
            if line == "}" and len(stack) > 1:
                stack.pop()
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                raise self.error(number, f"expected an instruction such as error(0.1) D0 D1 L0, found {brief(line)}.")
            name, words = match["name"].lower(), match["targets"].split()
            if name == "repeat":
                count = whole_number(words[0]) if len(words) == 1 else None
                if not match["open"] or count is None or count < 0:
                    raise self.error(number, f"expected repeat N {{, found {brief(line)}.")
                if len(stack) > MAX_DEPTH:
                    raise self.error(number, f"blocks are nested more than {MAX_DEPTH} deep, which is not supported.")
                block = _Block(count, number)
                stack[-1].parts.append(block)
                stack.append(block)
                continue
            if match["open"]:
                raise self.error(number, f"only repeat begins a block, found {brief(line)}.")
            stack[-1].parts.append(self.instruction(number, name, match["arguments"], words))
        if len(stack) > 1:
            raise self.error(stack[-1].number, "the block is not closed. Add a line with }.")
        return stack[0]

    def instruction(self, number: int, name: str, arguments: str | None, words: list[str]) -> _Instruction:
        """Return the instruction of one line."""
        if name == "shift_detectors":
            shift = whole_number(words[0]) if len(words) == 1 else None
            if shift is None or shift < 0:
                raise self.error(number, f"expected shift_detectors N, found {brief(' '.join(words))}.")
            return _Instruction(None, [], [], shift)
        if name != "error" and name not in _IGNORED:
            known = ", ".join(("error", *_IGNORED, "shift_detectors", "repeat"))
            raise self.error(number, f"unknown instruction {brief(name)}. The known instructions are {known}.")
        found: tuple[list[int], list[int]] = ([], [])
        for word in words:
            if word == "^" and name == "error":
                continue
            digits = word[1:]
            if word[0] not in "DdLl" or not (digits.isdigit() and digits.isascii()) or len(digits) > _MAX_DIGITS:
                raise self.error(number, f"expected targets such as D0 or L0, found {brief(word)}.")
            found[word[0] in "Ll"].append(int(digits))
        return _Instruction(self.probability(number, arguments) if name == "error" else None, *found)

    def probability(self, number: int, arguments: str | None) -> float:
        p = finite_number((arguments or "").strip())
        if p is None or not 0.0 <= p <= 1.0:
            raise self.error(number, f"expected error(p) with a probability from 0 to 1, found {brief(arguments)}.")
        return p

    def error(self, number: int, text: str) -> FormatError:
        return FormatError(f"{self.where}:{number}: {text}")


class _ExpandedModel:
    """The errors read so far, as flat lists; repeated blocks are expanded."""

    def __init__(self, where: str, most: int) -> None:
        self.where, self.most = where, most
        self.offset = 0  # The sum of all `shift_detectors` so far.
        self.num_detectors = self.num_observables = 0
        self.priors: list[float] = []
        self.counts: tuple[list[int], list[int]] = ([], [])  # detectors and observables of each error
        self.targets: tuple[list[int], list[int]] = ([], [])

    def run(self, block: _Block) -> None:
        """Add everything in a block as often as it is repeated."""
        for _ in range(block.count if block.parts else 0):
            for part in block.parts:
                if isinstance(part, _Block):
                    self.run(part)
                else:
                    self.add(part)

    def add(self, one: _Instruction) -> None:
        """Add one instruction."""
        self.offset += one.shift
        found = [n + self.offset for n in one.detectors], one.observables
        self.num_detectors = max(self.num_detectors, 1 + max(found[0], default=-1))
        self.num_observables = max(self.num_observables, 1 + max(found[1], default=-1))
        if one.prior is not None:
            self.priors.append(one.prior)
            for counts, targets, own in zip(self.counts, self.targets, found, strict=True):
                counts.append(len(own))
                targets.extend(own)

    def model(self) -> ErrorModel:
        """Return the model of all errors."""
        self.check(self.num_detectors, "the detectors are numbered up to")
        self.check(self.num_observables, "the observables are numbered up to")
        edges = [(row_of(ptr_of(c)), np.array(t, np.int64)) for c, t in zip(self.counts, self.targets, strict=True)]
        return ErrorModel.of_edges((self.num_detectors, self.num_observables), self.priors, edges[0], edges[1])

    def check(self, size: int, what: str) -> None:
        """Raise `FormatError` if the model would be larger than a file may expand to."""
        if size > self.most:
            raise FormatError(f"{self.where}: {what} {count_text(size)}, more than {self.most}. {limit_text()}")
