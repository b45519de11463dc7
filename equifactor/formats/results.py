"""UAI result files: the name of the task on the first line, then the answer.

PR       log10 of the partition function; `-inf` if it is zero
MAR      number of variables, then for each variable its number of states and their probabilities
MPE      number of variables, then the state of each variable; some competitions write MAP
MMAP     number of query variables, then the number and the state of each of them

Older files have the number of samples (1) before the answer. Files with several answers separate them by the word
-BEGIN-, and the last answer counts. Both forms are read; neither is written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.files import PathLike, label, read_bytes, write_text
from equifactor.formats.words import Words, first_word, shown
from equifactor.graph.marginals import Marginals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_graph import FactorGraph

_LN_10 = math.log(10.0)  # Result files hold logarithms of base 10.
# The largest difference between 1 and the sum of the probabilities of a variable: published answers have few digits.
_SUM_TOLERANCE = 0.01

# ---- writing --------------------------------------------------------------------------------------------


def format_pr(log_z: float) -> str:
    """Return the text of a PR result, in log10; `log_z` is the natural logarithm."""
    if math.isnan(log_z) or log_z == math.inf:
        raise ModelError(f"A PR file needs ln Z below infinity, found {log_z}.")
    return f"PR\n{log_z / _LN_10!r}\n"


def format_mar(marginals: Sequence[ArrayLike]) -> str:
    """Return the text of a MAR result; the probabilities read back exactly."""
    words = [str(len(marginals))]
    for vector in marginals:
        p = np.asarray(vector, np.float64)
        if not np.all(np.isfinite(p)):
            raise ModelError("A MAR file needs finite marginals, but some are NaN or infinite.")
        words += [str(len(p)), *map(repr, p.tolist())]
    return f"MAR\n{' '.join(words)}\n"


def format_map(assignment: ArrayLike, word: Literal["MPE", "MAP"] = "MPE") -> str:
    """Return the text of a MAP or MPE result: the most probable assignment [V]."""
    states = np.asarray(assignment, np.int64).tolist()
    return f"{word}\n{' '.join(map(str, [len(states), *states]))}\n"


def format_mmap(assignment: ArrayLike, query: Sequence[int]) -> str:
    """Return the text of an MMAP result: the states of the query variables in an assignment [V]."""
    states = np.asarray(assignment, np.int64)
    pairs = [f"{i} {states[i]}" for i in query]
    return f"MMAP\n{' '.join([str(len(pairs)), *pairs])}\n"


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
    """Read ln Z, a natural logarithm, from a PR result."""
    words = _answer(path, ("PR",), lambda tokens: len(tokens) == 1)
    log10_z = words.number("log10 of the partition function")
    words.end()
    return log10_z * _LN_10


def read_mar(path: PathLike) -> Marginals:
    """Read the marginals from a MAR result; the probabilities of each variable must sum to 1 within 0.01."""
    words = _answer(path, ("MAR",), _is_mar)
    num_vars = words.integer("the number of variables", 0)
    words.require(2 * num_vars, "numbers or more for the marginals")
    vectors: list[list[float]] = []
    for i in range(num_vars):
        card = words.integer(f"the number of states of variable {i}", 1)
        words.require(card, f"probabilities of variable {i}")
        p = [words.number(f"the probability of state {x} of variable {i}", 0.0, 1.000001) for x in range(card)]
        if abs(sum(p) - 1.0) > _SUM_TOLERANCE:
            raise words.error(f"the probabilities of variable {i} sum to {sum(p):g}. They must sum to 1.")
        vectors.append(p)
    words.end()
    return Marginals.from_list(vectors)


def read_map(path: PathLike) -> IntArray:
    """Read the assignment [V] from a MAP or MPE result."""
    words = _answer(path, ("MPE", "MAP"), lambda tokens: len(tokens) == 1 + _count(tokens, 0))
    num_vars = words.integer("the number of variables", 0)
    words.require(num_vars, "states")
    states = [words.integer(f"the state of variable {i}", 0) for i in range(num_vars)]
    words.end()
    return np.array(states, np.int64)


def _answer(path: PathLike, tasks: tuple[str, ...], fits: Callable[[list[bytes]], bool]) -> Words:
    """Return the words of the last answer in a file of one of the `tasks`, after the sample count if there is one.

    A leading 1 is a sample count if the answer `fits` without it but not with it.
    """
    data, where = read_bytes(path), label(path)
    found, start = first_word(data)
    if found.upper() not in [task.encode() for task in tasks]:
        line = data.count(b"\n", 0, start - len(found)) + 1
        what = shown(found) if found else "an empty file"
        raise FormatError(f"{where}:{line}: expected {' or '.join(tasks)}, found {what}")
    if (begin := data.rfind(b"-BEGIN-")) >= start:
        start = begin + len(b"-BEGIN-")
    words = Words(data[start:], where, first_line=1 + data.count(b"\n", 0, start))
    tokens = data[start:].split()
    if tokens[:1] == [b"1"] and not fits(tokens) and fits(tokens[1:]):
        words.integer("the number of samples", 1)
    return words


def _count(tokens: list[bytes], at: int) -> int:
    """Return the count at one position, or -1 if there is no count."""
    return int(tokens[at]) if at < len(tokens) and len(tokens[at]) < 19 and tokens[at].isdigit() else -1


def _is_mar(tokens: list[bytes]) -> bool:
    """Return whether the counts of a MAR answer lead exactly to its end."""
    at = 1
    for _ in range(min(max(_count(tokens, 0), 0), len(tokens))):
        card = _count(tokens, at)
        if card < 1:
            return False
        at += 1 + card
    return at == len(tokens)


def read_query(path: PathLike, graph: FactorGraph) -> list[int]:
    """Read a UAI query file: the number of query variables of an MMAP task, then the variables."""
    words = read_bytes(path).split()
    if not words or not all(word.isdigit() for word in words) or int(words[0]) != len(words) - 1:
        raise FormatError(
            f"{label(path)}: expected the number of query variables and then each variable, as whole numbers. "
            "Write one number before the list, such as 2 0 5."
        )
    found = [int(word) for word in words[1:]]
    if len(set(found)) < len(found):
        raise FormatError(f"{label(path)}: a query variable is named twice. Name it once.")
    return [graph.variable(i) for i in found]
