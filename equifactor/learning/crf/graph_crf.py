"""A conditional random field on any graph: the module holds the structure, and any network computes the potentials."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.factors.lowered_graph import lower
from equifactor.graph import FactorGraph
from equifactor.kernels.pointers import picked
from equifactor.kernels.segments import finite
from equifactor.learning.crf.bp_sums import BPEngine
from equifactor.learning.crf.chain_crf import MOST_STATES, ChainCRF, CRFModule, check_count
from equifactor.learning.crf.chain_inputs import seen
from equifactor.learning.crf.factor_blocks import apart, blocks_of, common_shape, entry_indices, joined
from equifactor.learning.crf.plan_layer import PlanEngine, plan_sums, working
from equifactor.questions.solve import solve
from equifactor.solvers.elimination.exact_batch import plan_structure

Engine = Literal["auto", "exact", "bp"]

_MOST_VARIABLES = 2**27  # Variables of a graph at most, as a guard against typing errors. Chosen by hand.


class CRFAnswer(NamedTuple):
    """The result of `CRF.infer`; all fields but the last two are differentiable."""

    log_z: Tensor  # [*B]; with belief propagation the Bethe estimate
    marginals: Tensor  # [*B, V, d]; states that a variable does not have get probability 0
    factor_marginals: tuple[Tensor, ...]  # [*B, F, *shape] for each block of factors
    exact: bool
    change: Tensor | None  # [*B] the last change of the messages of belief propagation; None if exact


class CRF(CRFModule):
    """p(x) = exp(sum_a theta_a(x_a)) / Z for log potentials theta of any batch shape, on one structure.

    Inference is exact if elimination fits into memory: one pass up and one pass down along a plan give ln Z and all
    marginals. The marginals are the gradient of ln Z, and their own gradients are exact too. Otherwise belief
    propagation runs until its messages converge, with the gradients of the fixed point. Its results are estimates, and
    `infer(..).change` tells whether it converged. `crf.engine` and `print(crf)` tell which engine is used.

    Potentials are one tensor for each block of consecutive tables of one shape, with any leading batch axes.
    `crf.blocks` lists the blocks. A grid takes unaries [B, V, d], and pairs [B, E, d, d], [E, d, d], or [d, d] if all
    pairs share one table. `-inf` is an exact zero. Structured factors (`Parity`, `Clause`, ..) keep the values that
    they have in the graph.

    Exact inference works with `torch.compile`, `torch.func.vmap` and `torch.func.grad`. Belief propagation does not
    work in vmap, because it checks its messages for convergence.

    Args:
        graph: the structure; its tables are not used. It must not have evidence: use potentials of `-inf` instead.
        engine: "exact" raises `SolveError` if elimination does not fit, "bp" always uses belief propagation, and "auto"
            uses elimination if it fits.
        memory_limit: GiB that the elimination of one row of the batch may take.
        iterations: the largest number of steps of belief propagation.
        damping: the share of the old log message that belief propagation keeps.

    Examples:
        >>> import torch, equifactor as ef
        >>> crf = ef.CRF.grid(3, 3, 2)
        >>> crf
        CRF(9 variables, potentials [9, 2], [12, 2, 2], exact: width 3)
        >>> unary, pair = torch.zeros(5, 9, 2), torch.zeros(2, 2)
        >>> crf.log_z(unary, pair)[0]  # ln 2^9
        tensor(6.2383)
        >>> crf.marginals(unary, pair).shape
        torch.Size([5, 9, 2])
    """

    _first: Tensor  # [F] the first entry of each table
    _variable: Tensor  # [F, K] the variables of each table
    _stride: Tensor  # [F, K] the strides of these variables in the table
    _place: Tensor  # [X] the place of each state in [V, d]
    _card: Tensor  # [V] the number of states of each variable
    _entries: Tensor  # the places of table entries among all log values
    _own: Tensor  # the log values of the graph
    _lowered: Tensor  # tables that replace structured factors
    _image: tuple[int, int] | None = None  # rows and columns if unaries and states are shaped as images

    def __init__(
        self,
        graph: FactorGraph,
        *,
        engine: Engine = "auto",
        memory_limit: float = 0.25,
        iterations: int = 100,
        damping: float = 0.3,
    ) -> None:
        super().__init__()
        if not isinstance(engine, str) or engine not in get_args(Engine):
            raise OptionError(f"CRF: engine must be one of {', '.join(get_args(Engine))}, found {brief(engine)}.")
        if not isinstance(memory_limit, (int, float)) or not memory_limit >= 0:
            raise OptionError(f"CRF: memory_limit must be a number of GiB of at least 0, found {brief(memory_limit)}.")
        if not isinstance(graph, FactorGraph):
            raise ModelError(f"CRF needs a FactorGraph, found {type(graph).__name__}.")
        if graph.observed is not None:
            raise ModelError("CRF needs a graph without evidence. Give impossible states potentials of -inf instead.")
        s = graph.structure
        if not s.is_table.any():
            raise ModelError(
                "CRF needs a graph with at least one dense table, because potentials replace dense tables."
            )
        self.graph = graph
        tables = np.flatnonzero(s.is_table)
        self.blocks = blocks_of(s, tables)
        self._summation: PlanEngine | BPEngine
        self._summation = _plan_engine(graph, engine, memory_limit) or BPEngine(graph, iterations, damping)
        for name, array in zip(("first", "variable", "stride"), entry_indices(s, tables), strict=True):
            self.register_buffer(f"_{name}", torch.from_numpy(array), persistent=False)
        width = int(s.card.max(initial=1))
        state = np.arange(s.num_vars)[:, None] * width + np.arange(width)
        place = state[np.arange(width) < s.card[:, None]]
        self.register_buffer("_place", torch.from_numpy(place), persistent=False)
        self.register_buffer("_card", torch.from_numpy(s.card.copy()), persistent=False)
        self._width = width
        others = np.setdiff1d(np.arange(s.num_factors), tables)
        self._others: list[tuple[Any, Any]] = [(s.scope(int(a)).tolist(), graph.factor(int(a))) for a in others]
        entries = picked(s.table_ptr, tables)[1]
        self.register_buffer("_entries", torch.from_numpy(entries), persistent=False)
        self.register_buffer("_own", torch.from_numpy(graph.log_phi.copy()), persistent=False)
        lowered = lower(graph).graph.log_phi[len(entries) :].copy() if others.size else np.zeros(0)
        self.register_buffer("_lowered", torch.from_numpy(lowered), persistent=False)

    @classmethod
    @checks_types("image")
    def grid(cls, rows: int, columns: int, states: int, *, image: bool = False, **options: object) -> CRF:
        """Return a CRF on a grid of pixels, with unaries [rows * columns, d], then pairs [E, d, d].

        Horizontal pairs come first, row by row from left to right, then vertical pairs row by row. With `image` unaries
        and marginals are [*B, d, rows, columns] and states [*B, rows, columns], as in convolutional networks.
        """
        for name, given in (("rows", rows), ("columns", columns)):
            check_count(f"CRF: {name}", given, _MOST_VARIABLES)
        check_count("CRF: The number of pixels", rows * columns, _MOST_VARIABLES)
        pixel = np.arange(rows * columns).reshape(rows, columns)
        across = np.stack((pixel[:, :-1].ravel(), pixel[:, 1:].ravel()), 1)
        down = np.stack((pixel[:-1].ravel(), pixel[1:].ravel()), 1)
        crf = cls.pairs(rows * columns, np.concatenate((across, down)).tolist(), states, **options)
        crf._image = (rows, columns) if image else None
        return crf

    @classmethod
    def pairs(cls, variables: int, edges: Iterable[tuple[int, int]], states: int, **options: object) -> CRF:
        """Return a CRF with a factor for each variable [V, d], then a factor for each pair in `edges` [E, d, d]."""
        check_count("CRF: variables", variables, _MOST_VARIABLES)
        check_count("CRF: states", states, MOST_STATES)
        unary, pair = np.ones(states), np.ones((states, states))
        try:
            both = [[int(i), int(j)] for i, j in edges]
        except (TypeError, ValueError):
            raise ModelError(
                f"edges must be pairs of variables such as [(0, 1), (1, 2)], found {brief(edges)}."
            ) from None
        factors = [([v], unary) for v in range(variables)] + [(scope, pair) for scope in both]
        return cls(FactorGraph([states] * variables, factors), **options)  # type: ignore[arg-type]

    @staticmethod
    def chain(states: int, *, boundaries: bool = True) -> ChainCRF:
        """Return a `ChainCRF`, for sequences of any length with masks; its transitions belong to the module."""
        return ChainCRF(states, boundaries=boundaries)

    @property
    def engine(self) -> str:
        """`exact`, or `bp` for belief propagation."""
        return "exact" if isinstance(self._summation, PlanEngine) else "bp"

    def forward(self, *potentials: Tensor, states: Tensor) -> Tensor:
        """Return the log likelihood [*B] of assignments, as `log_likelihood` does."""
        return self.log_likelihood(*potentials, states=states)

    def log_likelihood(self, *potentials: Tensor, states: Tensor) -> Tensor:
        """Return ln p(states) [*B] for states [*B, V]: the log score minus ln Z or the Bethe estimate of ln Z."""
        log_phi, batch = self._joined(potentials)
        log_z = self._sums(log_phi)[0].reshape(batch)
        return self.log_score(*potentials, states=states) - finite(log_z)

    def log_score(self, *potentials: Tensor, states: Tensor) -> Tensor:
        """Return the log score [*B] of assignments [*B, V]: the sum of their potentials."""
        log_phi, batch = self._joined(potentials)
        num_vars = self.graph.num_vars
        if not isinstance(states, Tensor):
            raise ModelError(f"states must be a tensor of whole numbers, found {brief(states)}.")
        if self._image is not None:
            if states.shape[-2:] != self._image:
                raise ModelError(f"states must have shape [.., {_sizes(self._image)}], found {[*states.shape]}.")
            states = states.flatten(-2)
        if states.shape[-1:] != (num_vars,):
            raise ModelError(f"states must have shape [.., {num_vars}], one per variable, found {[*states.shape]}.")
        whole = common_shape(batch, states.shape[:-1])
        _check_states(states, self._card)
        x = states.expand(*whole, num_vars).reshape(-1, num_vars)
        entry = self._first + (x[:, self._variable] * self._stride).sum(-1)
        rows = log_phi.reshape(*batch, -1).expand(*whole, log_phi.shape[1]).reshape(len(x), -1)
        score = rows.gather(1, entry).sum(1)
        if self._others:
            rest = FactorGraph(self.graph.card.tolist(), self._others).log_score(x.cpu().numpy())
            score = score + torch.as_tensor(rest).to(score)
        return score.reshape(whole)

    def log_z(self, *potentials: Tensor) -> Tensor:
        """Return ln Z [*B], the log of the sum over all assignments."""
        return self.infer(*potentials).log_z

    def marginals(self, *potentials: Tensor) -> Tensor:
        """Return the probability [*B, V, d] of every state of every variable."""
        return self.infer(*potentials).marginals

    def factor_marginals(self, *potentials: Tensor) -> tuple[Tensor, ...]:
        """Return the joint probabilities of the variables of each factor, [*B, F, *shape] for each block."""
        return self.infer(*potentials).factor_marginals

    def infer(self, *potentials: Tensor) -> CRFAnswer:
        """Return ln Z, marginals and factor marginals together, and whether they are exact."""
        log_phi, batch = self._joined(potentials)
        log_z, states, entries, change = self._sums(log_phi)
        shape = (len(log_phi), self.graph.num_vars * self._width)
        wide = states.new_zeros(shape).index_copy(1, self._place, states)
        marginals = wide.reshape(*batch, self.graph.num_vars, self._width)
        if self._image is not None:
            marginals = marginals.mT.reshape(*batch, self._width, *self._image)
        return CRFAnswer(
            log_z.reshape(batch),
            marginals,
            apart(self.blocks, entries, batch),
            self.engine == "exact",
            None if change is None else change.reshape(batch),
        )

    @torch.no_grad()
    def map(self, *potentials: Tensor, solver: str = "srmp", time_limit: float | None = None) -> Tensor:
        """Return a most probable assignment [*B, V] of each row.

        The assignment is optimal if inference is exact. Otherwise a `solver` of the package finds it within
        `time_limit` seconds for the whole batch, and the assignment may not be optimal. `solve(graph, "MAP", solver)`
        also returns a bound.
        """
        log_phi, batch = self._joined(potentials)
        if isinstance(self._summation, PlanEngine) and not self._others:
            states = self._summation.batch.best(working(log_phi).T.contiguous())[1].T
        else:
            rows = self._all_values(log_phi).double().cpu().numpy()
            graphs = [self.graph.with_potentials(row, log=True) for row in rows]
            found = solve(graphs, "MAP", "exact" if self.engine == "exact" else solver, time_limit=time_limit)
            impossible = np.zeros(self.graph.num_vars, np.int64)  # If no assignment is possible, all are equally good.
            best = [getattr(result, "assignment", impossible) for result in found]
            states = torch.as_tensor(np.array(best), device=log_phi.device)
        return states.reshape(*batch, *(self._image or (self.graph.num_vars,)))

    def extra_repr(self) -> str:
        """Return the text that `print` shows."""
        blocks = ", ".join(map(str, self.blocks)) or "none"
        if self._image is not None:
            blocks = blocks.replace(str(self.blocks[0]), f"[{_sizes((self._width, *self._image))}]", 1)
        return f"{self.graph.num_vars} variables, potentials {blocks}, {_words(self._summation)}"

    def _joined(self, potentials: tuple[Tensor, ...]) -> tuple[Tensor, torch.Size]:
        """Return potentials as rows [B, T], and the leading axes; unaries of an image have their states first."""
        if self._image is not None and potentials and isinstance(potentials[0], Tensor):
            wanted = (self._width, *self._image)
            if potentials[0].shape[-3:] != wanted:
                raise ModelError(
                    f"Tensor 0 of the potentials must have shape [.., {_sizes(wanted)}] (image=True), found "
                    f"{[*potentials[0].shape]}."
                )
            potentials = (potentials[0].flatten(-2).movedim(-2, -1), *potentials[1:])
        return joined(self.blocks, potentials)

    def _all_values(self, log_phi: Tensor) -> Tensor:
        """Return the log values [B, T] of all factors: tables from `log_phi`, structured factors from the graph."""
        if not self._others:
            return log_phi
        return self._own.to(log_phi).expand(len(log_phi), -1).index_copy(1, self._entries, log_phi)

    def _sums(self, log_phi: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        if isinstance(self._summation, BPEngine):
            log_z, states, entries, change = self._summation.sums(self._all_values(log_phi))
            return log_z, states, entries.index_select(1, self._entries), change
        if self._others:  # Tables that replace structured factors come last.
            log_phi = torch.cat((log_phi, self._lowered.to(log_phi).expand(len(log_phi), -1)), 1)
        log_z, states, entries = plan_sums(self._summation, log_phi)
        return log_z, states[:, : len(self._place)], entries[:, : len(self._entries)], None


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _check_states(states: Tensor, card: Tensor) -> None:
    """Raise `ModelError` for states out of range, which would pick entries of other tables."""
    if states.dtype.is_floating_point or states.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise ModelError(f"states must be whole numbers, found a tensor of {states.dtype}.")
    if seen((states < 0) | (states >= card)):
        raise ModelError(f"A state is out of range: states are counted from 0, and variables have {_counts(card)}.")


def _counts(card: Tensor) -> str:
    low, high = int(card.min()), int(card.max())
    return f"{low} states" if low == high else f"{low} to {high} states"


def _plan_engine(graph: FactorGraph, wanted: str, memory_limit: float) -> PlanEngine | None:
    """Return the elimination if it is wanted and fits, otherwise None."""
    if wanted == "bp":
        return None
    plan = plan_structure(lower(graph).graph, memory_limit)
    if plan.fits(memory_limit):
        return PlanEngine(plan)
    if wanted == "exact":
        raise SolveError(f"{plan.excess(memory_limit)} Raise memory_limit, or use engine='bp'.")
    return None


def _words(engine: PlanEngine | BPEngine) -> str:
    if isinstance(engine, PlanEngine):
        return f"exact: width {engine.plan.width}"
    return f"belief propagation: at most {engine.iterations} steps"
