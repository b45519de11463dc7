"""ln Z and the marginals of all variables *and factors* for many potentials on one structure, by two passes.

The derivative of ln Z in a log table is the marginal of the factor's variables, so this is also the gradient that
`CRF` and the learning of potentials share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.pointers import ptr_of
from equifactor.graph.structure import Structure
from equifactor.solvers.elimination.orders import Order
from equifactor.solvers.elimination.program import build_program

if TYPE_CHECKING:
    from equifactor.solvers.elimination.plan import Plan
    from equifactor.typing import FloatArray, IntArray


class FactorMarginals(NamedTuple):
    """Answers for N potentials; where no assignment is possible log_z is -inf and the rows are zero."""

    log_z: FloatArray  # [N]
    states: FloatArray  # [N, X] probabilities of the states of all variables
    entries: FloatArray  # [N, T] probabilities of the table entries of all factors


class FactorSums:
    """The two passes of one plan for graphs of tables, made once and run for any potentials.

    Every factor of two variables or more gets a variable of one state, eliminated just before the first of its
    variables. The separator of that cluster is the factor's scope, and the way down leaves the probabilities of every
    separator behind: the kernels of elimination give factor marginals as they are.
    """

    def __init__(self, steps: Plan) -> None:
        if not isinstance(steps.found, Order):
            raise ValueError("an unfinished plan cannot be run")
        s = steps.reduced.graph.structure
        self.structure = s
        probed = np.flatnonzero(s.arity > 1)
        structure, order = _with_probes(s, steps.found, probed)
        self._program = build_program(structure, order)
        self._slots, self._entries = self._places(s, order, probed)
        single = np.flatnonzero(s.arity == 1)
        states = [np.arange(s.state_ptr[v], s.state_ptr[v + 1]) for v in s.scope_vars[s.scope_ptr[single]].tolist()]
        entries = [np.arange(s.table_ptr[a], s.table_ptr[a + 1]) for a in single.tolist()]
        none = [np.zeros(0, np.int64)]
        self._single_states, self._single_entries = np.concatenate(states or none), np.concatenate(entries or none)
        self._constants = s.table_ptr[np.flatnonzero(s.arity == 0)]

    def run(self, log_phi: FloatArray) -> FactorMarginals:
        """The answers for log tables [N, T], any floating type; counted in float64."""
        from equifactor.solvers.elimination.factor_sums_kernels import run_with_factors

        log_phi = np.ascontiguousarray(log_phi, np.float64)
        count, num_states = len(log_phi), int(self._program.clusters.dim.sum())
        p, log_z = np.zeros((count, num_states)), np.empty(count)
        entries = np.zeros((count, self.structure.num_entries))
        program = self._program
        tables, work = program.tables(reuse=False), program.workspace(marginals=True)
        run_with_factors(
            log_phi, p, log_z, entries, self._slots, self._entries,
            tuple(program.groups), tuple(program.clusters), tuple(tables), tuple(work),
        )  # fmt: skip
        states = p[:, : int(self.structure.state_ptr[-1])]
        entries[:, self._single_entries] = states[:, self._single_states]
        entries[:, self._constants] = np.isfinite(log_z)[:, None]
        return FactorMarginals(log_z, states, entries)

    def _places(self, s: Structure, order: Order, probed: IntArray) -> tuple[IntArray, IntArray]:
        """Where the probabilities of the probed factors' entries lie after a pass, and which entries these are."""
        place = np.argsort(order.variables)
        slots, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        first = self._program.starts(reuse=False)[0][self._program.num_groups :]
        for n, a in enumerate(probed.tolist()):
            scope = s.scope(a)
            axes = np.argsort(-place[scope], kind="stable")
            table = np.arange(s.table_ptr[a], s.table_ptr[a + 1]).reshape(s.shape(a))
            entries.append(table.transpose(axes).ravel())
            start = first[place[s.num_vars + n]]
            slots.append(np.arange(start, start + table.size))
        return np.concatenate(slots), np.concatenate(entries)


def _with_probes(s: Structure, order: Order, probed: IntArray) -> tuple[Structure, Order]:
    """The structure in which the probed factors have one more variable, of one state, and the order with them."""
    place = np.argsort(order.variables)
    home = np.array([place[s.scope(a)].min() for a in probed.tolist()], np.int64)
    before = np.cumsum(np.bincount(home, minlength=s.num_vars))  # probes up to and including those of each cluster
    moved = np.arange(s.num_vars) + before  # new place of each cluster
    variables = np.empty(s.num_vars + len(probed), np.int64)
    variables[moved] = order.variables
    is_probe = np.ones(len(variables), bool)
    is_probe[moved] = False
    by_home = np.argsort(home, kind="stable")
    variables[is_probe] = s.num_vars + by_home
    separators, parent = [], np.empty(len(variables), np.int64)
    parent[moved] = np.where(order.parent < 0, -1, moved[order.parent])
    probe = iter(by_home.tolist())
    n = 0
    for at in range(len(variables)):
        if is_probe[at]:
            k = next(probe)
            separators.append(np.sort(moved[place[s.scope(int(probed[k]))]])[::-1])
            parent[at] = moved[home[k]]
        else:
            separators.append(moved[order.separators[order.sep_ptr[n] : order.sep_ptr[n + 1]]])
            n += 1
    sep_ptr = ptr_of([len(separator) for separator in separators])
    flat = np.concatenate([np.zeros(0, np.int64), *separators])
    structure = Structure.build(
        np.concatenate((s.card, np.ones(len(probed), np.int64))),
        s.scope_ptr + np.concatenate(([0], np.cumsum(s.arity > 1))),
        np.insert(s.scope_vars, s.scope_ptr[probed + 1], s.num_vars + np.arange(len(probed))),
    )
    return structure, Order(variables, sep_ptr, flat, parent, order.tries)
