"""What zeros and evidence leave of a graph, and how answers are put back."""

import numpy as np

from equifactor import FactorGraph
from equifactor.generators import random_graph
from equifactor.solvers.elimination.reduction import reduce_graph, reduce_structure
from equifactor.testing import contract_graphs


def test_nothing_is_left_out_without_zeros_or_evidence():
    graph = contract_graphs()["loop"]
    left = reduce_graph(graph)
    assert left.entries is None
    assert left.states is None
    assert np.array_equal(left.variables, np.arange(graph.num_vars))


def test_implications_are_followed_along_a_chain():
    copy = np.eye(3)
    chain = [([i, i + 1], copy) for i in range(5)]
    left = reduce_graph(FactorGraph([3] * 6, [([0], [0.0, 0.5, 0.5]), *chain]))
    assert left.card.tolist() == [2] * 6
    assert left.states is not None
    assert left.states.tolist() == [1, 2] * 6
    decided = reduce_graph(FactorGraph([3] * 6, [([5], [0.0, 0.0, 1.0]), *chain]))
    assert decided.fixed.tolist() == [2] * 6
    assert len(decided.variables) == 0


def test_a_contradiction_is_found():
    differ = 1.0 - np.eye(2)
    graph = FactorGraph([2, 2], [([0, 1], differ), ([0], [1.0, 0.0]), ([1], [1.0, 0.0])])
    assert reduce_graph(graph).impossible


def test_tables_keep_the_entries_of_live_states_in_order():
    table = np.arange(1.0, 13.0).reshape(3, 4)
    graph = FactorGraph([3, 4], [([0, 1], table), ([1], [1.0, 0.0, 1.0, 0.0])])
    left = reduce_graph(graph)
    assert left.card.tolist() == [3, 2]
    np.testing.assert_allclose(np.exp(left.log_phi(graph)[:6]), table[:, [0, 2]].ravel())


def test_answers_come_back_over_all_variables_and_states():
    graph = FactorGraph([2, 3, 2], [([0, 1], np.ones((2, 3))), ([1], [1.0, 0.0, 1.0])]).condition({2: 1})
    left = reduce_graph(graph)
    marginals = left.marginals(graph, np.array([0.25, 0.75, 0.4, 0.6]))
    assert [m.tolist() for m in marginals] == [[0.25, 0.75], [0.4, 0.0, 0.6], [0.0, 1.0]]
    assert left.assignment(graph, np.array([1, 1])).tolist() == [1, 2, 1]


def test_no_state_of_positive_probability_is_lost():
    for seed in range(40):
        graph = random_graph(7, 10, arity=(1, 3), card=(2, 4), zeros=0.5, seed=seed)
        left = reduce_graph(graph)
        shape = tuple(graph.card)
        states = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
        possible = states[np.isfinite(graph.log_score(states))]
        if left.impossible:
            assert len(possible) == 0
            continue
        p = left.marginals(graph, np.ones(int(left.card.sum())))
        assert all(p[i][x] > 0 for row in possible for i, x in enumerate(row.tolist()))


def test_a_structure_alone_relies_on_no_zero():
    graph = contract_graphs()["hard zeros"]
    left = reduce_structure(graph.structure, graph.observed)
    assert np.array_equal(left.card, graph.card)
