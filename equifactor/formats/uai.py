"""UAI model files (`.uai`), and the same format with log potentials (`.LG`).

MARKOV                the type of network: MARKOV or BAYES
3                     number of variables
2 2 3                 their numbers of states
2                     number of factors
2 0 1                 the first scope: its size and its variables
2 1 2                 the second scope; in a Bayesian network the last variable is the child
4 1.0 0.5 0.5 1.0     the first table: its size and its entries, the last variable of the scope fastest
6 ...

Numbers are separated by any white space. An `.LG` file holds natural logarithms; `-inf` and every number of at most
-1e20 is a true zero. (toulbar2 reads -1e20 as forbidden but cannot read `-inf`, so -1e20 is written.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.files import PathLike, label, read_bytes, split_name, write_text
from equifactor.base.number_text import count_text
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.factors.dense_graph import with_tables
from equifactor.formats.decimals import decimals
from equifactor.formats.evidence import evidence_as_factors
from equifactor.formats.numbers import TokenError, locate, open_tokens
from equifactor.formats.words import first_word, shown
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.row_sums import warn_of_stated_rows
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


LOG_ZERO = -1e20  # Log potentials of at most this value are true zeros in `.LG` files, as toulbar2 reads them.
_NETWORK_TYPES = (b"MARKOV", b"BAYES")
_CHECKED_AT_ONCE = 2**18  # The number of entries that are searched for a wrong entry at a time. Chosen by hand.


def read_uai(path: PathLike, log: bool | None = None) -> FactorGraph:
    """Read a UAI model; the graph is named after the file.

    A chain of a million variables, 96 MB of text, took 0.33 s of one core (x86-64). Memory peaks at the size of the
    text plus the graph. Texts of at most a megabyte are read without Numba.

    Args:
        path: the file, or `-` for stdin; `.gz` and `.xz` files are decompressed.
        log: whether the tables hold natural logarithms; None chooses by the suffix (`.LG`).
    """
    stem, suffix = split_name(path)
    return parse_uai(read_bytes(path), label(path), log=suffix == ".lg" if log is None else log, name=stem)


def read_unknown(path: PathLike, error: str) -> FactorGraph:
    """Read a file without a known suffix as UAI if it begins like UAI; otherwise raise a `FormatError` of this text."""
    data = read_bytes(path)
    if not data.strip():
        raise FormatError(f"{label(path)}: expected a model, found an empty file")
    if first_word(data)[0].upper() not in _NETWORK_TYPES:
        raise FormatError(f"{label(path)}: {error}")
    return parse_uai(data, label(path), log=False, name=split_name(path)[0])


def parse_uai(
    data: bytes, where: str, *, log: bool = False, name: str | None = None, small: int | None = None
) -> FactorGraph:
    """Return the graph in the text of a UAI file. Texts of at most `small` bytes are read without Numba."""
    return _Parser(data, where, small).graph(log, name)


class _Parser:
    """A parser that reads a file in one pass. Token 0 is the number of variables."""

    def __init__(self, data: bytes, where: str, small: int | None) -> None:
        self.data, self.where = data, where
        word, self.start = first_word(data)
        if word.upper() not in _NETWORK_TYPES:
            line = data.count(b"\n", 0, self.start - len(word)) + 1
            found = shown(word) if word else "an empty file"
            raise FormatError(f"{where}:{line}: expected MARKOV or BAYES, found {found}")
        self.is_network = word.upper() == b"BAYES"
        self.tokens = open_tokens(data, self.start, small)

    def graph(self, log: bool, name: str | None) -> FactorGraph:
        card = self.variables()
        structure = self.structure(card)
        log_phi = self.tables(structure)
        self.check(structure, log_phi, log)
        if self.is_network and not log:
            warn_of_stated_rows(structure, log_phi, self.where)
        if log:
            log_phi[log_phi <= LOG_ZERO] = -np.inf
        else:
            with np.errstate(divide="ignore"):
                np.log(log_phi, out=log_phi)  # in place: the tables take most of the memory
        return FactorGraph.trusted(structure, log_phi, None, name)

    def variables(self) -> IntArray:
        num_vars = self.count(0, "the number of variables")
        try:
            card = self.tokens.integers(num_vars)
        except TokenError as error:
            self.expected(error.token, f"the number of states of variable {error.row}")
        if np.any(card < 1):
            i = int(np.argmax(card < 1))
            self.expected(1 + i, f"the number of states of variable {i}, at least 1")
        total = int(card.sum(dtype=np.float64))  # in floating point: it may not fit an integer
        if total > most_numbers(len(self.data)):
            i = int(np.argmax(card))
            self.fail(1 + i, f"the variables have {count_text(total)} states in total. {limit_text()}")
        return card

    def structure(self, card: IntArray) -> Structure:
        first = 1 + len(card)
        num_factors = self.count(first, "the number of factors")
        try:
            scope_ptr, scope_vars = self.tokens.rows(num_factors)
        except TokenError as error:
            what = "the number of variables" if error.column < 0 else f"variable {error.column}"
            self.expected(error.token, f"{what} of factor {error.row}")
        try:
            scope_ptr.flags.writeable = scope_vars.flags.writeable = False  # so that Structure does not copy them
            return Structure.build(card, scope_ptr, scope_vars)
        except ModelError as error:
            if error.factor is None:
                raise FormatError(f"{self.where}: {error}") from None
            self.fail(first + 1 + error.factor + int(scope_ptr[error.factor]), str(error))

    def tables(self, structure: Structure) -> FloatArray:
        ptr, room = structure.table_ptr, self.tokens.max_tokens_left()
        # Do not allocate tables that the rest of the file is too short for: each number takes two bytes.
        sizes = np.diff(ptr)
        if np.any(sizes > room):
            a = int(np.argmax(sizes > room))
            scope = 2 + structure.num_vars + int(structure.scope_ptr[a]) + a
            self.fail(scope, f"factor {a} needs {sizes[a]} table entries; {_too_short(room)}")
        if (needed := structure.num_entries + structure.num_factors) > room:
            self.fail(_first_table(structure) - 1, f"the tables need {needed} numbers; {_too_short(room)}")
        try:
            return self.tokens.tables(ptr)
        except TokenError as error:
            a, k, size = error.row, error.column, int(sizes[error.row])
            if k >= 0:
                self.expected(error.token, f"entry {k} of the {size} table entries of factor {a}")
            shape = " x ".join(map(str, structure.shape(a))) or "no variables"
            self.expected(error.token, f"{size}, the number of table entries of factor {a} ({shape})")

    def check(self, structure: Structure, phi: FloatArray, log: bool) -> None:
        """Raise `FormatError` for NaN, infinity, negative potentials, and anything after the last table."""
        first = _first_table(structure)
        # min and max need no memory, and both return NaN if an entry is NaN.
        if phi.size and not ((log or phi.min() >= 0) and phi.max() < np.inf):
            t = _first_wrong(phi, log)
            a = int(np.searchsorted(structure.table_ptr, t, side="right")) - 1
            valid = "a log potential below infinity" if log else "a finite potential of at least 0"
            self.expected(first + t + a + 1, f"{valid} as entry {t - int(structure.table_ptr[a])} of factor {a}")
        if not self.tokens.at_end():
            self.expected(first + structure.num_entries + structure.num_factors, "the end of the file")

    def count(self, token: int, what: str) -> int:
        """Read the number of items that follow. Raise `FormatError` if the file is too short for them."""
        try:
            count = int(self.tokens.integers(1)[0])
        except TokenError:
            self.expected(token, what)
        if count < 0:
            self.expected(token, f"{what}, at least 0")
        if count > (room := self.tokens.max_tokens_left()):
            self.expected(token, f"{what}, at most {room} (the file is too short for more)")
        return count

    def expected(self, token: int, what: str) -> NoReturn:
        line, found = locate(self.data, token, self.start)
        raise FormatError(
            f"{self.where}:{line}: expected {what}, found {'the end of the file' if found is None else shown(found)}"
        ) from None

    def fail(self, token: int, message: str) -> NoReturn:
        raise FormatError(f"{self.where}:{locate(self.data, token, self.start)[0]}: {message}") from None


def _first_table(structure: Structure) -> int:
    """Return the token number of the first table, after the cardinalities and scopes."""
    return 2 + structure.num_vars + structure.num_factors + structure.num_edges


def _too_short(room: int) -> str:
    return f"after the scopes the file is too short for more than {room} numbers"


def _first_wrong(phi: FloatArray, log: bool) -> int:
    for start in range(0, len(phi), _CHECKED_AT_ONCE):
        entries = phi[start : start + _CHECKED_AT_ONCE]
        wrong = ~(entries < np.inf) if log else ~((entries >= 0) & (entries < np.inf))
        if wrong.any():
            return start + int(np.argmax(wrong))
    raise AssertionError("called without a wrong entry")


def write_uai(graph: FactorGraph, path: PathLike, log: bool | None = None) -> None:
    """Write a Markov network; potentials read back to the same logarithms if a float has that logarithm.

    Each observed variable gets a factor that is zero in all other states, so that the file has the same distribution.
    Names are lost, and structured factors become dense tables. Raises `ModelError` if a potential does not fit into a
    64-bit number, or if a structured factor needs more than 2^20 entries. An `.LG` file holds every logarithm above
    -1e20, and -1e20 stands for zero.

    Args:
        graph: the graph to write.
        path: the file, or `-` for stdout; `.gz` and `.xz` files are compressed.
        log: whether to write natural logarithms; None chooses by the suffix (`.LG`).
    """
    log = split_name(path)[1] == ".lg" if log is None else log
    graph = with_tables(evidence_as_factors(graph), "an .LG file" if log else "a .uai file")
    lost = (graph.log_phi <= LOG_ZERO) & (graph.log_phi > -np.inf)
    if log and lost.any():
        raise ModelError(
            f"The log potential {graph.log_phi[int(np.argmax(lost))]:g} would be read as zero from an .LG file. Such a "
            f"file holds logarithms above {LOG_ZERO:g}."
        )
    write_text(path, _text(graph, log))


def _text(graph: FactorGraph, log: bool) -> Iterator[str]:
    s = graph.structure
    yield f"MARKOV\n{s.num_vars}\n{' '.join(map(str, s.card.tolist()))}\n{s.num_factors}\n"
    for a in range(s.num_factors):
        yield " ".join(map(str, (s.arity[a], *s.scope(a).tolist()))) + "\n"
    texts = _logs(graph.log_phi) if log else decimals(graph.log_phi)
    for a, size in enumerate(np.diff(s.table_ptr).tolist()):
        last = int(s.card[s.scope(a)[-1]]) if s.arity[a] else 1  # one line per row of the table
        yield f"\n{size}\n"
        for _ in range(size // last):
            yield " ".join([next(texts) for _ in range(last)]) + "\n"


def _logs(log_phi: FloatArray) -> Iterator[str]:
    for start in range(0, len(log_phi), _CHECKED_AT_ONCE):
        for x in log_phi[start : start + _CHECKED_AT_ONCE].tolist():
            yield repr(x) if x > LOG_ZERO else repr(LOG_ZERO)
