"""Detector error models as text (`.dem`), the format of Stim, read without Stim."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, brief
from equifactor.base.number_text import count_text, finite_number, whole_number
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.decoding.error_model import ErrorModel
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_LINE = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?(?:\((?P<arguments>[^)]*)\))?(?P<targets>(?:\s[^{}]*)?)(?P<open>\{)?"
)
_IGNORED = ("detector", "logical_observable")
_MAX_DIGITS = 18  # The largest number of digits of a target: a number of 18 digits fits into 64 bits.
MAX_DEPTH = 100  # The largest number of blocks inside each other; those of Stim have two or three. Chosen by hand.


def parse_dem(text: str, where: str = "<dem>") -> ErrorModel:
    """Read a model from a text of `error`, `detector`, `logical_observable`, `shift_detectors` and `repeat` blocks.

    The sign `^`, which suggests how to decompose an error, is ignored: the targets on both sides belong to one error.
    """
    limit = _Limit(where, most_numbers(len(text)))
    whole = _ModelText(text, where).read()
    limit.check(whole.size, "the repeated blocks expand to")
    found = _expanded(whole, limit)
    limit.check(found.num_observables, "the observables are numbered up to")
    edges = [(row_of(ptr_of(c)), n) for c, n in zip(found.counts, found.targets, strict=True)]
    return ErrorModel.of_edges((found.num_detectors, found.num_observables), found.priors, edges[0], edges[1])


@dataclass
class _RepeatBlock:
    """A part of the file that is repeated `count` times. The whole file is a block with `count` 1."""

    count: int
    number: int  # the number of its first line
    parts: list[_RepeatBlock | _Instruction] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The errors and targets of the block after all repetitions."""
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
        """One plus the number of targets for an error. Other instructions need no memory when they are repeated."""
        return 0 if self.prior is None else 1 + len(self.detectors) + len(self.observables)


class _ModelText:
    """A parser that reads every line once, however often the block of the line is repeated."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where

    def read(self) -> _RepeatBlock:
        """Return the whole file as a block."""
        stack = [_RepeatBlock(1, 1)]
        for number, raw in enumerate(self.text.splitlines(), start=1):
            line = _without_comment(raw).strip()
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
                block = _RepeatBlock(count, number)
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


def _without_comment(line: str) -> str:
    """Return a line up to the sign # of its comment. The tag in brackets may hold this sign too."""
    sign, tag = line.find("#"), line.find("[")
    if 0 <= tag < sign and (end := line.find("]", tag)) >= 0:
        sign = line.find("#", end)
    return line if sign < 0 else line[:sign]


@dataclass(frozen=True)
class _Limit:
    """The largest size that the file may expand to."""

    where: str
    most: int

    def check(self, size: int, what: str) -> None:
        """Raise `FormatError` if the model would be larger than a file may expand to."""
        if size > self.most:
            raise FormatError(f"{self.where}: {what} {count_text(size)}, more than {self.most}. {limit_text()}")


@dataclass(eq=False)
class _Errors:
    """The errors of a part of the file, as flat arrays. Detectors are counted from the shift where the part begins."""

    priors: FloatArray  # [E]
    counts: tuple[IntArray, IntArray]  # [E] each: detectors and observables of each error
    targets: tuple[IntArray, IntArray]  # detectors and observables of all errors, one error after the other
    num_detectors: int = 0  # one more than the largest number of a detector, including detectors only declared
    num_observables: int = 0
    shift: int = 0  # the sum of all `shift_detectors`

    def after(self, shift: int, limit: _Limit) -> _Errors:
        """Return the errors with this shift before them."""
        if not shift or not self.num_detectors:
            return self
        limit.check(self.num_detectors + shift, "the detectors are numbered up to")
        detectors = self.targets[0] + shift
        return replace(self, targets=(detectors, self.targets[1]), num_detectors=self.num_detectors + shift)

    def repeated(self, count: int, limit: _Limit) -> _Errors:
        """Return the errors `count` times. Each repetition is shifted by the shifts of all repetitions before it."""
        if count == 0:
            return _joined([], 0)
        last = (count - 1) * self.shift if self.num_detectors else 0
        limit.check(self.num_detectors + last, "the detectors are numbered up to")
        times = count if len(self.priors) else 1
        step = self.shift if len(self.targets[0]) else 0
        shifts = np.repeat(np.arange(times) * step, len(self.targets[0]))
        return _Errors(
            np.tile(self.priors, times),
            (np.tile(self.counts[0], times), np.tile(self.counts[1], times)),
            (np.tile(self.targets[0], times) + shifts, np.tile(self.targets[1], times)),
            self.num_detectors + last, self.num_observables, count * self.shift,
        )  # fmt: skip


def _joined(parts: list[_Errors], shift: int) -> _Errors:
    """Return the errors of all parts, in their order."""

    def flat(arrays: list[IntArray]) -> IntArray:
        return np.concatenate([np.zeros(0, np.int64), *arrays])

    return _Errors(
        np.concatenate([np.zeros(0), *(p.priors for p in parts)]),
        (flat([p.counts[0] for p in parts]), flat([p.counts[1] for p in parts])),
        (flat([p.targets[0] for p in parts]), flat([p.targets[1] for p in parts])),
        max((p.num_detectors for p in parts), default=0), max((p.num_observables for p in parts), default=0), shift,
    )  # fmt: skip


def _expanded(block: _RepeatBlock, limit: _Limit) -> _Errors:
    """Return the errors of a block after all repetitions."""
    parts: list[_Errors] = []
    lines: list[tuple[int, _Instruction]] = []  # instructions since the last inner block, with the shifts before them
    shift = 0
    for part in block.parts:
        if isinstance(part, _RepeatBlock):
            parts.append(_of_lines(lines, limit))
            lines = []
            inner = _expanded(part, limit)
            parts.append(inner.after(shift, limit))
            shift += inner.shift
        else:
            shift += part.shift
            lines.append((shift, part))
    parts.append(_of_lines(lines, limit))
    return _joined(parts, shift).repeated(block.count, limit)


def _of_lines(lines: list[tuple[int, _Instruction]], limit: _Limit) -> _Errors:
    """Return the errors of instructions without blocks, each with the shift before it."""
    num_detectors = max((1 + shift + max(one.detectors) for shift, one in lines if one.detectors), default=0)
    limit.check(num_detectors, "the detectors are numbered up to")
    num_observables = max((1 + max(one.observables) for _, one in lines if one.observables), default=0)
    errors = [(shift, one) for shift, one in lines if one.prior is not None]
    return _Errors(
        np.array([one.prior for _, one in errors], float),
        (
            np.array([len(one.detectors) for _, one in errors], np.int64),
            np.array([len(one.observables) for _, one in errors], np.int64),
        ),
        (
            np.array([shift + n for shift, one in errors for n in one.detectors], np.int64),
            np.array([n for _, one in errors for n in one.observables], np.int64),
        ),
        num_detectors, num_observables,
    )  # fmt: skip
