"""Graphs for PyTorch Geometric, for users with their own neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError
from equifactor.base.optional_packages import needed
from equifactor.factors.dense_graph import with_tables
from equifactor.kernels.pointers import place_in_row, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.structure import Structure

_MAX_PADDED = 2**28  # Entries of all padded rows at most: 1 GiB of float32. Chosen by hand.


@checks_types("tables")
def to_pyg(graph: FactorGraph, *, tables: str = "padded", width: int | None = None, floor: float | None = -30.0) -> Any:
    """Return a `torch_geometric.data.HeteroData` of variables and factors with edges both ways; `Batch` joins many.

    | store | attribute | shape | holds |
    |---|---|---|---|
    | variable | card | [V] | number of states |
    | variable | observed | [V] | observed state, -1 if free |
    | factor | arity, table_size | [F] | number of variables, number of table entries |
    | factor | log_table | [F, width] | the log table in C order, 0 after its end; with `tables="padded"` |
    | entry | log_value | [T] | all log tables one after the other; with `tables="ragged"` |
    | entry | place | [T] | the index of the entry in its table |
    | (entry, of, factor) | edge_index | [2, T] | the factor of each entry |
    | (variable, in, factor) | edge_index, slot | [2, E], [E] | the edges, and the axis of the variable in the table |
    | (factor, over, variable) | edge_index, slot | [2, E], [E] | the same in the other direction |

    Args:
        graph: any graph; structured factors become dense tables. Raises `ModelError` if one needs more than 2^20
            entries.
        tables: "padded" for one row per factor; "ragged" for one node per table entry, for large or unequal tables.
        width: length of the padded rows, by default the size of the largest table. The graphs of a batch need the same
            width.
        floor: log values below it, including true zeros, are raised to it, since a network turns -inf into NaN; None
            changes nothing.
    """
    if tables not in ("padded", "ragged"):
        raise OptionError(f"The option tables must be 'padded' or 'ragged', found {tables!r}.")
    if width is not None and tables == "ragged":
        raise OptionError("The option width is the length of padded rows, but tables='ragged' has no padded rows.")
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
    """Return the tables [F, width], one per row, with zeros after the end of each."""
    size = np.diff(structure.table_ptr)
    largest = int(size.max(initial=0))
    width = largest if width is None else width
    if width < largest:
        raise ModelError(
            f"Factor {int(np.argmax(size))} has {largest} table entries, more than width={width}. Pass a larger width."
        )
    if width * len(size) > _MAX_PADDED:
        raise ModelError(
            f"{len(size)} padded rows of {width} entries exceed the limit of 2^28 entries. The largest table sets the "
            'length of all rows. Pass tables="ragged", which does not pad.'
        )
    rows = np.zeros((len(size), width))
    rows[row_of(structure.table_ptr), place_in_row(structure.table_ptr)] = values
    return rows
