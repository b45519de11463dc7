"""Questions to a compiled circuit by `solve(circuit, evidence=[..])`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError
from equifactor.base.progress import bar
from equifactor.base.status import Status, Task
from equifactor.graph.reading.observations import is_mapping
from equifactor.graph.reading.state_rows import sets_of, states_of_sets
from equifactor.questions.many_answers import Answers, target_numbers
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.run_context import Progress
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.many_results import ManyResults, RowAnswer
    from equifactor.solvers.counting.model_circuit import Circuit

_MODULE = "equifactor.solvers.counting.model_circuit"


def is_circuit(model: object) -> bool:
    """Return whether an object is a circuit; without an import of its module, which circuits have made."""
    module = sys.modules.get(_MODULE)
    return module is not None and isinstance(model, module.Circuit)


def solve_circuit(
    circuit: Circuit,
    task: Task,
    evidence: Any,
    targets: Sequence[Variable] | None,
    time_limit: float | None,
    progress: Progress | bool,
) -> ManyResults | RowAnswer:
    """Return what a circuit knows about many sets of evidence, or about one, by the fields of `solve`."""
    if task is Task.MMAP:
        raise OptionError("A circuit answers MAR, PR and MAP. Use solve(graph, 'MMAP', query=[..]) instead.")
    graph, clock = circuit.domain, Clock(time_limit)
    single = evidence is None or is_mapping(evidence)
    sets = sets_of([{} if evidence is None else evidence] if single else evidence)
    states = states_of_sets(graph.structure, sets)
    if states is None:
        raise ModelError("A circuit takes observed states only. Add factors for weights before you compile it.")
    answers = Answers(graph, target_numbers(graph, targets), len(sets), task)
    with bar(progress, "evidence sets", time_limit) as report, clock.govern():
        if task is Task.MAP:
            _find_best(circuit, states, answers, clock)
        else:
            answers.find_by_rows(CircuitRows(circuit), states, SolveContext(clock=clock, progress=report))
        unreached = clock.status or Status.TIME_LIMIT
    found = answers.results("circuit", unreached, clock.seconds)
    return found[0] if single else found


class CircuitRows:
    """A circuit in place of `EvidenceRows`.

    Args:
        circuit: the circuit.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit

    def marginals(self, states: IntArray, targets: IntArray, *, clock: Clock) -> tuple[FloatArray, FloatArray]:
        """Return the marginals [B, columns] of the targets, and ln Z [B], given states [B, V]."""
        del clock  # Blocks of rows take milliseconds.
        log_z, p = self.circuit.ask(states, targets)
        return p, log_z


def _find_best(circuit: Circuit, states: IntArray, answers: Answers, clock: Clock) -> None:
    """Set the most probable assignment of every set."""
    assert answers.assignments is not None
    assert answers.log_scores is not None
    possible = np.isfinite(circuit.log_z(states))
    for n, row in enumerate(states):
        if clock.stopped:
            return
        answers.statuses[n] = Status.OPTIMAL if possible[n] else Status.ZERO_PROBABILITY
        if possible[n]:
            seen = {int(i): int(row[i]) for i in np.flatnonzero(row >= 0)}
            answers.assignments[n], answers.log_scores[n] = circuit.best(seen)
