"""Files of circuits as d-DNNF (`.nnf`), in the form of c2d and in that of d4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, OptionError, brief
from equifactor.base.files import label, read_bytes, write_text
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.kernels.pointers import ptr_of
from equifactor.solvers.counting.circuit import LiteralCircuit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.files import PathLike


def write_nnf(circuit: LiteralCircuit, path: PathLike, form: str) -> None:
    """Write a circuit as d-DNNF.

    The form of c2d is `nnf NODES EDGES VARIABLES`, and lines L, A and O. That of d4 has lines `o`, `a` and `t` for
    nodes, and lines of two nodes and literals for edges.
    """
    if form == "d4":
        write_text(path, [*_d4_lines(circuit)])
        return
    if form != "c2d":
        raise OptionError(f"The form of a d-DNNF file must be c2d or d4, found {brief(form)}.")
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


def _d4_lines(circuit: LiteralCircuit) -> Iterator[str]:
    """Yield the lines of the form of d4. Node 1 is the root; free variables are left out."""
    n, last = len(circuit.log_weights) // 2, circuit.num_nodes - 1
    arena, ptr = circuit.arena.tolist(), circuit.node_ptr.tolist()
    true, count = last + 2, last + 2
    edges: list[str] = []
    yield from (f"o {k + 1} 0\n" for k in range(last + 1))
    yield f"t {true} 0\n"
    for k in range(last + 1):
        at = ptr[k] + 2
        for size in arena[ptr[k] : ptr[k] + 2]:
            items = arena[at : at + max(0, size)]
            at += max(0, size)
            if size < 0:
                continue
            literals = [-(x >> 1) - 1 if x & 1 else (x >> 1) + 1 for x in items if 0 <= x < 2 * n]
            children = [last + 2 + x for x in items if x < 0] or [true]  # the nodes are numbered from the root
            target = children[0]
            if len(children) > 1:
                count += 1
                target = count
                yield f"a {target} 0\n"
                edges += [f"{target} {child} 0\n" for child in children]
            edges.append(f"{' '.join(map(str, [last + 1 - k, target, *literals]))} 0\n")
    yield from edges


def read_nnf(path: PathLike, num_vars: int | None) -> LiteralCircuit:
    """Read d-DNNF in the form of c2d or d4; nodes are made smooth, and all weights are 1. Raises `FormatError`.

    Whether the products are decomposable is checked; that the sums are deterministic is taken on trust. Files of d4 do
    not tell the number of variables; None takes the largest that occurs.
    """
    where = label(path)
    content = read_bytes(path)
    rows = [line.split() for line in content.decode("ascii", "replace").splitlines()]
    rows = [row for row in rows if row and row[0] != "c"]
    try:
        if rows[0][0] in ("o", "a", "t", "f"):
            n, lines = _from_d4(rows)
        else:
            assert rows[0][0] == "nnf"
            count, _, n = map(int, rows[0][1:])
            assert count == len(rows) - 1 > 0
            lines = [(row[0], [int(word) for word in row[1:]]) for row in rows[1:]]
        if n > most_numbers(len(content)):
            raise FormatError(f"{where}: the file has {n:,} variables. {limit_text()}")
        nodes = _NnfNodes(n if num_vars is None else num_vars)
        for line in lines:
            nodes.add(*line)
    except (AssertionError, ValueError, IndexError, KeyError):
        raise FormatError(
            f"{where}: expected d-DNNF. In the form of c2d it is `nnf NODES EDGES VARIABLES`, and a line L, A or O for "
            "each node after its children. In that of d4 it is a line o, a, t or f for each node, and a line of two "
            "nodes, literals and 0 for each edge."
        ) from None
    return nodes.circuit()


def _from_d4(rows: list[list[str]]) -> tuple[int, list[tuple[str, list[int]]]]:
    """Return the number of variables, and the lines in the form of c2d; raises `AssertionError` or the like."""
    kind: dict[int, str] = {}
    edges: dict[int, list[tuple[int, list[int]]]] = {}
    n = 0
    for row in rows:
        assert row[-1] == "0"
        if row[0] in ("o", "a", "t", "f"):
            (node,) = map(int, row[1:-1])
            assert node not in kind
            kind[node], edges[node] = row[0], []
        else:
            node, child, *literals = map(int, row[:-1])
            assert 0 not in literals
            n = max(n, *map(abs, literals)) if literals else n
            edges[node].append((child, literals))
    lines: list[tuple[str, list[int]]] = []
    place: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack = [min(kind)]
    while stack:
        node = stack[-1]
        missing = [child for child, _ in edges[node] if child not in place]
        if missing:
            assert node not in open_nodes  # otherwise a node is its own descendant
            open_nodes.add(node)
            stack += missing
            continue
        stack.pop()
        if node in place:
            continue
        parts = []
        for child, literals in edges[node]:
            first = len(lines)
            lines += [("L", [x]) for x in literals]
            lines.append(("A", [len(literals) + 1, *range(first, len(lines)), place[child]]))
            parts.append(len(lines) - 1)
        assert kind[node] in ("o", "a") or not parts
        lines.append(("O", [0, len(parts), *parts]) if kind[node] in ("o", "f") else ("A", [len(parts), *parts]))
        place[node] = len(lines) - 1
    return n, lines


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
