"""Words of a classical code that are sent over a noisy channel, and how often they are decoded wrongly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equifactor.base.argument_types import checks_fields, checks_types
from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.decoding.decoder import answered, engine_of
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.error_sampling import counted_text
from equifactor.decoding.given_arrays import read_array
from equifactor.decoding.methods import DecodingMethod, decoding_method
from equifactor.decoding.problem import DecodingProblem
from equifactor.decoding.shot_priors import CERTAIN
from equifactor.decoding.shot_store import ShotStore
from equifactor.generators.argument_checks import real, whole
from equifactor.generators.channel import BurstyChannel, check_channel
from equifactor.generators.ldpc import LdpcCode
from equifactor.graph.reading.inputs import as_list

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.run_context import Progress
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.decoding.decoding_result import DecodingResult

_MOST = 0.99 * CERTAIN  # Finite log ratios are clipped to this one, which is smaller than that of a known bit.
_BATCH = 1000  # The number of words that are sent together, which bounds memory. Chosen by hand.


class Channel(Protocol):
    """A noisy channel, such as `BurstyChannel` of the generators, of which white Gaussian noise is a special case."""

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

    @checks_types("codewords", "rng")
    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return bits [..., n] as floats."""
        bits = np.asarray(codewords)
        return np.asarray(bits != (rng.random(bits.shape) < self.flip), float)

    @checks_types("received")
    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return log probabilities [..., n, 2]."""
        with np.errstate(divide="ignore"):  # ln 0 if no bit is ever flipped
            right, wrong = np.log1p(-self.flip), np.log(self.flip)
        return np.asarray(
            np.where(np.equal(np.asarray(received)[..., None], np.array([0.0, 1.0])), right, wrong), float
        )


@dataclass(frozen=True, kw_only=True)
class ErasureChannel:
    """A channel that loses every bit with probability `loss`; the receiver reads 0.5 for a lost bit."""

    loss: float = 0.4

    def __post_init__(self) -> None:
        real("loss", self.loss, 0.0, 1.0)

    @checks_types("codewords", "rng")
    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return bits [..., n], and 0.5 for each lost bit."""
        return np.where(rng.random(np.shape(codewords)) < self.loss, 0.5, codewords)

    @checks_types("received")
    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return log probabilities [..., n, 2] up to a constant: 0 for a possible value, -inf for an impossible one."""
        return np.where(np.abs(np.asarray(received)[..., None] - np.array([0.0, 1.0])) < 1.0, 0.0, -np.inf)


class WordDecoder:
    """A decoder that finds the word of a code that was sent, from the log ratio of every received bit.

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
            log_ratios: [N, n] ln p(received | 0) - ln p(received | 1) of every bit, infinite for a known bit. For hard
                bits that are wrong with probability p it is (1 - 2 bits) ln (1-p)/p.
            time_limit: in seconds.
            progress: True for a bar on the terminal, or a function of (done, total, note).
        """
        width = self.problem.model.num_errors
        given = _read_ratios(log_ratios, width)
        ratios = np.where(np.isinf(given), np.sign(given) * CERTAIN, np.clip(given, -_MOST, _MOST))
        checks = self.problem.model.num_detectors
        store = ShotStore(self.problem, lambda a, b: np.zeros((b - a, checks), bool), len(ratios), keep=True)
        store.ratios = np.ascontiguousarray(ratios[:, self.problem.error_of_bit], np.float32)
        result = answered(self._engine, store, time_limit, progress, str(self.method))
        assert result.corrections is not None
        free = np.setdiff1d(np.arange(width), self.problem.error_of_bit)
        result.corrections[:, free] = ratios[:, free] < 0.0
        return result


def _read_ratios(log_ratios: ArrayLike, width: int) -> FloatArray:
    """Return log ratios [N, width] that a user gave; raise `ModelError` for hard bits, NaN or another shape."""
    array = read_array("log_ratios", log_ratios)
    if array.ndim != 2 or array.shape[1] != width:
        raise ModelError(
            f"log_ratios must be numbers in an array [N, {width}], found {array.dtype} {list(array.shape)}."
        )
    if array.dtype.kind == "b" or (((array == 0) | (array == 1)).all() and (array == 1).any()):
        raise ModelError(
            "log_ratios are hard bits: they hold nothing but 0 and 1. A positive log ratio means that 0 is likelier. "
            "For bits that are wrong with probability p, pass (1 - 2 * bits) * numpy.log((1 - p) / p)."
        )
    bad = np.isnan(array)
    if bad.any():
        word, bit = np.argwhere(bad)[0].tolist()
        raise ModelError(f"log_ratios hold NaN for bit {bit} of word {word}. Pass 0 for an unknown bit.")
    return array.astype(float)


@checks_fields(
    "method",
    "n",
    "words",
    "word_errors",
    "bit_errors",
    "converged",
    "iterations",
    "seconds",
    "interrupted",
    "undecided",
)
@dataclass(frozen=True)
class WordErrors:
    """The number of words and of bits that were decoded wrongly, of `words` words of n bits over one channel."""

    channel: Channel
    method: str
    n: int
    words: int
    word_errors: int
    bit_errors: int
    converged: int = 0  # Words for which the decoder found some word of the code.
    iterations: int = 0  # Iterations of belief propagation in total.
    seconds: float = 0.0  # The duration of decoding.
    interrupted: bool = False  # Whether Ctrl-C ended the run.
    # Numbers of the words that had begun at the time limit and were not finished soon after it; they are among `words`.
    undecided: tuple[int, ...] = ()

    @property
    def word_error_rate(self) -> float:
        """Wrong words per word; undecided words count as wrong."""
        return (self.word_errors + len(self.undecided)) / self.words if self.words else math.nan

    @property
    def bit_error_rate(self) -> float:
        """Wrong bits per bit; the bits of undecided words count as right."""
        return self.bit_errors / (self.words * self.n) if self.words else math.nan

    @property
    def error(self) -> float:
        """The binomial standard error of the word error rate."""
        return math.sqrt(self.word_error_rate * (1.0 - self.word_error_rate) / self.words) if self.words else math.nan

    def __str__(self) -> str:
        if not self.words:
            return "no word was decoded"
        rate = counted_text(self.word_errors, self.words, len(self.undecided), "words")
        least = "at least " if self.undecided else ""
        return (
            f"word error rate {rate}, bit error rate {least}{self.bit_error_rate:.3g} "
            f"({self.bit_errors} of {self.words * self.n} bits)"
        )


def gaussian_channel(ebn0_db: float, rate: float) -> BurstyChannel:
    """Return white Gaussian noise with Eb/N0 in dB, for a code whose words carry `rate` bits of message per bit sent.

    A symbol is +1 or -1 and the noise has variance N0/2, so that the signal-to-noise ratio is 2 rate Eb/N0.
    """
    real("ebn0_db", ebn0_db, -100.0, 100.0)
    if real("rate", rate, 0.0, 1.0) == 0.0:
        raise OptionError(f"The rate of a code must be above 0, found {rate:g}.")
    return BurstyChannel(snr_db=ebn0_db + 10.0 * math.log10(2.0 * rate))


def word_error_rates(
    code: LdpcCode,
    channels: Iterable[Channel],
    methods: Iterable[str | DecodingMethod] = ("sum-product",),
    *,
    words: int = 1000,
    seed: int = 0,
    first: int = 0,
    time_limit: float | None = None,
    progress: Progress | bool = False,
) -> Iterator[WordErrors]:
    """Send random words of a code over channels and decode them by methods; all methods decode the same words.

    Ctrl-C and the time limit end the run. The words that have begun count: see `WordErrors.undecided`.

    Args:
        code: the code whose words are sent.
        channels: the channels, one after the other.
        methods: the methods of `WordDecoder`.
        words: the number of words that are sent over each channel.
        seed: the seed of the words and the noise.
        first: the number of the first word, so that a run can continue where another one ended.
        time_limit: in seconds, for each channel.
        progress: True for a bar on the terminal, or a function of (done, total, note).
    """
    whole("words", words, 1)
    whole("first", first, 0, 2**53)
    check_run(time_limit, seed, progress)
    listed, chosen = as_list(channels), as_list(methods)
    if listed is None or chosen is None:
        raise OptionError(f"channels and methods must be lists, found {brief(channels)} and {brief(methods)}.")
    if not isinstance(code, LdpcCode):
        raise OptionError(f"word_error_rates needs an LdpcCode, found {brief(code)}.")
    decoders = [WordDecoder(code, method) for method in chosen]
    for number, channel in enumerate(listed):
        check_channel(channel)
        clock, totals = Clock(time_limit), [_Total() for _ in decoders]
        with bar(progress, "decoding") as report:
            for begin in range(first - first % _BATCH, first + words, _BATCH):
                if clock.stopped or any(total.interrupted for total in totals):
                    break
                bits, noise = np.random.default_rng([seed, number, begin]).spawn(2)
                count = min(_BATCH, first + words - begin)
                batch = code.encode(bits.integers(2, size=(count, code.dimension)))
                skipped = max(0, first - begin)
                sent, received = batch[skipped:], channel.transmit(batch, noise)[skipped:]
                log_p = channel.log_likelihood(received)
                for total, decoder in zip(totals, decoders, strict=True):
                    left = None if time_limit is None else clock.left
                    total.add(decoder.decode(log_p[..., 0] - log_p[..., 1], time_limit=left), sent, begin + skipped)
                if report is not None:
                    report(totals[-1].words, words, "")
        for total, decoder in zip(totals, decoders, strict=True):
            yield WordErrors(channel, str(decoder.method), code.n, **vars(total))


@dataclass
class _Total:
    """The sums over batches of one method."""

    words: int = 0
    word_errors: int = 0
    bit_errors: int = 0
    converged: int = 0
    iterations: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    undecided: tuple[int, ...] = ()

    def add(self, result: DecodingResult, sent: IntArray, first: int) -> None:
        """Count the words [N, n] of a batch that have begun; `first` is the number of the first one."""
        assert result.corrections is not None
        wrong_bits = np.not_equal(result.corrections, sent).sum(axis=1)[result.decoded]
        undecided = np.flatnonzero(result.undecided)
        self.words += len(wrong_bits) + len(undecided)
        self.undecided += tuple((first + undecided).tolist())
        self.word_errors += int(np.count_nonzero(wrong_bits))
        self.bit_errors += int(wrong_bits.sum())
        self.converged += int(result.converged.sum())
        self.iterations += int(result.iterations.sum())
        self.seconds += result.seconds
        self.interrupted |= result.interrupted
