"""Several decoders for the same shots."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.base.errors import OptionError
from equifactor.decoding import Decoder, DecoderTeam, ShotSampler, surface_code

MODEL = surface_code(5, 0.1)
QUICK, SLOW = "min-sum(iterations=8)", "pooled(patience=3)"


def test_the_best_answer_is_the_lightest() -> None:
    shots = ShotSampler(MODEL, 1).sample(0, 200)[0]
    decoders = [Decoder(MODEL, QUICK), Decoder(MODEL, SLOW)]
    team = DecoderTeam(decoders, take="best").decode(shots, corrections=True)
    quick, slow = (decoder.decode(shots, corrections=True) for decoder in decoders)
    weights = [np.where(result.converged, result.weight, np.inf) for result in (quick, slow)]
    np.testing.assert_array_equal(team.weight[team.converged], np.minimum(*weights)[team.converged])
    np.testing.assert_array_equal(team.iterations, quick.iterations + slow.iterations)
    assert team.corrections is not None
    assert slow.corrections is not None
    taken = weights[1] < weights[0]
    np.testing.assert_array_equal(team.corrections[taken], slow.corrections[taken])
    assert team.gap is not None
    assert "best: min-sum" in team.method


def test_only_doubtful_shots_are_passed_on() -> None:
    shots = ShotSampler(MODEL, 2).sample(0, 200)[0]
    decoders = [Decoder(MODEL, QUICK), Decoder(MODEL, SLOW)]
    quick, slow = (decoder.decode(shots) for decoder in decoders)
    for limit in (None, 3):
        team = DecoderTeam(decoders, iterations=limit).decode(shots)
        passed = ~quick.converged if limit is None else ~quick.converged | (quick.iterations > 3)
        assert 0 < passed.sum() < 200
        np.testing.assert_array_equal(team.flips, np.where(passed[:, None], slow.flips, quick.flips))
        assert team.gap is not None
        assert slow.gap is not None
        np.testing.assert_array_equal(team.gap, np.where(passed, slow.gap, np.inf))
    by_gap = DecoderTeam([decoders[1], decoders[0]], doubt=2.0).decode(shots)
    np.testing.assert_array_equal(by_gap.iterations > slow.iterations, slow.gap < 2.0)
    late = DecoderTeam(decoders).decode(shots, time_limit=1e-9)
    assert not late.decoded.all()


def test_wrong_teams_are_refused() -> None:
    with pytest.raises(OptionError, match="needs a list of Decoder objects"):
        DecoderTeam([])
    with pytest.raises(OptionError, match="one of first, best"):
        DecoderTeam([Decoder(MODEL, QUICK)], take="last")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the same numbers of detectors"):
        DecoderTeam([Decoder(MODEL, QUICK), Decoder(surface_code(3, 0.1), QUICK)])
