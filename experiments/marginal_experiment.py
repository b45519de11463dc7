"""The config of an experiment on marginals: networks and solvers, training and test graphs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.name_choice import chosen_names


@dataclass(frozen=True)
class NetworkLine:
    """A line of the table with a network that is trained.

    Attributes:
        name: name in tables.
        kind: kind of network.
        lr: learning rate; None to tune it, see `RateTuning`.
        network: settings of the network.
        training: settings of its training that differ from the settings of the experiment.
        sizes: numbers of training graphs; None for all sizes of the experiment.
    """

    name: str
    kind: str
    lr: float | None = None
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SolverLine:
    """A line of the table with a solver that needs no training.

    Attributes:
        name: name in tables.
        solver: text form of the solver.
        tune: candidates in place of `solver`; the best candidate on other graphs is used.
    """

    name: str
    solver: str = ""
    tune: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphFamily:
    """Graphs unlike the training graphs: test graphs, and other graphs of the same kind on which solvers are tuned."""

    name: str
    test: str
    tune: str


@dataclass(frozen=True)
class RateTuning:
    """The choice of learning rates: the same candidates and steps for every network, on graphs of another seed."""

    lrs: tuple[float, ...]
    size: int
    seed: int
    updates: int


@dataclass(frozen=True)
class MarginalExperiment:
    """Everything that decides a result, except for the device.

    Attributes:
        name: name of the experiment and of its folder.
        title: title of its page.
        train: generator of training graphs with `{n}` and `{seed}`.
        test: generator of test graphs.
        tune: generator of the graphs on which solvers are tuned.
        sizes: numbers of training graphs.
        seeds: seeds of training.
        training: settings of training, the same for all networks.
        models: the networks.
        classical: the solvers.
        published: KL and RMSE that the paper states, by line.
        tuning: the choice of learning rates; None for one rate for all networks.
        models_from: an experiment whose trained networks are judged here; empty to train new networks.
        families: other graphs on which every line is also judged.
        step_factors: multiples of the T steps of a network after which it is also judged.
    """

    name: str
    title: str
    train: str
    test: str
    tune: str
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    training: dict[str, Any]
    models: tuple[NetworkLine, ...]
    classical: tuple[SolverLine, ...]
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    tuning: RateTuning | None = None
    models_from: str = ""
    families: tuple[GraphFamily, ...] = ()
    step_factors: tuple[float, ...] = ()

    @classmethod
    def from_values(cls, name: str, values: dict[str, Any]) -> MarginalExperiment:
        """Read the values of a TOML file; raise `TypeError` or `KeyError` if they are not an experiment."""
        given = dict(values)
        models = [
            NetworkLine(**{**m, "sizes": None if m.get("sizes") is None else tuple(m["sizes"])})
            for m in given.pop("model", [])
        ]
        classical = [SolverLine(**{**c, "tune": tuple(c.get("tune", ()))}) for c in given.pop("classical", [])]
        families = [GraphFamily(**f) for f in given.pop("family", [])]
        if "tuning" in given:
            given["tuning"] = RateTuning(**{**given["tuning"], "lrs": tuple(given["tuning"]["lrs"])})
        given |= {key: tuple(given[key]) for key in ("sizes", "seeds")}
        given["step_factors"] = tuple(given.get("step_factors", ()))
        return cls(name=name, models=tuple(models), classical=tuple(classical), families=tuple(families), **given)

    def quick(self) -> MarginalExperiment:
        """Return a small copy that takes about two minutes on a CPU; its results are not meaningful."""
        training = {**self.training, "updates": 20, "steps_per_epoch": 10, "batch_size": 20}
        models = tuple(replace(m, training={}, sizes=None) for m in self.models)
        tuning = self.tuning and replace(self.tuning, lrs=self.tuning.lrs[:1], size=20, updates=10)
        return replace(
            self, sizes=self.sizes[:1], seeds=self.seeds[:1], models=models, training=training, tuning=tuning,
            models_from="", test=_at_most(self.test, 100), tune=_at_most(self.tune, 30),
            families=tuple(replace(f, test=_at_most(f.test, 20), tune=_at_most(f.tune, 10)) for f in self.families),
        )  # fmt: skip

    def selected(self, methods: str | None = None, sizes: str | None = None) -> MarginalExperiment:
        """Return the experiment with some of its lines and training sizes only, given as comma-separated names."""
        lines = chosen_names("method", methods, [c.name for c in self.classical] + [m.name for m in self.models])
        chosen = chosen_names("size", sizes, [str(n) for n in self.sizes])
        return replace(
            self,
            classical=tuple(c for c in self.classical if c.name in lines),
            models=tuple(m for m in self.models if m.name in lines),
            sizes=tuple(n for n in self.sizes if str(n) in chosen),
        )


def _at_most(generator: str, most: int) -> str:
    """Return a generator with at most `most` graphs."""
    return re.sub(r"n=(\d+)", lambda found: f"n={min(most, int(found[1]))}", generator)
