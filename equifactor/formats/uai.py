"""UAI model files (`.uai`), and the same with logarithms for potentials (`.LG`).

MARKOV                the kind of network, or BAYES
3                     number of variables
2 2 3                 their numbers of states
2                     number of factors
2 0 1                 the first scope: its size and its variables
2 1 2                 the second; in a Bayesian network the last variable is the child
4 1.0 0.5 0.5 1.0     the first table: its size and its entries, the last variable of the scope fastest
6 ...

White space and line ends are free. An `.LG` file holds natural logarithms; `-inf`, and anything from -1e20
down, is a true zero. (toulbar2 takes -1e20 for forbidden but cannot read `-inf`, so -1e20 is written.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from equifactor.base.errors import FormatError, ModelError
from equifactor.base.files import PathLike, label, read_bytes, split_name, write_text
from equifactor.factors.dense_graph import with_tables
from equifactor.formats.decimals import decimals
from equifactor.formats.evidence import evidence_as_factors
from equifactor.formats.numbers import TokenError, locate, open_tokens
from equifactor.formats.words import shown
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


LOG_ZERO = -1e20  # log potentials from here down are true zeros in `.LG` files
_START = re.compile(rb"\s*(\S*)")
_KINDS = (b"MARKOV", b"BAYES")
_CHECKED = 2**18  # entries that are searched at once for a wrong one


def read_uai(path: PathLike, log: bool | None = None) -> FactorGraph:
    """Read a UAI model; the graph is named after the file.

    Reads at 100 MB of text a second or more; the peak of memory is the text plus the graph. Texts up to a
    megabyte are read without Numba.

    Args:
        path: the file, `-` for stdin, `.gz` and `.xz` unpacked.
        log: whether the tables hold natural logarithms; None decides by the suffix (`.LG`).
    """
    stem, suffix = split_name(path)
    return parse_uai(read_bytes(path), label(path), log=suffix == ".lg" if log is None else log, name=stem)


def read_unknown(path: PathLike, known: str) -> FactorGraph:
    """Read a file without a known suffix: UAI when it begins like one, else an error that lists `known`."""
    data = read_bytes(path)
    if not data.strip():
        raise FormatError(f"{label(path)}: expected a model, found an empty file")
    if _kind(data)[0].upper() not in _KINDS:
        raise FormatError(f"{label(path)}: neither its suffix nor its first word tells the format; {known}")
    return parse_uai(data, label(path), log=False, name=split_name(path)[0])


def parse_uai(
    data: bytes, where: str, *, log: bool = False, name: str | None = None, small: int | None = None
) -> FactorGraph:
    """The graph in the text of a UAI file; `small` sets the size in bytes up to which Numba is not used."""
    return _Parser(data, where, small).graph(log, name)


class _Parser:
    """Reads the file in one pass. Tokens are numbered from the number of variables, which is token 0."""

    def __init__(self, data: bytes, where: str, small: int | None) -> None:
        self.data, self.where = data, where
        kind, self.start = _kind(data)
        if kind.upper() not in _KINDS:
            line = data.count(b"\n", 0, self.start - len(kind)) + 1
            found = shown(kind) if kind else "an empty file"
            raise FormatError(f"{where}:{line}: expected MARKOV or BAYES, found {found}")
        self.tokens = open_tokens(data, self.start, small)

    def graph(self, log: bool, name: str | None) -> FactorGraph:
        card = self.variables()
        structure = self.structure(card)
        log_phi = self.tables(structure)
        self.check(structure, log_phi, log)
        if log:
            log_phi[log_phi <= LOG_ZERO] = -np.inf
        else:
            with np.errstate(divide="ignore"):
                np.log(log_phi, out=log_phi)  # in place: the tables are most of the memory
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
            scope_ptr.flags.writeable = scope_vars.flags.writeable = False  # handed over, not copied
            return Structure.build(card, scope_ptr, scope_vars)
        except ModelError as error:
            if error.factor is None:
                raise FormatError(f"{self.where}: {error}") from None
            self.fail(first + 1 + error.factor + int(scope_ptr[error.factor]), str(error))

    def tables(self, structure: Structure) -> FloatArray:
        ptr, room = structure.table_ptr, self.tokens.room()
        # Nothing is allocated for tables that the rest of the file cannot hold: each number takes two bytes.
        sizes = np.diff(ptr)
        if np.any(sizes > room):
            a = int(np.argmax(sizes > room))
            scope = 2 + structure.num_vars + int(structure.scope_ptr[a]) + a
            self.fail(scope, f"factor {a} needs {sizes[a]} table entries; {_room(room)}")
        if (needed := structure.num_entries + structure.num_factors) > room:
            self.fail(_first_table(structure) - 1, f"the tables need {needed} numbers; {_room(room)}")
        try:
            return self.tokens.tables(ptr)
        except TokenError as error:
            a, k, size = error.row, error.column, int(sizes[error.row])
            if k >= 0:
                self.expected(error.token, f"entry {k} of the {size} of factor {a}")
            shape = " x ".join(map(str, structure.shape(a))) or "no variables"
            self.expected(error.token, f"{size}, the number of table entries of factor {a} ({shape})")

    def check(self, structure: Structure, phi: FloatArray, log: bool) -> None:
        """Refuse NaN, infinity and negative potentials, and anything after the last table."""
        first = _first_table(structure)
        # min and max need no memory, and NaN comes out of both.
        if phi.size and not ((log or phi.min() >= 0) and phi.max() < np.inf):
            t = _first_wrong(phi, log)
            a = int(np.searchsorted(structure.table_ptr, t, side="right")) - 1
            kind = "a log potential below infinity" if log else "a potential of 0 or more, below infinity"
            self.expected(first + t + a + 1, f"{kind} as entry {t - int(structure.table_ptr[a])} of factor {a}")
        if not self.tokens.at_end():
            self.expected(first + structure.num_entries + structure.num_factors, "the end of the file")

    def count(self, token: int, what: str) -> int:
        """Read a number that announces others; it is refused when the file is too short for them."""
        try:
            count = int(self.tokens.integers(1)[0])
        except TokenError:
            self.expected(token, what)
        if count < 0:
            self.expected(token, f"{what}, at least 0")
        if count > (room := self.tokens.room()):
            self.expected(token, f"{what}, at most {room} as the file is too short for more")
        return count

    def expected(self, token: int, what: str) -> NoReturn:
        line, found = locate(self.data, token, self.start)
        raise FormatError(
            f"{self.where}:{line}: expected {what}, found {'the end of the file' if found is None else shown(found)}"
        ) from None

    def fail(self, token: int, message: str) -> NoReturn:
        raise FormatError(f"{self.where}:{locate(self.data, token, self.start)[0]}: {message}") from None


def _kind(data: bytes) -> tuple[bytes, int]:
    """The first word and where it ends."""
    match = _START.match(data)
    assert match is not None  # the pattern fits anything
    return data[match.start(1) : match.end(1)], match.end(1)


def _first_table(structure: Structure) -> int:
    """The token number of the first table, after the cardinalities and scopes."""
    return 2 + structure.num_vars + structure.num_factors + structure.num_edges


def _room(room: int) -> str:
    return f"after the scopes the file is too short for more than {room} numbers"


def _first_wrong(phi: FloatArray, log: bool) -> int:
    for start in range(0, len(phi), _CHECKED):
        block = phi[start : start + _CHECKED]
        wrong = ~(block < np.inf) if log else ~((block >= 0) & (block < np.inf))
        if wrong.any():
            return start + int(np.argmax(wrong))
    raise AssertionError("called without a wrong entry")


def write_uai(graph: FactorGraph, path: PathLike, log: bool | None = None) -> None:
    """Write a Markov network; potentials read back to the same logarithms where floats allow it.

    Observed variables get a factor that is zero elsewhere, so that the file means the same. Names are lost, and factors
    of other kinds become tables. Raises `ModelError` when a potential does not fit into a 64-bit number (the log form
    holds everything), or when such a table would have more than 2^20 entries.

    Args:
        graph: the graph to write.
        path: the file, `-` for stdout, compressed by suffix.
        log: whether natural logarithms are written; None decides by the suffix (`.LG`).
    """
    log = split_name(path)[1] == ".lg" if log is None else log
    graph = with_tables(evidence_as_factors(graph), "an .LG file" if log else "a .uai file")
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
    for start in range(0, len(log_phi), _CHECKED):
        for x in log_phi[start : start + _CHECKED].tolist():
            yield repr(x) if x > LOG_ZERO else repr(LOG_ZERO)
