"""The marginals of some variables: only the part of the graph is solved on which they depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from equifactor.graph import FactorGraph
from equifactor.questions.many_answers import target_numbers
from equifactor.questions.needed_part import needed_part
from equifactor.questions.result import Result

if TYPE_CHECKING:
    from equifactor.base.run_context import Progress
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.solve_settings import SolveSettings


def solve_targets(
    graph: FactorGraph,
    targets: Sequence[Variable],
    how: SolveSettings,
    *,
    threads: int | None,
    strict: bool,
    progress: Progress | bool,
) -> Result:
    """Return the marginals of the targets in a graph with its evidence; see `solve` for the other arguments."""
    from equifactor.questions.solve import solve

    part = needed_part(graph, target_numbers(graph, targets))
    found = solve(
        part.graph, "MAR", how.method(), time_limit=how.time_limit, seed=how.seed, device=how.device, dtype=how.dtype,
        threads=threads, strict=strict, progress=progress,
    )  # fmt: skip
    log_z = getattr(found, "log_z", None)
    if log_z is not None:
        log_z = None if part.log_left_out is None else log_z + part.log_left_out
    fields = {
        **vars(found),
        "graph": graph,
        "settings": how,
        "marginals": part.marginals(found.marginals) if hasattr(found, "marginals") else None,
        "standard_errors": part.errors(found.standard_errors),
        "marginal_errors": part.errors(found.marginal_errors),
        "log_z": log_z,
        "lower_bound": None,
        "upper_bound": None,
        "log_z_error": None if log_z is None else found.log_z_error,
    }
    return replace(found, **{name: value for name, value in fields.items() if name in found.__dataclass_fields__})
