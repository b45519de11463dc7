"""What comes back from `solve_many`: the answers to many sets of evidence on one model, in arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph


class MarginalColumns(Mapping["int | str", "FloatArray"]):
    """The distributions of some variables in every row: `m["BP"]` is [B, states], by name or number.

    `table [B, columns]` holds them side by side, and `ptr` says where the columns of each variable begin.
    """

    def __init__(self, graph: FactorGraph, variables: IntArray, table: FloatArray, ptr: IntArray) -> None:
        self._graph = graph
        self.variables = variables
        self.table = table
        self.ptr = ptr
        self._place = {int(i): n for n, i in enumerate(variables)}

    def __getitem__(self, variable: int | str) -> FloatArray:
        i = self._graph.variable(variable)
        if i not in self._place:
            name = self._graph.structure.variable_name(i)
            raise KeyError(f"variable {name} is not among the targets: name it in targets=")
        n = self._place[i]
        return self.table[:, self.ptr[n] : self.ptr[n + 1]]

    def __iter__(self) -> Iterator[int | str]:
        names = self._graph.structure.variable_names
        return iter([names[i] if names else int(i) for i in self.variables])

    def __len__(self) -> int:
        return len(self.variables)

    def __repr__(self) -> str:
        return f"MarginalColumns({len(self)} variables, {len(self.table)} rows)"


@dataclass(frozen=True, eq=False)
class RowAnswer:
    """The answer to one set of evidence."""

    status: Status
    log_z: float  # ln P(e) where the model is a Bayesian network
    marginals: dict[int | str, FloatArray]  # the distribution of each target, by name or number


@dataclass(frozen=True, kw_only=True, eq=False)
class ManyResults:
    """Answers to B sets of evidence on one model.

    `marginals["BP"]` is [B, states] and `log_z` is [B], ln of the sum of the scores that agree with each set: ln P(e)
    for a Bayesian network. A set of probability zero, and one that was not reached before the deadline or that the
    solver has no answer for, has probabilities of zero and ln P(e) = -inf; its status tells which. `answers[3]` is
    the answer to one set.
    """

    graph: FactorGraph = field(repr=False)
    solver: str  # the text form of what ran
    statuses: tuple[Status, ...] = field(repr=False)  # one for each set
    marginals: MarginalColumns
    log_z: FloatArray = field(repr=False)
    message: str = ""
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.statuses)

    def __getitem__(self, row: int) -> RowAnswer:
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no row {row}; there are {len(self)}")
        return RowAnswer(
            self.statuses[row], float(self.log_z[row]), {name: p[row] for name, p in self.marginals.items()}
        )

    def __iter__(self) -> Iterator[RowAnswer]:
        return (self[row] for row in range(len(self)))

    @property
    def solved(self) -> BoolArray:
        """[B] whether each status is exact or converged."""
        return np.array([status.solved for status in self.statuses], bool)

    def to_frame(self) -> Any:
        """A pandas frame with a row per set: status, log_z, and a column such as `BP=HIGH` for each state asked for."""
        from equifactor.questions.frames import data_frame

        s = self.graph.structure
        asked = self.marginals.variables.tolist()
        names = [f"{s.variable_name(i)}={state}" for i in asked for state in s.states_of(i)]
        columns = {"status": [str(status) for status in self.statuses], "log_z": self.log_z}
        return data_frame({**columns, **dict(zip(names, self.marginals.table.T, strict=True))})

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {status}" for status, count in Counter(self.statuses).items())
        return f"{len(self):,} sets of evidence by {self.solver}: {told or 'none'}, seconds {self.seconds:.3g}"
