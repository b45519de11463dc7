"""The elements of an XML file and the lines they begin on.

The specification of XMLBIF puts a DTD into every file, so a DTD is not an error. Nothing in a DTD expands: entities are
refused, and default values of attributes are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from equifactor.base.errors import FormatError, ModelError, brief
from equifactor.formats.tokens import is_number, one_line

# The largest number of attributes that a DTD may declare: expat looks at each of them for every element. XMLBIF has 3.
_MAX_DEFAULTS = 100
_MAX_DEPTH = 100  # The largest number of levels of nested elements; network files have about five. Chosen by hand.
# The characters that no XML file can contain.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(eq=False, slots=True)
class XmlElement:
    """An element: its attributes, its child elements and the text directly in it."""

    tag: str
    attributes: dict[str, str]
    line: int
    where: str  # the name of the file in errors
    children: list[XmlElement] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text directly in the element, without white space around it."""
        return "".join(self.pieces).strip()

    def at(self) -> int:
        """Return the line that the element begins on."""
        return self.line

    def error(self, message: str, line: int | None = None) -> FormatError:
        """Return an error at this element, for the caller to raise."""
        return FormatError(f"{self.where}:{self.line if line is None else line}: {one_line(message)}")

    def all(self, *tags: str) -> Iterator[XmlElement]:
        """Return the child elements with one of these lower-case tags; the case of tags in the file is ignored."""
        return (child for child in self.children if child.tag.lower() in tags)

    def first(self, *tags: str) -> XmlElement | None:
        """Return the first child element with one of these tags, or None."""
        return next(self.all(*tags), None)

    def attribute(self, name: str) -> str:
        """Return a required attribute."""
        if name not in self.attributes:
            raise self.error(f"the element <{self.tag}> has no attribute '{name}'.")
        return self.attributes[name]

    def numbers(self, expected: str) -> list[float]:
        """Return the text as finite numbers separated by white space."""
        text = "".join(self.pieces)
        words = text.split()
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        plain = text.isascii() and "_" not in text  # Python also reads 1_000 and digits of other scripts
        if len(values) == len(words) and plain and all(abs(v) < float("inf") for v in values):
            return values
        for found in re.finditer(r"\S+", text):
            if not is_number(found[0]):
                line = self.line + text.count("\n", 0, found.start())
                raise self.error(f"expected {expected}, found {brief(found[0])}", line)
        return values


def read_xml(data: bytes, where: str) -> XmlElement:
    """Return the root element of a file. Raises `FormatError` if the file is not well-formed or declares entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    # Attributes that only a DTD states are left out: a default of 10^5 characters would be copied to every element.
    parser.specified_attributes = True
    stack = [XmlElement("", {}, 1, where)]
    num_defaults = 0

    def fail(message: str) -> None:
        raise FormatError(f"{where}:{parser.CurrentLineNumber}: {message}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, parser.CurrentLineNumber, where)
        stack[-1].children.append(element)
        stack.append(element)
        if len(stack) > _MAX_DEPTH:
            fail(f"elements are nested more than {_MAX_DEPTH} deep, which is not supported.")

    def end(_: str) -> None:
        stack.pop()

    def count_default(*_: object) -> None:
        nonlocal num_defaults
        num_defaults += 1
        if num_defaults > _MAX_DEFAULTS:
            fail(f"the DTD declares more than {_MAX_DEFAULTS} attributes, which is not supported. Delete the DTD.")

    def refuse(*_: object) -> None:
        fail("the file declares or uses its own entity, which is not supported. Replace the entity by its text.")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda text: stack[-1].pieces.append(text)
    parser.CommentHandler = lambda _: stack[-1].pieces.append(" ")  # a comment separates the numbers around it
    parser.AttlistDeclHandler = count_default
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        found = expat.ErrorString(error.code)
        raise FormatError(f"{where}:{error.lineno}: the file is not well-formed XML ({found}).") from None
    except (LookupError, ValueError) as error:  # an unknown or wrong encoding declaration
        raise FormatError(
            f"{where}:1: {one_line(f'the encoding that the file declares cannot be read ({error})')}."
        ) from None
    return stack[0].children[0]


def as_xml(text: str, *, quote: bool = False) -> str:
    """Escape text for an element, or with `quote` for an attribute between double quotes.

    Raises `ModelError` for text that an XML file cannot hold, or cannot distinguish from the white space around it.
    """
    if _FORBIDDEN.search(text) or text != text.strip() or (not text) or re.search(r"[\n\r\t]", text):
        raise ModelError(
            f"An XML file cannot hold the name {brief(text)}. A name must not be empty, must not begin or end with "
            "white space, and must not contain line ends or control characters."
        )
    return escape(text, {'"': "&quot;"} if quote else {})
