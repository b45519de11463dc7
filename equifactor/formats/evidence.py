"""UAI evidence files, which hold the observed states of some variables: `n v1 x1 .. vn xn`; and rows of tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import FormatError
from equifactor.base.files import PathLike, label, read_bytes, split_name, write_text
from equifactor.formats.words import Words
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.structure import numbered


@checks_types("path", "graph", "sample")
def read_evidence(path: PathLike, graph: FactorGraph, *, sample: int | None = None) -> dict[int, int]:
    """Read the observed states from a file.

    Two layouts are in use, and both are read. The first is `n v1 x1 .. vn xn`. The second, of older competitions, has
    the number of samples on its first line, then one or more samples in the first layout. The number of words tells
    the layouts apart: `1 2 0` is one observation of variable 2; `1 2 0 1 3 0` is one sample with two observations. If
    both layouts fit, the file is read in the first layout. An empty file and a single `0` mean that nothing is
    observed.

    A `.csv` or `.tsv` file is a table with a column per variable and a row per sample, by the names of variables and
    states. An empty cell is not observed.

    Args:
        path: the file, or `-` for stdin.
        graph: the model, for the ranges of variables and states. UAI files number both from 0, whatever their names.
        sample: the number of the sample to read, from 0; needed only if the file holds several samples.
    """
    where = label(path)
    if split_name(path)[1] in (".csv", ".tsv"):
        from equifactor.formats.csv_columns import read_csv
        from equifactor.graph.reading.state_rows import read_columns

        rows = read_columns(graph.structure, read_csv(path))
        row = rows[_chosen(sample, len(rows), where)].tolist()
        return StateNumbers((i, x) for i, x in enumerate(row) if x >= 0)
    data = read_bytes(path)
    counts, has_sample_count = _layout(data, where)
    chosen = _chosen(sample, len(counts), where)
    words = Words(data, where)
    for _ in range(has_sample_count + sum(1 + 2 * n for n in counts[:chosen])):
        words.word("a number")
    return _observations(words, graph) if words.peek() is not None else StateNumbers()


def _chosen(sample: int | None, count: int, where: str) -> int:
    """Return the number of the sample to read; raise `FormatError` if it is not given or not in the file."""
    if sample is None and count > 1:
        raise FormatError(
            f"{where}: expected one sample of evidence, found {numbered(count, 'sample')}. Choose one by its number: "
            "sample=0 (--sample 0)."
        )
    chosen = sample or 0
    if not 0 <= chosen < count:
        raise FormatError(f"{where}: there is no sample {chosen}; the file has {numbered(count, 'sample')}.")
    return chosen


def _layout(data: bytes, where: str) -> tuple[list[int], bool]:
    """Return the number of observations of each sample, and whether the file begins with a sample count."""
    tokens = data.split()
    if not tokens:
        return [0], False
    first = Words(data, where).integer("the number of observed variables", 0)
    if len(tokens) == 1 + 2 * first:
        return [first], False
    counts: list[int] = []
    at = 1
    while at < len(tokens) and len(counts) < first and tokens[at].isdigit() and len(tokens[at]) < 19:
        counts.append(int(tokens[at]))
        at += 1 + 2 * counts[-1]
    if at == len(tokens) and len(counts) == first:
        return counts, True
    words = Words(data, where)
    announced = words.integer("the number of observed variables", 0)
    found = len(tokens) - 1
    alone = data.lstrip().split(b"\n", 1)[0].split() == [b"1"]
    if found and announced == 1 and (alone or found % 2):  # most likely a sample count
        announced, found = words.integer("the number of observed variables", 0), found - 1
    raise words.error(
        f"expected {2 * announced} numbers after this count (a variable and its state for each observation), "
        f"found {found} numbers"
    )


def _observations(words: Words, graph: FactorGraph) -> dict[int, int]:
    evidence = StateNumbers()
    for _ in range(words.integer("the number of observed variables", 0)):
        variable = words.integer("an observed variable")
        if not 0 <= variable < graph.num_vars:
            have = numbered(graph.num_vars, "variable")
            raise words.error(f"the evidence names variable {variable}, but the model has {have}.")
        state = words.integer(f"the state of variable {variable}")
        if not 0 <= state < graph.card[variable]:
            raise words.error(
                f"the evidence puts variable {variable} in state {state}, but the variable has "
                f"{numbered(int(graph.card[variable]), 'state')}."
            )
        if evidence.setdefault(variable, state) != state:
            raise words.error(
                f"the evidence puts variable {variable} in state {state}, but an earlier observation puts it in state "
                f"{evidence[variable]}."
            )
    return evidence


def write_evidence(evidence: Mapping[int, int], path: PathLike) -> None:
    """Write observed states on one line without a sample count, as in the competitions since 2014."""
    pairs = "".join(f" {int(variable)} {int(state)}" for variable, state in evidence.items())
    write_text(path, f"{len(evidence)}{pairs}\n")


def evidence_as_factors(graph: FactorGraph) -> FactorGraph:
    """Return the same distribution and ln Z with a unary factor per observation: 1 in the observed state, else 0."""
    evidence = graph.evidence
    if not evidence:
        return graph
    factors = [([i], np.arange(graph.card[i]) == x) for i, x in evidence.items()]
    return FactorGraph.trusted(graph.structure, graph.log_phi, None, graph.name).with_factors(factors)
