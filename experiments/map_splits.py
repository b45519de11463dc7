"""Training and test models: the fixed split of a collection, and its folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.data import Instance, collection
from experiments.map_experiment import MapExperiment


@dataclass(frozen=True)
class ModelSplit:
    """Training and test models of one collection; `fold` is None for the fixed split."""

    collection: str
    fold: int | None
    train: tuple[Instance, ...]
    test: tuple[Instance, ...]

    @property
    def name(self) -> str:
        """The name of the split, unique in an experiment."""
        return self.collection if self.fold is None else f"{self.collection}-fold{self.fold}"

    @property
    def label(self) -> str:
        """The name of the split in tables, the same for all folds of a collection."""
        return self.collection if self.fold is None else f"the folds of {self.collection}"


def splits_of(experiment: MapExperiment, folder: str | Path | None) -> list[ModelSplit]:
    """Return the fixed split of every collection, then the folds; models without a known score are left out.

    Folds come from one shuffle with a fixed seed, so that they are the same for every network and seed.
    """
    fixed, folds = [], []
    for name in experiment.collections:
        instances = [i for i in collection(folder, name) if i.map_log_score is not None]
        train, test = (_smallest(instances, split, experiment.most_models) for split in ("train", "test"))
        if not train or not test:
            raise OptionError(
                f"{name}: the index of the folder must have models of the splits train and test with a known "
                f"map_log_score. Found {len(train)} models of train and {len(test)} of test."
            )
        fixed.append(ModelSplit(name, None, train, test))
        count = experiment.folds.get(name, 0)
        models = sorted((*train, *test), key=lambda i: i.key)
        order = np.random.default_rng(0).permutation(len(models)).tolist()
        for fold in range(count):
            held_out = set(order[fold::count])
            train, test = (_picked(models, held_out, inside) for inside in (False, True))
            folds.append(ModelSplit(name, fold, train, test))
    return fixed + folds


def _picked(models: Sequence[Instance], numbers: set[int], inside: bool) -> tuple[Instance, ...]:
    return tuple(model for n, model in enumerate(models) if (n in numbers) == inside)


def _smallest(instances: Iterable[Instance], split: str, most: int | None) -> tuple[Instance, ...]:
    chosen = [i for i in instances if i.split == split]
    if most is None:
        return tuple(chosen)
    return tuple(sorted(chosen, key=lambda i: (i.path.stat().st_size, i.name))[:most])
