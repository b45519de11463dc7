"""Low-density parity-check codes: decoding as MAP or marginal inference with hard constraints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.factors.parity import Parity
from equifactor.generators.argument_checks import check_size, choice, number_of_graphs, whole
from equifactor.generators.building_blocks import one_or_many
from equifactor.generators.channel import BurstyChannel, Decoder
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
    """A linear code given by its sparse parity checks, of any size, equal or not.

    Args:
        parity: [m, n] zeros and ones, one row per check and one column per bit. Every check needs a bit and every bit
            a check.

    Examples:
        >>> import numpy as np
        >>> from equifactor import generators
        >>> code = generators.LdpcCode.random(12, 6, seed=1)
        >>> word = code.encode(np.ones(code.dimension, int))
        >>> bool((code.parity @ word % 2).any())
        False
    """

    check_ptr: IntArray  # [m+1] bits of check c are bits[check_ptr[c]:check_ptr[c+1]]
    bits: IntArray  # ascending in every check
    n: int  # the length of a codeword

    def __init__(self, parity: ArrayLike) -> None:
        matrix = _read_parity(parity)
        check, bits = np.nonzero(matrix)  # row by row
        self.check_ptr, self.bits, self.n = ptr_of(np.bincount(check)), bits, matrix.shape[1]

    @classmethod
    def random(cls, n: int, k: int, *, seed: int = 0) -> LdpcCode:
        """A random (3, 3n/(n-k))-regular code of length n and design rate k/n with few 4-cycles."""
        n = whole("n", n, 4)
        num_checks = n - whole("k", k, 1)
        if num_checks < COLUMN_WEIGHT or (COLUMN_WEIGHT * n) % num_checks:
            raise OptionError(
                f"a regular code needs n - k of at least 3 that divides 3n; n = {n}, k = {k} gives n - k = {num_checks}"
            )
        check_size(COLUMN_WEIGHT * n)
        checks = regular_checks(n, num_checks, np.random.default_rng(whole("seed", seed, 0)))
        return cls.of_edges(np.repeat(np.arange(n), COLUMN_WEIGHT), checks.ravel(), n)

    @classmethod
    def irregular(cls, bit_degrees: ArrayLike, check_degrees: ArrayLike, *, seed: int = 0) -> LdpcCode:
        """A random code in which every bit is in so many checks [n] and every check has so many bits [m].

        Edges are drawn at random and never repeated. The degrees are whole numbers above 0, and both sums are equal.

        Examples:
            >>> from equifactor import generators
            >>> generators.LdpcCode.irregular([1, 1, 2, 2], [2, 4], seed=1).parity.sum(axis=1)
            array([2, 4], dtype=uint64)
        """
        bits, checks = (_read_degrees(name, d) for name, d in (("bits", bit_degrees), ("checks", check_degrees)))
        if bits.sum() != checks.sum():
            raise OptionError(f"the bits have {bits.sum()} edges and the checks {checks.sum()}; both must be equal")
        for name, most, others in (("bit", bits.max(), len(checks)), ("check", checks.max(), len(bits))):
            if most > others:
                raise OptionError(f"a {name} of degree {most} needs as many of the others, found {others}")
        check_size(int(bits.sum()))
        edges = matched_checks(bits, checks, np.random.default_rng(whole("seed", seed, 0)))
        return cls.of_edges(*edges, len(bits))

    @classmethod
    def of_edges(cls, bit: IntArray, check: IntArray, n: int) -> LdpcCode:
        """The code of these edges (bit [e], ascending, and check [e]) over n bits; every check has one."""
        code = cls.__new__(cls)
        code.bits = bit[np.argsort(check, kind="stable")]
        code.check_ptr = ptr_of(np.bincount(check))
        code.n = n
        return code

    @cached_property
    def parity(self) -> NDArray[np.uint8]:
        """The checks [m, n] as a matrix of bytes, which only `encode` needs."""
        check_size((len(self.check_ptr) - 1) * self.n)
        matrix = np.zeros((len(self.check_ptr) - 1, self.n), np.uint8)
        matrix[row_of(self.check_ptr), self.bits] = 1
        matrix.flags.writeable = False
        return matrix

    @property
    def dimension(self) -> int:
        """The number of bits of a message, n - rank of the checks: k, or more where checks are dependent."""
        return len(self._generator[0])

    @property
    def message_bits(self) -> IntArray:
        """[dimension] the places of a codeword at which its message stands unchanged."""
        return self._generator[1]

    @cached_property
    def _generator(self) -> tuple[NDArray[np.uint8], IntArray]:
        return null_space(self.parity)

    def encode(self, messages: IntArray) -> IntArray:
        """The codewords [..., n] of messages [..., dimension] of zeros and ones."""
        bits = np.asarray(messages)
        if bits.shape[-1:] != (self.dimension,) or not np.isin(bits, (0, 1)).all():
            raise ModelError(f"a message has {self.dimension} bits, each 0 or 1; found an array of shape {bits.shape}")
        # Floating point for the fast matrix product; exact, because the sums stay far below 2^53.
        return (bits.astype(float) @ self._generator[0].astype(float)).astype(np.int64) % 2

    @cached_property
    def structure(self) -> Structure:
        """The structure of every graph: factor i < n is what the channel says of bit i, factor n + c is check c."""
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

    def graphs(self, received: FloatArray, channel: BurstyChannel, *, stem: str = "ldpc") -> list[FactorGraph]:
        """One graph per received word [N, n]; its MAP assignment is the most likely codeword.

        With a uniform prior over codewords, Z is the sum over codewords of `p(received | codeword)`.
        """
        received = np.asarray(received, float)
        if received.ndim != 2 or received.shape[1] != self.n:
            raise ModelError(f"received words need shape [N, {self.n}], found {received.shape}")
        check_size(len(received) * self.structure.num_entries)
        evidence = channel.log_likelihood(received).reshape(len(received), -1)
        checks = np.tile([0.0, -np.inf], len(self.check_ptr) - 1)  # the log values of even and of odd
        log_phi = np.hstack((evidence, np.broadcast_to(checks, (len(received), len(checks)))))
        graphs = one_or_many(self.structure, log_phi, stem, len(received))
        return graphs if isinstance(graphs, list) else [graphs]


def _read_degrees(name: str, degrees: ArrayLike) -> IntArray:
    """Degrees [n] that a user gave; raises `OptionError` where they are not whole numbers above 0."""
    numbers = np.asarray(degrees)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 1:
        raise OptionError(f"the degrees of the {name} are a list of whole numbers above 0, found {degrees!r:.60}")
    return numbers.astype(np.int64)


def _read_parity(parity: object) -> np.ndarray:
    """The checks as a matrix; raises `ModelError` where they are not the checks of a code."""
    wrong = None
    try:
        array = np.asarray(parity)
        wrong = {"U": "it holds text", "O": f"it holds {parity!r:.40}"}.get(array.dtype.kind)
    except ValueError:
        wrong = "its rows have different lengths"
    if wrong:
        raise ModelError(f"the parity checks are not a matrix of zeros and ones: {wrong}")
    if array.ndim != 2 or not array.size:
        raise ModelError(
            "the parity checks are a matrix of zeros and ones, one row per check and one column per bit; found "
            f"an array of shape {array.shape}"
        )
    other = (array != 0) & (array != 1)
    if other.any():
        check, bit = np.argwhere(other)[0].tolist()
        raise ModelError(f"check {check} has {array[check, bit]:g} at bit {bit}; a parity check holds zeros and ones")
    sizes = np.count_nonzero(array, axis=1)
    if not sizes.all():
        raise ModelError(f"check {int(np.argmin(sizes))} has no bits; leave its row out")
    free = ~array.any(axis=0)
    if free.any():
        raise ModelError(f"bit {int(np.argmax(free))} is in no check; leave its column out, as nothing protects it")
    return array


@dataclass(frozen=True, eq=False)
class Transmissions:
    """Words sent over a channel: the code, what was sent [N, n], what arrived [N, n], one graph for each."""

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
    """Draw a code, send `count` codewords over the channel, and keep what was sent beside the graphs.

    `zero` sends the all-zero word, which is as hard to decode as any other for a decoder that treats 0 and 1
    alike; a learned decoder must be trained and tested on `random` words. Word i does not depend on `count`.
    """
    choice("codeword", codeword, ("zero", "random"))
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
    """Decoding problems of one random regular (3, 3n/(n-k)) code of length n and design rate k/n.

    A `Parity` for each check, of any number of bits, and one unary factor per bit with the likelihood of what was
    received. All graphs of a call share one structure, and graph i does not depend on `count`.

    Args:
        n: bits of a codeword.
        k: bits of a message; n - k must divide 3n.
        snr_db: signal-to-noise ratio without bursts, in decibels; `BurstyChannel` says more.
        burst_std: strength of a burst; 0 gives white Gaussian noise only.
        burst_probability: probability that a symbol is hit by a burst.
        decoder: what the receiver believes: `gaussian` knows nothing of bursts, `mixture` does.
        codeword: `zero` sends the all-zero word, `random` random ones; `ldpc_transmissions` also returns what was sent.
        count: None gives one graph, N gives a list of N.
        seed: the seed of the code, the words and the noise.
    """
    channel = BurstyChannel(snr_db=snr_db, burst_std=burst_std, burst_probability=burst_probability, decoder=decoder)
    sent = ldpc_transmissions(n, k, channel=channel, codeword=codeword, count=number_of_graphs(count), seed=seed)
    return sent.graphs[0] if count is None else sent.graphs
