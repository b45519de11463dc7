"""Low-density parity-check codes, whose decoding is MAP or marginal inference with hard constraints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.factors.parity import Parity
from equifactor.generators.argument_checks import check_size, choice, number_of_graphs, whole
from equifactor.generators.building_blocks import one_or_many
from equifactor.generators.channel import BurstyChannel, Decoder, check_channel
from equifactor.generators.parity_checks import COLUMN_WEIGHT, matched_checks, null_space, regular_checks
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph


class LdpcCode:
    """A linear code given by its sparse parity checks. A check may have any number of bits.

    Args:
        parity: [m, n] zeros and ones, one row per check and one column per bit. Every check needs a bit, and every bit
            needs a check.

    Examples:
        >>> import numpy as np
        >>> from equifactor import generators
        >>> code = generators.LdpcCode.random(12, 6, seed=1)
        >>> word = code.encode(np.ones(code.dimension, int))
        >>> bool((code.parity @ word % 2).any())
        False
    """

    check_ptr: IntArray  # [m+1] the bits of check c are bits[check_ptr[c]:check_ptr[c+1]]
    bits: IntArray  # ascending in every check
    n: int  # the length of a codeword

    def __init__(self, parity: ArrayLike) -> None:
        matrix = _read_parity(parity)
        check, bits = np.nonzero(matrix)  # row by row
        self.check_ptr, self.bits, self.n = ptr_of(np.bincount(check)), bits, matrix.shape[1]

    @classmethod
    def random(cls, n: int, k: int, *, seed: int = 0) -> LdpcCode:
        """Draw a random (3, 3n/(n-k))-regular code of length n and design rate k/n with few 4-cycles."""
        n = whole("n", n, 4)
        num_checks = n - whole("k", k, 1)
        if num_checks < COLUMN_WEIGHT or (COLUMN_WEIGHT * n) % num_checks:
            raise OptionError(
                f"In a regular code n - k must be at least 3 and divide 3n. With n = {n} and k = {k}, n - k is "
                f"{num_checks}."
            )
        check_size(COLUMN_WEIGHT * n)
        checks = regular_checks(n, num_checks, np.random.default_rng(whole("seed", seed, 0)))
        return cls.of_edges(np.repeat(np.arange(n), COLUMN_WEIGHT), checks.ravel(), n)

    @classmethod
    def irregular(cls, bit_degrees: ArrayLike, check_degrees: ArrayLike, *, seed: int = 0) -> LdpcCode:
        """Draw a random code with a given number of checks for each bit [n] and of bits for each check [m].

        Edges are never repeated. The degrees are whole numbers above 0, and the two sums of degrees must be equal.

        Examples:
            >>> from equifactor import generators
            >>> generators.LdpcCode.irregular([1, 1, 2, 2], [2, 4], seed=1).parity.sum(axis=1)
            array([2, 4], dtype=uint64)
        """
        bits, checks = (_read_degrees(name, d) for name, d in (("bits", bit_degrees), ("checks", check_degrees)))
        if bits.sum() != checks.sum():
            raise OptionError(
                f"The degrees of the bits sum to {bits.sum()}, and the degrees of the checks sum to {checks.sum()}. "
                "The sums must be equal."
            )
        for name, degree, others, count in (
            ("bit", bits.max(), "checks", len(checks)),
            ("check", checks.max(), "bits", len(bits)),
        ):
            if degree > count:
                raise OptionError(f"A {name} has degree {degree}, which exceeds the number of {others}, {count}.")
        check_size(int(bits.sum()))
        edges = matched_checks(bits, checks, np.random.default_rng(whole("seed", seed, 0)))
        return cls.of_edges(*edges, len(bits))

    @classmethod
    def of_edges(cls, bit: IntArray, check: IntArray, n: int) -> LdpcCode:
        """Return the code over n bits with edges (bit [e], check [e]). Bits ascend, and every check needs an edge."""
        try:
            bit, check = np.asarray(bit), np.asarray(check)
        except Exception:  # rows of different lengths, or any error of a foreign object that is asked for numbers
            bit = check = np.zeros((0, 0), np.int64)
        if bit.ndim != 1 or bit.shape != check.shape or bit.dtype.kind not in "iu" or check.dtype.kind not in "iu":
            raise ModelError(
                f"The edges of a code must be the bits [e] and the checks [e], found {brief(bit)} and {brief(check)}."
            )
        whole("n", n, int(bit.max(initial=-1)) + 1)
        code = cls.__new__(cls)
        code.bits = bit[np.argsort(check, kind="stable")]
        code.check_ptr = ptr_of(np.bincount(check))
        code.n = n
        return code

    @cached_property
    def parity(self) -> NDArray[np.uint8]:
        """The checks as a matrix [m, n] of bytes."""
        check_size((len(self.check_ptr) - 1) * self.n)
        matrix = np.zeros((len(self.check_ptr) - 1, self.n), np.uint8)
        matrix[row_of(self.check_ptr), self.bits] = 1
        matrix.flags.writeable = False
        return matrix

    @property
    def dimension(self) -> int:
        """The number of bits of a message, n - rank of the checks: k, or more if checks are dependent."""
        return len(self._generator[0])

    @property
    def message_bits(self) -> IntArray:
        """The positions [dimension] at which a codeword contains its message unchanged."""
        return self._generator[1]

    @cached_property
    def _generator(self) -> tuple[NDArray[np.uint8], IntArray]:
        return null_space(self.parity)

    def encode(self, messages: IntArray) -> IntArray:
        """Return the codewords [..., n] of messages [..., dimension] of zeros and ones."""
        try:
            bits = np.asarray(messages)
        except Exception:  # rows of different lengths, or any error of a foreign object
            bits = np.zeros(0, np.int64)
        if bits.shape[-1:] != (self.dimension,) or not np.isin(bits, (0, 1)).all():
            raise ModelError(
                f"A message must have {self.dimension} bits, each 0 or 1; found an array of shape {bits.shape}."
            )
        # Floating point has the faster matrix product, and is exact because the sums stay far below 2^53.
        return (bits.astype(float) @ self._generator[0].astype(float)).astype(np.int64) % 2

    @cached_property
    def structure(self) -> Structure:
        """The structure of every graph: factor i < n is the likelihood of bit i, factor n + c is check c."""
        sizes = np.concatenate((np.ones(self.n, np.int64), np.diff(self.check_ptr)))
        count = np.arange(len(sizes) + 1)
        scope_vars = np.concatenate((np.arange(self.n), self.bits))
        rows = FactorRows(
            np.where(sizes > 1, Parity.number, TABLE),  # a check of one bit is a table
            ptr_of(sizes), scope_vars,
            2 * count, np.zeros(2 * len(sizes)),
            0 * count, count[:0],
            np.full(len(scope_vars), 2),
        )  # fmt: skip
        return Structure.of_rows(np.full(self.n, 2), rows)

    @checks_types("received")
    def graphs(self, received: FloatArray, channel: BurstyChannel, *, stem: str = "ldpc") -> list[FactorGraph]:
        """Return one graph per received word [N, n]; its MAP assignment is the most likely codeword.

        With a uniform prior over codewords, Z is the sum over codewords of `p(received | codeword)`.
        """
        check_channel(channel)
        received = np.asarray(received, float)
        if received.ndim != 2 or received.shape[1] != self.n:
            raise ModelError(f"Received words must have shape [N, {self.n}], found {received.shape}.")
        check_size(len(received) * self.structure.num_entries)
        evidence = channel.log_likelihood(received).reshape(len(received), -1)
        checks = np.tile([0.0, -np.inf], len(self.check_ptr) - 1)  # the log values of even and odd parity
        log_phi = np.hstack((evidence, np.broadcast_to(checks, (len(received), len(checks)))))
        graphs = one_or_many(self.structure, log_phi, stem, len(received))
        return graphs if isinstance(graphs, list) else [graphs]


def _read_degrees(name: str, degrees: ArrayLike) -> IntArray:
    """Return degrees [n] that a user gave; raise `OptionError` if they are not whole numbers above 0."""
    try:
        numbers = np.asarray(degrees)
    except Exception:  # rows of different lengths, or any error of a foreign object that is asked for numbers
        numbers = np.zeros(0)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 1:
        raise OptionError(f"The degrees of the {name} must be a list of whole numbers above 0, found {brief(degrees)}.")
    return numbers.astype(np.int64)


def _read_parity(parity: object) -> np.ndarray:
    """Return the checks as a matrix; raise `ModelError` if they are not the checks of a code."""
    wrong = None
    try:
        array = np.asarray(parity)
        wrong = {"U": "it holds text", "O": f"it holds {parity!r:.40}"}.get(array.dtype.kind)
    except ValueError:
        wrong = "its rows have different lengths"
    except Exception as error:  # a foreign object may raise any error when it is asked for numbers
        wrong = brief(error)
    if wrong:
        raise ModelError(f"The parity checks are not a matrix of zeros and ones: {wrong}.")
    if array.ndim != 2 or not array.size:
        raise ModelError(
            "The parity checks must be a matrix of zeros and ones, one row per check and one column per bit. Found "
            f"an array of shape {array.shape}."
        )
    other = (array != 0) & (array != 1)
    if other.any():
        check, bit = np.argwhere(other)[0].tolist()
        raise ModelError(f"Check {check} has {array[check, bit]:g} at bit {bit}. Parity checks are zeros and ones.")
    sizes = np.count_nonzero(array, axis=1)
    if not sizes.all():
        raise ModelError(f"Check {int(np.argmin(sizes))} has no bits. Remove its row.")
    free = ~array.any(axis=0)
    if free.any():
        raise ModelError(f"Bit {int(np.argmax(free))} is not in any check, so nothing protects it. Remove its column.")
    return array


@dataclass(frozen=True, eq=False)
class Transmissions:
    """Words sent over a channel: the code, the sent words [N, n], the received words [N, n], and a graph per word."""

    code: LdpcCode
    channel: BurstyChannel
    codewords: IntArray
    received: FloatArray
    graphs: list[FactorGraph]


def ldpc_transmissions(
    n: int,
    k: int,
    *,
    channel: BurstyChannel,
    codeword: Literal["zero", "random"] = "zero",
    count: int = 1,
    seed: int = 0,
) -> Transmissions:
    """Draw a code, send `count` codewords over the channel, and return the sent words with the graphs.

    `zero` sends the all-zero word. For a decoder that treats 0 and 1 alike, it is as hard to decode as any other word.
    Learned decoders must be trained and tested on `random` words. Word i does not depend on `count`.
    """
    choice("codeword", codeword, ("zero", "random"))
    check_channel(channel)
    num_words = number_of_graphs(count)
    code = LdpcCode.random(n, k, seed=seed)
    check_size(num_words * code.structure.num_entries)
    bits, noise = np.random.default_rng(seed).spawn(2)
    codewords = np.zeros((num_words, code.n), np.int64)
    if codeword == "random":
        codewords = code.encode(bits.integers(2, size=(num_words, code.dimension)))
    received = channel.transmit(codewords, noise)
    graphs = code.graphs(received, channel, stem=f"ldpc-{n}-{k}-seed{seed}")
    return Transmissions(code, channel, codewords, received, graphs)


class LdpcOptions(TypedDict, total=False):
    """Keyword arguments of `ldpc`, for the type checker."""

    snr_db: float
    burst_std: float
    burst_probability: float
    decoder: Decoder
    codeword: Literal["zero", "random"]
    seed: int


@overload
def ldpc(n: int, k: int, *, count: None = None, **options: Unpack[LdpcOptions]) -> FactorGraph: ...
@overload
def ldpc(n: int, k: int, *, count: int, **options: Unpack[LdpcOptions]) -> list[FactorGraph]: ...
def ldpc(
    n: int,
    k: int,
    *,
    snr_db: float = 2.0,
    burst_std: float = 0.0,
    burst_probability: float = 0.05,
    decoder: Decoder = "gaussian",
    codeword: Literal["zero", "random"] = "zero",
    count: int | None = None,
    seed: int = 0,
) -> FactorGraph | list[FactorGraph]:
    """Draw decoding problems of one random regular (3, 3n/(n-k)) code of length n and design rate k/n.

    Each graph has a `Parity` factor per check, and a unary factor per bit with the likelihood of its received value.
    All graphs of a call share one structure, and graph i does not depend on `count`.

    Args:
        n: bits of a codeword.
        k: bits of a message; n - k must divide 3n.
        snr_db: signal-to-noise ratio without bursts, in decibels; see `BurstyChannel`.
        burst_std: strength of a burst; 0 gives white Gaussian noise only.
        burst_probability: probability that a burst hits a symbol.
        decoder: the likelihood that the receiver assumes: `gaussian` ignores bursts, `mixture` does not.
        codeword: `zero` sends the all-zero word, `random` random words; `ldpc_transmissions` also returns the words.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the code, the words and the noise.
    """
    channel = BurstyChannel(snr_db=snr_db, burst_std=burst_std, burst_probability=burst_probability, decoder=decoder)
    sent = ldpc_transmissions(n, k, channel=channel, codeword=codeword, count=number_of_graphs(count), seed=seed)
    return sent.graphs[0] if count is None else sent.graphs
