"""The one call: data in, trained network and model file out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor._solve import parse_task
from equifactor.clock import Clock
from equifactor.errors import OptionError, SolveError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.progress import bar
from equifactor.result import Task
from equifactor.torch_device import check_device
from equifactor.training.data_sources import read_source
from equifactor.training.targets import fingerprint, with_targets
from equifactor.training.training_settings import TrainingSettings

if TYPE_CHECKING:
    from equifactor.solver import Progress
    from equifactor.solvers.learned.network import Network, NetworkConfig
    from equifactor.training.batches import Dataset
    from equifactor.training.training_loop import Trainer

_NOT_THE_RUN = ("device", "devices", "nodes", "compile", "time_limit", "checkpoint_every")  # may change on --resume


@dataclass(frozen=True)
class Trained:
    """What training gives back."""

    network: Network
    task: Task
    metrics: dict[str, Any]  # of the best weights on the validation graphs
    history: list[dict[str, Any]]  # one record per epoch, as in the log
    left_out: list[str]  # a sentence per graph that could not be used
    path: Path | None
    finished: bool  # False: stopped by Ctrl-C or the time limit; --resume goes on
    is_first: bool = True  # of several processes the one that wrote the files


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
    known = [f.name for f in dataclasses.fields(TrainingSettings)]
    for name in settings:
        if name not in known:
            raise OptionError(f"training has no setting {name!r}; choose from: {', '.join(known)}")
    held: Any = validation if isinstance(validation, (str, Path, int, float, FactorGraph)) else list(validation)
    wanted, chosen = parse_task(task), TrainingSettings(**settings, validation=_text(held))
    if wanted is Task.PR:
        raise OptionError("networks are trained for MAR or MAP; a MAR model estimates ln Z as well (task PR)")
    if chosen.loss != "auto" and (chosen.loss == "uai") != (wanted is Task.MAP):
        raise OptionError(f"the loss {chosen.loss} is not for {wanted}: cross-entropy is for MAR and uai for MAP")
    if resume and chosen.schedule == "time":
        raise OptionError("a run with schedule=time cannot be resumed: go on from its model file, start=FILE")
    check_device(chosen.device)
    target = _target(out)
    if resume and target is None:
        raise OptionError("resume needs the model file whose checkpoint to go on from: out=FILE")

    from equifactor.solvers.learned.model_card import ModelCard
    from equifactor.solvers.learned.model_files import load_model, save_model
    from equifactor.solvers.learned.network import build
    from equifactor.training.processes import Processes
    from equifactor.training.training_loop import Trainer

    net = build(kind, dict(network or {}), seed=chosen.seed)
    if start is not None:
        started, _ = load_model(start)
        if _without_pace(started.config) != _without_pace(net.config):
            raise OptionError(f"{start}: it holds {started.kind} with {started.config}, not {kind} with {net.config}")
        net.load_state_dict(started.state_dict())
    processes = Processes(chosen)
    clock = Clock(chosen.time_limit)
    with _bar(progress, kind, processes) as report, contextlib.ExitStack() as polite:
        # Ctrl-C raises up to here: there is nothing to keep yet, and a solver must not be left to finish its search.
        parts, text, left_out = _data(data, weights, held, wanted, chosen, processes.device, _within(clock, report))
        polite.enter_context(clock.catch_interrupt())
        net.to(device=processes.device, dtype=parts[0].torch_dtype)
        for part in parts:
            for plan in part.plans(chosen.batch_size):
                net.check(part.batch(plan).flat)
        identity = {
            "kind": kind, "network": dataclasses.asdict(net.config), "task": wanted.value, "data": text,
            "contents": _contents(parts),
            **{k: v for k, v in dataclasses.asdict(chosen).items() if k not in _NOT_THE_RUN},
        }  # fmt: skip
        trainer = Trainer(
            net, parts[0], parts[1], wanted, chosen, processes,
            identity=json.dumps(identity), out=target, clock=clock, report=report,
        )  # fmt: skip
        if resume:
            trainer.resume()
        try:
            trainer.run()
        finally:  # also after a loss that is not finite: the best weights so far are what a user wants
            best = trainer.progress
            metrics = next((h for h in best.history if h["epoch"] == best.best_epoch), {})
            metrics = {k: v for k, v in metrics.items() if k not in ("seconds", "graphs_per_second", "best", "loss")}
            if target and processes.is_first and best.history:
                net.load_state_dict(trainer.best_weights)
                updates = best.best_epoch * trainer.batches_per_epoch
                measured = {k: v for k, v in metrics.items() if k != "epoch"}
                card = ModelCard.of(net, wanted, data=text, metrics=measured, seed=chosen.seed, updates=updates)
                save_model(target, net, card)
            _release(trainer)
    finished = not clock.stopped or best.epoch >= chosen.epochs
    return Trained(net, wanted, metrics, best.history, left_out, target, finished, processes.is_first)


def _release(trainer: Trainer) -> None:
    """Give the memory of captured steps back to the GPU: another run of the same process may follow."""
    import gc

    import torch

    if trainer.captured is not None:
        trainer.captured.captured.clear()
        gc.collect()
        torch.cuda.empty_cache()


def _without_pace(config: NetworkConfig) -> tuple[type[NetworkConfig], dict[str, Any]]:
    """All settings but those that say how long to run: with others the same weights would mean something else."""
    settings = dataclasses.asdict(config)
    return type(config), {name: value for name, value in settings.items() if name not in ("steps", "settle")}


def _target(out: str | Path | None) -> Path | None:
    if out is None:
        return None
    from equifactor.io.files import check_writable

    path = Path(out)
    if path.suffix != ".safetensors":
        raise OptionError(f"{path}: a model file ends in .safetensors")
    check_writable(path)
    return path


def _data(
    data: Any, weights: Any, validation: Any, task: Task, settings: TrainingSettings, device: str, report: Any
) -> tuple[list[Dataset], str, list[str]]:
    """Training and validation sets on the device, the text that names them, and what was left out."""
    from equifactor.training.batches import Dataset

    def dataset(graphs: list[FactorGraph], targets: list[Any], weights: Any, *, learned: bool) -> Dataset:
        return Dataset(
            graphs, targets, weights, device=device, dtype=settings.dtype, batch_states=settings.batch_states,
            fixed=learned and settings.fixed_batches,
        )  # fmt: skip

    source = read_source(data, settings.seed)
    if weights is not None and len(weights) != len(source.graphs):
        raise OptionError(f"there are {len(source.graphs)} graphs and {len(weights)} weights")
    if weights is not None and not (np.isfinite(weights).all() and np.min(weights) >= 0 and np.any(weights)):
        raise OptionError("weights of graphs must be numbers of 0 or more, one of them above 0")
    graphs, targets, left_out = with_targets(source, task, report)
    if weights is not None and left_out:
        raise OptionError(f"weights cannot be matched, as graphs had to be left out: {left_out[0]}")
    share = _share(settings.validation) if isinstance(validation, (str, float, int)) else None
    if share is None:
        # Seeds that are not given are far from those of training data, so that the two hold different graphs.
        held, held_targets, more = with_targets(read_source(validation, settings.seed + 500_000), task, report)
        parts = [dataset(graphs, targets, weights, learned=True), dataset(held, held_targets, None, learned=False)]
        _note_overlap(parts)
        return parts, f"{source.text}; validation {settings.validation}", left_out + more
    order = np.random.default_rng([settings.seed, 77]).permutation(len(graphs))
    count = max(1, round(share * len(graphs))) if share else 0
    if count >= len(graphs):
        raise OptionError(f"{source.text}: {len(graphs)} graphs cannot be split for validation; give --validation DATA")
    held_out = np.sort(order[:count]).tolist() or list(range(len(graphs)))
    kept = np.sort(order[count:]).tolist()
    given = [1.0] * len(graphs) if weights is None else weights
    pick = [
        dataset([graphs[n] for n in part], [targets[n] for n in part], [given[n] for n in part], learned=part is kept)
        for part in (kept, held_out)
    ]
    if share:
        _note_overlap(pick)
    return pick, f"{source.text}; validation {settings.validation}", left_out


def _text(validation: Any) -> str:
    """How the validation data is called in the model file and the checkpoint."""
    if isinstance(validation, (str, Path, int, float)):
        return str(validation)
    items = [validation] if isinstance(validation, FactorGraph) else validation
    return " + ".join(map(str, items)) if all(isinstance(i, (str, Path)) for i in items) else f"{len(items)} graphs"


def _note_overlap(parts: Sequence[Dataset]) -> None:
    """Say so where validation graphs are among the training graphs, as doubles in a folder or by equal seeds."""
    seen = {fingerprint("", [g]) for g in parts[0].graphs}
    count = sum(fingerprint("", [g]) in seen for g in parts[1].graphs)
    if count:
        logging.getLogger("equifactor").warning(
            "%d of %d validation graphs are training graphs too: validation will look better than it is",
            count, len(parts[1]),
        )  # fmt: skip


def _contents(parts: Sequence[Dataset]) -> str:
    """The same for the same graphs with the same weights: texts such as `20 graphs` do not tell them apart."""
    return fingerprint("".join(p.weights.tobytes().hex() for p in parts), (g for p in parts for g in p.graphs))[:16]


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


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 <= share < 1:
        raise OptionError(f"validation must be a share from 0 to below 1, or DATA; found {text}")
    return share


@contextlib.contextmanager
def _bar(progress: Progress | bool, kind: str, processes: Any) -> Iterator[Progress | None]:
    with bar(progress if processes.is_first else False, f"train {kind}") as report:
        yield report
