"""What an experiment on MAP compares: solvers and networks on collections of models with known scores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from equifactor import parse_solver
from experiments.name_choice import chosen_names

Options = Mapping[str, Any]


@dataclass(frozen=True)
class SolverMethod:
    """A line that needs no training here: a solver, or with `grid` several, of which each model's best answer counts.

    The best answer is the one of the highest log score, which anybody can compute: no optimum is looked at.

    Attributes:
        name: name of the line in tables.
        solver: text form of the solver.
        grid: options of the solver and their values; every combination is run.
        seeds: seeds, several for solvers that start at random.
        weights: what the table says about where learned weights come from.
    """

    name: str
    solver: str
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    weights: str = ""

    def specs(self) -> list[str]:
        """Text forms of its solvers."""
        solver = parse_solver(self.solver)
        return [str(replace(solver, **options)) for options in combinations(self.grid)]


@dataclass(frozen=True)
class NetworkMethod:
    """A network trained on each part; of the variants the best on validation models is taken.

    Attributes:
        name: name of the line in tables.
        kind: kind of network.
        network: settings of the network.
        training: settings of training that differ from those of the experiment.
        tune: settings of the network and their values; every combination is a variant.
        decode: ways to read an assignment off the beliefs, a line in the table for each.
    """

    name: str
    kind: str
    network: Options = field(default_factory=dict)
    training: Options = field(default_factory=dict)
    tune: Mapping[str, list[Any]] = field(default_factory=dict)
    decode: tuple[str, ...] = ("argmax", "sequential")

    def variants(self) -> list[dict[str, Any]]:
        """Settings of the network, one for each combination."""
        return combinations(self.tune)

    def line(self, decode: str) -> str:
        """Name of its line in the table."""
        return self.name + (" + seq-decoding" if decode == "sequential" else "")


@dataclass(frozen=True)
class TimeLadder:
    """Solvers by name, each judged under each of the limits."""

    limits: tuple[float, ...] = ()
    solvers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MapExperiment:
    """Everything that decides a result, data and device aside.

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
        curve: what is judged against time.
        training_on: settings of training that differ, by collection.
        published: errors that the paper states, by line, then collection.
        goals: greatest errors that were to be reached, by line, then collection.
        details: lines that are shown model by model.
        remarks: paragraphs above the tables.
        most_models: how many models of each split are taken, the smallest first; None takes all.
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
        """From the values of a TOML file; raises `TypeError` or `KeyError` where they are not an experiment."""
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
        """Return the whole road in a minute or two on a CPU; no result to quote."""
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
        """Return the experiment with some lines and on some collections only, given as texts with commas."""
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
    """Every combination of the values; one empty combination where there are no options."""
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


def _with_tuple(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {**values, name: tuple(values[name])} if name in values else values
