"""The tables of a Bayesian network that is fitted: counts of their entries, priors, and tables from counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.factors.noisy_or import NoisyOr
from equifactor.graph.kinds import kind_name
from equifactor.graph.parents import ROUNDING, Families, families_of
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.fit_method import FitContext
    from equifactor.learning.fitting.noisy_or_tables import NoisyOrTable

Prior = float | Literal["k2", "bdeu", "none"] | None


@dataclass(frozen=True, eq=False)
class NetworkTables:
    """Which table entries are learned, which form one distribution, and which are shared.

    A *row* of a table is the distribution of the child for one configuration of the parents.
    """

    graph: FactorGraph
    families: Families
    free: IntArray  # the factors that are learned
    tied: tuple[IntArray, ...]  # [k, n] each: the n entries of k factors that share one table
    noisy_ors: tuple[NoisyOrTable, ...] = ()  # factors of which leak and inhibitors are learned, not entries

    @classmethod
    def of(
        cls, graph: FactorGraph, context: FitContext, method: str, noisy_ors: tuple[NoisyOrTable, ...] = ()
    ) -> NetworkTables:
        """Check that the graph is a network whose fixed factors are distributions, and whose ties make sense."""
        families = families_of(
            graph, f"{method} fits a Bayesian network", "The methods likelihood and pseudo-likelihood fit any graph."
        )
        s = graph.structure
        is_free = s.is_table.copy()
        is_free[[*context.fixed, *(n.factor for n in noisy_ors)]] = False
        for a in np.flatnonzero(~is_free).tolist():
            _check_fixed(graph, a, int(families.slot[a]))
        for group in context.tied:
            a = next((a for a in group if families.slot[a] != families.slot[group[0]]), -1)
            if a >= 0:
                raise OptionError(
                    f"tied factors are distributions over the same axis, and the child of factor {a} is at place "
                    f"{families.slot[a]} of its scope where that of factor {group[0]} is at {families.slot[group[0]]}"
                )
        entries = [
            s.table_ptr[list(group)][:, None] + np.arange(np.diff(s.table_ptr)[group[0]]) for group in context.tied
        ]
        return cls(graph, families, np.flatnonzero(is_free), tuple(entries), noisy_ors)

    @cached_property
    def is_free(self) -> BoolArray:
        """[T] the entries that are learned."""
        s = self.graph.structure
        factors = np.zeros(s.num_factors, bool)
        factors[self.free] = True
        return factors[row_of(s.table_ptr)]

    @cached_property
    def _child_card(self) -> IntArray:
        """[F] states of the child."""
        s = self.graph.structure
        return s.card[s.scope_vars[s.scope_ptr[:-1] + self.families.slot]]

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        """[T] the row of each entry, rows counted over all tables; and [R] the number of entries of each row."""
        s = self.graph.structure
        is_table = np.zeros(s.num_factors, bool)
        is_table[self.free] = True
        size = np.diff(s.table_ptr)
        card = np.where(is_table, self._child_card, 1)  # where nothing is learned every entry is a row of its own
        stride = np.where(is_table, s.stride[s.scope_ptr[:-1] + self.families.slot], 1)
        first = ptr_of(size // card)
        a = row_of(s.table_ptr)
        entry = np.arange(s.num_entries) - s.table_ptr[a]
        block = stride[a] * card[a]
        row = first[a] + (entry // block) * stride[a] + entry % stride[a]
        return row, np.repeat(card, size // card)

    def about_kept(self, fixed: frozenset[int]) -> str:
        """A sentence about factors that stay as they are although nobody asked for it; empty where there are none."""
        kinds = self.graph.structure.kinds
        kept = [] if kinds is None else sorted(set(np.flatnonzero(kinds.kind).tolist()) - fixed)
        if not kept or kinds is None:
            return ""
        names = ", ".join(sorted({kind_name(int(kinds.kind[a])) for a in kept}))
        which = f"Factor {kept[0]} is no table ({names}) and stays as it is."
        return which if len(kept) == 1 else f"{len(kept):,} factors are no tables ({names}) and stay as they are."

    # ---- counts -----------------------------------------------------------------------------------------

    def prior(self, prior: Prior) -> FloatArray:
        """[T] the counts before any data: `s` of them spread evenly over each table (BDeu), or one per entry (K2)."""
        s = self.graph.structure
        if prior == "k2":
            return np.where(self.is_free, 1.0, 0.0)
        strength = {"none": 0.0, None: 0.0, "bdeu": 1.0}[prior] if prior is None or isinstance(prior, str) else prior
        size = np.diff(s.table_ptr)
        return np.where(self.is_free, np.repeat(strength / np.maximum(size, 1), size), 0.0)

    # ---- tables from counts -----------------------------------------------------------------------------

    def shared(self, counts: FloatArray) -> FloatArray:
        """The counts with those of tied factors added up, in each of them."""
        if not self.tied:
            return counts
        counts = counts.copy()
        for entries in self.tied:
            counts[entries] = counts[entries].sum(axis=0)
        return counts

    def row_sums(self, values: FloatArray) -> FloatArray:
        """[R] the sum over each row of learned tables; an entry of another factor is a row of its own."""
        row, size = self._rows
        return np.bincount(row, values, len(size)).astype(float)

    def log_tables(self, counts: FloatArray) -> FloatArray:
        """[T] the tables that counts (with the prior, ties added up) make most probable; what is fixed stays.

        A row without any count is uniform; an entry without any in a row that has some is a true zero.
        """
        row, size = self._rows
        total = self.row_sums(counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            learned = np.where(total[row] > 0.0, np.log(counts) - np.log(total[row]), -np.log(size[row]))
        return np.where(self.is_free, learned, self.graph.log_phi)

    def maximised(self, counts: FloatArray, prior: Prior, before: FloatArray) -> FloatArray:
        """[T] the tables that expected counts [T] and the prior make most probable.

        Args:
            counts: of all entries, ties not added up.
            prior: see `prior`.
            before: [T] the tables under which the counts were expected.
        """
        log_phi = self.log_tables(self.shared(np.where(self.is_free, counts, 0.0)) + self.prior(prior))
        for noisy_or in self.noisy_ors:
            noisy_or.maximise(counts, _of_each_event(prior), before, log_phi)
        return log_phi

    def num_unseen_rows(self, counts: FloatArray) -> int:
        """How many rows of learned tables have no count at all."""
        row, _ = self._rows
        return int(np.count_nonzero(self.row_sums(counts)[np.unique(row[self.is_free])] <= 0.0))

    def log_prior(self, log_phi: FloatArray, prior: Prior) -> float:
        """The log density of the tables under the prior, up to a constant; shared tables count once."""
        weights = self.prior(prior)
        for entries in self.tied:
            weights[entries[1:]] = 0.0
        others = sum(noisy_or.log_prior(_of_each_event(prior), log_phi) for noisy_or in self.noisy_ors)
        return dot(weights, log_phi) + others


def _of_each_event(prior: Prior) -> float:
    """How often a cause of a noisy-or is taken to have failed, and to have fired, before any data."""
    if isinstance(prior, str):
        return {"none": 0.0, "k2": 1.0, "bdeu": 0.5}[prior]
    return 0.5 * (prior or 0.0)


def dot(weights: FloatArray, log_values: FloatArray) -> float:
    """The sum of weights times log values, where 0 times -inf is 0."""
    used = weights > 0.0
    return float(weights[used] @ log_values[used])


def _check_fixed(graph: FactorGraph, a: int, slot: int) -> None:
    """Refuse a factor that stays as it is and is not the distribution of its child."""
    s = graph.structure
    factor = graph.factor(a)
    child = s.variable_name(int(s.scope(a)[slot]))
    if isinstance(factor, NoisyOr) and factor.effect is None and factor.place == slot:
        return
    sums = np.exp(graph.log_table(a)).sum(axis=slot)  # of a table, or of a factor that can be written as one
    if isinstance(factor, NoisyOr) or np.any(np.abs(sums - 1.0) > ROUNDING):
        raise ModelError(
            f"factor {a} stays as it is, and must then be the distribution of {child}, the variable that no other "
            "factor is left for; its values do not sum to 1 over that",
            factor=a,
        )
