"""DIMACS CNF files: plain (`p cnf`), with literal weights, and weighted MaxSAT (`p wcnf`, `h` lines).

    c p weight 1 0.3 0    weight of literal 1, as in the model counting competition; 1/3 is fine too
    w 2 0.7               the same as Cachet writes it; `w 2 -1` gives both literals weight 1
    p cnf 3 2             3 variables, 2 clauses
    1 -3 0                variable 1 is true or variable 3 is false
    2 3 -1 0

Variable v of the file is variable v - 1 of the graph; state 1 is true. A clause is a factor that is zero
where all its literals are false, so ln Z is the logarithm of the (weighted) model count. In weighted MaxSAT a
soft clause of weight w is exp(-w) there, so that the most probable assignment is the one of least cost.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

from equifactor.io.cnf_weights import LiteralWeights
from equifactor.io.cnf_writer import write_cnf
from equifactor.io.dense_tables import DenseTables
from equifactor.io.files import label, read_bytes, split_name
from equifactor.io.words import Words, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.io.files import PathLike

__all__ = ["read_cnf", "write_cnf"]

MAX_LITERALS = 24  # literals that one clause may have: its table then has 2^24 entries, 128 MiB
MAX_VARIABLES = 10**7  # variables that a header may announce: each costs memory even if it never occurs


def read_cnf(path: PathLike) -> FactorGraph:
    """Read a DIMACS CNF or weighted MaxSAT file.

    Repeated literals count once, clauses that are always true give no factor, the empty clause is a zero
    without variables. Where only one literal of a variable has a weight w, the other one has 1 - w. Raises
    `FormatError`. Cost O(size of the file + T); a clause of k literals has a table of 2^k entries.
    """
    where = label(path)
    stem, suffix = split_name(path)
    data = read_bytes(path)
    reader = _CnfReader(where, _kind(data, suffix))
    for number, line in _lines(data):
        if not reader.read(Words(line, where, first_line=number, end="the end of the line")):
            break
    return reader.finish(name=stem)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers from 1; they are cut from the data one at a time."""
    start, number = 0, 1
    while start < len(data):
        stop = data.find(b"\n", start)
        stop = len(data) if stop < 0 else stop
        yield number, data[start:stop]
        start, number = stop + 1, number + 1


_Kind = Literal["plain", "weighted", "headless"]


def _kind(data: bytes, suffix: str) -> _Kind:
    """Whether clauses begin with a weight: never, always, or always a weight or `h` and without a header.

    Old weighted MaxSAT files say `p wcnf`, new ones have no header. Some files for model counting say
    `p wcnf` too, but they have `w` lines and plain clauses.
    """
    header = re.search(rb"^[ \t]*p[ \t]+(\S+)", data, re.MULTILINE)
    if header is None:
        hard = re.search(rb"^[ \t]*h[ \t]", data, re.MULTILINE)
        return "headless" if hard or suffix == ".wcnf" else "plain"
    literal_weights = re.search(rb"^[ \t]*w[ \t]", data, re.MULTILINE)
    return "weighted" if header[1] == b"wcnf" and not literal_weights else "plain"


class _CnfReader:
    """Reads line after line and keeps what must be known between them."""

    def __init__(self, where: str, kind: _Kind) -> None:
        self.kind = kind
        self.tables = DenseTables(where)
        self.weights = LiteralWeights(MAX_VARIABLES)
        self.num_vars: int | None = None  # the number of variables in the header; None before it, or without one
        self.num_clauses = 0  # the number of clauses in the header
        self.seen_clauses = 0
        self.largest = 0  # the largest variable that occurs, which is V where there is no header
        self.top = math.inf  # clauses of this weight or more are hard
        self.clause: list[int] | None = None  # the literals of a clause that is still open
        self.clause_weight = math.inf
        self.shown: set[int] = set()  # variables of `c p show`
        self.shown_at: Words | None = None
        self.last = Words(b"", where)

    def read(self, words: Words) -> bool:
        """Take one line; returns False when the file ends here."""
        first = words.peek()
        if first is None:
            return True
        if first == b"%":  # SATLIB files end with a line %, then a line 0
            return False
        self.last = words
        if first == b"w":
            self.weights.read(words, cachet=True)
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
        if kind not in ("cnf", "wcnf"):
            raise words.error(f"expected cnf or wcnf after p, found {shown(kind.encode())}")
        self.num_vars = words.integer("the number of variables", 0, MAX_VARIABLES)
        self.num_clauses = words.integer("the number of clauses", 0)
        if self.kind == "weighted" and words.peek() is not None:
            self.top = words.number("the weight of hard clauses", low=0)
        words.end()

    def _comment(self, words: Words) -> None:
        """Take a comment: `c p weight` and `c p show` carry meaning, all others are skipped."""
        if words.word("c") != "c" or words.peek() != b"p":
            return
        words.word("p")
        if words.peek() == b"weight":
            self.weights.read(words, cachet=False)
        elif words.peek() == b"show":
            words.word("show")
            while words.peek() is not None and (variable := words.integer("a variable to show", 0)):
                self.shown.add(variable)
            self.shown_at = words

    def _clauses(self, words: Words, first: bytes) -> None:
        """Take clauses or pieces of them: a clause ends with 0, not with the line."""
        if self.num_vars is None and self.kind != "headless":
            raise words.error(f"expected `p cnf VARIABLES CLAUSES` before the clauses, found {shown(first)}")
        highest = MAX_VARIABLES if self.num_vars is None else self.num_vars
        while words.peek() is not None:
            if self.clause is None:
                self.clause = []
                self.clause_weight = self._clause_weight(words)
            elif literal := words.integer("a literal", -highest, highest):
                self.clause.append(literal)
            else:
                self._finish_clause(words, list(dict.fromkeys(self.clause)))

    def _clause_weight(self, words: Words) -> float:
        if self.kind == "plain":
            return math.inf
        if self.kind == "headless" and words.peek() == b"h":
            words.word("h")
            return math.inf
        weight = words.number("the weight of a clause", low=0)
        return math.inf if weight >= self.top else weight

    def _finish_clause(self, words: Words, literals: list[int]) -> None:
        self.clause = None
        self.seen_clauses += 1
        self.largest = max([self.largest, *map(abs, literals)])
        scope = [abs(x) - 1 for x in literals]
        if len(set(scope)) < len(literals):
            return  # a clause with a variable and its negation is always true
        if len(literals) > MAX_LITERALS:
            raise words.error(
                f"expected a clause of at most {MAX_LITERALS} literals, since its table has 2^k entries; "
                f"found {len(literals)} literals (split the clause with new variables)"
            )
        table = self.tables.add(words, scope, [2] * len(scope), 0.0)
        falsifying = 0
        for x in literals:
            falsifying = 2 * falsifying + (x < 0)
        table[falsifying] = 0.0 - self.clause_weight  # a weight of 0 must not give -0

    def finish(self, name: str | None) -> FactorGraph:
        """Check what only the whole file shows, add the weights of literals and build the graph."""
        if self.clause is not None:
            raise self.last.error("expected 0 at the end of the last clause, found the end of the file")
        if self.num_vars is None and self.kind != "headless":
            raise self.last.error("expected `p cnf VARIABLES CLAUSES`, found the end of the file")
        if self.num_vars is None:
            if not self.seen_clauses:
                raise self.last.error("expected clauses, found the end of the file")
            self.num_vars = max(self.largest, self.weights.largest)
        elif self.seen_clauses != self.num_clauses:
            raise self.last.error(f"expected {self.num_clauses} clauses, found {self.seen_clauses}")
        if self.shown_at and not self.shown.issuperset(range(1, self.num_vars + 1)):
            raise self.shown_at.error(
                f"expected `c p show` with all {self.num_vars} variables, found {len(self.shown)}: projected "
                "counting is not a sum over assignments (delete the line to count over all variables)"
            )
        self.weights.add_to(self.tables, self.num_vars)
        return self.tables.graph([2] * self.num_vars, log=True, name=name)
