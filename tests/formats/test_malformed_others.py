"""Malformed .fg, .cnf and .wcsp files: errors name the file, the line, what was expected and what was found."""

import random
import re

import pytest

from equifactor.base.errors import EquifactorError, FormatError
from equifactor.formats.cnf import read_cnf
from equifactor.formats.fg import read_fg
from equifactor.formats.wcsp import read_wcsp

READERS = {"fg": read_fg, "cnf": read_cnf, "wcnf": read_cnf, "wcsp": read_wcsp}

FG = [
    ("empty", "", 1, "expected the number of factors, found the end of the file"),
    ("only comments", "# nothing\n", 1, "expected the number of factors, found the end of the file"),
    ("word for count", "two\n", 1, "expected the number of factors, found 'two'"),
    ("negative count", "-1\n", 1, "the number of factors of at least 0, found '-1'"),
    ("absurd count", "1000000000000\n", 1, "expected 2000000000000 words or more for the factors"),
    (
        "missing factor",
        "2\n\n1\n0\n2\n0\n",
        6,
        "the number of variables of factor 1, found the end of the file",
    ),
    ("absurd arity", "1\n99999999\n0\n", 2, "words or more for factor 0"),
    ("negative label", "1\n1\n-3\n2\n0\n", 3, "a variable label of factor 0 of at least 0, found '-3'"),
    (
        "repeated label",
        "1\n2\n4 4\n2 2\n0\n",
        3,
        "factor 0 names variable 4 more than once",
    ),
    ("no states", "1\n1\n0\n0\n0\n", 4, "the number of states of variable 0 of at least 1, found '0'"),
    (
        "states changed",
        "2\n1\n0\n2\n0\n\n1\n0\n3\n0\n",
        9,
        "variable 0 has 3 states here, but 2 states in an earlier factor",
    ),
    (
        "huge table",
        "1\n2\n0 1\n1000000 1000000\n0\n",
        4,
        "entries in total. This factor of 2 variables",
    ),
    (
        "too many entries",
        "1\n1\n0\n2\n3\n0 1\n1 1\n0 1\n",
        5,
        "nonzero entries of factor 0 from 0 to 2, found '3'",
    ),
    ("index too large", "1\n1\n0\n2\n1\n2 0.5\n", 6, "the index of an entry of factor 0 from 0 to 1, found '2'"),
    (
        "index repeated",
        "1\n1\n0\n2\n2\n1 0.5\n1 0.5\n",
        7,
        "factor 0 lists entry 1 twice",
    ),
    (
        "negative value",
        "1\n1\n0\n2\n1\n0 -0.5\n",
        6,
        "the value of entry 0 of factor 0 of at least 0, found '-0.5'",
    ),
    ("NaN", "1\n1\n0\n2\n1\n0 nan\n", 6, "the value of entry 0 of factor 0, found 'nan'"),
    ("infinity", "1\n1\n0\n2\n1\n0 inf\n", 6, "(a finite number), found 'inf'"),
    (
        "truncated",
        "1\n1\n0\n2\n2\n0 0.5\n",
        6,
        "expected the index of an entry of factor 0, found the end of the file",
    ),
    ("trailing", "1\n1\n0\n2\n1\n0 0.5\n\n7\n", 8, "expected the end of the file, found '7'"),
    ("binary", "\0\x01\x02", 1, r"the number of factors, found '\x00\x01\x02'"),
]

CNF = [
    ("empty", "", 1, "expected `p cnf VARIABLES CLAUSES`, found the end of the file"),
    ("no header", "c x\n1 2 0\n", 2, "expected `p cnf VARIABLES CLAUSES` before the clauses, found '1'"),
    ("other problem", "p col 3 2\n", 1, "expected cnf or wcnf after p, found 'col'"),
    ("no counts", "p cnf\n", 1, "expected the number of variables, found the end of the line"),
    ("word for count", "p cnf 3 many\n", 1, "expected the number of clauses, found 'many'"),
    (
        "absurd variables",
        "p cnf 1000000000000 1\n1 0\n",
        1,
        "the header announces 1000000000000 variables. A file may expand",
    ),
    ("header too long", "p cnf 3 2 1\n", 1, "expected the end of the line, found '1'"),
    ("two headers", "p cnf 1 0\np cnf 1 0\n", 2, "found a second line that starts with p"),
    ("literal too large", "p cnf 2 1\n1 -3 0\n", 2, "expected a literal from -2 to 2, found '-3'"),
    ("word in a clause", "p cnf 2 1\n1 x 0\n", 2, "expected a literal, found 'x'"),
    ("open clause", "p cnf 2 1\n1 2\n", 2, "expected 0 at the end of the last clause"),
    ("negative weight", "p cnf 2 0\nc p weight 1 -0.5 0\n", 2, "the weight of literal 1 of at least 0"),
    ("weight without end", "p cnf 2 0\nc p weight 1 0.5\n", 2, "expected 0 after the weight"),
    ("weight by zero", "p cnf 2 0\nc p weight 1 1/0 0\n", 2, "the weight of literal 1, found '1/0'"),
    ("weight of nothing", "p cnf 2 0\nw 0 0.5\n", 2, "expected a literal with a weight, found '0'"),
    ("two weights", "p cnf 2 0\nw 1 0.5\nw 1 0.6\n", 3, "literal 1 has two weights, 0.5 and 0.6"),
    (
        "large single weight",
        "p cnf 2 0\nw 1 3\n",
        2,
        "literal -1 has no weight, and literal 1 has the weight 3",
    ),
    ("weight of no variable", "p cnf 2 0\nw 3 0.5\n", 2, "expected a literal of variables 1 to 2, found 3"),
    (
        "projected",
        "p cnf 2 0\nc p show 1 0\n",
        2,
        "`c p show` with all 2 variables, found 1. Projected counting",
    ),
    ("bad soft weight", "p wcnf 2 1 9\n-4 1 0\n", 2, "the weight of a clause of at least 0, found '-4'"),
    ("binary", "\x7fELF\x02", 1, r"before the clauses, found '\x7fELF\x02'"),
]

WCNF = [
    ("empty", "", 1, "expected clauses, found the end of the file"),
    ("only comments", "c nothing\n\nc more\n", 3, "expected clauses, found the end of the file"),
]

WCSP = [
    ("empty", "", 1, "expected the name of the problem, found the end of the file"),
    ("only a name", "x\n", 1, "expected the number of variables, found the end of the file"),
    ("word for count", "x two 2 1 9\n", 1, "expected the number of variables, found 'two'"),
    ("no top", "x 1 2 0 0\n2\n", 1, "the cost of forbidden tuples (top) of at least 1, found '0'"),
    (
        "absurd variables",
        "x 1000000000000 2 0 9\n2\n",
        1,
        "expected 1000000000000 words or more for the domains",
    ),
    ("absurd functions", "x 1 2 1000000000000 9\n2\n", 1, "words or more for the domains and cost functions"),
    ("domain too large", "x 1 2 0 9\n3\n", 2, "the domain size of variable 0 from 1 to 2, found '3'"),
    (
        "absurd domain",
        "x 1 1000000000000 0 9\n1000000000000\n",
        2,
        "all domains together have 1000000000000 states. A file may expand",
    ),
    ("missing domain", "x 2 2 0 9\n2\n", 2, "the domain size of variable 1, found the end of the file"),
    ("absurd arity", "x 1 2 1 9\n2\n99999999 0 0 0\n", 3, "words or more for cost function 0"),
    (
        "unknown variable",
        "x 1 2 1 9\n2\n1 1 0 0\n",
        3,
        "a variable of cost function 0 from 0 to 0, found '1'",
    ),
    ("repeated variable", "x 1 2 1 9\n2\n2 0 0 0 0\n", 3, "cost function 0 names variable 0 more than once"),
    (
        "keyword",
        "x 1 2 1 9\n2\n1 0 -1 sregular 1\n",
        3,
        "the keyword 'sregular'. Cost functions given by a keyword",
    ),
    (
        "float cost",
        "x 1 2 1 9\n2\n1 0 0.5 0\n",
        3,
        "expected the default cost of cost function 0, found '0.5'",
    ),
    ("absurd tuples", "x 1 2 1 9\n2\n1 0 0 1000000000000\n", 3, "words for the tuples of cost function 0"),
    (
        "state too large",
        "x 1 2 1 9\n2\n1 0 0 1\n2 5\n",
        4,
        "a state in a tuple of cost function 0 from 0 to 1",
    ),
    ("tuple twice", "x 1 2 1 9\n2\n1 0 0 2\n1 5\n1 6\n", 5, "cost function 0 lists the tuple (1,) twice"),
    (
        "truncated",
        "x 1 2 1 9\n2\n1 0 0 2\n1 5\n1\n",
        5,
        "the cost of a tuple of cost function 0, found the end of the file",
    ),
    ("missing shared", "x 1 2 1 9\n2\n1 0 0 -1\n", 3, "a shared function before it (there are 0), found -1"),
    (
        "other shape",
        "x 2 3 2 9\n2 3\n-1 0 0 0\n1 1 0 -1\n",
        4,
        "shared function 1, whose variables have (2,) states. Its own variables have (3,)",
    ),
    ("trailing", "x 1 2 0 9\n2\n1\n", 3, "expected the end of the file, found '1'"),
    (
        "bad scale",
        "x:scale=0 1 2 0 9\n2\n",
        1,
        "expected a name that ends with :scale=NUMBER, found 'x:scale=0'",
    ),
    ("binary", "\0\0\0 \x1b\n", 1, r"expected the number of variables, found '\x1b'"),
]

CASES = [
    pytest.param(format, *case[1:], id=f"{format}-{case[0]}")
    for format, cases in (("fg", FG), ("cnf", CNF), ("wcnf", WCNF), ("wcsp", WCSP))
    for case in cases
]


@pytest.mark.parametrize(("format", "text", "line", "message"), CASES)
def test_malformed(tmp_path, format, text, line, message):
    path = tmp_path / f"bad.{format}"
    path.write_bytes(text.encode())
    with pytest.raises(FormatError) as caught:
        READERS[format](path)
    found = str(caught.value)
    assert found.startswith(f"{path}:{line}: "), found
    assert message in found
    assert "\n" not in found
    assert re.search(r"expected .*found |\.$", found)


@pytest.mark.parametrize("format", READERS)
def test_missing_files_and_directories(tmp_path, format):
    with pytest.raises(FormatError, match="nowhere"):
        READERS[format](tmp_path / f"nowhere.{format}")
    folder = tmp_path / f"folder.{format}"
    folder.mkdir()
    with pytest.raises(FormatError, match="folder"):
        READERS[format](folder)


VALID = {
    "fg": "# c\n3\n\n2\n0 1\n2 3\n4\n0 0.5\n1 .25\n4 2\n5 3e-1\n\n1\n1\n3\n2\n0 1\n2 4\n\n0\n\n\n1\n0 7\n",
    "cnf": (
        "c t wmc\nc p weight 1 0.3 0\nc p weight -1 2/3 0\np cnf 3 4\n"
        "1 -3 0\n2 3\n-1 0 0\n1 -1 0\nw 2 0.25\nc p show 1 2 3 0\n"
    ),
    "wcnf": "c new\nh 1 3 0\n3 -1 0\n2 -3 2 0\nh -2 1 0\n",
    "wcsp": ("x:scale=10 3 3 5 100\n2 3 2\n-2 0 1 5 2\n0 2 1\n1 0 100\n1 2 0 1\n1 4\n0 7 0\n2 2 1 3 0\n2 2 0 0 0\n"),
}
NUMBERS = ["-1", "0", "1", "-9", "3/0", "999999999999", "99999999999999999999", "nan", "inf", "1e400"]
JUNK = [*NUMBERS, "x", "\0", "\xff", "#", "%", "h", "w"]


def mutate(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 3)):
        words = re.split(r"(\s+)", text)
        at = rng.randrange(len(words))
        kind = rng.randrange(5)
        if kind == 0:
            words[at] = rng.choice(JUNK)
        elif kind == 1:
            del words[at]
        elif kind == 2:
            words.insert(at, f" {rng.choice(JUNK)} ")
        elif kind == 3:
            words = words[:at]
        else:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        text = "".join(words)
        if rng.random() < 0.2 and text:
            at = rng.randrange(len(text))
            text = text[:at] + chr(rng.randrange(256)) + text[at + 1 :]
    return text


@pytest.mark.parametrize("format", VALID)
def test_mutated_files_are_read_or_refused(tmp_path, format):
    path = tmp_path / f"mutated.{format}"
    rng = random.Random(0)
    path.write_text(VALID[format])
    READERS[format](path)
    refused = []
    for _ in range(400):
        path.write_bytes(mutate(rng, VALID[format]).encode("latin-1"))
        try:
            READERS[format](path)
        except EquifactorError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(sentence.startswith(str(path)) and "\n" not in sentence for sentence in refused)
