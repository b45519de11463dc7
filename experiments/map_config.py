"""What a MAP experiment compares, from a TOML file."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from equifactor.errors import FormatError, OptionError
from equifactor.registry import parse_solver

_HERE = Path(__file__).parent / "map_configs"
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A line that needs no training here: a solver, or with `grid` several, of which each model's best answer counts.

    The best answer is the one of the highest log score, which anybody can compute: no optimum is looked at.
    """

    name: str
    solver: str
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)  # several for solvers that start at random
    weights: str = ""  # said in the table: where learned weights come from

    def specs(self) -> list[str]:
        """Text forms of its solvers."""
        solver = parse_solver(self.solver)
        return [str(replace(solver, **options)) for options in product(self.grid)]


@dataclass(frozen=True)
class Learned:
    """A network trained on each part; of the variants the best on validation models is taken."""

    name: str
    kind: str
    network: Options = field(default_factory=dict)
    training: Options = field(default_factory=dict)
    tune: Mapping[str, list[Any]] = field(default_factory=dict)  # settings of the network
    decode: tuple[str, ...] = ("argmax", "sequential")

    def variants(self) -> list[dict[str, Any]]:
        """Settings of the network, one for each combination."""
        return product(self.tune)

    def line(self, decode: str) -> str:
        """Name of its line in the table."""
        return self.name + (" + seq-decoding" if decode == "sequential" else "")


@dataclass(frozen=True)
class Curve:
    """Solvers by name, judged under each of the limits."""

    limits: tuple[float, ...] = ()
    solvers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MapExperiment:
    """Everything that decides a result, data and device aside."""

    name: str
    title: str
    collections: tuple[str, ...]
    seeds: tuple[int, ...]
    time_limit: float  # seconds per model and solver
    folds: Mapping[str, int]  # cross-validation, by collection
    training: Options
    tuning_share: float  # of the epochs, while variants are compared
    methods: tuple[Method, ...]
    models: tuple[Learned, ...]
    curve: Curve
    training_on: Mapping[str, Options] = field(default_factory=dict)  # what differs, by collection
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by line, then collection
    goals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # greatest error, by line, then collection
    details: tuple[str, ...] = ()  # lines that are shown model by model
    remarks: tuple[str, ...] = ()  # said above the tables
    most_models: int | None = None  # of each split of a collection, the smallest first

    def quick(self) -> MapExperiment:
        """The whole road in a minute or two on a CPU; no result to quote."""
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

    def selected(self, collections: str | None, methods: str | None) -> MapExperiment:
        """The same on some collections and with some lines only, given as texts with commas."""
        chosen = _known("collection", collections, self.collections)
        lines = _known("method", methods, [m.name for m in self.methods] + [m.name for m in self.models])
        return replace(
            self,
            collections=chosen,
            folds={k: v for k, v in self.folds.items() if k in chosen},
            methods=tuple(m for m in self.methods if m.name in lines),
            models=tuple(m for m in self.models if m.name in lines),
            curve=replace(self.curve, solvers={k: v for k, v in self.curve.solvers.items() if k in lines}),
        )


def map_experiment_names() -> list[str]:
    """Those that come with the package."""
    return sorted(p.stem for p in _HERE.glob("*.toml"))


def load_map(name: str) -> MapExperiment:
    """An experiment by name, or from a TOML file of one's own."""
    path = Path(name) if name.endswith(".toml") else _HERE / f"{name}.toml"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        given.pop("task", None)
        for key in ("collections", "seeds"):
            given[key] = tuple(given[key])
        for key in ("details", "remarks"):
            given[key] = tuple(given.get(key, ()))
        curve = given.pop("curve", {})
        return MapExperiment(
            name=path.stem,
            methods=tuple(Method(**_tuples(m, "seeds")) for m in given.pop("method", [])),
            models=tuple(Learned(**_tuples(m, "decode")) for m in given.pop("model", [])),
            curve=Curve(tuple(curve.get("limits", ())), curve.get("solvers", {})),
            **given,
        )
    except OSError as error:
        raise FormatError(f"{path}: cannot read it: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise FormatError(f"{path}: not a MAP experiment: {error}") from None


def is_map(name: str) -> bool:
    """The name is that of a MAP experiment, or a file that says `task = "MAP"`."""
    if not name.endswith(".toml"):
        return name in map_experiment_names()
    try:
        return tomllib.loads(Path(name).read_text(encoding="utf-8")).get("task") == "MAP"
    except (OSError, tomllib.TOMLDecodeError):
        return False  # the reader of the other experiments says what is wrong


def product(options: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values; one empty combination where there are no options."""
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


def _tuples(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {**values, name: tuple(values[name])} if name in values else values


def _known(what: str, text: str | None, names: Any) -> tuple[str, ...]:
    """Names out of a text with commas, in the order of the experiment; all where no text is given."""
    if text is None:
        return tuple(names)
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for part in wanted:
        if part not in names:
            raise OptionError(f"there is no {what} {part!r}; choose from: {', '.join(names)}")
    return tuple(n for n in names if n in wanted)
