"""Malformed UAI models, evidence and results: every error is a `FormatError` with file and line."""

import random

import pytest

from equifactor.base.errors import EquifactorError, FormatError
from equifactor.formats import read_evidence, read_graph
from equifactor.formats.results import read_map, read_mar, read_pr
from equifactor.formats.uai import parse_uai, read_uai
from equifactor.graph import FactorGraph

MODEL = """MARKOV
3
2 2 3
2
2 0 1
2 1 2

4
1.0 0.5
0.5 1.0

6
1 2 3
4 5 6
"""
SCOPES = "\n".join(MODEL.split("\n")[:6])  # without the tables
GRAPH = FactorGraph([2, 2, 3], [])
READERS = {"list": 2**20, "scanner": 0}  # largest text, in bytes, that is read without Numba


def model(**lines: str) -> str:
    """Return the text of MODEL with some lines replaced; `_4="x"` replaces line 4."""
    text = MODEL.split("\n")
    for number, line in lines.items():
        text[int(number[1:]) - 1] = line
    return "\n".join(text)


MODELS = {
    "empty": ("", 1, ["expected MARKOV or BAYES", "empty file"]),
    "only white space": (" \n\n \t ", 3, ["empty file"]),
    "unknown kind": (model(_1="MARKOW"), 1, ["expected MARKOV or BAYES", "'MARKOW'"]),
    "no kind": (MODEL[7:], 1, ["expected MARKOV or BAYES", "'3'"]),
    "only the kind": ("MARKOV\n", 1, ["the number of variables", "end of the file"]),
    "word for number of variables": (model(_2="three"), 2, ["the number of variables", "'three'"]),
    "fraction for number of variables": (model(_2="3.0"), 2, ["the number of variables", "'3.0'"]),
    "negative number of variables": (model(_2="-3"), 2, ["number of variables, at least 0", "'-3'"]),
    "absurd number of variables": (model(_2="1000000000000"), 2, ["at most", "'1000000000000'"]),
    "number of variables beyond 64 bits": (model(_2="9" * 30), 2, ["at most", "'999999"]),
    "too many variables announced": (model(_2="9"), 5, ["states of variable 5, at least 1", "'0'"]),
    "too few variables announced": (model(_2="2"), 4, ["variable"]),
    "ends in cardinalities": ("MARKOV\n3\n20 20", 3, ["states of variable 2", "end of the file"]),
    "word for cardinality": (model(_3="2 two 3"), 3, ["states of variable 1", "'two'"]),
    "cardinality 0": (model(_3="2 2 0"), 3, ["states of variable 2, at least 1", "'0'"]),
    "negative cardinality": (model(_3="2 -2 3"), 3, ["states of variable 1, at least 1", "'-2'"]),
    "absurd cardinality": (model(_3="2 2 1000000000000"), 3, ["1000000000004 states in total", "A file may expand"]),
    "large cardinality": (model(_3="2 2 1000000"), 6, ["factor 1 needs 2000000 table entries", "too short"]),
    "cardinality with underscore": (model(_3="2 2 0_3"), 3, ["states of variable 2", "'0_3'"]),
    "no number of factors": ("MARKOV\n3\n2 2 3\n", 3, ["the number of factors", "end of the file"]),
    "word for number of factors": (model(_4="two"), 4, ["the number of factors", "'two'"]),
    "negative number of factors": (model(_4="-2"), 4, ["the number of factors, at least 0", "'-2'"]),
    "absurd number of factors": (model(_4="1000000000000"), 4, ["the number of factors, at most"]),
    "too many factors announced": (model(_4="3"), 9, ["variable 0 of factor 2", "'1.0'"]),
    "too few factors announced": (model(_4="1"), 6, ["expected 4", "factor 0 (2 x 2)", "'2'"]),
    "word for arity": (model(_5="two 0 1"), 5, ["the number of variables of factor 0", "'two'"]),
    "negative arity": (model(_6="-2 1 2"), 6, ["the number of variables of factor 1", "'-2'"]),
    "absurd arity": (model(_6="1000000000000 1 2"), 9, ["variable 3 of factor 1", "'1.0'"]),
    "absurd last arity": ("MARKOV\n1\n2\n1\n999 0 0\n", 5, ["variable 2 of factor 0", "end of the file"]),
    "word in scope": (model(_6="2 one 2"), 6, ["variable 0 of factor 1", "'one'"]),
    "missing variable": (model(_6="2 1 3"), 6, ["factor 1 names variable 3", "3 variables (0-2)"]),
    "scope names a negative variable": (model(_5="2 0 -1"), 5, ["factor 0 names variable -1"]),
    "scope repeats a variable": (model(_6="2 2 2"), 6, ["factor 1 names variable 2 twice"]),
    "scope of an empty model": ("MARKOV\n0\n\n1\n1 0\n1 1\n", 5, ["names variable 0", "no variables"]),
    "ends in scopes": ("MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1", 6, ["variable 1 of factor 1", "end of the file"]),
    "ends before the tables": (SCOPES + " " * 22, 6, ["the tables need 12 numbers", "more than 11"]),
    "wrong table size": (model(_8="8"), 8, ["expected 4", "entries of factor 0 (2 x 2)", "'8'"]),
    "wrong second table size": (model(_12="5"), 12, ["expected 6", "factor 1 (2 x 3)", "'5'"]),
    "absurd table size": (model(_12="1000000000000"), 12, ["expected 6", "'1000000000000'"]),
    "word for table size": (model(_12="six"), 12, ["expected 6", "'six'"]),
    "entry missing": (model(_9="1.0"), 13, ["expected 6", "factor 1", "'1'"]),
    "entry too many": (model(_10="0.5 1.0 7"), 10, ["expected 6", "factor 1", "'7'"]),
    "word for entry": (model(_13="1 x 3"), 13, ["entry 1 of the 6 table entries of factor 1", "'x'"]),
    "number glued to a word": (model(_10="0.5 1.0abc"), 10, ["entry 3 of the 4 table entries of factor 0", "'1.0abc'"]),
    "two points": (model(_9="1.0 0.5.5"), 9, ["entry 1 of the 4 table entries of factor 0", "'0.5.5'"]),
    "comma for point": (model(_9="1,0 0.5"), 9, ["entry 0 of the 4 table entries of factor 0", "'1,0'"]),
    "exponent without digits": (model(_9="1.0 5e"), 9, ["entry 1 of the 4 table entries of factor 0", "'5e'"]),
    "entry with underscore": (model(_13="1 1_0 3"), 13, ["entry 1 of the 6 table entries of factor 1", "'1_0'"]),
    "hexadecimal entry": (model(_13="1 0x2 3"), 13, ["entry 1 of the 6 table entries of factor 1", "'0x2'"]),
    "negative entry": (model(_14="4 5 -6"), 14, ["a finite potential of at least 0", "entry 5 of factor 1", "'-6'"]),
    "NaN": (model(_9="1.0 nan"), 9, ["a finite potential of at least 0", "entry 1 of factor 0", "'nan'"]),
    "infinity": (model(_9="inf 0.5"), 9, ["a finite potential", "entry 0 of factor 0", "'inf'"]),
    "overflow": (model(_9="1e999 0.5"), 9, ["a finite potential", "entry 0 of factor 0", "'1e999'"]),
    "nothing after the scopes": (SCOPES, 5, ["factor 0 needs 4", "more than 0 numbers"]),
    "ends in tables": (MODEL[:-3], 14, ["entry 5 of the 6 table entries of factor 1", "end of the file"]),
    "something after the tables": (MODEL + "\n7 8\n", 16, ["the end of the file", "'7'"]),
    "another model after the tables": (MODEL + MODEL, 15, ["the end of the file", "'MARKOV'"]),
    "null bytes": (model(_9="1.0 \0\0"), 9, ["entry 1 of the 4 table entries of factor 0", r"\x00"]),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", MODELS)
def test_model(case, reader):
    text, line, fragments = MODELS[case]
    with pytest.raises(FormatError) as caught:
        parse_uai(text.encode(), "m.uai", small=READERS[reader])
    message = str(caught.value)
    assert message.startswith(f"m.uai:{line}: "), message
    for fragment in fragments:
        assert fragment in message
    assert "\n" not in message


@pytest.mark.parametrize("word", ["nan", "inf", "1e999", "x"])
def test_log_model(word):
    with pytest.raises(FormatError, match=f"^m.LG:9: .*'{word}'"):
        parse_uai(model(_9=f"-1.0 {word}").encode(), "m.LG", log=True)


def test_line_is_found_in_a_long_file():
    lines = ["MARKOV", "1", "2", "400000", *["1 0"] * 400_000, *["2 0.5 0.5"] * 400_000]
    lines[-3] = "2 0.5 -1"
    with pytest.raises(FormatError, match=f"^m.uai:{len(lines) - 2}: .*entry 1 of factor 399997"):
        parse_uai("\n".join(lines).encode(), "m.uai")


EVIDENCE = {
    "word": ("x 0 1", 1, ["the number of observed variables", "'x'"]),
    "negative count": ("-1", 1, ["the number of observed variables of at least 0", "'-1'"]),
    "absurd count": ("1000000000000 0 1", 1, ["expected 2000000000000 numbers after this count", "found 2"]),
    "count alone": ("2\n", 1, ["expected 4 numbers", "found 0"]),
    "pair missing": ("2 0 1", 1, ["expected 4 numbers after this count (a variable and its state", "found 2"]),
    "state missing": ("2 0 1\n 1", 1, ["expected 4 numbers", "found 3"]),
    "pair too many": ("2 0 1 1 0 2 0", 1, ["expected 4 numbers", "found 6"]),
    "pair missing after sample count": ("1\n2 0 1 2", 2, ["expected 4 numbers", "found 3"]),
    "variable out of range": ("2 0 1\n 3 0", 2, ["variable 3", "3 variables (0-2)"]),
    "negative variable": ("1 -1 0", 1, ["variable -1", "(0-2)"]),
    "variable beyond 64 bits": ("1 99999999999999999999 0", 1, ["an observed variable", "'9999999999"]),
    "state out of range": ("1\n2\n1 2\n0 1", 3, ["variable 1 in state 2", "2 states (0-1)"]),
    "negative state": ("1 0 -1", 1, ["variable 0 in state -1", "(0-1)"]),
    "word for variable": ("1\nX0 0", 2, ["an observed variable", "'X0'"]),
    "word for state": ("1 0 true", 1, ["the state of variable 0", "'true'"]),
    "fraction": ("1 0 1.0", 1, ["the state of variable 0", "'1.0'"]),
    "contradiction": ("2 0 1\n0 0", 2, ["variable 0 in state 0", "but an earlier observation puts it in state 1"]),
    "several samples": ("2\n1 0 1\n1 1 0", None, ["expected one sample", "found 2"]),
    "binary": ("\0\1\2", 1, ["the number of observed variables", r"\x00\x01\x02"]),
}  # fmt: skip


@pytest.mark.parametrize("case", EVIDENCE)
def test_evidence(tmp_path, case):
    text, line, fragments = EVIDENCE[case]
    path = tmp_path / "m.evid"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_evidence(path, GRAPH)
    _check(caught.value, path, line, fragments)


RESULTS = {
    "empty": (read_mar, "", 1, ["expected MAR", "empty file"]),
    "other task": (read_mar, "PR\n-1.5\n", 1, ["expected MAR", "'PR'"]),
    "marginal MAP": (read_map, "MMAP\n1 0 1\n", 1, ["expected MPE or MAP", "'MMAP'"]),
    "no answer": (read_pr, "PR\n", 1, ["log10 of the partition function", "end of the file"]),
    "word": (read_pr, "PR\nlow\n", 2, ["log10 of the partition function", "'low'"]),
    "NaN": (read_pr, "PR\nnan\n", 2, ["log10 of the partition function", "'nan'"]),
    "infinite": (read_pr, "PR\ninf\n", 2, ["log10 of the partition function", "'inf'"]),
    "two numbers": (read_pr, "PR\n-1.5\n2\n", 3, ["the end of the file", "'2'"]),
    "MAR without count": (read_mar, "MAR\n", 1, ["the number of variables", "end of the file"]),
    "MAR absurd": (read_mar, "MAR\n1000000000000 2 0.5 0.5", 2, ["2000000000000 numbers"]),
    "MAR absurd states": (read_mar, "MAR\n1\n1000000000 0.5 0.5", 3, ["1000000000 probabilities"]),
    "MAR ends": (read_mar, "MAR\n2 2 0.5 0.5 2 0.5", 2, ["state 1 of variable 1", "end of the file"]),
    "MAR no states": (read_mar, "MAR\n2\n0 1 1.0", 3, ["states of variable 0 of at least 1", "'0'"]),
    "MAR word": (read_mar, "MAR\n1\n2 half 0.5", 3, ["state 0 of variable 0", "'half'"]),
    "MAR negative": (read_mar, "MAR\n1\n2 1.5 -0.5", 3, ["state 0 of variable 0", "'1.5'"]),
    "MAR sum": (read_mar, "MAR\n2\n2 0.5 0.5\n2 0.5 0.2", 4, ["the probabilities of variable 1 sum to 0.7", "0.7"]),
    "MAR too long": (read_mar, "MAR\n1\n2 0.5 0.5\n0.5", 4, ["the end of the file", "'0.5'"]),
    "MAP absurd": (read_map, "MPE\n1000000000000 0 1", 2, ["1000000000000 states"]),
    "MAP negative count": (read_map, "MPE\n-1", 2, ["the number of variables of at least 0", "'-1'"]),
    "MAP ends": (read_map, "MAP\n3\n0 1   ", 3, ["the state of variable 2", "end of the file"]),
    "MAP word": (read_map, "MAP\n3\n0 yes 1", 3, ["the state of variable 1", "'yes'"]),
    "MAP negative state": (read_map, "MAP\n2\n0 -1", 3, ["the state of variable 1 of at least 0", "'-1'"]),
    "MAP too long": (read_map, "MAP\n2\n0 1\n1", 4, ["the end of the file", "'1'"]),
    "MAP wrong in last answer": (read_map, "MPE\n2 0 1\n-BEGIN-\n2 0 x\n", 4, ["state of variable 1", "'x'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", RESULTS)
def test_result(tmp_path, case):
    reader, text, line, fragments = RESULTS[case]
    path = tmp_path / "answer"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        reader(path)
    _check(caught.value, path, line, fragments)


def _check(error, path, line, fragments):
    message = str(error)
    assert message.startswith(f"{path}:{line}: " if line else f"{path}: "), message
    for fragment in fragments:
        assert fragment in message
    assert "\n" not in message


# ---- random damage --------------------------------------------------------------------------------------


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Return the text with one to three tokens or bytes deleted, doubled or replaced, or truncated."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(7)
        if kind < 4:
            tokens = text.split(b" ") if rng.random() < 0.5 else text.split(b"\n")
            at = rng.randrange(len(tokens))
            other = [b"0", b"-1", b"x", b"nan", b"1e400", b"999999999999", b"", b"2 2", b"0.5", b"\xff\xfe"]
            tokens[at : at + 1] = [[], [tokens[at]] * 2, [rng.choice(other)], [rng.choice(tokens)]][kind]
            text = (b" " if b"\n" not in text else rng.choice([b" ", b"\n"])).join(tokens)
        elif kind == 4:
            text = text[: rng.randrange(len(text) + 1)]
        else:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + (rng.randbytes(rng.randint(1, 3)) if kind == 5 else b"") + text[at + 1 :]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_damaged_models_read_or_raise(seed):
    rng = random.Random(seed)
    for _ in range(60):
        text = damaged(MODEL.encode(), rng)
        outcomes = []
        for small in READERS.values():
            try:
                outcomes.append(parse_uai(text, "m.uai", small=small))
            except EquifactorError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1], text


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (lambda path: read_evidence(path, GRAPH), b"1\n3 0 1 1 0 2 2\n"),
        (lambda path: read_evidence(path, GRAPH), b"2 0 1 2 1"),
        (read_mar, b"MAR\n1\n3 2 0.1 0.9 2 0.25 0.75 3 0.2 0.2 0.6\n"),
        (read_map, b"MPE\n3 0 1 2\n-BEGIN-\n3 0 1 1\n"),
        (read_pr, b"PR\n-12.25\n"),
    ],
    ids=["evidence", "evidence without count", "mar", "map", "pr"],
)
def test_damaged_small_files_read_or_raise(tmp_path, reader, text, seed):
    rng = random.Random(seed)
    path = tmp_path / "file"
    for _ in range(40):
        path.write_bytes(damaged(text, rng))
        try:
            reader(path)
        except EquifactorError as error:
            assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("reader", [read_uai, read_graph, read_mar, read_map, read_pr])
def test_junk_directory_and_missing_file(tmp_path, reader):
    junk = tmp_path / "junk.uai"
    junk.write_bytes(random.Random(0).randbytes(100_000))
    for path in (junk, tmp_path, tmp_path / "missing.uai"):
        with pytest.raises(FormatError, match=str(path)):
            reader(path)
