"""Pedigrees: alleles of related people at a few linked loci, given the genotypes of some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from equifactor.generators.argument_checks import check_size, number_of_graphs, real, whole
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_TABLE_ARITY = {"founder": 1, "child": 4, "selector": 1, "linkage": 2, "genotype": 2}


class PedigreeOptions(TypedDict, total=False):
    """Keyword arguments of `pedigree`, for the type checker."""

    loci: int
    alleles: int
    founders: float
    typed: float
    error: float
    recombination: float
    structures: int | None
    seed: int


@overload
def pedigree(num_people: int, *, count: None = None, **options: Unpack[PedigreeOptions]) -> FactorGraph: ...
@overload
def pedigree(num_people: int, *, count: int, **options: Unpack[PedigreeOptions]) -> list[FactorGraph]: ...
def pedigree(
    num_people: int,
    *,
    loci: int = 2,
    alleles: int = 3,
    founders: float = 0.4,
    typed: float = 0.5,
    error: float = 0.01,
    recombination: float = 0.1,
    structures: int | None = None,
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw pedigrees in the segregation network of linkage analysis [Fishelson02].

    Each person has two alleles at each locus, one from each parent. A child has two selectors at each locus, one for
    each parent: state 0 passes on the first allele of that parent, state 1 the second. Selectors of neighbouring loci
    differ with probability `recombination`. The first people are founders; later people are children of two earlier
    people. The genotypes of typed people, without their order, enter as tables over their two alleles. Graph i does
    not depend on `count`.

    Args:
        num_people: number of people, at least 2.
        loci: number of loci.
        alleles: number of alleles at each locus, at least 2.
        founders: the share of people without parents in the pedigree; there are at least two.
        typed: the share of people whose genotypes are known.
        error: the probability that a known genotype is wrong; 0 makes genotypes hard constraints.
        recombination: the probability that selectors of neighbouring loci differ.
        structures: number of different structures, which the graphs use in turn; few structures make training faster.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the random numbers.

    Examples:
        >>> from equifactor import generators
        >>> generators.pedigree(10, loci=1, founders=0.4, seed=1).num_vars  # 20 alleles and 12 selectors
        32
    """
    num_people, loci, alleles = whole("num_people", num_people, 2), whole("loci", loci, 1), whole("alleles", alleles, 2)
    founders, typed = real("founders", founders, 0.0, 1.0), real("typed", typed, 0.0, 1.0)
    error, recombination = real("error", error, 0.0, 1.0), real("recombination", recombination, 0.0, 1.0)
    check_size(number_of_graphs(count) * num_people * loci * 4 * alleles**3)
    num_founders = min(num_people, max(2, round(founders * num_people)))
    num_typed = round(typed * num_people)
    rng = np.random.default_rng(whole("seed", seed, 0))
    shared = [] if structures is None else range(min(number_of_graphs(count), whole("structures", structures, 1)))
    made = [
        _Family(num_people, num_founders, num_typed, loci, alleles, np.random.default_rng([seed, k])) for k in shared
    ]
    graphs = []
    for i in range(number_of_graphs(count)):
        family = made[i % len(made)] if made else _Family(num_people, num_founders, num_typed, loci, alleles, rng)
        frequency = rng.dirichlet(np.ones(alleles), size=loci)
        alleles_of = family.draw(frequency, recombination, rng)
        log_phi = family.log_phi(frequency, recombination, error, alleles_of, rng)
        graphs.append(FactorGraph.trusted(family.structure, log_phi, None, f"pedigree-{num_people}-seed{seed}-{i}"))
    return graphs[0] if count is None else graphs


class _Family:
    """The people of a pedigree and its structure.

    Alleles are variables [person, locus, parent] in C order; selectors [child, locus, parent] follow.
    """

    def __init__(
        self, people: int, founders: int, typed: int, loci: int, alleles: int, rng: np.random.Generator
    ) -> None:
        self.people, self.founders, self.loci, self.alleles = people, founders, loci, alleles
        earlier = np.arange(founders, people)
        first = rng.integers(earlier)
        second = (first + 1 + rng.integers(earlier - 1)) % earlier  # a parent other than the first
        self.parents = np.stack((first, second), axis=1)  # [children, 2]
        self.typed = np.sort(rng.permutation(people)[:typed])
        allele = np.arange(people * loci * 2).reshape(people, loci, 2)
        selector = allele.size + np.arange((people - founders) * loci * 2).reshape(-1, loci, 2)
        of_parents = np.moveaxis(allele[self.parents], 1, 2)  # [children, locus, parent, allele of the parent]
        child = np.concatenate((of_parents, selector[..., None], allele[founders:, :, :, None]), axis=-1)
        linkage = np.stack((selector[:, :-1], selector[:, 1:]), axis=-1)
        self.scopes: dict[str, IntArray] = {
            "founder": allele[:founders].reshape(-1, 1),
            "child": child.reshape(-1, 4),
            "selector": selector[:, 0].reshape(-1, 1),
            "linkage": linkage.reshape(-1, 2),
            "genotype": allele[self.typed].reshape(-1, 2),
        }
        card = np.concatenate((np.full(allele.size, alleles), np.full(selector.size, 2)))
        arity = np.concatenate([np.full(len(self.scopes[name]), k) for name, k in _TABLE_ARITY.items()])
        variables = np.concatenate([self.scopes[name].ravel() for name in _TABLE_ARITY])
        self.structure = Structure.build(card, ptr_of(arity), variables)

    def draw(self, frequency: FloatArray, recombination: float, rng: np.random.Generator) -> IntArray:
        """Return the alleles [person, locus, parent] of one sample; parents come before their children."""
        found = np.empty((self.people, self.loci, 2), np.int64)
        for locus in range(self.loci):
            found[: self.founders, locus] = rng.choice(self.alleles, (self.founders, 2), p=frequency[locus])
        switch = rng.random((self.people - self.founders, self.loci, 2)) < recombination
        switch[:, 0] = rng.random((self.people - self.founders, 2)) < 0.5  # selectors of the first locus are uniform
        selected = np.bitwise_xor.accumulate(switch.astype(np.int64), axis=1)
        for child, parents in enumerate(self.parents):
            for side in range(2):
                of_parent = found[parents[side]]
                found[self.founders + child, :, side] = of_parent[np.arange(self.loci), selected[child, :, side]]
        return found

    def log_phi(
        self, frequency: FloatArray, recombination: float, error: float, found: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return all log tables [T], in the order of the scopes."""
        a = self.alleles
        state = np.arange(a)
        # P(allele | first and second allele of the parent, selector), [a, a, 2, a].
        passed = np.zeros((a, a, 2, a))
        passed[state, :, 0, state], passed[:, state, 1, state] = 1.0, 1.0
        stay = 1.0 - recombination
        linkage = np.array([[stay, recombination], [recombination, stay]])
        genotype = a * np.minimum(state[:, None], state) + np.maximum(state[:, None], state)  # [a, a] without order
        kinds = np.unique(genotype)
        seen = genotype[found[self.typed, :, 0], found[self.typed, :, 1]]  # [typed, locus]
        wrong = rng.random(seen.shape) < error
        seen = np.where(wrong, kinds[rng.integers(len(kinds), size=seen.shape)], seen)
        match = seen[..., None, None] == genotype
        parts = (
            np.broadcast_to(frequency[:, None], (self.founders, self.loci, 2, a)),
            np.broadcast_to(passed, (len(self.scopes["child"]), *passed.shape)),
            np.full((len(self.scopes["selector"]), 2), 0.5),
            np.broadcast_to(linkage, (len(self.scopes["linkage"]), 2, 2)),
            # The error chooses among all genotypes, so a wrong one may be the right one by chance.
            match * (1.0 - error) + error / len(kinds),
        )
        with np.errstate(divide="ignore"):
            return np.log(np.concatenate([part.ravel() for part in parts]))
