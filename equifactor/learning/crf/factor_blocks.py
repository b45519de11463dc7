"""Potentials in two forms: one tensor for each block of factors of one shape, and one row of all table entries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equifactor.base.errors import ModelError, brief

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure


@dataclass(frozen=True)
class FactorBlock:
    """Consecutive tables of one shape."""

    first: int  # The number of its first factor among the tables.
    count: int  # F, the number of factors.
    shape: tuple[int, ...]  # The shape of each table.

    @property
    def size(self) -> int:
        """The number of table entries of all factors together."""
        return self.count * math.prod(self.shape)

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, (self.count, *self.shape))) + "]"


def blocks_of(structure: Structure, tables: IntArray) -> tuple[FactorBlock, ...]:
    """Return the blocks of the factors `tables` of a structure, which are dense tables, in their order."""
    blocks: list[FactorBlock] = []
    shapes = [structure.shape(int(a)) for a in tables]
    start = 0
    for n in range(1, len(shapes) + 1):
        if n == len(shapes) or shapes[n] != shapes[start]:
            blocks.append(FactorBlock(start, n - start, shapes[start]))
            start = n
    return tuple(blocks)


def joined(blocks: tuple[FactorBlock, ...], potentials: tuple[Tensor, ...]) -> tuple[Tensor, torch.Size]:
    """Return log tables [B, T] of all blocks one after the other, and the leading axes whose product is B.

    Args:
        blocks: the blocks of the structure.
        potentials: a tensor [.., F, *shape] for each block, or a tensor of shape `shape` for a block whose factors
            share one table; or one tensor [.., T] for all blocks.
    """
    total = sum(block.size for block in blocks)
    if len(potentials) == 1 and len(blocks) != 1 and potentials[0].ndim and potentials[0].shape[-1] == total:
        batch = potentials[0].shape[:-1]
        return potentials[0].reshape(-1, total), batch
    if len(potentials) != len(blocks):
        wanted = ", ".join(map(str, blocks))
        raise ModelError(
            f"This structure takes {len(blocks)} tensors of potentials ({wanted}, each with any leading axes), or one "
            f"tensor [.., {total}], found {len(potentials)} tensors."
        )
    batch = common_shape(*(_leading(n, b, t) for n, (b, t) in enumerate(zip(blocks, potentials, strict=True))))
    kind = potentials[0].dtype
    for tensor in potentials:
        kind = torch.promote_types(kind, tensor.dtype)
    rows = [
        tensor.to(kind).expand(*batch, block.count, *block.shape).reshape(math.prod(batch), -1)
        for block, tensor in zip(blocks, potentials, strict=True)
    ]
    return torch.cat(rows, 1), batch


def common_shape(*shapes: torch.Size) -> torch.Size:
    """Return the shape to which all shapes broadcast."""
    try:
        whole: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    except RuntimeError:
        found = ", ".join(str([*shape]) for shape in shapes)
        raise ModelError(f"The leading axes of the tensors must agree or be 1, found {found}.") from None
    return whole


def _leading(n: int, block: FactorBlock, tensor: Tensor) -> torch.Size:
    """Return the axes of a tensor before the axes of its block."""
    own = len(block.shape)
    wanted = (block.count, *block.shape)
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        raise ModelError(f"The potentials must be dense tensors; number {n} is {brief(tensor)}.")
    tail = tuple(tensor.shape[max(0, tensor.ndim - own - 1) :])
    fits = tail == wanted or tail == (1, *block.shape) or tuple(tensor.shape) == block.shape
    if not fits or not tensor.is_floating_point():
        raise ModelError(
            f"Tensor {n} of the potentials must hold floating-point numbers of shape "
            f"[.., {', '.join(map(str, wanted))}], or {[*block.shape]} for one table that all {block.count} factors "
            f"share, found {tensor.dtype} {[*tensor.shape]}."
        )
    return tensor.shape[: max(0, tensor.ndim - own - 1)]


def apart(blocks: tuple[FactorBlock, ...], entries: Tensor, batch: torch.Size) -> tuple[Tensor, ...]:
    """Return numbers of table entries [B, T] as a tensor [.., F, *shape] for each block."""
    parts = torch.split_with_sizes(entries, [block.size for block in blocks], 1)
    return tuple(p.reshape(*batch, b.count, *b.shape) for b, p in zip(blocks, parts, strict=True))


def entry_indices(structure: Structure, tables: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the first entries [F], and the variables and strides [F, K] of the scope of each table.

    An assignment x picks the entry first[a] + sum_k stride[a, k] x[variable[a, k]] of table a. Scopes shorter than K
    have strides 0.
    """
    arity = structure.arity[tables]
    width = int(arity.max(initial=0))
    variable, stride = np.zeros((2, len(tables), width), np.int64)
    for k in range(width):
        has = np.flatnonzero(arity > k)
        edge = structure.scope_ptr[tables[has]] + k
        variable[has, k], stride[has, k] = structure.scope_vars[edge], structure.stride[edge]
    sizes = np.diff(structure.table_ptr)[tables]
    return np.cumsum(sizes) - sizes, variable, stride
