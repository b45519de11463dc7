"""The function `train`, which takes data and returns a trained network and its model file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError, SolveError, brief
from equifactor.base.files import check_new, check_writable
from equifactor.base.optional_packages import needed
from equifactor.base.options import did_you_mean, parse_options, split_text
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.base.status import Task
from equifactor.base.torch_device import check_device
from equifactor.graph.factor_graph import FactorGraph
from equifactor.learning.training.data_sources import name_of
from equifactor.learning.training.evidence_sets import EvidenceSets, against_bp
from equifactor.learning.training.starting_weights import (
    FEWEST_HELD_OUT,
    FINE_TUNING,
    FINE_TUNING_SHARE,
    starting_network,
)
from equifactor.learning.training.training_log import TrainingLog
from equifactor.learning.training.training_settings import CHECKPOINT_SUFFIX, TrainingSettings
from equifactor.questions.solve import parse_task
from equifactor.solving.registry import MODEL_SUFFIX

if TYPE_CHECKING:
    from equifactor.learning.training.data_split import DataSplit
    from equifactor.learning.training.processes import Processes
    from equifactor.learning.training.training_loop import Trainer
    from equifactor.solvers.learned.network import Network
    from equifactor.solving.solver import Progress

# Settings that may differ when a run is resumed, because they do not change what is learned.
_MAY_DIFFER = ("device", "devices", "nodes", "cluster", "compile", "time_limit", "checkpoint_every")


@dataclass(frozen=True)
class Trained:
    """The result of a training run."""

    network: Network
    task: Task
    metrics: dict[str, Any]  # The measures of the best weights on the validation graphs; "test .." for EvidenceSets.
    history: list[dict[str, Any]]  # One record per epoch, as in the log.
    left_out: list[str]  # One sentence per graph that could not be used.
    path: Path | None
    finished: bool  # False if Ctrl-C or the time limit stopped the run, which can then be resumed.
    is_first: bool = True  # Whether this is the process that wrote the files.

    @property
    def log(self) -> TrainingLog:
        """The records of all epochs. A notebook shows them as a table, and `log.plot()` draws them."""
        return TrainingLog(self.history)

    def __str__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        return f"{self.network.kind} for {self.task}: {self.log}{where}"

    def _repr_html_(self) -> str:
        return self.log._repr_html_()


@checks_types("out", "start", "weights", "resume", "overwrite")
def train(
    kind: str,
    data: str | Path | Sequence[str | Path] | Sequence[FactorGraph] | EvidenceSets,
    task: str = "MAR",
    out: str | Path | None = None,
    *,
    start: str | Path | None = None,
    weights: Sequence[float] | None = None,
    validation: float | str | Path | Sequence[str | Path] | Sequence[FactorGraph] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | bool = False,
    **settings: Any,
) -> Trained:
    """Train a network on graphs, towards their exact marginals or, for MAP, their best known log scores.

    ```python
    ef.train("fe-net(hidden=32)", "ising(4x4, n=1000)", "MAR", "mine.safetensors", epochs=50)
    ef.train("fe-net", "ising(4x4, n=1000)", "MAR", "mine.safetensors", epochs=50, hidden=32)  # the same
    ```

    Args:
        kind: `fe-nbp`, `fe-gnn`, `fe-net` or a baseline; settings of the network may follow in brackets.
        data: a folder of models, a generator such as `"ising(4x4, n=1000)"`, several of these, or graphs;
            or `ef.learned.EvidenceSets("m.uai")`, which asks one model many questions.
        task: "MAR" or "MAP".
        out: model file to write (`.safetensors`), with a log (`.jsonl`) and a checkpoint beside it; None: no files.
        start: the weights to start from: "shipped" for those of the package, a name such as "fe-net", or a model file.
            The network then has the settings of the file; steps and settle may differ.
        weights: the weight of each graph in the loss and in a validation share, relative to their mean.
        validation: share of the graphs that is held out, or data as above; 0: validate on the training graphs. The
            default is 0.1; with `start` it is 0.2 and at least three graphs.
        resume: continue from the checkpoint beside `out`; the result is the same as without the interruption.
        overwrite: replace the model file or the checkpoint of an earlier run; otherwise existing files are an error.
        progress: True for a bar, or a callable `(done, total, note)`.
        settings: the fields of `TrainingSettings`, and settings of the network, which override those in `kind`. A name
            of both is an error, unless `kind` also sets it.

    With `start` the learning rate, the batches and the number of epochs have other defaults, see `FINE_TUNING`. The
    weights of epoch 0 are validated too. Without `validation` they are kept unless the gain on the held-out graphs is
    clear: 40 % on three graphs, 10 % on fifty.

    The same seed gives the same weights, bit for bit, on one CPU. Ctrl-C stops after the current gradient step, and
    keeps the best weights so far and a checkpoint.
    """
    _check_order(kind, data)
    check_run(None, 0, progress)
    needed("torch", "train")
    fewest, cautious = 1, validation is None and start is not None
    if validation is None:
        fewest, validation = (1, 0.1) if start is None else (FEWEST_HELD_OUT, FINE_TUNING_SHARE)
    is_one = isinstance(validation, (str, Path, int, float, np.number, FactorGraph))
    if not is_one and (not isinstance(validation, Iterable) or getattr(validation, "ndim", 1) == 0):
        raise OptionError(f"validation must be a share, such as 0.1, or data, found {brief(validation)}.")
    held: Any = validation if is_one else list(validation)  # type: ignore[arg-type]
    kind, of_network, of_training = _sorted_settings(kind, settings)
    if start is not None:
        of_training = {**FINE_TUNING, **of_training}
    chosen = TrainingSettings(**of_training, validation=name_of(held))
    wanted = _checked_task(task, chosen, resume)
    check_device(chosen.device, "train")
    model_file = _model_file(out, resume, overwrite)

    from equifactor.learning.training.data_split import split_data
    from equifactor.learning.training.processes import Processes

    net, origin = starting_network(kind, of_network, wanted, start, chosen.seed)
    processes, clock = Processes(chosen), Clock(chosen.time_limit)
    with _bar(progress, kind, processes) as report, contextlib.ExitStack() as later:
        # While targets are computed Ctrl-C raises, because there are no weights to keep yet.
        split = split_data(
            data, held, wanted, chosen, weights=weights, device=processes.device, report=_within(clock, report),
            fewest=fewest,
        )  # fmt: skip
        later.enter_context(clock.govern())
        trainer = _prepared(net, split, wanted, chosen, processes, (model_file, origin), clock, report)
        if resume:
            trainer.resume()
        compared: dict[str, float] = {}
        try:
            trainer.run(cautious=cautious)
            if isinstance(data, EvidenceSets) and not clock.stopped and (others := data.graphs(chosen.seed)[1]):
                compared = against_bp(net, others, wanted)
        finally:  # Keep the best weights so far, also after a loss that is not finite.
            metrics = _keep_best(trainer, split.text, origin, compared)
            _release(trainer)
    state = trainer.progress
    finished = not clock.stopped or state.epoch >= chosen.epochs
    return Trained(net, wanted, metrics, state.history, list(split.left_out), model_file, finished, processes.is_first)


# ---- arguments ------------------------------------------------------------------------------------------


def _check_order(kind: Any, data: Any) -> None:
    """Raise `OptionError` if the arguments are in the order of `solve`, with the task in second place."""
    if not isinstance(kind, str) or (isinstance(data, str) and data.upper() in Task.__members__):
        raise OptionError(
            'train takes the kind of network first, then the data and the task: train("fe-net", graphs, "MAR"). '
            f"Found {brief(kind)} as the kind."
        )


def _sorted_settings(text: str, given: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the kind of network, the settings of the network and the settings of training.

    Args:
        text: the kind, followed by settings of the network in brackets or not.
        given: keywords, which are settings of the network or of training.
    """
    from equifactor.solvers.learned.network import setting_names

    found = split_text(text)
    if found is None:
        raise OptionError(
            f"Cannot read the kind of network {text!r}. Write a name, or fe-net(hidden=32) with settings."
        )
    kind, options = found
    of_network = parse_options(kind, options)
    of_training: dict[str, Any] = {}
    names, training_names = setting_names(kind), [f.name for f in dataclasses.fields(TrainingSettings)]
    stated = set(of_network)
    if "network" in given:
        raise OptionError(
            f"train has no argument network. Give the settings of {kind} as keywords, or as text: {kind}(steps=20)."
        )
    for name, value in given.items():
        if name in training_names and name in names and name not in stated:
            raise OptionError(
                f"{name} is a setting of {kind} and of training. Write {kind}({name}=VALUE) for the setting of {kind}; "
                f"the keyword {name} is then the setting of training."
            )
        if name in training_names:
            of_training[name] = value
        elif name in names:
            of_network[name] = value
        else:
            near = did_you_mean(name, [*names, *training_names])
            raise OptionError(
                f"Neither {kind} nor training has a setting {name!r}; {near}{kind} has {', '.join(names)}; "
                f"training has {', '.join(training_names)}."
            )
    return kind, of_network, of_training


def _checked_task(task: str, settings: TrainingSettings, resume: bool) -> Task:
    """Return the task if these settings can train for it."""
    wanted = parse_task(task)
    if wanted is Task.PR:
        raise OptionError(
            "Networks are trained for MAR or MAP; found PR. Train for MAR: the network then also estimates ln Z (task "
            "PR)."
        )
    if settings.loss != "auto" and (settings.loss == "uai") != (wanted is Task.MAP):
        raise OptionError(f"The loss {settings.loss} is not for {wanted}. Use cross-entropy for MAR and uai for MAP.")
    if resume and settings.schedule == "time":
        raise OptionError(
            "A run with schedule=time cannot be resumed. Pass its model file as start=FILE to continue training."
        )
    return wanted


def _model_file(out: str | Path | None, resume: bool, overwrite: bool) -> Path | None:
    """Return the file to write, which must be writable and new, or None to write no files."""
    if out is None:
        if resume:
            raise OptionError("resume needs the model file that has the checkpoint beside it. Pass out=FILE.")
        return None
    path = Path(out)
    if path.suffix != MODEL_SUFFIX:
        raise OptionError(f"{path}: the name of a model file must end in {MODEL_SUFFIX}.")
    check_writable(path)
    for made in () if resume or overwrite else (path, path.with_suffix(CHECKPOINT_SUFFIX)):
        check_new(
            made, "Pass resume=True (--resume) to continue its run, overwrite=True (--overwrite) to replace it, or "
            "another name.",
        )  # fmt: skip
    return path


# ---- the run --------------------------------------------------------------------------------------------


def _prepared(
    network: Network,
    split: DataSplit,
    task: Task,
    settings: TrainingSettings,
    processes: Processes,
    file_and_origin: tuple[Path | None, str],
    clock: Clock,
    report: Progress | None,
) -> Trainer:
    """Return the run before its first epoch, after checking that the network can take the graphs."""
    model_file, origin = file_and_origin
    from equifactor.learning.training.run_files import RunFiles
    from equifactor.learning.training.training_loop import Trainer

    network.to(device=processes.device, dtype=split.training.torch_dtype)
    for part in (split.training, split.validation):
        for plan in part.plans(settings.batch_size):
            network.accept(part.batch(plan).flat)
    identity = {
        "kind": network.kind, "network": dataclasses.asdict(network.config), "task": task.value, "data": split.text,
        "contents": split.contents(),
        **{k: v for k, v in dataclasses.asdict(settings).items() if k not in _MAY_DIFFER},
        **({"start": origin} if origin else {}),
    }  # fmt: skip
    files = RunFiles(model_file, json.dumps(identity)) if model_file else None
    return Trainer(network, split, task, settings, processes, files=files, clock=clock, report=report)


def _keep_best(trainer: Trainer, data: str, origin: str, compared: dict[str, float]) -> dict[str, Any]:
    """Write the best weights so far to the model file, if there is one; return the measures of their epoch."""
    from equifactor.solvers.learned.model_card import ModelCard
    from equifactor.solvers.learned.model_files import save_model

    state, network = trainer.progress, trainer.network
    metrics = next((h for h in state.history if h["epoch"] == state.best_epoch), {})
    metrics = {k: v for k, v in metrics.items() if k not in ("seconds", "graphs_per_second", "best", "loss")} | compared
    if trainer.writes is not None and state.history:
        network.load_state_dict(trainer.best_weights)
        updates = state.best_epoch * trainer.batches_per_epoch
        measured = {k: v for k, v in metrics.items() if k != "epoch"}
        seed = trainer.settings.seed
        card = ModelCard.of(
            network, trainer.task, data=data, start=origin, metrics=measured, seed=seed, updates=updates
        )
        save_model(trainer.writes.model, network, card)
    return metrics


def _release(trainer: Trainer) -> None:
    """Free the GPU memory of captured steps, because another run of the same process may follow."""
    import gc

    import torch

    if trainer.captured is not None:
        trainer.captured.captures.captured.clear()
        gc.collect()
        torch.cuda.empty_cache()


def _within(clock: Clock, report: Progress | None) -> Progress:
    """Return a progress callback for the targets that raises once the time limit has passed."""

    def checked(done: int, total: int | None, note: str = "") -> None:
        if report:
            report(done, total, note)
        if clock.stopped and done != total:
            raise SolveError(
                f"The time limit passed before training, after {note} of {done} of {total} graphs. Raise time_limit. "
                "Answers for models of a collection are cached for the next run."
            )

    return checked


@contextlib.contextmanager
def _bar(progress: Progress | bool, kind: str, processes: Processes) -> Iterator[Progress | None]:
    """Yield a progress bar in the first process, and None in the others."""
    with bar(progress if processes.is_first else False, f"train {kind}") as report:
        yield report
