"""Sequence tagging: a small network scores the words, and a chain CRF combines them, trained together.

    python examples/tagging.py

Sentences are drawn from a grammar of parts of speech. Most words can be one of several parts, and a fifth of the words
are garbled, so that a word alone tells little. The order of the parts tells the rest. The chain is compared with the
same network trained to tag every word by itself.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from equifactor import ChainCRF

TAGS = ("determiner", "adjective", "noun", "verb", "adverb", "preposition", "end")
WORDS = 60  # in the vocabulary


def grammar(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the probabilities of the next tag [D, D], and of the words of each tag [D, W]."""
    follow = torch.tensor(
        [
            [0.00, 0.35, 0.65, 0.00, 0.00, 0.00, 0.00],  # after a determiner
            [0.00, 0.20, 0.80, 0.00, 0.00, 0.00, 0.00],  # an adjective
            [0.00, 0.00, 0.05, 0.55, 0.05, 0.25, 0.10],  # a noun
            [0.45, 0.05, 0.10, 0.00, 0.20, 0.10, 0.10],  # a verb
            [0.20, 0.15, 0.00, 0.25, 0.10, 0.20, 0.10],  # an adverb
            [0.70, 0.10, 0.20, 0.00, 0.00, 0.00, 0.00],  # a preposition
            [0.60, 0.10, 0.20, 0.00, 0.10, 0.00, 0.00],  # the end of a clause
        ]
    )
    words = torch.rand(len(TAGS), WORDS, generator=generator) ** 8
    return follow, words / words.sum(1, keepdim=True)


def sentences(
    count: int, rules: tuple[Tensor, Tensor], generator: torch.Generator, length: int = 20, garbled: float = 0.2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return words [B, T], tags [B, T] and the mask [B, T] of sentences of 5 to `length` words."""
    follow, words = rules
    tag = torch.multinomial(follow[-1].expand(count, -1), 1, generator=generator).squeeze(1)
    tags = []
    for _ in range(length):
        tags.append(tag)
        tag = torch.multinomial(follow[tag], 1, generator=generator).squeeze(1)
    all_tags = torch.stack(tags, 1)
    seen = torch.multinomial(words[all_tags.reshape(-1)], 1, generator=generator).reshape(all_tags.shape)
    noise = torch.randint(0, WORDS, seen.shape, generator=generator)
    seen = torch.where(torch.rand(seen.shape, generator=generator) < garbled, noise, seen)
    mask = torch.arange(length) < torch.randint(5, length + 1, (count, 1), generator=generator)
    return seen, all_tags, mask


class WordNetwork(nn.Module):
    """A network that computes scores [B, T, D] of all tags from each word."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, channels)
        self.look = nn.Linear(channels, channels)
        self.score = nn.Linear(channels, len(TAGS))

    def forward(self, words: Tensor) -> Tensor:
        """Return the scores."""
        return self.score(torch.tanh(self.look(self.embed(words))))


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train both networks and print the share of right tags. Return the shares by name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="gradient steps")
    parser.add_argument("--batch", type=int, default=32, help="sentences per step")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    rules = grammar(generator)
    alone, network, crf = WordNetwork(), WordNetwork(), ChainCRF(len(TAGS))
    optimizer = torch.optim.Adam([*alone.parameters(), *network.parameters(), *crf.parameters()], lr=0.01)
    start = time.perf_counter()
    for _ in range(options.steps):
        words, tags, mask = sentences(options.batch, rules, generator)
        of_words = nn.functional.cross_entropy(alone(words)[mask], tags[mask])
        of_sentences = -crf.log_likelihood(network(words), tags, mask).sum() / mask.sum()
        optimizer.zero_grad()
        (of_words + of_sentences).backward()  # the two share no weights
        optimizer.step()
    print(f"{options.steps} steps of {options.batch} sentences in {time.perf_counter() - start:.1f} s")

    words, tags, mask = sentences(500, rules, generator)
    with torch.no_grad():
        emissions = network(words)
        guesses = {
            "each word by itself": alone(words).argmax(-1),
            "chain, best sequence": crf.map(emissions, mask),
            "chain, best marginals": crf.marginals(emissions, mask).argmax(-1),
        }
    right = {name: ((guess == tags) & mask).sum().item() / mask.sum().item() for name, guess in guesses.items()}
    for name, share in right.items():
        print(f"{name:<24}{share:>8.1%} of the tags right")
    return right


if __name__ == "__main__":
    main()
