"""Pedigrees with genotypes."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import solve
from equifactor.base.errors import OptionError
from equifactor.generators import pedigree


@pytest.mark.parametrize("loci", [1, 3])
def test_without_genotypes_it_is_a_bayesian_network(loci: int) -> None:
    g = pedigree(7, loci=loci, alleles=2, founders=0.4, typed=0.0, seed=2)
    founders, children = 3, 4
    assert g.num_vars == 2 * loci * (7 + children)
    assert solve(g, "PR", "exact").log_z == pytest.approx(0.0, abs=1e-12)
    assert g.num_factors == 2 * loci * founders + 2 * loci * children + 2 * children + 2 * (loci - 1) * children


def test_a_child_of_known_parents_has_the_probabilities_of_mendel() -> None:
    for g in pedigree(3, loci=1, alleles=2, founders=0.6, typed=1.0, error=0.0, count=12, seed=1):
        # The joint distribution of the two parents' and the child's alleles given all three genotypes.
        result = solve(g, "MAR", "exact")
        total = 0.0
        frequency = np.exp(g.log_table(0))
        observed = [np.exp(g.log_table(g.num_factors - 3 + person)) for person in range(3)]
        for code in range(2**6):
            father, mother = (np.unravel_index((code >> shift) & 3, (2, 2)) for shift in (0, 2))
            first, second = (code >> 4) & 1, (code >> 5) & 1
            child = father[first], mother[second]
            weight = np.prod([frequency[x] for x in (*father, *mother)]) / 4
            total += weight * observed[0][father] * observed[1][mother] * observed[2][child]
        assert result.log_z == pytest.approx(np.log(total))


def test_every_pedigree_is_possible_also_without_errors() -> None:
    graphs = pedigree(9, loci=2, alleles=3, typed=0.8, error=0.0, recombination=0.0, count=8, seed=3)
    assert all(np.isfinite(r.log_z) for r in solve(graphs, "PR", "exact"))


def test_selectors_of_neighbouring_loci_agree_without_recombination() -> None:
    g = pedigree(4, loci=2, alleles=2, typed=0.0, recombination=0.0)
    linked = [g.log_table(a) for a in range(g.num_factors) if g.structure.shape(a) == (2, 2)]
    assert len(linked) == 4
    assert all(np.array_equal(np.exp(table), np.eye(2)) for table in linked)


def test_one_many_prefix_and_shared_structures() -> None:
    many = pedigree(6, count=4, structures=2, seed=5)
    assert many[0] == pedigree(6, structures=2, seed=5)
    assert many[:2] == pedigree(6, count=2, structures=2, seed=5)
    assert many[0].structure is many[2].structure
    assert np.array_equal(many[0].structure.card, many[1].structure.card)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_people": 1}, "num_people must be a whole number of at least 2, found 1"),
        ({"alleles": 1}, "alleles must be a whole number of at least 2, found 1"),
        ({"error": -1}, "error must be a number of at least 0 and at most 1, found -1"),
        ({"num_people": 10**9}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        pedigree(**{"num_people": 5, **options})
    assert fragment in str(error.value)
