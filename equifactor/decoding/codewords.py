"""Words of a classical code that are sent over a noisy channel, and how often they are decoded wrongly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError
from equifactor.decoding.decoder import answered, engine_of
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.methods import DecodingMethod, decoding_method
from equifactor.decoding.problem import DecodingProblem
from equifactor.decoding.shot_store import ShotStore
from equifactor.generators.argument_checks import real
from equifactor.generators.ldpc import LdpcCode

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.run_context import Progress
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.decoding.decoding_result import DecodingResult

_SURE = 1000.0  # The log ratio of a bit that is known; infinite log ratios are clipped to it. Chosen by hand.
_BATCH = 1000  # The number of words that are sent together, which bounds memory. Chosen by hand.


class Channel(Protocol):
    """A noisy channel. `BurstyChannel` of the generators is one, with white Gaussian noise as a special case."""

    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return the received values [..., n]."""

    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return ln p(received | bit) [..., n, 2]."""


@dataclass(frozen=True, kw_only=True)
class BinarySymmetricChannel:
    """A channel that flips every bit independently with probability `flip`."""

    flip: float = 0.05

    def __post_init__(self) -> None:
        real("flip", self.flip, 0.0, 0.5)

    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return bits [..., n] as floats."""
        return np.asarray(codewords ^ (rng.random(codewords.shape) < self.flip), float)

    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return log probabilities [..., n, 2]."""
        with np.errstate(divide="ignore"):  # ln 0 if no bit is ever flipped
            right, wrong = np.log1p(-self.flip), np.log(self.flip)
        return np.asarray(np.where(np.equal(received[..., None], np.array([0.0, 1.0])), right, wrong), float)


@dataclass(frozen=True, kw_only=True)
class ErasureChannel:
    """A channel that loses every bit with probability `loss`; the receiver reads 0.5 for a lost bit."""

    loss: float = 0.4

    def __post_init__(self) -> None:
        real("loss", self.loss, 0.0, 1.0)

    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return bits [..., n], and 0.5 for each lost bit."""
        return np.where(rng.random(codewords.shape) < self.loss, 0.5, codewords)

    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return log probabilities [..., n, 2] up to a constant: 0 for a possible value, -inf for an impossible one."""
        return np.where(np.abs(received[..., None] - np.array([0.0, 1.0])) < 1.0, 0.0, -np.inf)


class WordDecoder:
    """Finds the word of a code that was sent, from the log ratio of every received bit.

    Args:
        parity: [m, n] matrix of zeros and ones, numpy or scipy.sparse, or an `LdpcCode`.
        method: as for `Decoder`; `sum-product` is the usual choice.
        settings: further settings of the method.

    Examples:
        >>> import equifactor as ef
        >>> decoder = ef.decoding.WordDecoder([[1, 1, 0], [0, 1, 1]])
        >>> decoder.decode([[2.0, -1.0, 1.0]]).corrections.tolist()
        [[0, 0, 0]]
    """

    def __init__(self, parity: Any, method: str | DecodingMethod = "sum-product", **settings: Any) -> None:
        self.method = decoding_method(method, settings)
        matrix = parity.parity if isinstance(parity, LdpcCode) else parity
        self.problem = DecodingProblem.of(ErrorModel.of_matrices(matrix, 0.25), merge=False)
        self._engine = engine_of("cpu", self.problem, self.method)

    def decode(
        self, log_ratios: ArrayLike, *, time_limit: float | None = None, progress: Progress | bool = False
    ) -> DecodingResult:
        """Return the words [N, n] as `corrections` of the result; `converged` tells which are words of the code.

        Args:
            log_ratios: [N, n] ln p(received | 0) - ln p(received | 1) of every bit, infinite for a known bit.
            time_limit: in seconds.
            progress: True for a bar on the terminal, or a function of (done, total, note).
        """
        given = np.asarray(log_ratios, float)
        width = self.problem.model.num_errors
        if given.ndim != 2 or given.shape[1] != width or np.isnan(given).any():
            raise ModelError(
                f"log_ratios must be an array [N, {width}] without NaN, found an array of shape {given.shape}."
            )
        ratios = np.clip(given, -_SURE, _SURE)
        checks = self.problem.model.num_detectors
        store = ShotStore(self.problem, lambda a, b: np.zeros((b - a, checks), bool), len(given), keep=True)
        store.ratios = np.ascontiguousarray(ratios[:, self.problem.error_of_bit], np.float32)
        result = answered(self._engine, store, Clock(time_limit), progress, str(self.method))
        assert result.corrections is not None
        free = np.setdiff1d(np.arange(width), self.problem.error_of_bit)
        result.corrections[:, free] = ratios[:, free] < 0.0
        return result


@dataclass(frozen=True)
class WordErrors:
    """The number of words and of bits that were decoded wrongly, of `words` words of n bits over one channel."""

    channel: Channel
    method: str
    n: int
    words: int
    word_errors: int
    bit_errors: int

    @property
    def word_error_rate(self) -> float:
        """Wrong words per word."""
        return self.word_errors / self.words

    @property
    def bit_error_rate(self) -> float:
        """Wrong bits per bit."""
        return self.bit_errors / (self.words * self.n)

    @property
    def error(self) -> float:
        """The binomial standard error of the word error rate."""
        return math.sqrt(self.word_error_rate * (1.0 - self.word_error_rate) / self.words)


def word_error_rates(
    code: LdpcCode,
    channels: Iterable[Channel],
    methods: Iterable[str | DecodingMethod] = ("sum-product",),
    *,
    words: int = 1000,
    seed: int = 0,
) -> Iterator[WordErrors]:
    """Send random words of a code over channels and decode them by methods; all methods decode the same words.

    Args:
        code: the code whose words are sent.
        channels: the channels, one after the other.
        methods: the methods of `WordDecoder`.
        words: the number of words that are sent over each channel.
        seed: the seed of the words and the noise.
    """
    decoders = [WordDecoder(code, method) for method in methods]
    for number, channel in enumerate(channels):
        wrong = np.zeros((len(decoders), 2), np.int64)
        for first in range(0, words, _BATCH):
            bits, noise = np.random.default_rng([seed, number, first]).spawn(2)
            sent = code.encode(bits.integers(2, size=(min(_BATCH, words - first), code.dimension)))
            log_p = channel.log_likelihood(channel.transmit(sent, noise))
            for n, decoder in enumerate(decoders):
                found = decoder.decode(log_p[..., 0] - log_p[..., 1]).corrections
                assert found is not None
                off = np.not_equal(found, sent).sum(axis=1)
                wrong[n] += (np.count_nonzero(off), off.sum())
        for decoder, (lost, bits_off) in zip(decoders, wrong.tolist(), strict=True):
            yield WordErrors(channel, str(decoder.method), code.n, words, lost, bits_off)
