"""UAI result files: the task's name on the first line, then the answer.

PR       log10 of the partition function; `-inf` when it is zero
MAR      number of variables, then for each its number of states and their probabilities
MPE      number of variables, then the state of each; some competitions say MAP

Older files have the number of samples (1) before the answer; files with several answers separate them by the
word -BEGIN-, and the last one counts. Both are read, neither is written.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.files import PathLike, label, read_bytes, write_text
from equifactor.formats.words import Words, shown
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from equifactor.base.typing import IntArray

_LN_10 = math.log(10.0)
_SUM_TOLERANCE = 0.01  # how far a sum of probabilities may be from 1: published answers have few digits
_FIRST_WORD = re.compile(rb"\s*(\S*)")

# ---- writing --------------------------------------------------------------------------------------------


def format_pr(log_z: float) -> str:
    """The text of a PR result, in log10; `log_z` is the natural logarithm."""
    if math.isnan(log_z) or log_z == math.inf:
        raise ModelError(f"ln Z must be a number below infinity to be written, found {log_z}")
    return f"PR\n{log_z / _LN_10!r}\n"


def format_mar(marginals: Sequence[ArrayLike]) -> str:
    """The text of a MAR result; the probabilities read back exactly."""
    words = [str(len(marginals))]
    for vector in marginals:
        p = np.asarray(vector, np.float64)
        if not np.all(np.isfinite(p)):
            raise ModelError("marginals must be finite numbers to be written")
        words += [str(len(p)), *map(repr, p.tolist())]
    return f"MAR\n{' '.join(words)}\n"


def format_map(assignment: ArrayLike, word: Literal["MPE", "MAP"] = "MPE") -> str:
    """The text of a MAP or MPE result: the most probable assignment [V]."""
    states = np.asarray(assignment, np.int64).tolist()
    return f"{word}\n{' '.join(map(str, [len(states), *states]))}\n"


def write_pr(log_z: float, path: PathLike) -> None:
    """Write a PR result; `log_z` is the natural logarithm."""
    write_text(path, format_pr(log_z))


def write_mar(marginals: Sequence[ArrayLike], path: PathLike) -> None:
    """Write a MAR result."""
    write_text(path, format_mar(marginals))


def write_map(assignment: ArrayLike, path: PathLike, word: Literal["MPE", "MAP"] = "MPE") -> None:
    """Write the most probable assignment [V]."""
    write_text(path, format_map(assignment, word))


# ---- reading --------------------------------------------------------------------------------------------


def read_pr(path: PathLike) -> float:
    """The natural logarithm of Z from a PR result."""
    words = _answer(path, ("PR",), lambda tokens: len(tokens) == 1)
    log10_z = words.number("log10 of the partition function")
    words.end()
    return log10_z * _LN_10


def read_mar(path: PathLike) -> Marginals:
    """The marginals from a MAR result; each must sum to 1 within 0.01."""
    words = _answer(path, ("MAR",), _is_mar)
    num_vars = words.integer("the number of variables", 0)
    words.room(2 * num_vars, "numbers or more for the marginals")
    vectors: list[list[float]] = []
    for i in range(num_vars):
        card = words.integer(f"the number of states of variable {i}", 1)
        words.room(card, f"probabilities of variable {i}")
        p = [words.number(f"the probability of state {x} of variable {i}", 0.0, 1.000001) for x in range(card)]
        if abs(sum(p) - 1.0) > _SUM_TOLERANCE:
            raise words.error(f"expected probabilities of variable {i} that sum to 1, found a sum of {sum(p):g}")
        vectors.append(p)
    words.end()
    return Marginals.from_list(vectors)


def read_map(path: PathLike) -> IntArray:
    """The assignment [V] from a MAP or MPE result."""
    words = _answer(path, ("MPE", "MAP"), lambda tokens: len(tokens) == 1 + _count(tokens, 0))
    num_vars = words.integer("the number of variables", 0)
    words.room(num_vars, "states")
    states = [words.integer(f"the state of variable {i}", 0) for i in range(num_vars)]
    words.end()
    return np.array(states, np.int64)


def _answer(path: PathLike, tasks: tuple[str, ...], fits: Callable[[list[bytes]], bool]) -> Words:
    """The words of the last answer in a file of one of the `tasks`, after the sample count if there is one.

    A leading 1 is a sample count when the answer `fits` without it but not with it.
    """
    data, where = read_bytes(path), label(path)
    match = _FIRST_WORD.match(data)
    found = data[match.start(1) : match.end(1)] if match else b""
    if found.upper() not in [task.encode() for task in tasks]:
        line = data.count(b"\n", 0, match.start(1) if match else 0) + 1
        what = shown(found) if found else "an empty file"
        raise FormatError(f"{where}:{line}: expected {' or '.join(tasks)}, found {what}")
    start = len(found) + (match.start(1) if match else 0)
    if (begin := data.rfind(b"-BEGIN-")) >= start:
        start = begin + len(b"-BEGIN-")
    words = Words(data[start:], where, first_line=1 + data.count(b"\n", 0, start))
    tokens = data[start:].split()
    if tokens[:1] == [b"1"] and not fits(tokens) and fits(tokens[1:]):
        words.integer("the number of samples", 1)
    return words


def _count(tokens: list[bytes], at: int) -> int:
    """The count at one place, -1 when there is none."""
    return int(tokens[at]) if at < len(tokens) and len(tokens[at]) < 19 and tokens[at].isdigit() else -1


def _is_mar(tokens: list[bytes]) -> bool:
    """Whether the counts of a MAR answer lead exactly to its end."""
    at = 1
    for _ in range(min(max(_count(tokens, 0), 0), len(tokens))):
        card = _count(tokens, at)
        if card < 1:
            return False
        at += 1 + card
    return at == len(tokens)
