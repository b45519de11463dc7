"""Bayesian networks in XMLBIF, version 0.3 (`.xmlbif`, `.xml`).

<BIF VERSION="0.3"><NETWORK><NAME>alarm</NAME>
<VARIABLE TYPE="nature"><NAME>CO</NAME><OUTCOME>LOW</OUTCOME><OUTCOME>HIGH</OUTCOME></VARIABLE>
<DEFINITION><FOR>CO</FOR><GIVEN>HR</GIVEN><TABLE>0.9 0.1  0.2 0.8</TABLE></DEFINITION>
</NETWORK></BIF>

In a table the child runs fastest, then the last parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equifactor.base.files import label, read_bytes, split_name, write_text
from equifactor.formats.conditionals import conditionals_of, names_of
from equifactor.formats.network_builder import NetworkBuilder, as_table
from equifactor.formats.xml_elements import XmlElement, as_xml, read_xml

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.graph.factor_graph import FactorGraph


def read_xmlbif(path: PathLike) -> FactorGraph:
    """Read a Bayesian network: one factor per variable over its parents and, last, itself. Raises `FormatError`."""
    where = label(path)
    data = read_bytes(path)
    root = read_xml(data, where)
    if root.tag.lower() != "bif":
        hint = ". Pass format='xdsl' (--format xdsl) to read it." if root.tag == "smile" else ""
        raise root.error(f"expected <BIF> as the outermost element, found <{root.tag[:40]}>{hint}")
    found = root.first("network")
    if found is None:
        raise root.error("the element <BIF> has no <NETWORK>.")
    network = NetworkBuilder(where, len(data))
    for variable in found.all("variable"):
        node_type = variable.attributes.get("TYPE", "nature")
        if node_type.lower() not in ("nature", "discrete"):
            raise variable.error(f"expected type nature, found '{node_type[:40]}', which is not supported")
        states = [outcome.text for outcome in variable.all("outcome", "value")]
        network.add_node(_only(variable, "name").text, states, variable.at)
    for definition in found.all("definition", "probability"):
        _read_definition(definition, network)
    return network.graph(split_name(path)[0])


def _read_definition(definition: XmlElement, network: NetworkBuilder) -> None:
    child = _only(definition, "for").text
    parents = [given.text for given in definition.all("given")]
    shape = network.shape(child, parents, definition.at)
    table = _only(definition, "table")
    values = as_table(child, table.numbers(f"a probability of '{child}'"), shape, table.error)
    network.add_conditional(child, parents, values, definition.at)


def _only(element: XmlElement, tag: str) -> XmlElement:
    """Return the only child element with a tag; raise if there is not exactly one."""
    found = list(element.all(tag))
    if len(found) != 1:
        raise element.error(f"expected one <{tag.upper()}> in <{element.tag}>, found {len(found)}")
    return found[0]


def write_xmlbif(graph: FactorGraph, path: PathLike) -> None:
    """Write a Bayesian network; numbers read back to the same logarithms.

    Raises `ModelError` if the factors are not one conditional distribution per variable.
    """
    write_text(path, _text(graph))


def _text(graph: FactorGraph) -> Iterator[str]:
    variables, states = names_of(graph)
    names = list(map(as_xml, variables))
    conditionals = conditionals_of(graph, "an .xmlbif file")
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n<NETWORK>\n'
    yield f"<NAME>{as_xml(' '.join((graph.name or '').split()) or 'unknown')}</NAME>\n"
    for name, own in zip(names, states, strict=True):
        listed = "".join(f"  <OUTCOME>{as_xml(state)}</OUTCOME>\n" for state in own)
        yield f'<VARIABLE TYPE="nature">\n  <NAME>{name}</NAME>\n{listed}</VARIABLE>\n'
    for c in conditionals:
        given = "".join(f"  <GIVEN>{names[p]}</GIVEN>\n" for p in c.parents)
        yield f"<DEFINITION>\n  <FOR>{names[c.child]}</FOR>\n{given}  <TABLE>\n"
        yield "".join(f"    {' '.join(row)}\n" for row in c.rows())
        yield "  </TABLE>\n</DEFINITION>\n"
    yield "</NETWORK>\n</BIF>\n"
