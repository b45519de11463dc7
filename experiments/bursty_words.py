"""Words that are sent over bursty channels, the log ratios of receivers, and the number of decoding errors."""

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

_GROUPS = 16  # The number of channels in a batch of training words. Chosen by hand.
# The number of burst strengths that a receiver averages over if it knows only their range. Chosen by hand.
_STRENGTHS = 25

Cells = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class SentWords:
    """Random words of a code over one channel: bits [N, n] that were sent and values [N, n] that arrived."""

    channel: BurstyChannel
    bits: IntArray
    received: FloatArray

    def log_ratios(self, noise: NoiseRange, knows: str = "gaussian") -> FloatArray:
        """Return [N, n] ln p(received | 0) - ln p(received | 1) for a receiver that knows this part of the noise.

        `gaussian`: the SNR alone, without bursts. `bursts`: also the probability of bursts, and the range of the
        experiment in which their strength is drawn for each symbol. `strength`: also the strength.
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
            raise OptionError(f"knows must be gaussian, bursts or strength, found {knows!r}")
        return np.asarray(log_p[..., 0] - log_p[..., 1])


def sent_words(code: LdpcCode, channel: BurstyChannel, count: int, rng: np.random.Generator) -> SentWords:
    """Return random words of a code with the values that a channel delivers."""
    bits = code.encode(rng.integers(2, size=(count, code.dimension)))
    return SentWords(channel, bits, channel.transmit(bits, rng))


def training_words(
    code: LdpcCode, experiment: BurstyExperiment, count: int, *place: int
) -> tuple[FloatArray, IntArray]:
    """Return log ratios and bits, both [count, n], of words over channels drawn from the whole range of noise.

    `place` is part of the seed: the same numbers give the same words.
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
    """Return the number of test words and bits that are decoded wrongly over each channel.

    Args:
        code: the code of the words.
        noise: the channels.
        read: a function that takes the words of all channels and the number of the pass, and returns the decoded bits
            [N, n] of each channel.
        go_on: a function that is called before each pass except the first; False ends the passes.

    Returns:
        For each channel, the numbers of words, wrong words, wrong bits and wrong message bits. `message_squares` is the
        sum over words of the squared number of wrong message bits.
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
    """Return the five counts of `count_errors` for words [N, n] that were sent, and their decoded bits [N, n]."""
    wrong = sent != found
    of_message = wrong[:, code.message_bits].sum(axis=1)
    return np.array(
        [len(wrong), np.count_nonzero(wrong.any(axis=1)), wrong.sum(), of_message.sum(), np.square(of_message).sum()]
    )


def judged_words(code: LdpcCode, noise: NoiseRange) -> Iterator[list[SentWords]]:
    """Yield the test words pass by pass, as a list by channel; passes are independent of each other."""
    for number in range(noise.passes):
        yield [
            sent_words(code, channel, count, np.random.default_rng([noise.seed, cell, number]))
            for cell, (channel, count) in enumerate(zip(noise.channels(), noise.sizes(), strict=True))
        ]
