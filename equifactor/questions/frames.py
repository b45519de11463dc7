"""Answers as pandas data frames, by the names of variables and states; pandas is loaded at the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.optional_packages import needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equifactor.questions.result import Result

    DataFrame = Any  # pandas.DataFrame: its types are not needed to use this package


def data_frame(columns: Mapping[str, Any]) -> DataFrame:
    """Return a data frame of these columns; raise a one-line error if pandas is not installed."""
    return needed("pandas", "to_frame").DataFrame(dict(columns))


def frame_of(result: Result) -> DataFrame:
    """Return the data frame of `Result.to_frame`."""
    s = result.graph.structure
    names = s.variable_names or range(s.num_vars)
    if hasattr(result, "assignment"):
        return data_frame({"variable": list(result.states), "state": list(result.states.values())})
    counts = np.diff(result.marginals.ptr).tolist()
    columns: dict[str, Any] = {
        "variable": [name for name, d in zip(names, counts, strict=True) for _ in range(d)],
        "state": [x for i, d in enumerate(counts) if d for x in s.states_of(i)],
        "probability": np.array(result.marginals.values),
    }
    if result.standard_errors is not None:
        columns["standard_error"] = np.array(result.standard_errors.values)
    if result.marginal_errors is not None:
        columns["error"] = np.array(result.marginal_errors.values)
    return data_frame(columns)
