"""Answers of functions that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import OptionError
from equifactor.symmetry.comparable_answers import read_answer
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()


GRAPH = GRAPHS["ragged cardinalities"]


@pytest.mark.parametrize("given", ["text", None, np.zeros(3), [np.zeros(1)], {"a": 1}])
def test_answers_that_cannot_be_read(given: object) -> None:
    with pytest.raises(OptionError, match="A function of a graph must return"):
        read_answer(given, GRAPH)
