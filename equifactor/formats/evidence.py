"""UAI evidence, the observed states of some variables: `n v1 x1 .. vn xn`; or as factors, for other formats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import PathLike, label, read_bytes, write_text
from equifactor.formats.words import Words
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.structure import numbered


def read_evidence(path: PathLike, graph: FactorGraph, *, sample: int | None = None) -> dict[int, int]:
    """Observed state of each observed variable.

    Two layouts are in use and both are read: `n v1 x1 .. vn xn`, and one or more of these after a line with
    their number, the sample count of older competitions. The number of words tells them apart: `1 2 0` is one
    observation, of variable 2; `1 2 0 1 3 0` is one sample with two. Where both fit, the first is taken.
    An empty file and a lone `0` hold no evidence.

    Args:
        path: the file, `-` for stdin.
        graph: the model, for the ranges of variables and states; the file counts both from 0, whatever their names.
        sample: which sample to take, from 0; needed only when the file holds several.
    """
    data, where = read_bytes(path), label(path)
    counts, has_sample_count = _layout(data, where)
    if sample is None and len(counts) > 1:
        raise FormatError(
            f"{where}: expected one sample of evidence, found {numbered(len(counts), 'sample')}; choose one by its "
            "number (sample=0, or --sample 0)"
        )
    chosen = sample or 0
    if not 0 <= chosen < len(counts):
        raise FormatError(f"{where}: there is no sample {chosen}; the file has {numbered(len(counts), 'sample')}")
    words = Words(data, where)
    for _ in range(has_sample_count + sum(1 + 2 * n for n in counts[:chosen])):
        words.word("a number")
    return _observations(words, graph) if words.peek() is not None else StateNumbers()


def _layout(data: bytes, where: str) -> tuple[list[int], bool]:
    """The number of observations of each sample, and whether the file begins with a sample count."""
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
        f"expected {2 * announced} numbers after this count, a variable and its state for each observation, "
        f"found {found}"
    )


def _observations(words: Words, graph: FactorGraph) -> dict[int, int]:
    evidence = StateNumbers()
    for _ in range(words.integer("the number of observed variables", 0)):
        variable = words.integer("an observed variable")
        if not 0 <= variable < graph.num_vars:
            have = numbered(graph.num_vars, "variable")
            raise words.error(f"the evidence names variable {variable}; the model has {have}")
        state = words.integer(f"the state of variable {variable}")
        if not 0 <= state < graph.card[variable]:
            raise words.error(
                f"the evidence puts variable {variable} in state {state}; "
                f"it has {numbered(int(graph.card[variable]), 'state')}"
            )
        if evidence.setdefault(variable, state) != state:
            raise words.error(
                f"the evidence puts variable {variable} in state {state}, but before in state {evidence[variable]}"
            )
    return evidence


def write_evidence(evidence: Mapping[int, int], path: PathLike) -> None:
    """Write observed states on one line, without a sample count, as the competitions since 2014 have it."""
    pairs = "".join(f" {int(variable)} {int(state)}" for variable, state in evidence.items())
    write_text(path, f"{len(evidence)}{pairs}\n")


def evidence_as_factors(graph: FactorGraph) -> FactorGraph:
    """The same distribution and ln Z with each observation as a unary factor, which is 1 there and 0 elsewhere."""
    evidence = graph.evidence
    if not evidence:
        return graph
    factors = [([i], np.arange(graph.card[i]) == x) for i, x in evidence.items()]
    return FactorGraph.trusted(graph.structure, graph.log_phi, None, graph.name).with_factors(factors)
