"""The settings of a result: the arguments that are needed to ask the same solver again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from equifactor.solving.solver import SolveContext, Solver


@dataclass(frozen=True)
class SolveSettings:
    """The arguments of one call of `solve`, shared by all its results; small, and pickled without the solver itself."""

    solver: Solver | str
    seed: int = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float64"
    time_limit: float | None = None

    def method(self) -> Solver:
        """Return the solver, built from its text form after unpickling."""
        from equifactor.solving.registry import parse_solver

        return parse_solver(self.solver)

    def context(self, time_limit: float | None = None) -> SolveContext:
        """Return the context of another run."""
        from equifactor.base.clock import Clock
        from equifactor.solving.solver import SolveContext

        return SolveContext(clock=Clock(time_limit), seed=self.seed, device=self.device, dtype=self.dtype, threads=None)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "solver": str(self.solver)}
