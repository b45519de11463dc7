"""The config of an experiment on MAP: solvers and networks on collections of models with known scores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from equifactor.solvers import parse_solver
from experiments.name_choice import chosen_names

Options = Mapping[str, Any]


@dataclass(frozen=True)
class SolverMethod:
    """A line without training: a solver, or with `grid` several solvers, whose best answer for each model counts.

    The best answer is the answer with the highest log score. Choosing it does not need the optimum.

    Attributes:
        name: name of the line in tables.
        solver: text form of the solver.
        grid: options of the solver and their values; every combination is run.
        seeds: seeds, several for solvers that start at random.
        weights: the origin of learned weights, as shown in the table.
    """

    name: str
    solver: str
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    weights: str = ""

    def specs(self) -> list[str]:
        """Return the text forms of its solvers."""
        solver = parse_solver(self.solver)
        return [str(replace(solver, **options)) for options in combinations(self.grid)]


@dataclass(frozen=True)
class NetworkMethod:
    """A network trained on each split. The variant with the best validation is used.

    Attributes:
        name: name of the line in tables.
        kind: kind of network.
        network: settings of the network.
        training: settings of training that differ from the settings of the experiment.
        tune: settings of the network and their values; every combination is a variant.
        decode: ways to decode an assignment from the beliefs, with one line in the table for each.
    """

    name: str
    kind: str
    network: Options = field(default_factory=dict)
    training: Options = field(default_factory=dict)
    tune: Mapping[str, list[Any]] = field(default_factory=dict)
    decode: tuple[str, ...] = ("argmax", "sequential")

    def variants(self) -> list[dict[str, Any]]:
        """Return settings of the network for each combination of tuned values."""
        return combinations(self.tune)

    def line(self, decode: str) -> str:
        """Return the name of its line in the table."""
        return self.name + (" + seq-decoding" if decode == "sequential" else "")


@dataclass(frozen=True)
class TimeLadder:
    """Solvers by name, each judged under each of the limits."""

    limits: tuple[float, ...] = ()
    solvers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MapExperiment:
    """Everything that decides a result, except for data and device.

    Attributes:
        name: name of the experiment and of its folder.
        title: title of its page.
        collections: collections of models, by name.
        seeds: seeds of training.
        time_limit: seconds per model and solver.
        folds: numbers of folds of cross-validation, by collection.
        training: settings of training, the same for all networks.
        tuning_share: share of the epochs that a network gets while variants are compared.
        methods: the solvers.
        models: the networks.
        curve: the solvers and limits of the curve of error against time.
        training_on: settings of training that differ, by collection.
        published: errors that the paper states, by line, then collection.
        goals: largest errors allowed by the goals, by line, then collection.
        details: lines that are shown model by model.
        remarks: paragraphs above the tables.
        most_models: number of models of each split that are used, the smallest first; None for all.
    """

    name: str
    title: str
    collections: tuple[str, ...]
    seeds: tuple[int, ...]
    time_limit: float
    folds: Mapping[str, int]
    training: Options
    tuning_share: float
    methods: tuple[SolverMethod, ...]
    models: tuple[NetworkMethod, ...]
    curve: TimeLadder
    training_on: Mapping[str, Options] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    goals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    most_models: int | None = None

    @classmethod
    def from_values(cls, name: str, values: dict[str, Any]) -> MapExperiment:
        """Read the values of a TOML file; raise `TypeError` or `KeyError` if they are not an experiment."""
        given = dict(values)
        given |= {key: tuple(given[key]) for key in ("collections", "seeds")}
        given |= {key: tuple(given.get(key, ())) for key in ("details", "remarks")}
        curve = given.pop("curve", {})
        return cls(
            name=name,
            methods=tuple(SolverMethod(**_with_tuple(m, "seeds")) for m in given.pop("method", [])),
            models=tuple(NetworkMethod(**_with_tuple(m, "decode")) for m in given.pop("model", [])),
            curve=TimeLadder(tuple(curve.get("limits", ())), curve.get("solvers", {})),
            **given,
        )

    def quick(self) -> MapExperiment:
        """Return a small copy that takes one or two minutes on a CPU; its results are not meaningful."""
        short = {"epochs": 2, "batch_size": 2}
        models = tuple(
            replace(m, training={}, tune={k: v[:2] for k, v in list(m.tune.items())[-1:]}) for m in self.models
        )
        methods = tuple(replace(m, grid={k: v[:2] for k, v in m.grid.items()}, seeds=m.seeds[:1]) for m in self.methods)
        return replace(
            self, seeds=self.seeds[:1], time_limit=0.5, folds=dict.fromkeys(list(self.folds)[:1], 2),
            training={**self.training, **short}, training_on={}, tuning_share=0.5, methods=methods, models=models,
            curve=replace(self.curve, limits=(0.1, 0.5)), most_models=2,
        )  # fmt: skip

    def selected(self, methods: str | None = None, collections: str | None = None) -> MapExperiment:
        """Return the experiment with some lines and collections only, given as comma-separated names."""
        lines = chosen_names("method", methods, [s.name for s in self.methods] + [m.name for m in self.models])
        chosen = chosen_names("collection", collections, self.collections)
        return replace(
            self,
            collections=chosen,
            folds={k: v for k, v in self.folds.items() if k in chosen},
            methods=tuple(m for m in self.methods if m.name in lines),
            models=tuple(m for m in self.models if m.name in lines),
            curve=replace(self.curve, solvers={k: v for k, v in self.curve.solvers.items() if k in lines}),
        )


def combinations(options: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values; without options, one empty combination."""
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


def _with_tuple(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {**values, name: tuple(values[name])} if name in values else values
