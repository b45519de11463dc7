"""What an experiment compares, from a TOML file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from equifactor.errors import FormatError, OptionError

_HERE = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class Model:
    """A network to be trained. Without `lr` the learning rate is tuned, see `Tuning`."""

    name: str  # in tables
    kind: str
    lr: float | None = None
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] | None = None  # training sizes, where not all


@dataclass(frozen=True)
class Family:
    """Graphs unlike those of training: what is tested, and others of the kind on which classical solvers are tuned."""

    name: str
    test: str
    tune: str


@dataclass(frozen=True)
class Classical:
    """A solver that needs no training. `tune` lists candidates; the best one on other graphs is taken."""

    name: str
    solver: str = ""
    tune: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuning:
    """How learning rates are chosen: the same candidates and effort for every network, on graphs of their own seed."""

    lrs: tuple[float, ...]
    size: int
    seed: int
    updates: int


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a result, device aside."""

    name: str
    title: str
    train: str  # a generator with {n} and {seed}
    test: str
    tune: str  # graphs on which classical solvers are tuned
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    training: dict[str, Any]
    models: tuple[Model, ...]
    classical: tuple[Classical, ...]
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    tuning: Tuning | None = None
    models_from: str = ""  # an experiment whose trained networks are judged here, instead of training anew
    families: tuple[Family, ...] = ()
    step_factors: tuple[float, ...] = ()  # networks are judged after so many times T steps as well

    def quick(self) -> Experiment:
        """The same in about two minutes on a CPU: the whole road, no result to quote."""
        training = {**self.training, "updates": 20, "steps_per_epoch": 10, "batch_size": 20}
        models = tuple(replace(m, training={}, sizes=None) for m in self.models)
        tuning = self.tuning and replace(self.tuning, lrs=self.tuning.lrs[:1], size=20, updates=10)
        return replace(
            self, sizes=self.sizes[:1], seeds=self.seeds[:1], models=models, training=training, tuning=tuning,
            models_from="", test=_fewer(self.test, 100), tune=_fewer(self.tune, 30),
            families=tuple(replace(f, test=_fewer(f.test, 20), tune=_fewer(f.tune, 10)) for f in self.families),
        )  # fmt: skip


def experiment_names() -> list[str]:
    """Those that come with the package."""
    return sorted(p.stem for p in _HERE.glob("*.toml"))


def load(name: str) -> Experiment:
    """An experiment by name, or from a TOML file of one's own."""
    path = Path(name) if name.endswith(".toml") else _HERE / f"{name}.toml"
    if not path.is_file():
        from experiments.map_config import map_experiment_names

        names = ", ".join([*experiment_names(), *map_experiment_names()])
        raise OptionError(f"there is no experiment {name!r}; choose from: {names}, or a .toml")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        models = tuple(Model(**{**m, "sizes": _tuple(m.get("sizes"))}) for m in given.pop("model", []))
        families = tuple(Family(**f) for f in given.pop("family", []))
        classical = tuple(
            Classical(c["name"], c.get("solver", ""), tuple(c.get("tune", ()))) for c in given.pop("classical", [])
        )
        if "tuning" in given:
            given["tuning"] = Tuning(**{**given["tuning"], "lrs": tuple(given["tuning"]["lrs"])})
        given |= {key: tuple(given[key]) for key in ("sizes", "seeds")}
        given["step_factors"] = tuple(given.get("step_factors", ()))
        return Experiment(name=path.stem, models=models, classical=classical, families=families, **given)
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise FormatError(f"{path}: not an experiment: {error}") from None


def selected(experiment: Experiment, methods: str | None, sizes: str | None) -> Experiment:
    """The same with some of its lines and training sizes only, given as texts with commas."""
    if methods:
        wanted = _known("method", methods, [c.name for c in experiment.classical] + [m.name for m in experiment.models])
        experiment = replace(
            experiment,
            classical=tuple(c for c in experiment.classical if c.name in wanted),
            models=tuple(m for m in experiment.models if m.name in wanted),
        )
    if sizes:
        chosen = _known("size", sizes, [str(n) for n in experiment.sizes])
        experiment = replace(experiment, sizes=tuple(n for n in experiment.sizes if str(n) in chosen))
    return experiment


def _known(what: str, text: str, names: list[str]) -> set[str]:
    # Names may hold commas themselves, so the longest that fits is taken.
    found, rest = set(), text.strip()
    while rest:
        name = max((n for n in names if rest == n or rest.startswith(n + ",")), key=len, default=None)
        if name is None:
            raise OptionError(f"there is no {what} {rest!r}; choose from: {'; '.join(names)}")
        found.add(name)
        rest = rest[len(name) :].lstrip(", ")
    return found


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _fewer(text: str, most: int) -> str:
    """A generator with at most so many graphs."""
    return re.sub(r"n=(\d+)", lambda found: f"n={min(most, int(found[1]))}", text)
