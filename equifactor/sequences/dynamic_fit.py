"""Tables of a dynamic network from sequences: expectation maximisation, with one table for all later slices.

The expected count of a table's entry is the sum of its probability over all slices and sequences, given the
observations. New tables are the counts, row by row, divided by their sums. Without missing values one round is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.status import Status
from equifactor.sequences.chain_sums import slice_sums
from equifactor.sequences.chained_products import Factor, eliminated
from equifactor.sequences.observed_rows import read_sequences, whole_number
from equifactor.sequences.slice_marginals import margin
from equifactor.sequences.slice_sums import Observed
from equifactor.sequences.unrolled_answers import log_z_of, solved

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.sequences.dynamic_network import DynamicNetwork
    from equifactor.sequences.observed_rows import Sequences
    from equifactor.sequences.slice_model import SliceModel

_BATCH_STATES = 2.0**16  # Joint states of all sequences that are computed side by side. Chosen by hand.
_STUCK = 1e-9  # A first round with a smaller gain per slice, while values are missing, means that EM cannot start.


@dataclass(frozen=True, eq=False)
class FittedSequences:
    """A dynamic network with fitted tables, and how the fit went."""

    network: DynamicNetwork
    log_likelihoods: tuple[float, ...] = field(repr=False)  # ln p(all observations) before each round and at the end
    converged: bool
    message: str = ""

    @property
    def log_likelihood(self) -> float:
        """The logarithm of the probability of all observations under the fitted network."""
        return self.log_likelihoods[-1]

    def __str__(self) -> str:
        rounds = len(self.log_likelihoods) - 1
        how = "converged" if self.converged else "not converged"
        gain = f"ln p {self.log_likelihoods[0]:.6g} -> {self.log_likelihood:.6g}"
        text = f"{how} after {rounds} round{'s' * (rounds != 1)}, {gain}"
        return f"{text}. {self.message}" if self.message else text


def fitted_sequences(
    network: DynamicNetwork,
    observations: Any,
    iterations: int,
    tolerance: float,
    pseudo_count: float,
    solver: Any,
    options: dict[str, Any],
) -> FittedSequences:
    """Return the network with tables that make the observations more probable; see `DynamicNetwork.fit`."""
    iterations = whole_number("iterations", iterations, 1)
    for name, value in (("tolerance", tolerance), ("pseudo_count", pseudo_count)):
        if not isinstance(value, (int, float)) or not 0.0 <= value < 2.0**63:
            raise ModelError(f"{name} must be a number that is not negative, found {brief(value)}.")
    sequences = read_sequences(network.first.structure, observations)
    slices = sum(len(s) for s in sequences.codes)
    complete = sequences.is_complete()
    history: list[float] = []
    converged = False
    for _ in range(iterations):
        counts = _Counts(network.model(sequences))
        if network.solves(counts.model, solver, options):
            counts.add_solved(network, sequences, network.how(solver, options))
        else:
            counts.add_all(network, sequences, 1 if complete else iterations)
        history.append(counts.log_likelihood)
        gain = history[-1] - history[-2] if len(history) > 1 else math.inf
        if gain < tolerance * slices:
            converged = True
            break
        network = network.with_tables(*counts.tables(network, pseudo_count))
        if complete:
            converged = True
            break
    if not converged or complete:
        history.append(float(np.sum(network.log_likelihoods(sequences, solver, options))))
    stuck = len(history) > 1 and not complete and history[1] - history[0] < _STUCK * slices
    message = "The first round changed nothing. Start from tables that are less symmetrical." if stuck else ""
    return FittedSequences(network, tuple(history), converged, message)


class _Counts:
    """Expected counts of all tables: of the first slice, and of later slices."""

    def __init__(self, model: SliceModel) -> None:
        self.model = model
        self.log_likelihood = 0.0
        self.found = [[np.zeros_like(f.table) for f in tables] for tables in (model.first, model.then)]
        self._in_parts = [{i for part in model.parts for i in part.families[k]} for k in (0, 1)]

    def add_solved(self, network: DynamicNetwork, sequences: Sequences, options: dict[str, Any]) -> None:
        """Add the counts of all sequences by a solver of the unrolled network."""
        V = len(self.model.first)
        for n, (seen, length) in enumerate(zip(network.seen_in(sequences), map(len, sequences.codes), strict=True)):
            result = solved(network, seen, "MAR", options)
            if result.status is Status.ZERO_PROBABILITY:
                raise ModelError(f"Sequence {n} is impossible under the tables at the start.")
            self.log_likelihood += log_z_of(result)
            s, states = network.unroll(length).structure, result.graph.observed
            for a in range(V * length):  # The factors are those of slice 0, then those of slice 1, ..
                known = [-1 if states is None else int(states[v]) for v in s.scope(a)]
                at = tuple(slice(None) if x < 0 else x for x in known)
                self.found[a >= V][a % V][at] += result.factor_marginals[a]

    def add_all(self, network: DynamicNetwork, sequences: Sequences, rounds: int) -> None:
        """Add the counts of all sequences by exact sums over slices."""
        model = self.model
        for numbers, codes in sequences.batches(max(1, int(_BATCH_STATES / model.num_states))):
            sums = slice_sums(Observed(model, codes, rounds=rounds))
            lengths = np.array([len(sequences.codes[n]) for n in numbers])
            for t0, p, before, inner in sums.smoothed():
                own = np.arange(t0, t0 + p.shape[1]) < lengths[:, None]  # [N, B] padding does not count
                self._add_parts(sums.observed, t0, p * own[:, :, None])
                if before is None:
                    self._add_first(p[:, 0])
                else:
                    self._add_pairs(before, inner, own)
            impossible = np.flatnonzero(sums.log_z == -np.inf)
            if len(impossible):
                network.check_impossible(model, sequences.codes[numbers[impossible[0]]])
                raise ModelError(f"Sequence {numbers[impossible[0]]} is impossible under the tables at the start.")
            self.log_likelihood += float(sums.log_z.sum())

    def tables(self, network: DynamicNetwork, pseudo_count: float) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return the new tables; a row without counts stays as it is."""
        first, then = self.found
        for i, name in enumerate(network.names):
            if name in network.shared:
                first[i] = then[i] = first[i] + then[i]
        for counts, groups in zip((first, then), network.tied, strict=True):
            for group in groups:
                total = np.sum([counts[i] for i in group], axis=0)
                for i in group:
                    counts[i] = total
        new: list[list[FloatArray]] = []
        for counts, families in zip((first, then), (self.model.first, self.model.then), strict=True):
            new.append([])
            for count, family in zip(counts, families, strict=True):
                raised = count + pseudo_count * (family.table > 0.0)
                total = raised.sum(axis=-1, keepdims=True)
                new[-1].append(np.where(total > 0.0, raised / np.where(total > 0.0, total, 1.0), family.table))
        return new[0], new[1]

    def _add_first(self, p: FloatArray) -> None:
        """Add the counts of tables over the state of the first slice."""
        model = self.model
        for i, family in enumerate(model.first):
            if i not in self._in_parts[0]:
                scope = tuple(v for v in model.state if v in family.scope)
                count = margin(p[:, None], model.state, scope, model.card).sum(axis=(0, 1))
                count = count.reshape([model.card[v] for v in scope])
                self.found[0][i] += count.transpose([scope.index(v) for v in family.scope])

    def _add_pairs(self, before: FloatArray, inner: FloatArray, own: Any) -> None:
        """Add the counts of tables over two slices: alpha [N, B, S] before, and e beta [N, B, S] of the later slice."""
        model, V = self.model, len(self.model.first)
        tables = [(i, f) for i, f in enumerate(model.then) if i not in self._in_parts[1]]
        if not tables:
            return
        groups = model.transitions()
        if model.is_dense:
            matrix = model.matrix()
            total = ((before @ matrix) * inner).sum(axis=2)
            weight = np.where(own & (total > 0.0), 1.0 / np.where(total > 0.0, total, 1.0), 0.0)
            S = matrix.shape[0]
            pairs = matrix * (before.reshape(-1, S).T @ (inner * weight[:, :, None]).reshape(-1, S))
            past = tuple(v - V for v in model.state)
            whole = Factor((*past, *model.state), pairs.reshape(*model.shape, *model.shape))
            for i, family in tables:
                self.found[1][i] += eliminated([whole], family.scope).table
            return
        for n, t in zip(*np.nonzero(own), strict=True):
            state = model.carried(before[n, t].reshape(1, *model.shape))[0]
            ends = [Factor(model.interface, state), Factor(model.state, inner[n, t].reshape(model.shape))]
            for i, family in tables:
                count = eliminated([*groups, *ends], family.scope).table
                self.found[1][i] += count / count.sum()

    def _add_parts(self, observed: Observed, t0: int, p: FloatArray) -> None:
        """Add the counts of the tables of all parts, given p(state) [N, B, S], zero where a slice does not count."""
        model, B = self.model, p.shape[1]
        for patterns in observed.patterns(t0):
            part = patterns.part
            if not part.variables:
                continue
            of_scope = margin(p, model.state, part.scope, model.card)
            weight = np.zeros((len(patterns.codes), of_scope.shape[2]))
            np.add.at(weight, patterns.index[:, t0 : t0 + B].ravel(), of_scope.reshape(-1, of_scope.shape[2]))
            factors = model.part_factors(part, patterns.codes, patterns.later)
            rows = np.exp(patterns.log_rows)
            share = np.where(rows > 0.0, weight.reshape(rows.shape) / np.where(rows > 0.0, rows, 1.0), 0.0)
            factors.append(Factor((-1, *part.scope), share))
            tables = model.then if patterns.later else model.first
            for i in part.families[patterns.later]:
                self.found[patterns.later][i] += eliminated(factors, tables[i].scope).table
