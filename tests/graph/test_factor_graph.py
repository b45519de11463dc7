from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import ModelError
from equifactor.generators import random_graph
from equifactor.graph import FactorGraph
from equifactor.testing import assert_same_graph, contract_graphs


def slow_log_score(graph: FactorGraph, assignment: list[int]) -> float:
    """Return the log score by its definition, one entry at a time."""
    for i, state in graph.evidence.items():
        if assignment[i] != state:
            return -math.inf
    total = 0.0
    for a in range(graph.num_factors):
        table = graph.log_table(a)
        index = tuple(assignment[i] for i in graph.structure.scope(a))
        total += float(table[index])
    return total


def assignments(graph: FactorGraph) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, graph.card.tolist()))), int).reshape(-1, graph.num_vars)


@pytest.fixture
def rain() -> FactorGraph:
    return FactorGraph(
        {"rain": 2, "grass": ["dry", "wet"], "day": 3},
        [
            (["rain"], [0.8, 0.2]),
            (["grass", "rain"], [[0.9, 0.05], [0.1, 0.95]]),
            (["day", "grass"], np.arange(6.0)),
        ],
        name="lawn",
    )


class TestConstruction:
    def test_tables_nested_or_flat(self) -> None:
        nested = FactorGraph([2, 3], [([1, 0], [[1, 2], [3, 4], [5, 6]])])
        flat = FactorGraph([2, 3], [([1, 0], [1, 2, 3, 4, 5, 6])])
        assert nested == flat
        np.testing.assert_allclose(np.exp(nested.log_table(0)), [[1, 2], [3, 4], [5, 6]])

    def test_log_tables_and_true_zeros(self) -> None:
        linear = FactorGraph([2], [([0], [0.0, 1.0])])
        logs = FactorGraph([2], [([0], [-np.inf, 0.0])], log=True)
        assert linear == logs
        assert np.isneginf(linear.log_phi[0])

    def test_denormal_potentials_are_not_zeros(self) -> None:
        graph = FactorGraph([2], [([0], [5e-324, 1.0])])
        assert np.isfinite(graph.log_phi).all()

    def test_arity_zero(self) -> None:
        graph = FactorGraph([2], [([], 3.0), ((), [2.0])])
        assert graph.log_score([0]) == pytest.approx(math.log(6.0))
        assert graph.log_table(0).shape == ()

    def test_variable_with_names_by_name_or_number(self, rain: FactorGraph) -> None:
        by_number = FactorGraph(
            {"rain": 2, "grass": ["dry", "wet"], "day": 3},
            [([0], [0.8, 0.2]), ([1, 0], [[0.9, 0.05], [0.1, 0.95]]), ([2, 1], np.arange(6.0))],
        )
        assert rain == by_number

    def test_no_variables(self) -> None:
        graph = FactorGraph([], [([], 2.0)])
        assert graph.log_score([]) == pytest.approx(math.log(2.0))
        assert graph.num_joint_states == 1

    def test_factors_may_come_from_an_iterator(self, rain: FactorGraph) -> None:
        again = FactorGraph(rain.card, rain.linear_factors())
        np.testing.assert_allclose(np.exp(again.log_phi), np.exp(rain.log_phi))

    def test_numpy_cardinalities_and_scopes(self) -> None:
        graph = FactorGraph(np.array([2, 2], np.int32), [(np.array([1, 0]), np.ones((2, 2), np.float32))])
        assert graph.card.dtype == np.int64
        assert graph.log_phi.dtype == np.float64

    def test_callers_arrays_stay_their_own(self) -> None:
        table = np.ones(2)
        graph = FactorGraph([2], [([0], table)])
        table[0] = 5.0
        assert graph.log_score([0]) == 0.0

    @pytest.mark.parametrize(
        ("variables", "factors", "fragment"),
        [
            ([2], [([0], [1.0, -2.0])], "factor 0, entry 1 is -2. A potential must be a number >= 0"),
            ([2], [([], 1.0), ([0], [np.nan, 1.0])], "factor 1, entry 0 is nan"),
            ([2], [([0], [np.inf, 1.0])], "factor 0, entry 0 is inf"),
            ([2], [([0], [1.0, 2.0, 3.0])], "factor 0 needs a table of shape (2,), found shape (3,)"),
            ([2, 3], [([0, 1], np.ones((3, 2)))], "needs a table of shape (2, 3), found shape (3, 2)"),
            ([2, 2], [([0, 1], [[1.0, 2.0], [3.0]])], "The table of factor 0 is not an array of numbers"),
            ([2], [([0], ["a", "b"])], "The table of factor 0 is not an array of numbers"),
            ([2], [([1], [1.0, 2.0])], "factor 0: The model has no variable 1. It has 1 variable (0)"),
            ([2], [([-1], [1.0, 2.0])], "The model has no variable -1"),
            ([2], [(["x"], [1.0, 2.0])], "The model has no variable 'x'; the variables have no names"),
            ({"a": 2, "b": 2}, [(["x"], [1.0, 2.0])], "the names are a, b"),
            ([2], [([0.0], [1.0, 2.0])], "A variable must be given by number or name, found 0.0"),
            ([2], [([True], [1.0, 2.0])], "A variable must be given by number or name, found True"),
            ([2, 2], [([0, 0], np.ones((2, 2)))], "factor 0 names variable 0 twice"),
            ([0], [], "variable 0 has 0 states"),
            ({"a": []}, [], "variable a has 0 states"),
            ({"a": ["x", "x"]}, [], "Every state needs a name of its own"),
        ],
    )
    def test_refuses(self, variables: object, factors: list, fragment: str) -> None:
        with pytest.raises(ModelError) as error:
            FactorGraph(variables, factors)  # type: ignore[arg-type]
        assert fragment in str(error.value)

    def test_refuses_bad_logs(self) -> None:
        with pytest.raises(ModelError, match="A log potential must be a number below infinity"):
            FactorGraph([2], [([0], [0.0, np.inf])], log=True)
        with pytest.raises(ModelError, match="entry 0 is nan"):
            FactorGraph([2], [([0], [np.nan, 0.0])], log=True)


class TestImmutable:
    def test_no_attribute_can_be_set_or_deleted(self, rain: FactorGraph) -> None:
        with pytest.raises(AttributeError, match="immutable"):
            rain.name = "other"
        with pytest.raises(AttributeError, match="immutable"):
            del rain.log_phi

    def test_arrays_are_read_only(self, rain: FactorGraph) -> None:
        observed = rain.condition({"rain": 0})
        assert observed.observed is not None
        for array in (rain.log_phi, rain.card, rain.log_table(1), observed.observed, observed.log_phi):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1

    def test_not_hashable(self, rain: FactorGraph) -> None:
        with pytest.raises(TypeError, match="unhashable"):
            hash(rain)

    @pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda g: pickle.loads(pickle.dumps(g))])
    def test_copies_are_equal_and_frozen(self, rain: FactorGraph, copied: object) -> None:
        graph = rain.condition({"rain": 1})
        again = copied(graph)  # type: ignore[operator]
        assert_same_graph(graph, again)
        assert again.name == "lawn"
        assert not again.log_phi.flags.writeable
        assert not again.structure.card.flags.writeable
        assert not again.observed.flags.writeable

    def test_pickled_batch_still_shares_its_structure(self, rain: FactorGraph) -> None:
        batch = [rain, rain.with_potentials(np.ones(12))]
        first, second = pickle.loads(pickle.dumps(batch))
        assert first.structure is second.structure


class TestNames:
    def test_variable_and_state(self, rain: FactorGraph) -> None:
        assert rain.variable("grass") == 1
        assert rain.variable(2) == 2
        assert rain.state("grass", "wet") == 1
        assert rain.state(1, 1) == 1

    @pytest.mark.parametrize(
        ("variable", "state", "fragment"),
        [
            ("grass", "damp", "variable grass has no state 'damp'; its states are dry, wet"),
            ("rain", "yes", "variable rain has no state 'yes'; its states have no names"),
            ("day", 3, "state 3 of variable day is out of range. The variable has 3 states (0-2)"),
            ("day", -1, "state -1 of variable day is out of range"),
            ("day", 1.5, "must be a whole number or a name, found 1.5"),
            ("sun", 0, "The model has no variable 'sun'; the names are rain, grass, day"),
        ],
    )
    def test_unknown(self, rain: FactorGraph, variable: str, state: object, fragment: str) -> None:
        with pytest.raises(ModelError) as error:
            rain.state(variable, state)  # type: ignore[arg-type]
        assert fragment in str(error.value)

    def test_long_lists_of_names_are_cut(self) -> None:
        graph = FactorGraph({f"v{i}": 2 for i in range(20)})
        with pytest.raises(ModelError, match=r"v7, \.\.\.\.$"):
            graph.variable("w")


class TestScore:
    @pytest.mark.parametrize("name", contract_graphs())
    def test_many_one_and_the_definition_agree(self, name: str) -> None:
        graph = contract_graphs()[name]
        x = assignments(graph)
        if len(x) > 200:
            x = np.random.default_rng(0).choice(x, 200, replace=False)
        scores = graph.log_score(x)
        assert scores.shape == (len(x),)
        expected = [slow_log_score(graph, row) for row in x.tolist()]
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        assert [graph.log_score(row) for row in x[:5]] == scores[:5].tolist()

    @given(seed=st.integers(0, 10_000), evidence=st.booleans())
    def test_random_graphs(self, seed: int, evidence: bool) -> None:
        graph = random_graph(5, 7, arity=(0, 4), card=(1, 3), zeros=0.2, seed=seed)
        if evidence:
            graph = graph.condition({seed % 5: 0})
        x = assignments(graph)
        expected = [slow_log_score(graph, row) for row in x.tolist()]
        np.testing.assert_allclose(graph.log_score(x), expected, rtol=1e-12, atol=1e-12)

    def test_blocks_do_not_show(self, monkeypatch: pytest.MonkeyPatch, rain: FactorGraph) -> None:
        x = assignments(rain)
        whole = rain.log_score(x)
        monkeypatch.setattr("equifactor.graph.scores._SCORE_BLOCK", 1)
        np.testing.assert_array_equal(rain.log_score(x), whole)

    def test_mapping_by_name_with_evidence(self, rain: FactorGraph) -> None:
        full = rain.log_score({"rain": 1, "grass": "wet", "day": 2})
        assert full == pytest.approx(math.log(0.2 * 0.95 * 5.0))
        given_rain = rain.condition({"rain": 1})
        assert given_rain.log_score({"grass": "wet", "day": 2}) == pytest.approx(full)
        assert given_rain.log_score({"rain": 0, "grass": "wet", "day": 2}) == -math.inf

    def test_zero_probability(self, rain: FactorGraph) -> None:
        assert rain.log_score([0, 0, 0]) == -math.inf  # day 0 with dry grass has weight 0

    def test_no_assignments(self, rain: FactorGraph) -> None:
        assert rain.log_score(np.zeros((0, 3), int)).shape == (0,)

    @pytest.mark.parametrize(
        ("assignment", "fragment"),
        [
            ([0, 1], "one state for each of the 3 variables, found shape (2,)"),
            (np.zeros((1, 1, 3), int), "found shape (1, 1, 3)"),
            (0, "found shape ()"),
            ([0, 1, 3], "of variable day is out of range. The variable has 3 states (0-2)"),
            ([[0, 1, 2], [0, -1, 0]], "of variable grass is out of range. The variable has 2 states (0-1)"),
            ([0.0, 1.0, 2.0], "An assignment must hold whole numbers"),
            ({"rain": 0}, "The assignment gives no state to variable grass"),
        ],
    )
    def test_refuses(self, rain: FactorGraph, assignment: object, fragment: str) -> None:
        with pytest.raises(ModelError) as error:
            rain.log_score(assignment)  # type: ignore[call-overload]
        assert fragment in str(error.value)


class TestCondition:
    def test_hard_keeps_scores_of_the_original(self, rain: FactorGraph) -> None:
        observed = rain.condition({"grass": "wet"})
        x = assignments(rain)
        expected = np.where(x[:, 1] == 1, rain.log_score(x), -np.inf)
        np.testing.assert_array_equal(observed.log_score(x), expected)
        assert observed.evidence == {1: 1}
        assert observed.free_vars.tolist() == [0, 2]
        assert observed.num_vars == 3
        assert observed.num_joint_states == 6
        assert [observed.structure.scope(a).tolist() for a in range(3)] == [[0], [0], [2]]
        assert observed.name == "lawn"

    def test_the_original_is_unchanged(self, rain: FactorGraph) -> None:
        before = copy.deepcopy(rain)
        rain.condition({"grass": "wet", "rain": [0.5, 0.5]})
        assert_same_graph(rain, before)

    def test_nothing_to_condition_on(self, rain: FactorGraph) -> None:
        assert rain.condition({}) is rain

    def test_soft_is_a_unary_factor(self, rain: FactorGraph) -> None:
        soft = rain.condition({"day": [0.1, 0.2, 0.7]})
        assert soft.evidence == {}
        assert soft.num_factors == 4
        assert_same_graph(soft, rain.with_factor(["day"], [0.1, 0.2, 0.7]))

    def test_hard_and_soft_together(self, rain: FactorGraph) -> None:
        together = rain.condition({"day": [0.1, 0.2, 0.7], "rain": 1})
        assert_same_graph(together, rain.condition({"day": [0.1, 0.2, 0.7]}).condition({"rain": 1}))

    @pytest.mark.parametrize("order", list(itertools.permutations([("rain", 1), ("grass", 0), ("day", 2)])))
    def test_one_after_the_other_is_all_at_once(self, rain: FactorGraph, order: tuple) -> None:
        step = rain
        for variable, state in order:
            step = step.condition({variable: state})
        assert_same_graph(step, rain.condition({"rain": 1, "grass": 0, "day": 2}))

    def test_all_variables(self, rain: FactorGraph) -> None:
        full = rain.condition({0: 1, 1: 1, 2: 2})
        assert full.num_joint_states == 1
        assert full.structure.num_edges == 0
        assert full.log_phi.sum() == pytest.approx(rain.log_score([1, 1, 2]))

    def test_the_same_evidence_twice(self, rain: FactorGraph) -> None:
        once = rain.condition({"rain": 1})
        assert_same_graph(once.condition({"rain": 1}), once)

    def test_soft_on_an_observed_variable_scales(self, rain: FactorGraph) -> None:
        once = rain.condition({"rain": 1})
        scaled = once.condition({"rain": [0.25, 0.5]})
        assert scaled.log_score([1, 1, 2]) == pytest.approx(once.log_score([1, 1, 2]) + math.log(0.5))

    def test_zero_probability_evidence_is_allowed(self, rain: FactorGraph) -> None:
        impossible = rain.condition({"grass": "dry", "day": 0})
        assert np.isneginf(impossible.log_score(assignments(rain))).all()

    @pytest.mark.parametrize(
        ("evidence", "fragment"),
        [
            ({"rain": 2}, "state 2 of variable rain is out of range"),
            ({"grass": "damp"}, "has no state 'damp'"),
            ({"sun": 1}, "The model has no variable 'sun'"),
            ({3: 0}, "The model has no variable 3"),
            ({"rain": 0, 0: 1}, "evidence names variable rain twice"),
            ({"rain": [1.0]}, "one weight >= 0 for each of its 2 states, found [1.0]"),
            ({"rain": [0.5, -0.5]}, "one weight >= 0 for each of its 2 states"),
            ({"rain": [0.5, np.nan]}, "one weight >= 0 for each of its 2 states"),
            ({"rain": 0.5}, "must be a whole number or a name, found 0.5"),
            ({"rain": None}, "must be a state, and None is not a state. Leave out"),
            ({"rain": ["a", "b"]}, "must be a state or one weight"),
        ],
    )
    def test_refuses(self, rain: FactorGraph, evidence: dict, fragment: str) -> None:
        with pytest.raises(ModelError) as error:
            rain.condition(evidence)
        assert fragment in str(error.value)

    def test_refuses_contradiction(self, rain: FactorGraph) -> None:
        once = rain.condition({"rain": 1})
        with pytest.raises(ModelError, match="variable rain is already observed in state 1, not 0"):
            once.condition({"rain": 0})
        with pytest.raises(ModelError, match="for each of its 2 states"):
            once.condition({"rain": [0.5, 0.5, 0.5]})


class TestNewGraphs:
    def test_with_factor(self, rain: FactorGraph) -> None:
        more = rain.with_factor(["day", "rain"], np.arange(1.0, 7.0))
        assert more.num_factors == 4
        extra = np.log(np.arange(1.0, 7.0).reshape(3, 2))
        x = assignments(rain)
        np.testing.assert_allclose(more.log_score(x), rain.log_score(x) + extra[x[:, 2], x[:, 0]])
        assert more.structure.variable_names == rain.structure.variable_names
        assert_same_graph(rain.with_factor(["day"], [0.0, -1.0, 2.0], log=True),
                          rain.with_factor([2], np.exp([0.0, -1.0, 2.0])), 1e-12)  # fmt: skip

    @pytest.mark.parametrize(
        ("scope", "table", "fragment"),
        [
            (["rain"], [1.0, -1.0], "factor 3, entry 1 is -1"),
            (["rain"], [1.0], "factor 3 over rain needs a table of shape (2,)"),
            (["rain", "rain"], np.ones((2, 2)), "factor 3 names variable rain twice"),
            (["sun"], [1.0], "The model has no variable 'sun'"),
        ],
    )
    def test_with_factor_refuses(self, rain: FactorGraph, scope: list, table: object, fragment: str) -> None:
        with pytest.raises(ModelError) as error:
            rain.with_factor(scope, table)  # type: ignore[arg-type]
        assert fragment in str(error.value)

    def test_with_factor_on_observed(self, rain: FactorGraph) -> None:
        with pytest.raises(ModelError, match="names variable rain, which is observed"):
            rain.condition({"rain": 0}).with_factor(["rain"], [1.0, 2.0])

    def test_with_potentials_shares_the_structure(self, rain: FactorGraph) -> None:
        phi = np.linspace(0.0, 1.0, 12)
        other = rain.with_potentials(phi)
        assert other.structure is rain.structure
        np.testing.assert_allclose(np.exp(other.log_phi), phi)
        assert_same_graph(rain.with_potentials(rain.log_phi, log=True), rain)
        observed = rain.condition({"rain": 0})
        assert observed.with_potentials(np.ones(len(observed.log_phi))).evidence == {0: 0}

    def test_with_potentials_refuses(self, rain: FactorGraph) -> None:
        with pytest.raises(ModelError, match="need 12 entries in total"):
            rain.with_potentials([1.0])
        with pytest.raises(ModelError, match="factor 2, entry 0 is nan"):
            rain.with_potentials([1.0] * 6 + [np.nan] * 6)

    def test_renamed(self, rain: FactorGraph) -> None:
        other = rain.renamed("other")
        assert other.name == "other"
        assert other == rain
        assert other.log_phi is rain.log_phi

    def test_equality(self, rain: FactorGraph) -> None:
        assert rain == rain.with_potentials(rain.log_phi, log=True)
        assert rain != rain.with_potentials(np.ones(12))
        assert rain != rain.condition({"rain": 0})
        assert rain != "rain"

    def test_factors_are_linear_tables(self, rain: FactorGraph) -> None:
        scopes, tables = zip(*rain.linear_factors(), strict=True)
        assert scopes == ((0,), (1, 0), (2, 1))
        np.testing.assert_allclose(tables[1], [[0.9, 0.05], [0.1, 0.95]])
        constant = next(FactorGraph([], [([], 2.0)]).linear_factors())[1]
        assert isinstance(constant, np.ndarray)
        assert constant.shape == ()

    def test_joint_states_are_exact_integers(self) -> None:
        assert FactorGraph([2] * 200).num_joint_states == 2**200
        assert FactorGraph([2, 5, 3, 5]).condition({1: 0}).num_joint_states == 30
        assert FactorGraph([3] * 10**6).num_joint_states == 3 ** (10**6)  # the product takes 14 s term by term


def test_names_of_variables_and_states() -> None:
    named = FactorGraph({"rain": 2, "grass": ["dry", "wet"]})
    assert named.variable_names == ("rain", "grass")
    assert named.state_names == (None, ("dry", "wet"))
    assert named.variables == {"rain": (0, 1), "grass": ("dry", "wet")}
    plain = FactorGraph([2, 3])
    assert (plain.variable_names, plain.state_names) == (None, None)
    assert plain.variables == {0: (0, 1), 1: (0, 1, 2)}


def test_the_form_of_evidence_is_shown_with_names() -> None:
    named = FactorGraph({"rain": ["no", "yes"], "grass": ["dry", "wet"]})
    with pytest.raises(ModelError, match=r"such as \{'rain': 'yes'\}, found 'grass=wet'"):
        named.condition("grass=wet")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"such as \{0: 1\}, found '0=1'"):
        FactorGraph([2]).condition("0=1")  # type: ignore[arg-type]
