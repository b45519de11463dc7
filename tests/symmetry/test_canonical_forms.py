"""Canonical forms and hashes of graphs."""

from __future__ import annotations

import pytest

from equifactor import OptionError
from equifactor.symmetry import canonical_form, graph_hash, isomorphism
from equifactor.testing import contract_graphs

GRAPHS = contract_graphs()


def test_different_graphs_have_different_hashes() -> None:
    assert len({graph_hash(g) for g in GRAPHS.values()}) == len(GRAPHS)
    assert isomorphism(GRAPHS["tree"], GRAPHS["loop"]) is None


def test_canonical_form_is_of_the_class() -> None:
    for graph in GRAPHS.values():
        form = canonical_form(graph)
        assert isomorphism(graph, form) is not None
        assert canonical_form(form) == form
        assert form.structure.variable_names is None


def test_bad_digits() -> None:
    with pytest.raises(OptionError, match="digits must be"):
        graph_hash(GRAPHS["tree"], digits=-1)
