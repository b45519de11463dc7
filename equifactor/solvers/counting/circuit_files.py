"""Files of whole circuits: one `.safetensors` file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import label, read_bytes, write_bytes
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.solvers.counting.circuit import LiteralCircuit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray
    from equifactor.solvers.counting.model_circuit import Circuit

_TYPES = {"<i8": "I64", "<i4": "I32", "<f8": "F64", "|u1": "U8"}  # The names of types of numbers in safetensors.
_KEY = "equifactor.circuit"
_ARRAYS = {"node_ptr", "arena", "log_weights", "state_literal", "is_value", "card", "constant"}
_PARAMETERS = {"entry_literal", "log_phi"}  # of circuits with parameters


def domain_of(card: IntArray, names: Sequence[str] | None, states: Sequence[Any] | None) -> FactorGraph:
    """Return a graph of variables without factors."""
    structure = Structure.build(card, [0], [], variable_names=names, state_names=states)
    return FactorGraph.trusted(structure, np.zeros(0), None)


def save_circuit(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit as one file, completely or not at all."""
    s, own = circuit.domain.structure, circuit.literals
    arrays: dict[str, NDArray[Any]] = {
        "node_ptr": own.node_ptr, "arena": own.arena, "log_weights": own.log_weights, "card": s.card,
        "state_literal": circuit.state_literal, "is_value": circuit.is_value.astype(np.uint8),
        "constant": np.array([circuit.constant]),
    }  # fmt: skip
    if circuit.entry_literal is not None and circuit.log_phi is not None:
        arrays |= {"entry_literal": circuit.entry_literal, "log_phi": circuit.log_phi}
    names = json.dumps({"variables": s.variable_names, "states": s.state_names, "chance": circuit.has_chance})
    write_bytes(path, _packed(arrays, {_KEY: names}))


def load_circuit(path: PathLike) -> Circuit:
    """Read a file that `save_circuit` wrote; raises `FormatError`."""
    from equifactor.solvers.counting.model_circuit import Circuit

    where, data = label(path), read_bytes(path)
    try:
        arrays, metadata = _unpacked(data)
        names = json.loads(metadata[_KEY])
        named = names["variables"], names["states"], names["chance"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise FormatError(f"{where}: expected a file that Circuit.save wrote, found another file.") from None
    if set(arrays) not in (_ARRAYS, _ARRAYS | _PARAMETERS) or not _fit_together(arrays):
        raise FormatError(f"{where}: the arrays of this circuit do not fit together. Compile the model again.")
    return Circuit(
        literals=LiteralCircuit(arrays["node_ptr"], arrays["arena"], arrays["log_weights"]),
        domain=domain_of(arrays["card"], *named[:2]),
        state_literal=arrays["state_literal"],
        is_value=arrays["is_value"].astype(bool),
        constant=float(arrays["constant"][0]),
        has_chance=bool(named[2]),
        entry_literal=arrays.get("entry_literal"),
        log_phi=arrays.get("log_phi"),
    )


def _packed(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return arrays in the format safetensors: the size of a JSON header, the header, and the bytes of the arrays."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end, parts = 0, []
    for name in sorted(arrays, key=lambda name: (-arrays[name].itemsize, name)):  # wide numbers first: all are aligned
        part = np.ascontiguousarray(arrays[name])
        shape, begin, end = list(part.shape), end, end + part.nbytes
        header[name] = {"dtype": _TYPES[part.dtype.str], "shape": shape, "data_offsets": [begin, end]}
        parts.append(part.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def _unpacked(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and the metadata of a file that `_packed` made; raises `ValueError` or the like for others."""
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    metadata = header.pop("__metadata__")
    types = {name: dtype for dtype, name in _TYPES.items()}
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data) - size:
            raise ValueError(name)
        # A copy is writeable, as the arrays of a new circuit are: Numba would compile the kernels again.
        arrays[name] = (
            np.frombuffer(data[size + begin : size + end], types[entry["dtype"]]).reshape(entry["shape"]).copy()
        )
    return arrays, metadata


def _fit_together(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether no index of a file leads outside its arrays, and children come before their parents."""
    ptr, arena, weights = arrays["node_ptr"], arrays["arena"], arrays["log_weights"]
    n = len(weights) // 2
    if any(a.ndim != 1 for a in arrays.values()) or len(ptr) < 2 or len(weights) % 2 or len(arrays["constant"]) != 1:
        return False
    if (
        ptr.dtype != np.int64
        or arena.dtype != np.int32
        or weights.dtype != np.float64
        or ptr[0]
        or ptr[-1] != len(arena)
    ):
        return False
    if np.any(np.diff(ptr) < 2) or len(arrays["is_value"]) != n or np.isnan(weights).any() or np.any(weights == np.inf):
        return False
    sizes = arena[ptr[:-1, None] + np.arange(2)]
    if np.any(sizes < -1) or np.any(np.maximum(sizes, 0).sum(axis=1) + 2 != np.diff(ptr)):
        return False
    is_item = np.ones(len(arena), bool)
    is_item[ptr[:-1, None] + np.arange(2)] = False
    items, owner = arena[is_item], np.repeat(np.arange(len(ptr) - 1), np.diff(ptr) - 2)
    literal, card = arrays["state_literal"], arrays["card"]
    entry = arrays.get("entry_literal", literal)
    log_phi = arrays.get("log_phi", np.zeros(len(entry)))
    return bool(
        np.all(items < 3 * n)
        and np.all(-1 - items < owner)
        and literal.dtype == card.dtype == np.int64
        and np.all(card >= 1)
        and card.sum() == len(literal)
        and np.all((literal >= -2) & (literal < 2 * n))
        and entry.dtype == np.int64
        and log_phi.dtype == np.float64
        and log_phi.shape == entry.shape
        and np.all(log_phi < np.inf)
        and np.all((entry >= -2) & (entry < 2 * n))
    )
