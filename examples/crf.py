"""A conditional random field whose potentials come from a network of your own, trained through belief propagation.

    python examples/crf.py

Noisy pictures of rectangles are to be cleaned. A small network sees one pixel at a time and says how likely it is to be
bright, and how strongly two neighbours should agree; belief propagation makes one picture of it. The same network
without neighbours is what it is compared with.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from equifactor import FactorGraph, FlatGraph, compile
from equifactor.numerics import tensors
from equifactor.solvers.learned import Beliefs, beliefs

SIZE = 8  # pixels along a side
PAIRS = [(i, i + 1) for i in range(SIZE**2) if (i + 1) % SIZE] + [(i, i + SIZE) for i in range(SIZE**2 - SIZE)]


def pictures(count: int, generator: torch.Generator, noise: float = 1.2) -> tuple[Tensor, Tensor]:
    """Noisy pictures [B, N] of N = SIZE^2 pixels and the true pixels [B, N], 0 or 1: two bright rectangles each."""
    clean = torch.zeros(count, SIZE, SIZE)
    place = torch.arange(SIZE)
    for _ in range(2):
        first = torch.randint(0, SIZE - 2, (2, count, 1), generator=generator)
        last = first + torch.randint(2, 6, (2, count, 1), generator=generator)
        rows, columns = (place >= first) & (place <= last)
        clean[rows[:, :, None] & columns[:, None, :]] = 1.0
    noisy = 2 * clean - 1 + noise * torch.randn(clean.shape, generator=generator)
    return noisy.flatten(1), clean.flatten(1).long()


class PixelNetwork(nn.Module):
    """What is seen of each pixel, and how likely it is to be bright judged by that alone."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Linear(1, channels), nn.Tanh())
        self.unary = nn.Linear(channels, 1)

    def forward(self, noisy: Tensor) -> tuple[Tensor, Tensor]:
        """Log odds [B, N] and features [B, N, C]."""
        seen = self.look(noisy[:, :, None])
        return self.unary(seen).squeeze(-1), seen


class CRF(nn.Module):
    """Potentials by a network, marginals by belief propagation."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.pixels = PixelNetwork(channels)
        self.pair = nn.Linear(channels, 1)
        self.a, self.b = torch.tensor(PAIRS).T  # [P] the pixels of each pair

    def forward(self, flat: FlatGraph[Tensor], noisy: Tensor) -> tuple[Tensor, Beliefs]:
        """Potentials [T] in flat order, and the answer of belief propagation."""
        log_odds, seen = self.pixels(noisy)
        unary = torch.stack((-log_odds / 2, log_odds / 2), dim=-1)  # [B, N, 2]
        agree = self.pair(seen[:, self.a] + seen[:, self.b])  # [B, P, 1], the same for both orders of the pair
        pairs = torch.cat((agree, -agree, -agree, agree), dim=-1)  # [B, P, 4], tables in C order
        tables = torch.cat((unary.flatten(1), pairs.flatten(1)), dim=1)  # as `structure` lists the factors
        log_phi = tables.reshape(-1)[torch.tensor(flat.entry_order)]
        return log_phi, beliefs(flat, log_phi, damping=0.3, iterations=12)


def structure(count: int) -> FlatGraph[Tensor]:
    """The compiled graph of a batch of pictures: a factor for each pixel, then one for each pair of neighbours."""
    scopes = [[i] for i in range(SIZE**2)] + [list(pair) for pair in PAIRS]
    graph = FactorGraph([2] * SIZE**2, [(scope, torch.ones(2 ** len(scope)).tolist()) for scope in scopes])
    return compile([graph] * count).to(dtype="float32")


def crf_loss(model: CRF, flat: FlatGraph[Tensor], noisy: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Per pixel: cross-entropy of the marginals, or the negative log likelihood of the whole picture."""
    log_phi, answer = model(flat, noisy)
    if kind == "marginals":
        return nn.functional.nll_loss(answer.log_probabilities.reshape(-1, 2), labels.reshape(-1))
    log_score = tensors.log_scores(flat.with_log_phi(log_phi), labels.reshape(-1))
    return (answer.log_z - log_score).mean() / SIZE**2


def accuracies(pixels: PixelNetwork, crf: CRF, noisy: Tensor, labels: Tensor) -> tuple[float, float]:
    """Share of pixels that are right: each by itself, and by the CRF."""
    with torch.no_grad():
        alone = (pixels(noisy)[0] > 0).long()
        together = crf(structure(len(noisy)), noisy)[1].probabilities.reshape(*labels.shape, 2).argmax(-1)
    return tuple((guess == labels).float().mean().item() for guess in (alone, together))


def main() -> None:
    """Train both, print how often each is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120, help="gradient steps")
    parser.add_argument("--batch", type=int, default=25, help="pictures per step")
    parser.add_argument("--loss", choices=("marginals", "likelihood"), default="marginals")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    pixels, crf = PixelNetwork(), CRF()
    test = pictures(200, generator)
    flat = structure(options.batch)  # compiled once, used in every step
    before = accuracies(pixels, crf, *test)
    optimizer = torch.optim.Adam([*pixels.parameters(), *crf.parameters()], lr=0.02)
    start = time.perf_counter()
    for _ in range(options.steps):
        noisy, labels = pictures(options.batch, generator)
        alone = nn.functional.binary_cross_entropy_with_logits(pixels(noisy)[0], labels.float())
        optimizer.zero_grad()
        (alone + crf_loss(crf, flat, noisy, labels, options.loss)).backward()  # the two share no weights
        optimizer.step()
    after = accuracies(pixels, crf, *test)
    print(f"{options.steps} steps of {options.batch} pictures in {time.perf_counter() - start:.1f} s")
    print(f"{'pixels right':<24}{'before':>8}{'after':>8}")
    for name, first, last in zip(("each pixel by itself", "CRF"), before, after, strict=True):
        print(f"{name:<24}{first:>8.1%}{last:>8.1%}")


if __name__ == "__main__":
    main()
