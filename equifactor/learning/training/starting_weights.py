"""The weights that training starts from: random weights, weights of the package, or the weights of a model file."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.base.status import Task
from equifactor.learning.training.data_sources import exists
from equifactor.solvers.learned.model_card import WEIGHTS
from equifactor.solving.registry import MODEL_SUFFIX

if TYPE_CHECKING:
    from equifactor.solvers.learned.network import Network

SHIPPED = "shipped"  # The name of the weights of the package for the kind and the task of the run.
# Settings of training that change when a run starts from trained weights. On 10 graphs, lr 5e-4 and 60 epochs had the
# same error on three of four families, and a fifth more on bipartite pairs; lr 2e-3 was as good. Compared by hand.
FINE_TUNING: dict[str, Any] = {"lr": 1e-3, "batch_size": 10, "epochs": 200, "patience": 30, "warmup": 10}
FINE_TUNING_SHARE = 0.2  # The share of the graphs that is held out when a run starts from trained weights.
FEWEST_HELD_OUT = 3  # One held-out graph would decide by chance when to stop, so ten graphs are split into 7 and 3.
# The relative gain on one held-out graph that counts as clear; on n graphs it is divided by the root of n. With 10
# graphs of Potts grids, which the shipped weights know, validation fell by 30 % while the error rose by 23 %.
_CLEAR = 0.7
_NOT_WEIGHTS = ("steps", "settle")  # Settings that may differ from those of the file: they do not change the weights.


def is_clear_gain(before: float, after: float, held_out: int) -> bool:
    """Return whether a validation measure fell by more than the choice among many epochs explains."""
    return after < before * (1.0 - _CLEAR / max(1, held_out) ** 0.5)


def start_file(kind: str, task: Task, start: str | Path) -> Path:
    """Return the model file of a start: `shipped`, the name of weights of the package, or a path."""
    names = sorted(path.stem for path in WEIGHTS.glob(f"*{MODEL_SUFFIX}"))
    text = os.fspath(start)
    own = f"{kind}-{task.value.lower()}"
    name = own if text in (SHIPPED, kind) else f"{text}-{task.value.lower()}" if f"{text}-mar" in names else text
    if name in names:
        return WEIGHTS / f"{name}{MODEL_SUFFIX}"
    if text in (SHIPPED, kind) or not (text.endswith(MODEL_SUFFIX) or exists(Path(text))):
        raise OptionError(
            f"start={text}: the package has no weights named {name}. It has {', '.join(names)}. Pass one of these "
            f"names or a model file ({MODEL_SUFFIX}), or leave out start to train from scratch."
        )
    return Path(text)


def merged_settings(kind: str, settings: dict[str, Any], path: Path, given: Network) -> dict[str, Any]:
    """Return the settings of the network of a file with `settings`; raise `OptionError` if they conflict."""
    if given.kind != kind:
        raise OptionError(
            f"{path}: the file holds a network of the kind {given.kind}, and {kind} was asked for. Train {given.kind}, "
            f"or start from weights of {kind}."
        )
    known = dataclasses.asdict(given.config)  # A card may lack settings that were added after it was written.
    for name, value in settings.items():
        if name not in _NOT_WEIGHTS and name in known and value != known[name]:
            raise OptionError(
                f"{path}: the file has {name}={known[name]}, and {name}={value} was asked for. Leave out {name} to use "
                "the value of the file, or leave out start to train from scratch."
            )
    return {**known, **settings}


def starting_network(
    kind: str, settings: dict[str, Any], task: Task, start: str | Path | None, seed: int
) -> tuple[Network, str]:
    """Return the network with its starting weights, and a text for its card that names where it started."""
    from equifactor.solvers.learned.model_files import load_model
    from equifactor.solvers.learned.network import build

    if start is None:
        return build(kind, settings, seed=seed), ""
    path = start_file(kind, task, start)
    given, card = load_model(path)
    network = build(kind, merged_settings(kind, settings, path, given), seed=seed)
    network.load_state_dict(given.state_dict())
    if path.parent == WEIGHTS:
        return network, f"{path.stem} of equifactor {card.version}"
    return network, path.name
