"""The config of the experiment on bursty noise: a code, a range of noise, decoders and networks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from equifactor.generators import BurstyChannel, LdpcCode
from experiments.name_choice import chosen_names


@dataclass(frozen=True)
class DecoderLine:
    """A line of the table with a classical decoder.

    Attributes:
        name: name in tables.
        methods: methods of `WordDecoder`; the method with the fewest wrong validation bits is used.
        clips: values at which log ratios of bits are clipped; the value is chosen in the same way.
        knows: the knowledge of the decoder about the noise. `gaussian`: only the SNR, like the networks. `bursts`: also
            the probability of bursts and the range of their strength. `strength`: also the strength.
    """

    name: str
    methods: tuple[str, ...]
    clips: tuple[float, ...] = (math.inf,)
    knows: str = "gaussian"


@dataclass(frozen=True)
class LearnedLine:
    """A line of the table with a network: its name in tables, its kind and its settings."""

    name: str
    kind: str
    network: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoiseRange:
    """The channels, one for each SNR and strength of bursts, and the number of test words over each.

    Attributes:
        snr_db: signal-to-noise ratios.
        burst_std: strengths of bursts.
        burst_probability: the probability that a symbol is hit.
        words: number of test words of a channel at each SNR.
        passes: number of equal parts in which the test words are drawn.
        seed: seed of the test words.
    """

    snr_db: tuple[float, ...]
    burst_std: tuple[float, ...]
    burst_probability: float
    words: tuple[int, ...]
    passes: int
    seed: int

    def channel(self, snr_db: float, burst_std: float) -> BurstyChannel:
        """Return a channel whose receiver knows nothing of bursts."""
        return BurstyChannel(snr_db=snr_db, burst_std=burst_std, burst_probability=self.burst_probability)

    def channels(self) -> list[BurstyChannel]:
        """Return the channels of the tests, in the order of `sizes`."""
        return [self.channel(snr, burst) for snr, burst in product(self.snr_db, self.burst_std)]

    def sizes(self) -> list[int]:
        """Return the number of words of each channel in one pass."""
        return [count // self.passes for count in self.words for _ in self.burst_std]


@dataclass(frozen=True)
class WordTraining:
    """The settings of training, the same for every network.

    Attributes:
        updates: number of gradient steps; with a time limit possibly fewer, the same number for all networks.
        batch_size: words per gradient step.
        warmup: gradient steps over which the learning rate rises.
        validate_every: gradient steps between two validations; the best weights are kept.
        validation: number of validation words.
        seed: seed of the validation words, and together with the seed of the weights of the training words.
    """

    updates: int
    batch_size: int
    warmup: int
    validate_every: int
    validation: int
    seed: int


@dataclass(frozen=True)
class WordTuning:
    """The learning rates that are tried, and the number of gradient steps of each trial."""

    lrs: tuple[float, ...]
    updates: int


@dataclass(frozen=True)
class OtherCode:
    """A code on which the trained networks are judged without further training: name, size, seed and noise."""

    name: str
    n: int
    k: int
    code_seed: int
    snr_db: tuple[float, ...]
    burst_std: tuple[float, ...]
    words: int


@dataclass(frozen=True)
class BurstyExperiment:
    """Everything that decides a result, except for device and time; `at` names a code other than the trained code."""

    name: str
    title: str
    n: int
    k: int
    code_seed: int
    seeds: tuple[int, ...]
    noise: NoiseRange
    training: WordTraining
    tuning: WordTuning
    classical: tuple[DecoderLine, ...]
    models: tuple[LearnedLine, ...]
    others: tuple[OtherCode, ...] = ()
    at: str = ""

    @classmethod
    def from_values(cls, name: str, values: dict[str, Any]) -> BurstyExperiment:
        """Read the values of a TOML file; raise `TypeError` or `KeyError` if they are not an experiment."""
        given = dict(values)
        return cls(
            name=name,
            seeds=tuple(given.pop("seeds")),
            noise=NoiseRange(**_tuples(given.pop("noise"))),
            training=WordTraining(**given.pop("training")),
            tuning=WordTuning(**_tuples(given.pop("tuning"))),
            classical=tuple(DecoderLine(**_tuples(line)) for line in given.pop("classical", [])),
            models=tuple(LearnedLine(**line) for line in given.pop("model", [])),
            others=tuple(OtherCode(**_tuples(other)) for other in given.pop("other", [])),
            **given,
        )

    def on(self, other: OtherCode) -> BurstyExperiment:
        """Return the same lines judged on another code, in one pass."""
        counts = (other.words,) * len(other.snr_db)
        noise = replace(self.noise, snr_db=other.snr_db, burst_std=other.burst_std, words=counts, passes=1)
        return replace(self, n=other.n, k=other.k, code_seed=other.code_seed, noise=noise, at=other.name)

    def code(self) -> LdpcCode:
        """Return the code of all words."""
        return _code(self.n, self.k, self.code_seed)

    def quick(self) -> BurstyExperiment:
        """Return a small copy of the experiment that takes half a minute on a CPU; its results are not meaningful."""
        models = [replace(m, network={**m.network, "steps": min(3, m.network.get("steps", 3))}) for m in self.models]
        others = (OtherCode("36 bits", 36, 18, 1, (2,), (0, 5), 20),)
        return replace(
            self,
            others=others, models=tuple(models), n=24, k=12, seeds=self.seeds[:1],
            noise=replace(self.noise, snr_db=(0, 4), burst_std=(0, 5), words=(40, 40), passes=2),
            training=replace(self.training, updates=4, batch_size=16, warmup=2, validate_every=2, validation=40),
            tuning=replace(self.tuning, lrs=self.tuning.lrs[:2], updates=2),
        )  # fmt: skip

    def selected(self, methods: str | None = None) -> BurstyExperiment:
        """Return the experiment with some of its lines only, given as comma-separated names."""
        lines = chosen_names("method", methods, [*(c.name for c in self.classical), *(m.name for m in self.models)])
        return replace(
            self,
            classical=tuple(line for line in self.classical if line.name in lines),
            models=tuple(line for line in self.models if line.name in lines),
        )


@functools.cache
def _code(n: int, k: int, seed: int) -> LdpcCode:
    return LdpcCode.random(n, k, seed=seed)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
