"""`result.factor_marginals`: the distribution of every factor's scope, computed when it is first asked for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.status import Status
from equifactor.graph.kinds import kind_name
from equifactor.graph.structured_factor import small
from equifactor.questions import asking
from equifactor.questions.bethe_beliefs import BetheBeliefs, has_messages
from equifactor.questions.eliminated_tables import factor_tables
from equifactor.questions.result import Result

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray

MAX_LOG2_TABLE = 20  # log2 of the largest dense table that is built for a structured factor


class ScopeMarginals(Sequence["FloatArray"]):
    """`m[3]` is p(x_a) for factor 3: an array with an axis for each variable of its scope, in order; sums to 1.

    Exact results have exact marginals. Belief propagation, and the networks that extend it, have Bethe beliefs. Other
    solvers are run again given the states of the scope. Observed variables are no longer in the scopes.
    """

    def __init__(self, result: Result) -> None:
        asking.check_distribution(result, "factor marginals")
        self._result, self._graph = result, result.graph
        method = asking.asked_solver(result)
        self.is_exact = asking.is_exact(result)
        self.is_bethe = not self.is_exact and has_messages(method, result.graph)

    def __len__(self) -> int:
        return self._graph.num_factors

    @overload
    def __getitem__(self, factor: int) -> FloatArray: ...
    @overload
    def __getitem__(self, factor: slice) -> list[FloatArray]: ...
    def __getitem__(self, factor: int | slice) -> FloatArray | list[FloatArray]:
        if isinstance(factor, slice):
            return [self[a] for a in range(*factor.indices(len(self)))]
        try:
            a = operator.index(factor)
        except TypeError:
            raise ModelError(f"A factor is given by its number, not by {brief(factor)}.") from None
        a += len(self) if a < 0 else 0
        if not 0 <= a < len(self):
            raise IndexError(f"Factor {factor} is out of range: there are {len(self)} factors.")
        scope = self._graph.structure.scope(a).tolist()
        if not scope:
            return np.ones(())
        self._check_size(a)
        if self.is_exact and self._at_once[a]:
            return self._exact[a]
        if self.is_bethe:
            return self._bethe.table(a, self._result.marginals)
        return asking.numbered_joint(self._result, scope).values

    @property
    def status(self) -> Status:
        """The status of the run that they came from."""
        return self._bethe.status if self.is_bethe else self._result.status

    def smallest_with(self, variables: Sequence[int]) -> int | None:
        """Return the factor with the smallest table whose scope has all these variables; None if there is none."""
        s = self._graph.structure
        count = np.bincount(s.factor_of_edge[np.isin(s.scope_vars, list(variables))], minlength=s.num_factors)
        bits = self._bits
        having = np.flatnonzero((count == len(variables)) & (bits <= MAX_LOG2_TABLE))
        return int(having[np.argmin(bits[having])]) if len(having) else None

    def __repr__(self) -> str:
        how = "exact" if self.is_exact else "Bethe" if self.is_bethe else "by conditioning"
        return f"ScopeMarginals({len(self)} factors, {how})"

    @cached_property
    def _bits(self) -> FloatArray:
        """The log2 of the entries of each factor's table [F], whether or not it is given as one."""
        s = self._graph.structure
        return np.bincount(s.factor_of_edge, np.log2(s.card[s.scope_vars]), s.num_factors).astype(np.float64)

    @cached_property
    def _at_once(self) -> BoolArray:
        """The factors [F] that elimination multiplies as tables: one pass finds all of them."""
        s = self._graph.structure
        return (
            np.ones(s.num_factors, bool)
            if s.kinds is None
            else small(s.rows(self._graph.log_phi)) | (s.kinds.kind == 0)
        )

    @cached_property
    def _exact(self) -> dict[int, FloatArray]:
        return factor_tables(self._graph, np.flatnonzero(self._at_once).tolist(), asking.memory_limit_of(self._result))

    @cached_property
    def _bethe(self) -> BetheBeliefs:
        how = self._result.how
        return BetheBeliefs(self._graph, asking.asked_solver(self._result), how.context(how.time_limit))

    def _check_size(self, a: int) -> None:
        kinds = self._graph.structure.kinds
        if kinds is not None and kinds.kind[a] and self._bits[a] > MAX_LOG2_TABLE:
            raise ModelError(
                f"Factor {a} is a {kind_name(int(kinds.kind[a]))} over {self._graph.structure.arity[a]} variables. "
                f"Its table has 2^{self._bits[a]:.0f} entries, and at most 2^{MAX_LOG2_TABLE} are possible. "
                "Ask for the joint of a few of its variables.",
                factor=a,
            )
