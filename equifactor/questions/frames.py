"""Answers as pandas data frames, by the names of variables and states; pandas is loaded when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import SolveError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from equifactor.result import Result
    from equifactor.typing import IntArray

    DataFrame = Any  # pandas.DataFrame: its types are not needed to use this package


def data_frame(columns: Mapping[str, Any]) -> DataFrame:
    """A data frame of these columns; one sentence where pandas is not installed."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise SolveError("a data frame needs pandas, which is not installed: pip install pandas") from None
    return pd.DataFrame(dict(columns))


def states_column(states: Sequence[int | str], at: IntArray) -> list[int | str]:
    """The states at these places, each text or a plain number."""
    return [states[x] for x in at.tolist()]


def frame_of(result: Result) -> DataFrame:
    """What `Result.to_frame` returns."""
    s = result.graph.structure
    names = s.variable_names or range(s.num_vars)
    state_names = s.state_names or (None,) * s.num_vars
    if result.assignment is not None:
        chosen = zip(state_names, result.assignment.tolist(), strict=True)
        return data_frame({"variable": list(names), "state": [x if own is None else own[x] for own, x in chosen]})
    if result.marginals is None:
        raise SolveError(
            f"this {result.task} result has neither marginals nor an assignment to put into a frame ({result.status})"
        )
    counts = np.diff(result.marginals.ptr).tolist()
    columns: dict[str, Any] = {
        "variable": [name for name, d in zip(names, counts, strict=True) for _ in range(d)],
        "state": [x for own, d in zip(state_names, counts, strict=True) for x in own or range(d)],
        "probability": np.array(result.marginals.values),
    }
    if result.standard_errors is not None:
        columns["standard_error"] = np.array(result.standard_errors.values)
    return data_frame(columns)
