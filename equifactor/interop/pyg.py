"""Graphs for PyTorch Geometric, for people who bring a network of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.base.optional_packages import needed
from equifactor.factors.dense_graph import with_tables
from equifactor.kernels.pointers import place_in_row, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure

_MAX_PADDED = 2**28  # 1 GiB of float32


def to_pyg(graph: FactorGraph, *, tables: str = "padded", width: int | None = None, floor: float | None = -30.0) -> Any:
    """A `torch_geometric.data.HeteroData` of variables and factors, with edges both ways; `Batch` joins many.

    | store | attribute | shape | holds |
    |---|---|---|---|
    | variable | card | [V] | number of states |
    | variable | observed | [V] | observed state, -1 where free |
    | factor | arity, table_size | [F] | number of variables, of table entries |
    | factor | log_table | [F, width] | the log table in C order, 0 behind its end; with `tables="padded"` |
    | entry | log_value | [T] | all log tables one after the other; with `tables="ragged"` |
    | entry | place | [T] | the place of the entry in its table |
    | (entry, of, factor) | edge_index | [2, T] | the factor of each entry |
    | (variable, in, factor) | edge_index, slot | [2, E], [E] | the edges, and the axis of the variable in the table |
    | (factor, over, variable) | edge_index, slot | [2, E], [E] | the same in the other direction |

    Args:
        graph: any graph; factors of other kinds become tables, `ModelError` where one has more than 2^20 entries.
        tables: "padded" for one row per factor, "ragged" for one node per table entry, which suits large or unequal
            tables.
        width: length of the padded rows; the largest table by default. Graphs that share a batch need one width.
        floor: log values below it, true zeros among them, are raised to it, since a network turns -inf into NaN; None
            leaves everything as it is.
    """
    if tables not in ("padded", "ragged"):
        raise OptionError(f"tables are 'padded' or 'ragged', found {tables!r}")
    if width is not None and tables == "ragged":
        raise OptionError("width is the length of padded rows; ragged tables have none")
    data_module, torch = needed("torch_geometric.data", "to_pyg"), needed("torch", "to_pyg")
    graph = with_tables(graph, "a HeteroData")
    s = graph.structure
    values = graph.log_phi if floor is None else np.maximum(graph.log_phi, floor)
    size = np.diff(s.table_ptr)
    data = data_module.HeteroData()
    variable, factor = data["variable"], data["factor"]
    variable.num_nodes, factor.num_nodes = s.num_vars, s.num_factors
    variable.card = torch.tensor(s.card)
    variable.observed = torch.tensor(np.full(s.num_vars, -1) if graph.observed is None else graph.observed)
    factor.arity, factor.table_size = torch.tensor(s.arity), torch.tensor(size)
    real = torch.get_default_dtype()
    if tables == "padded":
        factor.log_table = torch.tensor(_padded(s, values, width), dtype=real)
    else:
        entry = data["entry"]
        entry.num_nodes = s.num_entries
        entry.log_value = torch.tensor(values, dtype=real)
        entry.place = torch.tensor(place_in_row(s.table_ptr))
        owner = np.stack((np.arange(s.num_entries), row_of(s.table_ptr)))
        data["entry", "of", "factor"].edge_index = torch.tensor(owner)
    ends = torch.tensor(np.stack((s.scope_vars, s.factor_of_edge)))
    slot = torch.tensor(place_in_row(s.scope_ptr))
    data["variable", "in", "factor"].edge_index, data["variable", "in", "factor"].slot = ends, slot
    data["factor", "over", "variable"].edge_index = ends.flip(0)
    data["factor", "over", "variable"].slot = slot.clone()
    return data


def _padded(structure: Structure, values: FloatArray, width: int | None) -> FloatArray:
    """[F, width] one table per row, 0 behind its end."""
    size = np.diff(structure.table_ptr)
    largest = int(size.max(initial=0))
    width = largest if width is None else width
    if width < largest:
        raise ModelError(
            f"factor {int(np.argmax(size))} has {largest} table entries and the rows are to have {width}; give a width "
            "of at least that"
        )
    if width * len(size) > _MAX_PADDED:
        raise ModelError(
            f"{len(size)} rows of {width} entries are too large, since the largest table sets their length; give "
            'tables="ragged"'
        )
    rows = np.zeros((len(size), width))
    rows[row_of(structure.table_ptr), place_in_row(structure.table_ptr)] = values
    return rows
