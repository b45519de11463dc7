"""Belief propagation on torch: every message of a whole batch at once, on any device, differentiable."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.torch_device import check_device
from equifactor.factors.table_ranges import message_floor
from equifactor.graph.repeated_graph import RepeatedGraph
from equifactor.solvers.messages.bp_engine import BpAnswers, BpPart, BpSettings

if TYPE_CHECKING:
    from torch import Tensor

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph
    from equifactor.solving.solver import SolveContext


class TorchEngine:
    """The engine of the parallel schedule on torch, sum or max semiring."""

    name = "torch"

    def __init__(self, flat: FlatGraph[np.ndarray], settings: BpSettings, context: SolveContext) -> None:
        check_device(context.device, "bp on the torch engine")
        if settings.schedule != "parallel":
            raise OptionError(
                f"schedule={settings.schedule} runs on the numba engine only (device cpu, dtype float64). "
                "For the torch engine, pass schedule=parallel."
            )
        from equifactor.factors import tensors

        self.settings = settings
        self.flat = flat.to(context.device, context.dtype)
        self.floor = message_floor(self.flat)  # the floor of the tables after rounding to the float type
        self.compiled = flat
        self.kinds = tensors.structured_of(self.flat)
        self.msg_fv = tensors.first_messages(self.flat, settings.semiring)

    def sweep(self, count: int) -> FloatArray:
        """Update all messages `count` times (Eq. 2 and 3 of [Sun21]); return the change [G] of the last update."""
        from equifactor.factors import tensors

        for _ in range(count):
            msg_vf = tensors.sum_of_other_factors(self.flat, self.msg_fv)
            new = tensors.marginalize_tables(self.flat, msg_vf, self.settings.semiring, self.kinds)
            new = tensors.hold_above(new, self.floor)
            old, self.msg_fv = self.msg_fv, tensors.damp(new, self.msg_fv, self.settings.damping)
        if self.settings.tolerance == 0:
            # the change is not needed, and reading it would wait for the device
            return np.full(self.flat.num_graphs, np.inf)
        return tensors.change_per_graph(self.flat, new, old).double().cpu().numpy()

    def messages(self) -> FloatArray:
        """Return a copy of the messages [S] on the CPU, in double precision."""
        return np.asarray(self.msg_fv.double().cpu().numpy())

    def take(self, graphs: IntArray) -> BpPart:
        """Return a copy of the messages of some graphs, on the device."""
        return BpPart(self.msg_fv[self._rows(graphs)], 0)

    def put(self, graphs: IntArray, part: BpPart) -> None:
        """Set the messages of some graphs."""
        self.msg_fv.index_copy_(0, self._rows(graphs), part.messages)

    def _rows(self, graphs: IntArray) -> Tensor:
        """Return the edge states of some graphs, on the device."""
        import torch

        if isinstance(self.compiled, RepeatedGraph):
            return self.compiled.edge_states_on(graphs, self.msg_fv.device)
        return torch.as_tensor(self.compiled.edge_states_of(graphs), device=self.msg_fv.device)

    def rest(self, graphs: IntArray) -> None:
        """Do nothing: a graph costs the same for all messages."""

    def answers(self, with_log_z: bool = True) -> BpAnswers:
        """Return beliefs (Eq. 4), ln Z, states and bound."""
        import torch

        from equifactor.factors import tensors
        from equifactor.solvers.duals.map_bounds import upper_bound_of

        log_b_v = tensors.variable_log_beliefs(self.flat, self.msg_fv)
        wide = self.flat
        if self.settings.semiring == "max" or self.flat.structured:
            # A bound must hold for the given model, not for its tables rounded to single precision. For factors of a
            # thousand variables, single precision leaves no digits after the point of ln Z.
            wide = replace(self.flat, log_phi=torch.tensor(self.compiled.log_phi, device=self.msg_fv.device))
        log_z = bound = np.full(self.flat.num_graphs, np.nan)
        if self.settings.semiring == "max":
            bound = upper_bound_of(wide, self.msg_fv.double()).cpu().numpy()
        else:
            log_z = tensors.bethe_log_z(wide, self.msg_fv.to(wide.log_phi.dtype)).double().cpu().numpy()
        return BpAnswers(
            probabilities=tensors.probabilities(self.flat, log_b_v).double().cpu().numpy(),
            states=tensors.max_states(self.flat, log_b_v).cpu().numpy(),
            log_z=log_z,
            upper_bound=bound,
        )
