"""Decoders for Sinter: `sinter collect --custom_decoders_module_function "equifactor.decoding:sinter_decoders"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.decoding.decoder import Decoder
from equifactor.decoding.methods import METHODS, decoding_method

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    import sinter
except ImportError:
    raise OptionError('Sinter is not installed: pip install "equifactor[decoding]".') from None


class SinterDecoder(sinter.Decoder):  # type: ignore[misc]
    """A decoding method as a decoder of Sinter; it pickles as text."""

    def __init__(self, method: str) -> None:
        self.method = str(decoding_method(method))

    def compile_decoder_for_dem(self, *, dem: Any) -> SinterCompiledDecoder:
        """Return the decoder of a detector error model."""
        return SinterCompiledDecoder(Decoder.from_dem(dem, self.method))


class SinterCompiledDecoder(sinter.CompiledDecoder):  # type: ignore[misc]
    """A decoder of one model."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the predicted flips [N, ceil(L/8)] of shots [N, ceil(D/8)], both in little bit order."""
        # sinter runs a process on each core.
        flips = self.decoder.decode(bit_packed_detection_event_data, packed=True, threads=1).flips
        return np.packbits(flips, axis=1, bitorder="little")


def all_decoders(**methods: str) -> dict[str, SinterDecoder]:
    """Return `equifactor-relay`, `equifactor-min-sum` and so on, and `equifactor-NAME` for each keyword NAME."""
    return {f"equifactor-{name}": SinterDecoder(text) for name, text in {**{m: m for m in METHODS}, **methods}.items()}
