"""One line of a table: train a network or take a solver, judge it on the test graphs, leave a JSON file."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor import metrics
from equifactor.clock import Clock
from equifactor.errors import ModelError, OptionError
from equifactor.experiments.config import Classical, Experiment, Family, Model
from equifactor.result import Task
from equifactor.solve import solve

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals


@dataclass(frozen=True)
class Run:
    """What is to be done; `size` and `seed` are None for solvers that need no training."""

    experiment: Experiment
    row: Model | Classical
    size: int | None = None
    seed: int | None = None

    @property
    def key(self) -> str:
        """File name, unique in a folder of results."""
        parts = [self.row.name, *(f"{k}{v}" for k, v in (("n", self.size), ("seed", self.seed)) if v is not None)]
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
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    def file(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / "runs" / f"{self.key}.json"


def all_runs(experiment: Experiment) -> Iterator[Run]:
    """Solvers first, then networks from small to large training sets."""
    for row in experiment.classical:
        yield Run(experiment, row)
    for size in experiment.sizes:
        for seed in experiment.seeds:
            for model in experiment.models:
                if model.sizes is None or size in model.sizes:
                    yield Run(experiment, model, size, seed)


def perform(run: Run, folder: Path, device: str) -> dict[str, Any]:
    """Do it and write its file; a finished run is only read.

    After Ctrl-C nothing is written: training and solvers stop with what they have, which is no result.
    """
    path = run.file(folder)
    if path.is_file():
        return _finished(run, path)
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


def _finished(run: Run, path: Path) -> dict[str, Any]:
    row = dict(json.loads(path.read_text(encoding="utf-8")))
    if row.get("configuration", run.configuration) != run.configuration:
        raise OptionError(
            f"{path} was made with other settings (--quick, or the experiment has changed): choose another --out, "
            "or delete the file to run it anew"
        )
    return row


def _classical(run: Run, row: Classical) -> dict[str, Any]:
    """A solver as it is, or for every family of graphs the best of its candidates on other graphs of the family."""
    spec, found = _tuned(row, run.experiment.tune)
    graphs, exact = _graphs_and_answers(run.experiment.test)
    row_found = {"solver": spec, **_measure(graphs, exact, spec), **found}
    families = {}
    for family in run.experiment.families:
        best, _ = _tuned(row, family.tune)
        families[family.name] = {"solver": best, **_on_family(family, best)}
    return {**row_found, **({"families": families} if families else {})}


def _tuned(row: Classical, graphs_text: str) -> tuple[str, dict[str, Any]]:
    if not row.tune:
        return row.solver, {}
    graphs, exact = _graphs_and_answers(graphs_text)
    kl = {text: _measure(graphs, exact, text)["kl"] for text in row.tune}
    return min(kl, key=lambda text: kl[text]), {"tuning_kl": kl}


def _on_family(family: Family, solver: str) -> dict[str, Any]:
    """Measures on a family; a sentence where the solver does not take its graphs."""
    graphs, exact = _graphs_and_answers(family.test)
    try:
        return _measure(graphs, exact, solver)
    except ModelError as error:
        return {"kl": None, "refused": str(error)}


def _trained(run: Run, model: Model, folder: Path, device: str) -> dict[str, Any]:
    """Train within the budget of the experiment, the same for every network."""
    from equifactor.training import train

    settings = {**run.experiment.training, **model.training}
    updates = settings.pop("updates")
    size, seed = run.size or 0, run.seed or 0
    settings["batch_size"] = min(settings["batch_size"], size)
    epochs = max(1, round(updates / settings["steps_per_epoch"]))
    out = folder / "models" / f"{run.key}.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    data = run.experiment.train.format(n=size, seed=1000 + seed)
    interrupts = Clock.interrupts
    done = train(
        model.kind, data, "MAR", out,
        network=model.network, lr=model.lr, epochs=epochs, seed=seed, device=device, **settings,
    )  # fmt: skip
    if Clock.interrupts > interrupts:
        raise KeyboardInterrupt
    out.with_suffix(".checkpoint").unlink(missing_ok=True)
    graphs, exact = _graphs_and_answers(run.experiment.test)
    parameters = sum(p.numel() for p in done.network.parameters())
    extra: dict[str, Any] = {}
    if run.experiment.families:
        extra["families"] = {f.name: _on_family(f, str(out)) for f in run.experiment.families}
    steps = done.network.config.steps
    for factor in run.experiment.step_factors:
        count = max(1, round(factor * steps))
        extra.setdefault("steps", {})[str(count)] = _measure(graphs, exact, f"{out}(iterations={count})")
    return {
        "solver": model.kind, "settings": asdict(model), "parameters": parameters, "epochs": len(done.history) - 1,
        "best_epoch": done.metrics["epoch"], "validation_kl": done.metrics["kl"], "start_kl": done.history[0]["kl"],
        **_measure(graphs, exact, str(out)), **extra,
    }  # fmt: skip


def _measure(graphs: Sequence[FactorGraph], exact: Sequence[Marginals], solver: str) -> dict[str, float]:
    """KL and RMSE on the graphs, with standard errors over graphs."""
    answers = [r.marginals for r in solve(list(graphs), "MAR", _fixed(solver))]
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


def _graphs_and_answers(text: str) -> tuple[Sequence[FactorGraph], list[Marginals]]:
    from equifactor.graph.marginals import Marginals
    from equifactor.training.sources import read_source
    from equifactor.training.targets import with_targets

    graphs, targets, left_out = with_targets(read_source(text), Task.MAR)
    if left_out:
        raise ValueError(f"test graphs must all have an exact answer: {left_out[0]}")
    if any(g.observed is not None for g in graphs):
        raise ValueError(f"{text}: test graphs must have no variable that is forced by zeros")
    return graphs, [Marginals(np.asarray(t), g.structure.state_ptr) for g, t in zip(graphs, targets, strict=True)]


def device_name(device: str) -> str:
    """The chip, for the results."""
    if not device.startswith("cuda"):
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name())
