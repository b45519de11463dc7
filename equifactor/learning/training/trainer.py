"""The one call: data in, trained network and model file out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError, SolveError
from equifactor.base.files import check_writable
from equifactor.base.options import choices
from equifactor.base.progress import bar
from equifactor.base.status import Task
from equifactor.base.torch_device import check_device
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.training.data_sources import name_of
from equifactor.learning.training.training_log import TrainingLog
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.questions.solve import parse_task
from equifactor.solving.registry import MODEL_SUFFIX

if TYPE_CHECKING:
    from equifactor.learning.training.data_split import DataSplit
    from equifactor.learning.training.processes import Processes
    from equifactor.learning.training.training_loop import Trainer
    from equifactor.solvers.learned.network import Network, NetworkConfig
    from equifactor.solving.solver import Progress

# These settings do not change what is learned, so they may differ when a run is resumed.
_NOT_THE_RUN = ("device", "devices", "nodes", "cluster", "compile", "time_limit", "checkpoint_every")


@dataclass(frozen=True)
class Trained:
    """What training gives back."""

    network: Network
    task: Task
    metrics: dict[str, Any]  # The measures of the best weights on the validation graphs.
    history: list[dict[str, Any]]  # One record per epoch, as in the log.
    left_out: list[str]  # A sentence per graph that could not be used.
    path: Path | None
    finished: bool  # False where it was stopped by Ctrl-C or the time limit; --resume goes on.
    is_first: bool = True  # Of several processes this is the one that wrote the files.

    @property
    def log(self) -> TrainingLog:
        """The records of all epochs, which show themselves in a notebook and can be drawn."""
        return TrainingLog(self.history)

    def __str__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        return f"{self.network.kind} for {self.task}: {self.log}{where}"

    def _repr_html_(self) -> str:
        return self.log._repr_html_()


def train(
    kind: str,
    data: str | Path | Sequence[str | Path] | Sequence[FactorGraph],
    task: str = "MAR",
    out: str | Path | None = None,
    *,
    network: Mapping[str, Any] | None = None,
    start: str | Path | None = None,
    weights: Sequence[float] | None = None,
    validation: float | str | Path | Sequence[str | Path] | Sequence[FactorGraph] = 0.1,
    resume: bool = False,
    progress: Progress | bool = False,
    **settings: Any,
) -> Trained:
    """Train a network on graphs whose answers are computed exactly, or for MAP by the expected UAI error.

    Args:
        kind: `fe-nbp`, `fe-gnn`, `fe-net` or a baseline.
        data: a folder of models, a generator such as `"ising(4x4, n=1000)"`, several of these, or graphs.
        task: "MAR" or "MAP".
        out: model file to write (`.safetensors`), with a log (`.jsonl`) and a checkpoint beside it; None: no files.
        network: settings of the network, such as `{"channels": 32}`.
        start: a model file of the same kind and settings to start from; steps and settle may differ.
        weights: how much each graph counts in the loss and in a validation share, against their mean.
        validation: share of the graphs held out, or data as above; 0: the training graphs.
        resume: go on from the checkpoint beside `out`; the result is that of an uninterrupted run.
        progress: True for a bar, or a callable `(done, total, note)`.
        settings: the fields of `TrainingSettings`.

    The same seed gives the same weights, bit for bit, on one CPU. Ctrl-C stops after the current gradient step, keeps
    the best weights so far and a checkpoint.
    """
    held: Any = validation if isinstance(validation, (str, Path, int, float, FactorGraph)) else list(validation)
    chosen = _settings(settings, held)
    wanted = _checked_task(task, chosen, resume)
    check_device(chosen.device, "train")
    model_file = _model_file(out, resume)

    from equifactor.learning.training.data_split import split_data
    from equifactor.learning.training.processes import Processes

    net = _starting_network(kind, dict(network or {}), start, chosen.seed)
    processes, clock = Processes(chosen), Clock(chosen.time_limit)
    with _bar(progress, kind, processes) as report, contextlib.ExitStack() as polite:
        # Ctrl-C raises up to here: there is nothing to keep yet, and a solver must not be left to finish its search.
        split = split_data(
            data, held, wanted, chosen, weights=weights, device=processes.device, report=_within(clock, report)
        )
        polite.enter_context(clock.catch_interrupt())
        trainer = _prepared(net, split, wanted, chosen, processes, model_file, clock, report)
        if resume:
            trainer.resume()
        try:
            trainer.run()
        finally:  # Also after a loss that is not finite, the best weights so far are what a user wants.
            metrics = _keep_best(trainer, split.text)
            _release(trainer)
    state = trainer.progress
    finished = not clock.stopped or state.epoch >= chosen.epochs
    return Trained(net, wanted, metrics, state.history, list(split.left_out), model_file, finished, processes.is_first)


# ---- what is asked for ----------------------------------------------------------------------------------


def _settings(given: dict[str, Any], validation: Any) -> TrainingSettings:
    known = [f.name for f in dataclasses.fields(TrainingSettings)]
    for name in given:
        if name not in known:
            raise OptionError(f"training has no setting {name!r}; {choices(name, known)}")
    return TrainingSettings(**given, validation=name_of(validation))


def _checked_task(task: str, settings: TrainingSettings, resume: bool) -> Task:
    """The task, where it can be trained for with these settings."""
    wanted = parse_task(task)
    if wanted is Task.PR:
        raise OptionError("networks are trained for MAR or MAP; a MAR model estimates ln Z as well (task PR)")
    if settings.loss != "auto" and (settings.loss == "uai") != (wanted is Task.MAP):
        raise OptionError(f"the loss {settings.loss} is not for {wanted}: cross-entropy is for MAR and uai for MAP")
    if resume and settings.schedule == "time":
        raise OptionError("a run with schedule=time cannot be resumed: go on from its model file, start=FILE")
    return wanted


def _model_file(out: str | Path | None, resume: bool) -> Path | None:
    """The file to write, which must be writable; None where no file is asked for."""
    if out is None:
        if resume:
            raise OptionError("resume needs the model file whose checkpoint to go on from: out=FILE")
        return None
    path = Path(out)
    if path.suffix != MODEL_SUFFIX:
        raise OptionError(f"{path}: a model file ends in {MODEL_SUFFIX}")
    check_writable(path)
    return path


# ---- the network ----------------------------------------------------------------------------------------


def _starting_network(kind: str, settings: dict[str, Any], start: str | Path | None, seed: int) -> Network:
    """The network with its starting weights: seeded ones, or those of a model file."""
    from equifactor.solvers.learned.model_files import load_model
    from equifactor.solvers.learned.network import build

    network = build(kind, settings, seed=seed)
    if start is not None:
        given, _ = load_model(start)
        if _without_pace(given.config) != _without_pace(network.config):
            raise OptionError(f"{start}: it holds {given.kind} with {given.config}, not {kind} with {network.config}")
        network.load_state_dict(given.state_dict())
    return network


def _without_pace(config: NetworkConfig) -> tuple[type[NetworkConfig], dict[str, Any]]:
    """All settings but those that say how long to run: with others the same weights would mean something else."""
    settings = dataclasses.asdict(config)
    return type(config), {name: value for name, value in settings.items() if name not in ("steps", "settle")}


# ---- the run --------------------------------------------------------------------------------------------


def _prepared(
    network: Network,
    split: DataSplit,
    task: Task,
    settings: TrainingSettings,
    processes: Processes,
    model_file: Path | None,
    clock: Clock,
    report: Progress | None,
) -> Trainer:
    """The run before its first epoch, on graphs that the network can take."""
    from equifactor.learning.training.run_files import RunFiles
    from equifactor.learning.training.training_loop import Trainer

    network.to(device=processes.device, dtype=split.training.torch_dtype)
    for part in (split.training, split.validation):
        for plan in part.plans(settings.batch_size):
            network.accept(part.batch(plan).flat)
    identity = {
        "kind": network.kind, "network": dataclasses.asdict(network.config), "task": task.value, "data": split.text,
        "contents": split.contents(),
        **{k: v for k, v in dataclasses.asdict(settings).items() if k not in _NOT_THE_RUN},
    }  # fmt: skip
    files = RunFiles(model_file, json.dumps(identity)) if model_file else None
    return Trainer(network, split, task, settings, processes, files=files, clock=clock, report=report)


def _keep_best(trainer: Trainer, data: str) -> dict[str, Any]:
    """Write the best weights so far to the model file, where there is one; the measures of their epoch."""
    from equifactor.solvers.learned.model_card import ModelCard
    from equifactor.solvers.learned.model_files import save_model

    state, network = trainer.progress, trainer.network
    metrics = next((h for h in state.history if h["epoch"] == state.best_epoch), {})
    metrics = {k: v for k, v in metrics.items() if k not in ("seconds", "graphs_per_second", "best", "loss")}
    if trainer.writes is not None and state.history:
        network.load_state_dict(trainer.best_weights)
        updates = state.best_epoch * trainer.batches_per_epoch
        measured = {k: v for k, v in metrics.items() if k != "epoch"}
        seed = trainer.settings.seed
        card = ModelCard.of(network, trainer.task, data=data, metrics=measured, seed=seed, updates=updates)
        save_model(trainer.writes.model, network, card)
    return metrics


def _release(trainer: Trainer) -> None:
    """Give the memory of captured steps back to the GPU: another run of the same process may follow."""
    import gc

    import torch

    if trainer.captured is not None:
        trainer.captured.captured.clear()
        gc.collect()
        torch.cuda.empty_cache()


def _within(clock: Clock, report: Progress | None) -> Progress:
    """A report on the targets that looks at the time limit as well."""

    def checked(done: int, total: int | None, note: str = "") -> None:
        if report:
            report(done, total, note)
        if clock.stopped and done != total:
            raise SolveError(
                f"the time limit passed before training, after {note} of {done} of {total} graphs: raise it; answers "
                "for models from files are kept for the next time"
            )

    return checked


@contextlib.contextmanager
def _bar(progress: Progress | bool, kind: str, processes: Processes) -> Iterator[Progress | None]:
    """A progress bar in the first process, none in the others."""
    with bar(progress if processes.is_first else False, f"train {kind}") as report:
        yield report
