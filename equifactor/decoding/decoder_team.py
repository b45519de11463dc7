"""Several decoders for the same shots, one after the other, with the first or the best answer taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from equifactor.base.argument_types import is_real
from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError, brief
from equifactor.decoding.decoder import Decoder
from equifactor.decoding.given_arrays import read_array
from equifactor.generators.argument_checks import choice, whole
from equifactor.graph.reading.inputs import as_list

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray
    from equifactor.decoding.decoding_result import DecodingResult

Take = Literal["first", "best"]


class DecoderTeam:
    """Decoders of one code that answer together.

    Args:
        decoders: `Decoder` objects with the same detectors and observables, the fastest first.
        take: `best` lets all decoders decode all shots, and takes the lightest errors that explain a shot. `first`
            passes a shot on to the next decoder only if the answer so far is doubtful; then the later answer counts.
        iterations: with `first`, a shot that took more iterations than this is doubtful. None sets no limit.
        doubt: with `first`, a shot with a smaller gap is doubtful, if its decoder states gaps.

    A shot that is not explained is always doubtful.

    Examples:
        >>> import equifactor as ef
        >>> model = ef.decoding.surface_code(5, 0.08)
        >>> quick, slow = (ef.decoding.Decoder(model, method) for method in ("min-sum(iterations=20)", "search"))
        >>> team = ef.decoding.DecoderTeam([quick, slow])
        >>> shots, flips = ef.decoding.ShotSampler(model, 1).sample(0, 200)
        >>> bool(team.decode(shots).converged.all())
        True
    """

    def __init__(
        self,
        decoders: Sequence[Decoder],
        *,
        take: Take = "first",
        iterations: int | None = None,
        doubt: float = 0.0,
    ) -> None:
        self.decoders, self.take, self.iterations, self.doubt = as_list(decoders) or [], take, iterations, doubt
        if not self.decoders or not all(isinstance(decoder, Decoder) for decoder in self.decoders):
            raise OptionError(f"A team needs a list of Decoder objects, found {brief(decoders)}.")
        choice("take", take, get_args(Take))
        if iterations is not None:
            whole("iterations", iterations, 0)
        if not is_real(doubt) or not doubt >= 0.0:
            raise OptionError(f"doubt must be a number of at least 0, found {brief(doubt)}.")
        sizes = {(d.model.num_detectors, d.model.num_observables) for d in self.decoders}
        if len(sizes) > 1:
            raise OptionError(
                f"All decoders need the same numbers of detectors and observables, found {sorted(sizes)}."
            )

    def __repr__(self) -> str:
        return f"DecoderTeam({self.take}: {', '.join(str(decoder.method) for decoder in self.decoders)})"

    def decode(
        self,
        shots: ArrayLike,
        *,
        corrections: bool = False,
        time_limit: float | None = None,
        threads: int | None = None,
    ) -> DecodingResult:
        """Decode shots [N, D] as `Decoder.decode` does.

        The time limit is for all decoders together. Shots that it keeps from a later decoder keep the earlier answer.
        A gap is that of the decoder whose answer is taken, and infinite if only other decoders state gaps.
        """
        array, clock = read_array("shots", shots), Clock(time_limit)
        found = self.decoders[0].decode(array, corrections=corrections, time_limit=time_limit, threads=threads)
        states_gaps = found.gap is not None
        found = replace(found, gap=np.full(len(found), np.inf) if found.gap is None else found.gap, proven=None)
        for decoder in self.decoders[1:]:
            rows = np.flatnonzero(self._is_doubtful(found))
            if clock.stopped or found.interrupted or not len(rows):
                break
            left = None if time_limit is None else max(1e-3, clock.left)
            own = decoder.decode(array[rows], corrections=corrections, time_limit=left, threads=threads)
            states_gaps |= own.gap is not None
            found = self._joined(found, own, rows)
        return replace(found, gap=found.gap if states_gaps else None, method=repr(self)[len("DecoderTeam") :])

    def _is_doubtful(self, found: DecodingResult) -> BoolArray:
        """Return [N] whether the next decoder decodes a shot."""
        doubtful = ~found.converged & found.decoded
        if self.take == "best":
            return np.asarray(found.decoded, bool)
        if self.iterations is not None:
            doubtful |= found.iterations > self.iterations
        return np.asarray((doubtful | (found.stated_gaps() < self.doubt)) & found.decoded, bool)

    def _joined(self, found: DecodingResult, own: DecodingResult, rows: np.ndarray) -> DecodingResult:
        """Return the answers with those of another decoder to some shots, where they are taken."""
        taken = own.decoded & own.converged
        if self.take == "best":
            taken &= ~found.converged[rows] | (own.weight < found.weight[rows])
        at = rows[taken]
        changed = {"gap": np.full(len(own), np.inf) if own.gap is None else own.gap}
        for name in ("flips", "converged", "weight", *(("corrections",) if found.corrections is not None else ())):
            changed[name] = getattr(own, name)
        arrays: dict[str, Any] = {name: np.array(getattr(found, name)) for name in changed}
        for name, values in changed.items():
            arrays[name][at] = values[taken]
        iterations = found.iterations.copy()
        iterations[rows] += own.iterations
        return replace(
            found, **arrays, iterations=iterations, seconds=found.seconds + own.seconds,
            interrupted=found.interrupted or own.interrupted,
        )  # fmt: skip
