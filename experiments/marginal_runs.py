"""Runs for the lines of a table of marginals: a network is trained, or a solver used, and judged on the test graphs."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor import ModelError, OptionError, SolveError, Task, metrics, solve
from equifactor.base.clock import Clock
from equifactor.base.options import with_settings
from equifactor.solvers import parse_solver
from experiments.marginal_experiment import GraphFamily, MarginalExperiment, NetworkLine, SolverLine
from experiments.network_files import file_hash, parameters_of, shipped_file, steps_of, unpack_models
from experiments.run_store import Row, RunStore, run_key
from experiments.runner import device_name, finished_row

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals

DEFAULT_LR = 2e-3  # The learning rate of experiments that do not tune it. Chosen by hand.
_VALIDATION_SHARE = 0.2  # The share of the training graphs on which early stopping validates. Chosen by hand.
_MOST_VALIDATION = 1000  # The largest number of graphs on which early stopping validates. Chosen by hand.


@dataclass(frozen=True)
class MarginalRun:
    """One network or solver of an experiment; an `ExperimentRun`.

    Attributes:
        experiment: the experiment it belongs to.
        line: the network or solver.
        size: number of training graphs; None for solvers without training.
        seed: seed of training; None for solvers without training.
        tuning: whether the run only serves to choose the learning rate, by its validation graphs alone.
    """

    experiment: MarginalExperiment
    line: NetworkLine | SolverLine
    size: int | None = None
    seed: int | None = None
    tuning: bool = False

    @property
    def key(self) -> str:
        """The name of its row and of its model file."""
        parts = [self.line.name, *(f"{k}{v}" for k, v in (("n", self.size), ("seed", self.seed)) if v is not None)]
        if self.tuning and isinstance(self.line, NetworkLine):
            parts = ["tune", self.line.name, f"lr{self.line.lr:g}"]
        return run_key(*parts)

    @property
    def configuration(self) -> str:
        """A short hash of everything that decides the result."""
        e = self.experiment
        deciding = {
            "row": asdict(self.line), "size": self.size, "seed": self.seed, "test": e.test, "tune": e.tune,
            "train": e.train, "training": e.training, "families": [asdict(f) for f in e.families],
            "step_factors": e.step_factors,
        }  # fmt: skip
        if e.models_from:
            deciding |= {"models_from": e.models_from, "training": {}}
        if self.tuning:
            deciding |= {"tuning": True, "test": "", "families": [], "step_factors": []}
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    def made(self, row: Row, folder: Path) -> bool:
        """Return whether a row was made with these settings.

        If another experiment trained the network, the row must also belong to the present model file.
        """
        weights = self._foreign_weights(folder)
        same = weights is None or not weights.is_file() or row.get("weights") == file_hash(weights)
        return same and row.get("configuration", self.configuration) == self.configuration

    def perform(self, folder: Path, device: str, until: float | None = None) -> Row:
        """Train and judge the line. Raise `KeyboardInterrupt` after Ctrl-C, as interrupted answers are not results."""
        start, interrupts = time.perf_counter(), Clock.interrupts
        if isinstance(self.line, SolverLine):
            found = _judge_solver(self.experiment, self.line)
        else:
            found = self._judge_network(self.line, folder, device)
        if Clock.interrupts > interrupts:
            raise KeyboardInterrupt
        return {
            "name": self.line.name, "size": self.size, "seed": self.seed, "configuration": self.configuration, **found,
            "seconds": round(time.perf_counter() - start, 2), "device": device_name(device if self.size else "cpu"),
        }  # fmt: skip

    def _foreign_weights(self, folder: Path) -> Path | None:
        """Return the model file that another experiment trained, or None if this experiment trains its own."""
        if not self.experiment.models_from or not isinstance(self.line, NetworkLine):
            return None
        return folder.parent / self.experiment.models_from / "models" / f"{self.key}.safetensors"

    def _judge_network(self, line: NetworkLine, folder: Path, device: str) -> Row:
        """Return the measures of a network, trained here or by another experiment, on test graphs and families."""
        found: Row = {"solver": line.kind, "settings": asdict(line)}
        path, other = self._foreign_weights(folder), self.experiment.models_from
        if path is not None and not path.is_file():
            unpack_models(folder.parent / other)
        if path is None:
            path = folder / "models" / f"{self.key}.safetensors"
            found |= self._train(line, path, device)
        elif not path.is_file():
            raise OptionError(f"{path} is missing. Run python -m experiments {other} first.")
        else:
            found |= {"weights": file_hash(path), "settings": {**asdict(line), "lr": None, "from": other}}
        if self.tuning:
            path.unlink(missing_ok=True)
            return found
        if self.experiment.families:
            found["families"] = {f.name: _measured_on_family(f, str(path), device) for f in self.experiment.families}
        for factor in self.experiment.step_factors:
            count = max(1, round(factor * steps_of(path)))
            answers = _measured(self.experiment.test, f"{path}(iterations={count})", device)
            found.setdefault("steps", {})[str(count)] = answers
        return {**found, "parameters": parameters_of(path), **_measured(self.experiment.test, str(path), device)}

    def _train(self, line: NetworkLine, out: Path, device: str) -> Row:
        """Train within the budget of the experiment, the same for every network."""
        from equifactor.learning.training import train

        settings = {**self.experiment.training, **line.training}
        updates = settings.pop("updates")
        size, seed = self.size or 0, self.seed or 0
        settings.setdefault("validation", f"{min(_VALIDATION_SHARE, _MOST_VALIDATION / size):g}")
        settings["batch_size"] = min(settings["batch_size"], size)
        epochs = max(1, round(updates / settings["steps_per_epoch"]))
        out.parent.mkdir(parents=True, exist_ok=True)
        data = self.experiment.train.format(n=size, seed=1000 + seed)
        interrupts = Clock.interrupts
        try:
            done = train(
                with_settings(line.kind, line.network), data, "MAR", out, overwrite=True,
                lr=line.lr, epochs=epochs, seed=seed, device=device, **settings,
            )  # fmt: skip
        except SolveError as error:  # A learning rate whose loss is not finite is rejected; the others are still tried.
            if not self.tuning:
                raise
            return {"validation_kl": None, "failed": str(error)}
        if Clock.interrupts > interrupts:
            raise KeyboardInterrupt
        out.with_suffix(".checkpoint").unlink(missing_ok=True)
        return {
            "epochs": len(done.history) - 1, "best_epoch": done.metrics["epoch"], "validation_kl": done.metrics["kl"],
            "start_kl": done.history[0]["kl"],
        }  # fmt: skip


def tuning_runs(experiment: MarginalExperiment) -> Iterator[MarginalRun]:
    """Yield every candidate of every network whose learning rate is tuned."""
    tuning = experiment.tuning
    if tuning is None:
        return
    short = replace(experiment, training={**experiment.training, "updates": tuning.updates, "patience": 0})
    for line in experiment.models:
        for lr in tuning.lrs if line.lr is None else ():
            yield MarginalRun(short, replace(line, lr=lr), tuning.size, tuning.seed, tuning=True)


def final_runs(experiment: MarginalExperiment, store: RunStore) -> Iterator[MarginalRun]:
    """Yield solvers first, then networks whose tuning is finished, from small to large training sets."""
    for solver in experiment.classical:
        yield MarginalRun(experiment, solver)
    lines = [m for m in (_with_rate(m, experiment, store) for m in experiment.models) if m.lr is not None]
    for size in experiment.sizes:
        for seed in experiment.seeds:
            for line in lines:
                if line.sizes is None or size in line.sizes:
                    yield MarginalRun(experiment, line, size, seed)


def _with_rate(line: NetworkLine, experiment: MarginalExperiment, store: RunStore) -> NetworkLine:
    """Return the line with the learning rate of the lowest validation KL, unchanged if a candidate is not finished."""
    if line.lr is not None:
        return line
    if experiment.tuning is None:
        return replace(line, lr=DEFAULT_LR)
    found: dict[float, float] = {}
    for run in tuning_runs(experiment):
        if run.line.name == line.name and isinstance(run.line, NetworkLine) and run.line.lr is not None:
            row = finished_row(run, store)
            if row is None:
                return line
            found[run.line.lr] = math.inf if row["validation_kl"] is None else row["validation_kl"]
    return replace(line, lr=min(found, key=lambda lr: found[lr]))


def _judge_solver(experiment: MarginalExperiment, line: SolverLine) -> Row:
    """Return the measures of a solver, or of its best candidate on the tuning graphs of each family."""
    solver, tuned = _best_candidate(line, experiment.tune)
    found: Row = {"solver": solver, **_measured(experiment.test, solver), **tuned}
    families = {}
    for family in experiment.families:
        best, _ = _best_candidate(line, family.tune)
        families[family.name] = {"solver": best, **_measured_on_family(family, best)}
    if families:
        found["families"] = families
    for count in _step_counts(line.solver, experiment.step_factors):
        answers = _measured(experiment.test, f"{solver}(iterations={count}, tolerance=0)")
        found.setdefault("steps", {})[str(count)] = answers
    return found


def _step_counts(solver: str, factors: Sequence[float]) -> list[int]:
    """Return the numbers of steps after which a network of the package is judged; an empty list for other solvers."""
    path = shipped_file(solver, Task.MAR)
    return [max(1, round(f * steps_of(path))) for f in factors] if path.is_file() else []


def _measured(generator: str, solver: str, device: str = "cpu") -> dict[str, float]:
    """Return KL and RMSE on the graphs of a generator, with standard errors over graphs."""
    graphs, exact = _graphs_and_answers(generator)
    answers = solve(list(graphs), "MAR", _without_tolerance(solver), device=device)
    if not all(r.answered for r in answers):
        raise ValueError(f"{solver} left a graph without an answer.")
    given = [r.marginals for r in answers]
    kl = metrics.summarize([metrics.kl(p, q) for p, q in zip(exact, given, strict=True)])
    rmse = metrics.pooled_rmse(exact, given)
    return {"kl": kl.mean, "kl_stderr": kl.stderr, "rmse": rmse.mean, "rmse_stderr": rmse.stderr, "graphs": len(given)}


def _measured_on_family(family: GraphFamily, solver: str, device: str = "cpu") -> dict[str, Any]:
    """Return the measures of a solver on a family, or a sentence if the solver does not take its graphs."""
    try:
        return dict(_measured(family.test, solver, device))
    except ModelError as error:
        return {"kl": None, "refused": str(error)}


def _best_candidate(line: SolverLine, generator: str) -> tuple[str, dict[str, Any]]:
    """Return the candidate of the lowest KL on the graphs of a generator, and the KL of each candidate."""
    if not line.tune:
        return line.solver, {}
    kl = {solver: _measured(generator, solver)["kl"] for solver in line.tune}
    return min(kl, key=lambda solver: kl[solver]), {"tuning_kl": kl}


def _without_tolerance(solver: str) -> str:
    """Return the solver with tolerance 0 for a model file, so that the network alone runs the given number of steps."""
    if ".safetensors" not in solver:
        return solver
    name, _, rest = solver.partition(".safetensors")
    alone = ", alone" if hasattr(parse_solver(f"{name}.safetensors"), "alone") else ""
    more = f", {rest[1:-1]}" if rest else ""
    return f"{name}.safetensors(tolerance=0{alone}{more})"


@functools.lru_cache(maxsize=32)  # All runs of a process are judged on the same graphs.
def _graphs_and_answers(generator: str) -> tuple[Sequence[FactorGraph], list[Marginals]]:
    from equifactor.graph.marginals import Marginals
    from equifactor.learning.training.data_sources import read_source
    from equifactor.learning.training.targets import with_targets

    graphs, targets, left_out = with_targets(read_source(generator), Task.MAR)
    if left_out:
        raise ValueError(f"{generator}: all test graphs must have an exact answer. Found {left_out[0]}.")
    if any(g.observed is not None for g in graphs):
        raise ValueError(f"{generator}: test graphs must not have variables whose state is forced by zeros.")
    return graphs, [Marginals(np.asarray(t), g.structure.state_ptr) for g, t in zip(graphs, targets, strict=True)]
