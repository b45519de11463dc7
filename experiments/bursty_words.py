"""Words that are sent over bursty channels, what receivers make of them, and how many are read wrongly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.generators import BurstyChannel, LdpcCode
from experiments.bursty_experiment import BurstyExperiment, NoiseRange

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_GROUPS = 16  # channels in a batch of training words
_STRENGTHS = 25  # of bursts, over which a receiver takes the mean that knows only their range

Cells = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class SentWords:
    """Random words of a code over one channel: bits [N, n] that were sent and values [N, n] that arrived."""

    channel: BurstyChannel
    bits: IntArray
    received: FloatArray

    def log_ratios(self, noise: NoiseRange, knows: str = "gaussian") -> FloatArray:
        """[N, n] ln p(received | 0) - ln p(received | 1) as a receiver has it who knows this much of the noise.

        `gaussian`: the SNR alone, bursts are not expected. `bursts`: also their probability, and that their strength is
        anywhere in the range of the experiment, drawn for each symbol anew. `strength`: the strength as well.
        """
        mixture = replace(self.channel, decoder="mixture")
        if knows == "gaussian":
            log_p = self.channel.log_likelihood(self.received)
        elif knows == "strength":
            log_p = mixture.log_likelihood(self.received)
        elif knows == "bursts":
            low, high = min(noise.burst_std), max(noise.burst_std)
            strengths = low + (high - low) * (np.arange(_STRENGTHS) + 0.5) / _STRENGTHS
            each = [replace(mixture, burst_std=s).log_likelihood(self.received) for s in strengths.tolist()]
            log_p = functools.reduce(np.logaddexp, each)
        else:
            raise OptionError(f"knows is gaussian, bursts or strength, found {knows!r}")
        return np.asarray(log_p[..., 0] - log_p[..., 1])


def sent_words(code: LdpcCode, channel: BurstyChannel, count: int, rng: np.random.Generator) -> SentWords:
    """Random words of a code, and what arrives of them."""
    bits = code.encode(rng.integers(2, size=(count, code.dimension)))
    return SentWords(channel, bits, channel.transmit(bits, rng))


def training_words(
    code: LdpcCode, experiment: BurstyExperiment, count: int, *place: int
) -> tuple[FloatArray, IntArray]:
    """Log ratios and bits, both [count, n], of words over channels drawn from the whole range of noise.

    `place` says which words: the same numbers give the same words.
    """
    noise = experiment.noise
    rng = np.random.default_rng([experiment.training.seed, *place])
    ratios, bits = [], []
    for part in np.array_split(np.arange(count), min(_GROUPS, count)):
        snr, burst = (rng.uniform(min(v), max(v)) for v in (noise.snr_db, noise.burst_std))
        words = sent_words(code, noise.channel(snr, burst), len(part), rng)
        ratios.append(words.log_ratios(noise))
        bits.append(words.bits)
    return np.concatenate(ratios), np.concatenate(bits)


def count_errors(
    code: LdpcCode,
    noise: NoiseRange,
    read: Callable[[list[SentWords], int], list[IntArray]],
    go_on: Callable[[], bool],
) -> Cells:
    """How many test words and bits are read wrongly over each channel, pass by pass as long as it may go on.

    Args:
        code: of which the words are.
        noise: the channels.
        read: from the words of all channels and the number of the pass to the bits [N, n] that are read of each.
        go_on: looked at before each pass but the first.

    Returns:
        for each channel the words, wrong words, wrong bits, wrong bits of the message and the sum over words of the
        squared number of the latter.
    """
    counts = np.zeros((len(noise.sizes()), 5), np.int64)
    for number, words in enumerate(judged_words(code, noise)):
        if number and not go_on():
            break
        for cell, found in enumerate(read(words, number)):
            counts[cell] += errors(code, words[cell].bits, found)
    names = ("words", "word_errors", "bit_errors", "message_errors", "message_squares")
    return [
        {"snr_db": channel.snr_db, "burst_std": channel.burst_std, **dict(zip(names, row, strict=True))}
        for channel, row in zip(noise.channels(), counts.tolist(), strict=True)
    ]


def errors(code: LdpcCode, sent: IntArray, found: IntArray) -> IntArray:
    """Words, wrong words, wrong bits, wrong bits of the message, and the sum of the squares of the latter, by word."""
    off = sent != found
    of_message = off[:, code.message_bits].sum(axis=1)
    return np.array(
        [len(off), np.count_nonzero(off.any(axis=1)), off.sum(), of_message.sum(), np.square(of_message).sum()]
    )


def judged_words(code: LdpcCode, noise: NoiseRange) -> Iterator[list[SentWords]]:
    """The test words pass by pass, a list by channel; a pass does not depend on those before it."""
    for number in range(noise.passes):
        yield [
            sent_words(code, channel, count, np.random.default_rng([noise.seed, cell, number]))
            for cell, (channel, count) in enumerate(zip(noise.channels(), noise.sizes(), strict=True))
        ]
