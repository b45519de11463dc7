"""ln Z and the marginals of all variables *and factors* for many potentials on one structure, by two passes.

The derivative of ln Z with respect to a log table is the marginal of the factor's variables. This is therefore also the
gradient that `CRF` and the learning of potentials share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.kernels.pointers import picked
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.probes import Probes
from equifactor.solvers.elimination.program import build_program, read_only

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.solvers.elimination.plan import Plan


class FactorMarginals(NamedTuple):
    """Answers for N potentials; if no assignment is possible, log_z is -inf and the rows are zero."""

    log_z: FloatArray  # [N]
    states: FloatArray  # [N, X] probabilities of the states of all variables
    entries: FloatArray  # [N, T] probabilities of the table entries of all factors


class FactorSums:
    """The two passes of one plan for graphs of tables, made once and run for any potentials.

    Every factor of two variables or more has a probe. The marginals of the other factors follow from the states.
    """

    def __init__(self, steps: Plan) -> None:
        if not isinstance(steps.found, Order):
            raise ValueError("An unfinished plan cannot be run. No elimination order within the limits was found.")
        s = steps.reduced.graph.structure
        self.structure = s
        probed = np.flatnonzero(s.arity > 1)
        probes = Probes(s, steps.found, probed)
        self._program = build_program(probes.structure, probes.order)
        self._slots, self._entries = self._places(probes, probed)
        single = np.flatnonzero(s.arity == 1)
        self._single_states = picked(s.state_ptr, s.scope_vars[s.scope_ptr[single]])[1]
        self._single_entries = picked(s.table_ptr, single)[1]
        self._constants = s.table_ptr[np.flatnonzero(s.arity == 0)]

    def run(self, log_phi: FloatArray) -> FactorMarginals:
        """Return the answers for log tables [N, T] of any floating type, computed in float64."""
        from equifactor.solvers.elimination.elimination_kernels import run_batch

        log_phi = np.ascontiguousarray(log_phi, np.float64)
        count, num_states = len(log_phi), int(self._program.clusters.dim.sum())
        p, log_z = np.zeros((count, num_states)), np.empty(count)
        entries = np.zeros((count, self.structure.num_entries))
        program = self._program
        tables, work = program.tables(reuse=False), program.workspace(marginals=True)
        run_batch(
            read_only(log_phi), True, p, log_z, (self._slots, self._entries, entries), tuple(program.groups),
            tuple(program.clusters), tuple(tables), tuple(work),
        )  # fmt: skip
        states = p[:, : int(self.structure.state_ptr[-1])]
        entries[:, self._single_entries] = states[:, self._single_states]
        entries[:, self._constants] = np.isfinite(log_z)[:, None]
        return FactorMarginals(log_z, states, entries)

    def _places(self, probes: Probes, probed: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the probabilities of the probed factors' entries lie after a pass, and the entries' numbers."""
        s = self.structure
        slots, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for a, start in zip(probed.tolist(), probes.starts(self._program).tolist(), strict=True):
            table = np.arange(s.table_ptr[a], s.table_ptr[a + 1]).reshape(s.shape(a))
            entries.append(table.transpose(probes.axes(s.scope(a))).ravel())
            slots.append(np.arange(start, start + table.size))
        return np.concatenate(slots), np.concatenate(entries)
