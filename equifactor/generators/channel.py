"""A noisy channel with bursts: the received values of a codeword, and the likelihood of each bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import OptionError, brief
from equifactor.generators.argument_checks import choice, real

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


Decoder = Literal["gaussian", "mixture"]


@dataclass(frozen=True, kw_only=True)
class BurstyChannel:
    """`y = s + z + p w` with z ~ N(0, noise_std^2), p ~ Bernoulli(burst_probability), w ~ N(0, burst_std^2).

    The symbol s is +1 for bit 0 and -1 for bit 1 (the channel of [Satorras21]).

    Args:
        snr_db: signal-to-noise ratio without bursts, `20 log10(1 / noise_std)`.
        burst_std: strength of a burst; 0 gives the white Gaussian channel.
        burst_probability: the probability that a burst hits a symbol, independent of the other symbols.
        decoder: the likelihood that the receiver assumes. `gaussian` ignores bursts (the usual mismatched decoder);
            `mixture` is the true likelihood.
    """

    snr_db: float = 2.0
    burst_std: float = 0.0
    burst_probability: float = 0.05
    decoder: Decoder = "gaussian"

    def __post_init__(self) -> None:
        real("snr_db", self.snr_db, -100.0, 100.0)
        real("burst_std", self.burst_std)
        real("burst_probability", self.burst_probability, 0.0, 1.0)
        choice("decoder", self.decoder, ("gaussian", "mixture"))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise without bursts."""
        return 10.0 ** (-self.snr_db / 20.0)

    @checks_types("codewords", "rng")
    def transmit(self, codewords: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return received values [..., n] for codewords [..., n]; word i does not depend on the number of words."""
        codewords = np.asarray(codewords, float)
        noise, burst, hit = rng.spawn(3)
        received = 1.0 - 2.0 * codewords + self.noise_std * noise.standard_normal(codewords.shape)
        hits = hit.random(codewords.shape) < self.burst_probability
        received += hits * self.burst_std * burst.standard_normal(codewords.shape)
        return received

    @checks_types("received")
    def log_likelihood(self, received: FloatArray) -> FloatArray:
        """Return the log densities `ln p(y | bit)` [..., 2] that the receiver assumes."""
        error = np.asarray(received, float)[..., None] - np.array([1.0, -1.0])
        plain = _log_normal(error, self.noise_std)
        if self.decoder == "gaussian" or self.burst_probability == 0.0:
            return plain
        burst = _log_normal(error, np.hypot(self.noise_std, self.burst_std))
        with np.errstate(divide="ignore"):  # ln 0 occurs when every symbol is hit
            weight = np.log([1.0 - self.burst_probability, self.burst_probability])
        return np.logaddexp(plain + weight[0], burst + weight[1])


def _log_normal(error: FloatArray, std: float) -> FloatArray:
    return -0.5 * (error / std) ** 2 - np.log(std * np.sqrt(2.0 * np.pi))


def check_channel(channel: object) -> None:
    """Raise `OptionError` unless words can be sent over this."""
    if not (hasattr(channel, "transmit") and hasattr(channel, "log_likelihood")):
        raise OptionError(f"Expected a channel such as BurstyChannel(snr_db=2.0), found {brief(channel)}.")
