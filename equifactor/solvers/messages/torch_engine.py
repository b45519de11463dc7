"""Belief propagation on torch: every message of a whole batch at once, on any device, differentiable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import OptionError
from equifactor.solvers.messages.bp_engine import Answers, Settings, message_floor
from equifactor.torch_device import check_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph import FlatGraph
    from equifactor.solver import SolveContext


class TorchEngine:
    """Parallel schedule, sum or max semiring."""

    def __init__(self, flat: FlatGraph[np.ndarray], settings: Settings, context: SolveContext) -> None:
        check_device(context.device)
        if settings.schedule != "parallel":
            raise OptionError(
                f"schedule {settings.schedule} runs on the numba engine only (device cpu, dtype float64); "
                "the torch engine has schedule=parallel"
            )
        from equifactor.numerics import tensors as ops

        self.settings = settings
        self.floor = message_floor(flat)
        self.flat = flat.to(context.device, context.dtype)
        self.msg_fv = ops.first_messages(self.flat, settings.semiring)

    def sweep(self, count: int) -> NDArray[np.float64]:
        """So many parallel updates of all messages (Eq. 2 and 3 of the paper); [G] change of the last one."""
        from equifactor.numerics import tensors as ops

        for _ in range(count):
            msg_vf = ops.sum_of_other_factors(self.flat, self.msg_fv)
            new = ops.marginalize_tables(self.flat, msg_vf, self.settings.semiring)
            new = ops.hold_above(new, self.floor)
            old, self.msg_fv = self.msg_fv, ops.damp(new, self.msg_fv, self.settings.damping)
        if self.settings.tolerance == 0:
            return np.full(self.flat.num_graphs, np.inf)  # nobody asks, and looking would wait for the device
        return ops.change_per_graph(self.flat, new, old).double().cpu().numpy()

    def messages(self) -> NDArray[np.float64]:
        """[S] a copy on the CPU, in double precision."""
        return np.asarray(self.msg_fv.double().cpu().numpy())

    def answers(self) -> Answers:
        """Beliefs (Eq. 4), ln Z, states and bound."""
        from equifactor.numerics import tensors as ops

        log_b_v = ops.variable_log_beliefs(self.flat, self.msg_fv)
        return Answers(
            probabilities=ops.probabilities(self.flat, log_b_v).double().cpu().numpy(),
            states=ops.max_states(self.flat, log_b_v).cpu().numpy(),
            log_z=ops.bethe_log_z(self.flat, self.msg_fv).double().cpu().numpy(),
            upper_bound=ops.map_upper_bound(self.flat, self.msg_fv).double().cpu().numpy(),
        )
