"""Warnings about rows that do not sum to 1: on networks, and never on Markov random fields."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.formats.uai import parse_uai
from equifactor.generators import ising_grid, random_graph

STATES = {"rain": ["no", "yes"], "grass": ["dry", "wet"]}
RAIN = (["rain"], [0.8, 0.2])
GRASS = (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]])


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([RAIN, (["rain", "grass"], [[0.9, 0.1], [0.05, 0.9]])], "the probabilities of grass (rain = yes) sum to 0.95"),
        ([RAIN, (["grass", "rain"], [[0.9, 0.05], [0.1, 0.9]])], "the probabilities of grass (rain = yes) sum to 0.95"),
        ([(["rain"], [0.8, 0.1]), GRASS], "the probabilities of rain sum to 0.9, not to 1. ln Z of this network"),
    ],
)
def test_a_network_with_a_wrong_row_warns_once(
    factors: list[Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "equifactor"):
        graph = FactorGraph(STATES, factors)
        graph.condition({"grass": "wet"})
        graph.with_potentials(graph.log_phi, log=True)
    assert [record.getMessage()[: len(message)] for record in caplog.records] == [message]


@pytest.mark.parametrize(
    ("variables", "factors"),
    [
        (STATES, [RAIN, GRASS]),
        (STATES, [RAIN, (["rain", "grass"], [[0.9, 0.1], [0.053, 0.95]])]),  # rounded, as published tables are
        (STATES, [(["rain"], [1, 3]), GRASS]),  # an entry above 1
        (STATES, [(["rain"], [0.5, 0.1]), (["rain", "grass"], [[0.2, 0.1], [0.1, 0.2]])]),  # no row sums to 1
        (STATES, [RAIN, GRASS, (["grass"], [0.5, 0.2])]),  # weights on a variable
        (STATES, [(["rain"], [0.5, 0.1]), (["grass"], [0.5, 0.5])]),  # not a conditional distribution
        ([2, 2], [([0, 1], [[0.5, 0.1], [0.3, 0.1]]), ([0, 1], [[0.5, 0.5], [0.5, 0.5]])]),  # a cycle
        ([], []),
    ],
)
def test_other_graphs_do_not_warn(variables: Any, factors: Any, caplog: pytest.LogCaptureFixture) -> None:
    FactorGraph(variables, factors)
    FactorGraph(variables, [(scope, np.log(table)) for scope, table in factors], log=True)
    assert not caplog.records


def test_markov_random_fields_do_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(1)
    for seed in range(50):
        for g in (random_graph(5, 5, arity=(1, 2), seed=seed), ising_grid(2, 3, seed=seed)):
            FactorGraph(g.card, list(g.linear_factors()))
        chain = [([0], random.random(2))] + [([i, i + 1], random.random((2, 2))) for i in range(4)]
        FactorGraph([2] * 5, chain)
    assert not caplog.records


@pytest.mark.parametrize("small", [None, 0])
def test_a_file_that_says_bayes(small: int | None, caplog: pytest.LogCaptureFixture) -> None:
    text = "{}\n2\n2 3\n2\n1 0\n2 0 1\n2 0.4 0.6\n6 0.2 0.3 0.5 0.1 {} 0.3\n"
    for kind, p in (("MARKOV", 0.5), ("BAYES", 0.6), ("BAYES", 0.603)):
        parse_uai(text.format(kind, p).encode(), "a.uai", small=small)
    assert not caplog.records
    parse_uai(text.format("BAYES", 0.5).encode(), "a.uai", small=small)
    assert "a.uai: the probabilities of variable 1 (row 1 of factor 1) sum to 0.9, not to 1." in caplog.text
    parse_uai(b"BAYES\n1\n2\n2\n1 0\n0\n2 0.5 0.5\n1 1\n", "b.uai", small=small)
    assert len(caplog.records) == 1
