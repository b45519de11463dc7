"""What the experiment on bursty noise compares: a code, a range of noise, decoders and networks."""

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
        methods: of `WordDecoder`; the one with the fewest wrong validation bits is taken.
        clips: log ratios of bits are cut at each of these; chosen in the same way.
        knows: what it knows of the noise: `gaussian` only the SNR, as networks do; `bursts` also how often bursts come
            and the range of their strength; `strength` everything.
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
    """The channels, one for each SNR and strength of bursts, and how many test words go over each.

    Attributes:
        snr_db: signal-to-noise ratios.
        burst_std: strengths of bursts.
        burst_probability: how often a symbol is hit.
        words: test words of a channel at each SNR.
        passes: in how many equal parts they are drawn.
        seed: of the test words.
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
        """Return those of the tests, in the order of `sizes`."""
        return [self.channel(snr, burst) for snr, burst in product(self.snr_db, self.burst_std)]

    def sizes(self) -> list[int]:
        """Return how many words of each channel one pass has."""
        return [count // self.passes for count in self.words for _ in self.burst_std]


@dataclass(frozen=True)
class WordTraining:
    """How every network is trained.

    Attributes:
        updates: gradient steps, or fewer where the time is short: then as many for all networks.
        batch_size: words of a gradient step.
        warmup: gradient steps over which the learning rate rises.
        validate_every: gradient steps between looks at the validation words; the best weights are kept.
        validation: number of validation words.
        seed: of the training words, together with that of the weights, and of the validation words.
    """

    updates: int
    batch_size: int
    warmup: int
    validate_every: int
    validation: int
    seed: int


@dataclass(frozen=True)
class WordTuning:
    """The learning rates that are tried, and for how many gradient steps each."""

    lrs: tuple[float, ...]
    updates: int


@dataclass(frozen=True)
class OtherCode:
    """A code on which the trained networks are judged as they are: its name, its size and seed, and its noise."""

    name: str
    n: int
    k: int
    code_seed: int
    snr_db: tuple[float, ...]
    burst_std: tuple[float, ...]
    words: int


@dataclass(frozen=True)
class BurstyExperiment:
    """Everything that decides a result, device and time aside; `at` names a code other than that of training."""

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
        """From the values of a TOML file; raises `TypeError` or `KeyError` where they are not an experiment."""
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
        """Return the whole road on a shorter code, in half a minute on a CPU; no result to quote."""
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
        """Return the experiment with some of its lines only, given as a text with commas."""
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
