"""The elements of an XML file with the lines they begin on; entities are never expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.formats.tokens import sentence

_MAX_DEPTH = 100  # elements within elements; network files have about five
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what no XML file can hold


@dataclass(eq=False)
class XmlElement:
    """An element: its attributes, the elements in it and the text directly in it."""

    tag: str
    attributes: dict[str, str]
    line: int
    where: str  # the file's name in errors
    children: list[XmlElement] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text directly in the element, without white space around it."""
        return "".join(self.pieces).strip()

    def at(self) -> int:
        """The line that the element begins on."""
        return self.line

    def error(self, message: str, line: int | None = None) -> FormatError:
        """An error at this element, to be raised by the caller."""
        return FormatError(f"{self.where}:{self.line if line is None else line}: {sentence(message)}")

    def all(self, *tags: str) -> Iterator[XmlElement]:
        """The elements directly in this one that have one of these tags, whatever their case."""
        return (child for child in self.children if child.tag.lower() in tags)

    def first(self, *tags: str) -> XmlElement | None:
        """The first such element."""
        return next(self.all(*tags), None)

    def attribute(self, name: str) -> str:
        """An attribute that has to be there."""
        if name not in self.attributes:
            raise self.error(f"expected the attribute {name} of <{self.tag}>, found none")
        return self.attributes[name]

    def numbers(self, expected: str) -> list[float]:
        """The text as finite numbers between white space."""
        text = "".join(self.pieces)
        words = text.split()
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) == len(words) and "_" not in text and all(abs(v) < float("inf") for v in values):
            return values
        for found in re.finditer(r"\S+", text):
            if not _is_finite(found[0]):
                line = self.line + text.count("\n", 0, found.start())
                raise self.error(f"expected {expected}, found {brief(found[0])}", line)
        return values


def _is_finite(word: str) -> bool:
    try:
        return "_" not in word and abs(float(word)) < float("inf")
    except ValueError:
        return False


def read_xml(data: bytes, where: str) -> XmlElement:
    """The root element of a file. Raises `FormatError` where it is not well-formed, or declares entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack = [XmlElement("", {}, 1, where)]

    def fail(message: str) -> None:
        raise FormatError(f"{where}:{parser.CurrentLineNumber}: {message}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, parser.CurrentLineNumber, where)
        stack[-1].children.append(element)
        stack.append(element)
        if len(stack) > _MAX_DEPTH:
            fail(f"expected elements at most {_MAX_DEPTH} deep, found more")

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        fail("expected no entities of its own, found one; write its text in its place")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda text: stack[-1].pieces.append(text)
    parser.CommentHandler = lambda _: stack[-1].pieces.append(" ")  # it separates the numbers around it
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        found = expat.ErrorString(error.code)
        raise FormatError(f"{where}:{error.lineno}: expected XML, found a fault in it ({found})") from None
    except (LookupError, ValueError) as error:  # of the encoding that the file says it has
        raise FormatError(f"{where}:1: expected XML in a known encoding ({error})") from None
    return stack[0].children[0]


def as_xml(text: str, *, quote: bool = False) -> str:
    """Text as it stands in an element, or with `quote` in an attribute between double quotes.

    Raises `ModelError` for what an XML file cannot hold, or cannot tell from the white space around it.
    """
    if _FORBIDDEN.search(text) or text != text.strip() or (not text) or re.search(r"[\n\r\t]", text):
        raise ModelError(
            f"XML cannot hold the name {brief(text)}: a name has letters, no white space around them, "
            "no line ends and no control characters"
        )
    return escape(text, {'"': "&quot;"} if quote else {})
