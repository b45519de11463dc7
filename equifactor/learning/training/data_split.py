"""Training and validation graphs with their targets, on the device."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.base.errors import OptionError, brief
from equifactor.base.status import Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.inputs import as_list
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.data_sources import Source, read_source
from equifactor.learning.training.targets import fingerprint, with_targets
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.solving.solver import Progress

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

# Added to the seed of generated validation data, so that its graphs differ from the training graphs. Chosen by hand.
_HELD_OUT_SEED = 500_000


class DataSplit(NamedTuple):
    """The training and validation graphs of a run."""

    training: Dataset
    validation: Dataset
    text: str = ""  # The name of the data in the model file.
    left_out: Sequence[str] = ()  # One sentence per graph that could not be used.

    def contents(self) -> str:
        """Return a hash of the graphs and their weights. A name such as `20 graphs` does not identify its graphs."""
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
    fewest: int = 1,
) -> DataSplit:
    """Read the graphs, compute their targets and hold some of them out.

    Args:
        data: the training data, in any form that `train` takes.
        validation: the share of the graphs that is held out, or separate data.
        task: MAR or MAP.
        settings: the settings of the run; `settings.validation` is the text form of `validation`.
        weights: the weight of each graph.
        device: the device of the graphs.
        report: a function that is called with the number of targets computed so far.
        fewest: the smallest number of graphs that a share holds out, if at least this number remain for training.
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
        raise OptionError(
            f"The weights cannot be matched to graphs, because {len(left_out)} graphs cannot be used. The first is "
            f"{left_out[0]}. Leave out these graphs and their weights."
        )
    text = f"{source.text}; validation {settings.validation}"
    share = _share(settings.validation) if isinstance(validation, (str, float, int)) else None
    if share is None:
        held = with_targets(read_source(validation, settings.seed + _HELD_OUT_SEED), task, report, settings.cluster)
        training = dataset(graphs, targets, weights, learned=True)
        split = DataSplit(training, dataset(*held[:2], None, learned=False), text, left_out + held[2])
    else:
        kept, held_out = _numbers(len(graphs), share, settings.seed, source.text, fewest)
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
    numbers: FloatArray | None
    try:
        numbers = np.asarray(as_list(weights), float)
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        numbers = None
    if numbers is None or numbers.ndim != 1:
        raise OptionError(f"weights must be one number per graph, found {brief(weights)}.")
    if len(numbers) != len(source.graphs):
        raise OptionError(
            f"weights must have one number per graph. Found {len(numbers)} weights for {len(source.graphs)} graphs."
        )
    if not (np.isfinite(numbers).all() and np.min(numbers) >= 0 and np.any(numbers)):
        raise OptionError("weights must be finite numbers of 0 or more, with at least one above 0.")


def _numbers(count: int, share: float, seed: int, text: str, fewest: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the training graphs and of the held-out graphs; with share 0 both are all graphs."""
    order = np.random.default_rng([seed, 77]).permutation(count)
    held = max(fewest if count >= 2 * fewest else 1, round(share * count)) if share else 0
    if held >= count:
        raise OptionError(
            f"{text}: {count} graphs are too few to hold some out for validation. Pass other data as validation."
        )
    return np.sort(order[held:]).tolist(), np.sort(order[:held]).tolist() or list(range(count))


def _share(text: str) -> float | None:
    """Return the share that a text states, or None if it names data."""
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 <= share < 1:
        raise OptionError(f"validation must be a share of at least 0 and below 1, or data. Found {text}.")
    return share


def _note_overlap(split: DataSplit) -> None:
    """Warn if validation graphs are also training graphs, for example duplicates in a folder or equal seeds."""
    seen = {fingerprint("", [g]) for g in split.training.graphs}
    count = sum(fingerprint("", [g]) in seen for g in split.validation.graphs)
    if count:
        logging.getLogger("equifactor").warning(
            "%d of %d validation graphs are also training graphs. The validation measures will be too optimistic.",
            count, len(split.validation),
        )  # fmt: skip
