"""One line of a table: train a network or take a solver, judge it on the test graphs, leave a JSON file."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor import metrics
from equifactor._solve import solve
from equifactor.clock import Clock
from equifactor.errors import ModelError, OptionError, SolveError
from equifactor.result import Task
from experiments.config import Classical, Experiment, Family, Model

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals


DEFAULT_LR = 2e-3  # where an experiment does not tune
_VALIDATION_SHARE, _MOST_VALIDATION = 0.2, 1000  # of the training graphs, for early stopping


@dataclass(frozen=True)
class Run:
    """What is to be done; `size` and `seed` are None for solvers that need no training."""

    experiment: Experiment
    row: Model | Classical
    size: int | None = None
    seed: int | None = None
    tuning: bool = False  # serves to choose the learning rate, and is judged on its validation graphs alone

    @property
    def key(self) -> str:
        """File name, unique in a folder of results."""
        parts = [self.row.name, *(f"{k}{v}" for k, v in (("n", self.size), ("seed", self.seed)) if v is not None)]
        if self.tuning and isinstance(self.row, Model):
            parts = ["tune", self.row.name, f"lr{self.row.lr:g}"]
        return re.sub(r"[^A-Za-z0-9=.+-]+", "_", "-".join(parts))

    @property
    def configuration(self) -> str:
        """The same for all that decides the result alike; a short hash."""
        e = self.experiment
        deciding = {
            "row": asdict(self.row), "size": self.size, "seed": self.seed, "test": e.test, "tune": e.tune,
            "train": e.train, "training": e.training, "families": [asdict(f) for f in e.families],
            "step_factors": e.step_factors,
        }  # fmt: skip
        if e.models_from:
            deciding |= {"models_from": e.models_from, "training": {}}
        if self.tuning:
            deciding |= {"tuning": True, "test": "", "families": [], "step_factors": []}
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    def file(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / "runs" / f"{self.key}.json"


def tuning_runs(experiment: Experiment) -> Iterator[Run]:
    """Every candidate of every network whose learning rate is to be chosen."""
    tuning = experiment.tuning
    if tuning is None:
        return
    short = replace(experiment, training={**experiment.training, "updates": tuning.updates, "patience": 0})
    for model in experiment.models:
        for lr in tuning.lrs if model.lr is None else ():
            yield Run(short, replace(model, lr=lr), tuning.size, tuning.seed, tuning=True)


def all_runs(experiment: Experiment, folder: Path) -> Iterator[Run]:
    """Solvers first, then networks from small to large training sets; those whose tuning is finished."""
    for row in experiment.classical:
        yield Run(experiment, row)
    models = [m for m in (_with_lr(m, experiment, folder) for m in experiment.models) if m.lr is not None]
    for size in experiment.sizes:
        for seed in experiment.seeds:
            for model in models:
                if model.sizes is None or size in model.sizes:
                    yield Run(experiment, model, size, seed)


def _with_lr(model: Model, experiment: Experiment, folder: Path) -> Model:
    """With the learning rate of the lowest validation KL."""
    if model.lr is not None:
        return model
    if experiment.tuning is None:
        return replace(model, lr=DEFAULT_LR)
    found = {}
    for run in tuning_runs(experiment):
        if run.row.name == model.name and isinstance(run.row, Model):
            if not run.file(folder).is_file():
                return model
            kl = _finished(run, run.file(folder))["validation_kl"]
            found[run.row.lr] = math.inf if kl is None else kl
    return replace(model, lr=min(found, key=lambda lr: found[lr]))


def perform(run: Run, folder: Path, device: str) -> dict[str, Any]:
    """Do it and write its file; a finished run is only read.

    After Ctrl-C nothing is written: training and solvers stop with what they have, which is no result.
    """
    path = run.file(folder)
    if path.is_file():
        return _finished(run, path, _weights_of(run, folder))
    start, interrupts = time.perf_counter(), Clock.interrupts
    found = _classical(run, run.row) if isinstance(run.row, Classical) else _trained(run, run.row, folder, device)
    if Clock.interrupts > interrupts:
        raise KeyboardInterrupt
    row = {
        "name": run.row.name, "size": run.size, "seed": run.seed, "configuration": run.configuration, **found,
        "seconds": round(time.perf_counter() - start, 2), "device": device_name(device if run.size else "cpu"),
    }  # fmt: skip
    from equifactor.io.files import write_text

    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(row, indent=1) + "\n")
    return row


def _weights_of(run: Run, folder: Path) -> Path | None:
    """The model file that another experiment trained; None where this one trains its own."""
    if not run.experiment.models_from or not isinstance(run.row, Model):
        return None
    return folder.parent / run.experiment.models_from / "models" / f"{run.key}.safetensors"


def _finished(run: Run, path: Path, weights: Path | None = None) -> dict[str, Any]:
    row = dict(json.loads(path.read_text(encoding="utf-8")))
    same = weights is None or not weights.is_file() or row.get("weights") == _digest(weights)
    if row.get("configuration", run.configuration) != run.configuration or not same:
        raise OptionError(
            f"{path} was made with other settings (--quick, or the experiment has changed): choose another --out, "
            "or delete the file to run it anew"
        )
    return row


def _classical(run: Run, row: Classical) -> dict[str, Any]:
    """A solver as it is, or for every family of graphs the best of its candidates on other graphs of the family."""
    spec, found = _tuned(row, run.experiment.tune)
    graphs, exact = _graphs_and_answers(run.experiment.test)
    row_found: dict[str, Any] = {"solver": spec, **_measure(graphs, exact, spec), **found}
    families = {}
    for family in run.experiment.families:
        best, _ = _tuned(row, family.tune)
        families[family.name] = {"solver": best, **_on_family(family, best)}
    if families:
        row_found["families"] = families
    for count in _step_counts(row.solver, run.experiment.step_factors):
        answers = _measure(graphs, exact, f"{spec}(iterations={count}, tolerance=0)")
        row_found.setdefault("steps", {})[str(count)] = answers
    return row_found


def _step_counts(solver: str, factors: Sequence[float]) -> list[int]:
    """Numbers of steps at which a network of the package is judged; none for other solvers."""
    from equifactor.solvers.learned.learned_solver import shipped_weights
    from equifactor.solvers.learned.model_card import read_card

    path = shipped_weights(solver, Task.MAR)
    return [max(1, round(f * read_card(path).settings["steps"])) for f in factors] if path.is_file() else []


def _tuned(row: Classical, graphs_text: str) -> tuple[str, dict[str, Any]]:
    if not row.tune:
        return row.solver, {}
    graphs, exact = _graphs_and_answers(graphs_text)
    kl = {text: _measure(graphs, exact, text)["kl"] for text in row.tune}
    return min(kl, key=lambda text: kl[text]), {"tuning_kl": kl}


def _on_family(family: Family, solver: str, device: str = "cpu") -> dict[str, Any]:
    """Measures on a family; a sentence where the solver does not take its graphs."""
    graphs, exact = _graphs_and_answers(family.test)
    try:
        return _measure(graphs, exact, solver, device)
    except ModelError as error:
        return {"kl": None, "refused": str(error)}


def _trained(run: Run, model: Model, folder: Path, device: str) -> dict[str, Any]:
    """A network, trained here or by another experiment, on the test graphs and on the families."""
    from equifactor.solvers.learned.model_card import read_card

    found: dict[str, Any] = {"solver": model.kind, "settings": asdict(model)}
    path = _weights_of(run, folder)
    if path is None:
        path = folder / "models" / f"{run.key}.safetensors"
        found |= _train(run, model, path, device)
    elif not path.is_file():
        raise OptionError(f"{path} is missing: run equifactor experiment {run.experiment.models_from} first")
    else:
        found |= {
            "weights": _digest(path),
            "settings": {**asdict(model), "lr": None, "from": run.experiment.models_from},
        }
    if run.tuning:
        path.unlink(missing_ok=True)
        return found

    graphs, exact = _graphs_and_answers(run.experiment.test)
    card = read_card(path)
    if run.experiment.families:
        found["families"] = {f.name: _on_family(f, str(path), device) for f in run.experiment.families}
    for factor in run.experiment.step_factors:
        count = max(1, round(factor * card.settings["steps"]))
        found.setdefault("steps", {})[str(count)] = _measure(graphs, exact, f"{path}(iterations={count})", device)
    return {**found, "parameters": card.parameters, **_measure(graphs, exact, str(path), device)}


def _train(run: Run, model: Model, out: Path, device: str) -> dict[str, Any]:
    """Train within the budget of the experiment, the same for every network."""
    from equifactor.training import train

    settings = {**run.experiment.training, **model.training}
    updates = settings.pop("updates")
    size, seed = run.size or 0, run.seed or 0
    settings.setdefault("validation", f"{min(_VALIDATION_SHARE, _MOST_VALIDATION / size):g}")
    settings["batch_size"] = min(settings["batch_size"], size)
    epochs = max(1, round(updates / settings["steps_per_epoch"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    data = run.experiment.train.format(n=size, seed=1000 + seed)
    interrupts = Clock.interrupts
    try:
        done = train(
            model.kind, data, "MAR", out,
            network=model.network, lr=model.lr, epochs=epochs, seed=seed, device=device, **settings,
        )  # fmt: skip
    except SolveError as error:  # a rate at which the loss is not finite loses, and is no reason to try no other
        if not run.tuning:
            raise
        return {"validation_kl": None, "failed": str(error)}
    if Clock.interrupts > interrupts:
        raise KeyboardInterrupt
    out.with_suffix(".checkpoint").unlink(missing_ok=True)
    return {
        "epochs": len(done.history) - 1, "best_epoch": done.metrics["epoch"], "validation_kl": done.metrics["kl"],
        "start_kl": done.history[0]["kl"],
    }  # fmt: skip


def _measure(
    graphs: Sequence[FactorGraph], exact: Sequence[Marginals], solver: str, device: str = "cpu"
) -> dict[str, float]:
    """KL and RMSE on the graphs, with standard errors over graphs."""
    answers = [r.marginals for r in solve(list(graphs), "MAR", _fixed(solver), device=device)]
    if any(a is None for a in answers):
        raise ValueError(f"{solver} left a graph without an answer")
    given = [a for a in answers if a is not None]
    kl = metrics.summarize([metrics.kl(p, q) for p, q in zip(exact, given, strict=True)])
    rmse = metrics.pooled_rmse(exact, given)
    return {"kl": kl.mean, "kl_stderr": kl.stderr, "rmse": rmse.mean, "rmse_stderr": rmse.stderr, "graphs": len(given)}


def _fixed(solver: str) -> str:
    """A model file runs exactly the steps it is asked for."""
    if solver.endswith(".safetensors"):
        return f"{solver}(tolerance=0)"
    return solver.replace(".safetensors(", ".safetensors(tolerance=0, ")


@functools.lru_cache(maxsize=32)  # the same test graphs in every run of a process
def _graphs_and_answers(text: str) -> tuple[Sequence[FactorGraph], list[Marginals]]:
    from equifactor.graph.marginals import Marginals
    from equifactor.training.data_sources import read_source
    from equifactor.training.targets import with_targets

    graphs, targets, left_out = with_targets(read_source(text), Task.MAR)
    if left_out:
        raise ValueError(f"test graphs must all have an exact answer: {left_out[0]}")
    if any(g.observed is not None for g in graphs):
        raise ValueError(f"{text}: test graphs must have no variable that is forced by zeros")
    return graphs, [Marginals(np.asarray(t), g.structure.state_ptr) for g, t in zip(graphs, targets, strict=True)]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def device_name(device: str) -> str:
    """The chip, for the results."""
    if not device.startswith("cuda"):
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name())
