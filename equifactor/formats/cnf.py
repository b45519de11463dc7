"""DIMACS CNF files: plain (`p cnf`), with weights of literals, and weighted MaxSAT (`p wcnf`, `h` lines).

    c p weight 1 0.3 0    the weight of literal 1, as in the model counting competition; 1/3 is also allowed
    w 2 0.7               the weight of literal 2 as Cachet writes it; `w 2 -1` gives both literals weight 1
    p cnf 3 2             3 variables, 2 clauses
    1 -3 0                variable 1 is true or variable 3 is false
    2 3 -1 0

Variable v of the file is variable v - 1 of the graph; state 1 is true. A clause is a factor that is zero if all its
literals are false. So ln Z is the logarithm of the (weighted) model count. In weighted MaxSAT, a soft clause of weight
w is exp(-w) if all its literals are false. So the most probable assignment has the least cost.
`c t mc`, `wmc`, `pmc` or `pwmc` names the counting task; `c p show` lists the variables of projected counting. Older
files list them in lines `c ind 1 2 0` or `vp 1 2 0`, the latter under a header `p pcnf`.
"""

from __future__ import annotations

import logging
import math
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.files import label, read_bytes, split_name
from equifactor.base.number_text import count_text
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.formats.clause_rows import ClauseStream
from equifactor.formats.cnf_weights import LiteralWeights
from equifactor.formats.cnf_writer import write_cnf
from equifactor.formats.words import Words, shown
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import merged
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.files import PathLike

__all__ = ["read_cnf", "write_cnf"]

log = logging.getLogger("equifactor")

_CLAUSE_LINES = re.compile(rb"(?:[0-9+ \t\r-]*+\n){2,5000}+")  # Lines of numbers only, which are read together.


def read_cnf(path: PathLike) -> FactorGraph:
    """Read a DIMACS CNF or weighted MaxSAT file; its clauses become `Clause` factors of any length.

    Repeated literals count once, and clauses that are always true give no factor. A clause of one literal becomes a
    table, and the empty clause a zero without variables. If only one literal of a variable has a weight w, the other
    literal gets 1 - w and a warning is logged. A header with another number of clauses than the file is a warning too:
    many files for model counting have one. Raises `FormatError`. Time and memory are linear in the file size.
    """
    reader, name = _read(path)
    graph = reader.finish(name)
    reader.check_shown(graph.num_vars)
    return graph


def read_projected_cnf(path: PathLike) -> tuple[FactorGraph, list[int]]:
    """Read a file for projected counting: the graph, and the variables to count over, all if the file lists none."""
    reader, name = _read(path)
    graph = reader.finish(name)
    if reader.shown_at is None:
        return graph, [*range(graph.num_vars)]
    wrong = max(reader.shown, default=0)
    if wrong > graph.num_vars:
        raise reader.shown_at.error(f"expected variables from 1 to {graph.num_vars}, found {wrong}")
    return graph, [v - 1 for v in sorted(reader.shown)]


def _read(path: PathLike) -> tuple[_CnfReader, str | None]:
    """Read all lines of a file; return the reader and the name of the graph."""
    stem, suffix = split_name(path)
    data = read_bytes(path)
    reader = _CnfReader(label(path), _dialect(data, suffix), len(data))
    for number, lines in _pieces(data):
        if reader.read_clauses(number, lines):
            continue
        for n, line in enumerate(lines.split(b"\n")):
            if not reader.read(Words(line, reader.where, first_line=number + n, end="the end of the line")):
                return reader, stem
    return reader, stem


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield single lines or runs of lines of numbers only, without the last newline, and the number of the first line.

    Lines are numbered from 1.
    """
    start, number = 0, 1
    while start < len(data):
        many = _CLAUSE_LINES.match(data, start)
        stop = many.end() - 1 if many else data.find(b"\n", start)
        piece = data[start:] if stop < 0 else data[start:stop]
        yield number, piece
        start, number = start + len(piece) + 1, number + piece.count(b"\n") + 1


_Dialect = Literal["plain", "weighted", "headless"]


def _dialect(data: bytes, suffix: str) -> _Dialect:
    """Return whether clauses begin with a weight: never (plain), always (weighted), or with a weight or `h` (headless).

    Old weighted MaxSAT files have the header `p wcnf`; new MaxSAT files have no header. Some files for model counting
    have the header `p wcnf` too, but also `w` lines and plain clauses.
    """
    header = re.search(rb"^[ \t]*p[ \t]+(\S+)", data, re.MULTILINE)
    if header is None:
        hard = re.search(rb"^[ \t]*h[ \t]", data, re.MULTILINE)
        return "headless" if hard or suffix == ".wcnf" else "plain"
    literal_weights = re.search(rb"^[ \t]*w[ \t]", data, re.MULTILINE)
    return "weighted" if header[1] == b"wcnf" and not literal_weights else "plain"


class _CnfReader:
    """A reader that takes line after line and keeps its state between lines."""

    def __init__(self, where: str, dialect: _Dialect, num_bytes: int) -> None:
        self.where = where
        self.dialect = dialect
        self.clauses = ClauseStream()
        self.max_vars = most_numbers(num_bytes) // 2  # a variable has two states, even if it occurs in no clause
        self.weights = LiteralWeights(self.max_vars)
        self.num_vars: int | None = None  # the number of variables in the header; None if no header was read
        self.num_clauses = 0  # the number of clauses in the header
        self.top = math.inf  # clauses of this weight or more are hard
        self.is_open = False  # whether a clause has begun and its final 0 has not been read
        self.track: Words | None = None  # the line `c t pmc` or `c t pwmc`
        self.shown: set[int] = set()  # variables of `c p show`
        self.shown_at: Words | None = None
        self.last = Words(b"", where)

    def read_clauses(self, number: int, lines: bytes) -> bool:
        """Read many lines of plain clauses, from line `number` on; return False if `read` must read them instead."""
        if self.num_vars is None or self.dialect != "plain" or b"\n" not in lines:
            return False
        is_open = self.clauses.extend(lines.split(), self.num_vars)
        if is_open is None:
            return False
        self.is_open = is_open
        self.last = Words(b"", self.where, first_line=number + lines.rstrip().count(b"\n"))
        return True

    def read(self, words: Words) -> bool:
        """Read one line; return False if the file ends here."""
        first = words.peek()
        if first is None:
            return True
        if first == b"%":  # SATLIB files end with a line %, then a line 0
            return False
        self.last = words
        if first == b"w":
            self.weights.read(words, cachet=True)
        elif first == b"vp":
            words.word("vp")
            self._show(words)
        elif first[:1] == b"c":
            self._comment(words)
        elif first == b"p":
            self._header(words)
        else:
            self._clauses(words, first)
        return True

    def _header(self, words: Words) -> None:
        words.word("p")
        if self.num_vars is not None:
            raise words.error("expected clauses after the header, found a second line that starts with p")
        kind = words.word("cnf or wcnf")
        if kind not in ("cnf", "wcnf", "pcnf"):
            raise words.error(f"expected cnf or wcnf after p, found {shown(kind.encode())}")
        self.num_vars = words.integer("the number of variables", 0)
        if self.num_vars > self.max_vars:
            raise words.error(f"the header announces {count_text(self.num_vars)} variables. {limit_text()}")
        self.num_clauses = words.integer("the number of clauses", 0)
        if self.dialect == "weighted" and words.peek() is not None:
            self.top = words.number("the weight of hard clauses", low=0)
        if kind == "pcnf":
            words.integer("the number of variables to count over", 0)
            self.track = words
        words.end()

    def _comment(self, words: Words) -> None:
        """Read a comment: `c t`, `c ind`, `c p weight` and `c p show` have a meaning; other comments are skipped."""
        if words.word("c") != "c":
            return
        if words.peek() == b"t":
            words.word("t")
            if words.peek() in (b"pmc", b"pwmc"):
                words.word("pmc or pwmc")
                self.track = words
        elif words.peek() == b"p":
            words.word("p")
            if words.peek() == b"weight":
                self.weights.read(words, cachet=False)
            elif words.peek() == b"show":
                words.word("show")
                self._show(words)
        elif words.peek() == b"ind":
            words.word("ind")
            if re.fullmatch(rb"[0-9]+", words.peek() or b""):  # otherwise it is a sentence
                self._show(words)

    def _show(self, words: Words) -> None:
        """Read the variables of projected counting."""
        while words.peek() is not None and (variable := words.integer("a variable to show", 0)):
            self.shown.add(variable)
        self.shown_at = words

    def _clauses(self, words: Words, first: bytes) -> None:
        """Read clauses or parts of clauses: a clause ends with 0, not with the line."""
        if self.num_vars is None and self.dialect != "headless":
            raise words.error(f"expected `p cnf VARIABLES CLAUSES` before the clauses, found {shown(first)}")
        highest = self.num_vars
        while words.peek() is not None:
            if not self.is_open:
                self.is_open = True
                if self.dialect != "plain":
                    self.clauses.weigh(self._clause_weight(words))
                    continue
            literal = words.integer("a literal", None if highest is None else -highest, highest)
            if abs(literal) > self.max_vars:
                raise words.error(f"the literal {literal} needs too many variables. {limit_text()}")
            self.clauses.append(literal)
            self.is_open = literal != 0

    def _clause_weight(self, words: Words) -> float:
        if self.dialect == "headless" and words.peek() == b"h":
            words.word("h")
            return math.inf
        weight = words.number("the weight of a clause", low=0)
        return math.inf if weight >= self.top else weight

    def finish(self, name: str | None) -> FactorGraph:
        """Check the file as a whole, add the weights of literals and build the graph."""
        if self.is_open:
            raise self.last.error("expected 0 at the end of the last clause, found the end of the file")
        if self.num_vars is None and self.dialect != "headless":
            raise self.last.error("expected `p cnf VARIABLES CLAUSES`, found the end of the file")
        if self.num_vars is None:
            if not self.clauses.num_clauses:
                raise self.last.error("expected clauses, found the end of the file")
            self.num_vars = max(self.clauses.largest, self.weights.largest)
        elif self.clauses.num_clauses != self.num_clauses:
            log.warning(
                "%s: the header announces %s clauses, but the file has %s. All clauses of the file are read.",
                self.where, count_text(self.num_clauses), count_text(self.clauses.num_clauses),
            )  # fmt: skip
        clauses, weights = self.clauses.rows(), self.weights.rows(self.num_vars)
        if one_sided := self.weights.one_sided:
            log.warning(
                "%s: %d variables have a weight for only one literal; the first is variable %d. The other literal gets "
                "1 minus that weight here, but 1 in some counters. Give both weights in the file to avoid this.",
                self.where, len(one_sided), one_sided[0],
            )  # fmt: skip
        places = np.arange(clauses.num_factors + weights.num_factors)
        rows = merged([(places[: clauses.num_factors], clauses), (places[clauses.num_factors :], weights)])
        structure = Structure.of_rows(np.full(self.num_vars, 2), rows)
        return FactorGraph.trusted(structure, rows.log_values, None, name)

    def check_shown(self, num_vars: int) -> None:
        """Raise `FormatError` for projected counting: a sum over some variables after a maximum over the others."""
        if self.shown_at and not self.shown.issuperset(range(1, num_vars + 1)):
            raise self.shown_at.error(
                f"expected `c p show` with all {num_vars} variables, found {len(self.shown)}. Projected counting is "
                "not a sum over assignments. Use `equifactor solve --task PR --count`, or delete the line."
            )
        if self.track and not self.shown_at:
            raise self.track.error(
                "`c t pmc`, `c t pwmc` and `p pcnf` ask for projected counting, which needs a line `c p show` with the "
                "variables to count over. Write `c t mc` or `c t wmc` to count over all variables."
            )
