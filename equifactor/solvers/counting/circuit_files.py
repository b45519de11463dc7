"""Files of circuits: `.safetensors` for whole ones, and d-DNNF (`.nnf`) as c2d writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.files import label, read_bytes, write_bytes, write_text
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.counting.circuit import LiteralCircuit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from equifactor.base.files import PathLike
    from equifactor.base.typing import IntArray
    from equifactor.solvers.counting.model_circuit import Circuit

_TYPES = {"<i8": "I64", "<i4": "I32", "<f8": "F64", "|u1": "U8"}  # The names of types of numbers in safetensors.
_KEY = "equifactor.circuit"
_ARRAYS = {"node_ptr", "arena", "log_weights", "state_literal", "is_value", "card", "constant"}


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
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise FormatError(f"{where}: expected a file that Circuit.save wrote, found another file.") from None
    if set(arrays) != _ARRAYS or not _fit_together(arrays):
        raise FormatError(f"{where}: the arrays of this circuit do not fit together. Compile the model again.")
    return Circuit(
        literals=LiteralCircuit(arrays["node_ptr"], arrays["arena"], arrays["log_weights"]),
        domain=domain_of(arrays["card"], *named[:2]),
        state_literal=arrays["state_literal"],
        is_value=arrays["is_value"].astype(bool),
        constant=float(arrays["constant"][0]),
        has_chance=bool(named[2]),
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
    return bool(
        np.all(items < 3 * n)
        and np.all(-1 - items < owner)
        and literal.dtype == card.dtype == np.int64
        and np.all(card >= 1)
        and card.sum() == len(literal)
        and np.all((literal >= -2) & (literal < 2 * n))
    )


def write_nnf(circuit: LiteralCircuit, path: PathLike) -> None:
    """Write a circuit as d-DNNF in the form of c2d: `nnf NODES EDGES VARIABLES`, and lines L, A and O."""
    lines = [*_nnf_lines(circuit)]
    edges = sum(len(line.split()) - (3 if line[0] == "O" else 2) for line in lines if line[0] != "L")
    write_text(path, [f"nnf {len(lines)} {edges} {len(circuit.log_weights) // 2}\n", *lines])


def _nnf_lines(circuit: LiteralCircuit) -> Iterator[str]:
    n, count = len(circuit.log_weights) // 2, 0
    arena, ptr = circuit.arena.tolist(), circuit.node_ptr.tolist()
    leaf: dict[int, int] = {}
    place: list[int] = []  # the line of each node
    for k in range(circuit.num_nodes):
        at, products, decision = ptr[k] + 2, [], 0
        for size in arena[ptr[k] : ptr[k] + 2]:
            items = arena[at : at + max(0, size)]
            at += max(0, size)
            for x in items:
                if x >= 2 * n and x not in leaf:
                    v = x - 2 * n
                    yield f"L {v + 1}\n"
                    yield f"L {-v - 1}\n"
                    yield f"O {v + 1} 2 {count} {count + 1}\n"
                    leaf[x], count = count + 2, count + 3
                elif 0 <= x < 2 * n and x not in leaf:
                    yield f"L {-(x >> 1) - 1 if x & 1 else (x >> 1) + 1}\n"
                    leaf[x], count = count, count + 1
            if size >= 0:
                children = [leaf[x] if x >= 0 else place[-1 - x] for x in items]
                yield f"A {' '.join(map(str, [len(children), *children]))}\n"
                products.append(count)
                count += 1
                decision = decision or next((1 + (x >> 1) for x in items if 0 <= x < 2 * n), 0)
        if len(products) != 1:
            yield f"O {decision} {' '.join(map(str, [len(products), *products]))}\n"
            count += 1
        place.append(count - 1)


def read_nnf(path: PathLike) -> LiteralCircuit:
    """Read d-DNNF in the form of c2d; nodes are made smooth, and all weights are 1. Raises `FormatError`.

    Whether the products are decomposable is checked; that the sums are deterministic is taken on trust.
    """
    where = label(path)
    rows = [line.split() for line in read_bytes(path).decode("ascii", "replace").splitlines()]
    rows = [row for row in rows if row and row[0] != "c"]
    try:
        assert rows[0][0] == "nnf"
        lines, _, n = map(int, rows[0][1:])
        assert lines == len(rows) - 1 > 0
        nodes = _NnfNodes(n)
        for row in rows[1:]:
            nodes.add(row[0], [int(word) for word in row[1:]])
    except (AssertionError, ValueError, IndexError):
        raise FormatError(
            f"{where}: expected d-DNNF as c2d writes it: `nnf NODES EDGES VARIABLES`, and a line L, A or O for each "
            "node after its children."
        ) from None
    return nodes.circuit()


class _NnfNodes:
    """The nodes of a file in the form of `LiteralCircuit`.

    Args:
        num_vars: the number of variables n.
    """

    def __init__(self, num_vars: int) -> None:
        self.n = num_vars
        self.products: list[list[list[int]]] = []  # the branches of each node
        self.item: list[int | None] = []  # of each line: a leaf, or `-1 - node`; None for false
        self.inside: list[int] = []  # of each line: its variables as a mask of bits

    def add(self, kind: str, numbers: list[int]) -> None:
        """Add a line; raises `AssertionError` or another error of a malformed line."""
        if kind == "L":
            (literal,) = numbers
            assert 1 <= abs(literal) <= self.n
            self._append(2 * abs(literal) - 2 + (literal < 0), 1 << (abs(literal) - 1))
            return
        assert kind in ("A", "O")
        children = numbers[1:] if kind == "A" else numbers[2:]
        assert len(children) == numbers[0 if kind == "A" else 1]
        assert all(0 <= child < len(self.item) for child in children)
        masks = [self.inside[child] for child in children]
        inside = 0
        for mask in masks:
            assert kind == "O" or not inside & mask
            inside |= mask
        if kind == "A":
            items = [self.item[child] for child in children]
            branches = [] if None in items else [[x for x in items if x is not None]]
        else:
            known = [
                (x, mask) for child, mask in zip(children, masks, strict=True) if (x := self.item[child]) is not None
            ]
            branches = [[x, *self._free(inside & ~mask)] for x, mask in known]
        self._append(self._node(branches), inside)

    def _append(self, item: int | None, inside: int) -> None:
        self.item.append(item)
        self.inside.append(inside)

    def _free(self, mask: int) -> list[int]:
        """Return the leaves of free variables."""
        return [2 * self.n + v for v in range(mask.bit_length()) if mask >> v & 1]

    def _node(self, branches: list[list[int]]) -> int | None:
        """Add a node for the sum of some products; return its item."""
        if not branches:
            return None
        while len(branches) > 2:
            self.products.append(branches[:2])
            branches = [*branches[2:], [-len(self.products)]]
        self.products.append(branches)
        return -len(self.products)

    def circuit(self) -> LiteralCircuit:
        """Return the circuit of the last line, over all variables."""
        root = self.item[-1]
        every = (1 << self.n) - 1
        self.products.append([] if root is None else [[root, *self._free(every & ~self.inside[-1])]])
        arena: list[int] = []
        for branches in self.products:
            arena += [len(branch) for branch in branches] + [-1] * (2 - len(branches))
            arena += [x for branch in branches for x in branch]
        size = [2 + sum(map(len, branches)) for branches in self.products]
        return LiteralCircuit(ptr_of(size), np.array(arena, np.int32), np.zeros(2 * self.n))
