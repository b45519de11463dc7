"""Image denoising: a small convolutional network scores the pixels, and a grid CRF combines them, trained together.

    python examples/denoising.py                 # 10 x 10 pixels, exact inference
    python examples/denoising.py --size 24       # beyond exact inference: belief propagation

The task is to clean noisy pictures of bright and dark rectangles. The network sees one pixel at a time. It gives every
pixel a score for each shade, and every two neighbours a strength with which they should agree. The grid is compared
with the same network without neighbours.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from equifactor import CRF

SHADES = 2


def pictures(count: int, size: int, generator: torch.Generator, noise: float = 1.2) -> tuple[Tensor, Tensor]:
    """Return noisy pictures [B, N, N] and the true shades [B, N, N]: rectangles of either shade that overlap."""
    clean = torch.zeros(count, size, size, dtype=torch.int64)
    place = torch.arange(size)
    for _ in range(3):
        first = torch.randint(0, size - 2, (2, count, 1), generator=generator)
        last = first + torch.randint(2, max(4, size * 2 // 3), (2, count, 1), generator=generator)
        rows, columns = (place >= first) & (place <= last)
        shade = torch.randint(0, SHADES, (count, 1, 1), generator=generator).expand(clean.shape)
        clean = torch.where(rows[:, :, None] & columns[:, None, :], shade, clean)
    return 2.0 * clean - 1.0 + noise * torch.randn(clean.shape, generator=generator), clean


class PixelNetwork(nn.Module):
    """A network that computes features of each pixel, and scores of the shades from these alone.

    Args:
        channels: number of features of a pixel.
        reach: side of the input window in pixels; 3 includes the neighbours.
    """

    def __init__(self, channels: int = 8, reach: int = 1) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, channels, reach, padding=reach // 2), nn.Tanh())
        self.score = nn.Conv2d(channels, SHADES, 1)
        self.agree = nn.Conv2d(channels, 1, 1)

    def forward(self, noisy: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores [B, N, N, D], and how strongly each pixel should agree with its neighbours [B, N, N]."""
        seen = self.look(noisy[:, None])
        return self.score(seen).movedim(1, -1), self.agree(seen).squeeze(1)


class GridCRF(nn.Module):
    """A grid CRF whose potentials come from a network."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.network = PixelNetwork()
        self.grid = CRF.grid(size, size, SHADES)

    def forward(self, noisy: Tensor) -> tuple[Tensor, Tensor]:
        """Return unaries [B, N^2, D] and pairs [B, E, D, D], which reward equal shades."""
        scores, agree = self.network(noisy)
        across = agree[:, :, :-1] + agree[:, :, 1:]
        down = agree[:, :-1] + agree[:, 1:]
        strength = torch.cat((across.flatten(1), down.flatten(1)), 1)  # the order of the pairs of `CRF.grid`
        return scores.flatten(1, 2), strength[:, :, None, None] * torch.eye(SHADES)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train both networks and print the share of right pixels. Return the shares by name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=10, help="pixels along a side")
    parser.add_argument("--steps", type=int, default=150, help="gradient steps")
    parser.add_argument("--batch", type=int, default=16, help="pictures per step")
    parser.add_argument("--loss", choices=("likelihood", "marginals"), default="likelihood")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    alone, crf = PixelNetwork(), GridCRF(options.size)
    print(crf.grid)
    optimizer = torch.optim.Adam([*alone.parameters(), *crf.parameters()], lr=0.02)
    start = time.perf_counter()
    for _ in range(options.steps):
        noisy, shades = pictures(options.batch, options.size, generator)
        of_pixels = nn.functional.cross_entropy(alone(noisy)[0].flatten(0, 2), shades.flatten())
        potentials, labels = crf(noisy), shades.flatten(1)
        if options.loss == "likelihood":
            of_pictures = -crf.grid.log_likelihood(*potentials, states=labels).mean() / options.size**2
        else:
            p = crf.grid.marginals(*potentials).flatten(0, 1)
            of_pictures = nn.functional.nll_loss(p.clamp(min=1e-6).log(), labels.flatten())
        optimizer.zero_grad()
        (of_pixels + of_pictures).backward()  # the two share no weights
        optimizer.step()
    print(f"{options.steps} steps of {options.batch} pictures in {time.perf_counter() - start:.1f} s")

    noisy, shades = pictures(40, options.size, generator)
    with torch.no_grad():
        potentials = crf(noisy)
        guesses = {
            "each pixel by itself": alone(noisy)[0].flatten(1, 2).argmax(-1),
            "grid, best picture": crf.grid.map(*potentials, time_limit=20.0),
            "grid, best marginals": crf.grid.marginals(*potentials).argmax(-1),
        }
    right = {name: (guess == shades.flatten(1)).float().mean().item() for name, guess in guesses.items()}
    for name, share in right.items():
        print(f"{name:<24}{share:>8.1%} of the pixels right")
    return right


if __name__ == "__main__":
    main()
