"""Shapes of binary pair models for training on a GPU: the pairs are fixed, and potentials are drawn on the device.

A GPU captures one gradient step per shape, so few shapes with ever new potentials train fastest. Targets are made by
`pair_labels.py`. Symbols: B graphs, K structures, M pairs, n variables, T table entries and X states of a graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor import FactorGraph, generators
from equifactor.base.typing import IntArray
from equifactor.graph import FlatGraph, compile
from experiments.pair_labels import means_by_enumeration, means_of_two_sides, means_on_grid

Label = Callable[[Tensor, Tensor], Tensor]  # Mean spins [B, n] of couplings [B, M] and fields [B, n].
_JUDGED = 200  # Held-out graphs of a shape, or one batch if that is more.
_HELD_OUT_SEED = 987_000  # The seed of the first shape's held-out graphs.


@dataclass(frozen=True)
class Strengths:
    """The ranges from which the potentials of a graph are drawn, each on a logarithmic scale.

    Attributes:
        couplings: standard deviation of the couplings.
        fields: standard deviation of the fields.
        mean: share of the graphs whose couplings have a mean, of either sign.
    """

    couplings: tuple[float, float]
    fields: tuple[float, float] = (0.05, 2.0)
    mean: float = 0.25

    def draw(self, ends: Tensor, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return couplings [B, M], fields [B, n], and the parts of fields [B, M] that lie in the tables of pairs.

        Args:
            ends: [B, M, 2] the variables of each pair.
            n: the number of variables.
            rng: the random numbers.
        """
        count, pairs = ends.shape[:2]
        draws = _Draws(count, ends.device, rng)
        size, mean = draws.log_uniform(*self.couplings), draws.uniform(-1, 1) * draws.chance(self.mean)
        j = draws.numbers(pairs)
        one_sign = (mean != 0) & (draws.chance(0.4 * self.mean) > 0)
        j = size * torch.where(one_sign, j.abs() * mean.sign(), j + mean)
        h = draws.numbers(n) * draws.log_uniform(*self.fields)
        h = h + draws.chance(0.15) * draws.uniform(-1, 1) * h.abs().amax(1, keepdim=True)
        # A third of the graphs has parts of the fields in the tables; for half of these they add to the fields.
        moved, like_coupling = draws.chance(0.33), draws.chance(0.5) > 0
        width = 0.7 * torch.where(draws.chance(0.5) > 0, size.clamp_max(1.0), size)
        a, b = (
            moved * torch.where(like_coupling, j * draws.numbers(pairs).sign(), draws.numbers(pairs) * width)
            for _ in range(2)
        )
        in_tables = torch.zeros_like(h).scatter_add_(1, ends[:, :, 0], a).scatter_add_(1, ends[:, :, 1], b)
        return j, h + draws.chance(0.5) * in_tables, a, b


class _Draws:
    """Random numbers for B graphs: one number [B, 1] of each graph, or a row of them."""

    def __init__(self, count: int, device: torch.device, rng: torch.Generator) -> None:
        self.count, self.rng = count, rng
        self.where: dict[str, Any] = {"device": device, "dtype": torch.float64, "generator": rng}

    def uniform(self, low: float, high: float, columns: int = 1) -> Tensor:
        return low + (high - low) * torch.rand(self.count, columns, **self.where)

    def log_uniform(self, low: float, high: float) -> Tensor:
        return torch.exp(self.uniform(math.log(low), math.log(high)))

    def chance(self, share: float) -> Tensor:
        """Return 1 for a share of the graphs, and 0 for the others."""
        return (self.uniform(0, 1) < share).double()

    def numbers(self, columns: int) -> Tensor:
        """Return numbers of mean 0 and variance 1, in each graph normal, uniform or of one size."""
        kind, flat = self.uniform(0, 1), self.uniform(-1, 1, columns) * math.sqrt(3)
        normal = torch.randn(self.count, columns, **self.where)
        return torch.where(kind < 0.45, normal, torch.where(kind < 0.9, flat, flat.sign()))


class PairShape:
    """B graphs with fixed pairs; `fill` draws new potentials into the tensors that a captured step reads."""

    def __init__(
        self, name: str, n: int, pairs: Sequence[IntArray], count: int, label: Label, strengths: Strengths,
        pool: int = 8,
    ) -> None:  # fmt: skip
        """Describe a shape.

        Args:
            name: its name in the log.
            n: number of variables.
            pairs: [M, 2] the pairs of each of the K structures; graph k has structure k modulo K.
            count: graphs in a batch.
            label: the function that makes mean spins.
            strengths: ranges of the potentials.
            pool: batches that are drawn at once.
        """
        self.name, self.n, self.pairs, self.label, self.strengths = name, n, pairs, label, strengths
        self.count, self.pool_size = max(1, count // len(pairs)) * len(pairs), pool
        self.plain = False  # The fused kernels take these batches.

    def prepare(self, device: str, seed: int, number: int) -> None:
        """Compile the batch for a device, and draw the held-out graphs, which are the same for every seed."""
        models = []
        for pairs in self.pairs:
            tables = [(pair.tolist(), np.zeros((2, 2))) for pair in pairs]
            models.append(FactorGraph([2] * self.n, [*(([v], np.zeros(2)) for v in range(self.n)), *tables], log=True))
        flat = compile([models[k % len(models)] for k in range(self.count)])
        self.order = torch.tensor(flat.entry_order, device=device)
        self.ends = torch.tensor(np.stack(self.pairs), device=device)
        self.log_phi = torch.zeros(flat.num_entries, device=device)
        self.target = torch.zeros(flat.num_states, device=device)
        self.flat: FlatGraph[Tensor] = replace(flat.to(device, "float32"), log_phi=self.log_phi)
        held = torch.Generator(device).manual_seed(_HELD_OUT_SEED + number)
        self.held_out = self.draw(max(1, round(_JUDGED / self.count)), held)
        self.rng = torch.Generator(device).manual_seed(1000 * seed + number)
        self.waiting: list[tuple[Tensor, Tensor]] = []

    def draw(self, batches: int, rng: torch.Generator) -> list[tuple[Tensor, Tensor]]:
        """Return the potentials [B, T] and marginals [B, X] of some batches."""
        ends = self.ends.repeat(batches * self.count // len(self.pairs), 1, 1)
        j, h, a, b = self.strengths.draw(ends, self.n, rng)
        means = self.label(j, h).clamp(-1, 1)
        target = torch.stack((1 - means, 1 + means), 2) / 2
        h = h.scatter_add(1, ends[:, :, 0], -a).scatter_add(1, ends[:, :, 1], -b)
        s = torch.tensor([-1.0, 1.0], device=h.device, dtype=h.dtype)
        tables = j[..., None, None] * s[:, None] * s + a[..., None, None] * s[:, None] + b[..., None, None] * s
        log_phi = torch.cat(((h[..., None] * s).flatten(1), tables.flatten(1)), 1).float()
        return list(
            zip(*(torch.split(values, self.count) for values in (log_phi, target.flatten(1).float())), strict=True)
        )

    def next(self) -> tuple[FlatGraph[Tensor], Tensor]:
        """Draw the potentials of the next batch; return the batch and its marginals [X], always in the same tensors."""
        if not self.waiting:
            self.waiting = self.draw(self.pool_size, self.rng)
        return self._filled(*self.waiting.pop())

    def judged(self) -> Iterator[tuple[FlatGraph[Tensor], Tensor]]:
        """Yield the batches of held-out graphs."""
        for log_phi, target in self.held_out:
            yield self._filled(log_phi, target)

    def _filled(self, log_phi: Tensor, target: Tensor) -> tuple[FlatGraph[Tensor], Tensor]:
        self.log_phi.copy_(log_phi.reshape(-1)[self.order])
        self.target.copy_(target.reshape(-1))
        return self.flat, self.target


# ---- the shapes ------------------------------------------------------------------------------------------


def grid(rows: int, columns: int, count: int, strengths: Strengths, name: str = "", pool: int = 8) -> PairShape:
    """Return grids with free boundaries."""
    cell = np.arange(rows * columns).reshape(rows, columns)
    ends = ((cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:]))
    pairs = np.concatenate([np.stack((a.ravel(), b.ravel()), 1) for a, b in ends])
    split, step = rows * (columns - 1), max(1, 2**25 // (2**rows * columns))

    def label(j: Tensor, h: Tensor) -> Tensor:
        found = []
        for a, d, f in zip(*(torch.split(values, step) for values in (j[:, :split], j[:, split:], h)), strict=True):
            across, down = a.view(-1, rows, columns - 1), d.view(-1, rows - 1, columns)
            found.append(means_on_grid(across, down, f.view(-1, rows, columns)).flatten(1))
        return torch.cat(found)

    return PairShape(name or f"grid {rows}x{columns}", rows * columns, [pairs], count, label, strengths, pool)


def two_sides(n: int, m: int, count: int, strengths: Strengths, pool: int = 8) -> PairShape:
    """Return models with all pairs across two sides, the first of n variables."""
    pairs = np.array([(i, n + k) for i, k in itertools.product(range(n), range(m))])
    return PairShape(
        f"two sides {n}+{m}", n + m, [pairs], count, lambda j, h: means_of_two_sides(j.view(-1, n, m), h), strengths,
        pool,
    )  # fmt: skip


def small(name: str, graphs: Sequence[FactorGraph], count: int, strengths: Strengths, pool: int = 8) -> PairShape:
    """Return models with the pairs of some graphs, with at most 20 variables."""
    n = graphs[0].num_vars
    structures = [g.structure for g in graphs]
    pairs = [s.scope_vars[s.scope_ptr[np.flatnonzero(s.arity == 2)][:, None] + np.arange(2)] for s in structures]
    own = np.stack(pairs)

    def label(j: Tensor, h: Tensor) -> Tensor:
        ends = torch.tensor(own, device=j.device).repeat(len(j) // len(own), 1, 1)
        dense = j.new_zeros(len(j), n, n)
        dense[torch.arange(len(j), device=j.device)[:, None], ends[:, :, 0], ends[:, :, 1]] = j
        return means_by_enumeration(dense + dense.mT, h)

    return PairShape(name, n, pairs, count, label, strengths, pool)


def _regular(n: int, degree: int, couplings: tuple[float, float]) -> PairShape:
    graphs = generators.pairwise_field(n, degree=degree, structures=16, count=16)
    return small(f"regular of degree {degree}", graphs, 96, Strengths(couplings))


def pair_shapes() -> list[PairShape]:
    """Return the shapes of the mixture."""
    home = Strengths((0.3, 2.5), (0.15, 0.6), 0.1)
    torus = generators.ising_grid(4, 5, wrap=True)
    triangles = generators.pairwise_field(20, topology="triangles")
    return [
        grid(4, 4, 250, Strengths((0.2, 6.0), (0.1, 1.5))),
        grid(4, 4, 250, Strengths((0.3, 1.6), (0.15, 0.6), 0.1), "grid 4x4 at home"),
        grid(8, 8, 100, home, "grid 8x8 at home"),
        grid(8, 8, 100, Strengths((0.3, 8.0))),
        grid(10, 10, 64, Strengths((0.3, 8.0))),
        grid(12, 12, 48, Strengths((0.3, 8.0))),
        grid(14, 16, 16, Strengths((0.3, 4.0)), pool=4),
        small("torus 4x5", [torus], 60, Strengths((0.2, 5.0)), 4),
        small("triangles", [triangles], 60, Strengths((0.2, 4.0), mean=0.5), 4),
        *(_regular(n, d, s) for n, d, s in ((18, 3, (0.3, 6.0)), (18, 4, (0.2, 5.0)), (16, 6, (0.1, 3.0)))),
        small("complete 12", [generators.pairwise_field(12, topology="complete")], 100, Strengths((0.05, 2.0))),
        two_sides(10, 14, 60, Strengths((0.1, 2.5), mean=0.4)),
        two_sides(18, 20, 16, Strengths((0.2, 2.0), mean=0.4), 4),
    ]  # fmt: skip
