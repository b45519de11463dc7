"""libDAI factor graph files (`.fg`).

2                     number of factors; # starts a comment anywhere

2                     number of variables of the first factor
4 7                   their labels
2 3                   their numbers of states
5                     number of entries that follow; all other entries are zero
0 0.25                index and value; the FIRST variable runs fastest, unlike in UAI files
...
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.files import label, read_bytes, split_name, write_text
from equifactor.base.number_text import whole_number
from equifactor.factors.dense_graph import with_tables
from equifactor.formats.decimals import ENTRIES_AT_ONCE, decimals
from equifactor.formats.dense_tables import DenseTables
from equifactor.formats.evidence import evidence_as_factors
from equifactor.formats.words import Words, first_repeated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from equifactor.base.files import PathLike
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph


def read_fg(path: PathLike) -> FactorGraph:
    """Read a libDAI factor graph.

    Labels may have gaps. Variables are numbered in ascending order of their labels; if a number differs from its
    label, the labels become the names of the variables. Raises `FormatError`. Cost O(size of the file + T).
    """
    where = label(path)
    data = read_bytes(path)
    words = Words(data, where, comment="#")
    num_factors = words.integer("the number of factors", 0)
    words.require(2 * num_factors, "words or more for the factors")  # a factor has at least two counts
    tables = DenseTables(where, len(data))
    card_of_label: dict[int, int] = {}
    for a in range(num_factors):
        _read_factor(words, a, tables, card_of_label)
    words.end()
    labels = sorted(card_of_label)
    compact = labels == list(range(len(labels)))
    tables.renumber({old: new for new, old in enumerate(labels)})
    return tables.graph(
        [card_of_label[x] for x in labels],
        log=False,
        variable_names=None if compact else [str(x) for x in labels],
        name=split_name(path)[0],
    )


def _read_factor(words: Words, a: int, tables: DenseTables, card_of_label: dict[int, int]) -> None:
    arity = words.integer(f"the number of variables of factor {a}", 0)
    words.require(2 * arity + 1, f"words or more for factor {a}")
    scope: list[int] = []
    for _ in range(arity):
        scope.append(words.integer(f"a variable label of factor {a}", 0))
    if (twice := first_repeated(scope)) is not None:
        raise words.error(f"factor {a} names variable {twice} more than once. Its variables must differ.")
    shape: list[int] = []
    for x in scope:
        shape.append(words.integer(f"the number of states of variable {x}", 1))
        if card_of_label.setdefault(x, shape[-1]) != shape[-1]:
            raise words.error(
                f"variable {x} has {shape[-1]} states here, but {card_of_label[x]} states in an earlier factor."
            )
    unset = -1.0
    table = tables.add(words, scope, shape, unset)
    num_listed = words.integer(f"the number of nonzero entries of factor {a}", 0, len(table))
    words.require(2 * num_listed, f"words for the entries of factor {a}")
    for _ in range(num_listed):
        index = words.integer(f"the index of an entry of factor {a}", 0, len(table) - 1)
        if table[index] != unset:
            raise words.error(f"factor {a} lists entry {index} twice. List each entry once.")
        table[index] = words.number(f"the value of entry {index} of factor {a}", low=0)
    table[table == unset] = 0.0
    if arity > 1:  # reorder from the first variable fastest to the last variable fastest
        table[:] = table.reshape(_axes(shape), order="F").ravel()


def write_fg(graph: FactorGraph, path: PathLike) -> None:
    """Write a libDAI factor graph; potentials read back to the same logarithms if a float has that logarithm.

    The format has no variables outside factors. A variable without a factor gets a factor of ones. An observed variable
    gets a factor that is zero in all other states. Neither changes any answer. Variable names are written if they can
    be labels, that is, whole numbers in ascending order. Structured factors become dense tables. Raises `ModelError` if
    a dense table would have more than 2^20 entries.
    """
    graph = with_tables(evidence_as_factors(graph), "an .fg file")
    absent = np.setdiff1d(np.arange(graph.num_vars), graph.structure.scope_vars)
    if len(absent):
        graph = graph.with_factors([([i], np.ones(graph.card[i])) for i in absent.tolist()])
    write_text(path, _text(graph))


def _text(graph: FactorGraph) -> Iterator[str]:
    structure = graph.structure
    names = _labels(structure.variable_names) or [str(i) for i in range(graph.num_vars)]
    tables = [_first_fastest(graph, a) for a in range(graph.num_factors)]
    log_phi = np.concatenate(tables) if tables else np.zeros(0)
    texts = decimals(log_phi[log_phi != -np.inf])
    yield f"{graph.num_factors}\n"
    for a, table in enumerate(tables):
        scope = structure.scope(a).tolist()
        listed = np.flatnonzero(table != -np.inf)
        yield f"\n{len(scope)}\n{' '.join(names[i] for i in scope)}\n"
        yield f"{' '.join(map(str, structure.shape(a)))}\n{len(listed)}\n"
        for start in range(0, len(listed), ENTRIES_AT_ONCE):
            yield "".join([f"{index} {next(texts)}\n" for index in listed[start : start + ENTRIES_AT_ONCE].tolist()])


def _first_fastest(graph: FactorGraph, factor: int) -> FloatArray:
    """Return the flat log table of one factor with the first variable of its scope fastest."""
    start, stop = graph.structure.table_ptr[factor : factor + 2]
    return graph.log_phi[start:stop].reshape(_axes(graph.structure.shape(factor))).ravel(order="F")


def _axes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of all axes with more than one state. A table that fits into memory has few enough for numpy."""
    return [d for d in shape if d > 1]


def _labels(names: tuple[str, ...] | None) -> list[str] | None:
    """Return the names if they can be labels that read back to the same names and order, else None."""
    if names is None or not all(n.isdigit() and str(whole_number(n)) == n for n in names):
        return None
    return list(names) if all(int(a) < int(b) for a, b in pairwise(names)) else None
