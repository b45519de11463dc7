"""Training of the network that chooses memories, by the iterations and the wrong flips of the decoder.

After dozens of sweeps, whether a shot converges has no useful gradient in the weights. So the network is trained by
evolution strategies. The networks of a pair lie a small step to either side of the present network. All pairs decode
the same shots, and the present network moves towards the better sides. Only shots that the first leg leaves open are
used, because the network has no effect before the first leg ends. Every step draws new shots.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError, brief
from equifactor.base.options import check_options, option
from equifactor.base.progress import bar
from equifactor.decoding.decoder import Decoder
from equifactor.decoding.error_sampling import ShotSampler
from equifactor.decoding.learned_memory import MemoryNetwork
from equifactor.decoding.methods import LearnedMemoryDecoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.run_context import Progress
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.decoding.error_model import ErrorModel
    from equifactor.decoding.gpu_engine import GpuEngine
    from equifactor.decoding.lane_engine import LaneEngine

_VALIDATION = 10**6  # The first seed of validation shots, apart from the seeds of training shots.
_ROUNDING = 1e-3  # Weights of errors that differ by less than this are equal, in nats. Chosen by hand.
_KEPT = 0.9  # The share of the running average of networks that each step keeps. Chosen by hand.
_MOMENTUM = 0.9  # The share of the average gradient that each step keeps, the usual value of Adam.
_SQUARE = 0.98  # The share of the average squared gradient that each step keeps. Chosen by hand.


@dataclass(frozen=True, kw_only=True)
class MemoryTraining:
    """The settings of a training."""

    hidden: int = option(8, "hidden units of the network", low=0)
    steps: int = option(200, "the largest number of steps", low=0)
    pairs: int = option(16, "pairs of networks that each step tries", low=1)
    shots: int = option(2048, "shots of each step, all left open by the first leg", low=1)
    spread: float = option(0.05, "distance of the networks of a pair from the present one", low=0.0)
    rate: float = option(0.01, "distance that the network moves in each of the first steps", low=0.0)
    penalty: float = option(1.0, "cost of a fault; the largest number of iterations costs 1", low=0.0)
    legs: int = option(8, "legs in training, each with one choice of memories", low=1)
    validate: int = option(10, "steps between two validations", low=1)
    seed: int = option(0, "seed of networks and shots", low=0)

    def __post_init__(self) -> None:
        check_options(self)


def train_memories(
    models: Sequence[ErrorModel],
    method: LearnedMemoryDecoding | None = None,
    settings: MemoryTraining | None = None,
    *,
    device: str = "cpu",
    time_limit: float | None = None,
    progress: Progress | bool = False,
) -> MemoryNetwork:
    """Train a network for `learned-memory` on shots of the models in turn.

    Ctrl-C and the time limit end the training with the best network so far.

    Args:
        models: the codes with their noise.
        method: the settings of the decoder. Its weights, solutions and ordered statistics are ignored, and `legs` of
            the training settings replaces its legs.
        settings: the settings of the training.
        device: `cpu`, or `cuda` for an NVIDIA GPU.
        time_limit: in seconds.
        progress: True for a bar on the terminal, or a function of (done, total, note).
    """
    for given, kind in ((method, LearnedMemoryDecoding), (settings, MemoryTraining)):
        if given is not None and not isinstance(given, kind):
            raise OptionError(f"train_memories needs a {kind.__name__}, found {brief(given)}.")
    if not isinstance(models, (list, tuple)):
        raise OptionError(f"train_memories needs a list of codes, found {brief(models)}.")
    settings = settings or MemoryTraining()
    method = dataclasses.replace(method or LearnedMemoryDecoding(), legs=settings.legs, solutions=1, osd="none")
    if not models:
        raise OptionError("Training needs at least one code.")
    rng = np.random.default_rng(settings.seed)
    centre = MemoryNetwork.untrained(settings.hidden, seed=settings.seed)
    theta = centre.weights.astype(np.float64)
    judges = [Judge(model, method, settings, device) for model in models]
    clock = Clock(time_limit)
    fixed = [judge.open_shots(_VALIDATION + settings.seed, 2 * settings.shots) for judge in judges]
    average, momentum, square = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
    best, best_cost, log = theta.copy(), np.inf, []
    with bar(progress, "training") as report, clock.govern():
        for step in range(settings.steps + 1):
            over = step == settings.steps or clock.stopped
            if step % settings.validate == 0 or over:
                cost = float(np.mean([j.costs(average[None], *shots) for j, shots in zip(judges, fixed, strict=True)]))
                log.append((step, round(cost, 5)))
                if cost < best_cost:
                    best, best_cost = average.copy(), cost
                if report is not None:
                    report(step, settings.steps, f"cost {cost:.4f}, best {best_cost:.4f}")
            if over:
                break
            judge = judges[step % len(judges)]
            shots = judge.open_shots(settings.seed * 10**7 + 1 + step, settings.shots)
            side = rng.normal(size=(settings.pairs, *theta.shape))
            ahead, behind = np.split(judge.costs(theta + settings.spread * np.concatenate((side, -side)), *shots), 2)
            gradient = np.tensordot((ahead - behind) / (2.0 * settings.spread * settings.pairs), side, axes=1)
            momentum = _MOMENTUM * momentum + (1.0 - _MOMENTUM) * gradient
            square = _SQUARE * square + (1.0 - _SQUARE) * gradient**2
            scale = np.sqrt(square.mean() / (1.0 - _SQUARE ** (step + 1))) + 1e-12
            left = 1.0 - step / settings.steps if time_limit is None else 1.0 - min(1.0, clock.seconds / time_limit)
            theta = theta - settings.rate * left * momentum / (1.0 - _MOMENTUM ** (step + 1)) / scale
            average = _KEPT * average + (1.0 - _KEPT) * theta
    card = {
        "codes": [repr(model) for model in models], "device": device,
        "method": str(dataclasses.replace(method, legs=LearnedMemoryDecoding.legs)),
        "settings": dataclasses.asdict(settings), "seconds": round(clock.seconds, 1),
        "validation": log, "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    return MemoryNetwork(best.astype(np.float32), card)


class Judge:
    """A judge of networks on one model: its decoders measure the cost of each network."""

    def __init__(self, model: ErrorModel, method: LearnedMemoryDecoding, settings: MemoryTraining, device: str) -> None:
        self.method, self.settings = method, settings
        self.first = Decoder(model, method=dataclasses.replace(method, legs=0), device=device)
        self.decoder = Decoder(model, method=method, device=device)
        self.engine = cast("LaneEngine | GpuEngine", self.decoder.engine)
        self.longest = method.iterations + method.legs * method.leg_iterations

    def open_shots(self, seed: int, count: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Return shots [N, D] that the first leg leaves open, their flips [N, L] and their weights [N].

        N is `count`, or less if the noise is weak.
        """
        sampler, found = ShotSampler(self.first.model, seed), []
        first, have = 0, 0
        while have < count and first < 64 * count:
            detectors, flips, weights = sampler.sample_weighed(first, first + count)
            left = ~self.first.decode(detectors).converged
            found.append((detectors[left], flips[left], weights[left]))
            first, have = first + count, have + int(left.sum())
        if have == 0:
            raise OptionError(
                f"{self.first.model}: {self.first.method} decodes all of {first} shots in its first leg, so there is "
                "nothing to learn. Train on a code with more noise."
            )
        return tuple(np.concatenate(part)[:count] for part in zip(*found, strict=True))  # type: ignore[return-value]

    def costs(self, theta: FloatArray, detectors: BoolArray, flips: BoolArray, weights: FloatArray) -> FloatArray:
        """Return the costs [P] of networks [P, H+1, F+2] that all decode the same shots.

        The cost is the logarithm of the iterations after the first leg, as a share of the largest possible value, plus
        the penalty for faults. Without the logarithm, a few difficult shots would have most of the cost. Wrong flips
        are a fault only if the errors found are heavier than the errors that happened. In a small code even the
        likeliest errors are often wrong. A network that learned to avoid them by stopping early would fail on larger
        codes.
        """
        many = len(theta)
        self.engine.use_networks(theta.astype(np.float32))
        result = self.decoder.decode(np.repeat(detectors, many, axis=0))
        first = self.method.iterations
        spent = np.log1p(result.iterations - first) / np.log1p(self.longest - first)
        heavier = result.weight > np.repeat(weights, many) + _ROUNDING
        fault = ~result.converged | (result.errors(np.repeat(flips, many, axis=0)) & heavier)
        return np.asarray((spent + self.settings.penalty * fault).reshape(-1, many).mean(axis=0))
