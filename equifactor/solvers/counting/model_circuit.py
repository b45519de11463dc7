"""A model compiled once into a circuit, which then answers questions about any evidence in microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.run_context import check_run
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.marginals import Marginals
from equifactor.kernels.pointers import picked
from equifactor.solvers.counting.circuit import LiteralCircuit
from equifactor.solvers.counting.circuit_files import domain_of, load_circuit, save_circuit
from equifactor.solvers.counting.circuit_program import downward, program_of
from equifactor.solvers.counting.nnf_files import read_nnf, write_nnf

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.solvers.counting.circuit_module import CircuitModule
    from equifactor.solvers.counting.circuit_program import CircuitProgram, CircuitSums

Evidence = Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | np.ndarray | None
IMPOSSIBLE, CERTAIN = -1, -2  # In place of the literal of a state that no evidence can change.
NOTHING = "No assignment of the model is possible, so it has no circuit."
_MOST_STATES = 2**31  # States of all samples of one call: 16 GiB.
_NO_CHANCE = "The evidence has probability zero. Check it against the zeros of the model."


@dataclass(frozen=True, eq=False)
class Circuit:
    """A model as a circuit of sums and products: `ef.compile_circuit` makes it, and `save` keeps it.

    Evidence is a mapping as for `graph.condition`, a list of mappings, or an array [N, V] of states with -1 for free
    variables. An answer for a single mapping or for None has no axis N.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 0.0], [1.0, 1.0]])])
        >>> circuit = ef.compile_circuit(graph)
        >>> circuit.marginals({1: 0})[0].round(3)
        array([0.4, 0.6])
        >>> circuit.log_z([{0: 0}, {0: 1}, {0: 0, 1: 1}]).round(3)
        array([0.693, 1.792,  -inf])
    """

    literals: LiteralCircuit
    domain: FactorGraph  # the variables, without factors
    state_literal: IntArray  # [X] literal of each state; -1: impossible, -2: certain
    is_value: BoolArray  # [n] which variables of the circuit stand for values of factors
    constant: float  # added to the log of every sum
    has_chance: bool  # whether some auxiliary variables are random, so that the best assignment is not known
    entry_literal: IntArray | None = None  # [T] literal of each table entry, -1 for zeros; None without parameters
    log_phi: FloatArray | None = None  # [T] the log entries; None without parameters

    def __repr__(self) -> str:
        return f"Circuit({self.domain.num_vars:,} variables, {self.num_nodes:,} nodes, {self.num_edges:,} edges)"

    @property
    def num_nodes(self) -> int:
        """The number of nodes; each is a sum of at most two products."""
        return self.literals.num_nodes

    @property
    def num_edges(self) -> int:
        """The number of factors of all products."""
        return self.literals.num_edges

    def log_z(self, evidence: Evidence = None) -> Any:
        """Return ln Z given the evidence, or an array [N]; `-inf` where the evidence is impossible."""
        rows, single = self._rows(evidence)
        log_z, _ = self._ask(rows, np.zeros(0, np.int64))
        return float(log_z[0]) if single else log_z

    def marginals(self, evidence: Evidence = None) -> Any:
        """Return the `Marginals` given the evidence, or an array [N, X] of the probabilities of all states.

        X counts the states of all variables, one variable after the other. Raises `ModelError` if single evidence is
        impossible; impossible rows of many are zero.
        """
        rows, single = self._rows(evidence)
        log_z, p = self._ask(rows, np.arange(len(self.state_literal)))
        if not single:
            return p
        if log_z[0] == -np.inf:
            raise ModelError(_NO_CHANCE)
        s = self.domain.structure
        return Marginals(p[0], s.state_ptr, s)

    def ask(self, states: IntArray, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ln Z [N] given states [N, V], -1 for free variables, and the marginals of some variables side by side.

        Rows that are impossible have -inf and zeros. The states are not checked.
        """
        return self._ask(states, picked(self.domain.structure.state_ptr, targets)[1])

    def gradient(self, evidence: Evidence = None) -> tuple[Any, FloatArray]:
        """Return ln Z, and its derivatives [T] by all log entries of the model's tables; [N] and [N, T] for many sets.

        The derivative by a log entry is the probability of its states; it is 0 for zeros. Needs
        `compile_circuit(graph, parameters=True)`. The entries are those of `graph.log_phi`.
        """
        literal = self._entries()
        rows, single = self._rows(evidence)
        log_z, slope = np.full(len(rows), -np.inf), np.zeros((len(rows), len(literal)))
        for n, row in enumerate(rows):
            weights = self._weights(row)
            if weights is None:
                continue
            total, share = self.literals.log_sum_and_shares(weights)
            log_z[n] = total + self.constant
            slope[n] = np.where(literal >= 0, share[literal], 0.0)
        return (float(log_z[0]), slope[0]) if single else (log_z, slope)

    def with_log_phi(self, log_phi: FloatArray) -> Circuit:
        """Return the circuit of the model with other log entries [T]; zeros of the compiled model stay zeros."""
        literal = self._entries()
        values = np.asarray(log_phi, np.float64)
        if values.shape != literal.shape or np.isnan(values).any() or np.any(values == np.inf):
            raise ModelError(
                f"Expected {len(literal):,} log entries below infinity, one for each entry of the tables, found an "
                f"array of shape {values.shape}."
            )
        values = np.where(literal >= 0, values, -np.inf)
        weights = np.zeros_like(self.literals.log_weights)
        np.add.at(weights, literal[literal >= 0], values[literal >= 0])
        return replace(self, literals=replace(self.literals, log_weights=weights), log_phi=values)

    def torch(self) -> CircuitModule:
        """Return the circuit as a `torch.nn.Module`: `module(evidence)` is ln Z, with gradients in `module.log_phi`."""
        from equifactor.solvers.counting.circuit_module import CircuitModule

        return CircuitModule(self)

    def _entries(self) -> IntArray:
        """Return the literal [T] of each table entry."""
        if self.entry_literal is None:
            raise ModelError("The entries of this circuit are fixed. Compile it with parameters=True.")
        return self.entry_literal

    def best(self, evidence: Evidence = None) -> tuple[IntArray, float]:
        """Return an assignment [V] of the highest score given single evidence, and its log score."""
        if self.has_chance:
            raise ModelError("Noisy-or factors have random auxiliary variables here. Use solve(graph, 'MAP') instead.")
        weights = self._single(evidence)
        weights[1::2][self.is_value] = 0.0  # the variable of a value that does not apply must not cost anything
        literals = self.literals.best(weights)
        score = float(weights[literals].sum()) + self.constant
        return self._states(literals[None, :])[0], score

    @checks_types("count", "seed")
    def sample(self, count: int, evidence: Evidence = None, *, seed: int = 0) -> IntArray:
        """Return [count, V] independent exact samples given single evidence."""
        check_run(None, seed, False)
        if not 0 <= count <= _MOST_STATES // max(1, self.domain.structure.num_vars):
            raise OptionError(f"count must be a number of samples that fit into memory, found {brief(count)}.")
        weights = self._single(evidence)
        return self._states(self.literals.draw(weights, count, np.random.default_rng(seed)))

    def count(self) -> int:
        """Return the number of assignments that are possible, of any size; see also `count_assignments`."""
        if self.is_value.any() or self.has_chance:
            raise ModelError("Tables with several values hide the count. Use ef.solvers.count_assignments(graph).")
        return self.literals.count()

    @checks_types("path")
    def save(self, path: PathLike) -> None:
        """Write the circuit as one `.safetensors` file, completely or not at all."""
        save_circuit(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Circuit:
        """Read a circuit that `save` wrote; raises `FormatError`."""
        return load_circuit(path)

    @checks_types("path")
    def write_nnf(self, path: PathLike, *, form: Literal["c2d", "d4"] = "c2d") -> None:
        """Write the circuit as d-DNNF in the form of c2d or d4; weights and states are not part of such a file.

        Variable i of a graph of two-state variables has the literal `state_literal`; see docs/solvers/counting.md.
        """
        write_nnf(self.literals, path, form)

    @classmethod
    def read_nnf(cls, path: PathLike, *, num_vars: int | None = None) -> Circuit:
        """Read d-DNNF in the form of c2d or d4: variables of two states, and weight 1 for every literal.

        Files of d4 do not tell `num_vars`: without it, variables after the last one that occurs are missing.
        """
        own = read_nnf(path, num_vars)
        n = len(own.log_weights) // 2
        literal = np.arange(2 * n).reshape(-1, 2)[:, ::-1].ravel()
        return cls(own, domain_of(np.full(n, 2), None, None), literal, np.zeros(n, bool), 0.0, False)

    def _rows(self, evidence: Evidence) -> tuple[IntArray, bool]:
        """Return [N, V] states with -1 for free variables, and whether the evidence was a single one."""
        s = self.domain.structure
        if isinstance(evidence, np.ndarray):
            if evidence.ndim != 2 or evidence.shape[1] != s.num_vars or evidence.dtype.kind not in "iu":
                raise ModelError(
                    f"Evidence must be an array of whole numbers [N, {s.num_vars}], found shape {evidence.shape} of "
                    f"{evidence.dtype}. Write -1 for free variables."
                )
            if np.any(evidence >= s.card) or np.any(evidence < -1):
                raise ModelError("A state of the evidence is out of range. States count from 0; -1 is a free variable.")
            return evidence.astype(np.int64), False
        if evidence is None or isinstance(evidence, Mapping):
            return self._row(evidence or {})[None, :], True
        if not isinstance(evidence, Sequence) or isinstance(evidence, str):
            raise ModelError(f"Evidence must be a mapping, a list of mappings or an array, found {brief(evidence)}.")
        return np.array([self._row(one) for one in evidence], np.int64).reshape(len(evidence), s.num_vars), False

    def _row(self, evidence: Mapping[Any, Any]) -> IntArray:
        given = self.domain.condition(evidence)
        if given.num_factors:
            raise ModelError("A circuit takes observed states only. Add factors for weights before you compile it.")
        return np.full(self.domain.num_vars, -1) if given.observed is None else given.observed

    def _weights(self, row: IntArray) -> FloatArray | None:
        """Return the log weights [2n] given a row [V] of evidence; None if it has an impossible state."""
        s = self.domain.structure
        observed = np.repeat(row >= 0, s.card)
        seen = s.state_ptr[:-1][row >= 0] + row[row >= 0]
        if np.any(self.state_literal[seen] == IMPOSSIBLE):
            return None
        observed[seen] = False
        out = self.state_literal[observed]
        weights = self.literals.log_weights.copy()
        weights[out[out >= 0]] = -np.inf
        return weights

    def _single(self, evidence: Evidence) -> FloatArray:
        """Return [2n] the log weights given single evidence, which must be possible."""
        rows, single = self._rows(evidence)
        if not single:
            raise ModelError("This question takes one mapping of evidence at a time.")
        weights = self._weights(rows[0])
        if weights is None or self.literals.log_sum_and_shares(weights)[0] == -np.inf:
            raise ModelError(_NO_CHANCE)
        return weights

    @cached_property
    def _program(self) -> CircuitProgram:
        """The sum of the circuit as a program of the literals that evidence excludes."""
        is_open = np.zeros(len(self.literals.log_weights), bool)
        is_open[self.state_literal[self.state_literal >= 0]] = True
        return program_of(self.literals, is_open)

    @cached_property
    def _leaves(self) -> IntArray:
        """[X] the place of the leaf of each state in the program; -1 and -2 as in `state_literal`."""
        return np.append(self._program.leaf, (CERTAIN, IMPOSSIBLE))[self.state_literal]

    @cached_property
    def _ways_down(self) -> dict[bytes, CircuitSums]:
        """The sums from the root to the leaves, by the leaves that were asked."""
        return {}

    @cached_property
    def _log_sum(self) -> float:
        """The sum without evidence."""
        return self.literals.log_sum_and_shares()[0] + self.constant

    def _ask(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ln Z [N], and the probabilities [N, columns] of some states."""
        from equifactor.solvers.counting.circuit_kernels import LANES, SMALLEST, ask_lanes

        program, asked = self._program, self._leaves[columns]
        down = self._ways_down.get(asked.tobytes())
        if down is None:
            down = self._ways_down[asked.tobytes()] = downward(program, asked[asked >= 0])
        asked = np.where(np.isin(asked, (*down.places, program.root, CERTAIN)), asked, IMPOSSIBLE)
        log_z, p = np.empty(len(rows)), np.empty((len(rows), len(asked)))
        values, above = _room(program.num_values * LANES), _room(program.num_values * LANES)
        ask_lanes(
            rows, (self.domain.structure.state_ptr, self._leaves), tuple(program.upward), tuple(down), program.root,
            asked, values, above, log_z, p,
        )  # fmt: skip
        log_z += self._log_sum
        if program.least < np.log(SMALLEST):
            for row in np.flatnonzero(log_z - self._log_sum < np.log(SMALLEST)).tolist():
                log_z[row], p[row] = self._ask_in_logs(rows[row], columns)
        return log_z, p

    def _ask_in_logs(self, row: IntArray, columns: IntArray) -> tuple[float, FloatArray]:
        """Return what `_ask` returns for one row [V] whose sum is zero or too small for a number."""
        weights = self._weights(row)
        log_z, p = (-np.inf, np.zeros(0)) if weights is None else self.literals.log_sum_and_shares(weights)
        if log_z == -np.inf:
            return log_z, np.zeros(len(columns))
        literal = self.state_literal[columns]
        return log_z + self.constant, np.where(literal >= 0, p[literal], literal == CERTAIN)

    def _states(self, literals: IntArray) -> IntArray:
        """Return [N, V] states from literals [N, n]."""
        s = self.domain.structure
        true = np.zeros((len(literals), len(self.literals.log_weights) + 2), bool)
        true[np.arange(len(literals))[:, None], literals] = True
        true[:, CERTAIN] = True  # the last but one column; the last one stays false for impossible states
        holds = true[:, self.state_literal]
        place = np.arange(len(self.state_literal)) - np.repeat(s.state_ptr[:-1], s.card)
        return (
            np.add.reduceat(holds * place, s.state_ptr[:-1], axis=1)
            if s.num_vars
            else np.zeros((len(literals), 0), int)
        )


def _room(size: int) -> FloatArray:
    """Return room for doubles that begins at a cache line."""
    room = np.empty(size + 8)
    first = -room.ctypes.data // 8 % 8
    return room[first : first + size]
