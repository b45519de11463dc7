"""Training and validation graphs with their targets, on the device."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.status import Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.data_sources import Source, read_source
from equifactor.learning.training.targets import fingerprint, with_targets
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.solving.solver import Progress

_HELD_OUT_SEED = 500_000  # It is added to the seed of validation data, whose graphs must not be those of training.


class DataSplit(NamedTuple):
    """What a run learns from and is judged on."""

    training: Dataset
    validation: Dataset
    text: str = ""  # It names the data in the model file.
    left_out: Sequence[str] = ()  # A sentence per graph that could not be used.

    def contents(self) -> str:
        """A text that is equal for equal graphs with equal weights; `20 graphs` would not tell them apart."""
        weights = "".join(part.weights.tobytes().hex() for part in self[:2])
        return fingerprint(weights, (g for part in self[:2] for g in part.graphs))[:16]


def split_data(
    data: Any,
    validation: Any,
    task: Task,
    settings: TrainingSettings,
    *,
    weights: Sequence[float] | None = None,
    device: str = "cpu",
    report: Progress | None = None,
) -> DataSplit:
    """Read the graphs, compute their targets and hold some of them out.

    Args:
        data: what to train on, in any form that `train` takes.
        validation: the share of the graphs that is held out, or data of its own.
        task: MAR or MAP.
        settings: of the run; `settings.validation` is the text form of `validation`.
        weights: how much each graph counts.
        device: where the graphs are put.
        report: what is told how many targets are computed.
    """

    def dataset(graphs: list[FactorGraph], targets: list[Any], weights: Any, *, learned: bool) -> Dataset:
        return Dataset(
            graphs, targets, weights, device=device, dtype=settings.dtype, batch_states=settings.batch_states,
            fixed=learned and settings.fixed_batches,
        )  # fmt: skip

    source = read_source(data, settings.seed)
    _check_weights(weights, source)
    graphs, targets, left_out = with_targets(source, task, report, settings.cluster)
    if weights is not None and left_out:
        raise OptionError(f"weights cannot be matched, as graphs had to be left out: {left_out[0]}")
    text = f"{source.text}; validation {settings.validation}"
    share = _share(settings.validation) if isinstance(validation, (str, float, int)) else None
    if share is None:
        held = with_targets(read_source(validation, settings.seed + _HELD_OUT_SEED), task, report, settings.cluster)
        training = dataset(graphs, targets, weights, learned=True)
        split = DataSplit(training, dataset(*held[:2], None, learned=False), text, left_out + held[2])
    else:
        kept, held_out = _numbers(len(graphs), share, settings.seed, source.text)
        given = [1.0] * len(graphs) if weights is None else weights
        training, held_back = (
            dataset(
                [graphs[n] for n in part], [targets[n] for n in part], [given[n] for n in part], learned=part is kept
            )
            for part in (kept, held_out)
        )
        split = DataSplit(training, held_back, text, left_out)
    if share != 0:
        _note_overlap(split)
    return split


def _check_weights(weights: Sequence[float] | None, source: Source) -> None:
    if weights is None:
        return
    if len(weights) != len(source.graphs):
        raise OptionError(f"there are {len(source.graphs)} graphs and {len(weights)} weights")
    if not (np.isfinite(weights).all() and np.min(weights) >= 0 and np.any(weights)):
        raise OptionError("weights of graphs must be numbers of 0 or more, one of them above 0")


def _numbers(count: int, share: float, seed: int, text: str) -> tuple[list[int], list[int]]:
    """The numbers of the graphs to train on and of those held out; with share 0 all of them are both."""
    order = np.random.default_rng([seed, 77]).permutation(count)
    held = max(1, round(share * count)) if share else 0
    if held >= count:
        raise OptionError(f"{text}: {count} graphs cannot be split for validation; give --validation DATA")
    return np.sort(order[held:]).tolist(), np.sort(order[:held]).tolist() or list(range(count))


def _share(text: str) -> float | None:
    """The share that a text states, None where it names data."""
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 <= share < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, or DATA; found {text}")
    return share


def _note_overlap(split: DataSplit) -> None:
    """Say so where validation graphs are among the training graphs, as doubles in a folder or by equal seeds."""
    seen = {fingerprint("", [g]) for g in split.training.graphs}
    count = sum(fingerprint("", [g]) in seen for g in split.validation.graphs)
    if count:
        logging.getLogger("equifactor").warning(
            "%d of %d validation graphs are training graphs too: validation will look better than it is",
            count, len(split.validation),
        )  # fmt: skip
