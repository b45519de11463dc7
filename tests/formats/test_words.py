import re

import pytest

from equifactor.base.errors import FormatError
from equifactor.base.number_text import finite_number
from equifactor.formats.words import Words, shown


def words(text: str | bytes, **options) -> Words:
    return Words(text if isinstance(text, bytes) else text.encode(), "f.txt", **options)


def test_words_come_in_order_with_their_lines():
    w = words("12 x\n\n  -3.5e2\tend\r\nlast")
    assert (w.integer("n"), w.line) == (12, 1)
    assert (w.word("a"), w.line) == ("x", 1)
    assert (w.number("v"), w.line) == (-350.0, 3)
    assert (w.peek(), w.line) == (b"end", 3)
    assert w.word("a") == "end"
    assert (w.word("a"), w.line) == ("last", 4)
    assert w.peek() is None
    w.end()


def test_comments_run_to_the_end_of_the_line():
    w = words("# 1 2\n3#4 5\n#\n\n6 # 7", comment="#")
    assert [w.integer("n"), w.line] == [3, 2]
    assert [w.integer("n"), w.line] == [6, 5]
    w.end()


def test_a_piece_of_a_file_knows_where_it_is():
    w = words("1\nx", first_line=7, end="the end of the line")
    w.integer("n")
    with pytest.raises(FormatError, match=r"^f\.txt:8: expected a number, found 'x'$"):
        w.integer("a number")
    with pytest.raises(FormatError, match="found the end of the line"):
        w.word("more")


@pytest.mark.parametrize(
    ("text", "read", "message"),
    [
        ("a", lambda w: w.integer("a count"), "f.txt:1: expected a count, found 'a'"),
        ("\n1.5", lambda w: w.integer("a count"), "f.txt:2: expected a count, found '1.5'"),
        ("1_0", lambda w: w.integer("a count"), "found '1_0'"),
        ("-1", lambda w: w.integer("a count", 0), "expected a count of at least 0, found '-1'"),
        ("9", lambda w: w.integer("a count", high=8), "expected a count of at most 8, found '9'"),
        ("9", lambda w: w.integer("a count", 0, 8), "expected a count from 0 to 8, found '9'"),
        ("9" * 20, lambda w: w.integer("a count"), "that fits into 64 bits"),
        ("9" * 10_000, lambda w: w.integer("a count", 0), "expected a count of at least 0, found '9999"),
        ("", lambda w: w.integer("a count"), "f.txt:1: expected a count, found the end of the file"),
        ("1e", lambda w: w.number("a value"), "expected a value, found '1e'"),
        ("0x1p3", lambda w: w.number("a value"), "expected a value, found '0x1p3'"),
        ("nan", lambda w: w.number("a value"), "expected a value, found 'nan'"),
        ("inf", lambda w: w.number("a value"), "expected a value (a finite number), found 'inf'"),
        ("1e999", lambda w: w.number("a value"), "expected a value (a finite number), found '1e999'"),
        ("-0.5", lambda w: w.number("a value", 0), "expected a value of at least 0, found '-0.5'"),
        ("0.5", lambda w: w.number("a value", 0, 0.25), "expected a value of at most 0.25, found '0.5'"),
        ("x y", lambda w: w.end(), "expected the end of the file, found 'x'"),
    ],
)
def test_errors_say_what_was_expected_and_found(text, read, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        read(words(text))


def test_minus_infinity_is_a_number():
    assert words("-inf").number("a log") == float("-inf")


def test_junk_is_escaped_and_shortened():
    assert shown(b"\x00\x1b[31m") == r"'\x00\x1b[31m'"
    assert shown(b"\xff\xfe") == r"'\xff\xfe'"
    assert shown("grün".encode()) == "'grün'"
    assert shown(b"x" * 10**6) == f"'{'x' * 40}...'"
    assert len(shown(b"\xff" * 10**6)) < 60


def test_room_refuses_counts_the_file_cannot_hold():
    w = words("3 1 2 3")
    count = w.integer("a count")
    w.require(count, "entries")
    with pytest.raises(FormatError, match="expected 1000000000000 entries, found only 6 more bytes"):
        w.require(10**12, "entries")
    words("1 2").require(2, "entries")  # the last word needs no separator


@pytest.mark.parametrize("data", [b" " * 10**6, b"#" * 10**6, b"#\n" * 500_000, b"# " * 500_000])
def test_no_input_takes_forever(data):
    words(data, comment="#").end()  # in quadratic time this would take days


def test_a_long_word_takes_linear_time() -> None:
    digits = "9" * 1_000_000
    with pytest.raises(FormatError, match=r"expected a number, found '999"):
        Words(f"{digits}x".encode(), "a").number("a number")
    assert finite_number(f"{digits}x") is None
    assert finite_number(f"0.{digits}") == 1.0
