"""Objects that are not factors are refused in one sentence with what was expected and what was found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from equifactor import (
    AtLeast,
    AtMost,
    Clause,
    Count,
    Exactly,
    FactorGraph,
    ModelError,
    NoisyOr,
    Parity,
    Potts,
    SparseTable,
    TruncatedLinear,
)

NAN, INF = float("nan"), float("inf")

WRONG = [
    (Parity(odd="yes"), "The option odd of a parity must be True or False, found 'yes'"),
    (Parity(odd=2), "The option odd of a parity must be True or False, found 2"),
    (Parity(log_values=3.0), "A parity needs two log values, for an even and an odd number of ones, found 3.0"),
    (Parity(log_values=(0.0, 1.0, 2.0)), "A parity needs two log values"),
    (Parity(log_values=(0.0, INF)), "The log value of a parity must be a number below infinity, found inf"),
    (Parity(log_values=("0", "1")), "The log value of a parity must be a number, found '0'"),
    (Clause(signs=[True]), "A clause over 3 variables needs 3 signs, each True or False, found [True]"),
    (Clause(signs="++-"), "A clause over 3 variables needs 3 signs"),
    (Clause(signs=[0, 1, 2]), "A clause over 3 variables needs 3 signs"),
    (Clause(weight="1"), "The weight of a clause must be a number, or None for a clause that must hold, found '1'"),
    (Clause(weight=NAN), "The weight of a clause must be a number, or None for a clause that must hold, found nan"),
    (Clause(weight=-INF), "The weight of a clause must be a number"),
    (AtMost(-1), "A count must be a whole number >= 0, found -1"),
    (AtLeast(1.5), "A count must be a whole number >= 0, found 1.5"),
    (Exactly("2"), "A count must be a whole number >= 0, found '2'"),
    (AtMost(True), "A count must be a whole number >= 0, found True"),
    (AtMost(1, signs=[1]), "A count over 3 variables needs 3 signs"),
    (Count([0.0, 1.0, 2.0]), "A count over 3 variables needs 4 log values, for 0 to 3 ones, found [0.0, 1.0, 2.0]"),
    (Count(1.0), "A count over 3 variables needs 4 log values"),
    (Count([0.0, 1.0, NAN, 0.0]), "A log value of a count must be a number below infinity, found nan"),
    (Count([0.0, 1.0, INF, 0.0]), "A log value of a count must be a number below infinity, found inf"),
    (NoisyOr(1.5, [0.1, 0.2]), "The leak of a noisy_or must be from 0 to 1, found 1.5"),
    (NoisyOr("x", [0.1, 0.2]), "The leak of a noisy_or must be from 0 to 1, found 'x'"),
    (NoisyOr(0.1, [0.1, -0.2]), "The inhibitors of a noisy_or must be from 0 to 1, found [0.1, -0.2]"),
    (NoisyOr(0.1, [0.1, NAN]), "The inhibitors of a noisy_or must be from 0 to 1"),
    (NoisyOr(10**400, [0.1, 0.2]), "The leak of a noisy_or must be from 0 to 1"),
    (NoisyOr(0.1, [0.1]), "A noisy_or over 3 variables, the effect first, needs one leak and 2 inhibitors, found 1"),
    (NoisyOr(0.1, [0.1, 0.2], place=3), "The effect of a noisy_or over 3 variables cannot be at place 3"),
    (NoisyOr(0.1, [0.1, 0.2], place="0"), "The effect of a noisy_or over 3 variables cannot be at place '0'"),
    (NoisyOr(0.1, [0.1, 0.2, 0.3], effect="on"), "The known state of an effect must be True or False, found 'on'"),
    (SparseTable([[0, 0]], [0.0]), "A sparse table over 3 variables needs configurations of shape [n, 3]"),
    (SparseTable([[0.0, 0.0, 1.5]], [0.0]), "in whole numbers, found float64 of shape (1, 3)"),
    (SparseTable([[0, 0, 2]], [0.0]), "a configuration has state 2 of a variable with 2 states"),
    (SparseTable([[0, 0, -1]], [0.0]), "a configuration has state -1 of a variable with 2 states"),
    (SparseTable([[0, 0, 1]] * 2, [0.0, 0.0]), "a sparse table lists configuration [0, 0, 1] twice"),
    (SparseTable([[0, 0, 1]], [0.0, 1.0]), "1 configurations need 1 log values, found shape (2,)"),
    (SparseTable([[0, 0, 1]], ["a"]), "A sparse table needs configurations [n, arity] and n log values"),
    (SparseTable([[0, 0, 1]], 10**400), "A sparse table needs configurations [n, arity] and n log values"),
    (SparseTable([[0, 0, 1]], [NAN]), "A log value must be a number below infinity"),
    (SparseTable([[0, 0, 1]], [0.0], INF), "The default of a sparse table must be a number below infinity, found inf"),
    (Potts(1.0), "A potts factor is over 2 variables, found 3"),
]

WRONG_PAIRS = [
    (Potts("1"), "The weight of a potts factor must be a number, found '1'"),
    (Potts(NAN), "The weight of a potts factor must be a number below infinity, found nan"),
    (Potts(0.0, INF), "The log value of different states must be a number below infinity, found inf"),
    (Potts(0.0), "over 2 variables with the same number of states, found 2 and 3. Pass labels=([..], [..])"),
    (Potts(0.0, labels=([0, 1], [0, 1])), "The labels must be whole numbers >= 0, one for each of 2 and 3 states"),
    (Potts(0.0, labels=([0, 0], [0, 1, 2])), "The states of a variable need different labels, found [0, 0]"),
    (Potts(0.0, labels=([0, -1], [0, 1, 2])), "The labels must be whole numbers >= 0"),
    (Potts(0.0, labels=("ab", "abc")), "The labels must be two lists of whole numbers, one for each variable, found"),
    (Potts(0.0, labels=(1, 2)), "The labels must be two lists of whole numbers"),
    (Potts(0.0, labels=([0.5, 1], [0, 1, 2])), "The labels must be two lists of whole numbers"),
    (TruncatedLinear(-1.0), "needs a finite slope >= 0 and a limit >= 0, found -1.0 and inf"),
    (TruncatedLinear(1.0, -2.0), "needs a finite slope >= 0 and a limit >= 0, found 1.0 and -2.0"),
    (TruncatedLinear(INF), "needs a finite slope >= 0"),
    (TruncatedLinear("1"), "needs a finite slope >= 0"),
    (TruncatedLinear(NAN), "needs a finite slope >= 0"),
]


@pytest.mark.parametrize(("factor", "sentence"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_over_three_binary_variables(factor: Any, sentence: str) -> None:
    with pytest.raises(ModelError, match=re.escape(sentence)) as error:
        FactorGraph([2, 2, 2], [([0], [1, 1]), ([0, 1, 2], factor)])
    assert str(error.value).startswith("factor 1: ")
    assert error.value.factor == 1


@pytest.mark.parametrize(("factor", "sentence"), WRONG_PAIRS, ids=[str(n) for n in range(len(WRONG_PAIRS))])
def test_over_two_variables(factor: Any, sentence: str) -> None:
    with pytest.raises(ModelError, match=re.escape(sentence)):
        FactorGraph([2, 3], [([0, 1], factor)])


@pytest.mark.parametrize("factor", [Parity(), Clause(), AtMost(1), Count([0.0] * 3), NoisyOr(0.1, [0.5])])
def test_binary_kinds_refuse_other_variables(factor: Any) -> None:
    with pytest.raises(ModelError, match=r"factor 0: A \w+ needs variables with 2 states, found one with 3"):
        FactorGraph([2, 3], [([0, 1], factor)])


def test_scopes_are_checked_as_for_tables() -> None:
    with pytest.raises(ModelError, match="factor 0 names variable 1 twice"):
        FactorGraph([2, 2], [([1, 1], Parity())])
    with pytest.raises(ModelError, match="The model has no variable 2"):
        FactorGraph([2, 2], [([1, 2], Parity())])


def test_potentials_that_a_kind_does_not_allow() -> None:
    g = FactorGraph([2] * 3, [([0, 1, 2], NoisyOr(0.1, [0.5, 0.5]))])
    with pytest.raises(ModelError, match="factor 0: The log values of a noisy_or must be logs of probabilities"):
        g.with_potentials([0.5, -0.1, -0.1], log=True)
    with pytest.raises(ModelError, match="need 3 entries in total"):
        g.with_potentials(np.zeros(8), log=True)


def test_over_one_variable_or_none_they_are_tables() -> None:
    g = FactorGraph([2, 3], [([0], Parity(odd=True)), ([], Clause()), ([1], SparseTable([[2]], [0.5]))])
    assert g.structure.kinds is None
    np.testing.assert_array_equal(g.log_table(0), [-np.inf, 0])
    assert g.log_table(1) == -np.inf
    np.testing.assert_array_equal(g.log_table(2), [-np.inf, -np.inf, 0.5])
