"""Arguments of the wrong type are refused in one sentence, by errors of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import equifactor as ef

GRAPH = ef.FactorGraph({"rain": 2, "grass": 2}, [(["rain", "grass"], [[0.9, 0.1], [0.2, 0.8]])])
RESULT = ef.solve(GRAPH, "MAR", "brute")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ef.plan(x), "Expected one FactorGraph"),
        (lambda x: ef.plan(GRAPH, tries=x), "tries must be a whole number of at least 1"),
        (lambda x: ef.plan(GRAPH, seed=x), "The seed must be a whole number"),
        (lambda x: ef.plan(GRAPH, memory_limit=x), "memory_limit must be a number of GiB of at least 0"),
        (lambda x: ef.metrics.kl(RESULT.marginals, x), "Expected marginals such as result.marginals"),
        (lambda x: RESULT.joint("rain", "grass").given(x), "Expected a mapping from variable to state"),
        (lambda x: ef.solve(GRAPH, evidence=[{}], targets=x), "Targets must be a list of variables"),
        (lambda x: ef.sample(GRAPH, x), "The number of samples must be a whole number"),
        (lambda x: ef.solve(GRAPH, evidence=[{}])[x], "are numbered from 0"),
        (lambda x: ef.symmetry.graph_hash(x), "Expected one FactorGraph"),
        (lambda x: ef.symmetry.relabel(GRAPH, x), "takes a Relabelling"),
        (lambda x: ef.write_graph(x, "grid.uai"), "Expected one FactorGraph"),
        (lambda x: ef.sample(GRAPH, 2, seed=x), "The seed must be a whole number of at least 0"),
    ],
)
@pytest.mark.parametrize("odd", [np.array(3.5), "x", lambda: 1, object()], ids=["array", "text", "function", "object"])
def test_one_sentence(call: Callable[[Any], Any], text: str, odd: Any) -> None:
    with pytest.raises(ef.EquifactorError, match=text) as error:
        call(odd)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("odd", [3, None, ["grid.uai"], GRAPH], ids=["number", "None", "list", "graph"])
def test_what_is_not_a_path(odd: Any) -> None:
    for call in (ef.read_graph, lambda path: ef.write_graph(GRAPH, path)):
        with pytest.raises(ef.OptionError, match="Expected the path of a file"):
            call(odd)


def test_more_samples_than_can_be_addressed() -> None:
    with pytest.raises(ef.OptionError, match=r"cannot be addressed\. Draw fewer"):
        ef.sample(GRAPH, 10**30)
