"""Readers and writers, one module per format. `read_graph` and `write_graph` choose by the suffix of the file.

Every failure is a `FormatError` that names the file, the line, what was expected and what was found.

uai.py, fg.py, cnf.py, wcsp.py  model formats; cnf_weights.py, cnf_writer.py and wcsp_writer.py belong to them
cfn.py                          cost function networks; cfn_parser.py and cfn_writer.py belong to it
bif.py, xmlbif.py, net.py, xdsl.py    Bayesian networks; xdsl_writer.py belongs to xdsl.py
network_builder.py, conditionals.py   reading and writing that the Bayesian networks share
tokens.py, xml_elements.py      text with brackets and quotes, and XML, with line numbers for errors
csv_columns.py                  columns of observed states
evidence.py, results.py         evidence and answers in the formats of the UAI competitions
words.py                        the words of a small text, with line numbers for errors
numbers.py, number_kernels.py   the numbers of a large text, read in bulk
dense_tables.py                 tables of formats that list only some entries
clause_rows.py                  clauses as flat arrays of literals, and as factors
decimals.py                     potentials as text that reads back to the same logarithm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import FormatError, ModelError, OptionError
from equifactor.base.files import PathLike, check_writable, split_name
from equifactor.base.options import choices
from equifactor.formats.evidence import read_evidence, write_evidence

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import FactorGraph

__all__ = ["FORMATS", "check_target", "read_evidence", "read_graph", "write_evidence", "write_graph"]


@dataclass(frozen=True)
class Format:
    """A model format; its module is imported on first use."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    options: tuple[tuple[str, Any], ...] = ()

    def _function(self, verb: str) -> Callable[..., Any]:
        return getattr(import_module(f"equifactor.formats.{self.module}"), f"{verb}_{self.module}")

    def read(self, path: PathLike) -> FactorGraph:
        """Read the graph in a file of this format."""
        return self._function("read")(path, **dict(self.options))

    def write(self, graph: FactorGraph, path: PathLike) -> None:
        """Write a graph to a file of this format."""
        self._function("write")(graph, path, **dict(self.options))


FORMATS = {
    f.name: f
    for f in (
        Format("uai", (".uai",), "uai", (("log", False),)),
        Format("lg", (".lg",), "uai", (("log", True),)),
        Format("fg", (".fg",), "fg"),
        Format("cnf", (".cnf", ".wcnf"), "cnf"),
        Format("wcsp", (".wcsp",), "wcsp"),
        Format("bif", (".bif",), "bif"),
        Format("xmlbif", (".xmlbif", ".xml", ".bifxml"), "xmlbif"),
        Format("net", (".net",), "net"),
        Format("xdsl", (".xdsl",), "xdsl"),
        Format("cfn", (".cfn",), "cfn"),
    )
}


# What to do with a file that is not a model, by its suffix.
_OTHERS = {
    **dict.fromkeys(
        (".dem", ".stim", ".alist"), "this is the file of a code: use `equifactor decode` or `equifactor view`"
    ),
    ".npz": "this is the file of a code: use `equifactor decode`",
    ".safetensors": "this is a trained network: use `equifactor model`",
    ".evid": "this is evidence: pass it with --evidence, beside a model",
    **dict.fromkeys((".csv", ".tsv"), "this is a table of data: use `equifactor fit`, or --evidence beside a model"),
    **dict.fromkeys((".01", ".b8", ".dets"), "this is a file of shots: use `equifactor decode` with its code"),
    ".jsonl": "this is a log: use `equifactor view`",
}


@checks_types("format")
def read_graph(path: PathLike, *, format: str | None = None) -> FactorGraph:
    """Read a model file. `-` is stdin; `.gz` and `.xz` files are decompressed.

    Args:
        path: the file to read.
        format: a name in `FORMATS`. None chooses by the suffix; a file without a known suffix is read as UAI if it
            begins with MARKOV or BAYES.
    """
    chosen = _format_of(path, format)
    if chosen is None:
        from equifactor.formats.uai import read_unknown

        unknown = (
            "neither the suffix nor the first word tells the format. Pass format=NAME (--format NAME, in convert "
            f"--from NAME) with one of: {_known()}"
        )
        return read_unknown(path, _OTHERS.get(split_name(path)[1], unknown))
    return chosen.read(path)


@checks_types("format")
def write_graph(graph: FactorGraph, path: PathLike, *, format: str | None = None) -> None:
    """Write a model file, completely or not at all. `-` is stdout.

    A graph is written to stdout as UAI unless `format` names another format. Raises `ModelError` if the format cannot
    represent the graph.
    """
    from equifactor.graph.factor_graph import as_graph

    chosen = _format_to_write(path, format)
    try:
        chosen.write(as_graph(graph), path)
    except ModelError as error:
        where = "<stdout>" if str(path) == "-" else path
        raise ModelError(f"{where}: {error}", factor=error.factor, variable=error.variable) from None


def check_target(path: PathLike, *, format: str | None = None) -> None:
    """Raise `FormatError` or `OptionError` if `write_graph` could not write any graph to this path.

    Call this function before a long computation, so that its answer is not lost.
    """
    _format_to_write(path, format)
    check_writable(path)


def _format_to_write(path: PathLike, name: str | None) -> Format:
    chosen = _format_of(path, name or ("uai" if str(path) == "-" else None))
    if chosen is None:
        raise FormatError(
            f"{path}: the suffix does not belong to a known format. Use another suffix, or pass format=NAME "
            f"(--to NAME) with one of: {_known()}"
        )
    return chosen


def _format_of(path: PathLike, name: str | None) -> Format | None:
    if name is not None:
        key = name.lower().lstrip(".")
        if key not in FORMATS:
            raise OptionError(f"There is no format {name!r}; {choices(name, list(FORMATS))}.")
        return FORMATS[key]
    _, suffix = split_name(path)
    return next((f for f in FORMATS.values() if suffix in f.suffixes), None)


def _known() -> str:
    return ", ".join(f"{f.name} ({' '.join(f.suffixes)})" for f in FORMATS.values())
