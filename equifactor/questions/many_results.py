"""What `solve` returns for many sets of evidence on one graph: arrays with a row per set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError, brief
from equifactor.base.status import Status, Task
from equifactor.questions.answer_fields import AnswerField, HasAnswers

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FactorGraph


class MarginalColumns(Mapping["int | str", "FloatArray"]):
    """The distributions of some variables in every row: `m["BP"]` is [B, states], by name or number.

    `table [B, columns]` holds them side by side; `ptr` gives the first column of each variable.
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
            raise KeyError(f"Variable {name} is not among the targets. Add it to targets=.")
        n = self._place[i]
        return self.table[:, self.ptr[n] : self.ptr[n + 1]]

    def __iter__(self) -> Iterator[int | str]:
        names = self._graph.structure.variable_names
        return iter([names[i] if names else int(i) for i in self.variables])

    def __len__(self) -> int:
        return len(self.variables)

    def __repr__(self) -> str:
        return f"MarginalColumns({len(self)} variables, {len(self.table)} rows)"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RowAnswer(HasAnswers):
    """The answer to one set of evidence; reading an answer that is missing raises `SolveError`, as in `Result`."""

    status: Status
    task: Task
    solver: str
    log_z: AnswerField[float] = AnswerField()  # ln P(e) for a Bayesian network
    marginals: AnswerField[dict[int | str, FloatArray]] = AnswerField()  # a distribution per target, by name or number
    assignment: AnswerField[IntArray] = AnswerField()  # [V] the state of each variable
    log_score: AnswerField[float] = AnswerField()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ManyResults(HasAnswers):
    """Answers to B sets of evidence on one graph.

    MAR gives `marginals` and `log_z`, PR gives `log_z`, MAP gives `assignments` and `log_scores`; to read another of
    them raises `SolveError`. `marginals["BP"]` is [B, states]. `log_z` [B] is the logarithm of the sum of all scores
    that agree with a set: ln P(e) for a Bayesian network. A set without an answer has probabilities of zero and a
    `log_z` of -inf, or states of -1; its status says why. `answers[3]` is the answer to one set.
    """

    graph: FactorGraph = field(repr=False)
    task: Task
    solver: str  # the text form of what ran
    statuses: tuple[Status, ...] = field(repr=False)  # one for each set
    marginals: AnswerField[MarginalColumns] = AnswerField()
    log_z: AnswerField[FloatArray] = AnswerField()  # [B]
    assignments: AnswerField[IntArray] = AnswerField()  # [B, V]
    log_scores: AnswerField[FloatArray] = AnswerField()  # [B]
    message: str = ""
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.statuses)

    def __getitem__(self, row: int) -> RowAnswer:
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise OptionError(f"The rows of many answers are numbered from 0; found {brief(row)}.")
        if not -len(self) <= row < len(self):
            raise IndexError(f"Row {row} does not exist. The number of rows is {len(self)}.")
        status, found = self.statuses[row], dict[str, Any]()
        if self.task is Task.MAP and not (self.assignments[row] < 0).any():
            found = {"assignment": self.assignments[row], "log_score": float(self.log_scores[row])}
        elif self.task is not Task.MAP and (np.isfinite(self.log_z[row]) or status is Status.ZERO_PROBABILITY):
            found = {"log_z": float(self.log_z[row])}
        if self.task is Task.MAR and (self.marginals.table[row].any() or not self.marginals.table.shape[1]):
            found["marginals"] = {name: p[row] for name, p in self.marginals.items()}
        return RowAnswer(status=status, task=self.task, solver=self.solver, **found)

    def __iter__(self) -> Iterator[RowAnswer]:
        return (self[row] for row in range(len(self)))

    @property
    def solved(self) -> BoolArray:
        """[B] whether each status is exact, optimal or converged."""
        return np.array([status.solved for status in self.statuses], bool)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per set.

        The first column is `status`. For MAR and PR, `log_z` and a column such as `BP=HIGH` for each state of the
        targets follow. For MAP, `log_score` and the state of every variable follow.
        """
        from equifactor.questions.frames import data_frame

        s = self.graph.structure
        columns: dict[str, Any] = {"status": [str(status) for status in self.statuses]}
        if self.task is not Task.MAP:
            columns["log_z"] = self.log_z
        if self.task is Task.MAR:
            asked = self.marginals.variables.tolist()
            names = [f"{s.variable_name(i)}={state}" for i in asked for state in s.states_of(i)]
            columns |= dict(zip(names, self.marginals.table.T, strict=True))
        if self.task is Task.MAP:
            columns["log_score"] = self.log_scores
            for i in range(s.num_vars):
                states = s.states_of(i)
                columns[s.variable_name(i)] = [None if x < 0 else states[x] for x in self.assignments[:, i].tolist()]
        return data_frame(columns)

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {status}" for status, count in Counter(self.statuses).items())
        return f"{len(self):,} sets of evidence by {self.solver}: {told or 'none'}, seconds {self.seconds:.3g}"
